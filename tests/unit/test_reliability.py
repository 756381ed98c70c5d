"""Channels (Eqs. 11–13), profile (Eq. 2), selection (Eq. 3) and confidence (Eq. 4)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.reliability.channels import min_max, paper_channels
from trustvid.reliability.confidence import Intrinsic, PaperConfidence, worst_k_mean
from trustvid.reliability.profile import Off, Paper, Profile
from trustvid.reliability.selection import PaperTopK, Uniform


def reference_channels(frame: np.ndarray) -> tuple[float, float, float]:
    """Eqs. 11–13 spelled out in NumPy."""
    grey = np.round(frame.astype(np.float64) @ np.array([0.2989, 0.5870, 0.1140]))
    p = np.pad(grey, 1, mode="edge")
    laplacian = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * grey
    rows = p[:-2] + 2 * p[1:-1] + p[2:]
    columns = p[:, :-2] + 2 * p[:, 1:-1] + p[:, 2:]
    magnitude = np.hypot(rows[:, 2:] - rows[:, :-2], columns[2:] - columns[:-2])
    value = frame.max(axis=2).mean() / 255
    return 1 - min(1, laplacian.var() / 500), 2 * abs(value - 0.5), 1 - (magnitude > 30).mean()


@pytest.mark.parametrize("spread", [2, 12, 60])
def test_channels_follow_the_equations(spread):
    rng = np.random.default_rng(3)
    frame = np.clip(120 + rng.normal(0, spread, (48, 64, 3)), 0, 255).astype(np.uint8)
    assert paper_channels(frame) == pytest.approx(reference_channels(frame), abs=0.02)


@pytest.mark.parametrize("level", [0, 128, 255])
@pytest.mark.parametrize("shape", [(1, 1, 3), (37, 53, 3)])
def test_blank_frames_of_any_size_have_finite_channels(level, shape):
    channels = paper_channels(np.full(shape, level, np.uint8))
    assert channels.blur == 1.0 and channels.occlusion == 1.0
    assert 0.0 <= channels.brightness <= 1.0


def test_min_max_of_equal_values_is_zero():
    assert min_max(np.full(5, 0.7)).tolist() == [0.0] * 5
    assert min_max(np.array([2.0, 4.0, 3.0])).tolist() == [0.0, 1.0, 0.5]


def blurred_clip() -> ArraySource:
    rng = np.random.default_rng(0)
    sharp = rng.integers(0, 256, (20, 24, 32, 3), dtype=np.uint8)
    sharp[8:13] = 128  # five blank frames
    return ArraySource(sharp, fps=10, video_id="blurred")


def test_profile_finds_the_blank_frames_and_their_dominant_disturbance():
    profile = Paper(max_frames=64).profile(blurred_clip())
    assert profile.indices == tuple(range(20))
    assert min(profile.disturbance[8:13]) > max(np.delete(profile.disturbance, range(8, 13)))
    assert profile.dominant((9, 10)) in ("blur", "occlusion")
    assert profile.disturbance_of((9,))[0] == pytest.approx(profile.disturbance[9])


def test_off_measures_nothing_and_calls_everything_clean():
    profile = Off(max_frames=6).profile(blurred_clip())
    assert profile.disturbance is None and profile.dominant((0, 9)) == "clean"
    assert profile.disturbance_of((0, 9)) == () and profile.reliability.tolist() == [1.0] * 6


def profile_of(reliability: list[float]) -> Profile:
    return Profile(tuple(range(len(reliability))), 1.0 - np.array(reliability))


def test_eq3_takes_the_best_eligible_frames_in_time_order():
    profile = profile_of([0.9, 0.6, 0.99, 0.5, 0.8, 0.7, 0.95, 0.4])
    assert PaperTopK().select(profile, 8, 4) == (0, 2, 4, 6)
    assert PaperTopK().select(profile, 8, 12) == (0, 1, 2, 4, 5, 6), "0.5 and 0.4 are below θ_rel and stay out"


def test_eq3_with_nothing_eligible_keeps_k_min_frames_instead_of_none():
    assert PaperTopK().select(profile_of([0.1, 0.5, 0.2, 0.3, 0.4, 0.0]), 6, 8) == (1, 2, 3, 4)


def test_k_stays_within_the_papers_bounds():
    profile = profile_of([0.9] * 30)
    assert len(PaperTopK().select(profile, 30, 2)) == 4
    assert len(PaperTopK().select(profile, 30, 20)) == 12


def test_uniform_selection_is_the_end_inclusive_grid():
    assert Uniform().select(profile_of([1.0]), 100, 8) == (0, 14, 28, 42, 57, 71, 85, 99)
    assert Uniform().select(profile_of([1.0]), 3, 8) == (0, 1, 2)


def test_worst_k_takes_a_third_rounded_up():
    assert worst_k_mean([0.9, 0.2, 0.6, 0.8]) == pytest.approx(0.4)  # ⌈4/3⌉ = 2 smallest
    assert worst_k_mean([0.3]) == pytest.approx(0.3)
    assert worst_k_mean([]) == 1.0


def test_confidence_rules():
    assert PaperConfidence().confidence(0.8, (0.1, 0.5, 0.2)) == pytest.approx(0.8 * 0.5)
    assert Intrinsic().confidence(0.8, (0.9,)) == 0.8
