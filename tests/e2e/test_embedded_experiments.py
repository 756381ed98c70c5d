"""The embedded experiments, at the smallest scale: each runs, from a teacher's examples to the table of a sweep.

pytest tests/e2e/test_embedded_experiments.py -q -n 0
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.config.test_config import command_of
from tests.e2e.conftest import ROOT, User
from trustvid.config.compose import group_options

EXPERIMENTS = [name for name in group_options("experiment") if name.startswith("embedded/")]
EVALUATED = ["embedded/demo", "embedded/claim", "embedded/ablation"]
TINY = ["scale=tiny", "benchmark.workers=1"]
pytestmark = pytest.mark.slow


def test_all_of_them_are_run_here():
    trained = {name for name in EXPERIMENTS if command_of(name)[0] == "train"}
    assert trained == {f"embedded/{name}" for name in ("sft", "grpo", "rejection", "sft_captioner")}
    assert set(EVALUATED) | trained == set(EXPERIMENTS)


@pytest.mark.parametrize("experiment", EVALUATED)
def test_evaluations_run(experiment, tmp_path, cache_dir):
    user, words = User(tmp_path, cache_dir), [f"experiment={experiment}", *TINY, "workers=0"]
    if experiment != "embedded/demo":  # their shape, with one series and few conditions
        words += ["benchmark.offset=0", "suites.five.severity=[5]", "suites.five.coverage=[0.5]"]
        words += ["suites.five.corruption=[glare,low_light]"]
    if experiment == "embedded/claim":
        words += ["suites.unseen.corruption=[fog]"]
    user.evaluate(*words)
    context = user.metrics()["context"]
    assert context["unscored"] == 0 and context["n_questions"] == 8
    if experiment == "embedded/ablation":
        text = (user.only_run / "table.md").read_text(encoding="utf-8")
        assert "random_routing" in text and "worst_k − mean_k" in text


def policy_of(user: User, stage: str, name: str) -> Path:
    (folder,) = (user.folder / "outputs" / stage).glob(f"{name}-*/policy")
    return folder


def test_the_recipe_of_learned_routing_runs_to_the_table_of_a_sweep(tmp_path, cache_dir):
    user, train = User(tmp_path, cache_dir), str(ROOT / "train.py")
    user.run(train, "experiment=embedded/sft", *TINY, check=True)
    start = policy_of(user, "sft", "robust_to_embedded")
    words = [*TINY, f"policy.init_from={start}", "num_generations=2"]
    user.run(train, "experiment=embedded/grpo", *words, check=True)
    assert policy_of(user, "grpo", "robust_to_embedded").is_dir()
    sweep = ["-m", "experiment=robust_to/fig3_reward", "reward=paper,without_cc", *words]
    shown = user.run(train, *sweep, check=True).stdout
    assert "2 jobs: 2 finished" in shown
    runs = sorted((user.folder / "outputs" / "grpo").glob("fig3_reward-*"))
    assert len(runs) == 2 and all((run / "metrics.json").is_file() for run in runs)
    assert "2 jobs: 2 finished already" in user.run(train, *sweep, check=True).stdout
    table = user.run(str(ROOT / "evaluate.py"), "mode=table", f"runs='{runs[0].parent}/fig3_reward-*'", check=True)
    assert "reward=without_cc" in table.stdout and "policy tiny_orchestrator" in " ".join(table.stdout.split())
    user.run(train, "experiment=robust_to/mstar", "mstar=policy_plan", *words, check=True)
    # So untrained a policy has no plan to count, which leaves its questions out; what it is worth is told all the same.
    metrics = json.loads((policy_of(user, "grpo", "mstar").parent / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["context"]["n_questions"] == 8 and metrics["context"]["policy"] == "tiny_orchestrator"


def test_rejection_sampling_and_the_captioner_run(tmp_path, cache_dir):
    user, train = User(tmp_path, cache_dir), str(ROOT / "train.py")
    user.run(train, "experiment=embedded/sft_captioner", *TINY, check=True)
    assert policy_of(user, "sft", "if_captioner").is_dir()
