"""Motion blur: the camera sweeps while the shutter is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trustvid.corruption.base import Corruption, State, check_share, severity_table
from trustvid.corruption.drift import seconds, wander

_BASE_LENGTH = 4.0  # longest streak of the base kernel, pixels: it then fits 7×7, where OpenCV filters directly
_REACH = 3
_POINTS = 16  # sub-pixel points that make up the base streak


@dataclass(frozen=True)
class MotionBlur(Corruption):
    """Every point smears along a straight streak whose length and direction drift smoothly.

    The streak is a box of even weight with sub-pixel ends, averaged in linear light (gamma 2), so that bright things
    smear over dark ones as on a sensor. It is centred: nothing moves on average.

    Args:
        length: streak as a share of the picture's longer side, per severity.
        tilt_deg: largest angle between streak and horizontal, degrees, 0–90. A panning camera smears sideways.
        drift: how far length strays from its mean, share 0–0.2; more would let severities overlap.

    Raises:
        ValueError: a setting is out of its range.
    """

    name: ClassVar[str] = "motion_blur"
    version: ClassVar[int] = 1

    length: Sequence[float] = (0.012, 0.021, 0.036, 0.058, 0.092)
    tilt_deg: float = 30.0
    drift: float = 0.12

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", severity_table("motion_blur.length", self.length, below=1.0))
        object.__setattr__(self, "tilt_deg", check_share("motion_blur.tilt_deg", self.tilt_deg, most=90.0))
        object.__setattr__(self, "drift", check_share("motion_blur.drift", self.drift, most=0.2))

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``length`` [n_frames], pixels; ``angle`` [n_frames], radians from horizontal."""
        times = seconds(n_frames, fps)
        tilt = np.deg2rad(self.tilt_deg)
        stretch, turn = wander(rng, times, period_s=4.0, count=2)
        return {
            "length": self.length[severity - 1] * max(width, height) * (1 + self.drift * stretch),
            "angle": rng.uniform(-0.6, 0.6) * tilt + 0.4 * tilt * turn,
        }

    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply`."""
        import cv2

        kernel, steps, centre = streak(float(state["length"][index]), float(state["angle"][index]))
        height, width = frame.shape[:2]
        # Half a streak on each side, the kernel's reach, and a pixel of rounding for each doubling.
        pad_x, pad_y = (int(np.ceil(reach / 2)) + _REACH + len(steps) + 1 for reach in np.abs(steps).sum(axis=0))
        light = cv2.copyMakeBorder(cv2.LUT(frame, _SQUARES), pad_y, pad_y, pad_x, pad_x, cv2.BORDER_REFLECT_101)
        # 16 bits hold linear light well enough, and the doublings run four times faster on them than on floats.
        light = cv2.filter2D(light, cv2.CV_32F, kernel, delta=0.5, borderType=cv2.BORDER_REPLICATE).astype(np.uint16)
        left, top = pad_x - centre[0], pad_y - centre[1]
        for step in steps:
            light, rows_lost = _doubled(light, step)
            top -= rows_lost
        smeared = light[top : top + height, left : left + width]
        return cv2.convertScaleAbs(cv2.sqrt(smeared.astype(np.float32)))


def streak(length: float, angle: float) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """An even streak as a small kernel and a row of doublings; its cost grows with log(length), not length.

    Args:
        length: pixels; 0 or more.
        angle: radians, −π/2…π/2; positive turns towards larger rows.

    Returns:
        kernel: float32 [7, 7], sums to 1, to be correlated with the picture.
        steps: float [doublings, 2], (dx, dy), pixels; each averages the result so far with its copy moved by the step.
        centre: (x, y), whole pixels by which the streak then lies off its pixel; the rest of the way is in the kernel.
    """
    doublings = max(0, int(np.ceil(np.log2(max(length, 1e-9) / _BASE_LENGTH))))
    piece = length / 2**doublings
    direction = np.array([np.cos(angle), np.sin(angle)])
    steps = piece * 2.0 ** np.arange(doublings)[:, None] * direction
    middle = steps.sum(axis=0) / 2
    whole_middle = np.rint(middle).astype(int)
    along = (np.arange(_POINTS) + 0.5) / _POINTS - 0.5
    points = along[:, None] * piece * direction + (whole_middle - middle) + _REACH
    whole = np.floor(points).astype(int)
    part = points - whole
    kernel = np.zeros((2 * _REACH + 1, 2 * _REACH + 1))
    for dx, weight_x in ((0, 1 - part[:, 0]), (1, part[:, 0])):
        for dy, weight_y in ((0, 1 - part[:, 1]), (1, part[:, 1])):
            np.add.at(kernel, (whole[:, 1] + dy, whole[:, 0] + dx), weight_x * weight_y / _POINTS)
    return kernel.astype(np.float32), steps, (int(whole_middle[0]), int(whole_middle[1]))


def _doubled(light: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, int]:
    """The mean of ``light`` and its copy moved by ``step``, where both exist, and how many rows are lost at the top.

    The copy is placed to a fraction of a pixel (bilinear): whole pixels would make a slowly turning streak jump.
    """
    import cv2

    (x, y), (part_x, part_y) = np.floor(step).astype(int), step - np.floor(step)
    top, bottom = max(0, -y), max(0, y + 1)
    rows, columns = light.shape[0] - top - bottom, light.shape[1] - x - 1
    mean, share, room = light[top : top + rows, :columns], 0.5, None
    for dx, weight_x in ((x, 1 - part_x), (x + 1, part_x)):
        for dy, weight_y in ((y, 1 - part_y), (y + 1, part_y)):
            moved = light[top + dy : top + dy + rows, dx : dx + columns]
            mean = room = cv2.addWeighted(mean, share, moved, 0.5 * weight_x * weight_y, 0, dst=room)
            share = 1.0
    return mean, top


_SQUARES = (np.arange(256) ** 2).astype(np.float32)
