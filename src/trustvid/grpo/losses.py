"""The GRPO family of losses: pure functions of per-token tensors. N sequences (questions × generations), L tokens.

A batch may be cut into micro-batches: with the :func:`normaliser` of the whole batch, the losses of its parts add up to
the loss of the whole, and so do their gradients. On equal inputs everything here agrees with TRL 1.16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from trustvid.grpo.settings import LossConfig

# Log-ratios beyond this are cut: exp(20) is far outside of any clip range, exp(89) is no float32 any more.
LARGEST_LOG_RATIO = 20.0


class Normaliser(NamedTuple):
    """What the sums over a batch are divided by. Both are scalars, at least 1.

    Attributes:
        loss: for the policy's loss.
        entropy: tokens that the entropy bonus is a mean over.
    """

    loss: Tensor
    entropy: Tensor


class Mean(NamedTuple):
    """A mean that is still to be taken, so that parts of a batch can be joined: scalars without gradient."""

    total: Tensor
    count: Tensor


def per_token_kl(logp: Tensor, ref_logp: Tensor) -> Tensor:
    """The estimator k3 of KL(policy ‖ reference) for every token: exp(r - p) - (r - p) - 1, never negative.

    From one sample of the policy (Schulman, "Approximating KL Divergence", 2020; arXiv 2402.03300, Eq. 4).

    Args:
        logp, ref_logp: log-probabilities of the sampled tokens, [N, L].
    """
    difference = (ref_logp - logp).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    return torch.exp(difference) - difference - 1


def normaliser(
    loss_mask: Tensor,
    config: LossConfig,
    entropy_mask: Tensor | None = None,
    tokens_everywhere: Tensor | float | None = None,
    processes: int = 1,
) -> Normaliser:
    """What the losses of a batch are divided by, from all of the batch that one process works on in one step.

    Gradients are supposed to be averaged over processes, as DDP does; "grpo" and "dr_grpo" then need nothing more if
    each has as many sequences.

    Args:
        loss_mask: [N, L], nonzero on the tokens that the policy wrote and that count.
        config: its ``loss_type`` decides.
        entropy_mask: [N, L], the tokens of the entropy bonus, as far as they count; None = all that count.
        tokens_everywhere: for "dapo": nonzero entries of the masks of all processes; None = there is only this one.
        processes: how many there are.
    """
    tokens = (loss_mask != 0).sum().to(torch.float32)
    if config.loss_type == "grpo":
        loss = torch.full_like(tokens, loss_mask.shape[0])
    elif config.loss_type == "dr_grpo":
        loss = torch.full_like(tokens, loss_mask.shape[0] * config.max_completion_length)
    elif config.loss_type == "dapo" and tokens_everywhere is not None:
        loss = torch.full_like(tokens, float(tokens_everywhere) / processes)
    else:
        loss = tokens
    bonus = tokens if entropy_mask is None else ((entropy_mask != 0) & (loss_mask != 0)).sum().to(torch.float32)
    return Normaliser(loss.clamp(min=1.0), bonus.clamp(min=1.0))


def policy_loss(
    logp: Tensor,
    advantages: Tensor,
    loss_mask: Tensor,
    config: LossConfig,
    *,
    old_logp: Tensor | None = None,
    ref_logp: Tensor | None = None,
    entropy: Tensor | None = None,
    entropy_mask: Tensor | None = None,
    normalised_by: Normaliser | None = None,
) -> tuple[Tensor, dict[str, Mean]]:
    """The clipped surrogate loss (PPO's, DeepSeekMath Eq. 3) with KL to the reference and entropy bonus.

    Args:
        logp: log-probabilities of the sampled tokens under the policy, [N, L], with gradient.
        advantages: [N], or [N, L] for credit by token.
        loss_mask: [N, L], nonzero on the tokens that count. What stands elsewhere never matters, be it NaN.
        config: the objective.
        old_logp: [N, L], by the policy that sampled; None = the same policy (one update for each batch).
        ref_logp: [N, L], by the reference policy; needed if ``config.beta`` > 0, else not read.
        entropy: [N, L], of the policy's distribution at each token (natural logarithm); needed for an entropy bonus.
        entropy_mask: [N, L], the tokens of the bonus, as far as they count; None = all that count.
        normalised_by: of the batch that this is a part of; None = it is the whole batch.

    Returns:
        The loss, a scalar, and what TRL logs, by its names, for :func:`averages`: clip_ratio/low_mean,
        clip_ratio/high_mean, clip_ratio/region_mean, kl (with a reference), entropy (where given), and policy_loss.

    Raises:
        ValueError: shapes do not fit, or an input that the objective needs is missing; all of it in one message.
    """
    _refuse(logp, advantages, loss_mask, config, old_logp, ref_logp, entropy, entropy_mask)
    counts = loss_mask != 0
    mask = counts.to(logp.dtype)
    normalised_by = normalised_by or normaliser(loss_mask, config, entropy_mask)
    by_token = advantages.dim() == 2
    advantages = advantages.masked_fill(~counts, 0.0) if by_token else advantages.unsqueeze(1)
    logp = logp.masked_fill(~counts, 0.0)
    old_logp = logp.detach() if old_logp is None else old_logp.masked_fill(~counts, 0.0)
    ratio = importance_ratio(logp, old_logp, mask, config.importance_sampling_level)
    high = config.epsilon if config.epsilon_high is None else config.epsilon_high
    clipped = torch.clamp(ratio, 1 - config.epsilon, 1 + high)
    per_token = -torch.min(ratio * advantages, clipped * advantages)

    by_token |= config.importance_sampling_level == "token"
    metrics = _clip_metrics(ratio, advantages, mask if by_token else None, 1 - config.epsilon, 1 + high)
    if config.needs_reference:
        kl = per_token_kl(logp, ref_logp.masked_fill(~counts, 0.0))
        kl = kl * ratio if config.use_bias_correction_kl else kl
        per_token = per_token + config.beta * kl
        metrics["kl"] = _mean(kl, mask)

    loss = _sum(per_token, mask, config.loss_type) / normalised_by.loss
    metrics["policy_loss"] = Mean(loss.detach(), torch.ones_like(loss.detach()))
    if entropy is not None:
        metrics["entropy"] = _mean(entropy.masked_fill(~counts, 0.0), mask)
    if config.entropy_coef:
        bonus_mask = counts if entropy_mask is None else counts & (entropy_mask != 0)
        loss = loss - config.entropy_coef * entropy.masked_fill(~bonus_mask, 0.0).sum() / normalised_by.entropy
    return loss, metrics


def importance_ratio(logp: Tensor, old_logp: Tensor, mask: Tensor, level: str) -> Tensor:
    """How much likelier the policy finds what was sampled than the policy that sampled it.

    Args:
        logp, old_logp: log-probabilities of the sampled tokens, [N, L].
        mask: [N, L], 1 on the tokens that count, else 0.
        level: "token": [N, L]; "sequence": the geometric mean over the sequence's tokens, [N, 1] (GSPO, arXiv
            2507.18071, Eq. 7).
    """
    log_ratio = logp - old_logp
    if level == "sequence":
        log_ratio = ((log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).unsqueeze(-1)
    return torch.exp(log_ratio.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))


def averages(parts: Iterable[Mapping[str, Mean]]) -> dict[str, float]:
    """Metrics of the parts of one batch as those of the whole. ``policy_loss`` is a sum: that of the parts' losses."""
    totals: dict[str, list[float]] = {}
    for part in parts:
        for name, mean in part.items():
            total = totals.setdefault(name, [0.0, 0.0])
            total[0] += float(mean.total)
            total[1] += float(mean.count)
    summed = ("policy_loss",)
    return {name: total / (1.0 if name in summed else max(count, 1.0)) for name, (total, count) in totals.items()}


