"""Sweeps without their jobs: what names a sweep, what its numbers become, when a job has nothing left to do."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn, JobStatus
from hydra.types import RunMode
from omegaconf import OmegaConf

from trustvid.config.checking import check
from trustvid.config.compose import CONF, compose_config, group_options
from trustvid.config.entry import missing_plugins
from trustvid.config.schema import EvaluateConfig
from trustvid.config.sweeps import SweepCallback, sweep_hash
from trustvid.errors import DataError
from trustvid.evaluation.collect import Job, collect, job_lines, read_job, sweep_table, swept, tidy, write_tidy
from trustvid.evaluation.metrics import compute_metrics
from trustvid.evaluation.records import Prediction
from trustvid.evaluation.store import RunFolder, RunInfo
from trustvid.stages.finished import evaluation_finished
from trustvid.stages.grpo import GrpoConfig

WORDS = ("severity=1", "name=a")
INFO = RunInfo("a", "0123456789", {"questions": "d1"}, overrides=WORDS)


def answers(right: int) -> list[Prediction]:
    """Four clean answers of one method, so many of them right."""
    return [
        Prediction(
            sample_id=str(i),
            cluster=f"v{i % 2}",
            task="LP",
            method="blind",
            condition="clean",
            truth="A",
            answer="A" if i < right else "B",
            score=float(i < right),
            confidence=None,
            confidence_source=None,
            status="ok",
        )
        for i in range(4)
    ]


def a_run(folder: Path, right: int = 3, info: RunInfo = INFO) -> Path:
    """A run folder as an evaluation leaves it."""
    about = {"benchmark": "b", "split": "val", "policy": "p"}
    with RunFolder(folder).writing(info) as writer:
        writer.append("predictions", answers(right))
        writer.write_json("questions.json", about)
    with RunFolder(folder).reporting() as writer:
        writer.write_json("metrics.json", compute_metrics(answers(right), {**about, "duplicates": 0}))
    return folder


# -- names and jobs ----------------------------------------------------------------------------------------------------


def jobs_of_words(*words: str) -> list[list[str]]:
    return BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(list(words)), None)[0]


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("frames=8,16,32", ["8", "16", "32"]),
        ("severity=range(1,6)", ["1", "2", "3", "4", "5"]),
        ("frames=[8,16]", ["[8,16]"]),
    ],
)
def test_a_comma_is_a_sweep_and_brackets_are_a_list(word, values):
    key = word.partition("=")[0]
    assert jobs_of_words(word) == [[f"{key}={value}"] for value in values]


EXPECTED_JOBS = {"severity": 5, "coverage": 4, "seeds": 3, "reward": 5, "routing": 4}


@pytest.mark.parametrize("sweep", group_options("sweep"))
def test_every_sweep_is_a_list_of_valid_configs(sweep):
    params = OmegaConf.load(CONF / "sweep" / f"{sweep}.yaml").hydra.sweeper.params
    jobs = jobs_of_words(*(f"{key}={value}" for key, value in params.items()))
    if sweep in EXPECTED_JOBS:
        assert len(jobs) == EXPECTED_JOBS[sweep]
    root, extra, schema = ("evaluate", [], EvaluateConfig)
    if sweep == "reward":
        root, extra, schema = "train", ["stage=grpo"], GrpoConfig
    config = compose_config([*extra, f"sweep={sweep}", *jobs[-1]], name=root)
    check(OmegaConf.to_container(config, resolve=True), schema)


def test_the_ablations_are_all_those_of_the_method():
    params = OmegaConf.load(CONF / "sweep" / "ablations.yaml").hydra.sweeper.params
    listed = {job[0].partition("=")[2] for job in jobs_of_words(f"methods={params.methods}")}
    files = {f"ablation/{path.stem}": path for path in (CONF / "methods" / "ablation").glob("*.yaml")}
    own = {name for name, path in files.items() if "/methods/anchored@_here_" in path.read_text()}
    assert listed == {f"[anchored,{name}]" for name in own}


def test_the_name_of_a_sweep_depends_on_its_jobs_alone():
    def digest(*words: str, params=(), root="evaluate"):
        return sweep_hash(words, dict(params), root)

    first = digest("severity=1,2", "name=x")
    assert len(first) == 10 and first == digest("name=x", "severity=1,2")
    assert first == digest("severity=1,2", "name=x", "workers=3", "report=[html]", "+paths.outputs=/x", "fresh=true")
    others = [digest("severity=1,3", "name=x"), digest("severity=1,2"), digest("severity=1,2", "name=x", root="train")]
    others += [digest("severity=1,2", "name=x", params={"seed": "range(0,3)"})]
    assert len({first, *others}) == 5


def test_a_launcher_that_is_not_installed_is_named_with_its_package(monkeypatch):
    assert missing_plugins(["hydra/launcher=basic", "seed=1"]) == []
    monkeypatch.setitem(missing_plugins.__globals__["PLUGINS"], "hydra/launcher=joblib", "hydra-no-such-launcher")
    (fault,) = missing_plugins(["hydra/launcher=joblib"])
    assert "pip install hydra-no-such-launcher" in fault


# -- the record of a job -----------------------------------------------------------------------------------------------


def hydra_config(folder: Path):
    """The part of a job's config that the callback reads."""
    hydra = {"mode": RunMode.MULTIRUN, "launcher": {"_target_": "Basic"}, "job": {"num": 0}}
    hydra |= {"runtime": {"output_dir": str(folder)}, "overrides": {"task": ["severity=1"]}}
    return OmegaConf.create({"hydra": hydra})


