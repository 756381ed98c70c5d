"""RobustTO under GRPO: what a step learns from, what the reference is, what does not matter, what is logged.

On a tiny checkpoint through the real sampling, scoring and updating code; the questions are asked in words alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from trustvid.errors import TrustvidError
from trustvid.grpo.episodes import Episode, Outcome, ToolCall
from trustvid.grpo.reward import Reward, RewardInputs
from trustvid.grpo.settings import AdvantageConfig, LossConfig
from trustvid.policy.base import Message, PolicyRequest
from trustvid.training.optimizer import AdamW
from trustvid.training.order import StepOrder

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

from lightning import Trainer  # noqa: E402

from trustvid.grpo.rollout import HfEngine, roll_out  # noqa: E402
from trustvid.grpo.spans import tool_spans  # noqa: E402
from trustvid.module import RobustTO  # noqa: E402
from trustvid.policy.tiny import TinyPolicy  # noqa: E402
from trustvid.policy.vlm_adapters import Full, Lora  # noqa: E402

TOOLS = ("read_text", "detect_objects")


class Words:
    """What a conversation without frames is about."""

    def __init__(self, name: str):
        self.digest = name

    def frame_key(self, index: int) -> str:
        raise IndexError(index)


class Asking:
    """Two turns about a word. The reward is the share of letters a–m in the replies, so that every sample differs."""

    def __init__(self, unreadable: Sequence[int] = (), failing: Sequence[int] = (), flat: bool = False):
        self.unreadable, self.failing, self.flat = set(unreadable), set(failing), flat

    def __len__(self) -> int:
        return 8

    def episode(self, index: int, epoch: int) -> Episode:
        if index in self.unreadable:
            raise TrustvidError(f"clip {index} cannot be read")

        def start():
            said = [Message("system", "You answer."), Message("user", f"Question number {index}: where?")]
            said.append(Message("assistant", (yield PolicyRequest(tuple(said), Words(str(index))))))
            if index in self.failing:
                raise TrustvidError("the tools are gone")
            said.append(Message("user", "And now?"))
            said.append(Message("assistant", (yield PolicyRequest(tuple(said), Words(str(index))))))
            return said

        return Episode(f"q{index}", start, self.judge)

    def judge(self, said: list[Message]) -> Outcome:
        letters = [c for m in said if m.role == "assistant" for c in m.text.lower() if c.isalpha()]
        share = 0.5 if self.flat or not letters else sum(c < "n" for c in letters) / len(letters)
        calls = (ToolCall(0, "where", TOOLS[0], share, 0.25), ToolCall(1, "what", TOOLS[1], 1 - share, 0.5))
        inputs = RewardInputs(share, 2, 1, (0.5, 0.5), (0.25, 0.5), True)
        return Outcome(inputs, calls, routing_turn=0, record={"messages": []})


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.set_num_threads(1)
    return str(tmp_path_factory.mktemp("models"))


def make(cache: str, adapter=None, environment=None, **changes) -> RobustTO:
    policy = TinyPolicy("qwen2_5_vl", cache, init_from=changes.pop("init_from", None))
    steps = changes.pop("steps", 1)
    given = {
        "loss": LossConfig(beta=0.1),
        "advantage": AdvantageConfig(),
        "num_generations": 4,
        "micro_batch": 8,
        **changes,
    }
    return RobustTO(
        policy,
        adapter or Full(),
        AdamW(1e-3),
        StepOrder(8, 2, 0),
        steps,
        environment or Asking(),
        given.pop("engine", None) or HfEngine(max_new_tokens=[8, 5]),
        Reward(),
        **given,
    )


def fit(module: RobustTO, watch: Callable[[dict], None] = lambda metrics: None, ckpt: str | None = None) -> dict:
    from lightning.pytorch.callbacks import Callback

    class Watch(Callback):
        def on_train_batch_end(self, trainer, pl_module, *args) -> None:
            watch({name: float(value) for name, value in trainer.callback_metrics.items()})

    trainer = Trainer(
        max_steps=module.steps * module.updates_per_step,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Watch()],
    )
    trainer.fit(module, ckpt_path=ckpt)
    module.last_trainer = trainer
    return {name: float(value) for name, value in trainer.callback_metrics.items()}


def weights(module: RobustTO) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.trainable.trained().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], atol: float = 0.0) -> bool:
    return a.keys() == b.keys() and all(torch.allclose(a[name], b[name], rtol=0, atol=atol) for name in a)


def gradients(module: RobustTO) -> dict[str, torch.Tensor]:
    """Of the last update. Weights say less: AdamW's first step is as long for a gradient that is only rounding."""
    trained = module.trainable.trained().items()
    return {name: value.grad.clone() for name, value in trained if value.grad is not None}


