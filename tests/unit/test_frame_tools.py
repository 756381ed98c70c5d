"""assess_quality, select_frames, retrieve_frames: what is told of them, and which frames a refinement takes."""

from __future__ import annotations

import numpy as np
import pytest

from trustvid.agent import frame_tools
from trustvid.reliability.profile import Profile


def profile_of(reliability) -> Profile:
    values = np.asarray(reliability, dtype=float)
    return Profile(tuple(range(0, 2 * len(values), 2)), 1.0 - values, {"blur": 1.0 - values})


def test_costs_are_those_of_table_17():
    assert frame_tools.COSTS == {"assess_quality": 0.10, "select_frames": 0.15, "retrieve_frames": 0.20}


def test_what_was_measured_and_selected_is_told():
    profile = profile_of([0.9, 0.2, 0.4, 0.8])
    assessed = frame_tools.assessed(profile)
    assert assessed.confidence == 1.0 and assessed.frames == (0, 2, 4, 6)
    assert "4 frames profiled, 2 with reliability below 0.5; dominant disturbance: blur" in assessed.result
    selected = frame_tools.selected(profile, (0, 6))
    assert selected.confidence == pytest.approx(0.85) and "2 of 4" in selected.result


def test_the_pool_gives_its_most_reliable_frames_in_time_order():
    profile = profile_of([0.9, 0.3, 0.8, 0.2, 0.7, 0.6, 0.9, 0.1])
    call = frame_tools.retrieved(profile, (0, 12))
    assert call.frames == (2, 4, 8, 10) and call.confidence == pytest.approx((0.3 + 0.8 + 0.7 + 0.6) / 4)


def test_flat_reliability_fills_the_widest_gaps():
    call = frame_tools.retrieved(profile_of([0.5] * 21), (0, 40))
    assert {10, 20, 30} < set(call.frames) and len(call.frames) == 4
    assert min(np.diff((0, *call.frames, 40))) >= 4, "no two of them stand side by side"


def test_a_small_pool_gives_what_it_has_and_an_empty_one_nothing():
    profile = profile_of([0.5, 0.6, 0.7])
    assert frame_tools.retrieved(profile, (0, 4)).frames == (2,)
    assert frame_tools.retrieved(profile, (0, 2, 4)) is None


def test_relevance_makes_mean_s_of_a_selection():
    profile = profile_of([0.9, 0.2, 0.4, 0.8])
    relevance = np.array([0.5, 1.0, 1.0, 0.25])
    call = frame_tools.selected(profile, (0, 6), relevance)
    assert call.confidence == pytest.approx((0.9 * 0.5 + 0.8 * 0.25) / 2)
    assert call.result == "2 of 4 profiled frames, mean reliability × relevance 0.33"
    assert frame_tools.relevance_of(profile, relevance, (0, 3, 6)) == (0.5, 1.0, 0.25), "3 lies nearest to 2"
    assert frame_tools.relevance_of(profile, None, (0, 6)) == () == frame_tools.relevance_of(profile, relevance, ())
    assert frame_tools.selected(profile, (), relevance).confidence == 0.0


def test_the_pool_is_ranked_by_reliability_times_relevance():
    profile = profile_of([0.9, 0.3, 0.8, 0.2, 0.7, 0.6, 0.9, 0.1])
    relevance = np.array([1.0, 1.0, 0.1, 1.0, 1.0, 0.2, 1.0, 1.0])
    call = frame_tools.retrieved(profile, (0, 12), relevance)
    # s of the pool: .30 .08 .20 .70 .12 .10; to tenths 4, 10 and 14 are alike, and alike in distance: the earliest
    assert call.frames == (2, 4, 6, 8) and call.confidence == pytest.approx((0.3 + 0.1 + 0.2 + 0.7) / 4)
    assert call.result == "frames 2 4 6 8 of a pool of 6, mean reliability × relevance 0.33"
    alike = frame_tools.retrieved(profile, (0, 12), np.ones(8))
    plain = frame_tools.retrieved(profile, (0, 12))
    assert (alike.frames, alike.confidence) == (plain.frames, plain.confidence) == ((2, 4, 8, 10), plain.confidence)
    assert frame_tools.retrieved(profile, tuple(range(0, 16, 2)), relevance) is None