def test_an_unforeseen_failure_is_written_down_and_hidden_from_the_sweeper(tmp_path):
    config, callback, job = hydra_config(tmp_path), SweepCallback(), JobReturn()
    callback.on_job_start(config)
    try:
        raise ValueError("boom")
    except ValueError as error:
        job.return_value, job.status = error, JobStatus.FAILED
    callback.on_job_end(config, job)
    assert job.status == JobStatus.COMPLETED and job.return_value is None
    assert (read_job(tmp_path).status, read_job(tmp_path).reason) == ("failed", "ValueError: boom")
    text = (tmp_path / "error.txt").read_text()
    assert "Traceback" in text and "test_collect.py" in text and text.endswith("ValueError: boom\n")


def test_what_failed_in_the_last_try_is_not_skipped_in_the_next(tmp_path):
    config, callback = hydra_config(tmp_path), SweepCallback()
    for status, again in (("failed", True), ("running", True), ("finished", False)):
        record = {"overrides": ["severity=1"], "status": status}
        (tmp_path / "previous.json").write_text(json.dumps(record))
        callback.on_job_start(config)
        assert json.loads((tmp_path / "job.json").read_text())["again"] is again
    (tmp_path / "previous.json").write_text(json.dumps({"overrides": ["severity=2"], "status": "failed"}))
    callback.on_job_start(config)
    assert json.loads((tmp_path / "job.json").read_text())["again"] is False, "that was another job"
    assert (tmp_path / ".hydra" / "overrides.yaml").read_text() == "- severity=1\n"


# -- tidy --------------------------------------------------------------------------------------------------------------


def test_runs_become_rows_with_a_column_for_what_differs(tmp_path):
    good = Job("0", ("severity=1", "name=a"), a_run(tmp_path / "a"), "finished")
    bad = Job("1", ("severity=99", "name=a", "+run=x"), None, "failed", "severity=99; expected 1 to 5")
    rows = tidy([good, bad])
    assert {row["severity"] for row in rows} == {"1", "99"} and "name" not in rows[0]
    (accuracy,) = [row for row in rows if (row["metric"], row["task"]) == ("accuracy", "micro") and row["job"] == "0"]
    assert (accuracy["value"], accuracy["n"], accuracy["method"], accuracy["condition"]) == (0.75, 4, "blind", "clean")
    assert rows[-1] == {
        **dict.fromkeys(rows[0]),
        **{"job": "1", "status": "failed", "reason": bad.reason, "severity": "99", "set.run": "x"},
    }


def test_the_files_hold_the_same_rows_and_numbers_are_numbers(tmp_path):
    jobs = [Job(str(i), (f"severity={i}", f"coverage=0.{i}"), a_run(tmp_path / f"r{i}", i), "finished") for i in (1, 2)]
    rows = tidy([*jobs, Job("3", ("severity=3", "coverage=1"), None, "failed", "no")])
    csv_path, parquet_path = write_tidy(rows, tmp_path)
    table = pq.read_table(parquet_path)
    with csv_path.open(newline="") as file:
        text = list(csv.DictReader(file))
    assert table.num_rows == len(text) == len(rows)
    assert set(table["severity"].to_pylist()) == {1, 2, 3} and set(table["coverage"].to_pylist()) == {0.1, 0.2, 1.0}
    assert str(table.schema.field("value").type) == "double" and str(table.schema.field("n").type) == "int64"
    for ours, theirs in zip(table.to_pylist(), text, strict=True):
        assert {key: "" if value is None else str(value) for key, value in ours.items()} == theirs
    before = csv_path.read_bytes(), parquet_path.read_bytes()
    write_tidy(rows, tmp_path)
    assert before == (csv_path.read_bytes(), parquet_path.read_bytes())


