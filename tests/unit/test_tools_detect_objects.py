"""detect_objects: colours, boxes, shapes, real footage.   pytest tests/unit/test_tools_detect_objects.py -q"""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from trustvid.benchmarks.boxworld.preview import render_clip
from trustvid.benchmarks.boxworld.world import COLOURS
from trustvid.errors import ConfigError
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.vision.colour import overlap_share
from trustvid.tools.vision.denoise import noise_level

QUERY = SubQuery("what is where?", "spatial")


def batch(*frames: np.ndarray) -> FrameBatch:
    return FrameBatch(np.stack(frames), tuple(range(len(frames))), tuple(i / 10 for i in range(len(frames))))


def street(seed: int = 0, size=(240, 320)) -> np.ndarray:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(90, 130, (size[0] // 8 + 1, size[1] // 8 + 1), dtype=np.uint8)
    grey = cv2.resize(coarse, size[::-1], interpolation=cv2.INTER_LINEAR)
    return np.repeat(grey[..., None], 3, axis=2)


def things(frame: np.ndarray, **settings) -> list[Observation]:
    return DetectObjects(signs=False, **settings).observe(batch(frame), QUERY, ())[0]


def pixels(seen: Observation, size=(240, 320)) -> list[float]:
    height, width = size
    return [seen.box[0] * width, seen.box[1] * height, seen.box[2] * width, seen.box[3] * height]


@pytest.mark.parametrize("name", sorted(COLOURS))
@pytest.mark.parametrize("light", [0.45, 1.0])
def test_eight_colours_have_their_names_in_light_and_shade(name, light):
    frame = street()
    frame[100:150, 120:180] = np.array(COLOURS[name]) * light
    seen = things(frame)
    assert [one.label for one in seen] == [f"{name} box"]
    assert pixels(seen[0]) == pytest.approx([120, 100, 180, 150], abs=1)
    assert seen[0].score > 0.8


def test_a_sign_and_windows_do_not_split_a_box():
    frame = street()
    frame[60:160, 100:180] = COLOURS["blue"]
    frame[66:105, 100:180] = 244  # a plate from side to side
    cv2.putText(frame, "BANK", (108, 94), cv2.FONT_HERSHEY_SIMPLEX, 0.8, (10, 10, 10), 2)
    for y in (112, 136):
        for x in range(106, 176, 18):
            frame[y : y + 14, x : x + 10] = (20, 22, 30)
    seen = things(frame)
    assert [one.label for one in seen] == ["blue box"]
    assert pixels(seen[0]) == pytest.approx([100, 60, 180, 160], abs=1)


def test_touching_boxes_of_other_hue_stay_apart():
    frame = street()
    frame[100:160, 80:140] = COLOURS["orange"]
    frame[90:170, 140:190] = COLOURS["red"]
    boxes = {one.label: pixels(one) for one in things(frame)}
    assert boxes["orange box"] == pytest.approx([80, 100, 140, 160], abs=1.5)
    assert boxes["red box"] == pytest.approx([140, 90, 190, 170], abs=1.5)


def test_what_stands_in_front_does_not_split_a_box_but_distance_does():
    frame = street()
    frame[100:160, 60:130] = COLOURS["green"]
    frame[95:170, 92:100] = 60  # a post
    assert len(things(frame)) == 1
    frame[100:160, 230:280] = COLOURS["green"]
    assert sorted(pixels(one)[0] for one in things(frame)) == pytest.approx([60, 230], abs=1)


def test_a_ball_is_told_from_a_box():
    frame = street()
    cv2.ellipse(frame, (100, 120), (30, 22), 0, 0, 360, COLOURS["yellow"], -1)
    cv2.rectangle(frame, (200, 100), (250, 150), COLOURS["pink"], -1)
    assert sorted(one.label for one in things(frame)) == ["pink box", "yellow ball"]


def test_border_cuts_are_flagged_by_side():
    frame = street()
    frame[100:150, :40] = COLOURS["red"]
    frame[200:, 150:200] = COLOURS["cyan"]
    frame[100:130, 200:240] = COLOURS["purple"]
    flags = {one.label: one.values for one in things(frame)}
    assert flags["red box"] == {"clipped": 1.0, "clipped_left": 1.0}
    assert flags["cyan box"] == {"clipped": 1.0, "clipped_bottom": 1.0}
    assert flags["purple box"] == {}


def test_vivid_large_things_score_higher_than_pale_small_ones():
    frame = street()
    frame[60:140, 40:140] = COLOURS["red"]
    frame[100:108, 200:210] = (150, 120, 88)
    scores = {one.label.split()[0]: one.score for one in things(frame, min_score=0.0)}
    assert scores["red"] > 0.9
    assert scores["orange"] < 0.5


def test_noise_and_darkness_leave_the_box_where_it_is():
    frame = street()
    frame[90:160, 110:190] = COLOURS["cyan"]
    noisy = np.clip(frame + np.random.default_rng(0).normal(0, 25, frame.shape), 0, 255).astype(np.uint8)
    dark = (frame * 0.18).astype(np.uint8)
    assert noise_level(cv2.cvtColor(noisy, cv2.COLOR_RGB2GRAY)) > 10
    for damaged in (noisy, dark):
        best = things(damaged)[0]
        assert best.label == "cyan box"
        assert pixels(best) == pytest.approx([110, 90, 190, 160], abs=3)


def test_signs_are_reported_beside_things():
    frame = street()
    frame[70:110, 100:200] = 242
    cv2.putText(frame, "HOTEL", (106, 99), cv2.FONT_HERSHEY_SIMPLEX, 0.9, (10, 10, 10), 2)
    seen = DetectObjects().observe(batch(frame), QUERY, ())[0]
    assert [one.label for one in seen] == ["sign"]
    assert pixels(seen[0]) == pytest.approx([100, 70, 200, 110], abs=2)


@pytest.mark.parametrize("size", [(1, 1), (2, 300), (300, 2), (7, 7), (37, 53), (15, 1000)])
def test_blank_and_odd_frames(size):
    tool = DetectObjects()
    for grey in (0, 128, 255):
        assert tool.observe(batch(np.full((*size, 3), grey, np.uint8)), QUERY, ()) == [[]]
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    assert len(tool.observe(batch(noise), QUERY, ())) == 1
    assert tool.summarise([]) == ("no object found", 0.0)


def test_summary_counts_frames():
    frame = street()
    frame[100:150, 120:180] = COLOURS["red"]
    tool = DetectObjects()
    seen = [one for outputs in tool.observe(batch(frame, frame), QUERY, ()) for one in outputs]
    result, intrinsic = tool.summarise(seen)
    assert result == f"objects: red box (in 2 frames, 0.0–0.1 s, score {seen[0].score:.2f})"
    assert intrinsic == pytest.approx(seen[0].score)


@pytest.mark.parametrize("name", ["bikes", "bigbuckbunny", "carphone_pristine"])
def test_real_footage_gives_few_plausible_boxes(real_clips, name):
    capture = cv2.VideoCapture(str(real_clips[name]))
    frames = []
    while len(frames) < 4:
        for _ in range(25):
            ok, frame = capture.read()
        if not ok:
            break
        frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    assert frames
    for seen in DetectObjects().observe(batch(*frames), QUERY, ()):
        assert len(seen) <= 12
        for one in seen:
            x0, y0, x1, y1 = one.box
            assert 0 <= x0 < x1 <= 1
            assert 0 <= y0 < y1 <= 1
            assert 0.2 <= one.score <= 1
            assert (x1 - x0) * (y1 - y0) > 5e-5, "a speck"


@pytest.mark.parametrize(("kind", "seed"), [("city", 106), ("room", 107)])
def test_boxworld_boxes(kind, seed):
    clip = render_clip(kind, seed)
    outputs = DetectObjects().observe(batch(*clip.frames[::6]), QUERY, ())
    asked = right = told = good = 0
    bottoms = []
    for truth, seen in zip(clip.seen[::6], outputs, strict=True):
        boxes = [one for one in seen if one.label != "sign"]
        for box in truth:
            near = [one for one in boxes if one.label == f"{box.colour} box" and overlap_share(one.box, box.box) >= 0.5]
            if box.pixels >= 150:
                asked += 1
                right += bool(near)
            if near and box.box[3] < 0.99:
                bottoms.append(abs(near[0].box[3] - box.box[3]) * 240)
        for one in boxes:
            told += 1
            good += any(one.label == f"{box.colour} box" and overlap_share(one.box, box.box) > 0.3 for box in truth)
    assert asked >= 10
    assert right >= 0.95 * asked
    assert good >= 0.95 * told
    assert np.mean(bottoms) <= 1.0


def test_wrong_settings_are_reported_together():
    with pytest.raises(ConfigError) as error:
        DetectObjects(min_score=2, max_objects=0, min_chroma=300)
    assert len(error.value.faults) == 3
