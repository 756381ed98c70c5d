"""Each operator against what its documentation promises, in numbers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from trustvid.corruption import SEVERITIES
from trustvid.corruption.drift import seconds, wander
from trustvid.corruption.gaussian_noise import GaussianNoise
from trustvid.corruption.glare import Glare
from trustvid.corruption.low_light import LowLight
from trustvid.corruption.motion_blur import MotionBlur, streak
from trustvid.corruption.occlusion import Occlusion
from trustvid.corruption.sensor import frame_noise
from trustvid.seeding import derive_rng

WIDTH, HEIGHT = 320, 240


def grey(level: int) -> np.ndarray:
    return np.full((HEIGHT, WIDTH, 3), level, np.uint8)


def full_kernel(length: float, angle: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The whole streak: weights, and their x and y from the pixel that is written."""
    kernel, steps, centre = streak(length, angle)
    y, x = (axis.ravel() for axis in np.mgrid[-3:4, -3:4])
    weight = kernel.ravel().astype(float)
    for step in steps:
        (dx, dy), (part_x, part_y) = np.floor(step).astype(int), step % 1
        taps = [(0, 0, 1.0)] + [
            (dx + right, dy + down, abs(1 - right - part_x) * abs(1 - down - part_y))
            for right in (0, 1)
            for down in (0, 1)
        ]
        weight = np.concatenate([weight * share / 2 for _, _, share in taps])
        x, y = np.concatenate([x + tap[0] for tap in taps]), np.concatenate([y + tap[1] for tap in taps])
    return weight, x - centre[0], y - centre[1]


@pytest.mark.parametrize("length", [0.4, 2.0, 3.7, 6.3, 11.0, 19.9, 30.0, 150.0])
@pytest.mark.parametrize("angle", [0.0, 0.3, -0.5, 0.8])
def test_a_streak_is_an_even_centred_line(length, angle):
    weight, x, y = full_kernel(length, angle)
    along, across = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    assert weight.sum() == pytest.approx(1, abs=1e-5)
    assert weight @ x == pytest.approx(0, abs=0.02) and weight @ y == pytest.approx(0, abs=0.02)
    # Sharing sub-pixel weight between pixels adds a little variance: each doubling moves half of the weight.
    spread = 0.5 + 0.06 * len(streak(length, angle)[1])
    assert length**2 / 12 <= weight @ along**2 <= length**2 / 12 + spread
    assert weight @ across**2 < spread
    if length > 10:  # even: no stretch of four pixels has more or less than its share
        stretches = np.histogram(along, np.arange(4 - length / 2, length / 2 - 4, 4.0), weights=weight)[0]
        assert stretches == pytest.approx(4 / length, rel=0.3)


def test_blur_applies_the_streak_around_the_pixel_in_linear_light():
    frame = grey(0)
    frame[100, 150] = 255
    state = {"length": np.array([11.0]), "angle": np.array([0.3])}
    light = (MotionBlur().apply(frame, 0, state).astype(float) / 255) ** 2
    weight, x, y = full_kernel(11.0, 0.3)
    expected = np.zeros((HEIGHT, WIDTH))
    np.add.at(expected, (100 - y, 150 - x), weight)  # a correlation turns the point into the mirrored streak
    assert np.abs(np.sqrt(light[..., 0]) - np.sqrt(expected)).max() < 0.006


@pytest.mark.parametrize("size", [(20, 30), (3, 50), (31, 2)])
def test_blur_keeps_even_pictures_even_at_any_length_and_angle(size):
    rng = np.random.default_rng(0)
    for _ in range(60):
        state = {"length": rng.uniform(0, 40, 1), "angle": rng.uniform(-np.pi / 2, np.pi / 2, 1)}
        frame = np.full((*size, 3), rng.integers(0, 256), np.uint8)
        out = MotionBlur().apply(frame, 0, state).astype(int)
        # Sixteen bits of linear light hold the darkest four levels to one level.
        assert out.shape == frame.shape and np.abs(out - frame).max() <= (1 if frame.max() < 4 else 0), (
            state,
            frame[0, 0],
        )


def test_blur_leaves_an_even_picture_alone_and_smears_along_the_camera_sweep():
    operator = MotionBlur()
    state = operator.plan(50, 10, WIDTH, HEIGHT, 5, derive_rng(3))
    assert np.array_equal(operator.apply(grey(137), 20, state), grey(137))
    assert np.all(np.abs(np.rad2deg(state["angle"])) <= operator.tilt_deg)
    assert np.all(np.abs(state["length"] / (operator.length[4] * WIDTH) - 1) <= operator.drift)
    stripes = grey(0)
    stripes[:, ::2] = 255  # across the sweep: washed out to the mean light
    assert np.ptp(operator.apply(stripes, 20, state)[60:180, 60:260]) < 60


@pytest.mark.parametrize("shape", [(1, 1, 3), (37, 53, 3), (240, 320, 3)])
def test_noise_is_a_function_of_key_and_index(shape):
    key = np.array([5])
    noise = frame_noise(shape, key, 3)
    assert noise.shape == shape and noise.dtype == np.float32
    assert np.array_equal(noise, frame_noise(shape, key, 3))
    assert not np.array_equal(noise, frame_noise(shape, key, 4))
    assert not np.array_equal(noise, frame_noise(shape, np.array([6]), 3))


def test_noise_is_standard_normal():
    noise = frame_noise((400, 500, 3), np.array([11]), 0).astype(float)
    assert abs(noise.mean()) < 0.005 and noise.std() == pytest.approx(1, abs=0.005)
    assert (noise**4).mean() == pytest.approx(3, abs=0.15)
    inside = [(np.abs(noise) < bound).mean() for bound in (1, 2, 3)]
    assert inside == pytest.approx([0.6827, 0.9545, 0.9973], abs=0.004)


