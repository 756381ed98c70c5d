"""Tool confidence: from a tool's own c_intrinsic, and what its frames look like, to the c_j that a method trusts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from trustvid.reliability.calibration import Calibration

POOLS = ("worst_k", "mean")


@dataclass(frozen=True)
class Call:
    """What a confidence rule may know of one tool call: numbers only.

    Attributes:
        tool: its name.
        backend: what runs behind the name ("embedded", "grounding_dino", …); "" when the tool does not say.
        intrinsic: c_intrinsic, 0–1; 0 when it failed or saw nothing.
        disturbance: d of each source frame, 0–1; empty when the method knows nothing of reliability.
        scores: [n] the tool's own score of each of its n observations, 0–1.
        areas: [n] share of the frame that each observation's box covers, 0–1; 0 where it has none.
        clipped: [n] 1 where the frame's border cuts the observation off, else 0.
        ramps: [n, 10] channel ramps of the frame of each observation (of a step between two frames the larger of both);
            None when the method measures no channels.
    """

    tool: str
    backend: str
    intrinsic: float
    disturbance: tuple[float, ...]
    scores: np.ndarray
    areas: np.ndarray
    clipped: np.ndarray
    ramps: np.ndarray | None


class Judged(NamedTuple):
    """Confidence of the call, 0–1, and of each observation, 0–1 (None: the rule does not look at single ones)."""

    call: float
    observations: tuple[float, ...] | None


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

    def judge(self, call: Call) -> Judged:
        """The tool's own confidence; everything else is ignored."""
        return Judged(call.intrinsic, None)


class PaperConfidence:
    """Eq. 4: c_j = c_intrinsic · ρ(F) over the call's source frames.

    Args:
        pool: "worst_k" is the paper's mean of the ⌈n/3⌉ least reliable frames; "mean" that of all, its ablation.
    """

    name = "paper"

    def __init__(self, pool: Literal["worst_k", "mean"] = "worst_k"):
        if pool not in POOLS:
            raise ValueError(f"confidence.pool={pool!r} is unknown; known: {', '.join(POOLS)}")
        self.pool = pool

    def judge(self, call: Call) -> Judged:
        """c_intrinsic scaled by the reliability of the source frames."""
        reliability = [1.0 - d for d in call.disturbance]
        if self.pool == "worst_k" or not reliability:
            return Judged(call.intrinsic * worst_k_mean(reliability), None)
        return Judged(call.intrinsic * sum(reliability) / len(reliability), None)


class Calibrated:
    """P(this observation is right | channels of its frame, the tool's own score), fitted on a development split.

    Unlike Eq. 4 it does not punish a sure reading on a bad frame: disturbance makes most tools silent, not wrong. The
    confidence of a call is the mean over its observations. A tool without a fitted precision, one with another backend
    than was fitted (its scores mean something else), and a method that measures no channels keep the tool's own word.

    Args:
        calibration: name of a shipped calibration, or the path of one.
        channels: kind of channels it is read for; must be that of the method's reliability.
    """

    name = "calibrated"

    def __init__(self, calibration: str = "boxworld", channels: Literal["relative", "absolute"] = "relative"):
        if channels not in ("relative", "absolute"):
            raise ValueError(f"confidence.channels={channels!r} is unknown; known: relative, absolute")
        self.calibration, self.channels = calibration, channels

    @cached_property
    def _models(self) -> Calibration:
        from trustvid.reliability.calibration import load_calibration

        return load_calibration(self.calibration, self.channels)

    def judge(self, call: Call) -> Judged:
        """Fitted precision of every observation, and their mean."""
        tool = self._models.tools.get(call.tool)
        foreign = call.backend and self._models.backends.get(call.tool, call.backend) != call.backend
        if call.ramps is None or tool is None or tool.precision_model is None or foreign:
            return Judged(call.intrinsic, None)
        if len(call.scores) == 0:
            return Judged(0.0, ())
        from trustvid.reliability.calibration import observation_features
        from trustvid.reliability.ramps import RAMPS

        features = observation_features(call.tool, call.scores, call.areas, call.clipped)
        features |= {name: call.ramps[:, i] for i, name in enumerate(RAMPS)}
        right = tool.precision_model.predict(features)
        return Judged(float(right.mean()), tuple(float(p) for p in right))