def alike(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    largest = max(float(value.abs().max()) for value in a.values())
    return a.keys() == b.keys() and largest > 0 and all(torch.allclose(a[k], b[k], 1e-3, 1e-5 * largest) for k in a)


def test_a_step_changes_the_policy_and_says_what_trl_says(cache):
    module = make(cache)
    before, metrics = weights(module), fit(module)
    assert not same(before, weights(module))
    for name in ("reward", "reward_std", "frac_reward_zero_std", "kl", "entropy", "completions/mean_length",
                 "completions/clipped_ratio", "clip_ratio/region_mean", "rewards/acc/mean", "grad_norm"):  # fmt: skip
        assert math.isfinite(metrics[name]), name
    assert metrics["kl"] == pytest.approx(0, abs=1e-6) and metrics["frac_reward_zero_std"] == 0
    assert metrics["sampling/sampling_logp_difference/mean"] < 1e-4 and metrics["grad_norm"] > 0
    assert metrics["reward_std"] > 0 and 0 < metrics["completions/mean_length"] <= 13


@pytest.mark.parametrize("adapter", [Full(), Lora(r=4)], ids=["full", "lora"])
def test_rewards_rise_when_the_policy_is_trained_on_them(cache, adapter):
    seen: list[float] = []
    module = make(cache, adapter, steps=8, num_generations=8, loss=LossConfig(beta=0.0))
    module.optimizer_settings.lr = 5e-3 if adapter.name == "full" else 3e-2  # an adapter begins at nothing
    fit(module, lambda metrics: seen.append(metrics["rewards/acc/mean"]))
    assert len(seen) == 8 and np.mean(seen[-2:]) > np.mean(seen[:2]) + 0.05, seen


@pytest.mark.parametrize("changes", [
    {"micro_batch": 3}, {"engine": "small"}], ids=["micro-batches", "sampling batches"],
)  # fmt: skip
def test_how_much_is_done_at_a_time_changes_nothing(cache, changes):
    if changes.get("engine") == "small":
        changes = {"engine": HfEngine(max_new_tokens=[8, 5], batch_size=3)}
    one, other = make(cache), make(cache, **changes)
    fit(one)
    fit(other)
    assert alike(gradients(one), gradients(other))


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "bnpo", "dr_grpo"])
def test_micro_batches_add_up_for_every_loss(cache, loss_type):
    loss = LossConfig(loss_type=loss_type, beta=0.05, max_completion_length=13, entropy_coef=0.1)
    found = []
    for size in (8, 3):
        module = make(cache, loss=loss, micro_batch=size, entropy_on="all")
        fit(module)
        found.append(gradients(module))
    assert alike(*found)


def test_the_reference_after_sft_is_the_adapter_that_training_began_with(cache, tmp_path):
    """Case 73: KL is 0 in the first step, and the base model without the adapter is something else."""
    first = make(cache, Lora(r=4), steps=2)
    fit(first)
    first.trainable.export(tmp_path / "sft")
    second = make(cache, Lora(r=4), init_from=str(tmp_path / "sft"), steps=2)
    assert second.trainable.reference_is == "the adapter it started from"
    kl: list[float] = []
    started = weights(second)
    fit(second, lambda metrics: kl.append(metrics["kl"]))
    assert kl[0] == pytest.approx(0, abs=1e-6) and kl[1] > 1e-6
    assert not same(started, weights(second))
    rollouts = roll_out([Asking().episode(0, 0)], 1, second.engine, 0)
    now = second._logprobs([rollouts[0].buffer])[0]
    with second.trainable.reference():
        reference = second._logprobs([rollouts[0].buffer])[0]
    with second.trainable.peft.disable_adapter():
        base = second._logprobs([rollouts[0].buffer])[0]
    assert not torch.allclose(reference, base, atol=1e-4) and not torch.allclose(now, reference, atol=1e-5)
    again = make(cache, Lora(r=4), init_from=str(tmp_path / "sft"))
    assert torch.allclose(again._logprobs([rollouts[0].buffer])[0], reference, atol=1e-4)


