"""Records and run folder: what is written survives a kill, and what is read is what was written.

pytest tests/unit/test_store.py -q -n 0
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trustvid.benchmarks.sample import Sample
from trustvid.errors import DataError
from trustvid.evaluation import store
from trustvid.evaluation.jsonfiles import dump_json
from trustvid.evaluation.metrics import compute_metrics
from trustvid.evaluation.provenance import environment, source_commit
from trustvid.evaluation.records import Condition, Prediction, TierCounts
from trustvid.evaluation.store import RunBusyError, RunFolder, RunInfo, config_hash

INFO = RunInfo("demo", "0123456789", datasets={"boxworld": "aa"}, seeds={"corruption": 0}, decode={"k": 8})
CONTEXT = {"benchmark": "boxworld", "split": "val", "policy": "scripted"}


def prediction(**changes) -> Prediction:
    fields = {
        "sample_id": "q1",
        "cluster": "v1",
        "task": "LP",
        "method": "blind",
        "condition": "clean",
        "truth": "A",
        "answer": "B",
        "score": 0.0,
        "confidence": 0.7,
        "confidence_source": "pooled",
        "status": "ok",
        "tiers": TierCounts(1, 2, 0),
        "calls": 3,
        "failures": 1,
        "cost": 0.9,
        "frames": (0, 9, 18),
    }
    return Prediction(**{**fields, **changes})


def many(n: int = 12) -> list[Prediction]:
    rng = np.random.default_rng(7)
    return [
        prediction(
            sample_id=f"q{i:02}",
            cluster=f"v{i // 3}",
            task="LP" if i % 2 else "AO",
            method=method,
            condition=condition,
            score=float(rng.random() < 0.6),
            confidence=round(rng.random(), 3),
        )
        for i in range(n)
        for method in ("blind", "robust_to")
        for condition in ("clean", "glare:s3:c0.5")
    ]


# -- records -----------------------------------------------------------------------------------------------------------


def test_a_prediction_survives_json():
    for record in (
        prediction(),
        prediction(status="abstained", answer=None, confidence=None, confidence_source=None),
        prediction(status="unparsed", answer=None, reason="no letter in 'ok \ud800'"),
        prediction(condition="glare:s3:c0.5", score=0.35, answer="3.5", truth="4"),
    ):
        assert Prediction.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_an_unscored_prediction_keeps_what_is_known_of_its_sample():
    sample = Sample("q1", Path("/d/v.mp4"), "v", "LP", "Where?", ("a", "b"), "B")
    record = Prediction.unscored(sample, "blind", "clean", "v.mp4: no index")
    assert (record.key, record.truth, record.score, record.status) == (("q1", "blind", "clean"), "B", None, "unscored")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"score": 1.5}, "outside 0–1"),
        ({"score": float("nan")}, "outside 0–1"),
        ({"score": None}, "exactly when the answer is unscored"),
        ({"status": "unscored", "answer": None, "reason": "x"}, "exactly when the answer is unscored"),
        ({"status": "unparsed", "answer": None, "reason": None}, "needs a reason"),
        ({"status": "abstained", "answer": None, "score": 1.0}, "scores 0"),
        ({"status": "wrong"}, "none of"),
        ({"answer": None}, "answer is given exactly"),
        ({"confidence_source": None}, "come together"),
        ({"confidence_source": "guess"}, "none of"),
        ({"failures": 4}, "outside 0…calls"),
        ({"frames": (np.int64(3),)}, "not a tuple of ints"),
        ({"frames": (-1,)}, "negative"),
        ({"calls": True}, "not an int"),
        ({"cluster": ""}, "cluster is empty"),
        ({"condition": "glare at 3"}, "condition"),
        ({"cost": float("inf")}, "not finite"),
    ],
)
def test_a_contradictory_prediction_is_refused(changes, word):
    with pytest.raises(ValueError, match=word):
        prediction(**changes)


@pytest.mark.parametrize("change", ["missing", "unknown", "type", "tiers"])
def test_a_record_with_other_fields_is_refused(change):
    record = prediction().to_json()
    if change == "missing":
        del record["cost"]
    elif change == "unknown":
        record["extra"] = 1
    elif change == "type":
        record["score"] = "1"
    else:
        record["tiers"] = {"high": 1}
    with pytest.raises(DataError):
        Prediction.from_json(record)


def test_conditions_have_one_spelling():
    for text in ("clean", "glare:s3:c0.5", "motion_blur:s5:c1", "glare:s2"):
        assert Condition.parse(text).text == text
    with pytest.raises(ValueError, match="glare:x"):
        Condition.parse("glare:x")


# -- config hash -------------------------------------------------------------------------------------------------------

CONFIG = {
    "seed": 0,
    "corruption": {"name": "glare", "severity": 3},
    "policy": {"prompt": "full", "temperature": 0.0, "device": "cpu"},
    "reader": {"backend": "auto"},
    "frames": 8,
    "paths": {"root": "/a"},
    "workers": 2,
}


def test_the_hash_ignores_order_paths_and_workers():
    other = dict(reversed(CONFIG.items()))
    other |= {
        "workers": 8,
        "paths": {"root": "/b"},
        "fresh": True,
        "mode": "infer",
        "progress": False,
        "device": "cuda",
    }
    other["policy"] = {**CONFIG["policy"], "device": "cuda:1"}
    assert config_hash(other) == config_hash(CONFIG)
    assert len(config_hash(CONFIG)) == 10


@pytest.mark.parametrize(
    "change",
    [
        {"frames": 16},
        {"seed": 1},
        {"seed": "0"},
        {"corruption": {"name": "low_light", "severity": 3}},
        {"corruption": {"name": "glare", "severity": 4}},
        {"policy": {"prompt": "compact", "temperature": 0.0, "device": "cpu"}},
        {"policy": {"prompt": "full", "temperature": 0.7, "device": "cpu"}},
        {"reader": {"backend": "pyav"}},
        {"tools": {"read_text": {"mode": "fast"}}},  # a group's own "mode" is a setting
    ],
)
def test_every_setting_that_changes_answers_changes_the_hash(change):
    assert config_hash({**CONFIG, **change}) != config_hash(CONFIG)


def test_commit_is_that_of_the_checkout_itself(tmp_path):
    assert source_commit(tmp_path) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "file").write_text("1")
    for words in (["init", "-q"], ["add", "file"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert source_commit(tmp_path) == head
    (tmp_path / "file").write_text("2")
    assert source_commit(tmp_path) == f"{head}-dirty"
    (tmp_path / "inner").mkdir()
    assert source_commit(tmp_path / "inner") is None


# -- run folder --------------------------------------------------------------------------------------------------------


def test_a_run_writes_its_records_and_says_what_they_are(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert folder.run() is None
    assert folder.done_keys() == set()
    with folder.writing(INFO) as writer:
        assert folder.run()["status"] == "running"
        writer.append("predictions", many())
        writer.append("rejected", [{"id": "x", "reason": "no options"}])
    run = folder.run()
    assert (run["status"], run["config_hash"], run["seeds"]) == ("finished", "0123456789", {"corruption": 0})
    assert run["files"] == ["predictions.jsonl", "rejected.jsonl"]
    assert run["packages"]["numpy"] == np.__version__
    assert folder.load("predictions").records == tuple(many())
    assert folder.load("rejected").records == ({"id": "x", "reason": "no options"},)
    assert folder.done_keys() == {record.key for record in many()}


def test_an_error_marks_the_run_as_failed_and_goes_on(tmp_path):
    folder = RunFolder(tmp_path)
    with pytest.raises(KeyError), folder.writing(INFO):
        raise KeyError("gone")
    assert (folder.run()["status"], folder.run()["error"]) == ("failed", "KeyError: 'gone'")
    with folder.writing(INFO) as writer:
        writer.append("predictions", many(1))
    with folder.writing(INFO):
        pass
    run = folder.run()
    assert (run["status"], run["error"], len(run["continued"])) == ("finished", None, 1)


def test_a_run_that_failed_before_its_first_record_binds_nobody(tmp_path):
    folder = RunFolder(tmp_path)
    with pytest.raises(KeyError), folder.writing(replace(INFO, datasets={})) as writer:
        writer.write_text("config.yaml", "a: 1")
        raise KeyError("gone")
    with folder.writing(INFO) as writer:
        writer.write_text("config.yaml", "a: 2")
    assert folder.run()["datasets"] == INFO.datasets


def test_only_one_process_writes(tmp_path):
    folder = RunFolder(tmp_path)
    code = f"""
        from trustvid.evaluation.store import *
        try:
            with RunFolder({str(tmp_path)!r}).writing(RunInfo("demo", "0123456789", datasets={{"boxworld": "aa"}})):
                print("got in")
        except RunBusyError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with folder.writing(INFO) as writer:
        second = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "another process is writing this run" in second
        assert str(tmp_path) in second
        with pytest.raises(RunBusyError), folder.reporting():
            pass
        writer.append("predictions", many())
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "got in\n"


