"""Supervised fine-tuning of a tiny model: what is learned, equal results however it is cut, exact continuation."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.unit.test_policy_vlm import make_clip
from trustvid.config.checking import build
from trustvid.errors import ConfigError, TrustvidError
from trustvid.evaluation.store import RunFolder, RunInfo
from trustvid.policy.base import Message
from trustvid.policy.tiny import TinyPolicy
from trustvid.policy.vlm_adapters import Full, Lora
from trustvid.training.conversations import Conversation, Emphasis, example_of
from trustvid.training.optimizer import AdamW
from trustvid.training.order import PhasedOrder, StepOrder, StepSampler
from trustvid.training.trainer import TrainerSettings

torch = pytest.importorskip("torch")

CLIPS = [make_clip(seed) for seed in range(4)]
STEPS = 6


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.set_num_threads(1)
    return str(tmp_path_factory.mktemp("models"))


def conversations() -> list[Conversation]:
    """Eight, of unlike length: with frames and without, of one turn and of two."""
    found = []
    for number, clip in enumerate(CLIPS):
        seen = Message("user", f"Which colour? {'Look well. ' * number}", (0, 5, 10, 15))
        found.append(
            Conversation(f"seen{number}", (seen, Message("assistant", f"red {number}")), lambda clip=clip: clip)
        )
        turns = ("Choose a tool.", "read_text", "It says BANK.", f"<answer>{'AB'[number % 2]}</answer>")
        roles = ("user", "assistant") * 2
        found.append(Conversation(f"told{number}", tuple(map(Message, roles, turns))))
    return found


def module(cache: str, adapter: object | None = None, micro_batch: int = 2, **settings):
    from trustvid.captioner import IFCaptioner

    return IFCaptioner(
        TinyPolicy("qwen2_5_vl", cache),
        adapter or Full(),
        AdamW(3e-3, warmup=2),
        settings.pop("order", None) or StepOrder(8, 4, 0),
        settings.pop("steps", STEPS),
        settings.pop("conversations", None) or conversations(),
        micro_batch=micro_batch,
        **settings,
    )


def trained(made, *callbacks, **settings):
    from lightning.pytorch import Trainer

    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = Trainer(
        accelerator="cpu",
        max_steps=settings.pop("max_steps", made.steps),
        callbacks=list(callbacks),
        enable_checkpointing=any(type(one).__name__ == "Checkpoints" for one in callbacks),
        use_distributed_sampler=False,
        **quiet,
    )
    trainer.fit(made, weights_only=True, **settings)
    return made


def weights(made) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in made.trainable.trained().items()}


def gradient(made, batch: Sequence[Conversation]) -> tuple[dict[str, torch.Tensor], float]:
    """Gradient and loss of one step on these, before the optimiser."""
    examples = made.examples(batch)
    weight = sum(sum(one.weights) for one in examples)
    found: list[dict[str, float]] = []
    made.network.zero_grad()
    for places in made.micro_batches([one.buffer for one in examples]):
        (made._loss([examples[place] for place in places], found) / weight).backward()
    known = {k: v.grad.clone() for k, v in made.trainable.trained().items() if v.grad is not None}
    return known, sum(one["loss"] for one in found) / sum(one["tokens"] for one in found)


# -- what is learned (cases 74 and 77) ---------------------------------------------------------------------------------


def test_prompt_and_pictures_are_not_learned_and_the_end_of_the_turn_is():
    from trustvid.policy.vlm_tokens import TokenBuffer, columns

    def buffer(prompt: list[int], reply: list[int]) -> TokenBuffer:
        ids = torch.tensor([prompt])
        made = TokenBuffer({n: torch.ones_like(ids) for n in ("attention_mask", "position_ids")} | {"input_ids": ids})
        made.write(reply, [0.0] * len(reply), complete=True)
        return made

    one, two = buffer([1, 2, 3, 7, 7, 7, 7], [8, 9, 2]), buffer([1], [9, 2])
    mask = columns([one, two])["loss_mask"]
    ids = torch.tensor([one.ids, [2] * 7 + two.ids])  # the padding is the end token
    labels = ids.where(mask, -100).tolist()
    assert labels[0] == [-100] * 7 + [8, 9, 2]
    assert labels[1] == [-100] * 8 + [9, 2]


def test_the_loss_is_the_cross_entropy_of_transformers(cache):
    made = module(cache)
    made.network.eval()
    for conversation in conversations()[:4]:
        (example,) = made.examples([conversation])
        found: list[dict[str, float]] = []
        ours = made._loss([example], found) / sum(example.weights)
        tensors = example.buffer.tensors
        mask = torch.tensor([example.buffer.loss_mask]).bool()
        labels = tensors["input_ids"].where(mask, -100)
        theirs = made.network(**tensors, labels=labels, use_cache=False).loss
        assert ours.item() == pytest.approx(theirs.item(), abs=1e-5)
        assert found[0]["loss"] / found[0]["tokens"] == pytest.approx(theirs.item(), abs=1e-5)
        replies = [m.text for m in conversation.messages if m.role == "assistant"]
        written = tensors["input_ids"][mask].tolist()
        assert made.policy.loaded.processor.tokenizer.decode(written) == "<|im_end|>".join([*replies, ""])


def test_only_the_last_reply_is_learned_where_it_is_asked_for(cache):
    made = module(cache)
    told = conversations()[1]
    last = Conversation("last", told.messages, learn="last")
    every, alone = (example_of(one, made.policy.loaded, made.policy.showing) for one in (told, last))
    assert every.buffer.ids == alone.buffer.ids
    assert 0 < sum(alone.weights) < sum(every.weights) and alone.buffer.turns.count(0) == sum(alone.weights)


def test_emphasis_weighs_what_it_matches(cache):
    made = module(cache)
    told = conversations()[1]
    example = example_of(told, made.policy.loaded, made.policy.showing, Emphasis({"<answer>(.*?)</answer>": 5.0}))
    heavy = [token for token, weight in zip(example.buffer.ids, example.weights, strict=True) if weight == 5.0]
    assert made.policy.loaded.processor.tokenizer.decode(heavy) == "A"
    assert set(example.weights) == {0.0, 1.0, 5.0}


def test_a_conversation_that_is_too_long_is_left_out_with_a_count(cache, capsys):
    long = Conversation("long", (Message("user", "word " * 300), Message("assistant", "no")))
    made = module(cache, conversations=[*conversations()[:7], long], max_tokens=200)
    assert [bool(made.examples([one])) for one in (made.conversations[0], long)] == [True, False]
    trained(made)
    assert "long is left out: the conversation has" in capsys.readouterr().err
    assert float(made.trainer.callback_metrics["examples/left_out"]) in (0.0, 1.0)


def test_examples_are_kept_up_to_a_number_of_bytes(cache):
    made = module(cache)
    batch = conversations()
    (example,) = made.examples(batch[:1])
    made._ready.most = 2 * sum(value.nbytes for value in example.buffer.tensors.values())
    again = made.examples(batch)
    assert [len(one.buffer) for one in again] == [
        len(example_of(one, made.policy.loaded, made.policy.showing).buffer) for one in batch
    ]
    assert made._ready.bytes <= made._ready.most and len(made._ready.examples) < len(batch)


# -- equal, however it is cut ------------------------------------------------------------------------------------------


def test_micro_batches_padding_and_order_change_nothing(cache):
    batch = conversations()
    reference, loss = gradient(module(cache, micro_batch=1), batch)
    for micro_batch, order in ((8, range(8)), (3, range(8)), (4, [5, 2, 7, 0, 1, 6, 3, 4])):
        found, other = gradient(module(cache, micro_batch=micro_batch), [batch[place] for place in order])
        assert other == pytest.approx(loss, abs=1e-5)
        assert found.keys() == reference.keys()
        for name, value in reference.items():
            assert torch.allclose(found[name], value, atol=2e-6, rtol=1e-4), name


def test_phases_take_their_own_samples_one_after_another():
    order = PhasedOrder([([0, 2, 4, 6], 3), ([1, 3, 5, 7, 9], 4)], batch=2, seed=0)
    taken = [order.samples(step) for step in range(9)]
    assert order.steps == 7 and all(number % 2 == 0 for step in taken[:3] for number in step)
    assert all(number % 2 for step in taken[3:] for number in step)
    assert sorted(taken[0] + taken[1]) == [0, 2, 4, 6]
    assert [order.epoch_of(step) for step in (0, 2, 3, 5)] == [0, 1, 0, 1]
    with pytest.raises(ConfigError, match="expected one or more"):
        PhasedOrder([], 2, 0)
    with pytest.raises(ConfigError, match="at least as many"):
        PhasedOrder([([1], 3)], 2, 0)


def test_processes_share_a_step_without_overlap():
    order = StepOrder(10, 4, 0)
    ranks = [list(StepSampler(order, lambda: 2, 5, rank, 2)) for rank in (0, 1)]
    for place, step in enumerate(range(2, 5)):
        assert [n for rank in ranks for _, n in rank[place]] == order.samples(step)


# -- checkpoints -------------------------------------------------------------------------------------------------------


def checkpoints(folder: Path, every: int = 1):
    from trustvid.training.callbacks import Checkpoints

    return Checkpoints(folder, every, None, lambda step, metrics: None)


@pytest.mark.parametrize("adapter", [Full(), Lora(r=4, dropout=0.2)], ids=["full", "lora"])
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(cache, tmp_path, adapter):
    whole = trained(module(cache, adapter))
    for stop in (1, 3):
        folder = tmp_path / str(stop)
        trained(module(cache, adapter), checkpoints(folder), max_steps=stop)
        again = trained(module(cache, adapter), checkpoints(folder), ckpt_path=str(folder / "last.ckpt"))
        assert again.global_step == STEPS
        for name, value in weights(whole).items():
            assert torch.equal(value, weights(again)[name]), name


def test_checkpoints_hold_what_is_trained_in_plain_containers(cache, tmp_path):
    made = trained(module(cache, Lora(r=4)), checkpoints(tmp_path, 3))
    stored = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert set(stored["state_dict"]) == {f"network.{name}" for name in made.trainable.trained()}
    assert all("lora" in name for name in stored["state_dict"])
    assert stored["global_step"] == STEPS and stored["policy"]["kind"] == "lora"
    from trustvid.policy.vlm_adapters import restore

    fresh = TinyPolicy("qwen2_5_vl", cache, init_from=str(tmp_path / "last.ckpt"))
    asked = [made.policy.loaded, fresh.load()]
    example = example_of(conversations()[0], asked[0], made.policy.showing)
    made.network.eval()
    with torch.no_grad():
        logits = [one.network(**example.buffer.tensors, use_cache=False).logits for one in asked]
    assert torch.equal(*logits)
    with pytest.raises(TrustvidError, match="there is no adapter"):
        restore(asked[0].network, str(tmp_path / "none"))


LOADED = """
import sys, torch
from transformers import AutoModelForImageTextToText, AutoProcessor
kind, base, folder, inputs, out = sys.argv[1:]
if kind == "lora":
    from peft import PeftModel
    model = PeftModel.from_pretrained(AutoModelForImageTextToText.from_pretrained(base), folder)
