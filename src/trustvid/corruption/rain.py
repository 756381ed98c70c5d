"""Rain: streaks of falling drops, near and far, and the grey veil of those too far to be seen singly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trustvid.corruption.base import Corruption, State, check_share, severity_table
from trustvid.corruption.drift import seconds, wander

# Layers from far to near: share of the streaks, length and speed (picture heights, heights a second), width (share of
# the diagonal), opacity, blur (share of the diagonal: what is near is out of focus).
_LAYERS = (
    (0.62, 0.06, 0.9, 0.0010, 0.70, 0.0006),
    (0.29, 0.13, 1.6, 0.0015, 0.85, 0.0009),
    (0.09, 0.26, 2.6, 0.0028, 1.00, 0.0018),
)
_STREAK = (208, 213, 220)  # RGB: drops gather the light of the sky
_VEIL = (150, 156, 164)  # RGB
_ROOM = 1.3  # drops start above the picture and end below it: it is this many heights high to them
_GOLDEN = 0.6180339887
_FRACTION_BITS = 4  # OpenCV draws to 1/16 pixel
_LEAST_SIGMA = 0.3  # pixels; a narrower blur changes nothing


@dataclass(frozen=True)
class Rain(Corruption):
    """Drops fall at constant speed in three layers of depth; near ones are longer, faster, wider and less in focus.

    A drop that leaves at the bottom comes back at the top elsewhere. The wind tilts all streaks alike and varies
    slowly. Streaks brighten what is behind them, an even grey veil takes contrast.

    Args:
        streaks: in sight at a time, all layers together, per severity.
        opacity: of the nearest streaks, share 0–1, per severity.
        veil: share of the picture's light that is replaced by even grey, per severity.
        tilt_deg: largest angle between streaks and vertical, degrees, 0–60.

    Raises:
        ValueError: a setting is out of its range.
    """

    name: ClassVar[str] = "rain"
    version: ClassVar[int] = 1

    streaks: Sequence[float] = (120, 260, 480, 800, 1250)
    opacity: Sequence[float] = (0.36, 0.46, 0.56, 0.66, 0.76)
    veil: Sequence[float] = (0.06, 0.13, 0.21, 0.3, 0.4)
    tilt_deg: float = 18.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "streaks", severity_table("rain.streaks", self.streaks, below=20_000.0))
        object.__setattr__(self, "opacity", severity_table("rain.opacity", self.opacity, below=1.0))
        object.__setattr__(self, "veil", severity_table("rain.veil", self.veil, below=1.0))
        object.__setattr__(self, "tilt_deg", check_share("rain.tilt_deg", self.tilt_deg, most=60.0))

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``time`` [n_frames], seconds; ``slope`` [n_frames], pixels sideways per pixel down; ``strength`` [2]: opacity
        and veil; and for each layer k ``drop{k}`` [drops, 3]: start x and y as shares of the room, speed in rooms a
        second."""
        times = seconds(n_frames, fps)
        gust = wander(rng, times, period_s=6.0)[0]
        tilt = np.deg2rad(self.tilt_deg) * (rng.uniform(-0.8, 0.8) + 0.2 * gust)
        state = {
            "time": times,
            "slope": np.tan(tilt),
            "strength": np.array([self.opacity[severity - 1], self.veil[severity - 1]]),
        }
        for k, (share, _, speed, *_) in enumerate(_LAYERS):
            count = max(1, round(self.streaks[severity - 1] * share * _ROOM))
            pace = speed / _ROOM * rng.uniform(0.85, 1.15, count)
            state[f"drop{k}"] = np.column_stack([rng.random((count, 2)), pace])
        return state

    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply`."""
        import cv2

        height, width = frame.shape[:2]
        opacity, veil = state["strength"]
        streaks = np.zeros((height, width), np.uint8)
        for k in range(len(_LAYERS)):
            streaks = cv2.max(streaks, draw_layer(k, width, height, index, state, opacity))
        share = streaks.astype(np.float32).reshape(height, width) / 255
        light = np.empty_like(frame)
        light[...] = _STREAK
        dull = cv2.LUT(frame, _veiled(veil))
        return cv2.blendLinear(dull, light, 1 - share, share).reshape(frame.shape)


def drops(k: int, width: int, height: int, index: int, state: State) -> np.ndarray:
    """Where the streaks of one layer begin and end, pixels, float64 [drops, 2, 2]: (begin, end), (x, y)."""
    start_x, start_y, pace = state[f"drop{k}"].T
    slope = state["slope"][index]
    fallen = start_y + pace * state["time"][index]
    rounds = np.floor(fallen)
    down = _LAYERS[k][1] * height
    y = ((fallen - rounds) * _ROOM - (_ROOM - 1)) * height  # from above the picture to its lower edge
    # Wide enough for what the tilt carries in from the sides; each round begins at another place.
    reach = width + 2 * abs(slope) * height
    x = ((start_x + _GOLDEN * rounds) % 1.0 - 0.5) * reach + width / 2 + slope * (y - height / 2)
    return np.stack([np.stack([x, y], axis=1), np.stack([x + slope * down, y + down], axis=1)], axis=1)


def draw_layer(k: int, width: int, height: int, index: int, state: State, opacity: float) -> np.ndarray:
    """The streaks of one layer, uint8 [height, width]: opacity from 0 to 1 as 0 to 255."""
    import cv2

    *_, thick, faint, blur = _LAYERS[k]
    diagonal = float(np.hypot(width, height))
    # Lines are one pixel wide at least; where that is too wide, they are fainter instead.
    pixels, level = max(1.0, thick * diagonal), 255 * opacity * faint * min(1.0, max(0.5, thick * diagonal))
    layer = np.zeros((height, width), np.uint8)
    lines = np.rint(drops(k, width, height, index, state) * 2**_FRACTION_BITS).astype(np.int32)
    cv2.polylines(layer, lines, False, round(level), round(pixels), cv2.LINE_AA, _FRACTION_BITS)
    sigma = blur * diagonal
    return cv2.GaussianBlur(layer, (0, 0), sigma) if sigma > _LEAST_SIGMA else layer


def _veiled(veil: float) -> np.ndarray:
    """A table that mixes an even grey into each channel, uint8 [1, 256, 3]."""
    levels = np.arange(256)[:, None]
    return np.rint(levels * (1 - veil) + np.array(_VEIL) * veil).astype(np.uint8)[None]