def _sum(per_token: Tensor, mask: Tensor, loss_type: str) -> Tensor:
    """Sum of token losses ([N, L], or [N, 1] where all tokens of a sequence have the same), weighted by loss type."""
    by_sequence = (per_token * mask).sum(-1)
    return (by_sequence / mask.sum(-1).clamp(min=1.0)).sum() if loss_type == "grpo" else by_sequence.sum()


def _clip_metrics(ratio: Tensor, advantages: Tensor, mask: Tensor | None, low: float, high: float) -> dict[str, Mean]:
    """How often clipping took the gradient away: below for bad tokens, above for good ones, and either."""
    below = ((ratio < low) & (advantages < 0)).to(ratio.dtype)
    above = ((ratio > high) & (advantages > 0)).to(ratio.dtype)
    hits = {"low_mean": below, "high_mean": above, "region_mean": below + above}
    return {f"clip_ratio/{name}": _mean(values, mask) for name, values in hits.items()}


def _mean(values: Tensor, mask: Tensor | None) -> Mean:
    """Over the tokens that count; without a mask over all values, which are one for each sequence (as TRL does)."""
    mask = torch.ones_like(values) if mask is None else mask
    return Mean((values.detach() * mask).sum(), mask.sum())


def _refuse(
    logp: Tensor,
    advantages: Tensor,
    loss_mask: Tensor,
    config: LossConfig,
    old_logp: Tensor | None,
    ref_logp: Tensor | None,
    entropy: Tensor | None,
    entropy_mask: Tensor | None,
) -> None:
    """Raise for what does not fit."""
    if logp.dim() != 2:
        raise ValueError(f"logp has shape {list(logp.shape)}; expected [N, L]")
    faults = []
    given = {"loss_mask": loss_mask, "old_logp": old_logp, "ref_logp": ref_logp}
    given |= {"entropy": entropy, "entropy_mask": entropy_mask}
    for name, tensor in given.items():
        if tensor is not None and tensor.shape != logp.shape:
            faults.append(f"{name} has shape {list(tensor.shape)}; expected {list(logp.shape)}, that of logp")
    if advantages.shape not in (logp.shape, logp.shape[:1]):
        faults.append(f"advantages have shape {list(advantages.shape)}; expected [{logp.shape[0]}] or that of logp")
    if config.needs_reference and ref_logp is None:
        faults.append(f"beta={config.beta} needs ref_logp, log-probabilities by the reference policy")
    if config.entropy_coef and entropy is None:
        faults.append(f"entropy_coef={config.entropy_coef} needs entropy")
    if faults:
        raise ValueError("policy_loss: " + "; ".join(faults))
