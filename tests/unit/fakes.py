"""Small stand-ins that several tests share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


class ArraySource:
    """A :class:`trustvid.video.source.FrameSource` over frames held in memory.

    Args:
        frames: uint8 RGB [n, height, width, 3].
        fps: frames per second; timestamps are ``index / fps``.
        video_id: the name that seeds derive from.
    """

    def __init__(self, frames: np.ndarray, fps: float = 10, video_id: str = "fake"):
        frames = np.asarray(frames)
        if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3:
            raise ValueError(f"frames must be uint8 [n, height, width, 3], got {frames.dtype} {frames.shape}")
        self._frames = frames
        self.video_id = video_id
        self.digest = hashlib.sha256(np.ascontiguousarray(frames).tobytes()).hexdigest()
        self.n_frames, self.height, self.width = frames.shape[:3]
        self.fps = float(fps)
        self.timestamps = np.arange(self.n_frames, dtype=np.float64) / self.fps

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        """A fresh copy of the frames asked for, uint8 RGB [len(indices), height, width, 3]."""
        wanted = np.asarray(indices, dtype=np.int64)
        outside = wanted[(wanted < 0) | (wanted >= self.n_frames)]
        if outside.size:
            raise IndexError(f"{self.video_id}: frame {outside[0]} is outside 0…{self.n_frames - 1}")
        return self._frames[wanted].copy()

    def frame_key(self, index: int) -> str:
        """Always "clean"."""
        if not 0 <= index < self.n_frames:
            raise IndexError(f"{self.video_id}: frame {index} is outside 0…{self.n_frames - 1}")
        return "clean"
