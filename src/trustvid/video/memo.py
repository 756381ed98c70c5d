"""Frames kept at hand: several readers of one view (profile, tools, flow) ask for the same frames one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trustvid.video.clip import FrameCache
from trustvid.video.source import FrameSource


class RememberedClip:
    """A :class:`FrameSource` that keeps the frames last used, as many as fit, so that each is made once.

    For views whose frames are dear to make, a corrupted one say; a clip that decodes a file remembers frames itself.
    Everything but ``frames`` is the source's own, further attributes (``touched``, ``warnings``) included.

    Args:
        source: any frame source.
        max_bytes: memory for frames.
    """

    def __init__(self, source: FrameSource, max_bytes: int = 64 * 2**20):
        self.source = source
        self._cache = FrameCache(max_bytes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        """See :meth:`FrameSource.frames`; a fresh copy each time."""
        wanted = [int(index) for index in indices]
        if not wanted:
            return self.source.frames([])
        found = {index: frame for index in set(wanted) if (frame := self._cache.get(index)) is not None}
        missing = sorted(set(wanted) - found.keys())
        for index, frame in zip(missing, self.source.frames(missing), strict=True):
            found[index] = frame.copy()  # a view would keep all that were made with it alive
            self._cache.put(index, found[index])
        return np.stack([found[index] for index in wanted])
