"""Which frames are looked at."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustvid.video.sampling import dense_windows, pad_indices, temporal_pad, uniform_indices

rising_times = st.lists(st.floats(0.001, 0.5), min_size=1, max_size=120).map(lambda steps: np.cumsum(steps) - steps[0])


@given(st.integers(1, 100_000), st.integers(1, 600))
def test_uniform_indices_are_rising_distinct_and_reach_both_ends(n_frames: int, k: int):
    indices = uniform_indices(n_frames, k)
    assert len(indices) == min(k, n_frames)
    assert indices[0] == 0
    assert all(a < b for a, b in pairwise(indices))
    assert indices[-1] == (n_frames - 1 if len(indices) > 1 else 0)


@given(st.integers(2, 100_000), st.integers(2, 600))
def test_uniform_indices_are_even(n_frames: int, k: int):
    gaps = np.diff(uniform_indices(n_frames, k))
    assert gaps.max() - gaps.min() <= 2  # rounding moves each end of a gap by half a frame at most


def test_uniform_indices_by_hand():
    assert uniform_indices(298, 8) == [0, 42, 85, 127, 170, 212, 255, 297]
    assert uniform_indices(298, 298) == list(range(298))
    assert uniform_indices(7, 4) == [0, 2, 4, 6]
    assert uniform_indices(7, 16) == list(range(7))
    assert uniform_indices(5, 1) == [0]


@pytest.mark.parametrize(("n_frames", "k"), [(0, 4), (4, 0), (-1, 2)])
def test_uniform_indices_refuse_nothing(n_frames: int, k: int):
    with pytest.raises(ValueError, match="at least one frame"):
        uniform_indices(n_frames, k)


@given(rising_times, st.data(), st.floats(0.5, 40), st.floats(0, 3))
def test_dense_windows_hold_what_they_promise(times: np.ndarray, data: st.DataObject, max_fps: float, window_s: float):
    centres = data.draw(st.lists(st.integers(0, len(times) - 1), max_size=8))
    runs = dense_windows(times, centres, max_fps, window_s)
    flat = [index for run in runs for index in run]
    assert flat == sorted(set(flat)), "rising, no index twice"
    assert bool(runs) == bool(centres)
    for run in runs:
        assert (np.diff(times[list(run)]) >= 1 / max_fps - 0.0011).all(), "thinned"
        assert any(index in centres for index in run)
    for centre in centres:
        assert np.abs(times[flat] - times[centre]).min() < 1 / max_fps + 1e-9, "a frame near every centre"
    for index in flat:
        assert min(abs(times[index] - times[centre]) for centre in centres) <= window_s / 2 + 0.001


def test_dense_windows_by_hand():
    times = np.arange(90) / 30
    assert dense_windows(times, [45], 10, 1.0) == [tuple(range(30, 61, 3))]
    assert dense_windows(times, [0, 89], 10, 0.4) == [(0, 3, 6), (83, 86, 89)]
    assert dense_windows(times, [10, 20], 30, 0.3) == [tuple(range(6, 15)), tuple(range(16, 25))], "15 is in neither"
    assert dense_windows(times, [20, 10], 30, 0.4) == [tuple(range(4, 27))], "4…16 and 14…26 overlap"
    assert dense_windows(times, [10, 30], 30, 0.2) == [tuple(range(7, 14)), tuple(range(27, 34))]
    assert dense_windows(times, [10, 17], 30, 0.2) == [tuple(range(7, 21))], "7…13 and 14…20 touch"
    assert dense_windows(times, [], 10, 1.0) == []


def test_dense_windows_keep_every_frame_of_a_slow_clip():
    millisecond_clock = np.round(np.arange(50) / 10.02, 3)
    assert dense_windows(millisecond_clock, [10], 10, 2.0) == [tuple(range(0, 20 + 1))]


def test_dense_windows_refuse_nonsense():
    with pytest.raises(IndexError, match="frame 9 is outside 0…4"):
        dense_windows(np.arange(5.0), [9])
    with pytest.raises(ValueError, match="max_fps"):
        dense_windows(np.arange(5.0), [1], max_fps=0)


def test_temporal_padding():
    assert [temporal_pad(17, 4), temporal_pad(18, 4), temporal_pad(16, 4), temporal_pad(1, 2)] == [20, 20, 16, 2]
    assert pad_indices([0], 2) == [0, 0]
    assert pad_indices([0, 1, 2], 2) == [0, 1, 2, 2]
    assert pad_indices([3, 5], 2) == [3, 5]
    with pytest.raises(ValueError, match="patch"):
        temporal_pad(3, 0)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=40, unique=True).map(sorted), st.integers(1, 9))
def test_padding_repeats_the_last_frame_only(indices: list[int], patch: int):
    padded = pad_indices(indices, patch)
    assert len(padded) == temporal_pad(len(indices), patch)
    assert len(padded) % patch == 0
    assert len(padded) - len(indices) < patch
    assert padded[: len(indices)] == indices
    assert set(padded[len(indices) :]) <= {indices[-1]}
