"""Corruptions that hold an earlier picture instead of showing the next."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from trustvid.corruption.base import Corruption, State


class HeldPicture(Corruption):
    """Shows earlier frames of the source, as they are.

    A subclass plans which: ``shown`` int64 [n_frames] in its state. Single pictures, and frames of a still scene, thus
    stay as they are at every severity.
    """

    reorders: ClassVar[bool] = True

    def source_index(self, index: int, state: State) -> int:
        """See :meth:`Corruption.source_index`."""
        return int(state["shown"][index])

    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply`: the picture is not changed."""
        return frame.copy()


def last_arrived(arrived: np.ndarray) -> np.ndarray:
    """For each frame the last one that arrived by then, int64 [n_frames]; the first always arrives.

    Args:
        arrived: bool [n_frames].
    """
    places = np.where(arrived, np.arange(len(arrived)), 0)
    return np.maximum.accumulate(places)