@pytest.mark.parametrize(
    ("info", "word"),
    [
        (replace(INFO, config_hash="ffffffffff"), "config_hash"),
        (replace(INFO, datasets={"boxworld": "bb"}), "datasets"),  # the data file was replaced in place
    ],
)
def test_a_run_of_other_settings_or_data_is_not_continued(tmp_path, info, word):
    folder = RunFolder(tmp_path)
    with folder.writing(INFO) as writer:
        writer.append("predictions", many())
    with pytest.raises(DataError, match=rf"{word} was .* fresh=true"), folder.writing(info):
        pass
    assert folder.load("predictions").records == tuple(many())
    with folder.writing(info, fresh=True):
        assert folder.load("predictions").records == ()


def test_fresh_removes_only_what_the_run_made(tmp_path):
    folder = RunFolder(tmp_path)
    with folder.writing(INFO) as writer:
        writer.append("predictions", many())
        writer.write_text("figures/curve.svg", "<svg/>")
    (tmp_path / "notes.jsonl").write_text("mine")
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "config.yaml").write_text("a: 1")
    with folder.writing(INFO, fresh=True) as writer:
        names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
        assert names == {"notes.jsonl", ".hydra/config.yaml", "run.json", ".lock"}
        with pytest.raises(DataError, match="not made by this run"):
            writer.append("notes", [{"a": 1}])
    assert (tmp_path / "notes.jsonl").read_text() == "mine"


