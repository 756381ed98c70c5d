"""What the learned estimator sees of a frame: the whole picture, small, above pieces of it at their own scale.

Shrinking a frame hides what disturbs it: noise averages out, a short blur falls below a pixel. So the lower half of the
view is made of *fragments* (Wu et al., FAST-VQA, ECCV 2022): small squares cut without scaling from the cells of a grid
and put together in their order. The upper half keeps what fragments cannot show, where in the picture something is.
"""

from __future__ import annotations

import numpy as np

VERSION = 1  # raised whenever the same frame would give another view: cached views and trained weights depend on it
ROWS = 240  # frames with more rows are shrunk to this first, so that fragments mean the same on any footage
GRID = 4  # fragments a side


def view_shape(size: int) -> tuple[int, int, int]:
    """[channels, rows, columns] of a view: two squares of ``size``, one above the other."""
    return 3, 2 * size, size


def frame_view(frame: np.ndarray, size: int) -> np.ndarray:
    """The view of one frame.

    Args:
        frame: uint8 RGB [H, W, 3], any size from 1×1.
        size: pixels a side of each half, a multiple of 4.

    Returns:
        uint8 [3, 2·size, size].
    """
    import cv2

    height, width = frame.shape[:2]
    shrink = min(1.0, ROWS / height)
    if shrink < 1.0:
        columns = max(1, round(width * shrink))
        frame = cv2.resize(frame, (columns, ROWS), interpolation=cv2.INTER_AREA)
    whole = cv2.resize(frame, (size, size), interpolation=cv2.INTER_AREA)
    return np.ascontiguousarray(np.concatenate([whole, _fragments(frame, size)]).transpose(2, 0, 1))


def _fragments(frame: np.ndarray, size: int) -> np.ndarray:
    """uint8 [size, size, 3]: from the middle of each of the 4×4 cells a square of size / 4 pixels, unscaled.

    Frames smaller than one such square are continued by their border.
    """
    side = size // GRID
    short = [max(0, side - length) for length in frame.shape[:2]]
    if any(short):
        frame = np.pad(frame, ((0, short[0]), (0, short[1]), (0, 0)), mode="edge")
    tops, lefts = (_starts(length, side) for length in frame.shape[:2])
    return np.concatenate(
        [np.concatenate([frame[top : top + side, left : left + side] for left in lefts], axis=1) for top in tops]
    )


def _starts(length: int, side: int) -> list[int]:
    """First pixel of the square in the middle of each cell, kept inside 0…length-side."""
    middles = (np.arange(GRID) + 0.5) * length / GRID
    return np.clip(np.round(middles - side / 2), 0, length - side).astype(int).tolist()
