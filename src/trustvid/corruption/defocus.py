"""Defocus: the lens is focused before or behind what is to be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trustvid.corruption.base import Corruption, State, check_share, severity_table
from trustvid.corruption.drift import seconds, wander


@dataclass(frozen=True)
class Defocus(Corruption):
    """Every point spreads into an even disk with a soft edge, whose radius drifts as a lens does that hunts for focus.

    The disk is averaged in linear light (gamma 2), so that lamps and bright edges grow into discs as on a sensor.

    Args:
        radius: of the disk, as a share of the picture's longer side, per severity.
        drift: how far the radius strays from its mean, share 0–0.2; more would let severities overlap.

    Raises:
        ValueError: a setting is out of its range.
    """

    name: ClassVar[str] = "defocus"
    version: ClassVar[int] = 1

    radius: Sequence[float] = (0.004, 0.0075, 0.0125, 0.0185, 0.027)
    drift: float = 0.15

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", severity_table("defocus.radius", self.radius, below=0.2))
        object.__setattr__(self, "drift", check_share("defocus.drift", self.drift, most=0.2))

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``radius`` [n_frames], pixels."""
        hunt = wander(rng, seconds(n_frames, fps), period_s=5.0)[0]
        return {"radius": self.radius[severity - 1] * max(width, height) * (1 + self.drift * hunt)}

    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply`."""
        import cv2

        light = cv2.LUT(frame, _SQUARES)
        spread = cv2.filter2D(light, cv2.CV_32F, disk(float(state["radius"][index])), borderType=cv2.BORDER_REFLECT_101)
        # Large kernels are applied by a Fourier transform, which can end a little below black.
        return cv2.convertScaleAbs(cv2.sqrt(np.maximum(spread, 0, out=spread)))


def disk(radius: float) -> np.ndarray:
    """An even disk, float32 [odd, odd], sums to 1; its edge falls off over a pixel, so that it can grow smoothly.

    Args:
        radius: pixels, 0 or more; up to half a pixel nothing is spread.
    """
    reach = int(np.ceil(radius + 0.5))
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    kernel = np.clip(radius + 0.5 - np.hypot(x, y), 0, 1)
    kernel[reach, reach] = max(kernel[reach, reach], 0.5)
    return (kernel / kernel.sum()).astype(np.float32)


_SQUARES = (np.arange(256) ** 2).astype(np.float32)
