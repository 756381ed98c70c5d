"""Frames kept at hand: several readers of one clip (profile, tools, flow) ask for the same frames one after another."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from trustvid.video.source import FrameSource


class RememberedClip:
    """A :class:`FrameSource` that keeps the frames last used, as many as fit, so that each is made once.

    Everything but ``frames`` is the source's own, further attributes (``touched``, ``warnings``) included.

    Args:
        source: any frame source.
        max_bytes: memory for frames; one frame is always kept.
    """

    def __init__(self, source: FrameSource, max_bytes: int = 64 * 2**20):
        self.source = source
        self._room = max(1, max_bytes // max(1, source.width * source.height * 3))
        self._kept: OrderedDict[int, np.ndarray] = OrderedDict()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        """See :meth:`FrameSource.frames`; a fresh copy each time."""
        wanted = [int(index) for index in indices]
        missing = sorted({index for index in wanted if index not in self._kept})
        found = {index: self._kept[index] for index in wanted if index in self._kept}
        if missing:
            for index, frame in zip(missing, self.source.frames(missing), strict=True):
                found[index] = frame.copy()  # a view would keep the whole batch alive
        for index, frame in found.items():
            self._kept[index] = frame
            self._kept.move_to_end(index)
        while len(self._kept) > self._room:
            self._kept.popitem(last=False)
        return np.stack([found[index] for index in wanted]) if wanted else self.source.frames([])
