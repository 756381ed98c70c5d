"""Camera shake: an unsteady hand, or a drone in gusts, with a shutter fast enough not to blur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trustvid.corruption.base import Corruption, State, check_share, severity_table
from trustvid.corruption.drift import seconds, wander

_SWING = 2.2  # how far the direction of the offset swings to and fro, radians


@dataclass(frozen=True)
class CameraShake(Corruption):
    """The picture is moved and turned about its middle, along paths that are smooth in time; the rim is mirrored.

    The offset is never far from its full length, its direction swings and slowly circles. So each single frame is
    displaced, and by more at a higher severity.

    Args:
        offset: largest displacement as a share of the picture's longer side, per severity.
        turn_deg: largest turn at severity 5, degrees, 0–45; in proportion to ``offset`` below.
        period_s: seconds of one swing, 0–10; a hand trembles at one to four swings a second.

    Raises:
        ValueError: a setting is out of its range.
    """

    name: ClassVar[str] = "camera_shake"
    version: ClassVar[int] = 1

    offset: Sequence[float] = (0.006, 0.013, 0.024, 0.042, 0.07)
    turn_deg: float = 5.0
    period_s: float = 0.7

    def __post_init__(self) -> None:
        object.__setattr__(self, "offset", severity_table("camera_shake.offset", self.offset, below=0.5))
        object.__setattr__(self, "turn_deg", check_share("camera_shake.turn_deg", self.turn_deg, most=45.0))
        object.__setattr__(self, "period_s", check_share("camera_shake.period_s", self.period_s, most=10.0))
        if self.period_s == 0:
            raise ValueError("camera_shake.period_s must be above 0, got 0")

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``move`` [n_frames, 2], (x, y) pixels; ``turn`` [n_frames], radians."""
        times = seconds(n_frames, fps)
        length, swing, turn = wander(rng, times, period_s=self.period_s, count=3)
        circling = rng.choice([-1, 1]) * rng.uniform(0.2, 0.5) * times / self.period_s
        angle = rng.uniform(0, 2 * np.pi) + circling + _SWING * swing
        offset = self.offset[severity - 1] * max(width, height) * (0.85 + 0.15 * length)
        most = np.deg2rad(self.turn_deg) * self.offset[severity - 1] / self.offset[-1]
        return {
            "move": offset[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1),
            "turn": most * turn,
        }

    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply`."""
        import cv2

        height, width = frame.shape[:2]
        middle = np.array([(width - 1) / 2, (height - 1) / 2])
        cos, sin = np.cos(state["turn"][index]), np.sin(state["turn"][index])
        turn = np.array([[cos, -sin], [sin, cos]])
        shift = middle + state["move"][index] - turn @ middle
        moved = np.concatenate([turn, shift[:, None]], axis=1)
        # Cubic keeps edges sharp: what is between pixels must not look blurred. With BORDER_REFLECT_101 OpenCV 5 would
        # never come back from a picture that is one pixel wide or high.
        return cv2.warpAffine(frame, moved, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
