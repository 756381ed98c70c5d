"""Frames of a fixed size: what a captioner could see at 224 × 224, say (the resolution sweep of IF-VidCap's Fig. 4 d).

A reader that opens clips whose frames are resized before anyone sees them, tools and policy alike. A policy that
resizes frames itself must be told the same size (``policy.min_pixels=policy.max_pixels=side²``), or it undoes this.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from trustvid.errors import ConfigError
from trustvid.video.reader import Kind, Reader
from trustvid.video.source import FrameSource


class SizedReader(Reader):
    """A :class:`~trustvid.video.reader.Reader` whose clips have square frames of one size.

    Args:
        side: width and height of every frame in pixels, 16 or more; the picture's proportions are given up, as in the
            paper's sweep.
        kind, prefer, count, threads, cache_mb: see :class:`~trustvid.video.reader.Reader`.

    Raises:
        ConfigError: the side is too small, or a setting of the reader is wrong.
    """

    def __init__(
        self,
        side: int,
        kind: Kind = "auto",
        prefer: str = "pyav",
        count: str = "auto",
        threads: int = 0,
        cache_mb: float = 256.0,
    ):
        super().__init__(kind, prefer, count, threads, cache_mb)
        if side < 16:
            raise ConfigError([f"reader.side={side}; expected 16 pixels or more"])
        self.side = side

    def open(self, path: Path | str) -> SizedClip:
        """See :meth:`Reader.open`."""
        return SizedClip(super().open(path), self.side)


class SizedClip:
    """A :class:`~trustvid.video.source.FrameSource`: the source, every frame resized to ``side`` × ``side``."""

    def __init__(self, source: FrameSource, side: int):
        self.source = source
        self.video_id, self.digest = source.video_id, source.digest
        self.n_frames, self.timestamps, self.fps = source.n_frames, source.timestamps, source.fps
        self.width = self.height = side

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        """See :meth:`FrameSource.frames`. Areas are averaged when frames shrink, splined when they grow."""
        import cv2

        found = self.source.frames(indices)
        shrinks = self.width * self.height < self.source.width * self.source.height
        how = cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC
        resized = [cv2.resize(frame, (self.width, self.height), interpolation=how) for frame in found]
        return np.stack(resized) if resized else np.empty((0, self.height, self.width, 3), dtype=np.uint8)

    def frame_key(self, index: int) -> str:
        """See :meth:`FrameSource.frame_key`: the source's, and the size."""
        return f"{self.source.frame_key(index)} > size {self.width}x{self.height}"
