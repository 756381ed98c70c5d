"""What is measured on one frame: nine numbers from which every channel of every estimator follows.

Measuring needs the pixels and is the slow part; ramps and scores are arithmetic on the table of measures. So measures
can be kept (they do not depend on the method) while constants change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from trustvid.reliability.channels import laplacian_variance, paper_channels_of, planes
from trustvid.video.source import FrameSource

SATURATED = 250  # grey level from which a colour channel counts as burnt out
# Standard deviation of unit white noise after Immerkær's mask, times the median of the absolute unit normal.
NOISE_GAIN = 6.0 * 0.6745
TILE_ROWS, TILE_COLUMNS = 15, 20  # tiles of 16 px on a 320×240 frame; the same share of the picture on any other
GROUND_ROWS = 10  # lowest rows of tiles, two thirds: the sky is flat by nature and lies above them
FLAT_SD = 1.5  # standard deviation in grey levels below which a tile is flat
# Mean grey levels a flat tile must lie between to count: burnt-out and black areas are glare's and darkness's.
FLAT_RANGE = (12.0, 243.0)


class Measures(NamedTuple):
    """One frame.

    Attributes:
        paper_blur, paper_brightness, paper_occlusion: Eqs. 11–13, see ``paper_channels``; in [0, 1].
        noise: σ of the noise in grey levels, the robust form of Immerkær's estimate; ≥ 0, at most 63.
        saturated: share of pixels whose R, G and B are all burnt out.
        bright_end: 95th percentile of V, 0–1.
        laplacian: variance of the Laplacian after a 3×3 median (which removes most noise), squared grey levels.
        gradient: mean of |∇|² after the same median, in squared grey levels a pixel.
        flat: share of the lower two thirds that has no texture though it is neither black nor burnt out: what is out of
            focus right before the lens; in [0, 1].
    """

    paper_blur: float
    paper_brightness: float
    paper_occlusion: float
    noise: float
    saturated: float
    bright_end: float
    laplacian: float
    gradient: float
    flat: float


Measurer = Callable[[FrameSource, Sequence[int]], np.ndarray]
"""(clip, indices) → float64 [len(indices), 9], columns as in :class:`Measures`."""


def measure_clip(clip: FrameSource, indices: Sequence[int]) -> np.ndarray:
    """The plain :data:`Measurer`: decodes frame by frame, so that memory stays flat.

    Raises:
        VideoError: the clip cannot be decoded.
    """
    rows = [measure_frame(clip.frames([index])[0]) for index in indices]
    return np.asarray(rows, dtype=np.float64).reshape(len(rows), len(Measures._fields))


def measure_frame(frame: np.ndarray) -> Measures:
    """All measures of one frame, uint8 RGB [H, W, 3], any size from 1×1. Finite for every frame, blank ones too."""
    import cv2

    grey, value, least = planes(frame)
    smooth = cv2.medianBlur(grey, 3)
    gradient_x, gradient_y = cv2.spatialGradient(smooth, ksize=3, borderType=cv2.BORDER_REPLICATE)
    energy = cv2.norm(gradient_x, cv2.NORM_L2SQR) + cv2.norm(gradient_y, cv2.NORM_L2SQR)
    return Measures(
        *paper_channels_of(grey, value),
        noise=noise_sigma(grey),
        saturated=cv2.countNonZero(cv2.threshold(least, SATURATED - 1, 1, cv2.THRESH_BINARY)[1]) / grey.size,
        bright_end=_quantile(value, 0.95) / 255.0,
        laplacian=laplacian_variance(smooth),
        gradient=energy / (64.0 * grey.size),  # 3×3 Sobel responses are eight times the slope
        flat=flat_share(grey),
    )


def noise_sigma(grey: np.ndarray) -> float:
    """σ of the noise of a uint8 plane [H, W] in grey levels.

    Immerkær's mask (1996) is blind to anything that is linear in x or in y; the median of its absolute response, in
    place of his mean, also ignores edges as long as they fill less than half of the picture.
    """
    import cv2

    second = np.array([1.0, -2.0, 1.0], np.float32)
    response = cv2.convertScaleAbs(cv2.sepFilter2D(grey, cv2.CV_16S, second, second))
    return _quantile(response, 0.5) / NOISE_GAIN


def flat_share(grey: np.ndarray) -> float:
    """Share of the tiles in the lower two thirds of a uint8 plane [H, W] that are flat, neither black nor burnt out."""
    import cv2

    height, width = grey.shape
    rows = np.unique(np.linspace(0, height, TILE_ROWS + 1).round().astype(int))
    columns = np.unique(np.linspace(0, width, TILE_COLUMNS + 1).round().astype(int))
    rows = rows[-GROUND_ROWS - 1 :]
    total, square = (part[np.ix_(rows, columns)] for part in cv2.integral2(grey, sqdepth=cv2.CV_64F))
    area = np.diff(rows)[:, None] * np.diff(columns)
    mean, mean_square = (np.diff(np.diff(part, axis=0), axis=1) / area for part in (total, square))
    flat = (mean_square - mean**2 < FLAT_SD**2) & (mean > FLAT_RANGE[0]) & (mean < FLAT_RANGE[1])
    return float(flat.mean())


def _quantile(plane: np.ndarray, share: float) -> float:
    """The least grey level that at least ``share`` of a uint8 plane's pixels do not exceed."""
    import cv2

    counts = cv2.calcHist([plane], [0], None, [256], [0, 256]).ravel()
    return float(np.searchsorted(np.cumsum(counts, dtype=np.float64), share * plane.size))
