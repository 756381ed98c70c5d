"""Sensor noise: how much there is in a frame, and a frame without most of it."""

from __future__ import annotations

import cv2
import numpy as np

_KERNEL = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)
_SAMPLES = 8000  # pixels whose response is sorted for the median
_HARMLESS = 3.0  # grey levels
_STROKES_BEAR = 0.8  # pixels of smoothing at most before small letters close
_BRIGHT_END = 220.0  # grey level of the bright end of a well-exposed frame
_MIN_GAIN, _MAX_GAIN = 1.15, 8.0  # less is not worth it; more shows nothing but noise


def noise_level(grey: np.ndarray) -> float:
    """Standard deviation of the noise of a uint8 grey frame, in grey levels.

    Immerkær's mask (Fast noise variance estimation, 1996) with the median for the mean, which edges do not move.
    """
    if min(grey.shape) < 3:
        return 0.0
    response = cv2.filter2D(grey, cv2.CV_16S, _KERNEL)[1:-1, 1:-1]
    step = max(1, int((response.size / _SAMPLES) ** 0.5))
    return float(np.median(np.abs(response[::step, ::step]))) / (6 * 0.6745)


def denoised(image: np.ndarray, strongest: float) -> tuple[np.ndarray, float]:
    """A uint8 RGB frame [H, W, 3] smoothed as much as its noise asks for, and the noise that is left (grey levels).

    Args:
        image: the frame; it comes back itself when it has no noise to speak of.
        strongest: largest standard deviation of the smoothing, pixels: patches of colour bear more than strokes.
    """
    level = noise_level(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))
    if level < _HARMLESS:
        return image, level
    spread = min(strongest, 0.7 + level / 25)
    # White noise after a Gaussian: its power shrinks by 1 / (4 pi spread²).
    return cv2.GaussianBlur(image, (0, 0), spread), level / (2 * spread * np.sqrt(np.pi))


def lit(image: np.ndarray) -> np.ndarray:
    """A uint8 RGB frame as a reader of text wants it: noise smoothed lightly, a dark frame brightened."""
    smooth, _ = denoised(image, strongest=_STROKES_BEAR)
    bright_end = float(np.percentile(smooth[::3, ::3].max(axis=2), 99))
    gain = min(_MAX_GAIN, _BRIGHT_END / max(bright_end, 1.0))
    return cv2.convertScaleAbs(smooth, alpha=gain) if gain >= _MIN_GAIN else smooth
