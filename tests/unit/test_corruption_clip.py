"""The corrupted view of a timeline: which frames, which bytes, which key."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakes import ArraySource
from trustvid.corruption import corrupt, touched_frames
from trustvid.corruption.gaussian_noise import GaussianNoise
from trustvid.corruption.glare import Glare
from trustvid.corruption.low_light import LowLight
from trustvid.corruption.motion_blur import MotionBlur
from trustvid.corruption.occlusion import Occlusion
from trustvid.seeding import derive_rng, derive_seed
from trustvid.video.source import FrameSource

ALL = [MotionBlur(), GaussianNoise(), Glare(), Occlusion(), LowLight()]
each_corruption = pytest.mark.parametrize("corruption", ALL, ids=lambda corruption: corruption.name)


def scene(n: int = 24, video_id: str = "fake") -> ArraySource:
    """A still, textured scene: whatever moves in a corrupted view of it is the corruption."""
    rng = np.random.default_rng(1)
    small = rng.integers(30, 220, (12, 16, 3), dtype=np.uint8)
    frame = small.repeat(8, axis=0).repeat(8, axis=1)
    return ArraySource(frame[None].repeat(n, axis=0), fps=10, video_id=video_id)


def runs(touched: np.ndarray) -> int:
    """Number of contiguous runs."""
    return int((np.diff(np.concatenate([[0], touched.astype(int)])) == 1).sum())


def digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


@each_corruption
def test_it_is_a_frame_source(corruption):
    source = scene()
    clip = corrupt(source, corruption, 3)
    assert isinstance(clip, FrameSource)
    for field in ("video_id", "digest", "n_frames", "width", "height", "fps"):
        assert getattr(clip, field) == getattr(source, field)
    assert clip.touched.dtype == bool and clip.touched.shape == (24,) and clip.touched.sum() == 12
    with pytest.raises(IndexError):
        clip.frames([24])
    with pytest.raises(IndexError):
        clip.frame_key(-1)


@each_corruption
def test_any_frame_alone_in_any_order(corruption):
    whole = corrupt(scene(), corruption, 4, 1.0).frames(range(24))
    fresh = corrupt(scene(), corruption, 4, 1.0)
    order = [17, 3, 3, 23, 0]
    assert np.array_equal(fresh.frames(order), whole[order])
    assert np.array_equal(corrupt(scene(), corruption, 4, 1.0).frames([9])[0], whole[9])
    assert np.array_equal(fresh.frames(np.array([5])), whole[[5]])


def test_another_process_gives_the_same_bytes():
    names = "motion_blur:MotionBlur gaussian_noise:GaussianNoise glare:Glare occlusion:Occlusion low_light:LowLight"
    program = f"""
