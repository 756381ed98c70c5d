"""Loss, gradient and advantages agree with TRL's own on the same inputs, to 1e-5.

The trainer is TRL's, built on a tiny random model; only its pass over the model is replaced, by given tensors.

pytest tests/unit/test_grpo_trl_parity.py -q -n 0
"""

from __future__ import annotations

import importlib.util
import itertools

import pytest

MISSING = [name for name in ("torch", "trl", "transformers", "datasets") if importlib.util.find_spec(name) is None]
if MISSING:
    pytest.skip(
        f"parity with TRL is not tested: {', '.join(MISSING)} missing; install with pip install 'trl==1.16.*'",
        allow_module_level=True,
    )

import numpy as np  # noqa: E402
import torch  # noqa: E402

from trustvid.grpo.advantages import group_advantages  # noqa: E402
from trustvid.grpo.losses import averages, policy_loss  # noqa: E402
from trustvid.grpo.settings import LEVELS, LOSS_TYPES, SCALES, LossConfig  # noqa: E402

# Importing TRL takes 10 to 20 s.
pytestmark = pytest.mark.slow

N, L, LONGEST = 6, 9, 12
CASES = list(itertools.product(LOSS_TYPES, LEVELS, (0.0, 0.07), (False, True)))


class Rewards:
    """A reward function that returns what it was given."""

    __name__ = "given"
    values: tuple[float, ...] = ()

    def __call__(self, completions, **_):
        return list(self.values)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    from datasets import Dataset
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer
    from trl import GRPOConfig, GRPOTrainer

    folder = str(tmp_path_factory.mktemp("trl"))
    tokenizer = Qwen2Tokenizer().train_new_from_iterator(["how many cars are there"], vocab_size=300)
    tokenizer.pad_token = tokenizer.eos_token = "<|endoftext|>"  # noqa: S105
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), **sizes, **heads, **ends))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    settings = GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        report_to=[],
        num_generations=4,
        per_device_train_batch_size=8,
        max_completion_length=LONGEST,
        gradient_checkpointing=False,
    )
    data = Dataset.from_list([{"prompt": "how many"}] * 8)
    made = GRPOTrainer(
        Qwen2ForCausalLM.from_pretrained(folder), Rewards(), args=settings, train_dataset=data,
        processing_class=tokenizer,
    )  # fmt: skip
    made.current_gradient_accumulation_steps = made.args.steps_per_generation = 1
    return made


def inputs(seed: int) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    logp = -torch.rand(N, L, generator=rng) * 3
    mask = (torch.arange(L)[None] < torch.randint(1, L + 1, (N, 1), generator=rng)).long()
    tool = torch.ones(N, L, dtype=torch.long)
    tool[2, 1:3] = 0
    return {
        "logp": logp,
        "completion_mask": mask,
        "tool_mask": tool,
        "advantages": torch.randn(N, generator=rng),
        "old_logp": logp + 0.4 * torch.randn(N, L, generator=rng),
        "ref_logp": logp + 0.4 * torch.randn(N, L, generator=rng),
        "entropy": torch.rand(N, L, generator=rng),
    }


def theirs(trainer, given, settings: LossConfig, monkeypatch) -> tuple[torch.Tensor, torch.Tensor, dict]:
    """TRL's loss, its gradients with respect to log-probabilities and entropies, and the metrics it logged."""
    logp, entropy = (given[name].clone().requires_grad_() for name in ("logp", "entropy"))
    monkeypatch.setattr(trainer, "_get_per_token_logps_and_entropies", lambda *a, **k: (logp, entropy, None))
    for name in ("loss_type", "importance_sampling_level", "beta", "max_completion_length", "entropy_coef"):
        monkeypatch.setattr(trainer, name, getattr(settings, name))
    monkeypatch.setattr(trainer, "epsilon_low", settings.epsilon)
    monkeypatch.setattr(trainer, "epsilon_high", settings.epsilon_high or settings.epsilon)
    monkeypatch.setattr(trainer, "_entropy_bonus_enabled", settings.entropy_coef > 0)
    monkeypatch.setattr(trainer.args, "use_bias_correction_kl", settings.use_bias_correction_kl)
    batch = {
        "prompt_ids": torch.zeros(N, 1, dtype=torch.long),
        "prompt_mask": torch.ones(N, 1, dtype=torch.long),
        "completion_ids": torch.zeros(N, L, dtype=torch.long),
        "completion_mask": given["completion_mask"],
        "tool_mask": given["tool_mask"],
        "advantages": given["advantages"],
        "old_per_token_logps": given["old_logp"],
        "ref_per_token_logps": given["ref_logp"],
        "num_items_in_batch": (given["completion_mask"] * given["tool_mask"]).sum(),
    }
    trainer.model.train()
    trainer._metrics["train"].clear()
    loss = trainer._compute_loss(trainer.model, batch)
    loss.backward()
    bonus = torch.zeros_like(entropy) if entropy.grad is None else entropy.grad
    return loss.detach(), torch.cat([logp.grad, bonus]), {k: v[-1] for k, v in trainer._metrics["train"].items()}


def ours(given, settings: LossConfig) -> tuple[torch.Tensor, torch.Tensor, dict]:
    logp, entropy = (given[name].clone().requires_grad_() for name in ("logp", "entropy"))
    mask = given["completion_mask"] * given["tool_mask"]
    loss, metrics = policy_loss(
        logp, given["advantages"], mask, settings,
        old_logp=given["old_logp"], ref_logp=given["ref_logp"], entropy=entropy,
    )  # fmt: skip
    loss.backward()
    bonus = torch.zeros_like(entropy) if entropy.grad is None else entropy.grad
    return loss.detach(), torch.cat([logp.grad, bonus]), averages([metrics])


@pytest.mark.parametrize(("loss_type", "level", "beta", "moved"), CASES)
def test_loss_gradient_and_metrics_are_theirs(trainer, monkeypatch, loss_type, level, beta, moved):
    seed = CASES.index((loss_type, level, beta, moved))
    for corrected, by_token, entropy_coef in itertools.product((False, True), (False, True), (0.0, 0.02)):
        settings = LossConfig(loss_type, level, 0.2, 0.28, beta, LONGEST, entropy_coef, corrected)
        given = inputs(seed)
        if not moved:
            given["old_logp"] = None
        if by_token:
            given["advantages"] = given["advantages"][:, None] + torch.linspace(-1, 1, L)
        loss, grad, metrics = ours(given, settings)
        reference = theirs(trainer, given, settings, monkeypatch)
        assert torch.allclose(loss, reference[0], atol=1e-5) and torch.allclose(grad, reference[1], atol=1e-5)
        assert grad.abs().max() > 1e-4
        shared = set(metrics) & set(reference[2])
        assert {"entropy", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean"} <= shared
        assert ("kl" in shared) == (beta > 0)
        assert {k: metrics[k] for k in shared} == pytest.approx({k: reference[2][k] for k in shared}, abs=1e-5)


@pytest.mark.parametrize("scale", SCALES)
def test_advantages_are_theirs(trainer, monkeypatch, scale):
    monkeypatch.setattr(trainer, "scale_rewards", scale)
    for rewards in ([1, 0, 0.5, 0.25, 1, 1, 1, 1], [1.6, -0.4, 0.1, 0.1, -1, 0.3, 0.7, 1.1], [0.5] * 8):
        trainer.reward_funcs[0].values = tuple(map(float, rewards))
        batch = trainer._generate_and_score_completions([{"prompt": "how many"}] * 8)
        mine = group_advantages(rewards, 4, scale)
        assert np.allclose(mine.values, batch["advantages"].numpy(), atol=1e-5)
