"""Every experiment of the Robust-TO paper: it composes, also on the real data sets, and it runs.

pytest tests/e2e/test_robust_to.py -q -n 0
"""

from __future__ import annotations

import csv
import io

import pytest
from omegaconf import OmegaConf

from tests.config.test_config import command_of, composed
from tests.e2e.conftest import User
from trustvid.config.checking import check
from trustvid.config.compose import CONF, group_options
from trustvid.config.schema import EvaluateConfig
from trustvid.evaluation.published_tables import load_published
from trustvid.stages.grpo import GrpoConfig

EXPERIMENTS = [name for name in group_options("experiment") if name.startswith("robust_to/")]
TRAINED = [name for name in EXPERIMENTS if command_of(name)[0] == "train"]
EVALUATED = [name for name in EXPERIMENTS if name not in TRAINED]
REAL = {"urbanvideo": "/data/UrbanVideo-Bench", "vsi_bench": "/data/VSI-Bench"}
# Tasks that an experiment is about, where it is about those of one data set.
ONLY = {"robust_to/table2_corrupted": "urbanvideo", "robust_to/table2_vsi": "vsi_bench"}
# What stands in the title of the table that is printed first.
SHOWN = {
    "task_columns": "Accuracy by task, clean",
    "routing": "Accuracy by task, clean and corrupted",
    "results": "Accuracy in percent",
    "differences": "Accuracy minus that of",
    "effort": "Effort per question",
    "trust-stated": "confidence of source stated",
}


def test_there_is_an_experiment_for_each_table_and_figure():
    assert {name.rpartition("/")[2] for name in EXPERIMENTS} == {
        *("table1_clean", "table2_corrupted", "table2_vsi", "confidence_interface", "decomposition", "mstar"),
        *("fig3_reward", "fig4_routing", "fig5_routing_corrupted", "efficiency", "blind_trust"),
    }


@pytest.mark.parametrize(
    ("experiment", "benchmark"),
    [(name, real) for name in EVALUATED for real in REAL if ONLY.get(name, real) == real],
)
def test_it_is_valid_on_the_real_sets_too(experiment, benchmark):
    words = [
        f"experiment={experiment}",
        f"benchmark={benchmark}",
        f"data_dir={REAL[benchmark]}",
        "policy=qwen2_5_vl_7b",
    ]
    config = composed(*words)
    check(config, EvaluateConfig)
    assert config["benchmark"]["data_dir"] == REAL[benchmark] and "Qwen2.5-VL-7B" in str(config["policy"])
    assert config["limit"] is None and config["name"] == experiment.rpartition("/")[2]
    if config["published"]:
        assert load_published(config["published"]).rows


@pytest.mark.parametrize("experiment", TRAINED)
def test_each_job_of_a_training_sweep_is_valid_and_tested_in_the_end(experiment):
    path = CONF / "experiment" / f"{experiment}.yaml"
    ((group, options),) = OmegaConf.load(path).hydra.sweeper.params.items()
    jobs = {}
    for option in options.split(", "):
        jobs[option] = composed(f"experiment={experiment}", "policy.init_from=run", f"{group}={option}", name="train")
        check(jobs[option], GrpoConfig)
        assert jobs[option]["test"]["split"] == "val"
    assert len({str(job[group]) for job in jobs.values()}) == len(jobs) > 1
    for option, job in jobs.items():
        if option.startswith("without_"):
            weights = {key: value for key, value in job["reward"].items() if key.startswith("w_")}
            assert [key for key, value in weights.items() if value == 0] == [f"w_{option.removeprefix('without_')}"]


def table_named(run, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((run / "tables" / f"{name}.csv").read_text(encoding="utf-8"))))


@pytest.fixture(scope="module")
def tiny_cache(tmp_path_factory):
    """Clips and tool outputs that all experiments share."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EVALUATED)
def test_it_runs(experiment, tmp_path, tiny_cache):
    user, words = User(tmp_path, tiny_cache), [f"experiment={experiment}", "scale=tiny", "workers=0"]
    if experiment == "robust_to/blind_trust":  # its shape with fewer conditions
        words += ["suites.severities.severity=[1,5]", "suites.coverages.coverage=[0.5,1.0]"]
    shown = " ".join(user.evaluate(*words).stdout.split())
    run, config = user.only_run, composed(*words)
    metrics = user.metrics()
    assert metrics["context"]["methods"] == list(config["methods"]) and metrics["context"]["unscored"] == 0
    assert run.name.startswith(experiment.rpartition("/")[2])
    assert SHOWN[config["show"]] in shown
    assert "boxworld, split val, policy scripted" in shown  # whatever is shown says what it is of
    assert f"{metrics['context']['n_questions']} questions on" in shown
    text = (run / "table.md").read_text(encoding="utf-8")
    if config["published"]:
        published = load_published(config["published"])
        assert f"Grey: {published.title}" in shown and "(a) " in shown
        assert all(row.method in text for row in published.rows)
        assert not {row.method for row in published.rows} & {row["method"] for row in metrics["rows"]}
    else:
        assert "Grey:" not in text
