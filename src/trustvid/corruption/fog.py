"""Fog: drifting banks between the camera and everything that is far away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trustvid.corruption.base import Corruption, State, check_share, severity_table
from trustvid.corruption.drift import seconds, wander

_GRID = 64  # fog is smooth: it is computed on a coarse grid (at most this wide or high) and enlarged
_WAVES = 10  # sinusoids that make up the banks
_NEAR = 0.3  # optical depth at the lower edge of the picture, as a share of that at the horizon
_HAZE = 0.15  # height over which the fall sets in, as a share of the picture's: no edge shows at the horizon
_FALL = 3.0  # how fast depth falls below the horizon: on flat ground it is one over the angle


@dataclass(frozen=True)
class Fog(Corruption):
    """Light is lost on its way and light of the fog is added: ``out = t · frame + (1 − t) · fog``, ``t = exp(−depth)``.

    This is Koschmieder's law (Narasimhan and Nayar, "Vision and the Atmosphere", 2002, Eq. 6). The true depth is not
    known; it is taken as that of flat ground: full at the horizon and above, then falling towards the lower edge. Banks
    of fog drift through and change the density by up to ``patchy``.

    Args:
        veil: ``1 − t`` at the horizon, share, per severity.
        patchy: how far the density strays from its mean, share 0–0.8.

    Raises:
        ValueError: a setting is out of its range.
    """

    name: ClassVar[str] = "fog"
    version: ClassVar[int] = 1

    veil: Sequence[float] = (0.28, 0.45, 0.61, 0.76, 0.88)
    patchy: float = 0.35

    def __post_init__(self) -> None:
        object.__setattr__(self, "veil", severity_table("fog.veil", self.veil, below=1.0))
        object.__setattr__(self, "patchy", check_share("fog.patchy", self.patchy, most=0.8))

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``depth`` [1], optical depth at the horizon; ``horizon`` [n_frames], share of the height from the top;
        ``colour`` uint8 [3], RGB; ``wave`` [waves, 2], cycles over the picture in x and y; ``phase`` [n_frames, waves],
        radians; ``weight`` [waves], in sum 1."""
        times = seconds(n_frames, fps)
        sway = wander(rng, times, period_s=9.0)[0]
        cycles = rng.uniform(0.5, 3.2, _WAVES)
        direction = rng.uniform(-0.9, 0.9, _WAVES)  # mostly sideways waves: banks are wider than high
        weight = 1 / cycles
        wind = rng.choice([-1, 1]) * rng.uniform(0.08, 0.16)  # of the picture's width a second
        boiling = rng.uniform(-0.12, 0.12, _WAVES)  # turns a second by which each wave strays from the wind
        wave = cycles[:, None] * np.stack([np.cos(direction), 1.6 * np.sin(direction)], axis=1)
        turns = times[:, None] * (wind * wave[:, 0] + boiling)[None, :]
        grey = rng.uniform(203, 217)
        return {
            "depth": np.array([-np.log(1 - self.veil[severity - 1])]),
            "horizon": rng.uniform(0.36, 0.46) + 0.02 * sway,
            "colour": np.rint(grey + rng.uniform(0, 1) * np.array([-5, 0, 6])).astype(np.uint8),
            "wave": wave,
            "phase": 2 * np.pi * turns + rng.uniform(0, 2 * np.pi, _WAVES),
            "weight": weight / weight.sum(),
        }

    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply`."""
        import cv2

        height, width = frame.shape[:2]
        depth = optical_depth(min(width, _GRID), min(height, _GRID), index, state, self.patchy)
        left = cv2.resize(np.exp(-depth).astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
        fog = np.empty_like(frame)
        fog[...] = state["colour"]
        return cv2.blendLinear(frame, fog, left, 1 - left).reshape(frame.shape)


def optical_depth(columns: int, rows: int, index: int, state: State, patchy: float) -> np.ndarray:
    """Optical depth of the fog on a grid over the picture, float64 [rows, columns], 0 or more."""
    x = ((np.arange(columns) + 0.5) / columns)[None, :, None]
    y = ((np.arange(rows) + 0.5) / rows)[:, None]
    horizon = state["horizon"][index]
    under = y - horizon
    below = (under + np.hypot(under, _HAZE)) / (2 * (1 - horizon))  # about 0 down to the horizon, 1 at the lower edge
    ground = (1 / (1 + _FALL * below) - 1 / (1 + _FALL)) / (1 - 1 / (1 + _FALL))
    distance = np.maximum(_NEAR + (1 - _NEAR) * ground, 0)
    turns = 2 * np.pi * (x * state["wave"][:, 0] + y[..., None] * state["wave"][:, 1]) + state["phase"][index]
    banks = np.sin(turns) @ state["weight"]
    banks = np.clip(2 * (banks - banks.mean()), -1, 1)  # fog gathers here and thins there, all in all it stays the same
    return state["depth"][0] * distance * (1 + patchy * banks)