else:
    model = AutoModelForImageTextToText.from_pretrained(folder)
AutoProcessor.from_pretrained(folder)
with torch.no_grad():
    logits = model.eval()(**torch.load(inputs, weights_only=True), use_cache=False).logits
torch.save(logits, out)
assert "trustvid" not in sys.modules
"""


@pytest.mark.parametrize("adapter", [Full(), Lora(r=4)], ids=["full", "lora"])
def test_the_exported_folder_loads_with_plain_transformers_and_peft(cache, tmp_path, adapter):
    made = trained(module(cache, adapter, steps=2))
    made.trainable.export(tmp_path / "policy")
    example = example_of(conversations()[0], made.policy.loaded, made.policy.showing)
    torch.save(example.buffer.tensors, tmp_path / "in.pt")
    made.network.eval()
    with torch.no_grad():
        ours = made.network(**example.buffer.tensors, use_cache=False).logits
    base = made.policy.weights.model
    paths = [str(tmp_path / name) for name in ("policy", "in.pt", "out.pt")]
    script = [sys.executable, "-c", LOADED, made.trainable.kind, base, *paths]
    result = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    assert torch.allclose(torch.load(tmp_path / "out.pt", weights_only=True), ours, atol=1e-5)


# -- the run -----------------------------------------------------------------------------------------------------------


TRAINER = {"_target_": "trustvid.training.trainer.TrainerSettings", "last_every": 2}
LOGGERS = {
    "csv": {"_target_": "trustvid.training.curves.Csv"},
    "tensorboard": {"_target_": "trustvid.training.curves.TensorBoard"},
}


def test_a_run_leaves_curves_checkpoints_and_a_policy_and_is_not_done_twice(cache, tmp_path, capsys):
    import csv

    from trustvid.training.run import fit

    config = {"stage": "sft", "name": "small", "trainer": TRAINER, "logger": LOGGERS, "checkpoint_every": 4}
    folder, info = RunFolder(tmp_path / "run"), RunInfo("small", "0123456789", {"talk": "ab" * 32})
    built = []

    def assemble(writer):
        writer.append("examples", [{"key": "a", "part": "all"}])
        built.append(module(cache, held_out=conversations()[:2]))
        return built[-1]

    fit(assemble, config, folder, info)
    assert folder.existing_run()["status"] == "finished"
    there = {path.name for path in folder.path.iterdir()}
    assert {"metrics.csv", "tensorboard", "checkpoints", "policy", "training.json", "examples.jsonl"} <= there
    assert {path.name for path in (folder.path / "checkpoints").iterdir()} == {"last.ckpt", "step-000004.ckpt"}
    with (folder.path / "metrics.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["step"] for row in rows[:STEPS]] == [str(step) for step in range(STEPS)]
    losses = [float(row["loss"]) for row in rows if row["loss"]]
    assert losses[-1] < losses[0] and any(row["eval_loss"] for row in rows)
    card = (folder.path / "policy" / "README.md").read_text()
    for part in ("base_model: tiny_qwen2_5_vl", "ab" * 32, "0123456789", "licence", "eval_loss"):
        assert part in card
    assert "policy.init_from=" in capsys.readouterr().out
    fit(assemble, config, folder, info)
    assert len(built) == 1 and "has finished" in capsys.readouterr().out
    fit(assemble, {**config, "fresh": True}, folder, info)
    assert len(built) == 2


def test_rows_of_steps_that_are_made_again_are_written_anew(tmp_path):
    from trustvid.training.csv_logger import CsvLogger

    first = CsvLogger(tmp_path / "m.csv")
    for step in range(4):
        first.log_metrics({"loss": float(step), "epoch": 0}, step)
    first.log_metrics({"eval_loss": 1.5}, 3)
    first.finalize("killed")
    again = CsvLogger(tmp_path / "m.csv", step=2)
    again.log_metrics({"loss": 7.0, "new": 1.0}, 2)
    again.finalize("success")
    assert (tmp_path / "m.csv").read_text() == "step,loss,new\n0,0,\n1,1,\n2,7,1\n"


def test_a_curve_that_cannot_move_is_said_once():
    from types import SimpleNamespace

    from trustvid.training.callbacks import PATIENCE, Watch

    said: list[str] = []
    watch, still = Watch(said.append), {"grad_norm": 0.0, "frac_reward_zero_std": 1.0, "learning_rate": 1e-3}
    for step in range(3 * PATIENCE):
        watch.on_train_batch_end(SimpleNamespace(callback_metrics=still), SimpleNamespace(step=step))
    assert len(said) == 2 and "no weight moves" in said[0] and "same reward" in said[1]
    watch.on_train_batch_end(SimpleNamespace(callback_metrics={"grad_norm": 0.1}), SimpleNamespace(step=99))
    for step in range(PATIENCE):
        watch.on_train_batch_end(SimpleNamespace(callback_metrics={"grad_norm": 0.0}), SimpleNamespace(step=step))
    assert len(said) == 3


def test_trainer_settings_are_refused_together():
    with pytest.raises(ConfigError) as caught:
        TrainerSettings(accelerator="tpu", devices=2, precision="8", last_every=0)
    assert len(caught.value.faults) == 4 and "need a strategy" in caught.value.faults[-1]
    assert build({**TRAINER, "devices": 2, "strategy": "ddp"}).processes == 2


def test_a_sweep_over_several_processes_is_refused_with_both_ways_out(monkeypatch):
    from types import SimpleNamespace

    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from trustvid.training.trainer import refuse_multirun

    monkeypatch.setattr(HydraConfig, "initialized", lambda: True)
    monkeypatch.setattr(HydraConfig, "get", lambda: SimpleNamespace(mode=RunMode.MULTIRUN))
    refuse_multirun(TrainerSettings())
    with pytest.raises(ConfigError, match=r"trainer\.devices=1.*without -m"):
        refuse_multirun(TrainerSettings(devices=2, strategy="ddp"))


def test_learning_moves_the_replies(cache):
    """Forty steps of a tiny model on eight conversations: it says what it was taught."""
    made = trained(module(cache, steps=40, micro_batch=8, order=StepOrder(8, 8, 0)))
    assert float(made.trainer.callback_metrics["loss"]) < 0.5 < math.log(1000)
    from trustvid.policy.base import PolicyRequest

    told = [one for one in conversations() if one.key.startswith("told")]
    made.network.eval()
    assert made.policy.generate([PolicyRequest(one.messages[:1], CLIPS[0]) for one in told]) == ["read_text"] * 4
    assert np.isfinite([float(value.sum()) for value in weights(made).values()]).all()
