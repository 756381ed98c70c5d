"""The corruptions that no fit has seen, and what they add to the contract: other frames, and groups of frames."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from tests.unit.test_corruption import change, picture
from tests.unit.test_corruption import each_corruption as each_seen
from tests.unit.test_corruption_clip import digest, scene
from trustvid.corruption import SEVERITIES, apply_image, corrupt
from trustvid.corruption.camera_shake import CameraShake
from trustvid.corruption.defocus import Defocus, disk
from trustvid.corruption.fog import Fog
from trustvid.corruption.frame_drop import FrameDrop
from trustvid.corruption.freeze import Freeze
from trustvid.corruption.gaussian_noise import GaussianNoise
from trustvid.corruption.glare import Glare
from trustvid.corruption.h264 import H264
from trustvid.corruption.low_light import LowLight
from trustvid.corruption.rain import Rain
from trustvid.seeding import derive_rng, derive_seed

FRAMEWISE = [Defocus(), H264(), Rain(), Fog(), CameraShake()]
HELD = [FrameDrop(), Freeze()]
ALL = [*FRAMEWISE, *HELD]


def each(operators):
    return pytest.mark.parametrize("corruption", operators, ids=lambda corruption: corruption.name)


def moving(n: int = 40, fps: float = 10, video_id: str = "fake") -> ArraySource:
    """Real pixels in motion: a window that slides over a sharp picture, another place in every frame."""
    wide = np.tile(picture("sharp.png"), (1, 3, 1))
    frames = np.stack([wide[:96, 2 * index : 2 * index + 128] for index in range(n)])
    return ArraySource(frames, fps=fps, video_id=video_id)


# -- what holds for every corruption --------------------------------------------------------------------------------


@each(ALL)
@pytest.mark.parametrize("name", ["tiny_32x32.png", "odd_37x53.png", "one_pixel.png", "sharp.png"])
def test_any_size_keeps_shape_and_dtype(corruption, name):
    image = picture(name)
    before = image.copy()
    for severity in SEVERITIES:
        out = apply_image(image, corruption, severity)
        assert out.shape == image.shape and out.dtype == np.uint8
    assert np.array_equal(image, before)


@each(ALL)
@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (37, 53), (7, 500)])
def test_clips_of_any_size(corruption, size):
    frames = np.random.default_rng(0).integers(0, 256, (5, *size, 3), dtype=np.uint8)
    assert corrupt(ArraySource(frames), corruption, 5, 1.0).frames(range(5)).shape == frames.shape


@each(FRAMEWISE)
def test_grey_alpha_and_float_pictures_keep_their_layout(corruption):
    grey, rgba = picture("gray_1ch.png"), picture("rgba.png")
    flat = apply_image(grey, corruption, 3)
    assert flat.shape == grey.shape and not np.array_equal(flat, grey)
    assert np.array_equal(apply_image(grey[..., None], corruption, 3), flat[..., None])
    out = apply_image(rgba, corruption, 3)
    assert np.array_equal(out[..., 3], rgba[..., 3])
    assert np.array_equal(out[..., :3], apply_image(rgba[..., :3], corruption, 3))
    whole = picture("sharp.png")
    narrow = apply_image((whole / 255).astype(np.float32), corruption, 2, value_range=1)
    assert narrow.dtype == np.float32 and narrow.min() >= 0 and narrow.max() <= 1
    assert np.array_equal(np.rint(narrow * 255), apply_image(whole, corruption, 2))


@each(HELD)
def test_single_pictures_stay_as_they_are_where_earlier_frames_are_shown(corruption):
    for name in ("gray_1ch.png", "rgba.png", "sharp.png"):
        assert np.array_equal(apply_image(picture(name), corruption, 5), picture(name))


@each(ALL)
def test_severity_edges(corruption):
    image = picture("sharp.png")
    assert np.array_equal(apply_image(image, corruption, 0), image)
    clip = corrupt(moving(), corruption, 0, 1.0)
    assert np.array_equal(clip.frames([7, 0]), clip.source.frames([7, 0])) and clip.frame_key(7) == "clean"
    for severity in (6, -1, 2.5, True, "3"):
        with pytest.raises(ValueError, match="1–5"):
            apply_image(image, corruption, severity)
        with pytest.raises(ValueError, match="1–5"):
            corrupt(moving(), corruption, severity)


@each(FRAMEWISE)
def test_harm_rises_strictly_with_severity(corruption):
    for seed in range(8):
        changes = [change(corruption, picture("sharp.png"), severity, seed) for severity in SEVERITIES]
        assert changes[0] > 0.5 and np.all(np.diff(changes) > 0.02 * changes[0]), (seed, changes)


@each(ALL)
def test_harm_rises_strictly_on_a_moving_clip(corruption):
    source = moving(100)
    some = range(100) if corruption.reorders else range(0, 100, 9)
    clean = source.frames(some).astype(int)
    changes = np.zeros(5)
    for seed in range(3):
        views = [corrupt(source, corruption, severity, 1.0, seed) for severity in SEVERITIES]
        changes += [np.abs(view.frames(some) - clean).mean() / 3 for view in views]
    assert changes[0] > 0.2 and np.all(np.diff(changes) > 0.05 * changes[:-1]), changes


@each(ALL)
def test_any_frame_alone_in_any_order(corruption):
    whole = corrupt(moving(), corruption, 4, 1.0).frames(range(40))
    fresh = corrupt(moving(), corruption, 4, 1.0)
    order = [37, 3, 3, 23, 0, 16]
    assert np.array_equal(fresh.frames(order), whole[order])
    assert np.array_equal(corrupt(moving(), corruption, 4, 1.0).frames(np.array([29])), whole[[29]])


@each(ALL)
def test_the_look_of_a_frame_does_not_depend_on_coverage(corruption):
    half, whole = corrupt(moving(), corruption, 3, 0.5), corrupt(moving(), corruption, 3, 1.0)
    on, off = np.flatnonzero(half.touched), np.flatnonzero(~half.touched)
    assert len(on) == 20
    assert np.array_equal(half.frames(on), whole.frames(on))
    assert [half.frame_key(i) for i in on] == [whole.frame_key(i) for i in on]
    assert np.array_equal(half.frames(off), half.source.frames(off))
    mixed = half.frames(range(40))
    assert np.array_equal(mixed[on], whole.frames(on)) and np.array_equal(mixed[off], half.source.frames(off))


@each(ALL)
def test_frames_outside_are_refused(corruption):
    clip = corrupt(moving(), corruption, 3, 1.0)
    for outside in (-1, 40):
        for call in (lambda i: clip.frames([2, i]), clip.frame_key, clip.source_index):
            with pytest.raises(IndexError, match="outside 0…39"):
                call(outside)


def test_another_process_gives_the_same_bytes():
    program = """
