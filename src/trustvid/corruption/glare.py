"""Glare: a sun or lamp in the picture, its bloom, its streaks, and a veil over everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trustvid.corruption.base import Corruption, State, severity_table
from trustvid.corruption.drift import seconds, wander

_GRID = 96  # the light is smooth: it is computed on a coarse grid (at most this wide or high) and enlarged
_GHOSTS = ((-0.45, 0.05), (0.55, 0.035), (-1.1, 0.08))  # reflections in the lens: (place on the axis, radius)


@dataclass(frozen=True)
class Glare(Corruption):
    """Stray light is added in linear light (gamma 2) around a source that drifts across the picture and pulses softly.

    With r the distance from the source and R its saturated radius the added light is ``(R / r)^2`` (levelled off inside
    the core), where 1 saturates any pixel; plus two streaks, three lens reflections and an even veil.

    Args:
        radius: saturated radius as a share of the picture's diagonal, per severity.
        veil: even stray light, share of white in linear light, per severity.

    Raises:
        ValueError: a setting is out of its range.
    """

    name: ClassVar[str] = "glare"
    version: ClassVar[int] = 1

    radius: Sequence[float] = (0.045, 0.085, 0.135, 0.185, 0.24)
    veil: Sequence[float] = (0.01, 0.025, 0.045, 0.075, 0.12)

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", severity_table("glare.radius", self.radius, below=2.0))
        object.__setattr__(self, "veil", severity_table("glare.veil", self.veil, below=1.0))

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``source`` [n_frames, 2], (x, y) in pixels; ``strength`` [n_frames]; ``colour`` [3]; ``streak`` [2] radians;
        ``size`` [3]: saturated radius in pixels, veil, diagonal in pixels."""
        times = seconds(n_frames, fps)
        path_x, path_y, pulse = wander(rng, times, period_s=9.0, count=3)
        home_x, home_y = rng.uniform(0.35, 0.65), rng.uniform(0.26, 0.48)
        warmth = rng.uniform(-0.06, 0.16)  # a lamp or low sun is warm, a window cool
        first = rng.uniform(-0.5, 0.5)
        diagonal = float(np.hypot(width, height))
        return {
            "source": np.stack([(home_x + 0.17 * path_x) * width, (home_y + 0.12 * path_y) * height], axis=1),
            "strength": 1 + 0.08 * pulse,
            "colour": np.array([1 + warmth / 2, 1.0, 1 - warmth]),
            "streak": np.array([first, first + rng.uniform(0.9, 1.4)]),
            "size": np.array([self.radius[severity - 1] * diagonal, self.veil[severity - 1], diagonal]),
        }

    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply`."""
        import cv2

        height, width = frame.shape[:2]
        light = stray_light(width, height, index, state)[..., None] * (state["colour"] * 255.0**2)
        added = cv2.resize(light.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
        total = cv2.add(cv2.LUT(frame, _SQUARES), added.reshape(frame.shape))
        return cv2.convertScaleAbs(cv2.sqrt(total))


def stray_light(width: int, height: int, index: int, state: State) -> np.ndarray:
    """Added light on a coarse grid over the picture, linear, 1 = white; float64 [rows, columns], each at most 96."""
    radius, veil, diagonal = state["size"]
    columns, rows = min(width, _GRID), min(height, _GRID)
    x = ((np.arange(columns) + 0.5) * width / columns)[None, :]
    y = ((np.arange(rows) + 0.5) * height / rows)[:, None]
    sun_x, sun_y = state["source"][index]
    dx, dy = x - sun_x, y - sun_y
    distance2 = dx * dx + dy * dy
    bloom = radius**2 / (distance2 + 0.09 * radius**2)
    light = bloom + veil
    for angle in state["streak"]:
        across = dy * np.cos(angle) - dx * np.sin(angle)
        light += 0.9 * bloom * radius**2 / (radius**2 + 40 * across * across)
    for place, share in _GHOSTS:
        ghost_x, ghost_y = width / 2 + place * (sun_x - width / 2), height / 2 + place * (sun_y - height / 2)
        away = np.hypot(x - ghost_x, y - ghost_y) / (share * diagonal)
        light += 0.7 * veil * np.clip(4 * (1 - away), 0, 1)
    return light * state["strength"][index]


_SQUARES = (np.arange(256) ** 2).astype(np.float32)
