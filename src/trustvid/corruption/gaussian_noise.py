"""Gaussian noise: what a hot or strongly amplified sensor adds to every pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trustvid.corruption.base import Corruption, State, check_share, severity_table
from trustvid.corruption.sensor import add_noise, draw_key, frame_noise


@dataclass(frozen=True)
class GaussianNoise(Corruption):
    """Independent noise per pixel, channel and frame: even read noise plus shot noise that grows with brightness.

    Variance at level I is ``sigma² · ((1 − shot) + 2 · shot · I / 255)``, so sigma is the strength at mid-grey.

    Args:
        sigma: standard deviation at mid-grey, 8-bit levels, per severity.
        shot: share of the variance at mid-grey that is shot noise, 0–1; 0 is purely Gaussian.

    Raises:
        ValueError: a setting is out of its range.
    """

    name: ClassVar[str] = "gaussian_noise"
    version: ClassVar[int] = 1

    sigma: Sequence[float] = (9.0, 22.0, 42.0, 70.0, 110.0)
    shot: float = 0.2

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", severity_table("gaussian_noise.sigma", self.sigma, below=256.0))
        object.__setattr__(self, "shot", check_share("gaussian_noise.shot", self.shot))

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``key`` [1] of the noise; ``sigma`` float32 [256], the strength at each level."""
        level = np.arange(256) / 255
        strength = self.sigma[severity - 1] * np.sqrt((1 - self.shot) + 2 * self.shot * level)
        return {"key": draw_key(rng), "sigma": strength.astype(np.float32)}

    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply`."""
        import cv2

        noise = frame_noise(frame.shape, state["key"], index)
        return add_noise(frame, cv2.LUT(frame, state["sigma"]), noise)
