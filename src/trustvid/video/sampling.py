"""Which frames to look at: uniform selections, dense windows around selected frames, padding for temporal patches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_CLOCK_S = 1.0001e-3  # containers round times to the millisecond: frames 0.099 s apart are still 10 a second


def uniform_indices(n_frames: int, k: int) -> list[int]:
    """``k`` frames spread evenly over a clip, the first and the last among them; all frames where there are fewer.

    Returns:
        round(linspace(0, n_frames - 1, k)): rising, distinct; min(k, n_frames) of them.

    Raises:
        ValueError: fewer than one frame, there or asked for.

    >>> uniform_indices(90, 4)
    [0, 30, 59, 89]
    >>> uniform_indices(7, 16)
    [0, 1, 2, 3, 4, 5, 6]
    """
    if n_frames < 1 or k < 1:
        raise ValueError(f"expected at least one frame, there and asked for; got n_frames={n_frames}, k={k}")
    return np.round(np.linspace(0, n_frames - 1, min(k, n_frames))).astype(int).tolist()


def dense_windows(
    timestamps: np.ndarray, centres: Sequence[int], max_fps: float = 10.0, window_s: float = 1.0
) -> list[tuple[int, ...]]:
    """Runs of neighbouring frames around selected ones, for tools that need motion.

    Every centre gets the frames within ``window_s``/2 of it. Windows that overlap, or that no frame separates, become
    one run. Each run is then thinned, walking both ways from its first centre, until it holds at most ``max_fps``
    frames a second; other centres may fall to the thinning, but a frame less than 1/``max_fps`` away then stays.

    Args:
        timestamps: [n] seconds, strictly rising.
        centres: frame indices, in any order.
        max_fps: frames a second at most (to within the millisecond to which containers round).
        window_s: length of a window in seconds.

    Returns:
        Runs of rising indices, in rising order and without a shared index; empty where there are no centres.

    Raises:
        ValueError: a rate that is not positive, or a negative window.
        IndexError: a centre outside the clip.
    """
    if max_fps <= 0 or window_s < 0:
        raise ValueError(f"expected max_fps > 0 and window_s ≥ 0; got max_fps={max_fps}, window_s={window_s}")
    times = np.asarray(timestamps, dtype=np.float64)
    runs: list[tuple[int, int, int]] = []  # first frame, last frame, first centre
    for centre in sorted(set(centres)):
        if not 0 <= centre < len(times):
            raise IndexError(f"frame {centre} is outside 0…{len(times) - 1}")
        first = int(np.searchsorted(times, times[centre] - window_s / 2 - _CLOCK_S / 2, side="left"))
        last = int(np.searchsorted(times, times[centre] + window_s / 2 + _CLOCK_S / 2, side="right")) - 1
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], last, runs[-1][2])
        else:
            runs.append((first, last, centre))
    return [_thin(times, *run, step_s=1 / max_fps - _CLOCK_S) for run in runs]


def _thin(times: np.ndarray, first: int, last: int, anchor: int, *, step_s: float) -> tuple[int, ...]:
    """Frames of first…last that keep at least ``step_s`` from their neighbours, the anchor among them."""
    after, before = [anchor], [anchor]
    for index in range(anchor + 1, last + 1):
        if times[index] - times[after[-1]] >= step_s:
            after.append(index)
    for index in range(anchor - 1, first - 1, -1):
        if times[before[-1]] - times[index] >= step_s:
            before.append(index)
    return (*before[:0:-1], *after)


def temporal_pad(n_frames: int, patch: int) -> int:
    """``n_frames`` rounded up to a whole number of temporal patches of ``patch`` frames.

    Raises:
        ValueError: a negative number of frames, or a patch of less than one.

    >>> temporal_pad(17, 4), temporal_pad(16, 4), temporal_pad(1, 2)
    (20, 16, 2)
    """
    if n_frames < 0 or patch < 1:
        raise ValueError(f"expected n_frames ≥ 0 and patch ≥ 1; got n_frames={n_frames}, patch={patch}")
    return -(-n_frames // patch) * patch


def pad_indices(indices: Sequence[int], patch: int) -> list[int]:
    """The frames for a model whose temporal patch holds ``patch`` frames: the last one repeated as often as needed.

    The repeats are filling, not selected frames: whatever reports a selection reports ``indices``.

    >>> pad_indices([0, 1, 2], 2)
    [0, 1, 2, 2]
    """
    padded = list(indices)
    return padded + padded[-1:] * (temporal_pad(len(padded), patch) - len(padded))