def test_without_kl_no_reference_is_run(cache):
    module = make(cache, loss=LossConfig(beta=0.0))

    def refuse():
        raise AssertionError("the reference was asked")

    module.trainable.reference = refuse
    assert "kl" not in fit(module)


def test_what_fails_is_left_out_and_counted(cache):
    told = []
    module = make(cache, environment=Asking(unreadable=range(0, 8, 2), failing=(1, 5)), steps=4)
    module.on_rollouts = lambda step, rollouts, terms: told.append((step, rollouts, terms))
    seen: list[dict] = []
    fit(module, seen.append)
    asked = [question for step in range(4) for question in module.order.samples(step)]
    assert sum(metrics["questions/left_out"] for metrics in seen) == sum(q % 2 == 0 for q in asked)
    assert sum(metrics["rollouts/failed"] for metrics in seen) == 4 * sum(q in (1, 5) for q in asked)
    failed = [
        (one, term) for _, rollouts, terms in told for one, term in zip(rollouts, terms, strict=True) if one.error
    ]
    assert failed and all(term is None and one.error == "the tools are gone" for one, term in failed)
    assert module.last_trainer.global_step == 4 and all(torch.isfinite(v).all() for v in weights(module).values())


def test_equal_rewards_teach_nothing_and_are_said(cache):
    """Case 65."""
    module = make(cache, environment=Asking(flat=True), loss=LossConfig(beta=0.0))
    before, metrics = weights(module), fit(module)
    assert metrics["frac_reward_zero_std"] == 1.0 and metrics["grad_norm"] == 0.0
    assert same(before, weights(module))


def test_several_updates_on_one_rollout_use_the_policy_that_sampled(cache):
    module = make(cache, num_iterations=3, steps=2, loss=LossConfig(beta=0.0, epsilon=0.001))
    module.optimizer_settings.lr = 1e-2
    metrics = fit(module)
    assert module.last_trainer.global_step == 6
    assert metrics["clip_ratio/region_mean"] > 0  # the ratio has left 1 by the last update


def test_truncated_trajectories_can_be_masked(cache):
    advantage = AdvantageConfig(mask_truncated_completions=True)
    module = make(cache, advantage=advantage, loss=LossConfig(beta=0.0), engine=HfEngine(max_new_tokens=1))
    before, metrics = weights(module), fit(module)
    assert metrics["completions/clipped_ratio"] == 1.0 and metrics["grad_norm"] == 0 and same(before, weights(module))


def test_draws_depend_on_step_question_and_sample_alone(cache):
    module = make(cache)
    episodes = [module.environment.episode(number, 0) for number in (3, 5)]
    replies = [one.replies for one in roll_out(episodes, 4, module.engine, 7)]
    assert replies == [one.replies for one in roll_out(episodes, 4, module.engine, 7)]
    turned = [one.replies for one in roll_out(episodes[::-1], 4, module.engine, 7)]
    assert turned == replies[4:] + replies[:4] and len(set(replies)) == 8
    assert replies != [one.replies for one in roll_out(episodes, 4, module.engine, 8)]


