"""``python train.py`` as a user runs it: killed and continued, in two processes, and on to evaluation."""

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

torch = pytest.importorskip("torch")

SFT = [
    *("stage=sft", "benchmark.n_videos=2", "benchmark.workers=1", "data.held_out=0", "prompts=compact", "frames=4"),
    *("adapter=full", "optimizer=sft_embedded", "batch_size=4", "micro_batch=2", "steps=4", "trainer.last_every=1"),
]


@pytest.fixture
def trainee(tmp_path: Path, cache_dir: Path) -> User:
    return User(tmp_path, cache_dir)


def train(user: User, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
    return user.run(str(ROOT / "train.py"), *arguments, check=check)


def weights(user: User, name: str) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    (folder,) = (user.folder / "outputs" / "sft").glob(f"{name}-*")
    return load_file(folder / "policy" / "model.safetensors")


def kill_after_a_checkpoint(user: User, *arguments: str) -> int:
    """Start a training and kill −9 it once it has written its state; the step of that."""
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *arguments],
        cwd=user.folder,
        env=user.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline, last = time.monotonic() + 250, None
    while time.monotonic() < deadline and process.poll() is None and last is None:
        last = next(user.folder.glob("outputs/sft/*/checkpoints/last.ckpt"), None)
        time.sleep(0.01)
    assert process.poll() is None, "the training ended before it could be killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert last is not None
    return torch.load(last, weights_only=True)["global_step"]


def test_a_killed_training_goes_on_to_the_same_weights(trainee):
    step = kill_after_a_checkpoint(trainee, *SFT, "name=killed")
    assert 1 <= step < 4
    run = next(trainee.folder.glob("outputs/sft/killed-*"))
    assert json.loads((run / "run.json").read_text())["status"] == "running"
    result = train(trainee, *SFT, "name=killed")
    assert f"going on from step {step} of 4" in result.stdout
    train(trainee, *SFT, "name=whole")
    killed, whole = weights(trainee, "killed"), weights(trainee, "whole")
    assert killed.keys() == whole.keys() and all(torch.equal(killed[name], whole[name]) for name in whole)
    rows = (run / "metrics.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in rows] == ["step", "0", "1", "2", "3"]
    state = json.loads((run / "run.json").read_text())
    assert state["status"] == "finished" and len(state["continued"]) == 1 and "boxworld_captions" in state["datasets"]


@pytest.mark.slow
def test_two_processes_learn_what_one_learns(trainee):
    train(trainee, *SFT, "name=one")
    train(trainee, *SFT, "name=two", "trainer=ddp", "trainer.accelerator=cpu", "trainer.precision=32-true")
    one, two = weights(trainee, "one"), weights(trainee, "two")
    assert max(float((one[name] - two[name]).abs().max()) for name in one) <= 1e-6


def test_a_trained_policy_is_evaluated_by_its_folder(trainee):
    result = train(trainee, *SFT, "name=first", "steps=1", "adapter=lora", "logger=csv")
    (command,) = (line for line in result.stdout.splitlines() if line.startswith("next: "))
    (policy,) = (word for word in command.split() if word.startswith("policy.init_from="))
    trainee.evaluate(
        *("benchmark=boxworld_captions", "benchmark.split=train", "benchmark.n_videos=2", "limit=1", "workers=0"),
        *("policy=tiny_qwen2_5_vl", policy, "policy.max_new_tokens=8", "prompts=compact", "evidence=none", "frames=4"),
    )
    assert trainee.metrics()["rows"]


def test_other_splits_and_wrong_settings_end_with_one_message(trainee):
    result = train(trainee, *SFT, "benchmark.split=test", "epochs=-1", check=False)
    text = result.stdout + result.stderr
    assert result.returncode != 0 and "Traceback" not in text
    assert "benchmark.split=test: expected train" in text and "epochs=-1" in text


def test_a_teacher_and_right_answers_make_examples(trainee):
    """Every source that goes through the pipeline, on generated clips with the real tools."""
    from omegaconf import OmegaConf

    from trustvid.config.checking import build, check
    from trustvid.config.compose import compose_config
    from trustvid.stages.sft import SftConfig

    def load(*overrides: str):
        few = [
            "stage=sft",
            "benchmark=boxworld",
            "benchmark.n_videos=2",
            "benchmark.workers=1",
            "data.held_out=0",
            "workers=0",
        ]
        cache = f"paths.cache={trainee.environment['TRUSTVID_CACHE']}"
        config = OmegaConf.to_container(compose_config([*few, cache, *overrides], name="train"), resolve=True)
        check(config, SftConfig)
        return build(config["data"]).load(config)

    pooled = ["prompts=tiny", "synthesis@methods.trained.synthesis=pooled", "limit=2", "corruption=[glare]"]
    taught = load("data=teacher", "data.parts=[answers,trajectories]", *pooled)
    assert not taught.left_out and taught.parts == ["trajectories", "answers"] * 2
    for whole, alone in zip(taught.learned[::2], taught.learned[1::2], strict=True):
        assert [message.role for message in whole.messages] == ["system", *("user", "assistant") * 3]
        assert alone.messages[-1] == whole.messages[-1] and "### Pooled support" in alone.messages[-2].text
        assert whole.clip().n_frames > 0 and alone.clip is None
    answers = load("data=mcq", "methods=[direct]", "limit=4")
    assert len(answers.learned) == 4
    assert all(one.messages[-1].text.startswith("<answer>") and one.messages[-2].frames for one in answers.learned)

    rollouts = trainee.folder / "rollouts.jsonl"
    (first, second), (key, condition) = taught.learned[::2], taught.learned[0].key.rsplit(" ", 1)
    said = [{"role": m.role, "text": m.text, "frames": list(m.frames)} for m in first.messages]
    other = [*said[:-1], {**said[-1], "text": "<answer>Z</answer>"}]

    def line(step: int, messages: list | None, reward: float | None, correct: float | None, sample_id: str = key):
        record = {"sample_id": sample_id, "condition": condition}
        return {"step": step, "key": f"{sample_id} {condition}", "sample": 0, "reward": reward, "correct": correct} | {
            "messages": messages,
            "record": record,
        }

    lines = [line(0, said, 0.5, 1.0), line(1, other, 0.9, 0.0), line(2, said, 0.7, 1.0), line(3, None, None, None)]
    lines.append(line(4, said, 0.9, 1.0, "nowhere"))
    rollouts.write_text("".join(json.dumps(one) + "\n" for one in lines))
    best = load("data=rollouts", f"data.file={rollouts}", "corruption=[glare]", "data.per_question=3")
    assert [one.key for one in best.learned] == [f"{key} {condition} 2/0"]  # the same words at a higher reward
    assert best.learned[0].messages == first.messages and len(best.left_out) == 3
    assert second.key.rsplit(" ", 1)[0] != key