@pytest.mark.parametrize("name", ["../evil.json", "/evil.json", "a/../../evil.json", "", "run.json"])
def test_files_of_a_run_stay_inside_it(tmp_path, name):
    with RunFolder(tmp_path / "run").writing(INFO) as writer, pytest.raises(ValueError, match="no name of a file"):
        writer.write_text(name, "x")


def test_fresh_refuses_a_list_that_leads_outside(tmp_path):
    folder, victim = RunFolder(tmp_path / "run"), tmp_path / "victim"
    victim.write_text("keep")
    with folder.writing(INFO) as writer:
        writer.append("predictions", many())
    path = folder.path / "run.json"
    path.write_text(path.read_text().replace("predictions.jsonl", "../victim"))
    with pytest.raises(DataError, match="outside the run folder"), folder.writing(INFO, fresh=True):
        pass
    assert victim.exists()


def test_records_without_their_run_json_are_not_adopted(tmp_path):
    (tmp_path / "predictions.jsonl").write_text("")
    with pytest.raises(DataError, match=r"no run\.json"), RunFolder(tmp_path).writing(INFO):
        pass


def test_a_damaged_run_json_is_named(tmp_path):
    (tmp_path / "run.json").write_text('{"status": "run')
    with pytest.raises(DataError, match=r"run\.json"):
        RunFolder(tmp_path).run()
    (tmp_path / "run.json").write_text('{"status": "running"}')
    with pytest.raises(DataError, match="lacks"):
        RunFolder(tmp_path).run()


