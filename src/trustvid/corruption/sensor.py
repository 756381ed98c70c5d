"""Sensor noise that is fresh in every frame, yet the same for the same frame in any order."""

from __future__ import annotations

from functools import cache

import numpy as np


def draw_key(rng: np.random.Generator) -> np.ndarray:
    """A key for :func:`frame_noise`, as an array so that it can live in a plan."""
    return rng.integers(0, 2**63, size=1, dtype=np.int64)


def frame_noise(shape: tuple[int, ...], key: np.ndarray, index: int) -> np.ndarray:
    """Standard normal noise for one frame, float32 of this shape, a pure function of ``(shape, key, index)``.

    The sum of two random bytes, each sent through the 256 quantiles of a normal distribution: mean 0, variance 1, tails
    to ±4, and about eight times faster than drawing floats.
    """
    import cv2

    n = int(np.prod(shape))
    stream = np.random.SFC64([int(key[0]), index])
    random_bytes = stream.random_raw((2 * n + 7) // 8).astype("<u8", copy=False).view(np.uint8)
    first, second = random_bytes[:n].reshape(1, n), random_bytes[n : 2 * n].reshape(1, n)
    table = _half_normal_table()
    return cv2.add(cv2.LUT(first, table), cv2.LUT(second, table)).reshape(shape)


def add_noise(base: np.ndarray, sigma: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """``base + sigma · noise``, rounded and clipped to 0–255 as a sensor clips; all [height, width, 3]; uint8."""
    import cv2

    return cv2.add(base, cv2.multiply(sigma, noise, dst=noise), dtype=cv2.CV_8U)


@cache
def _half_normal_table() -> np.ndarray:
    """256 equally likely values with mean 0 and variance 1/2, float32 [256]."""
    from statistics import NormalDist

    values = np.array([NormalDist().inv_cdf((i + 0.5) / 256) for i in range(256)])
    return (values / (values.std() * np.sqrt(2))).astype(np.float32)
