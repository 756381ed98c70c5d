"""Runs in the forms of other harnesses, and their predictions as runs: real runs on generated clips, real files.

pytest tests/unit/test_interop.py -q -n 0
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trustvid.benchmarks.digest import questions_digest
from trustvid.benchmarks.sample import Sample
from trustvid.errors import ConfigError, DataError
from trustvid.evaluation.jsonfiles import read_json
from trustvid.evaluation.multirun import table_from_runs
from trustvid.evaluation.store import RunFolder
from trustvid.interop import caption_runs, inspect_log, lmms_eval, question_runs, vlmevalkit
from trustvid.interop.imports import Source, import_run
from trustvid.interop.matching import match
from trustvid.interop.parts import without_folders
from trustvid.interop.replies import Reply
from trustvid.stages import export, import_predictions

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, RunFolder]:
    """One evaluation on questions and one on captions, as the user's commands leave them."""
    folder = tmp_path_factory.mktemp("runs")
    for words in (
        ("methods=[chance,blind]", "corruption=[glare]", "save_trajectories=true", "name=questions"),
        ("benchmark=boxworld_captions", "name=captions"),
    ):
        command = [sys.executable, str(ROOT / "evaluate.py"), "scale=tiny", "workers=1", *words]
        environment = {**os.environ, "TRUSTVID_CACHE": str(folder / "cache")}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
    return {path.name.rpartition("-")[0]: RunFolder(path) for path in (folder / "outputs" / "evaluate").iterdir()}


@pytest.fixture(scope="module")
def questions(runs) -> dict[str, Sample]:
    return question_runs.questions_of(runs["questions"])


def config_of(run: RunFolder) -> dict:
    import yaml

    return yaml.safe_load((run.path / ".hydra" / "config.yaml").read_text())


def part(run: RunFolder, questions, method="blind", condition="clean"):
    parts = question_runs.parts_of(run, questions)
    return next(one for one in parts if (one.method, one.condition) == (method, condition))


def accuracy(metrics: dict, method: str, condition: str) -> dict:
    wanted = {"method": method, "condition": condition, "metric": "accuracy", "task": "micro"}
    (row,) = [row for row in metrics["rows"] if wanted.items() <= row.items()]
    return {key: row[key] for key in ("value", "se", "n", "unscored")}


# -- export ------------------------------------------------------------------------------------------------------------


def test_lmms_eval_files_say_what_the_run_says(runs, questions):
    run = question_runs.run_of(runs["questions"])
    files = dict(lmms_eval.files(run, list(question_runs.parts_of(runs["questions"], questions))))
    assert len(files) == 2 * 2 + 2  # methods × conditions, and results of each method
    (name,) = [name for name in files if name.endswith("_samples_boxworld_clean.jsonl") and "blind" in name]
    lines = [json.loads(line) for line in files[name].splitlines()]
    stored = {p.sample_id: p for p in runs["questions"].load("predictions").records if p.method == "blind"}
    assert [line["doc_id"] for line in lines] == list(range(8))
    for line in lines:
        doc = line["doc"]
        sample = questions[doc["id"]]
        assert (line["target"], doc["question"], doc["options"]) == (sample.answer, sample.question, [*sample.options])
        assert line["accuracy"] in (0.0, 1.0) and line["filtered_resps"][0] in "ABCDE"
        assert f"<answer>{line['filtered_resps'][0]}</answer>" in line["resps"][0][0]
        assert line["doc_hash"] == hashlib.sha256(json.dumps(doc, indent=2).encode()).hexdigest()
        assert stored[doc["id"]].cluster == doc["video"]
    (name,) = [name for name in files if name.endswith("results.json") and "blind" in name]
    results = json.loads(files[name])
    row = accuracy(read_json(runs["questions"].path / "metrics.json"), "blind", "clean")
    assert results["results"]["boxworld_clean"]["accuracy,none"] == row["value"]
    assert results["results"]["boxworld_clean"]["accuracy_stderr,none"] == row["se"]
    assert results["n-samples"]["boxworld_clean"] == {"original": 8, "effective": 8}
    assert row["value"] == sum(line["accuracy"] for line in lines) / 8


