"""``python train.py stage=grpo`` as a user runs it: on generated video, killed and continued, and on to evaluation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.e2e.conftest import ROOT, User
from trustvid.config.checking import build
from trustvid.config.compose import compose_config

torch = pytest.importorskip("torch")

GRPO = [
    *("stage=grpo", "policy=tiny_orchestrator", "prompts=tiny", "mstar=planner", "adapter=full"),
    *("benchmark.n_videos=2", "benchmark.workers=1", "corruption=[glare]", "disturbance.coverages=[1.0]"),
    *("synthesis@methods.trained.synthesis=pooled", "methods.trained.synthesis.detail=short"),
    *("methods.trained.decompose_with_frames=false", "rollout.max_new_tokens=[12,8,8]", "optimizer=grpo_embedded"),
    *("steps=3", "questions_per_step=2", "num_generations=2", "trainer.last_every=1", "print_every=2"),
]


@pytest.fixture
def trainee(tmp_path: Path, cache_dir: Path) -> User:
    return User(tmp_path, cache_dir)


def train(user: User, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
    return user.run(str(ROOT / "train.py"), *arguments, check=check)


def run_of(user: User, name: str) -> Path:
    (folder,) = (user.folder / "outputs" / "grpo").glob(f"{name}-*")
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "policy" / "model.safetensors")


def test_a_killed_run_goes_on_to_the_same_weights_and_rollouts(trainee):
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *GRPO, "name=killed"],
        cwd=trainee.folder,
        env=trainee.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline, last = time.monotonic() + 250, None
    while time.monotonic() < deadline and process.poll() is None and last is None:
        last = next(trainee.folder.glob("outputs/grpo/*/checkpoints/last.ckpt"), None)
        time.sleep(0.01)
    assert process.poll() is None, "the training ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    result = train(trainee, *GRPO, "name=killed")
    assert "going on from step" in result.stdout
    shown = train(trainee, *GRPO, "name=whole").stdout
    killed, whole = run_of(trainee, "killed"), run_of(trainee, "whole")
    a, b = weights(killed), weights(whole)
    assert all(torch.equal(a[name], b[name]) for name in b)
    lines = [json.loads(line) for line in (whole / "rollouts.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [step for step in range(3) for _ in range(4)]
    assert all(line["error"] is None and len(line["replies"]) == 3 and line["reward"] is not None for line in lines)
    assert {line["record"]["condition"] for line in lines} <= {"clean", "glare-s3-c1", "glare-s5-c1"}
    # A step that the kill undid is rolled out again, to the very same replies.
    again = [json.loads(line) for line in (killed / "rollouts.jsonl").read_text().splitlines()]
    for line in again:
        assert line in lines
    assert "[user]" in shown and "reward " in shown and "next: python evaluate.py" in shown
    header, *rows = (whole / "metrics.csv").read_text().splitlines()
    assert len(rows) == 3 and {"reward", "kl", "rewards/acc/mean", "frac_reward_zero_std"} <= set(header.split(","))


def test_only_sampling_leaves_the_weights_and_feeds_rejection_sampling(trainee):
    train(trainee, *GRPO, "name=sampled", "sample_only=true", "steps=1")
    from safetensors.torch import load_file

    folder = run_of(trainee, "sampled")
    config = compose_config(["policy=tiny_orchestrator", f"paths.cache={trainee.environment['TRUSTVID_CACHE']}"])
    built = build(OmegaConf.to_container(config, resolve=True)["policy"]).weights.model
    start, end = load_file(Path(built) / "model.safetensors"), weights(folder)
    assert all(torch.equal(start[name], end[name]) for name in end)
    refused = train(
        trainee, *GRPO, "benchmark.split=test", "methods=[trained,direct]", "num_generations=1", check=False
    )
    assert refused.returncode == 1
    for fault in ("benchmark.split=test: expected train", "one policy is trained in one method", "num_generations=1"):
        assert fault in refused.stderr, refused.stderr


def test_held_out_questions_are_answered_as_evaluation_does_and_compared_by_a_table(trainee):
    asked = ["test=val", "test.n_videos=2", "test.coverage=1.0", "name=tested"]
    shown = train(trainee, *GRPO, *asked, "steps=1").stdout
    folder = run_of(trainee, "tested")
    mine = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    assert len(mine) == 16 and "16 of 16 answers scored" in shown
    metrics = json.loads((folder / "training.json").read_text())["metrics"]
    assert {"test/accuracy/clean", "test/accuracy/glare:s3:c1"} <= set(metrics)
    # The same weights, asked by evaluate.py, say the same.
    trainee.run(
        *(str(ROOT / "evaluate.py"), "policy=tiny_orchestrator", f"policy.init_from={folder}/policy", "prompts=tiny"),
        *("methods=[trained]", "synthesis@methods.trained.synthesis=pooled", "methods.trained.synthesis.detail=short"),
        *("methods.trained.decompose_with_frames=false", "corruption=[glare]", "coverage=1.0", "name=again"),
        *("benchmark.n_videos=2", "benchmark.workers=1", "workers=0"),
        check=True,
    )
    (again,) = (trainee.folder / "outputs" / "evaluate").glob("again-*")
    theirs = [json.loads(line) for line in (again / "predictions.jsonl").read_text().splitlines()]
    key = ("sample_id", "condition")
    assert sorted(mine, key=lambda p: [p[k] for k in key]) == sorted(theirs, key=lambda p: [p[k] for k in key])
    table = trainee.run(str(ROOT / "evaluate.py"), "mode=table", f"runs='{folder.parent}/tested-*'", check=True).stdout
    assert "trained" in table and "boxworld, split val" in table
    refused = train(trainee, *GRPO, *asked, "test.split=train", check=False)
    assert refused.returncode == 1 and "test.split=train: these questions are trained on" in refused.stderr
