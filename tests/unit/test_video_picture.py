"""Display matrices: all eight upright orientations, and what is none of them."""

from __future__ import annotations

import numpy as np
import pytest

from trustvid.video.picture import Orientation, read_orientation

ONE = 1 << 16


def matrix(a: int, b: int, c: int, d: int) -> np.ndarray:
    """The 3×3 display matrix whose upper left part is this."""
    return np.array([a * ONE, b * ONE, 0, c * ONE, d * ONE, 0, 0, 0, 1 << 30], dtype=np.int32)


def shown_by_definition(coded: np.ndarray, a: int, b: int, c: int, d: int) -> np.ndarray:
    """Moves every pixel (x, y) to (a·x + c·y, b·x + d·y), shifted into view."""
    height, width = coded.shape[:2]
    y, x = np.mgrid[:height, :width]
    across, down = a * x + c * y, b * x + d * y
    across, down = across - across.min(), down - down.min()
    out = np.empty((down.max() + 1, across.max() + 1, 3), coded.dtype)
    out[down, across] = coded
    return out


@pytest.mark.parametrize(
    "abcd",
    [
        (1, 0, 0, 1),
        (0, 1, -1, 0),
        (-1, 0, 0, -1),
        (0, -1, 1, 0),
        (-1, 0, 0, 1),
        (1, 0, 0, -1),
        (0, 1, 1, 0),
        (0, -1, -1, 0),
    ],
)
def test_every_orientation_moves_pixels_as_defined(abcd: tuple[int, int, int, int]):
    coded = np.arange(4 * 7 * 3, dtype=np.uint8).reshape(4, 7, 3)
    orientation = read_orientation(matrix(*abcd))
    shown = orientation.apply(coded)
    np.testing.assert_array_equal(shown, shown_by_definition(coded, *abcd))
    assert shown.flags.c_contiguous
    assert orientation.mirrored == (abcd in [(-1, 0, 0, 1), (1, 0, 0, -1), (0, 1, 1, 0), (0, -1, -1, 0)])
    assert not orientation.askew


@pytest.mark.parametrize(
    ("abcd", "degrees"), [((1, 0, 0, 1), 0), ((0, 1, -1, 0), 90), ((-1, 0, 0, -1), 180), ((0, -1, 1, 0), 270)]
)
def test_rotations_are_clockwise(abcd: tuple[int, int, int, int], degrees: int):
    assert read_orientation(matrix(*abcd)).clockwise == degrees


@pytest.mark.parametrize("abcd", [(0, 0, 0, 0), (1, 1, -1, 1), (1, 0, 0, 0)])
def test_other_turns_are_left_alone_and_marked(abcd: tuple[int, int, int, int]):
    assert read_orientation(matrix(*abcd)) == Orientation(askew=True)