def test_exports_repeat_to_the_byte_and_name_no_folder(runs, questions, tmp_path, capsys):
    for kind in ("questions", "captions"):
        for form in ("lmms_eval", "inspect"):
            texts = []
            for out in (tmp_path / f"{kind}{form}1", tmp_path / f"{kind}{form}2"):
                assert export.run(arguments(export, str(runs[kind].path), "--to", form, "--out", str(out))) == 0
                texts.append({str(p.relative_to(out)): p.read_text() for p in sorted(out.rglob("*.json*"))})
            assert texts[0] == texts[1] and texts[0]
            folders = (str(tmp_path), str(runs[kind].path.parent), str(ROOT))
            assert not [name for name, text in texts[0].items() if any(folder in text for folder in folders)]
    assert "32 samples, 0 of them unscored" in capsys.readouterr().out


def test_unscored_samples_leave_as_unscored(runs, questions):
    whole = part(runs["questions"], questions)
    lost = replace(whole.items[0], scores={}, answer=None, reason="a.mp4: no index")
    run, spoilt = question_runs.run_of(runs["questions"]), replace(whole, items=(lost, *whole.items[1:]))
    files = dict(lmms_eval.files(run, [spoilt]))
    lines = [json.loads(line) for name in files if name.endswith("jsonl") for line in files[name].splitlines()]
    assert "accuracy" not in lines[0] and not lines[0]["trustvid"]["scored"] and "accuracy" in lines[1]
    results = json.loads(next(text for name, text in files.items() if name.endswith("results.json")))
    assert results["n-samples"]["boxworld_clean"] == {"original": 8, "effective": 7}
    log = json.loads(next(inspect_log.files(run, [spoilt]))[1])
    assert log["samples"][0]["error"]["message"] == "a.mp4: no index" and "scores" not in log["samples"][0]
    assert (log["results"]["total_samples"], log["results"]["completed_samples"]) == (8, 7)
    assert log["results"]["scores"][0]["unscored_samples"] == 1


def test_inspect_log_holds_conversation_and_scores(runs, questions):
    run, one = question_runs.run_of(runs["questions"]), part(runs["questions"], questions, condition="glare:s3:c0.5")
    name, text = next(inspect_log.files(run, [one]))
    log = json.loads(text)
    assert name.startswith(run.record["started"][:10]) and name.endswith(f"_{log['eval']['eval_id']}.json")
    assert log["version"] == 2 and log["status"] == "success" and log["eval"]["dataset"]["samples"] == 8
    for sample in log["samples"]:
        assert [m["role"] for m in sample["messages"]][:2] == ["system", "user"]
        assert sample["output"]["completion"] == sample["messages"][-1]["content"]
        assert sample["choices"] == list(questions[sample["id"]].options)
        right = sample["scores"]["accuracy"]["answer"] == sample["target"]
        assert sample["scores"]["accuracy"]["value"] == float(right)


def test_inspect_reads_the_files_back(runs, questions, tmp_path):
    pytest.importorskip("inspect_ai", reason="inspect_ai's own reader checks the form where it is installed")
    from inspect_ai.log import list_eval_logs, read_eval_log

    run = question_runs.run_of(runs["questions"])
    parts = [*question_runs.parts_of(runs["questions"], questions), *caption_runs.parts_of(runs["captions"])]
    for name, text in inspect_log.files(run, parts):
        (tmp_path / name).write_text(text)
        log = read_eval_log(str(tmp_path / name))
        assert log.status == "success" and len(log.samples) == 8 and all(sample.scores for sample in log.samples)
    assert len(list_eval_logs(str(tmp_path))) == len(parts)


