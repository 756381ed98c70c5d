"""Frame drop: single frames get lost on the way, and the last one that arrived stays on the screen: judder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trustvid.corruption.base import State, severity_table
from trustvid.corruption.held import HeldPicture, last_arrived


@dataclass(frozen=True)
class FrameDrop(HeldPicture):
    """Frames are lost independently of each other; a lost one is replaced by the last that arrived.

    At a loss of p the picture is p / (1 − p) frames late on average. The first frame always arrives.

    Args:
        loss: share of the frames that are lost, per severity.

    Raises:
        ValueError: the setting is out of its range.
    """

    name: ClassVar[str] = "frame_drop"
    version: ClassVar[int] = 1

    loss: Sequence[float] = (0.15, 0.32, 0.5, 0.66, 0.8)

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", severity_table("frame_drop.loss", self.loss, below=1.0))

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``shown`` int64 [n_frames]: which frame is seen at each place."""
        return {"shown": last_arrived(rng.random(n_frames) >= self.loss[severity - 1])}
