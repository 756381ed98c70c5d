"""What holds for every corruption: layouts, sizes, severities, settings."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.corruption import SEVERITIES, Corruption, apply_image, corrupt
from trustvid.corruption.gaussian_noise import GaussianNoise
from trustvid.corruption.glare import Glare
from trustvid.corruption.low_light import LowLight
from trustvid.corruption.motion_blur import MotionBlur
from trustvid.corruption.occlusion import Occlusion

IMAGES = Path(__file__).parents[1] / "data" / "images"
ALL = [MotionBlur(), GaussianNoise(), Glare(), Occlusion(), LowLight()]
each_corruption = pytest.mark.parametrize("corruption", ALL, ids=lambda corruption: corruption.name)


def picture(name: str) -> np.ndarray:
    """A test picture as it is on disk, colours in RGB(A) order."""
    pixels = cv2.imread(str(IMAGES / name), cv2.IMREAD_UNCHANGED)
    if pixels.ndim == 3:
        pixels = pixels[..., [2, 1, 0, 3][: pixels.shape[2]]]
    return np.ascontiguousarray(pixels)


def change(corruption: Corruption, image: np.ndarray, severity: int, seed: int = 0) -> float:
    """Mean absolute change, 8-bit levels."""
    return float(np.abs(apply_image(image, corruption, severity, seed).astype(int) - image).mean())


@each_corruption
@pytest.mark.parametrize("name", ["tiny_32x32.png", "odd_37x53.png", "one_pixel.png", "sharp.png"])
def test_any_size_keeps_shape_and_dtype(corruption, name):
    image = picture(name)
    before = image.copy()
    for severity in SEVERITIES:
        out = apply_image(image, corruption, severity)
        assert out.shape == image.shape and out.dtype == np.uint8
    assert np.array_equal(image, before)


@each_corruption
@pytest.mark.parametrize("shape", [(1, 40), (40, 1), (2, 3), (7, 500)])
def test_thin_pictures(corruption, shape):
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    assert apply_image(image, corruption, 5).shape == (*shape, 3)


@each_corruption
def test_grey_pictures_keep_their_layout(corruption):
    grey = picture("gray_1ch.png")
    flat = apply_image(grey, corruption, 3)
    assert flat.shape == grey.shape and not np.array_equal(flat, grey)
    assert np.array_equal(apply_image(grey[..., None], corruption, 3), flat[..., None])


@each_corruption
def test_alpha_is_untouched_and_never_mixed_with_colour(corruption):
    rgba = picture("rgba.png")
    out = apply_image(rgba, corruption, 3)
    assert np.array_equal(out[..., 3], rgba[..., 3])
    assert np.array_equal(out[..., :3], apply_image(rgba[..., :3], corruption, 3))


@each_corruption
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_pictures_keep_their_range(corruption, dtype):
    whole = picture("sharp.png")
    expected = apply_image(whole, corruption, 1)
    assert expected.max() > 2
    wide = apply_image(whole.astype(dtype), corruption, 1, value_range=255)
    assert wide.dtype == dtype and np.array_equal(wide, expected.astype(dtype))
    narrow = apply_image((whole / 255).astype(dtype), corruption, 1, value_range=1)
    assert narrow.dtype == dtype and narrow.max() <= 1
    assert np.array_equal(np.rint(narrow * 255), expected)


@pytest.mark.parametrize(
    ("image", "value_range"),
    [
        (np.zeros((4, 4, 3), np.float32), None),  # a float picture does not tell its range
        (np.zeros((4, 4, 3), np.float32), 100),
        (np.full((4, 4, 3), 200, np.float32), 1),  # told 1, holds 200
        (np.full((4, 4, 3), np.nan, np.float32), 1),
        (np.full((4, 4, 3), -0.1, np.float64), 1),
        (np.zeros((4, 4, 3), np.uint8), 1),
        (np.zeros((4, 4, 3), np.uint16), None),
        (np.zeros((4, 4, 3), bool), None),
        (np.zeros((4, 4, 2), np.uint8), None),
        (np.zeros((2, 4, 4, 3), np.uint8), None),
        (np.zeros((0, 4, 3), np.uint8), None),
        (np.zeros(12, np.uint8), None),
    ],
)
def test_other_pictures_are_refused_with_what_is_accepted(image, value_range):
    with pytest.raises(ValueError, match=r"accepted are uint8, or float32/float64 .*\[H, W, 3\]"):
        apply_image(image, LowLight(), 1, value_range=value_range)


@each_corruption
def test_severity_0_is_bit_equal(corruption):
    image = picture("sharp.png")
    assert np.array_equal(apply_image(image, corruption, 0), image)
    odd = np.random.default_rng(0).random((5, 6, 3))  # not a multiple of 1/255: must not pass through 8 bits
    assert np.array_equal(apply_image(odd, corruption, 0, value_range=1), odd)
    clip = corrupt(ArraySource(image[None].repeat(4, axis=0)), corruption, 0, coverage=1.0)
    assert not clip.touched.any()
    assert np.array_equal(clip.frames([3, 0]), clip.source.frames([3, 0]))


@each_corruption
@pytest.mark.parametrize("severity", [6, -1, 2.5, 3.0, "3", True, None])
def test_other_severities_are_refused(corruption, severity):
    image = picture("tiny_32x32.png")
    with pytest.raises(ValueError, match="1–5"):
        apply_image(image, corruption, severity)
    with pytest.raises(ValueError, match="1–5"):
        corrupt(ArraySource(image[None]), corruption, severity)


@each_corruption
def test_harm_rises_strictly_with_severity(corruption):
    image = picture("sharp.png")
    for seed in range(8):
        changes = [change(corruption, image, severity, seed) for severity in SEVERITIES]
        assert changes[0] > 0 and np.all(np.diff(changes) > 0), (seed, changes)


@each_corruption
def test_harm_rises_strictly_on_real_footage(corruption, real_clips):
    reader = cv2.VideoCapture(str(real_clips["bikes"]))
    frames = np.array([cv2.cvtColor(reader.read()[1], cv2.COLOR_BGR2RGB) for _ in range(24)])
    frames = np.array([cv2.resize(frame, (320, 240), interpolation=cv2.INTER_AREA) for frame in frames])
    some = range(0, 24, 4)
    clean = frames[some].astype(int)
    changes = np.zeros(len(SEVERITIES))
    for seed in range(4):
        views = (corrupt(ArraySource(frames), corruption, severity, 1.0, seed) for severity in SEVERITIES)
        changes += [np.abs(view.frames(some) - clean).mean() for view in views]
    assert np.all(np.diff(changes) > 0), changes


@each_corruption
def test_the_seed_decides_the_picture(corruption):
    image = picture("sharp.png")
    first = apply_image(image, corruption, 3, seed=7)
    assert np.array_equal(first, apply_image(image, corruption, 3, seed=np.int64(7)))
    assert not np.array_equal(first, apply_image(image, corruption, 3, seed=8))
    with pytest.raises(ValueError, match="seed must be a whole number"):
        apply_image(image, corruption, 3, seed=0.5)


@pytest.mark.parametrize(
    ("build", "setting"),
    [
        (lambda: GaussianNoise(sigma=[1, 2, 3, 4]), "gaussian_noise.sigma"),
        (lambda: GaussianNoise(sigma=[1, 2, 3, 3, 4]), "gaussian_noise.sigma"),
        (lambda: GaussianNoise(sigma=[0, 2, 3, 4, 5]), "gaussian_noise.sigma"),
        (lambda: GaussianNoise(sigma=[1, 2, 3, 4, float("nan")]), "gaussian_noise.sigma"),
        (lambda: GaussianNoise(shot=1.5), "gaussian_noise.shot"),
        (lambda: MotionBlur(length=[0.1, 0.2, 0.3, 0.4, 1.5]), "motion_blur.length"),
        (lambda: MotionBlur(tilt_deg=100), "motion_blur.tilt_deg"),
        (lambda: Occlusion(area=[0.1, 0.2, 0.3, 0.4, 1.0]), "occlusion.area"),
        (lambda: Occlusion(stuck=-0.1), "occlusion.stuck"),
        (lambda: Glare(veil=[5, 4, 3, 2, 1]), "glare.veil"),
        (lambda: LowLight(cast=True), "low_light.cast"),
    ],
)
def test_wrong_settings_name_themselves(build, setting):
    with pytest.raises(ValueError, match=setting):
        build()