def test_reports_leave_the_status_alone(tmp_path):
    folder = RunFolder(tmp_path)
    with pytest.raises(DataError, match="folder of a run"), folder.reporting():
        pass
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyError), folder.writing(INFO):
        raise KeyError("gone")
    with folder.reporting() as writer:
        writer.write_text("table.md", "| ± |")
    assert folder.run()["status"] == "failed"
    assert (tmp_path / "table.md").read_bytes() == "| ± |".encode()


# -- damage ------------------------------------------------------------------------------------------------------------


def lines_of(tmp_path, records) -> bytes:
    with RunFolder(tmp_path).writing(INFO) as writer:
        writer.append("predictions", records)
    return (tmp_path / "predictions.jsonl").read_bytes()


def test_a_bad_line_in_the_middle_is_an_error_with_its_number(tmp_path):
    data = lines_of(tmp_path, many(2))
    lines = data.split(b"\n")
    for bad in (b'{"sample_id": "q', b"[1]", b"", b'{"sample_id": NaN}', b'{"sample_id": "q1"}', b"\xff\xfe"):
        (tmp_path / "predictions.jsonl").write_bytes(b"\n".join([*lines[:2], bad, *lines[2:]]))
        with pytest.raises(DataError, match=r"predictions\.jsonl, line 3: .*fresh=true"):
            RunFolder(tmp_path).load("predictions")


def test_a_bad_last_line_that_was_written_to_its_end_is_an_error(tmp_path):
    data = lines_of(tmp_path, many(2))
    (tmp_path / "predictions.jsonl").write_bytes(data + b"{}\n")
    with pytest.raises(DataError, match="line 9"):
        RunFolder(tmp_path).load("predictions")


def test_repeated_records_count_once(tmp_path, request):
    cases = json.loads((request.path.parents[1] / "data/metrics/metric_cases.json").read_text())["dedup"]
    records = [prediction(sample_id=f"q{i}", score=float(i % 2)) for i in range(cases["true_n"])]
    padded = records + [replace(r, score=1.0) for r in records[: cases["padded_n"] - cases["true_n"]]]
    lines_of(tmp_path, padded)
    loaded = RunFolder(tmp_path).load("predictions")
    assert loaded.records == tuple(records)  # the first of each wins
    assert (len(loaded.records), loaded.duplicates) == (499, 5)


def test_a_later_try_takes_the_place_of_an_unscored_one(tmp_path):
    lost = {"answer": None, "score": None, "confidence": None, "confidence_source": None, "status": "unscored"}
    scored, other = prediction(), prediction(sample_id="q2")
    first, second = (replace(other, **lost, reason=reason) for reason in ("server down", "server slow"))
    lines_of(
        tmp_path, [scored, first, second, other, replace(other, score=1.0), replace(scored, **lost, reason="late")]
    )
    folder = RunFolder(tmp_path)
    loaded = folder.load("predictions")
    assert loaded.records == (scored, other), "scored ones are never replaced"
    assert loaded.duplicates == 2
    folder = RunFolder(tmp_path / "retried")
    folder.path.mkdir()
    lines_of(folder.path, [scored, first, second])
    assert folder.load("predictions").records == (scored, second) and folder.load("predictions").duplicates == 0
    assert folder.done_keys() == {scored.key, other.key}
    assert folder.done_keys(retry_unscored=True) == {scored.key}


def metrics_text(folder: RunFolder) -> str:
    return dump_json(compute_metrics(folder.load("predictions").records, CONTEXT))


