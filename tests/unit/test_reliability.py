"""Channels (Eqs. 11–13), profiles (Eq. 2 and ours), selection (Eq. 3), pooling (Eq. 4), and clips that defy them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.config.checking import build
from trustvid.config.compose import compose_config, group_options
from trustvid.corruption import corrupt
from trustvid.corruption.glare import Glare
from trustvid.corruption.low_light import LowLight
from trustvid.corruption.motion_blur import MotionBlur
from trustvid.errors import DataError
from trustvid.reliability.channels import min_max, paper_channels
from trustvid.reliability.confidence import worst_k_mean
from trustvid.reliability.measures import measure_clip
from trustvid.reliability.profile import Absolute, Off, Oracle, Paper, Profile, Relative
from trustvid.reliability.ramps import CHANNELS, RAMPS
from trustvid.reliability.selection import Anchored, PaperTopK, Uniform
from trustvid.video.reader import open_clip
from trustvid.video.sampling import uniform_indices

CLIPS = Path(__file__).resolve().parents[1] / "data" / "videos"


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


def test_uniform_selection_is_the_end_inclusive_grid():
    assert Uniform().select(profile_of([1.0]), 100, 8) == (0, 14, 28, 42, 57, 71, 85, 99)
    assert Uniform().select(profile_of([1.0]), 3, 8) == (0, 1, 2)


def test_worst_k_takes_a_third_rounded_up():
    assert worst_k_mean([0.9, 0.2, 0.6, 0.8]) == pytest.approx(0.4)  # ⌈4/3⌉ = 2 smallest
    assert worst_k_mean([0.3]) == pytest.approx(0.3)
    assert worst_k_mean([]) == 1.0


# -- absolute, relative, oracle ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def textured() -> ArraySource:
    """100 frames of coarse, sharp texture, a slow pan."""
    import cv2

    rng = np.random.default_rng(4)
    scene = cv2.resize(rng.integers(20, 235, (60, 130, 3), dtype=np.uint8), (520, 240), interpolation=cv2.INTER_NEAREST)
    return ArraySource(np.stack([scene[:, i : i + 320] for i in range(100)]), fps=10, video_id="textured")


def share_of_pairs(low: np.ndarray, below: np.ndarray) -> float:
    """AUROC without ties."""
    return float((low[:, None] < below[None, :]).mean())


@pytest.mark.parametrize("estimator", [Absolute(), Relative()])
@pytest.mark.parametrize(("corruption", "channel"), [(MotionBlur(), "blur"), (Glare(), "glare"), (LowLight(), "dark")])
def test_profiles_find_the_corrupted_frames_and_name_what_harms_them(textured, estimator, corruption, channel):
    clip = corrupt(textured, corruption, 4, 0.5)
    profile = estimator.profile(clip)
    touched = clip.touched[list(profile.indices)]
    assert share_of_pairs(profile.reliability[touched], below=profile.reliability[~touched]) > 0.9
    assert share_of_pairs(profile.disturbance[~touched], below=profile.disturbance[touched]) > 0.9
    assert profile.dominant(tuple(np.flatnonzero(clip.touched)[:8])) == channel
    assert profile.dominant(tuple(np.flatnonzero(~clip.touched)[:8])) == "clean"
    assert set(profile.raw) == set(CHANNELS) and profile.ramps.shape == (64, len(RAMPS))
    assert (profile.raw[channel] == profile.ramps[:, RAMPS.index(f"{channel}1")]).all()


def test_reliability_is_the_yield_of_reading_and_detecting_or_else_what_is_left_of_d(textured):
    clip = corrupt(textured, MotionBlur(), 3, 0.5)
    fitted, plain = Relative().profile(clip), Relative(calibration=None).profile(clip)
    assert (fitted.disturbance == plain.disturbance).all()
    assert np.allclose(fitted.reliability, fitted.yields["read_text"] * fitted.yields["detect_objects"])
    assert plain.yields == {} and (plain.reliability == 1 - plain.disturbance).all()
    assert all((values > 0).all() and (values < 1).all() for values in fitted.yields.values())
    with pytest.raises(DataError, match="nowhere"):
        Absolute(calibration="nowhere")


def test_the_oracle_is_told_every_touched_frame_whoever_touched_it(textured):
    inner = corrupt(textured, Glare(), 2, 0.25)
    outer = corrupt(inner, LowLight(), 2, 0.25)
    profile = Oracle(max_frames=50).profile(outer)
    touched = (inner.touched | outer.touched)[list(profile.indices)]
    assert 0 < touched.sum() < 50 and profile.reliability.tolist() == (1.0 - touched).tolist()
    assert Oracle().profile(textured).reliability.tolist() == [1.0] * 64
    assert profile.ramps.shape == (50, 10)


def test_frames_between_profiled_ones_are_judged_by_the_nearest(textured):
    clip = corrupt(textured, LowLight(), 4, 0.5)
    profile = Relative(max_frames=10).profile(clip)
    assert profile.indices == (0, 11, 22, 33, 44, 55, 66, 77, 88, 99)
    assert (profile.ramps_at((12, 98)) == profile.ramps[[1, 9]]).all()
    assert profile.disturbance_of((12,)) == (profile.disturbance[1],)
    assert profile.mean_raw((12, 98))["dark"] == pytest.approx(profile.raw["dark"][[1, 9]].mean())
    assert profile.dominant(()) == "clean" and profile.mean_raw(()) == {}
    with pytest.raises(ValueError, match="reliability=absolute"):
        Off().profile(clip).ramps_at((0,))


@pytest.mark.parametrize("estimator", [Paper(20), Absolute(20), Relative(20), Oracle(20)])
def test_estimators_live_on_what_the_measurer_says(textured, estimator):
    asked = []

    def measure(clip, indices):
        asked.extend(indices)
        return measure_clip(corrupt(textured, LowLight(), 5, 1.0), indices)

    indirect = estimator.profile(textured, measure)
    direct = estimator.profile(corrupt(textured, LowLight(), 5, 1.0))
    assert asked == uniform_indices(100, 20)
    assert {name: values.tolist() for name, values in indirect.raw.items()} == {
        name: values.tolist() for name, values in direct.raw.items()
    }


def test_every_config_builds_with_its_own_defaults():
    assert set(group_options("reliability")) == {"absolute", "learned", "off", "oracle", "paper", "relative"}
    for name in group_options("reliability"):
        node = dict(compose_config([f"+reliability={name}", "methods=[]"]).reliability)
        estimator = build(node)
        assert estimator.name == name
        assert vars(estimator) == vars(type(estimator)()), "the file and the constructor's defaults must agree"


# -- clips that defy a score -------------------------------------------------------------------------------------------

ESTIMATORS = [Paper(), Absolute(), Relative(), Absolute(calibration=None), Relative(calibration=None)]


@pytest.mark.parametrize("clip", ["v27_black_15f", "v28_white_15f", "v29_flat_gray_15f"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("selector", [Uniform(), PaperTopK(), Anchored()])
def test_blank_clips_have_finite_equal_scores_and_a_selection(clip, estimator, selector):
    picks = []
    for _ in range(2):
        source = open_clip(CLIPS / f"{clip}.mp4")
        profile = estimator.profile(source)
        assert np.isfinite(profile.reliability).all() and np.isfinite(profile.disturbance).all()
        assert ((profile.reliability >= 0) & (profile.reliability <= 1)).all()
        assert len(set(profile.reliability.tolist())) == 1, "equal frames, equal scores"
        picks.append(selector.select(profile, source.n_frames, 4))
    assert picks[0] == picks[1] and len(picks[0]) == 4
    assert list(picks[0]) == sorted(set(picks[0]))


GOOD = {0, 1, 2, 3, 4, 10, 11, 15, 16, 18, 19}  # of v30; the others are blurred, black or white


@pytest.mark.parametrize("estimator", ESTIMATORS[1:])
def test_the_best_frames_of_a_mixed_clip_come_first(estimator):
    """Top-K by reliability alone, its threshold off: the claim is about order."""
    clip = open_clip(CLIPS / "v30_mixed_reliability_20f.mp4")
    profile, selector = estimator.profile(clip), PaperTopK(theta_rel=0.0, k_max=25)
    picks = {k: selector.select(profile, clip.n_frames, k) for k in (8, 15, 20, 25)}
    assert [len(pick) for pick in picks.values()] == [8, 15, 20, 20]
    assert all(list(pick) == sorted(set(pick)) for pick in picks.values())
    assert set(picks[8]) < GOOD
    assert set(picks[15]) > GOOD
    assert picks[20] == picks[25] == tuple(range(20))


@pytest.mark.parametrize("estimator", ESTIMATORS[1:])
def test_anchored_leaves_black_and_white_frames_and_keeps_a_look_at_every_stretch(estimator):
    clip = open_clip(CLIPS / "v30_mixed_reliability_20f.mp4")
    profile, selector = estimator.profile(clip), Anchored(k_max=25)
    picks = {k: selector.select(profile, clip.n_frames, k) for k in (4, 8, 15, 20, 25)}
    assert [len(pick) for pick in picks.values()] == [4, 8, 15, 20, 20]
    assert all(list(pick) == sorted(set(pick)) for pick in picks.values())
    assert set(picks[4]) < GOOD
    assert not {12, 13, 14, 17} & set(picks[8])
    assert len(GOOD & set(picks[8])) > len(GOOD & set(Uniform().select(profile, 20, 8)))
    assert np.diff((-1, *picks[8], 20)).max() <= 7, "no stretch of more than six frames goes unseen"