def test_captions_leave_with_their_verdicts(runs):
    run, parts = caption_runs.run_of(runs["captions"]), list(caption_runs.parts_of(runs["captions"]))
    assert [one.condition for one in parts] == [f"rules={mode}, judge=rules_only" for mode in ("upstream", "strict")]
    metrics = read_json(runs["captions"].path / "metrics.json")
    for one in parts:
        mode = one.condition.partition(",")[0]
        wanted = {"condition": mode, "task": "all", "metric": "isr"}
        (row,) = [row for row in metrics["rows"] if wanted.items() <= row.items()]
        values = [item.scores["isr"] for item in one.items if "isr" in item.scores]
        assert one.summaries["isr"]["isr"].value == row["value"] == pytest.approx(sum(values) / len(values))
        assert all(item.turns[0].text == item.question and item.details["verdicts"] for item in one.items)
    log = json.loads(next(inspect_log.files(run, parts))[1])
    assert set(log["samples"][0]["scores"]) == {"isr", "csr"}


def test_export_refuses_other_questions_and_foreign_classes(runs, tmp_path):
    spoilt = RunFolder(shutil.copytree(runs["questions"].path, tmp_path / "run"))
    path = spoilt.path / ".hydra" / "config.yaml"
    text = path.read_text()
    path.write_text(text.replace("limit: 8", "limit: 4"))
    with pytest.raises(DataError, match="other questions"):
        question_runs.questions_of(spoilt)
    path.write_text(text.replace("trustvid.benchmarks.boxworld.benchmark.BoxWorld", "os.system"))
    with pytest.raises(DataError, match=r"os\.system"):
        question_runs.questions_of(spoilt)
    path.unlink()
    with pytest.raises(DataError, match="without their texts"):
        question_runs.questions_of(spoilt)
    assert part(spoilt, None).items[0].question == ""
    with (spoilt.path / "predictions.jsonl").open("a") as file:
        lost = {"answer": None, "score": None, "confidence": None, "confidence_source": None, "reason": "gone"}
        first = json.loads((spoilt.path / "predictions.jsonl").read_text().splitlines()[0])
        file.write(json.dumps(first | lost | {"status": "unscored", "sample_id": "new"}) + "\n")
    with pytest.raises(DataError, match="mode=score first"):
        list(question_runs.parts_of(spoilt, None))
    (spoilt.path / "metrics.json").unlink()
    with pytest.raises(DataError, match="mode=score"):
        question_runs.run_of(spoilt)


def test_absolute_paths_lose_their_folders_and_tags_stay():
    assert without_folders("open /data/x/a.mp4: gone") == "open a.mp4: gone"
    assert without_folders("C:\\data\\a.mp4 and ('/data/b/c.mp4')") == "a.mp4 and ('c.mp4')"
    kept = "<think>left/right</think><answer>B</answer> https://example.org/a/b 3/4"
    assert without_folders(kept) == kept


def test_the_digest_is_the_one_runs_are_stamped_with(runs, questions):
    stamped = runs["questions"].existing_run()["datasets"]["boxworld"]
    assert stamped == questions_digest(list(questions.values()))


# -- import ------------------------------------------------------------------------------------------------------------


def rows_of(run: RunFolder, questions, method="blind") -> list[dict]:
    """VLMEvalKit's columns: row numbers as index, options in columns of their own, whole replies."""
    rows = []
    for number, item in enumerate(part(run, questions, method).items):
        letters = {"ABCDE"[i]: text for i, text in enumerate(item.options)}
        question = {"index": number, "video": item.video, "question": item.question, "category": item.task}
        rows.append({**question, **letters, "answer": item.target, "prediction": item.reply})
    return rows


