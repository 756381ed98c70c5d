"""The truth of BoxWorld clips: it agrees with the pixels and with the files."""

from __future__ import annotations

import numpy as np
import pytest

from trustvid.benchmarks.boxworld.files import ensure_boxworld
from trustvid.benchmarks.boxworld.generate import make_clip
from trustvid.benchmarks.boxworld.render import Painter
from trustvid.benchmarks.boxworld.truth import clip_truth, truth_of_video
from trustvid.benchmarks.boxworld.world import COLOURS, HEIGHT, WIDTH
from trustvid.errors import DataError


@pytest.mark.parametrize("number", [0, 1])
def test_landmarks_lie_where_their_colour_is(number: int):
    truth = clip_truth("dev", 0, number)
    painter = list(Painter(truth.scene).frames())
    checked = 0
    for frame in range(0, truth.scene.n_frames, 9):
        for seen in truth.seen(frame):
            assert (
                seen.word in truth.words and 0 <= seen.box[0] < seen.box[2] <= 1 and 0 <= seen.box[1] < seen.box[3] <= 1
            )
            if seen.plate is not None:
                assert seen.box[0] <= seen.plate[0] < seen.plate[2] <= seen.box[2]
                assert 0 < seen.plate_pixels < seen.pixels
            if seen.pixels < 600:
                continue
            x0, y0, x1, y1 = np.round(np.array(seen.box) * (WIDTH, HEIGHT, WIDTH, HEIGHT)).astype(int)
            patch = painter[frame][y0:y1, x0:x1].reshape(-1, 3).astype(float)
            vivid = patch[np.ptp(patch, axis=1) > 60]
            hue = np.array(COLOURS[seen.colour], float)
            angle = vivid - vivid.mean(axis=1, keepdims=True)
            cosine = angle @ (hue - hue.mean()) / np.linalg.norm(angle, axis=1) / np.linalg.norm(hue - hue.mean())
            assert np.median(cosine) > 0.9, (frame, seen)
            checked += 1
    assert checked >= 5


def test_motion_follows_the_flight():
    truth = clip_truth("dev", 0, 0)
    assert {step.action for step in truth.scene.steps} > {"forward"}
    for step in truth.scene.steps:
        motion = truth.motion(step.first, step.last)
        if step.action == "forward":
            assert motion.yaw_deg == 0 and motion.metres == pytest.approx(0.5 * (step.last - step.first))
        else:
            assert motion.yaw_deg == pytest.approx(90 if step.action == "right" else -90) and motion.metres == 0


def test_a_room_only_turns():
    truth = clip_truth("dev", 0, 1)
    steps = [truth.motion(i, i + 1) for i in range(truth.scene.n_frames - 1)]
    assert {step.metres for step in steps} == {0.0}
    assert len({np.sign(step.yaw_deg) for step in steps}) >= 2
    assert sum(step.yaw_deg for step in steps) == pytest.approx(truth.motion(0, truth.scene.n_frames - 1).yaw_deg)


def test_found_by_the_name_of_the_video_file(tmp_path):
    folder = ensure_boxworld(tmp_path, "val", 2, 1, workers=0, progress=False)
    names = sorted(path.stem for path in folder.rglob("*.mp4"))
    assert len(names) == 2
    for name in names:
        truth = truth_of_video("val", name)
        assert truth.name == name
        number = int(name.split("_")[1])
        assert truth.words == tuple(box.word for box in make_clip("val", 1, number).scene.landmarks)


@pytest.mark.parametrize("name", ["clip", "room_1", "room_0_1", "BoxCity_0_2", "BoxCity_x_1", "room_1_1_1"])
def test_names_of_other_videos_are_refused(name: str):
    with pytest.raises(DataError, match="is no clip of BoxWorld split dev"):
        truth_of_video("dev", name)


def test_what_is_no_clip():
    with pytest.raises(DataError, match="no split"):
        clip_truth("final", 0, 0)
    with pytest.raises(DataError, match="negative"):
        clip_truth("dev", 0, -1)