from tests.unit.test_corruption_unseen import ALL, digest, moving
from trustvid.corruption import corrupt
for operator in ALL:
    print(digest(corrupt(moving(), operator, 3, 1.0).frames([11, 4, 30])))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env={"PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [digest(corrupt(moving(), op, 3, 1.0).frames([11, 4, 30])) for op in ALL]


@each([Defocus(), Fog()])
def test_the_harm_moves_smoothly(corruption):
    """On a still scene the picture changes from frame to frame, but by a small part of the harm, and without jumps."""
    frames = corrupt(scene(60), corruption, 4, 1.0).frames(range(60)).astype(int)
    step = np.abs(np.diff(frames, axis=0)).mean(axis=(1, 2, 3))
    harm = np.abs(frames - scene(60).frames(range(60))).mean()
    assert step.mean() > 0 and step.max() < 0.25 * harm, (step.mean(), step.max(), harm)
    assert np.abs(np.diff(step)).max() < 0.1 * harm


@each([op for op in ALL if op.name != "h264"])
def test_a_longer_clip_begins_like_a_shorter_one(corruption):
    short = corrupt(moving(20), corruption, 3, 1.0).frames(range(20))
    assert np.array_equal(short, corrupt(moving(60), corruption, 3, 1.0).frames(range(20)))


@pytest.mark.parametrize(
    ("build", "setting"),
    [
        (lambda: Defocus(radius=[0.1, 0.2, 0.3, 0.4, 0.5]), "defocus.radius"),
        (lambda: Defocus(drift=0.5), "defocus.drift"),
        (lambda: H264(crf=[40, 41, 42, 43, 52]), "h264.crf"),
        (lambda: H264(group=0), "h264.group"),
        (lambda: H264(group=2.0), "h264.group"),
        (lambda: H264(group=True), "h264.group"),
        (lambda: FrameDrop(loss=[0.1, 0.2, 0.3, 0.4, 1.0]), "frame_drop.loss"),
        (lambda: Freeze(still_s=[1, 1, 2, 3, 4]), "freeze.still_s"),
        (lambda: Freeze(still_share=[0.2, 0.4, 0.6, 0.8, 1.0]), "freeze.still_share"),
        (lambda: Rain(streaks=[1, 2, 3]), "rain.streaks"),
        (lambda: Rain(tilt_deg=80), "rain.tilt_deg"),
        (lambda: Fog(veil=[0.2, 0.4, 0.6, 0.8, 1.0]), "fog.veil"),
        (lambda: Fog(patchy=float("nan")), "fog.patchy"),
        (lambda: CameraShake(offset=[0.1, 0.2, 0.3, 0.4, 0.6]), "camera_shake.offset"),
        (lambda: CameraShake(period_s=0), "camera_shake.period_s"),
    ],
)
def test_wrong_settings_name_themselves(build, setting):
    with pytest.raises(ValueError, match=setting):
        build()


# -- one by one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.0, 0.3, 1.28, 4.0, 8.6])
def test_a_disk_is_even_round_and_grows_smoothly(radius):
    kernel = disk(radius)
    y, x = np.mgrid[: len(kernel), : len(kernel)] - len(kernel) // 2
    assert kernel.sum() == pytest.approx(1, abs=1e-5)
    assert np.array_equal(kernel, kernel.T) and np.array_equal(kernel, kernel[::-1])
    assert (kernel * (x**2 + y**2)).sum() == pytest.approx(radius**2 / 2, abs=0.3)  # r²/2 of an ideal disk
    larger = disk(radius + 0.01)
    grown = np.pad(kernel, (len(larger) - len(kernel)) // 2)
    assert np.abs(larger - grown).sum() < 0.1


def test_defocus_keeps_even_pictures_even_and_spreads_light():
    operator = Defocus()
    for severity in SEVERITIES:
        state = operator.plan(1, 10, 320, 240, severity, derive_rng(0))
        for level in (0, 1, 137, 255):
            even = np.full((240, 320, 3), level, np.uint8)
            assert np.array_equal(operator.apply(even, 0, state), even)
    lamp = np.zeros((101, 101, 3), np.uint8)
    lamp[50, 50] = 255
    radius = 6.0
    light = (operator.apply(lamp, 0, {"radius": np.array([radius])})[..., 0] / 255.0) ** 2
    away = np.hypot(*(np.mgrid[:101, :101] - 50))
    assert light[away < radius - 1] == pytest.approx(1 / (np.pi * radius**2), rel=0.1)
    assert light[away > radius + 1].max() == 0


def test_h264_really_predicts_frames_from_each_other():
    """The first frame of a group is what it is alone; later ones differ from key frames and lean on those before."""
    source = moving()
    frames = source.frames(range(40))
    intra = np.stack([apply_image(frame, H264(), 4) for frame in frames])
    view = corrupt(source, H264(), 4, 1.0).frames(range(40))
    assert np.array_equal(view[[0, 16, 32]], intra[[0, 16, 32]])
    inter = [index for index in range(40) if index % 16]
    assert all(not np.array_equal(view[index], intra[index]) for index in inter)
    assert np.array_equal(corrupt(source, H264(group=1), 4, 1.0).frames(range(40)), intra)
    other = frames.copy()
    other[3] = 255 - other[3]
    changed = corrupt(ArraySource(other), H264(), 4, 1.0).frames(range(40))
    assert np.array_equal(changed[:3], view[:3]) and np.array_equal(changed[16:], view[16:])
    assert all(not np.array_equal(changed[index], view[index]) for index in range(4, 8))


def test_h264_leaves_a_still_scene_still_within_a_group():
    frames = corrupt(scene(32), H264(), 4, 1.0).frames(range(32)).astype(int)
    steps = np.abs(np.diff(frames, axis=0)).mean(axis=(1, 2, 3))
    harm = np.abs(frames - scene(32).frames(range(32))).mean()
    assert harm > 0.5 and steps.max() < harm


def test_groups_are_made_once_and_few_are_kept(monkeypatch):
    monkeypatch.setattr("trustvid.corruption.clip._HELD_BYTES", 2 * 16 * 96 * 128 * 3)  # room for two groups
    made = []

    class Counted(H264):
        def apply_group(self, frames, first, state):
            made.append((first, len(frames)))
            return super().apply_group(frames, first, state)

    clip = corrupt(moving(), Counted(), 2, 1.0)
    clip.frames([20, 1, 20, 5, 17])
    assert made == [(0, 16), (16, 16)]
    clip.frames([0, 31])
    assert len(made) == 2, "both are still at hand"
    clip.frames([39])
    assert made[2:] == [(32, 8)]
    clip.frames([31])
    clip.frames([0])
    assert made[3:] == [(0, 16)], "the one not used for longest had to go"


def test_frame_drop_shows_the_last_that_arrived():
    state = FrameDrop().plan(4000, 10, 64, 48, 3, derive_rng(0))
    shown = state["shown"]
    arrived = shown == np.arange(4000)
    assert shown[0] == 0 and 1 - arrived.mean() == pytest.approx(FrameDrop().loss[2], abs=0.03)
    assert np.array_equal(shown, np.maximum.accumulate(np.where(arrived, np.arange(4000), 0)))
    assert (np.arange(4000) - shown).mean() == pytest.approx(1.0, abs=0.1)  # p / (1 − p)


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("fps", [8, 30])
def test_freezes_last_as_long_as_set(severity, fps):
    operator = Freeze()
    shown = operator.plan(300 * fps, fps, 64, 48, severity, derive_rng(severity))["shown"]
    lengths = np.bincount(shown)
    lengths = lengths[lengths > 1] / fps
    mean = operator.still_s[severity - 1]
    assert lengths.max() <= 1.3 * mean + 1 / fps and lengths.mean() == pytest.approx(mean, rel=0.15, abs=0.5 / fps)
    still = np.mean(np.diff(shown) == 0)
    assert still == pytest.approx(operator.still_share[severity - 1], abs=0.07 + 1 / (fps * mean) / 2)
    assert shown[0] == 0 and np.all(np.diff(shown) >= 0) and np.all(shown <= np.arange(len(shown)))


@each(HELD)
def test_held_frames_are_the_sources_earlier_ones(corruption):
    clip = corrupt(moving(), corruption, 4, 1.0)
    shown = [clip.source_index(index) for index in range(40)]
    assert shown != list(range(40))
    assert np.array_equal(clip.frames(range(40)), clip.source.frames(shown))
    half = corrupt(moving(), corruption, 4, 0.5)
    assert [half.source_index(i) for i in range(40)] == [shown[i] if half.touched[i] else i for i in range(40)]


def test_rain_falls_coherently():
    """Seen on black from one frame to the next, each streak of the far layer is where its speed carries it."""
    from trustvid.corruption.rain import _ROOM, draw_layer

    operator = Rain(tilt_deg=0.0)
    state = operator.plan(60, 60.0, 320, 240, 2, derive_rng(0))
    pace = 1.5 / _ROOM  # heights a second, the same for all drops, so that a layer moves as a whole
    state["drop1"][:, 2] = pace
    first, second = (draw_layer(1, 320, 240, index, state, 1.0).astype(float) for index in (10, 14))
    fallen = round(4 / 60 * 1.5 * 240)
    same = np.corrcoef(first[:-fallen].ravel(), second[fallen:].ravel())[0, 1]
    still = np.corrcoef(first.ravel(), second.ravel())[0, 1]
    assert same > 0.9 > 0.3 > still, (same, still)


def test_rain_brightens_streaks_and_takes_contrast():
    dark, bright = (np.full((240, 320, 3), level, np.uint8) for level in (20, 240))
    state = Rain().plan(5, 10, 320, 240, 3, derive_rng(0))
    on_dark, on_bright = Rain().apply(dark, 2, state), Rain().apply(bright, 2, state)
    veil = Rain().veil[2]
    assert on_dark.min() == round(20 * (1 - veil) + 150 * veil) and on_dark.max() > on_dark.min() + 40
    assert on_bright.mean() - on_dark.mean() < (1 - veil) * 220
    assert 0.02 < (on_dark[..., 0] > on_dark.min() + 10).mean() < 0.5


def test_fog_is_thick_at_the_horizon_and_thin_at_the_lower_edge():
    for severity in SEVERITIES:
        operator = Fog(patchy=0.0)
        state = operator.plan(3, 10, 320, 240, severity, derive_rng(severity))
        black, white = (operator.apply(np.full((240, 320, 3), v, np.uint8), 1, state).astype(int) for v in (0, 255))
        left = (white - black).mean(axis=(1, 2)) / 255
        assert left[60] == pytest.approx(1 - operator.veil[severity - 1], abs=0.05)
        assert np.all(np.diff(left[100:]) >= -0.005) and left[-1] > left[60] + 0.1
    even = Fog().plan(3, 10, 320, 240, 3, derive_rng(0))
    patchy = Fog().apply(np.zeros((240, 320, 3), np.uint8), 0, even)[40, :, 0].astype(int)
    assert np.ptp(patchy) > 8, "banks differ across a row"


def test_camera_shake_moves_smoothly_within_its_bounds_and_does_not_blur():
    operator = CameraShake()
    for severity in SEVERITIES:
        state = operator.plan(300, 30, 320, 240, severity, derive_rng(severity))
        length = np.hypot(*state["move"].T)
        most = operator.offset[severity - 1] * 320
        assert 0.6 * most < length.min() and length.max() <= most
        assert np.hypot(*np.diff(state["move"], axis=0).T).max() < most
        assert np.abs(np.rad2deg(state["turn"])).max() <= operator.turn_deg
        assert np.abs(state["move"].mean(axis=0)).max() < 0.5 * most
    image = picture("sharp.png")
    whole = {"move": np.array([[7.0, -4.0]]), "turn": np.array([0.0])}
    moved = operator.apply(image, 0, whole)
    assert np.array_equal(moved[:-4, 7:], image[4:, :-7])
    assert np.array_equal(moved[:-4, :7], image[4:, 6::-1]), "the rim is mirrored"
    edges = [np.abs(np.diff(frame.astype(int), axis=1)).max() for frame in (image, apply_image(image, operator, 5))]
    assert edges[1] > 0.8 * edges[0]


# -- keys -----------------------------------------------------------------------------------------------------------


@each_seen
def test_keys_of_frame_by_frame_kinds_plan_nothing(corruption):
    clip = corrupt(scene(), corruption, 3, 1.0)
    assert clip.frame_key(3).startswith(f"clean > {corruption.name}/1 severity=3 seed=0")
    assert "_state" not in vars(clip)


def test_a_held_frames_key_is_that_of_the_frame_shown():
    under = corrupt(moving(), LowLight(), 2, 0.5)
    clip = corrupt(under, Freeze(), 5, 1.0)
    moved = [i for i in range(40) if under.touched[i] != under.touched[clip.source_index(i)]]
    assert moved, "the freeze must reach over an edge of what lies under it for this test"
    for index in moved:
        shown = clip.source_index(index)
        assert clip.frame_key(index).startswith(f"{under.frame_key(shown)} > freeze/1")
        assert np.array_equal(clip.frames([index]), under.frames([shown]))


def test_a_groups_key_holds_what_was_done_to_all_its_frames():
    plain = corrupt(moving(), H264(), 3, 1.0)
    assert plain.frame_key(5).startswith("clean > h264/1 severity=3")
    keys, looks = set(), set()
    for coverage in (0.2, 0.5):
        under = corrupt(moving(), Glare(), 3, coverage)
        first = next(16 * g for g in range(2) if 0 < under.touched[16 * g : 16 * g + 16].sum() < 16)
        clip = corrupt(under, H264(), 3, 1.0)
        counts = clip.frame_key(first)
        assert counts.startswith("[") and " × clean" in counts and "glare/1" in counts
        assert all(clip.frame_key(first + k) == counts for k in range(16))
        keys.add(clip.frame_key(first))
        looks.add(digest(clip.frames(range(first, first + 16))))
    assert len(keys) == len(looks) == 2


# -- training -------------------------------------------------------------------------------------------------------


class _Draws:
    """Samples of one clip. A draw's seed derives from the run's seed, the sample and the epoch."""

    def __init__(self, seed: int):
        self.seed = seed

    def __getitem__(self, draw: tuple[int, int]) -> str:
        epoch, sample = draw
        source = ArraySource(np.full((7, 24, 32, 3), 128, np.uint8), video_id="v06_seven_frames")
        seed = derive_seed(self.seed, f"sample-{sample}", epoch)
        return digest(corrupt(source, GaussianNoise(), 3, 1.0, seed).frames([3]))


class _Epochs:
    """Names eight samples together with the epoch, which the workers do not know otherwise."""

    epoch = 0

    def __len__(self) -> int:
        return 8

    def __iter__(self):
        return ((self.epoch, sample) for sample in range(8))


@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")
def test_every_worker_and_epoch_draws_noise_of_its_own():
    """Workers that share a generator's state repeat each other; epochs that reseed repeat themselves. Neither here."""
    from torch.utils.data import DataLoader

    def run(seed: int) -> list[str]:
        epochs, fields = _Epochs(), []
        loader = DataLoader(_Draws(seed), batch_size=2, sampler=epochs, num_workers=4, persistent_workers=True)
        for epoch in range(2):
            epochs.epoch = epoch
            fields += [field for batch in loader for field in batch]
        return fields

    first = run(seed=0)
    assert len(first) == len(set(first)) == 16
    assert run(seed=0) == first
    assert not {_Draws(1)[epoch, sample] for epoch in range(2) for sample in range(8)} & set(first)
