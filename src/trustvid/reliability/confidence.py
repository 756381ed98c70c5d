"""Tool confidence: from a tool's own c_intrinsic to the c_j that a method trusts."""

from __future__ import annotations

import math
from collections.abc import Sequence


def worst_k_mean(reliability: Sequence[float]) -> float:
    """ρ of Eq. 4: the mean of the ⌈n/3⌉ smallest frame reliabilities; 1 when none is known.

    >>> worst_k_mean([0.9, 0.2, 0.6, 0.8])
    0.4
    """
    if not reliability:
        return 1.0
    worst = sorted(reliability)[: math.ceil(len(reliability) / 3)]
    return sum(worst) / len(worst)


class Intrinsic:
    """c_j = c_intrinsic: the tool's word is taken as it is."""

    name = "intrinsic"

    def confidence(self, intrinsic: float, disturbance: Sequence[float]) -> float:
        """Confidence in [0, 1]; ``disturbance`` is ignored."""
        return intrinsic


class PaperConfidence:
    """Eq. 4: c_j = c_intrinsic · ρ(F), with the worst-K mean over the call's source frames."""

    name = "paper"

    def confidence(self, intrinsic: float, disturbance: Sequence[float]) -> float:
        """Confidence in [0, 1] from c_intrinsic and d of the source frames."""
        return intrinsic * worst_k_mean([1.0 - d for d in disturbance])
