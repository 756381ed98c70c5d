"""Occlusion: dirt on the lens and unfocused things that pass close by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trustvid.corruption.base import Corruption, State, check_share, severity_table
from trustvid.corruption.drift import seconds, wander

_BLOBS = (4, 5, 6, 7, 8)  # per severity
_LOBES = np.array([2, 3, 5])  # waves around a blob's outline
_GRID = 64  # outlines are computed on a coarse grid, at most this wide or high
# RGB. Mud and dust are dark or pale, in turn, so that they stand out from any picture; every second passing thing has
# some colour.
_DARK = np.array([(34, 34, 38), (54, 46, 38), (26, 42, 36), (44, 48, 58)])
_PALE = np.array([(206, 192, 160), (198, 200, 204), (176, 168, 156), (214, 206, 196)])
_COLOURED = np.array([(176, 34, 36), (32, 54, 168), (220, 124, 30), (38, 124, 52), (132, 44, 148)])


@dataclass(frozen=True)
class Occlusion(Corruption):
    """A few opaque soft-edged blobs. Some stick to the lens, the others drift to and fro across the picture.

    Blobs are sized so that on average over the clip exactly ``area`` of the picture lies behind them.

    Args:
        area: share of the picture covered, per severity.
        stuck: share of the blobs that stick to the lens, 0–1.
        softness: width of a passing blob's blurred edge as a share of the picture's diagonal, 0–0.1; three times
            as much for stuck ones, which are least in focus.

    Raises:
        ValueError: a setting is out of its range.
    """

    name: ClassVar[str] = "occlusion"
    version: ClassVar[int] = 1

    area: Sequence[float] = (0.14, 0.24, 0.35, 0.48, 0.62)
    stuck: float = 0.4
    softness: float = 0.012

    def __post_init__(self) -> None:
        object.__setattr__(self, "area", severity_table("occlusion.area", self.area, below=0.95))
        object.__setattr__(self, "stuck", check_share("occlusion.stuck", self.stuck))
        object.__setattr__(self, "softness", check_share("occlusion.softness", self.softness, most=0.1))

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``centre`` [n_frames, blobs, 2], (x, y) in pixels; for each blob k ``colour{k}`` uint8 [h, w, 3] and
        ``alpha{k}`` float32 [h, w], drawn around its centre."""
        count = _BLOBS[severity - 1]
        stuck = np.arange(count) >= count - round(self.stuck * count)  # the last ones: painted over the passing ones
        centre = _paths(rng, seconds(n_frames, fps), stuck) * (width, height)
        shapes = _Shapes.draw(rng, count, float(np.hypot(width, height)))
        size = shapes.size_for(self.area[severity - 1], centre, width, height)
        tints = _tints(rng, stuck)
        edge = self.softness * np.hypot(width, height) * np.where(stuck, 3.0, 1.0)  # nearest, most out of focus
        state = {"centre": centre}
        for k in range(count):
            state[f"alpha{k}"] = shapes.alpha(k, size, edge[k])
            state[f"colour{k}"] = _texture(rng, tints[k], state[f"alpha{k}"].shape)
        return state

    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply`."""
        picture = frame.copy()
        for k, (x, y) in enumerate(state["centre"][index]):
            _paste(picture, state[f"colour{k}"], state[f"alpha{k}"], float(x), float(y))
        return picture


@dataclass(frozen=True)
class _Shapes:
    """Outlines of blobs: ellipses with wavy edges, before their common size is known."""

    axes: np.ndarray  # [blobs, 2] half axes, pixels at size 1
    turn: np.ndarray  # [blobs] radians
    waves: np.ndarray  # [blobs, lobes] amplitude as a share of the radius
    phases: np.ndarray  # [blobs, lobes]

    @classmethod
    def draw(cls, rng: np.random.Generator, count: int, diagonal: float) -> _Shapes:
        """Random outlines of roughly equal area."""
        longer = rng.uniform(1.0, 1.35, count)
        scale = diagonal * 0.2 * rng.uniform(0.85, 1.15, count)
        return cls(
            axes=np.stack([scale * longer, scale / longer], axis=1),
            turn=rng.uniform(0, np.pi, count),
            waves=rng.uniform(0.02, 0.09, (count, len(_LOBES))),
            phases=rng.uniform(0, 2 * np.pi, (count, len(_LOBES))),
        )

    def level(self, k: int, dx: np.ndarray, dy: np.ndarray) -> np.ndarray:
        """The size at which blob k just reaches a point (dx, dy) pixels from its centre."""
        cos, sin = np.cos(self.turn[k]), np.sin(self.turn[k])
        u, v = (dx * cos + dy * sin) / self.axes[k, 0], (dy * cos - dx * sin) / self.axes[k, 1]
        angle = np.arctan2(v, u)[..., None]
        outline = 1 + (self.waves[k] * np.cos(_LOBES * angle + self.phases[k])).sum(axis=-1)
        return np.hypot(u, v) / outline

    def size_for(self, area: float, centre: np.ndarray, width: int, height: int) -> float:
        """The size at which the blobs together cover ``area`` of the picture, on average over at most 8 moments.

        A point is covered once the size exceeds the smallest level there, so the wanted size is a quantile of it.
        """
        x = ((np.arange(40) + 0.5) * width / 40)[None, :]
        y = ((np.arange(30) + 0.5) * height / 30)[:, None]
        moments = np.unique(np.linspace(0, len(centre) - 1, 8).round().astype(int))
        nearest = [
            np.min([self.level(k, x - cx, y - cy) for k, (cx, cy) in enumerate(centre[moment])], axis=0)
            for moment in moments
        ]
        return float(np.quantile(nearest, area))

    def alpha(self, k: int, size: float, edge: float) -> np.ndarray:
        """Opacity of blob k around its centre, float32 [odd, odd], with an empty rim.

        It is 1/2 on the outline and soft over ``edge`` pixels.
        """
        longest = size * self.axes[k].max() * (1 + self.waves[k].sum()) + edge
        cos, sin = abs(np.cos(self.turn[k])), abs(np.sin(self.turn[k]))
        shorter = self.axes[k].min() / self.axes[k].max()
        reach_x = int(np.ceil(longest * np.hypot(cos, shorter * sin))) + 2
        reach_y = int(np.ceil(longest * np.hypot(sin, shorter * cos))) + 2
        inside = size - self._level_map(k, reach_x, reach_y)  # in sizes; times the mean axis: about pixels
        ramp = np.clip(0.5 + inside * np.float32(self.axes[k].mean() / max(edge, 1.0)), 0, 1)
        soft = ramp * ramp * (3 - 2 * ramp)
        soft[[0, -1]] = soft[:, [0, -1]] = 0
        return soft

    def _level_map(self, k: int, reach_x: int, reach_y: int) -> np.ndarray:
        """:meth:`level` at every pixel up to a reach, float32; the level is smooth, so a coarse grid is enlarged."""
        import cv2

        columns, rows = min(2 * reach_x + 1, _GRID), min(2 * reach_y + 1, _GRID)
        x = ((np.arange(columns) + 0.5) / columns - 0.5) * (2 * reach_x + 1)
        y = ((np.arange(rows) + 0.5) / rows - 0.5) * (2 * reach_y + 1)
        coarse = self.level(k, x[None, :], y[:, None]).astype(np.float32)
        return cv2.resize(coarse, (2 * reach_x + 1, 2 * reach_y + 1), interpolation=cv2.INTER_LINEAR)


def _paths(rng: np.random.Generator, times: np.ndarray, stuck: np.ndarray) -> np.ndarray:
    """Centres over time as shares of width and height, [n_frames, blobs, 2]."""
    count = len(stuck)
    # Homes on a jittered low-discrepancy row (R2 sequence), so that blobs spread instead of piling up.
    row = np.arange(count)[:, None] * np.array([0.7548776662, 0.5698402910]) + rng.uniform(0, 1, 2)
    home = 0.08 + 0.84 * (row % 1.0) + rng.uniform(-0.05, 0.05, (count, 2))
    reach = np.where(stuck, 0.0, rng.uniform(0.10, 0.22, count))[:, None, None] * (1.0, 0.5)
    swing = np.stack([wander(rng, times, period_s=7.0, count=count) for _ in range(2)], axis=2)
    return (home[:, None, :] + reach * swing).transpose(1, 0, 2)


def _tints(rng: np.random.Generator, stuck: np.ndarray) -> np.ndarray:
    """One colour per blob, RGB [blobs, 3]."""
    neutrals = np.stack(rng.permutation([rng.permutation(_DARK), rng.permutation(_PALE)]), axis=1).reshape(-1, 3)
    coloured = rng.permutation(_COLOURED)
    lively = ~stuck & (np.arange(len(stuck)) % 2 == 0)
    tints = neutrals[np.cumsum(~lively) % len(neutrals)]
    tints[lively] = coloured[np.arange(np.count_nonzero(lively)) % len(coloured)]
    return tints


def _texture(rng: np.random.Generator, tint: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """An unfocused surface: one colour with two slow waves of shading, uint8 [h, w, 3]."""
    import cv2

    y, x = np.mgrid[0:1:32j, 0:1:32j]
    shade = np.zeros_like(x)
    for _ in range(2):
        angle, phase = rng.uniform(0, 2 * np.pi, 2)
        shade += np.sin(2 * np.pi * rng.uniform(0.6, 1.1) * (x * np.cos(angle) + y * np.sin(angle)) + phase)
    surface = (tint + 4 * shade[..., None]).astype(np.float32)
    return cv2.convertScaleAbs(cv2.resize(np.clip(surface, 0, 255), shape[::-1], interpolation=cv2.INTER_LINEAR))


def _paste(picture: np.ndarray, colour: np.ndarray, alpha: np.ndarray, x: float, y: float) -> None:
    """Lay one blob over ``picture``, in place, its middle at (x, y); the outline is placed to a fraction of a pixel."""
    import cv2

    height, width = picture.shape[:2]
    rows, columns = alpha.shape
    left, top = x - (columns - 1) / 2, y - (rows - 1) / 2
    home_x, home_y = int(np.floor(left)), int(np.floor(top))
    x0, x1 = max(0, home_x), min(width, home_x + columns)
    y0, y1 = max(0, home_y), min(height, home_y + rows)
    if x0 >= x1 or y0 >= y1:
        return
    size = (x1 - x0, y1 - y0)
    # The blob's empty rim takes up the fraction of a pixel, so that a slow drift does not jump from pixel to pixel.
    shift = np.array([[1, 0, left - x0], [0, 1, top - y0]])
    here = cv2.warpAffine(alpha, shift, size, flags=cv2.INTER_LINEAR).reshape(size[::-1])
    surface = colour[y0 - home_y : y1 - home_y, x0 - home_x : x1 - home_x]  # shading is slow: whole pixels do
    region = picture[y0:y1, x0:x1]
    region[...] = cv2.blendLinear(region, surface, 1 - here, here).reshape(region.shape)