def write_rows(path: Path, rows: list[dict]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".xlsx":
        import openpyxl

        book = openpyxl.Workbook()
        for row in ([*names], *([row.get(name) for name in names] for row in rows)):
            book.active.append(row)
        book.save(path)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, names, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


@pytest.mark.parametrize("ending", ["xlsx", "tsv", "csv", "json"])
def test_own_replies_come_back_with_their_scores(runs, questions, tmp_path, ending):
    path = write_rows(tmp_path / f"blind_BoxWorld.{ending}", rows_of(runs["questions"], questions))
    done = import_run([Source(path, "theirs")], "vlmevalkit", config_of(runs["questions"]), tmp_path, "imported")
    (found,) = done.matched.values()
    assert len(found.replies) == 8 and not found.refused
    ours = accuracy(read_json(runs["questions"].path / "metrics.json"), "blind", "clean")
    assert accuracy(read_json(done.folder.path / "metrics.json"), "theirs", "clean") == ours
    stored = {p.sample_id: p for p in runs["questions"].load("predictions").records if p.key[1:] == ("blind", "clean")}
    for one in done.folder.load("predictions").records:
        assert (one.answer, one.confidence) == (stored[one.sample_id].answer, stored[one.sample_id].confidence)
    run = done.folder.existing_run()
    assert run["datasets"][f"file {path.name}"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert questions == question_runs.questions_of(done.folder)  # so that an imported run can be exported
    table = table_from_runs([runs["questions"].path, done.folder.path])
    assert {row[[h.name for h in table.headers].index("method")] for row in table.rows} >= {"theirs", "blind"}


def test_a_samples_log_comes_back_with_its_scores(runs, questions, tmp_path):
    run, one = question_runs.run_of(runs["questions"]), part(runs["questions"], questions)
    files = dict(lmms_eval.files(run, [one]))
    (name,) = [name for name in files if name.endswith("jsonl")]
    path = tmp_path / "samples.jsonl"
    path.write_text(files[name])
    config = config_of(runs["questions"])
    done = import_run([Source(path, "theirs")], "lmms_eval", config, tmp_path, "imported")
    ours = accuracy(read_json(runs["questions"].path / "metrics.json"), "blind", "clean")
    assert accuracy(read_json(done.folder.path / "metrics.json"), "theirs", "clean") == ours
    # Newer versions write neither doc nor resps: the prompt and the filtered reply are all there is.
    lines = [json.loads(line) for line in files[name].splitlines()]
    bare = [{key: line[key] for key in ("doc_id", "input", "target", "filtered_resps")} for line in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in bare))
    done = import_run([Source(path, "bare")], "lmms_eval", config, tmp_path, "imported")
    assert accuracy(read_json(done.folder.path / "metrics.json"), "bare", "clean") == ours


def test_failed_calls_and_gaps_are_unscored_and_doubtful_rows_refused(runs, questions, tmp_path):
    rows = rows_of(runs["questions"], questions)
    rows[0]["prediction"] = "Failed to obtain answer via API."
    rows[1]["prediction"] = ""
    rows[2]["question"] = "What is the capital of France?"
    rows[3]["A"], rows[3]["B"] = rows[3]["B"], rows[3]["A"]
    rows[4]["answer"] = "ABCD"["BCDA".index(rows[4]["answer"])] if rows[4]["answer"] in "ABCD" else "A"
    rows.append(dict(rows[5]))
    rows[6]["prediction"] = "I cannot tell."
    path = write_rows(tmp_path / "theirs.xlsx", rows)
    done = import_run([Source(path, "theirs")], "vlmevalkit", config_of(runs["questions"]), tmp_path, "imported")
    (found,) = done.matched.values()
    assert len(found.replies) == 4
    reasons = [row.reason for row in found.refused]
    for words in ("no question has its text", "its options are not", "its right answer is", "2 rows answer question"):
        assert any(words in reason for reason in reasons), reasons
    row = accuracy(read_json(done.folder.path / "metrics.json"), "theirs", "clean")
    assert (row["n"], row["unscored"]) == (2, 6)
    by_status = [one.status for one in done.folder.load("predictions").records]
    assert by_status.count("unscored") == 6 and by_status.count("abstained") == 1
    account = read_json(done.folder.path / "imported.json")
    assert len(account["refused"]) == 5 and account["files"][0]["name"] == "theirs.xlsx"


def test_a_file_of_other_questions_is_refused_whole(runs, questions, tmp_path):
    rows = [{**row, "question": f"Other question {i}?"} for i, row in enumerate(rows_of(runs["questions"], questions))]
    path = write_rows(tmp_path / "other.json", rows)
    with pytest.raises(DataError, match="no row has a question of boxworld"):
        import_run([Source(path, "theirs")], "vlmevalkit", config_of(runs["questions"]), tmp_path, "imported")
    assert not (tmp_path / "evaluate").exists()


SAMPLES = [
    Sample("7", Path("/v/a.mp4"), "a", "LP", "Where is it?", ("left", "right"), "A"),
    Sample("8", Path("/v/b.mp4"), "b", "LP", "Where is it?", ("left", "right"), "B"),
    Sample("9", Path("/v/b.mp4"), "b", "Count", "How many chairs?", (), "4", "numeric"),
]


def reply(**changes) -> Reply:
    plain = Reply("f.tsv, row 1", "", "", "", (), "", "B", None)
    return replace(plain, **changes)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (reply(id="7"), "7"),
        (reply(id="8", question="Question: Where is it? Options: A. left B. right"), "8"),
        (reply(id="0", question="Where is it?", video="clips/b.mp4"), "8"),
        (reply(id="0", question="WHERE IS IT", video="C:\\v\\a.mp4", options=("left", "right"), answer="left"), "7"),
        (reply(id="9", question="How many chairs?", answer="4.0"), "9"),
        (reply(id="7", question="How many chairs?"), "9"),
        (reply(id="0", question="Where is it?"), "its text is that of 2 questions"),
        (reply(id="0", question="Where is it?", video="c.mp4"), "no question has its text and video"),
        (reply(id="1"), "no question has the id '1'"),
        (reply(id="7", answer="B"), "its right answer is 'B'"),
        (reply(id="9", answer="5"), "its right answer is '5'"),
        (reply(id="7", options=("right", "left")), "its options are not those"),
    ],
)
def test_matching(row, expected):
    found = match([row], SAMPLES)
    if found.refused:
        assert expected in found.refused[0].reason and not found.replies
    else:
        assert list(found.replies) == [expected]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.pkl", "", "unknown form '.pkl'"),
        ("a.xlsx", "no workbook", "is no Excel workbook"),
        ("a.json", "{", "is no JSON"),
        ("a.json", "[1]", "neither a list of rows"),
        ("a.tsv", "index\tquestion\n1\tWhy?\n", "has the columns index, question"),
        ("a.csv", "index,prediction\n1,B,C\n", "more cells"),
    ],
)
def test_files_that_are_none_are_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match="a\\.") as error:
        vlmevalkit.read_replies(tmp_path / name)
    assert message in str(error.value) and "VLMEvalKit" in str(error.value)


