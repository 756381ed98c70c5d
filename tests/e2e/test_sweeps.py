"""``-m`` as a user runs it: jobs that fail, sweeps that are killed, repeated, and run in parallel."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.e2e.conftest import User

pytestmark = pytest.mark.slow

TINY = [
    *("hydra/callbacks=sweep", "scale=tiny", "methods=[chance,no_evidence]", "corruption=[glare]", "workers=0"),
    *("name=tiny", "report=[markdown]"),
]


def needs(package: str) -> None:
    try:
        version(package)
    except PackageNotFoundError:
        pytest.skip(f"needs an optional extra: pip install {package}")


class Sweep:
    """What a sweep left: its folder, the records of its jobs by number, and what it said."""

    def __init__(self, user: User, *arguments: str):
        self.result = user.evaluate("-m", *arguments, *TINY, check=False)
        found = re.search(r"^sweep .*?in (\S+)$", self.result.stdout, re.MULTILINE)
        assert found, self.result.stdout[-1500:] + self.result.stderr[-3000:]
        self.folder = user.folder / found[1]
        self.jobs = [json.loads(path.read_text()) for path in sorted(self.folder.glob("*/job.json"))]

    @property
    def statuses(self) -> list[str]:
        return [job["status"] for job in self.jobs]

    def rows(self) -> list[dict[str, str]]:
        with (self.folder / "runs.csv").open(newline="") as file:
            return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def swept(tmp_path_factory, cache_dir) -> tuple[User, Sweep]:
    """A sweep of three jobs, one of which cannot run."""
    user = User(tmp_path_factory.mktemp("swept"), cache_dir)
    return user, Sweep(user, "severity=1,99,3")


def test_a_failed_job_stops_no_other_and_is_told(swept):
    user, sweep = swept
    assert sweep.result.returncode == 1 and sweep.statuses == ["finished", "failed", "finished"]
    assert "severity=99; expected 1 to 5" in (sweep.folder / "1" / "error.txt").read_text()
    assert "job 1 failed: severity=99; expected 1 to 5" in sweep.result.stderr
    assert "3 jobs: 2 finished, 1 failed" in sweep.result.stdout
    assert "1 of 3 runs missing: severity=99" in (sweep.folder / "table.md").read_text()
    assert "- 1 · severity=99 · failed · severity=99; expected" in (sweep.folder / "jobs.md").read_text()
    rows = sweep.rows()
    assert Counter(row["severity"] for row in rows if not row["metric"]) == {"99": 1}
    for job in (0, 2):
        metrics = json.loads((user.folder / sweep.jobs[job]["folder"] / "metrics.json").read_text())
        ours = [row for row in rows if row["job"] == str(job)]
        assert len(ours) == len(metrics["rows"]) and {row["severity"] for row in ours} == {str(job + 1)}
        assert [float(row["value"]) for row in ours if row["value"]] == [
            row["value"] for row in metrics["rows"] if row["value"] is not None
        ]


def test_a_repeated_sweep_computes_nothing_and_tries_the_failed_job_again(swept, tmp_path, cache_dir):
    first, before = swept
    shutil.copytree(first.folder / "outputs", tmp_path / "outputs")
    user = User(tmp_path, cache_dir)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("outputs/evaluate/*/*") if path.suffix != ".lock"}
    again = Sweep(user, "severity=1,99,3")
    assert again.statuses == ["skipped", "failed", "skipped"] and again.result.stdout.count("finished already: ") == 2
    assert "infer" not in again.result.stderr and "boxworld: 8 questions" not in again.result.stdout, (
        "the benchmark was loaded"
    )
    changed = {path for path, time in files.items() if path.stat().st_mtime_ns != time}
    assert {path.parent.name for path in changed} <= {Path(again.jobs[1]["folder"]).name}
    assert again.folder.name == before.folder.name
    assert [row["value"] for row in again.rows()] == [row["value"] for row in before.rows()]


def test_a_sweep_killed_halfway_loses_nothing_and_ends_with_the_same_numbers(swept, tmp_path, cache_dir):
    first, whole = swept
    user = User(tmp_path, cache_dir)
    written = user.evaluate_and_kill("-m", "severity=1,3", *TINY, after_lines=34)  # in the second job of 32 answers
    assert 34 <= written < 64, written
    left = {path: path.read_bytes() for path in tmp_path.glob("outputs/evaluate/*/predictions.jsonl")}
    resumed = Sweep(user, "severity=1,3")
    assert resumed.result.returncode == 0 and resumed.statuses == ["skipped", "finished"] and user.count() == 64
    for path, lines in left.items():
        whole_lines = lines[: lines.rfind(b"\n") + 1]
        assert path.read_bytes().startswith(whole_lines), "answers were thrown away"
    for job, same in ((0, 0), (1, 2)):
        ours, theirs = (Path(sweep.jobs[i]["folder"]) for sweep, i in ((resumed, job), (whole, same)))
        assert (tmp_path / ours / "metrics.json").read_bytes() == (first.folder / theirs / "metrics.json").read_bytes()


def test_a_sweep_without_m_is_one_run_and_says_so(swept):
    user, sweep = swept
    result = user.evaluate("sweep=severity", "severity=1", "mode=table", *TINY)
    assert "sweep=severity needs -m: python evaluate.py -m sweep=severity" in result.stderr
    assert f"run folder {sweep.jobs[0]['folder']}" in result.stdout and "sweep in" not in result.stdout


def test_the_values_of_a_sweep_are_overridden_and_a_vain_launcher_is_told(swept, tmp_path):
    needs("hydra-joblib-launcher")
    user, _ = swept
    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\ndefaults:\n  - override /hydra/launcher: joblib\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    sweep = Sweep(user, "--config-dir", str(tmp_path), "experiment=mine,embedded/demo", "sweep=severity", "severity=1")
    assert sweep.statuses == ["skipped", "skipped"] and "2 jobs are one run" in sweep.result.stdout
    assert sweep.result.stderr.count("in vain") == 1 and "hydra/launcher=…" in sweep.result.stderr
    crossed = user.evaluate("-m", "sweep=severity,seeds", *TINY, check=False)
    assert crossed.returncode != 0 and "sweep=[a,b]" in crossed.stderr


def test_jobs_in_parallel_and_two_of_one_config(user):
    needs("hydra-joblib-launcher")
    sweep = Sweep(user, "severity=1,3,3,99", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    assert sweep.result.returncode == 1 and sweep.statuses[0] == "finished" and sweep.statuses[3] == "failed"
    twins = [job for job in sweep.jobs if "severity=3" in job["overrides"]]
    assert "finished" in {job["status"] for job in twins}
    assert all(job["status"] != "failed" or "another process is writing" in job["reason"] for job in twins)
    assert user.count() == 64 and sweep.rows()


def test_each_job_in_a_process_of_submitit(user):
    needs("hydra-submitit-launcher")
    sweep = Sweep(user, "severity=1,99", "hydra/launcher=submitit_local", "hydra.launcher.timeout_min=5")
    assert sweep.result.returncode == 1 and sweep.statuses == ["finished", "failed"]
    logs = [path.read_text() for path in sweep.folder.glob(".submitit/**/*.err")]
    assert sum("severity=99; expected 1 to 5" in log for log in logs) == 1, "of its own job alone"


def test_slurm_is_configured_to_send_a_job_again(user):
    needs("hydra-submitit-launcher")
    text = user.evaluate("hydra/launcher=slurm", "hydra.launcher.partition=gpu", "--cfg", "hydra").stdout
    for part in ("SlurmLauncher", "max_num_timeout: 10", "timeout_min: 720", "partition: gpu", "gpus_per_node: 1"):
        assert part in text


def test_optuna_gets_the_number_it_searches_by(user):
    needs("hydra-optuna-sweeper")
    wanted = "{method: chance, condition: clean, task: micro, metric: accuracy}"
    search = ["hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=1", "seed=range(0,50)"]
    sweep = Sweep(user, *search, "hydra.sweeper.sampler.seed=1", f"hydra.callbacks.sweep.objective={wanted}")
    assert sweep.result.returncode == 0 and sweep.statuses == ["finished", "finished"]
    best = re.search(r"best_value: (\S+)", (sweep.folder / "optimization_results.yaml").read_text())
    chosen = [row for row in sweep.rows() if (row["method"], row["condition"]) == ("chance", "clean")]
    values = [float(row["value"]) for row in chosen if (row["task"], row["metric"]) == ("micro", "accuracy")]
    assert float(best[1]) == min(values)
