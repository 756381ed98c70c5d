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


def paper_channels(frame: np.ndarray) -> PaperChannels:
    """Blur, brightness and occlusion of one frame.

    Args:
        frame: uint8 RGB [H, W, 3], any size from 1×1.

    Eq. 11: d_blur = 1 − min(1, Var(∇²)/500), 4-neighbour Laplacian of Rec. 601 grey, replicated border.
    Eq. 12: d_bright = 2·|μ_V − 0.5|, V of HSV (the paper's text; its code uses grey).
    Eq. 13: d_occl = 1 − share of pixels whose 3×3 Sobel magnitude exceeds 30.
    """
    import cv2

    grey = cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY).astype(np.float32)
    laplacian = cv2.Laplacian(grey, cv2.CV_32F, ksize=1, borderType=cv2.BORDER_REPLICATE)
    _, deviation = cv2.meanStdDev(laplacian)
    blur = 1.0 - min(1.0, float(deviation[0, 0]) ** 2 / TAU_BLUR)

    value = float(frame.max(axis=2).mean()) / 255.0
    brightness = min(1.0, 2.0 * abs(value - MU_REF))

    gradient_x = cv2.Sobel(grey, cv2.CV_32F, 1, 0, ksize=3, borderType=cv2.BORDER_REPLICATE)
    gradient_y = cv2.Sobel(grey, cv2.CV_32F, 0, 1, ksize=3, borderType=cv2.BORDER_REPLICATE)
    edges = cv2.magnitude(gradient_x, gradient_y) > TAU_EDGE
    return PaperChannels(blur, brightness, 1.0 - float(edges.mean()))


def min_max(values: np.ndarray) -> np.ndarray:
    """Scale [n] values to [0, 1] over one video; all zeros where the range is below 1e-8 (Eq. 2).

    Equal frames get equal values, and a constant video gets none of a disturbance: the absolute level is lost, which
    is the paper's choice and its weakness.
    """
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low) if high - low >= 1e-8 else np.zeros_like(values)
