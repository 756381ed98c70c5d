"""Captions as a user runs them: written or imported, judged, scored, killed and continued, with bad input and bad judges."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, User
from trustvid.captioning.files import read_results
from trustvid.captioning.published_metrics import published_fractions

DATA = ROOT / "tests" / "data" / "if_vidcap"
RESPONSES = DATA / "response"
IMPORT = ["benchmark=if_vidcap", f"data_dir={DATA}", "name=imported"]
WRITE = ["benchmark=boxworld_captions", "benchmark.n_videos=2", "frames=12", "workers=1", "name=written"]


def files_of(*names: str) -> str:
    return "responses=[" + ",".join(str(RESPONSES / f"{name}_response.json") for name in names) + "]"


def rows_of(user: User, metric: str = "csr_micro", condition: str = "rules=strict") -> dict[str, dict]:
    found = user.metrics()["rows"]
    keep = [row for row in found if (row["task"], row["metric"], row["condition"]) == ("all", metric, condition)]
    return {f"{row['method']}/{row['judge']}": row for row in keep}


@pytest.fixture(scope="module")
def written(tmp_path_factory, cache_dir) -> User:
    """A user whose captions were written, judged and scored."""
    someone = User(tmp_path_factory.mktemp("written"), cache_dir)
    someone.stdout = someone.evaluate(*WRITE).stdout
    return someone


def test_captions_are_written_from_the_video_judged_and_tabled(written):
    run = written.only_run
    for name in ("tasks", "responses", "judgements", "scores"):
        assert len((run / f"{name}.jsonl").read_text().splitlines()) == 8, name
    for name in ("metrics.json", "errors.md", "statistics.json", "table.csv", "table.tex", "judges.json"):
        assert (run / name).stat().st_size > 0, name
    row = rows_of(written)["scripted/rules_only"]
    assert row["value"] > 0.6 and row["n"] + row["unscored"] == written.metrics()["context"]["n_constraints"]
    table = (run / "table.md").read_text()
    for words in (
        "boxworld_captions, split val, captions by scripted",
        "rules_only",
        "strict",
        "upstream",
        "CSR macro",
    ):
        assert words in table
    # The captioner sees the clip, not the checklist: nothing it writes is a constant of the instruction.
    texts = [json.loads(line)["text"] for line in (run / "responses.jsonl").read_text().splitlines()]
    assert len(set(texts)) == len(texts) and json.loads((run / "run.json").read_text())["status"] == "finished"


def test_a_second_judge_adds_rows_and_asks_the_captioner_nothing(written):
    before = (written.only_run / "responses.jsonl").stat().st_mtime_ns
    first = rows_of(written)["scripted/rules_only"]
    judged = (written.only_run / "judgements.jsonl").read_text()
    written.evaluate(*WRITE, "judge=mock")
    assert (written.only_run / "responses.jsonl").stat().st_mtime_ns == before
    assert (written.only_run / "judgements.jsonl").read_text().startswith(judged)
    rows = rows_of(written)
    assert rows["scripted/rules_only"] == first and set(rows) == {"scripted/rules_only", "scripted/mock"}


def test_a_killed_run_continues_to_the_same_numbers(user, written):
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "evaluate.py"), *WRITE],
        cwd=user.folder,
        env=user.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None and lines(user, "responses") < 2:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert lines(user, "responses") >= 2, "killed too early to test anything"
    with (user.only_run / "responses.jsonl").open("ab") as file:
        file.write(b'{"captioner": "scripted", "task_')  # what a kill inside a write leaves
    user.evaluate(*WRITE)
    assert lines(user, "responses") == lines(user, "judgements") == 8
    assert rows_of(user)["scripted/rules_only"] == rows_of(written)["scripted/rules_only"]


def lines(user: User, name: str) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in user.folder.glob(f"outputs/evaluate/*/{name}.jsonl"))


def test_responses_of_known_truth_measure_the_judge(user):
    result = user.evaluate(*WRITE, "responses=planted", "name=planted")
    rows = {row["metric"]: row for row in user.metrics()["agreement"] if row["task"] == "all"}
    strict = {
        row["metric"]: row["value"]
        for row in user.metrics()["agreement"]
        if (row["task"], row["condition"]) == ("all", "rules=strict")
    }
    assert strict["agreement/rule_based"] >= 0.95 and strict["detection/rule_based"] >= 0.95
    assert rows["agreement"]["n"] > 300 and "Agreement of judges" in result.stdout


# -- responses written elsewhere ---------------------------------------------------------------------------------------


def test_imported_responses_are_compared_and_bad_ones_are_unscored(user):
    result = user.evaluate(*IMPORT, files_of("good", "weak", "bad"))
    rows = rows_of(user)
    good, weak, bad = (rows[f"{name}/rules_only"] for name in ("good", "weak", "bad"))
    assert good["value"] > weak["value"] and good["unscored"] <= 1
    assert bad["unscored"] >= 9 and bad["bound_low"] < bad["value"] <= bad["bound_high"] == 1.0
    assert "bad, judged by rules_only: 1 of 5 instructions scored" in result.stdout
    reasons = {entry["reason"]: entry["n"] for entry in user.metrics()["context"]["unjudged"]}
    assert reasons == {
        "2 different responses under one id": 1,
        "the response is empty": 1,
        "the response is null, not text": 1,
        "no response": 1,
    }
    (difference,) = [
        c
        for c in user.metrics()["comparisons"]
        if (c["a"], c["metric"], c["condition"]) == ("weak", "csr_micro", "rules=strict")
    ]
    assert difference["b"] == "good" and difference["diff"] < 0 and difference["n"] <= good["n"]
    assert "belongs to no instruction" in result.stderr
    (line,) = [line for line in (user.only_run / "table.md").read_text().splitlines() if line.startswith("| bad ")][:1]
    assert "(n=" in line and "**" not in line, "one good response of five is no best captioner"


def test_results_are_exported_as_the_published_script_reads_them(user):
    user.evaluate(*IMPORT, files_of("weak"))
    for mode in ("strict", "upstream"):
        path = user.only_run / "results" / "rules_only" / mode / "weak_check_result.json"
        results, problems = read_results(path)
        assert len(results) == 5 and not problems
        row = rows_of(user, condition=f"rules={mode}")["weak/rules_only"]
        published = published_fractions(json.loads(path.read_text(encoding="utf-8")))
        assert published["csr"] == pytest.approx(row["bound_low"]), "an item without a verdict counts as failed there"


def test_scoring_again_is_offline_and_gives_the_same_bytes_and_rules_pick_the_headline_only(user):
    user.evaluate(*IMPORT, files_of("good", "weak"))
    before = (user.only_run / "metrics.json").read_bytes()
    user.evaluate(*IMPORT, files_of("good", "weak"), "mode=score")
    assert (user.only_run / "metrics.json").read_bytes() == before
    rows = user.metrics()["rows"]
    user.evaluate(*IMPORT, files_of("good", "weak"), "mode=score", "rules=upstream")
    assert user.metrics()["rows"] == rows and user.metrics()["context"]["headline"] == "upstream"
    first_rows = [line for line in (user.only_run / "table.md").read_text().splitlines() if line.startswith("| good")]
    assert "upstream" in first_rows[0] and "strict" in first_rows[1]


def test_a_reference_file_measures_the_judge_too(user, tmp_path):
    user.evaluate(*IMPORT, files_of("good"))
    people = user.only_run / "results" / "rules_only" / "strict" / "good_check_result.json"
    user.evaluate(*IMPORT, files_of("good"), "mode=score", f"reference={people}")
    rows = {
        row["metric"]: row
        for row in user.metrics()["agreement"]
        if (row["task"], row["condition"]) == ("all", "rules=strict")
    }
    assert rows["agreement"]["value"] == 1.0 and rows["agreement"]["n"] > 10


# -- when it cannot work -----------------------------------------------------------------------------------------------


def test_a_judge_that_never_answers_gives_no_number_and_a_failing_exit_code(user):
    result = user.evaluate(*IMPORT, files_of("good"), "judge=mock", "judge.fail_rate=1.0", check=False)
    assert result.returncode != 0 and "0 of 5 instructions could be scored" in result.stderr
    assert "CSR" not in result.stdout and not list(user.folder.glob("outputs/evaluate/*/table.md"))
    mended = user.evaluate(*IMPORT, files_of("good"), "judge=mock")
    assert "5 of 5 instructions scored" in mended.stdout


def test_steps_that_lack_the_one_before_say_which(user):
    for mode, needed in (("judge", "mode=infer"), ("table", "mode=score")):
        result = user.evaluate(*IMPORT, files_of("good"), f"mode={mode}", check=False)
        assert result.returncode != 0 and needed in result.stderr, mode
    result = user.evaluate("benchmark=boxworld_captions", "rules=mild", "mode=precompute", "evidence=some", check=False)
    for fault in ("rules=mild", "mode=precompute", "evidence=some"):
        assert fault in result.stderr, "all faults in one message"


def test_without_videos_captions_are_unscored_with_the_place_that_was_looked_at(user):
    result = user.evaluate(*IMPORT, "workers=0", check=False)
    assert result.returncode != 0 and "missing video" in result.stderr and "0 of 5" in result.stderr
    assert len(list(Path(user.only_run).glob("responses.jsonl"))) == 1
