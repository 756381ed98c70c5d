"""Smooth trajectories over time: what makes a corruption move instead of flicker."""

from __future__ import annotations

import numpy as np

_SHARES = np.array([0.6, 0.3, 0.1])
_RATES = np.array([1.0, 1.83, 3.47])  # incommensurable enough not to repeat within a clip


def seconds(n_frames: int, fps: float) -> np.ndarray:
    """Times of the frames, [n_frames], from 0."""
    return np.arange(n_frames, dtype=np.float64) / fps


def wander(rng: np.random.Generator, times: np.ndarray, period_s: float, count: int = 1) -> np.ndarray:
    """``count`` independent smooth paths in [−1, 1], [count, len(times)].

    Three sinusoids with random phases. Each path is a formula in time, so frame i is the same for a clip that goes on
    longer, and the step between neighbouring frames is at most ``4π / (period_s · fps)``.

    Args:
        times: seconds.
        period_s: seconds of the slowest and largest swing, varied by ±25 % between paths.
    """
    phases = rng.uniform(0, 2 * np.pi, (count, 3, 1))
    periods = period_s * rng.uniform(0.75, 1.25, (count, 1, 1))
    turns = times[None, None, :] * _RATES[None, :, None] / periods
    return (np.sin(2 * np.pi * turns + phases) * _SHARES[None, :, None]).sum(axis=1)
