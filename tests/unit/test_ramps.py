"""Measures of a frame and the channels that follow from them, absolute and relative to the clip."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.unit.fakes import ArraySource
from trustvid.benchmarks.boxworld.preview import render_clip
from trustvid.corruption import corrupt
from trustvid.corruption.gaussian_noise import GaussianNoise
from trustvid.corruption.glare import Glare
from trustvid.corruption.low_light import LowLight
from trustvid.corruption.motion_blur import MotionBlur
from trustvid.corruption.occlusion import Occlusion
from trustvid.reliability.channels import paper_channels
from trustvid.reliability.measures import Measures, measure_clip, measure_frame, noise_sigma
from trustvid.reliability.ramps import (
    CHANNELS,
    NOISE_IN_GRADIENT,
    NOISE_IN_LAPLACIAN,
    RAMPS,
    absolute_ramps,
    relative_ramps,
)
from trustvid.video.reader import open_clip
from trustvid.video.sampling import uniform_indices

CLEAN = Measures(0.1, 0.1, 0.6, noise=0.5, saturated=0.0, bright_end=0.8, laplacian=300, gradient=80, flat=0.01)
KINDS = {
    "noise": GaussianNoise(),
    "glare": Glare(),
    "dark": LowLight(),
    "blur": MotionBlur(),
    "occlusion": Occlusion(),
}
RANGES = Measures(*[(0, 1)] * 3, (0, 63), (0, 1), (0, 1), (0, 20_000), (0, 20_000), (0, 1))


@pytest.fixture(scope="module", params=["city", "room"])
def box_clip(request) -> ArraySource:
    """24 frames of a generated clip."""
    frames = render_clip(request.param, 77).frames
    return ArraySource(frames[uniform_indices(len(frames), 24)], fps=2.5, video_id=request.param)


def auroc(clean: np.ndarray, corrupted: np.ndarray) -> float:
    difference = corrupted[:, None] - clean[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


# -- measures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [4, 12, 35])
def test_noise_is_told_in_grey_levels_and_edges_are_not_noise(sigma):
    rng = np.random.default_rng(5)
    picture = np.tile(np.repeat([90.0, 160.0], 40), (240, 4)) + np.linspace(-20, 20, 240)[:, None]
    assert noise_sigma(picture.round().astype(np.uint8)) < 0.6
    noisy = np.clip(picture + rng.normal(0, sigma, picture.shape), 0, 255).round().astype(np.uint8)
    assert noise_sigma(noisy) == pytest.approx(sigma, rel=0.08)


@pytest.mark.parametrize("sigma", [8, 25])
def test_the_constants_that_take_noise_out_of_the_sharpness_are_what_noise_puts_in(sigma):
    noise = np.random.default_rng(2).normal(128, sigma, (480, 640, 1))
    measures = measure_frame(np.clip(noise, 0, 255).round().astype(np.uint8).repeat(3, axis=2))
    assert measures.laplacian / sigma**2 == pytest.approx(NOISE_IN_LAPLACIAN, rel=0.06)
    assert measures.gradient / sigma**2 == pytest.approx(NOISE_IN_GRADIENT, rel=0.06)


def test_burnt_out_pixels_and_the_bright_end():
    frame = np.full((100, 100, 3), 100, np.uint8)
    frame[:30] = (250, 255, 251)
    frame[30:40] = (255, 255, 249)  # not burnt out in blue
    measures = measure_frame(frame)
    assert measures.saturated == pytest.approx(0.3)
    assert measures.bright_end == 1.0
    frame[:40] = 100
    frame[:4] = 255  # four per cent lie above the 95th percentile
    assert measure_frame(frame).bright_end == pytest.approx(100 / 255)


def test_plain_areas_count_in_the_lower_two_thirds_and_unless_black_or_burnt_out():
    rng = np.random.default_rng(1)
    busy = rng.integers(60, 200, (240, 320, 3), dtype=np.uint8)
    sky = busy.copy()
    sky[:80] = 150
    assert measure_frame(busy).flat == measure_frame(sky).flat == 0.0
    covered = busy.copy()
    covered[80:, :160] = 150
    assert measure_frame(covered).flat == pytest.approx(0.5)
    for level in (3, 252):
        covered[80:, :160] = level
        assert measure_frame(covered).flat == 0.0


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (2, 3), (37, 53), (240, 320)])
@pytest.mark.parametrize("level", [0, 128, 255, None])
def test_measures_of_any_frame_are_finite(shape, level):
    rng = np.random.default_rng(0)
    frame = (
        rng.integers(0, 256, (*shape, 3), dtype=np.uint8) if level is None else np.full((*shape, 3), level, np.uint8)
    )
    measures = measure_frame(frame)
    assert np.isfinite(measures).all()
    assert tuple(measures[:3]) == paper_channels(frame)
    for ramps in (absolute_ramps, relative_ramps):
        values = ramps(np.array([measures]))
        assert values.shape == (1, 10) and np.isfinite(values).all() and (values >= 0).all() and (values <= 1).all()


def test_a_clip_is_measured_frame_by_frame_in_the_order_asked_for(box_clip):
    table = measure_clip(box_clip, [5, 0, 5])
    assert table.shape == (3, 9) and table.dtype == np.float64
    assert (table[0] == table[2]).all()
    assert tuple(table[1]) == measure_frame(box_clip.frames([0])[0])
    assert measure_clip(box_clip, []).shape == (0, 9)


# -- ramps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("measures", "expected"),
    [
        (CLEAN, {}),
        (CLEAN._replace(noise=5.5), {"noise1": 0.5, "noise2": 0.5 / 45}),
        (CLEAN._replace(saturated=0.21), {"glare1": 0.7, "glare2": 0.3}),
        (CLEAN._replace(bright_end=0.13), {"dark1": 0.925, "dark2": 0.5}),
        (CLEAN._replace(laplacian=161.0), {"blur1": 0.6 / 1.3, "blur2": 0.2 / 1.6}),  # r = 161/80.5 = 2
        (CLEAN._replace(flat=0.155), {"occlusion1": 0.5, "occlusion2": 0.3}),
    ],
)
def test_absolute_channels_follow_their_formulas(measures, expected):
    ramps = dict(zip(RAMPS, absolute_ramps(np.array([measures]))[0], strict=True))
    assert ramps == pytest.approx({name: expected.get(name, 0.0) for name in RAMPS})


def test_relative_channels_follow_their_formulas():
    rows = [CLEAN] * 18 + [CLEAN._replace(laplacian=150.0), CLEAN._replace(saturated=0.15, flat=0.11)]
    ramps = relative_ramps(np.array([[*row] for row in rows]))
    assert ramps[:18].tolist() == [[0.0] * 10] * 18
    blurred, covered = (dict(zip(RAMPS, row, strict=True)) for row in ramps[18:])
    assert blurred == pytest.approx({**dict.fromkeys(RAMPS, 0.0), "blur1": 0.55 / 1.2, "blur2": 0.25 / 1.5})
    expected = {"glare1": 0.5, "glare2": 0.15 / 0.7, "occlusion1": 0.28, "occlusion2": 0.05 / 0.35}
    assert covered == pytest.approx({**dict.fromkeys(RAMPS, 0.0), **expected})


def tables(least: int = 1, most: int = 12) -> st.SearchStrategy[np.ndarray]:
    unit = arrays(np.float64, st.tuples(st.integers(least, most), st.just(9)), elements=st.floats(0, 1))
    return unit.map(lambda table: table * np.array([high for _, high in RANGES]))


@settings(max_examples=80, deadline=None)
@given(tables())
def test_any_measures_give_channels_between_0_and_1(table):
    for ramps in (absolute_ramps(table), relative_ramps(table)):
        assert ramps.shape == (len(table), len(RAMPS))
        assert np.isfinite(ramps).all() and (ramps >= 0).all() and (ramps <= 1).all()


@settings(max_examples=40, deadline=None)
@given(tables(most=1), st.integers(1, 9))
def test_a_constant_clip_has_constant_channels_and_no_relative_glare_blur_or_occlusion(row, n):
    table = row.repeat(n, axis=0)
    for ramps in (absolute_ramps(table), relative_ramps(table)):
        assert (ramps == ramps[0]).all()
    seen = dict(zip(RAMPS, relative_ramps(table)[0], strict=True))
    assert all(seen[f"{channel}{step}"] == 0 for channel in ("glare", "blur", "occlusion") for step in (1, 2))


@settings(max_examples=40, deadline=None)
@given(tables(least=2), st.randoms(use_true_random=False))
def test_channels_belong_to_frames_not_to_places(table, random):
    order = random.sample(range(len(table)), len(table))
    for ramps in (absolute_ramps, relative_ramps):
        assert np.allclose(ramps(table[order]), ramps(table)[order])
    assert np.allclose(absolute_ramps(table[:1]), absolute_ramps(table)[:1])


# -- channels on pictures ----------------------------------------------------------------------------------------------


def test_clean_generated_clips_are_undisturbed(box_clip):
    table = measure_clip(box_clip, range(box_clip.n_frames))
    for ramps in (absolute_ramps(table), relative_ramps(table)):
        assert ramps[:, 1::2].mean(axis=0).max() < 0.01, "sky and walls are no occluders, panels no glare"


@pytest.mark.parametrize("channel", CHANNELS)
def test_each_corruption_shows_in_its_own_channel(box_clip, channel):
    indices = range(box_clip.n_frames)
    clean = measure_clip(box_clip, indices)
    corrupted = measure_clip(corrupt(box_clip, KINDS[channel], 3, 1.0), indices)
    touched = np.arange(len(clean)) < len(clean) // 2
    table = np.where(touched[:, None], corrupted, clean)
    for ramps in (absolute_ramps(table), relative_ramps(table)):
        own = ramps[:, 2 * CHANNELS.index(channel) : 2 * CHANNELS.index(channel) + 2].mean(axis=1)
        assert auroc(own[~touched], own[touched]) >= 0.95


def test_on_poor_footage_darkness_does_not_make_clean_frames_look_blurred_or_covered(real_clips):
    """Noise in the dark half must set neither the sharpness that counts as sharp nor the flatness that counts as usual."""
    clip = open_clip(real_clips["carphone_distorted"])
    indices = uniform_indices(clip.n_frames, 24)
    dark = np.arange(24) < 12
    for severity in (3, 5):
        corrupted = measure_clip(corrupt(clip, LowLight(), severity, 1.0), indices)
        table = np.where(dark[:, None], corrupted, measure_clip(clip, indices))
        harm = relative_ramps(table)[:, 1::2]
        assert harm[~dark].mean(axis=0).max() < 0.05
        assert auroc(harm[~dark].max(axis=1), harm[dark].max(axis=1)) > 0.9


def test_what_lies_over_the_whole_clip_is_seen_by_absolute_channels_only(box_clip):
    table = measure_clip(corrupt(box_clip, MotionBlur(), 4, 1.0), range(box_clip.n_frames))
    blur = 2 * CHANNELS.index("blur")
    assert absolute_ramps(table)[:, blur].mean() > 0.8
    assert relative_ramps(table)[:, blur].mean() < 0.3
