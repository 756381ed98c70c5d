"""Frame selection: which K frames the policy and the tools get to see.

All selectors that keep the order of time share one grid, so that a comparison of two of them is about reliability and
not about where the grid happens to lie: first and last views are worth much.

``select`` takes the relevance of the profiled frames to the question where there is one: [len(profile.indices)], each
in [0, 1]. Eq. 3 is made of it, ``Anchored`` may weigh it, the others do not read it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from trustvid.reliability.profile import Profile
from trustvid.video.sampling import uniform_indices

Grid = Literal["ends", "centres"]
GRIDS = ("ends", "centres")
THRESHOLDS = ("value", "rank")


def targets(n_frames: int, k: int, grid: Grid = "ends") -> list[int]:
    """The frames that a selection without any reliability takes: rising, distinct, min(k, n_frames) of them.

    Args:
        grid: "ends" spreads from the first to the last frame; "centres" takes the middles of K equal stretches, which
            shows neither end (for ablations).

    >>> targets(100, 4), targets(100, 4, "centres")
    ([0, 33, 66, 99], [12, 37, 62, 87])
    """
    if grid == "ends" or k >= n_frames:
        return uniform_indices(n_frames, k)
    return ((np.arange(k) + 0.5) * n_frames / k).astype(int).tolist()


def quantile(similarity: np.ndarray) -> np.ndarray:
    """Rank within the clip: 0 for the least similar frame, 1 for the most similar.

    A threshold on it binds whatever the model's similarities are: θ_sim = .30 discards the least relevant 30 % of the
    frames. Frames of equal similarity (to 1e-4) share the best of their ranks, so what tells no frames apart discards
    none: equal similarity throughout is 1 throughout.

    Args:
        similarity: [n], of any range.

    >>> quantile(np.array([0.21, 0.19, 0.24, 0.19, 0.30])).tolist()
    [0.5, 0.25, 0.75, 0.25, 1.0]
    """
    values = np.round(similarity, 4)
    if len(values) < 2:
        return np.ones(len(values))
    not_above = np.searchsorted(np.sort(values), values, side="right")
    return (not_above - 1) / (len(values) - 1)


class Uniform:
    """K frames of the grid, whatever their reliability: the selection of ``blind``.

    Args:
        grid: see :func:`targets`.
    """

    name = "uniform"
    k_min, k_max = 1, 10_000

    def __init__(self, grid: Grid = "ends"):
        self.grid = _checked(grid)

    def select(self, profile: Profile, n_frames: int, k: int, relevance: np.ndarray | None = None) -> tuple[int, ...]:
        """Rising, distinct source indices, min(k, n_frames) of them."""
        return tuple(targets(n_frames, k, self.grid))

    def around(self, selected: tuple[int, ...], n_frames: int, k: int) -> tuple[int, ...]:
        """Centres of the dense windows of temporal tools: the selected frames."""
        return selected


class PaperTopK:
    """Eq. 3 taken literally: the K best-scoring eligible frames, wherever they lie in time.

    s(f) = (1 − d(f)) · sim(f, q) over F = {f: 1 − d ≥ θ_rel and sim ≥ θ_sim}; frames outside F are discarded. With no
    relevance sim is 1 for every frame. One repair: the original hands zero frames to its tools when nothing is
    eligible; here at least ``k_min`` frames are kept, the best of the discarded ones filling up.

    Args:
        theta_rel: least frame reliability, θ_rel (Table 15).
        theta_sim: least relevance, θ_sim (Table 15).
        k_min, k_max: bounds of K (Table 15).
        theta_sim_on: what θ_sim is compared with. "value" = relevance itself, as in the paper; "rank" = its
            :func:`quantile` within the clip, so that θ_sim = .30 discards the least relevant 30 % of the frames on any
            scale of relevance, while s keeps the scale.
    """

    name = "paper"

    def __init__(
        self,
        theta_rel: float = 0.55,
        theta_sim: float = 0.30,
        k_min: int = 4,
        k_max: int = 12,
        theta_sim_on: Literal["value", "rank"] = "value",
    ):
        _check_bounds(k_min, k_max)
        if theta_sim_on not in THRESHOLDS:
            raise ValueError(f"selection.theta_sim_on={theta_sim_on!r} is unknown; known: {', '.join(THRESHOLDS)}")
        self.theta_rel, self.theta_sim, self.k_min, self.k_max = theta_rel, theta_sim, k_min, k_max
        self.theta_sim_on = theta_sim_on

    def select(self, profile: Profile, n_frames: int, k: int, relevance: np.ndarray | None = None) -> tuple[int, ...]:
        """Rising, distinct source indices: at most K, fewer when fewer are eligible. Ties go to the earlier frame."""
        relevance = np.ones(len(profile.indices)) if relevance is None else relevance
        score = profile.reliability * relevance
        asked = relevance if self.theta_sim_on == "value" else quantile(relevance)
        eligible = (profile.reliability >= self.theta_rel) & (asked >= self.theta_sim)
        order = sorted(range(len(score)), key=lambda i: (not eligible[i], -score[i], i))
        keep = min(k, max(int(eligible.sum()), self.k_min))
        return tuple(sorted(profile.indices[i] for i in order[:keep]))

    def around(self, selected: tuple[int, ...], n_frames: int, k: int) -> tuple[int, ...]:
        """Centres of the dense windows of temporal tools: the selected frames, so motion is gated as well."""
        return selected


class Stratified:
    """The most reliable frame of each stretch of time: every grid frame may be replaced by any that is nearest to it.

    Covers all of the clip, but pays for a slightly better frame with the place it was asked for; flat reliability gives
    the grid itself.

    Args:
        grid: see :func:`targets`.
        k_min, k_max: bounds of K (Table 15).
    """

    name = "stratified"

    def __init__(self, grid: Grid = "ends", k_min: int = 4, k_max: int = 12):
        _check_bounds(k_min, k_max)
        self.grid, self.k_min, self.k_max = _checked(grid), k_min, k_max

    def select(self, profile: Profile, n_frames: int, k: int, relevance: np.ndarray | None = None) -> tuple[int, ...]:
        """Rising, distinct source indices, min(k, n_frames) of them."""
        wanted = np.asarray(targets(n_frames, k, self.grid))
        frames, relative = _candidates(profile, wanted)
        away = np.abs(frames[None, :] - wanted[:, None])
        stretch = away.argmin(axis=0)  # of two equally near targets the earlier
        chosen = []
        for place in range(len(wanted)):
            mine = np.flatnonzero(stretch == place)
            chosen.append(int(frames[min(mine, key=lambda i: (-relative[i], away[place, i], i))]))
        return tuple(sorted(chosen))

    def around(self, selected: tuple[int, ...], n_frames: int, k: int) -> tuple[int, ...]:
        """Centres of the dense windows of temporal tools: the grid, for motion outlives what harms other tools."""
        return tuple(targets(n_frames, k, self.grid))


class Anchored:
    """Reliability traded against displacement: a grid frame moves only as far as it pays.

    score_k(f) = r̂(f) − λ·|f − u_k| / gap, where u_k is the grid, gap its spacing, r̂ = min(1, r / ref) rounded to tenths
    and ref the 90 % quantile of r in the clip. Each grid place takes its best frame, the place with the highest best
    score first, and no frame is taken twice. Flat reliability, good or bad throughout, gives exactly the grid; a frame
    moves only if what it gains in relative reliability exceeds its displacement in gaps; every stretch of the clip
    keeps its look. There is no threshold, and one parameter. A second one lets the question have a say: r̂ is multiplied
    by 1 − w·(1 − sim), between 1 − w for an irrelevant frame and 1 for a relevant one.

    Args:
        displacement: λ, price of moving by one gap.
        grid: see :func:`targets`.
        k_min, k_max: bounds of K (Table 15).
        relevance: w in [0, 1], how much of r̂ an irrelevant frame loses; 0 = the question has no say.
    """

    name = "anchored"

    def __init__(
        self,
        displacement: float = 1.0,
        grid: Grid = "ends",
        k_min: int = 4,
        k_max: int = 12,
        relevance: float = 0.0,
    ):
        _check_bounds(k_min, k_max)
        if not displacement > 0:
            raise ValueError(f"selection.displacement={displacement!r}; expected a price above 0")
        if not 0 <= relevance <= 1:
            raise ValueError(f"selection.relevance={relevance!r}; expected a weight from 0 to 1")
        self.displacement, self.grid, self.k_min, self.k_max = displacement, _checked(grid), k_min, k_max
        self.relevance = relevance

    def select(self, profile: Profile, n_frames: int, k: int, relevance: np.ndarray | None = None) -> tuple[int, ...]:
        """Rising, distinct source indices, min(k, n_frames) of them. Ties go to the nearer, then the earlier frame."""
        wanted = np.asarray(targets(n_frames, k, self.grid))
        asked = None if relevance is None or self.relevance == 0 else 1.0 - self.relevance * (1.0 - relevance)
        frames, relative = _candidates(profile, wanted, asked)
        gap = max((n_frames - 1) / max(len(wanted) - 1, 1), 1.0)
        away = np.abs(frames[None, :] - wanted[:, None]) / gap
        # Whole thousandths: equal trades must tie, not differ in the last bit.
        score = np.rint(1000 * (relative[None, :] - self.displacement * away)).astype(int)
        score = 10_000 * score - np.rint(1000 * away).astype(int).clip(0, 9_999)
        taken: list[int] = []
        open_places = list(range(len(wanted)))
        while open_places:
            best = {place: int(score[place].argmax()) for place in open_places}
            place = max(open_places, key=lambda p: (score[p, best[p]], -p))
            taken.append(best[place])
            score[:, best[place]] = np.iinfo(score.dtype).min
            open_places.remove(place)
        return tuple(sorted(int(frames[i]) for i in taken))

    def around(self, selected: tuple[int, ...], n_frames: int, k: int) -> tuple[int, ...]:
        """Centres of the dense windows of temporal tools: the grid, for motion outlives what harms other tools."""
        return tuple(targets(n_frames, k, self.grid))


def _candidates(profile: Profile, wanted: np.ndarray, asked: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Frames that may be chosen, rising: the profiled ones and the grid's own; and their relative reliability r̂.

    A grid frame between two profiled ones takes the reliability of the nearer, so that the grid is always possible.
    ``asked``: what r̂ of each profiled frame is multiplied by.
    """
    profiled = np.asarray(profile.indices)
    frames = np.union1d(profiled, wanted)
    nearest = np.abs(frames[:, None] - profiled[None, :]).argmin(axis=1)
    reliability = profile.reliability
    reference = float(np.quantile(reliability, 0.9))
    if reference <= 0:
        return frames, np.zeros(len(frames))
    relative = np.round(np.minimum(1.0, reliability[nearest] / reference), 1)
    return frames, relative if asked is None else relative * asked[nearest]


def _checked(grid: str) -> Grid:
    if grid not in GRIDS:
        raise ValueError(f"selection.grid={grid!r} is unknown; known: {', '.join(GRIDS)}")
    return grid


def _check_bounds(k_min: int, k_max: int) -> None:
    if not 1 <= k_min <= k_max:
        raise ValueError(f"selection: k_min={k_min}, k_max={k_max}; expected 1 ≤ k_min ≤ k_max")
