"""From rewards to advantages: how much better a trajectory, or one call of it, is than others of the same question.

The N values of a batch are ordered by question: ``num_generations`` trajectories of the first, then those of the next.
Rewards of all processes go in together. A NaN stands for a trajectory without a score (its video could not be read, its
policy failed): it counts in no mean and has advantage 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trustvid.grpo.settings import SCALES

# Added to the deviation that rewards are divided by, as in TRL.
EPSILON = 1e-4
# Rewards that differ by no more than this are equal.
_EQUAL = 1e-8


@dataclass(frozen=True)
class GroupAdvantages:
    """Advantages of trajectories.

    Attributes:
        values: float64 [N]; 0, never NaN, in groups whose rewards are equal and for trajectories without a score.
        scale: what the centred rewards were divided by, float64 [N].
        frac_reward_zero_std: share of groups (among those with a score) whose rewards are all equal: nothing is
            learned from them. 0–1.
    """

    values: np.ndarray
    scale: np.ndarray
    frac_reward_zero_std: float


@dataclass(frozen=True)
class CallCredit:
    """One tool call of a trajectory.

    Attributes:
        sub_query_key: what it was asked. Calls of one group with the same key are compared with each other.
        value: what it brought, c - λ·cost (Eq. 5).
        span: tokens [start, stop) of the trajectory that chose its tool; None = the policy did not choose.
    """

    sub_query_key: str
    value: float
    span: tuple[int, int] | None = None


@dataclass(frozen=True)
class TurnCredit:
    """Advantages under turn-level credit.

    Attributes:
        calls: for each trajectory, one for each of its calls, in the order given.
        other: of all tokens that chose no tool, float64 [N].
        frac_reward_zero_std: see :class:`GroupAdvantages`.
    """

    calls: tuple[tuple[float, ...], ...]
    other: np.ndarray
    frac_reward_zero_std: float


def group_advantages(
    rewards: Sequence[float] | np.ndarray, num_generations: int, scale_rewards: str = "group"
) -> GroupAdvantages:
    """Rewards less the mean of their group, divided as ``scale_rewards`` says (TRL 1.16, DeepSeekMath 4.1.2).

    Args:
        rewards: [N], NaN = no score.
        num_generations: size of a group, G. Groups of one are allowed and teach nothing: 0.
        scale_rewards: "group" divides by the group's standard deviation (n - 1) plus 1e-4, "batch" by that of all N
            rewards, "none" by nothing. A deviation over groups that are all equal divides nothing either.

    Raises:
        ValueError: N is no multiple of G, a reward is infinite, or ``scale_rewards`` is unknown.
    """
    grouped = _grouped(rewards, num_generations)
    if scale_rewards not in SCALES:
        raise ValueError(f"scale_rewards={scale_rewards!r} is unknown; known: {', '.join(SCALES)}")
    known = ~np.isnan(grouped)
    centred = _centred(grouped)
    spread = np.array([row[seen].max() - row[seen].min() if seen.any() else np.nan for row, seen in _rows(grouped)])
    constant = ~(spread > _EQUAL)
    centred[constant] = 0.0
    deviations = {
        "group": np.array([[_deviation(row[seen])] for row, seen in _rows(grouped)]),
        "batch": np.array([[_deviation(grouped[known])]]),
        "none": np.array([[1.0 - EPSILON]]),
    }
    scale = np.broadcast_to(deviations[scale_rewards] + EPSILON, grouped.shape)
    scored = known.any(axis=1)
    share = float(constant[scored].mean()) if scored.any() else 0.0
    return GroupAdvantages((centred / scale).ravel(), scale.ravel().copy(), share)


def turn_credit(
    rewards: Sequence[float] | np.ndarray,
    accuracy: Sequence[float] | np.ndarray,
    calls: Sequence[Sequence[CallCredit]],
    num_generations: int,
    kappa: float = 3.0,
    scale_rewards: str = "batch",
) -> TurnCredit:
    """Credit by turn: a call answers for the outcome and for itself, the other tokens for the whole reward.

    A call has (R_acc less its group's mean) + κ · (its value less the mean over the group's calls of the same
    sub-query); everything else has the reward R less its group's mean. Both are divided alike, by ``scale_rewards`` of
    R. Not in the paper, whose trajectories have one advantage; a routing turn learns faster by it.

    Args:
        rewards: R, [N], NaN = no score.
        accuracy: R_acc in [-1, 1], [N].
        calls: of each trajectory, N sequences.
        num_generations: G.
        kappa: κ ≥ 0.
        scale_rewards: "batch" or "none". With "group", small deviations would blow up the values of calls.

    Raises:
        ValueError: lengths do not fit, N is no multiple of G, or ``scale_rewards`` is neither.
    """
    if scale_rewards == "group" or not len(rewards) == len(accuracy) == len(calls):
        sizes = f"{len(rewards)} rewards, {len(accuracy)} accuracies and calls of {len(calls)} trajectories"
        raise ValueError(f"turn_credit: {sizes} with scale_rewards={scale_rewards}; expected N of each, and not group")
    whole = group_advantages(rewards, num_generations, scale_rewards)
    scored = ~np.isnan(np.asarray(rewards, dtype=np.float64))
    outcome = _centred(_grouped(np.where(scored, accuracy, np.nan), num_generations)).ravel()
    means = _means_by_sub_query(calls, scored, num_generations)
    scale = np.where(whole.scale > 2 * EPSILON, whole.scale, 1.0)  # all rewards equal: nothing to divide by
    credits = tuple(
        tuple(
            float((outcome[i] + kappa * (call.value - means[i // num_generations, call.sub_query_key])) / scale[i])
            if scored[i]
            else 0.0
            for call in mine
        )
        for i, mine in enumerate(calls)
    )
    return TurnCredit(credits, whole.values, whole.frac_reward_zero_std)


def spread(credit: TurnCredit, calls: Sequence[Sequence[CallCredit]], length: int) -> np.ndarray:
    """Turn-level credit as one advantage for each token, float64 [N, length].

    Args:
        credit: of :func:`turn_credit` for ``calls``.
        calls: with the spans of their tokens.
        length: L, tokens of the padded trajectories.

    Raises:
        ValueError: a span lies outside of 0…L.
    """
    tokens = np.repeat(credit.other[:, None], length, axis=1)
    for row, (mine, values) in enumerate(zip(calls, credit.calls, strict=True)):
        for call, value in zip(mine, values, strict=True):
            if call.span is None:
                continue
            start, stop = call.span
            if not 0 <= start <= stop <= length:
                raise ValueError(f"trajectory {row}: tokens {start} to {stop} of a call, but there are {length}")
            tokens[row, start:stop] = value
    return tokens


def _means_by_sub_query(
    calls: Sequence[Sequence[CallCredit]], scored: np.ndarray, num_generations: int
) -> dict[tuple[int, str], float]:
    """(group, sub-query) → mean value of its calls, over trajectories with a score."""
    values: dict[tuple[int, str], list[float]] = {}
    for i, mine in enumerate(calls):
        for call in mine if scored[i] else ():
            values.setdefault((i // num_generations, call.sub_query_key), []).append(call.value)
    return {key: float(np.mean(some)) for key, some in values.items()}


def _grouped(values: Sequence[float] | np.ndarray, num_generations: int) -> np.ndarray:
    """[N] → [N / G, G], float64."""
    array = np.asarray(values, dtype=np.float64)
    if num_generations < 1 or array.ndim != 1 or array.size % num_generations:
        raise ValueError(f"{list(array.shape)} values are no whole groups of num_generations={num_generations}")
    if np.isinf(array).any():
        raise ValueError("a reward is infinite; expected finite numbers, or NaN for no score")
    return array.reshape(-1, num_generations)


def _rows(grouped: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Each group with the mask of what it knows."""
    return [(row, ~np.isnan(row)) for row in grouped]


def _centred(grouped: np.ndarray) -> np.ndarray:
    """Values less the mean of what is known of their group; 0 where nothing is known."""
    known = ~np.isnan(grouped)
    filled = np.where(known, grouped, 0.0)
    mean = filled.sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    return np.where(known, filled - mean, 0.0)


def _deviation(values: np.ndarray) -> float:
    """Standard deviation with n - 1, 0 for fewer than two values."""
    return float(values.std(ddof=1)) if values.size > 1 else 0.0
