"""The clips of this folder carry their frame number: eight black or white bars over a red left and a blue right half."""

from __future__ import annotations

import numpy as np

BARS = 8


def read_index(picture: np.ndarray) -> tuple[int, bool]:
    """The number drawn in an RGB frame [h, w, 3], and whether red and blue are where they belong.

    The colours are wrong when channels are swapped or the picture is turned.
    """
    height, width = picture.shape[:2]
    centres = [(2 * bar + 1) * width // (2 * BARS) for bar in range(BARS)]
    bits = [picture[height // 4, x].mean() > 127 for x in centres]
    left, right = (picture[3 * height // 4, x].astype(int) for x in (width // 4, 3 * width // 4))
    return int("".join(str(int(bit)) for bit in bits), 2), bool(left[0] > left[2] + 60 and right[2] > right[0] + 60)


def draw_index(index: int, height: int = 64, width: int = 96) -> np.ndarray:
    """A frame of that kind."""
    picture = np.zeros((height, width, 3), np.uint8)
    bars = np.array([index >> (BARS - 1 - bar) & 1 for bar in range(BARS)], np.uint8) * 255
    picture[: height // 2] = bars[np.arange(width) * BARS // width, None]
    picture[height // 2 :, : width // 2] = (220, 30, 30)
    picture[height // 2 :, width // 2 :] = (30, 30, 220)
    return picture