def test_a_run_cut_at_any_byte_continues_to_the_same_metrics(tmp_path, monkeypatch):
    versions = environment()
    # Hundreds of runs: git and the disk are asked once.
    monkeypatch.setattr(store, "environment", lambda: versions)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    records = many(6)
    whole = tmp_path / "whole"
    data = lines_of(whole, records)
    expected = metrics_text(RunFolder(whole))
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    cut = tmp_path / "cut"
    lines_of(cut, records)
    for end in range(last, len(data) + 1):
        (cut / "predictions.jsonl").write_bytes(data[:end])
        folder = RunFolder(cut)
        before = folder.load("predictions")
        complete = end in (last, len(data))
        assert before.truncated == (not complete)
        assert len(before.records) == len(records) - (end != len(data))
        with folder.writing(INFO) as writer:
            writer.append("predictions", [record for record in records if record.key not in folder.done_keys()])
        assert (cut / "predictions.jsonl").read_bytes() == data
        if end % 64 == 0:
            assert metrics_text(folder) == expected


def test_metrics_do_not_depend_on_the_order_of_arrival(tmp_path):
    records = many(9)
    lines_of(tmp_path / "a", records)
    np.random.default_rng(1).shuffle(records)
    lines_of(tmp_path / "b", records)
    assert metrics_text(RunFolder(tmp_path / "a")) == metrics_text(RunFolder(tmp_path / "b"))


WRITER = """
    import sys, time
    sys.path.insert(0, {tests!r})
    from test_store import INFO, many
    from trustvid.evaluation.store import RunFolder
    folder = RunFolder({path!r})
    with folder.writing(INFO) as writer:
        done = folder.done_keys()
        for record in many():
            if record.key not in done:
                writer.append("predictions", [record])
                print("line", flush=True)
                time.sleep({pause})
"""


def test_kill_minus_nine_in_mid_run(tmp_path):
    def command(path: Path, pause: float) -> list[str]:
        code = WRITER.format(tests=str(Path(__file__).parent), path=str(path), pause=pause)
        return [sys.executable, "-c", textwrap.dedent(code)]

    subprocess.run(command(tmp_path / "whole", 0.0), check=True, capture_output=True)
    process = subprocess.Popen(command(tmp_path / "killed", 0.05), stdout=subprocess.PIPE)
    for _ in range(5):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    killed = RunFolder(tmp_path / "killed")
    assert killed.run()["status"] == "running"
    assert 5 <= len(killed.load("predictions").records) < len(many())
    subprocess.run(command(tmp_path / "killed", 0.0), check=True, capture_output=True)
    assert killed.run()["status"] == "finished"
    assert metrics_text(killed) == metrics_text(RunFolder(tmp_path / "whole"))


def test_a_write_that_fails_leaves_no_half_line(tmp_path, monkeypatch):
    from trustvid.evaluation import jsonfiles

    folder, real = RunFolder(tmp_path), os.write
    with folder.writing(INFO) as writer:
        writer.append("predictions", many(1))

        def disk_full_after_ten_bytes(descriptor: int, data: bytes) -> int:
            if len(data) < 500:
                raise OSError(28, "No space left on device")
            return real(descriptor, data[: len(data) - 300])

        monkeypatch.setattr(jsonfiles.os, "write", disk_full_after_ten_bytes)
        with pytest.raises(OSError, match="No space"):
            writer.append("predictions", many(4)[4:6])
        monkeypatch.undo()
        writer.append("predictions", many(4)[4:])
    assert folder.load("predictions").records == tuple(many(4))


# -- written JSON ------------------------------------------------------------------------------------------------------


def test_reports_are_byte_equal_for_equal_numbers():
    a = dump_json({"rows": [{"b": 0.1 + 0.2, "a": 1}], "context": {"x": [1, 2], "name": "é"}, "none": []})
    b = dump_json({"none": [], "context": {"name": "é", "x": (1, 2)}, "rows": [{"a": 1, "b": 0.3}]})
    assert a == b
    assert json.loads(a) == {"rows": [{"a": 1, "b": 0.3}], "context": {"name": "é", "x": [1, 2]}, "none": []}
    assert "-0.0" not in dump_json({"x": -0.0})
    with pytest.raises(ValueError, match="JSON compliant"):
        dump_json({"x": float("nan")})
