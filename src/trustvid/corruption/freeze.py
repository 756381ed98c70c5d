"""Freeze: the picture stands still for a while, then the video goes on where it would have been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trustvid.corruption.base import State, severity_table
from trustvid.corruption.held import HeldPicture, last_arrived

_VARIED = (0.7, 1.3)  # range of each length of time, as shares of its mean


@dataclass(frozen=True)
class Freeze(HeldPicture):
    """Stretches in which the picture stands still take turns with stretches of normal play, both of random length.

    Lengths vary by ±30 % around their means. Play comes first, so the first frame is always the video's.

    Args:
        still_s: mean length of a freeze, seconds, per severity. Below the time between two frames nothing stands still.
        still_share: share of the time that the picture stands still, per severity.

    Raises:
        ValueError: a setting is out of its range.
    """

    name: ClassVar[str] = "freeze"
    version: ClassVar[int] = 1

    still_s: Sequence[float] = (0.4, 0.65, 0.95, 1.3, 1.7)
    still_share: Sequence[float] = (0.25, 0.4, 0.55, 0.7, 0.82)

    def __post_init__(self) -> None:
        object.__setattr__(self, "still_s", severity_table("freeze.still_s", self.still_s, below=60.0))
        object.__setattr__(self, "still_share", severity_table("freeze.still_share", self.still_share, below=1.0))

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``shown`` int64 [n_frames]: which frame is seen at each place."""
        still, share = self.still_s[severity - 1], self.still_share[severity - 1]
        play = still * (1 - share) / share
        arrived = np.ones(n_frames, dtype=bool)
        start = play * rng.uniform(0, 1)  # the clip begins somewhere within a stretch of play
        while start * fps < n_frames:
            end = start + still * rng.uniform(*_VARIED)
            seen = int(np.ceil(start * fps))  # the frame that stays: the first at or after the start
            arrived[seen + 1 : max(seen + 1, int(np.ceil(end * fps)))] = False
            start = end + play * rng.uniform(*_VARIED)
        return {"shown": last_arrived(arrived)}
