"""What every other package sees of a video: frames by index on the source timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class FrameSource(Protocol):
    """A lazy video: the clip itself, or a corrupted view of it. The same index gives the same bytes every time.

    Attributes:
        video_id: stable name of the video (its file stem); seeds derive from it.
        digest: SHA-256 of the file's bytes, hex.
        n_frames: frames that really decode.
        timestamps: [n_frames] float64, seconds from the first frame, rising.
        width, height: pixels as displayed (rotation applied).
        fps: mean frames per second of the timeline.
    """

    video_id: str
    digest: str
    n_frames: int
    timestamps: np.ndarray
    width: int
    height: int
    fps: float

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        """Frames as uint8 RGB [len(indices), height, width, 3], in the order asked for (repeats allowed).

        Raises:
            VideoError: the file cannot be decoded.
            IndexError: an index is outside 0…n_frames-1.
        """
        ...

    def frame_key(self, index: int) -> str:
        """What was done to this frame ("clean", or the corruption with all that determines it): part of cache keys."""
        ...