@pytest.mark.parametrize("severity", [1, 2, 3])
def test_noise_strength_is_as_set(severity):
    operator = GaussianNoise(shot=0.4)
    state = operator.plan(1, 10, WIDTH, HEIGHT, severity, derive_rng(0))
    sigma = operator.sigma[severity - 1]
    for level in (110, 128, 150):
        noisy = operator.apply(grey(level), 0, state).astype(float)
        assert noisy.mean() == pytest.approx(level, abs=0.4)
        assert noisy.std() == pytest.approx(sigma * np.sqrt(0.6 + 0.8 * level / 255), rel=0.02)


def test_low_light_cuts_light_by_the_stops_set():
    operator = LowLight(read=0.0, photons=0.0, cast=0.0, breath=0.0)
    for severity, stops in zip(SEVERITIES, operator.stops, strict=True):
        state = operator.plan(1, 10, WIDTH, HEIGHT, severity, derive_rng(0))
        out = operator.apply(grey(200), 0, state)
        step = int(state["step"][0])
        assert abs(out.mean() - 200 * 2 ** (-stops / 2.2)) <= step / 2 + 0.5
        assert np.all(out % step == 0)


def test_low_light_loses_more_to_noise_than_to_darkness():
    """Contrast over noise falls with every severity, so that lifting the picture does not bring it back."""
    ratios = []
    for severity in SEVERITIES:
        operator = LowLight()
        state = operator.plan(1, 10, WIDTH, HEIGHT, severity, derive_rng(severity))
        dark, bright = (operator.apply(grey(level), 0, state).astype(float)[..., 1] for level in (40, 230))
        ratios.append((bright.mean() - dark.mean()) / bright.std())
    assert np.all(np.diff(ratios) < 0) and ratios[0] > 8 and 0.5 < ratios[-1] < 2.5


def test_low_light_tints():
    casts = []
    for seed in range(20):
        gain = LowLight().plan(1, 10, WIDTH, HEIGHT, 5, derive_rng(seed))["gain"][0]
        casts.append(gain[2] / gain[0])
    assert min(casts) < 0.92 and max(casts) > 1.08 and min(casts) > 0.7 and max(casts) < 1.4


def test_glare_saturates_around_its_source_and_veils_the_rest():
    shares = []
    for severity in SEVERITIES:
        operator = Glare()
        state = operator.plan(1, 10, WIDTH, HEIGHT, severity, derive_rng(severity))
        out = operator.apply(grey(40), 0, state)
        x, y = state["source"][0]
        assert out[int(y), int(x)].min() == 255
        y_away, x_away = np.mgrid[0:HEIGHT, 0:WIDTH]
        core = np.hypot(x_away - x, y_away - y) < 0.8 * state["size"][0]
        assert out[core].min() >= 245
        veil = 255 * np.sqrt(operator.veil[severity - 1] * 0.9 + (40 / 255) ** 2)
        assert out.min() >= 0.95 * veil
        shares.append((out.min(axis=2) >= 250).mean())
    assert np.all(np.diff(shares) > 0) and shares[0] < 0.05 and 0.25 < shares[-1] < 0.8, shares


@pytest.mark.parametrize("size", [(320, 240), (240, 320), (640, 360)])
def test_occlusion_covers_the_area_set(size):
    width, height = size
    background = np.full((height, width, 3), 127, np.uint8)
    marked = np.zeros_like(background)
    for severity in SEVERITIES:
        operator = Occlusion(softness=0.001)
        state = operator.plan(40, 10, width, height, severity, derive_rng(severity))
        covered = []
        for index in range(0, 40, 4):
            # Opaque means: the same colour whatever lies behind.
            same = operator.apply(background, index, state) == operator.apply(marked, index, state)
            covered.append(same.all(axis=2).mean())
        assert np.mean(covered) == pytest.approx(operator.area[severity - 1], abs=0.03)


def test_occluders_are_soft_shaded_and_partly_stuck():
    state = Occlusion(stuck=0.5).plan(100, 10, WIDTH, HEIGHT, 5, derive_rng(0))
    still = np.ptp(state["centre"], axis=0).max(axis=1) == 0
    assert still.sum() == 4 and len(still) == 8
    steps = np.abs(np.diff(state["centre"][:, ~still], axis=0))
    assert 0 < steps.max() < 0.08 * WIDTH
    for k in range(8):
        alpha = state[f"alpha{k}"]
        assert alpha.max() == 1 and 0 == alpha[[0, -1]].max() == alpha[:, [0, -1]].max()
        assert ((alpha > 0.1) & (alpha < 0.9)).any()
        assert 1 < np.ptp(state[f"colour{k}"].astype(int), axis=(0, 1)).max() < 60


def test_a_drifting_occluder_does_not_jump_from_pixel_to_pixel():
    operator = Occlusion(stuck=0.0)
    state = operator.plan(30, 30, WIDTH, HEIGHT, 3, derive_rng(1))
    frames = [operator.apply(grey(127), index, state).astype(int) for index in range(30)]
    steps = [np.abs(b - a).mean() for a, b in pairwise(frames)]
    assert max(steps) < 1.6 * np.median(steps)


def test_wander_is_smooth_and_bounded():
    times = seconds(400, 10)
    paths = wander(derive_rng(0), times, period_s=5.0, count=30)
    assert paths.shape == (30, 400) and np.abs(paths).max() <= 1
    assert np.abs(np.diff(paths, axis=1)).max() <= 4 * np.pi / 50
    assert np.ptp(paths, axis=1).min() > 0.8
    assert np.array_equal(wander(derive_rng(0), times[:7], period_s=5.0, count=30), paths[:, :7])
