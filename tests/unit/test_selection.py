"""Which frames are selected: the grid that all share, Eq. 3, stretches of time, and the trade against displacement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trustvid.reliability.profile import Profile
from trustvid.reliability.selection import Anchored, PaperTopK, Stratified, Uniform, targets
from trustvid.video.sampling import uniform_indices


def profile_of(reliability, n_frames: int | None = None) -> Profile:
    values = np.asarray(reliability, dtype=float)
    indices = uniform_indices(n_frames or len(values), len(values))
    return Profile(tuple(indices), 1.0 - values)


BLIND = Uniform().select(profile_of([1.0] * 64, 110), 110, 8)


@pytest.mark.parametrize("selector", [Anchored(), Stratified()])
@pytest.mark.parametrize("level", [1.0, 0.6, 0.07, 0.0])
@pytest.mark.parametrize(("n_frames", "k"), [(110, 8), (110, 4), (110, 12), (300, 7), (20, 8), (8, 8), (5, 8), (1, 4)])
def test_flat_reliability_good_or_bad_is_exactly_the_blind_grid(selector, level, n_frames, k):
    profile = profile_of([level] * min(n_frames, 64), n_frames)
    assert selector.select(profile, n_frames, k) == Uniform().select(profile, n_frames, k)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=64),
    st.integers(0, 300),
    st.integers(4, 12),
    st.sampled_from([Anchored(), Stratified(), Anchored(grid="centres"), Anchored(displacement=0.3)]),
)
def test_any_profile_gives_rising_distinct_frames_of_the_clip(reliability, more, k, selector):
    n_frames = len(reliability) + more
    frames = selector.select(profile_of(reliability, n_frames), n_frames, k)
    assert len(frames) == min(k, n_frames)
    assert list(frames) == sorted(set(frames)) and frames[0] >= 0 and frames[-1] < n_frames


def test_anchored_leaves_a_bad_run_for_its_edges_and_keeps_a_look_at_its_middle():
    good = np.ones(110)
    good[20:70] = 0.05
    frames = Anchored().select(Profile(tuple(range(110)), 1.0 - good), 110, 8)
    assert BLIND == (0, 16, 31, 47, 62, 78, 93, 109)
    assert frames[:2] == (0, 16) and frames[-3:] == (78, 93, 109), "good grid frames stay where they are"
    assert 19 in frames and 70 in frames, "31 and 62 move to the nearest good frames, less than a gap away"
    assert any(20 <= frame < 70 for frame in frames), "47 is too far from any good frame and stays"


def test_anchored_moves_only_when_the_gain_exceeds_the_displacement():
    level = np.full(100, 0.9)
    level[33] = 0.5  # 33 is a grid frame for K = 4; its neighbours are 1/33 of a gap away
    assert Anchored().select(Profile(tuple(range(100)), 1.0 - level), 100, 4)[1] in (32, 34)
    level[33] = 0.88  # the same tenth of the reference: no gain at all
    assert Anchored().select(Profile(tuple(range(100)), 1.0 - level), 100, 4)[1] == 33
    level[20:45] = 0.65  # a gain of 0.3 is worth a third of a gap: 11 frames
    moved = Anchored().select(Profile(tuple(range(100)), 1.0 - level), 100, 4)
    assert moved[1] == 33, "the nearest better frame is 12 away"
    dear = Anchored(displacement=0.1).select(Profile(tuple(range(100)), 1.0 - level), 100, 4)
    assert dear[1] in (19, 45), "a lower price lets it move"


def test_anchored_is_free_of_scale():
    rng = np.random.default_rng(3)
    reliability = rng.uniform(0.2, 1.0, 64)
    whole, dim = (Anchored().select(profile_of(reliability * f, 200), 200, 8) for f in (1.0, 0.25))
    assert whole == dim


def test_no_frame_is_taken_twice_even_when_only_four_are_good():
    reliability = np.full(30, 0.01)
    reliability[[13, 14, 15, 16]] = 1.0
    frames = Anchored(displacement=0.05).select(profile_of(reliability), 30, 6)
    assert len(set(frames)) == 6 and {13, 14, 15, 16} <= set(frames)


def test_a_single_brilliant_frame_does_not_make_all_others_bad():
    reliability = np.full(60, 0.4)
    reliability[14] = 1.0
    assert Anchored().select(profile_of(reliability), 60, 6) == Uniform().select(profile_of(reliability), 60, 6)


def test_stratified_takes_the_best_of_each_stretch():
    reliability = np.full(100, 0.5)
    reliability[[10, 45, 60, 99]] = 1.0
    reliability[70:83] = 0.9  # good frames elsewhere set the clip's level
    assert Stratified().select(profile_of(reliability), 100, 4) == (10, 45, 70, 99)


def test_motion_is_looked_at_everywhere_unless_the_paper_is_meant():
    reliability = np.r_[np.ones(30), np.full(70, 0.05)]
    profile = profile_of(reliability)
    grid = Uniform().select(profile, 100, 8)
    for selector in (Anchored(), Stratified(), Uniform()):
        assert selector.around(selector.select(profile, 100, 8), 100, 8) == grid
    clustered = PaperTopK().select(profile, 100, 8)
    assert PaperTopK().around(clustered, 100, 8) == clustered and max(clustered) < 30


def test_grids_and_settings_are_checked():
    assert targets(100, 4, "centres") == [12, 37, 62, 87]
    assert targets(3, 8, "centres") == [0, 1, 2]
    for wrong in (lambda: Anchored(grid="middle"), lambda: Stratified(grid="x"), lambda: Uniform(grid="x")):
        with pytest.raises(ValueError, match="known: ends, centres"):
            wrong()
    with pytest.raises(ValueError, match="above 0"):
        Anchored(displacement=0.0)
    with pytest.raises(ValueError, match="k_min"):
        Anchored(k_min=5, k_max=4)
