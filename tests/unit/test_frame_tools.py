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