def test_plain_run_folders_are_collected_too(tmp_path):
    first = a_run(tmp_path / "a")
    second = a_run(tmp_path / "b", info=RunInfo("a", "1", overrides=("severity=2", "name=a")))
    rows = tidy([first, str(second)])
    assert {(row["job"], row["severity"], row["status"]) for row in rows} == {
        ("a", "1", "finished"),
        ("b", "2", "finished"),
    }
    (tmp_path / "empty").mkdir()
    assert tidy([tmp_path / "empty"])[0]["reason"] == "no run.json"


def test_a_training_gives_its_last_metrics(tmp_path):
    with RunFolder(tmp_path / "t").writing(INFO) as writer:
        writer.write_json("training.json", {"steps": 2, "seconds": 1.5, "metrics": {"loss": 0.5, "reward/acc": 1.0}})
    job = Job("0", ("seed=0",), tmp_path / "t", "finished")
    rows = tidy([job])
    assert [(row["metric"], row["value"], row["method"]) for row in rows] == [
        *(("loss", 0.5, None), ("reward/acc", 1.0, None), ("seconds", 1.5, None), ("steps", 2, None))
    ]
    table = sweep_table([job, Job("1", ("seed=1",), None, "failed", "x")], tmp_path)
    assert table.footnotes == ("1 of 2 jobs left no numbers.",) and table.rows[1][1].value == 1.0


def test_words_that_only_some_jobs_have_are_settings_too():
    jobs = [Job("0", ("+a.b=1", "x=1"), None, "failed"), Job("1", ("~c", "x=1"), None, "failed")]
    assert swept(jobs) == [{"a.b": "1", "~c": None}, {"a.b": None, "~c": "removed"}]


def test_jobs_of_one_run_are_told(tmp_path):
    folder = a_run(tmp_path / "a")
    jobs = [Job(str(i), (f"severity={i}",), folder, status) for i, status in enumerate(("finished", "skipped"))]
    text = "\n".join(job_lines(jobs))
    assert "2 jobs: 1 finished, 1 finished already" in text and "2 jobs are one run" in text


def test_a_sweep_that_never_began_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no job of this sweep has begun"):
        collect(tmp_path)


# -- nothing left to do ------------------------------------------------------------------------------------------------


def typed(**changes) -> EvaluateConfig:
    return EvaluateConfig(name="a", methods={"blind": {}}, **changes)


def no_digests() -> dict[str, str]:
    return {}


def test_a_finished_run_is_known_before_its_data_are_read(tmp_path):
    folder = RunFolder(a_run(tmp_path / "a"))
    assert evaluation_finished(folder, INFO, typed(), lambda: {"questions": "d1"})
    assert not evaluation_finished(folder, INFO, typed(), lambda: {"questions": "d2"})
    assert not evaluation_finished(folder, INFO, typed(), lambda: {"another": "d1"})

    def must_not_be_read() -> dict[str, str]:
        raise AssertionError("the data were read")

    assert not evaluation_finished(folder, RunInfo("a", "other"), typed(), must_not_be_read)
    assert not evaluation_finished(folder, INFO, typed(fresh=True), must_not_be_read)
    assert not evaluation_finished(folder, INFO, typed(contrasts=[["blind", "blind"]]), must_not_be_read)
    assert not evaluation_finished(RunFolder(tmp_path / "none"), INFO, typed(), must_not_be_read)


@pytest.mark.parametrize("name", ["predictions.jsonl", "questions.json", "metrics.json"])
def test_a_run_that_lost_a_file_is_not_finished(tmp_path, name):
    folder = RunFolder(a_run(tmp_path / "a"))
    (folder.path / name).unlink()
    assert not evaluation_finished(folder, INFO, typed(), no_digests)


@pytest.mark.parametrize("change", [{"status": "running"}, {"trustvid": "0.0.0"}])
def test_a_killed_run_and_one_of_another_version_are_not_finished(tmp_path, change):
    folder = RunFolder(a_run(tmp_path / "a"))
    (folder.path / "run.json").write_text(json.dumps({**folder.run(), **change}))
    assert not evaluation_finished(folder, INFO, typed(), no_digests)


def test_unscored_questions_are_tried_again_unless_they_shall_not(tmp_path):
    folder = RunFolder(a_run(tmp_path / "a"))
    file = folder.path / "metrics.json"
    file.write_text(file.read_text().replace('"unscored": 0,\n', '"unscored": 2,\n'))
    assert not evaluation_finished(folder, INFO, typed(), no_digests)
    assert evaluation_finished(folder, INFO, typed(retry_unscored=False), no_digests)
