"""Disturbance channels of the paper (Eqs. 11–13) as pure functions of one frame.

Each channel is 0 for an undisturbed frame and rises to 1. Known blind spots, kept because the paper is kept: noise adds
edges and Laplacian energy, so a noisy frame looks sharp and unoccluded; glare shows only through the mean luminance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TAU_BLUR = 500.0  # variance of the Laplacian on grey levels 0–255 that counts as fully sharp (Eq. 11, Table 16)
MU_REF = 0.5  # reference mean luminance (Eq. 12)
TAU_EDGE = 30.0  # Sobel magnitude on grey levels 0–255 above which a pixel is an edge (Eq. 13)


class PaperChannels(NamedTuple):
    """Raw components of one frame, each in [0, 1]."""

    blur: float
    brightness: float
    occlusion: float


class Planes(NamedTuple):
    """Single-channel views of one frame that several measures share, each uint8 [H, W].

    Attributes:
        grey: Rec. 601 luma.
        value: V of HSV, the largest of R, G and B.
        least: the smallest of R, G and B.
    """

    grey: np.ndarray
    value: np.ndarray
    least: np.ndarray


def planes(frame: np.ndarray) -> Planes:
    """The planes of a uint8 RGB frame [H, W, 3]."""
    import cv2

    red, green, blue = cv2.split(frame)
    return Planes(
        cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY),
        cv2.max(cv2.max(red, green), blue),
        cv2.min(cv2.min(red, green), blue),
    )


def paper_channels(frame: np.ndarray) -> PaperChannels:
    """Blur, brightness and occlusion of one frame.

    Args:
        frame: uint8 RGB [H, W, 3], any size from 1×1.

    Eq. 11: d_blur = 1 − min(1, Var(∇²)/500), 4-neighbour Laplacian of Rec. 601 grey, replicated border.
    Eq. 12: d_bright = 2·|μ_V − 0.5|, V of HSV (the paper's text; its code uses grey).
    Eq. 13: d_occl = 1 − share of pixels whose 3×3 Sobel magnitude exceeds 30.
    """
    grey, value, _ = planes(frame)
    return paper_channels_of(grey, value)


def paper_channels_of(grey: np.ndarray, value: np.ndarray) -> PaperChannels:
    """:func:`paper_channels` from the planes, uint8 [H, W] each. Whole numbers throughout: exact, and fast."""
    import cv2

    blur = 1.0 - min(1.0, laplacian_variance(grey) / TAU_BLUR)
    brightness = min(1.0, 2.0 * abs(cv2.mean(value)[0] / 255.0 - MU_REF))
    gradient_x, gradient_y = cv2.spatialGradient(grey, ksize=3, borderType=cv2.BORDER_REPLICATE)
    # Squares of 16-bit numbers stop at 32767, far above the threshold's 900: the comparison stays exact.
    square = cv2.add(cv2.multiply(gradient_x, gradient_x), cv2.multiply(gradient_y, gradient_y))
    edges = cv2.countNonZero(cv2.threshold(square, TAU_EDGE**2, 1, cv2.THRESH_BINARY)[1])
    return PaperChannels(blur, brightness, 1.0 - edges / grey.size)


def laplacian_variance(grey: np.ndarray) -> float:
    """Variance of the 4-neighbour Laplacian, replicated border, of a uint8 plane [H, W]: squared grey levels."""
    import cv2

    laplacian = cv2.Laplacian(grey, cv2.CV_16S, ksize=1, borderType=cv2.BORDER_REPLICATE)
    mean = cv2.mean(laplacian)[0]
    return max(0.0, cv2.norm(laplacian, cv2.NORM_L2SQR) / laplacian.size - mean * mean)


def min_max(values: np.ndarray) -> np.ndarray:
    """Scale [n] values to [0, 1] over one video; all zeros where the range is below 1e-8 (Eq. 2).

    Equal frames get equal values, and a constant video gets none of a disturbance: the absolute level is lost, which
    is the paper's choice and its weakness.
    """
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low) if high - low >= 1e-8 else np.zeros_like(values)
