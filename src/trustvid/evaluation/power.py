"""How many questions a difference needs, and which difference some questions can show.

Two methods answer the same n questions. With d the mean difference of their scores and ψ the mean squared difference
per question (of right-or-wrong answers: the share of questions that exactly one of the two gets right, the
*discordance*), the mean has variance (ψ − d²)/n, and ψ/n where the truth is that they do not differ. A two-sided test
at level α finds a true d with the power wanted when (Connor 1987, for McNemar's test)

    n = D · ((z(1 − α/2) · √ψ + z(power) · √(ψ − d²)) / d)²

where D is the *design effect*: how much larger clustering by video makes the variance (Kish 1965). A question that is
asked under k conditions counts once, with its mean difference, so that ψ is smaller. Right-or-wrong answers then differ
by multiples of 1/k, and a difference of d cannot come with a ψ below d/k.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from trustvid.evaluation.stats import mean_of_cells

POWER, ALPHA = 0.8, 0.05


class PairSpread(NamedTuple):
    """What two methods' answers to the same questions tell for planning.

    Attributes:
        diff: mean difference, −1 to 1.
        discordance: mean squared difference per question, 0–1.
        design_effect: clustered over simple variance of the mean; None where it cannot be told (fewer than two
            videos, or no spread).
        n: questions both answered.
        clusters: videos they are on.
    """

    diff: float | None
    discordance: float | None
    design_effect: float | None
    n: int
    clusters: int


def pair_spread(diffs: np.ndarray, clusters: np.ndarray) -> PairSpread:
    """The spread of differences a − b.

    Args:
        diffs: [n] float in −1…1, one per question that both answered.
        clusters: [n] labels of the videos.
    """
    estimate = mean_of_cells(diffs, clusters)
    if estimate.mean is None:
        return PairSpread(None, None, None, 0, 0)
    simple = float(np.var(diffs, ddof=1)) / estimate.n if estimate.n > 1 else 0.0
    effect = estimate.se**2 / simple if estimate.se is not None and simple > 0 else None
    return PairSpread(estimate.mean, float(np.mean(np.square(diffs))), effect, estimate.n, estimate.clusters)


def questions_needed(
    difference: float,
    discordance: float,
    design_effect: float = 1.0,
    conditions: int = 1,
    power: float = POWER,
    alpha: float = ALPHA,
) -> int:
    """Questions for a true difference to be found with the power wanted (the formula above, rounded up).

    Args:
        difference: size of the true difference, above 0 to 1 (0.03 = three points).
        discordance: ψ, 0–1; less than the least that the difference can have counts as that.
        design_effect: D; below 1 it counts as 1: what looks like a gain from clustering is chance.
        conditions: k, at least 1.
        power: 0–1.
        alpha: level of the two-sided test, 0–1.

    Raises:
        ValueError: an argument is out of its range.

    >>> questions_needed(0.05, 0.3)
    940
    """
    if not 0.0 < difference <= 1.0:
        raise ValueError(f"difference={difference}; expected above 0 and at most 1")
    _check(discordance, conditions, power, alpha)
    spread = max(discordance, difference / conditions, difference**2)
    z_alpha, z_power = _quantiles(power, alpha)
    root = (z_alpha * math.sqrt(spread) + z_power * math.sqrt(spread - difference**2)) / difference
    return math.ceil(max(1.0, design_effect) * root**2 - 1e-9)


def detectable_difference(
    n: int,
    discordance: float,
    design_effect: float = 1.0,
    conditions: int = 1,
    power: float = POWER,
    alpha: float = ALPHA,
) -> float | None:
    """The smallest true difference that n questions show with the power wanted: :func:`questions_needed` turned round.

    The formula is a quadratic in d. Where its answer would exceed k · ψ, which no difference does, ψ grows as d/k (all
    differing answers go one way), and it is one in √(1 − k · d).

    Args:
        n: questions, at least 0.
        discordance, design_effect, conditions, power, alpha: as there.

    Returns:
        Above 0 and at most 1; None when there is no spread to plan with (ψ = 0 says only that n was too small for a
        difference to occur), or no difference is large enough.

    Raises:
        ValueError: an argument is out of its range.

    >>> round(detectable_difference(132, 0.3), 3)
    0.132
    """
    _check(discordance, conditions, power, alpha)
    z_alpha, z_power = _quantiles(power, alpha)
    m = n / max(1.0, design_effect)
    inner = m + z_power**2 - z_alpha**2
    if discordance > 0.0 and inner >= 0.0:
        d = math.sqrt(discordance) * (z_alpha * math.sqrt(m) + z_power * math.sqrt(inner)) / (m + z_power**2)
        if d <= conditions * discordance:
            return d
    if discordance == 0.0 or m < z_alpha**2:
        return None
    a, b, c = m + z_power**2, 2.0 * z_alpha * z_power, z_alpha**2 - m
    root = (-b + math.sqrt(b * b - 4.0 * a * c)) / (2.0 * a)
    return (1.0 - root**2) / conditions


def _quantiles(power: float, alpha: float) -> tuple[float, float]:
    normal = NormalDist()
    return normal.inv_cdf(1.0 - alpha / 2.0), normal.inv_cdf(power)


def _check(discordance: float, conditions: int, power: float, alpha: float) -> None:
    if conditions < 1:
        raise ValueError(f"conditions={conditions}; expected at least 1")
    if not 0.0 <= discordance <= 1.0:
        raise ValueError(f"discordance={discordance}; expected a share, 0 to 1")
    for name, value in (("power", power), ("alpha", alpha)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name}={value}; expected above 0 and below 1")