import hashlib, importlib
from tests.unit.test_corruption_clip import scene
from trustvid.corruption import corrupt
for name in {names.split()!r}:
    module, kind = name.split(":")
    operator = getattr(importlib.import_module("trustvid.corruption." + module), kind)()
    print(hashlib.sha256(corrupt(scene(), operator, 3, 1.0).frames([11, 4]).tobytes()).hexdigest())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env={"PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [digest(corrupt(scene(), op, 3, 1.0).frames([11, 4])) for op in ALL]


@each_corruption
def test_the_look_of_a_frame_does_not_depend_on_coverage(corruption):
    half, whole = corrupt(scene(), corruption, 3, 0.5), corrupt(scene(), corruption, 3, 1.0)
    touched = np.flatnonzero(half.touched)
    assert np.array_equal(half.frames(touched), whole.frames(touched))
    assert [half.frame_key(i) for i in touched] == [whole.frame_key(i) for i in touched]


@each_corruption
def test_untouched_frames_are_the_sources_and_the_source_is_left_alone(corruption):
    source = scene()
    before = source.frames(range(24))
    clip = corrupt(source, corruption, 2, 0.5)
    frames = clip.frames(range(24))
    assert np.array_equal(frames[~clip.touched], before[~clip.touched])
    differs = (frames != before).any(axis=(1, 2, 3))
    assert np.array_equal(differs, clip.touched)
    assert np.array_equal(source.frames(range(24)), before)


def test_the_key_holds_all_that_determines_the_pixels():
    clip = corrupt(scene(), Glare(), 3, 0.5)
    on, off = int(np.flatnonzero(clip.touched)[0]), int(np.flatnonzero(~clip.touched)[0])
    assert clip.frame_key(off) == "clean"
    key = clip.frame_key(on)
    assert key.startswith("clean > glare/1 severity=3 seed=0") and "veil" in key

    class NextGlare(Glare):
        version = 2

    others = [
        corrupt(scene(), Glare(), 4, 1.0),
        corrupt(scene(), Glare(), 3, 1.0, seed=1),
        corrupt(scene(video_id="renamed"), Glare(), 3, 1.0),
        corrupt(scene(), Glare(veil=(0.01, 0.02, 0.03, 0.04, 0.05)), 3, 1.0),
        corrupt(scene(), NextGlare(), 3, 1.0),
        corrupt(corrupt(scene(), LowLight(), 1, 1.0), Glare(), 3, 1.0),
    ]
    keys = [other.frame_key(on) for other in others]
    assert len({key, *keys}) == 1 + len(others)
    assert "low_light/1" in keys[-1] and keys[-1].index("low_light") < keys[-1].index("glare")


def test_corruptions_stack():
    dark = corrupt(scene(), LowLight(), 2, 1.0)
    both = corrupt(dark, Occlusion(), 3, 1.0)
    frames = both.frames([2, 8])
    operator, state = both.corruption, both._state
    assert np.array_equal(frames[1], operator.apply(dark.frames([8])[0], 8, state))


@given(st.integers(1, 200), st.floats(0, 1), st.integers(0, 10_000))
def test_coverage_is_exact_and_lies_in_one_to_three_runs(n, coverage, seed):
    touched = touched_frames(n, coverage, derive_rng(seed))
    assert touched.sum() == round(coverage * n)
    assert runs(touched) <= 3 and (runs(touched) >= 1 or round(coverage * n) == 0)


@given(st.integers(1, 200), st.floats(0, 1), st.floats(0, 1), st.integers(0, 10_000))
def test_coverages_nest(n, one, other, seed):
    smaller, larger = (touched_frames(n, share, derive_rng(seed)) for share in sorted((one, other)))
    assert not (smaller & ~larger).any()


def test_every_frame_is_equally_likely_to_be_touched():
    hits = np.mean([touched_frames(40, 0.3, derive_rng("where", draw)) for draw in range(3000)], axis=0)
    assert np.abs(hits - 0.3).max() < 0.04  # 5 standard errors of 0.0084
    counts = [runs(touched_frames(40, 0.3, derive_rng("where", draw))) for draw in range(300)]
    assert set(counts) == {1, 2, 3}


def test_where_the_runs_lie_follows_seed_video_name_and_severity():
    def spots(source=None, corruption=None, severity=3, seed=0):
        return tuple(corrupt(source or scene(200), corruption or Glare(), severity, 0.3, seed).touched)

    same = spots()
    assert same == spots()
    others = [spots(seed=1), spots(severity=4), spots(scene(200, "b")), spots(corruption=LowLight())]
    assert len({same, *others}) == 5


@pytest.mark.parametrize("coverage", [-0.01, 1.01, float("nan"), "0.5", True, None])
def test_other_coverages_are_refused(coverage):
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        corrupt(scene(), Glare(), 3, coverage)


def test_coverage_0_and_1():
    assert not corrupt(scene(), Glare(), 3, 0).touched.any()
    assert corrupt(scene(), Glare(), 3, 1).touched.all()


def test_training_draws_differ_between_samples_and_epochs_but_not_between_runs():
    """Every sample and epoch gets noise of its own, with the seed of the training variant: derive_seed(seed, sample id, epoch)."""

    def fields() -> list[str]:
        drawn = []
        for epoch in range(2):
            for sample in range(8):
                source = ArraySource(np.full((7, 24, 32, 3), 128, np.uint8), video_id="v06_seven_frames")
                seed = derive_seed(0, f"sample-{sample}", epoch)
                drawn.append(digest(corrupt(source, GaussianNoise(), 3, 1.0, seed).frames([3])))
        return drawn

    first = fields()
    assert len(set(first)) == 16
    assert fields() == first


@pytest.mark.parametrize("corruption", [MotionBlur(), Glare(), Occlusion()], ids=lambda corruption: corruption.name)
def test_the_harm_moves_smoothly(corruption):
    """On a still scene the picture changes from frame to frame, but by a small part of the harm, and without jumps."""
    frames = corrupt(scene(60), corruption, 4, 1.0).frames(range(60)).astype(int)
    step = np.abs(np.diff(frames, axis=0)).mean(axis=(1, 2, 3))
    harm = np.abs(frames - scene(60).frames(range(60))).mean()
    assert step.mean() > 0 and step.max() < 0.25 * harm, (step.mean(), step.max(), harm)
    assert np.abs(np.diff(step)).max() < 0.1 * harm


def test_low_light_gain_moves_smoothly():
    gain = LowLight().plan(100, 10, 64, 48, 3, derive_rng(0))["gain"]
    assert gain.shape == (100, 3)
    steps = np.abs(np.diff(np.log2(gain[:, 1])))
    assert 0 < steps.max() < 0.06 and np.ptp(np.log2(gain[:, 1])) > 0.08


def test_noise_is_fresh_in_every_frame():
    source = ArraySource(np.full((2, 120, 160, 3), 128, np.uint8))
    first, second = corrupt(source, GaussianNoise(), 2, 1.0).frames([0, 1]).astype(float) - 128
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(first[..., 0].ravel(), first[..., 1].ravel())[0, 1]) < 0.03
    assert abs(np.corrcoef(first[:, 1:].ravel(), first[:, :-1].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("corruption", [MotionBlur(), GaussianNoise(), Glare(), LowLight()], ids=lambda c: c.name)
def test_a_longer_clip_begins_like_a_shorter_one(corruption):
    short = corrupt(scene(10), corruption, 3, 1.0).frames([4])
    assert np.array_equal(short, corrupt(scene(30), corruption, 3, 1.0).frames([4]))