def test_columns_of_rows_and_lists_of_options_are_read(tmp_path):
    path = tmp_path / "a.json"
    columns = {"id": {"0": 4}, "prediction": {"0": 2.5}, "options": {"0": "['A. left', 'B. right']"}}
    path.write_text(json.dumps(columns))
    (row,) = vlmevalkit.read_replies(path)
    assert (row.id, row.text, row.options) == ("4", "2.5", ("left", "right"))


# -- commands ----------------------------------------------------------------------------------------------------------


def arguments(stage, *words: str):
    import argparse

    parser = argparse.ArgumentParser()
    stage.add_arguments(parser)
    return parser.parse_args(words)


def test_the_import_command_tables_the_run(runs, questions, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_rows(tmp_path / "theirs.tsv", rows_of(runs["questions"], questions))
    root = config_of(runs["questions"])["benchmark"]["root"]
    words = ["--format", "vlmevalkit", "--benchmark", "boxworld", "--data-dir", root]
    words += ["--method", "theirs", "--override", "scale=tiny", f"paths.outputs={tmp_path / 'outputs'}"]
    assert import_predictions.run(arguments(import_predictions, str(path), *words)) == 0
    out = capsys.readouterr().out
    assert "theirs, clean: 8 rows matched, 0 refused" in out and "imported from vlmevalkit" in out
    for wrong, message in (
        (["--method", "a", "b", "c"], "3 words for 1 files"),
        (["--condition", "glare s3"], "--condition: "),
    ):
        with pytest.raises(ConfigError, match=message):
            import_predictions.run(arguments(import_predictions, str(path), *words, *wrong))
