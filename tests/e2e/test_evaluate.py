"""The main job as a user runs it: from a command to a table, killed and continued, on bad input, in a sweep."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import SMALL

CLIPS = Path(__file__).resolve().parents[1] / "data" / "videos"


def test_a_run_leaves_everything_a_table_rests_on(finished):
    run = finished.only_run
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "finished" and record["packages"]["numpy"] and record["datasets"]
    for name in ("predictions.jsonl", "metrics.json", "table.md", "table.csv", "table.tex", ".hydra/config.yaml"):
        assert (run / name).stat().st_size > 0, name
    for word in ("chance", "no_evidence", "blind", "robust_to", "clean", "glare", "drop", "n="):
        assert word in finished.stdout, word
    assert "motion blur" in (run / "table.md").read_text()
    rows = [row for row in finished.metrics()["rows"] if row["metric"] == "accuracy" and row["task"] == "micro"]
    by = {(row["method"], row["condition"]): row for row in rows}
    assert by["blind", "clean"]["value"] > by["chance", "clean"]["value"]
    assert by["blind", "clean"]["n"] == by["robust_to", "glare:s3:c0.5"]["n"] > 0
    assert all(0 <= row["value"] <= 1 and row["unscored"] == 0 for row in rows if row["condition"] != "drop")


def test_a_second_run_answers_nothing_again(copied):
    before = copied.count()
    written = (copied.only_run / "predictions.jsonl").stat().st_mtime_ns
    copied.evaluate(*SMALL)
    assert copied.count() == before and (copied.only_run / "predictions.jsonl").stat().st_mtime_ns == written


def test_a_killed_run_continues_to_the_same_metrics(user, finished):
    killed_at = user.evaluate_and_kill(*SMALL, after_lines=5)
    assert 0 < killed_at < finished.count(), "the kill came too early or too late to test anything"
    user.evaluate(*SMALL)
    assert (user.only_run / "metrics.json").read_bytes() == (finished.only_run / "metrics.json").read_bytes()


def test_workers_and_modes_do_not_change_a_number(user, finished):
    overrides = [override for override in SMALL if not override.startswith("workers")]
    for mode in ("precompute", "infer", "score", "table"):
        user.evaluate(*overrides, "workers=2", f"mode={mode}")
    assert (user.only_run / "metrics.json").read_bytes() == (finished.only_run / "metrics.json").read_bytes()
    assert (user.only_run / "table.md").read_bytes() == (finished.only_run / "table.md").read_bytes()


def test_fresh_starts_anew(copied):
    path = copied.only_run / "predictions.jsonl"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    copied.evaluate(*SMALL, "fresh=true")
    assert copied.count() > 1


def test_limit_takes_that_many_questions(user):
    user.evaluate(*SMALL, "limit=3", "methods=[chance]")
    assert user.metrics()["context"]["n_questions"] == 3


def test_suites_of_two_severities_are_pooled_and_never_averaged(user):
    """Precomputed, answered, scored and tabled one by one: each step knows the conditions from the config or the run."""
    suite = "+suites.two={corruption: [motion_blur, glare], severity: [2, 4], coverage: [0.5]}"
    arguments = ["benchmark.n_videos=2", "corruption=[motion_blur,glare]", "workers=0", "name=suites", suite]
    arguments += ["methods=[chance,blind]", "limit=2", "baseline=chance"]
    user.evaluate(*arguments, "mode=precompute")
    result = user.evaluate(*arguments)
    shown = " ".join(result.stdout.split())
    assert "suite two at severity 2, 4 and coverage 0.5" in shown and "Accuracy minus that of chance" in shown
    singles = [f"{name}:s{severity}:c0.5" for name in ("motion_blur", "glare") for severity in (2, 4)]
    metrics = user.metrics()
    assert metrics["context"]["conditions"] == ["clean", *singles]
    assert user.count() == 2 * 2 * len(["clean", *singles])
    rows = {
        (row["method"], row["condition"]): row
        for row in metrics["rows"]
        if (row["metric"], row["task"]) == ("accuracy", "micro")
    }
    for method in ("chance", "blind"):
        for severity in (2, 4):
            single = [rows[method, f"{name}:s{severity}:c0.5"]["value"] for name in ("motion_blur", "glare")]
            pool = rows[method, f"two:s{severity}:c0.5"]
            assert pool["value"] == pytest.approx(sum(single) / 2) and pool["n"] == 4
    assert {condition for _, condition in rows} == {"clean", *singles, "two:s2:c0.5", "two:s4:c0.5"}
    assert {(c["a"], c["b"]) for c in metrics["comparisons"]} == {("blind", "chance")}
    assert "glare s4 c0.5" in (user.only_run / "table.md").read_text()
    user.evaluate(*arguments[:-1], "mode=score")  # another baseline is another reading of the same answers
    assert user.metrics()["rows"] == metrics["rows"]
    assert {(c["a"], c["b"]) for c in user.metrics()["comparisons"]} == {("chance", "blind")}


def write_questions(folder: Path, names: list[str]) -> Path:
    rows = [
        {
            "id": str(i),
            "video": name,
            "question": "Which colours fill the picture?",
            "options": ["red", "blue"],
            "answer": "A",
        }
        for i, name in enumerate(names)
    ]
    path = folder / "questions.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def clips_of(shared: list[str], folder: Path) -> list[str]:
    found = [next(CLIPS.glob(f"{stem}*")) for stem in shared]
    for clip in found:
        shutil.copy(clip, folder / clip.name)
    return [clip.name for clip in found]


BAD = ["v01", "v11", "v12", "v13", "v22", "v06"]


def test_unreadable_videos_are_unscored_and_the_run_goes_on(user, tmp_path):
    file = write_questions(tmp_path, clips_of(BAD, tmp_path))
    arguments = ["benchmark=mcq_jsonl", f"benchmark.file={file}", "corruption=[]", "methods=[blind]", "workers=1"]
    result = user.evaluate(*arguments)
    assert "2 of 6 answers scored" in result.stdout
    (row,) = [r for r in user.metrics()["rows"] if (r["metric"], r["task"]) == ("accuracy", "micro")]
    assert (row["n"], row["unscored"]) == (2, 4) and row["bound_low"] <= row["value"] <= row["bound_high"]
    reasons = [json.loads(line)["reason"] for line in (user.only_run / "predictions.jsonl").read_text().splitlines()]
    assert sum(reason is not None for reason in reasons) == 4
    assert all(Path(name).stem[:3] in "".join(filter(None, reasons)) for name in ("v11", "v12", "v13", "v22"))
    stopped = user.evaluate(*arguments, "on_error=stop", "fresh=true", check=False)
    assert stopped.returncode != 0 and "expected" in stopped.stderr


def test_a_continued_run_tries_its_unscored_questions_again(user, tmp_path):
    good, bad = clips_of(["v06", "v12"], tmp_path)
    file = write_questions(tmp_path, [good, bad])
    arguments = ["benchmark=mcq_jsonl", f"benchmark.file={file}", "corruption=[]", "methods=[blind]", "workers=0"]
    assert "1 of 2 answers scored" in user.evaluate(*arguments).stdout
    user.evaluate(*arguments)
    assert user.count() == 2, "what fails again for the same reason is not stored twice"
    shutil.copy(tmp_path / good, tmp_path / bad)
    assert "1 of 2 answers scored" in user.evaluate(*arguments, "retry_unscored=false").stdout
    assert "2 of 2 answers scored" in user.evaluate(*arguments).stdout
    assert user.count() == 3 and user.metrics()["context"]["duplicates"] == 0


def test_when_nothing_can_be_scored_the_exit_code_says_so(user, tmp_path):
    file = write_questions(tmp_path, clips_of(["v12"], tmp_path))
    result = user.evaluate(
        "benchmark=mcq_jsonl", f"benchmark.file={file}", "corruption=[]", "methods=[blind]", "workers=0", check=False
    )
    assert result.returncode != 0 and "0 of 1 answers could be scored" in result.stderr


def test_a_sweep_finishes_its_good_jobs_and_keeps_the_reason_of_the_bad_one(user):
    result = user.evaluate("-m", *SMALL, "severity=1,99,3", "methods=[chance]", "limit=2", check=False)
    assert result.returncode != 0 and "severity=99; expected 1 to 5" in result.stderr
    records = [json.loads(path.read_text()) for path in user.folder.glob("outputs/evaluate/*/run.json")]
    assert sorted(record["status"] for record in records) == ["failed", "finished", "finished"]
    (failed,) = [record for record in records if record["status"] == "failed"]
    assert "severity=99" in failed["error"] and "severity=99" in failed["overrides"]
    folders = sorted(str(path) for path in (user.folder / "outputs" / "evaluate").iterdir())
    text = user.trustvid("table", *folders, "--out", "sweep.md").stdout
    assert "1 of 3 runs missing: severity=99" in " ".join(text.split())
    assert "severity=1" in (user.folder / "sweep.md").read_text()
    assert user.trustvid("table", folders[0], "--out", "sweep.doc", check=False).returncode == 2


@pytest.mark.parametrize("frames", ["8", "4"])
def test_the_tool_cache_never_serves_another_setting(user, frames):
    """One cache for both: were frames=8 outputs served for frames=4, the selected frames would show it."""
    user.evaluate(*SMALL, f"frames={frames}", "methods=[blind]", "corruption=[]", "limit=2")
    line = json.loads((user.only_run / "predictions.jsonl").read_text().splitlines()[0])
    assert len(line["frames"]) == int(frames)
