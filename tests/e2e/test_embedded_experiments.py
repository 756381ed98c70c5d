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
TRAIN = str(ROOT / "train.py")
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


@pytest.fixture(scope="module")
def started(tmp_path_factory, cache_dir) -> tuple[User, list[str]]:
    """A user with a policy that learned from the teacher, and the words that begin with it."""
    user = User(tmp_path_factory.mktemp("recipe"), cache_dir)
    user.run(TRAIN, "experiment=embedded/sft", *TINY, check=True)
    start = policy_of(user, "sft", "robust_to_embedded")
    return user, [*TINY, f"policy.init_from={start}", "num_generations=2"]


def test_routing_is_learned_from_rewards(started):
    user, words = started
    user.run(TRAIN, "experiment=embedded/grpo", *words, check=True)
    assert policy_of(user, "grpo", "robust_to_embedded").is_dir()


def test_rewards_are_compared_by_a_sweep_that_is_run_once(started):
    user, words = started
    sweep = ["-m", "experiment=robust_to/fig3_reward", "reward=paper,without_cc", *words]
    assert "2 jobs: 2 finished" in user.run(TRAIN, *sweep, check=True).stdout
    runs = sorted((user.folder / "outputs" / "grpo").glob("fig3_reward-*"))
    assert len(runs) == 2 and all((run / "metrics.json").is_file() for run in runs)
    assert "2 jobs: 2 finished already" in user.run(TRAIN, *sweep, check=True).stdout
    table = user.run(str(ROOT / "evaluate.py"), "mode=table", f"runs='{runs[0].parent}/fig3_reward-*'", check=True)
    assert "reward=without_cc" in table.stdout and "policy tiny_orchestrator" in " ".join(table.stdout.split())


def test_m_star_from_the_policys_plan(started):
    user, words = started
    user.run(TRAIN, "experiment=robust_to/mstar", "mstar=policy_plan", *words, "steps=1", check=True)
    # So untrained a policy has no plan to count, which leaves its questions out; what it is worth is told all the same.
    metrics = json.loads((policy_of(user, "grpo", "mstar").parent / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["context"]["n_questions"] == 8 and metrics["context"]["policy"] == "tiny_orchestrator"


def test_rejection_sampling_learns_from_the_rollouts_of_a_run(started):
    user, words = started
    sampled = ["sample_only=true", "name=sampled", "rollout.temperature=[0.3,1.0,0.3]"]
    user.run(TRAIN, "experiment=embedded/grpo", *sampled, *words, check=True)
    (rollouts,) = (user.folder / "outputs" / "grpo").glob("sampled-*/rollouts.jsonl")
    lines = [json.loads(line) for line in rollouts.read_text(encoding="utf-8").splitlines()]
    right = [line for line in lines if line["record"] and line["record"]["answer"] == line["record"]["truth"]]
    again = user.run(
        *(TRAIN, "experiment=embedded/rejection", *TINY, words[len(TINY)], f"data.file={rollouts}"),
        check=False,
    )
    # What there is to learn from is chance in so short a training: some right pass, or an error that says there is none.
    assert (again.returncode == 0) == bool(right), again.stdout + again.stderr


def test_the_captioner_is_trained(tmp_path, cache_dir):
    user = User(tmp_path, cache_dir)
    user.run(TRAIN, "experiment=embedded/sft_captioner", *TINY, check=True)
    assert policy_of(user, "sft", "if_captioner").is_dir()