def test_the_tokens_of_a_tool_are_found(cache):
    module = make(cache)
    model = module.policy.loaded
    from trustvid.grpo.rollout import Rollout
    from trustvid.policy.vlm_tokens import TokenBuffer

    reply = "<think>1 of these</think>\n1 text blur read_text\n- 2. spatial: detect_objects"
    buffer = TokenBuffer(model.encode(PolicyRequest((Message("user", "Route."),), Words("x")), module.policy.showing))
    tokens = [*model.tokens_of(reply), model.turn_end]
    buffer.write(tokens, [0.0] * len(tokens), complete=True)
    outcome = Asking().judge([])
    spans = tool_spans(Rollout("x", 0, buffer, (reply,), outcome), model)
    named = {
        number: model.processor.tokenizer.decode(buffer.ids[slice(*span)]).strip() for number, span in spans.items()
    }
    assert named == {0: "read_text", 1: "detect_objects"}
    other = Outcome(outcome.inputs, (ToolCall(0, "k", "caption_frame", 0.5, 0.3),), routing_turn=0)
    assert tool_spans(Rollout("x", 0, buffer, (reply,), other), model) == {}


def test_credit_by_turn_sets_the_tokens_of_a_tool_apart(cache):
    module = make(cache, advantage=AdvantageConfig(credit="turn", scale_rewards="batch"))
    module.last_trainer = None
    fit(module)
    episodes = [module.environment.episode(number, 0) for number in (0, 1)]
    rollouts = roll_out(episodes, 4, module.engine, 0)
    terms = [module.reward.terms(one.outcome.inputs) for one in rollouts]
    batch, spread = module.credited(rollouts, terms)
    assert spread == 0 and len(batch.rollouts) == 8
    for one, values in zip(batch.rollouts, batch.advantages, strict=True):
        assert values.shape == (len(one.buffer),) and np.isfinite(values).all()
    totals = np.array([module.reward.total(term) for term in terms]).reshape(2, 4)
    expected = (totals - totals.mean(1, keepdims=True)) / (totals.std(ddof=1) + 1e-4)
    assert [values[0] for values in batch.advantages] == pytest.approx(expected.ravel().tolist())


def test_a_checkpoint_is_small_plain_and_brings_the_policy_back(cache, tmp_path):
    module = make(cache, Lora(r=4), steps=2)
    fit(module)
    path = tmp_path / "last.ckpt"
    module.last_trainer.save_checkpoint(path)
    stored = torch.load(path, weights_only=True)
    assert set(stored["state_dict"]) == {f"network.{name}" for name in weights(module)}
    back = TinyPolicy("qwen2_5_vl", cache, init_from=str(path), max_new_tokens=6)
    module.network.eval()
    request, base = PolicyRequest((Message("user", "Where is it?"),), Words("w")), TinyPolicy("qwen2_5_vl", cache)
    trained, brought, before = (one.logprobs([request], ["A red car"])[0] for one in (module.policy, back, base))
    assert brought == pytest.approx(trained, abs=1e-5) and brought != pytest.approx(before, abs=1e-4)


@pytest.mark.parametrize("adapter", [Full(), Lora(r=4, dropout=0.2)], ids=["full", "lora with dropout"])
def test_a_run_that_stops_goes_on_as_if_it_had_not(cache, tmp_path: Path, adapter):
    whole = make(cache, adapter, steps=4, num_iterations=2)
    fit(whole)
    first = make(cache, adapter, steps=4, num_iterations=2)
    first.steps = 2
    fit(first)
    first.last_trainer.save_checkpoint(tmp_path / "stopped.ckpt")
    second = make(cache, adapter, steps=4, num_iterations=2)
    fit(second, ckpt=str(tmp_path / "stopped.ckpt"))
    assert second.last_trainer.global_step == 8 and same(weights(whole), weights(second))


def test_the_network_of_a_learned_estimator_is_part_of_the_module_and_stays_as_it_is(cache, tmp_path):
    class Estimator:
        network = torch.nn.Linear(3, 2)

    before = Estimator.network.weight.detach().clone()
    module = make(cache, Lora(r=4), reliability=Estimator())
    fit(module)
    module.last_trainer.save_checkpoint(tmp_path / "last.ckpt")
    stored = torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]
    assert torch.equal(stored["reliability.weight"], before) and torch.equal(Estimator.network.weight, before)
    assert not any(parameter.requires_grad for parameter in Estimator.network.parameters())
    assert make(cache).reliability is None
