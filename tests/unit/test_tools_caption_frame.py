"""caption_frame: words, what they are written on, sentences.   pytest tests/unit/test_tools_caption_frame.py -q"""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.benchmarks.boxworld.preview import Preview, render_clip
from trustvid.benchmarks.boxworld.world import COLOURS
from trustvid.errors import ConfigError
from trustvid.tools.cache import ToolCache, fingerprint
from trustvid.tools.caption_frame import CaptionFrame
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.evidence import TOOL_NAMES, FrameBatch, Observation, SubQuery
from trustvid.tools.executor import Executor
from trustvid.tools.vision.colour import overlap_share
from trustvid.tools.vision.surface import calibrate, chart

QUERY = SubQuery("what is written there?", "attribute")


def batch(*frames: np.ndarray) -> FrameBatch:
    return FrameBatch(np.stack(frames), tuple(range(len(frames))), tuple(i / 10 for i in range(len(frames))))


@pytest.fixture(scope="module")
def previews() -> dict[str, Preview]:
    return {"city": render_clip("city", 500), "room": render_clip("room", 500)}


def shop(word: str = "CAFE", colour: str = "red") -> np.ndarray:
    """A coloured box with a sign on a grey street, 320×240: the box spans 110–210, 60–170."""
    rng = np.random.default_rng(1)
    coarse = rng.integers(95, 125, (31, 41), dtype=np.uint8)
    frame = np.repeat(cv2.resize(coarse, (320, 240))[..., None], 3, axis=2)
    frame[60:170, 110:210] = COLOURS[colour]
    frame[70:98, 120:200] = 244
    cv2.putText(frame, word, (124, 93), cv2.FONT_HERSHEY_SIMPLEX, 0.85, (10, 10, 10), 2, cv2.LINE_AA)
    return frame


def pixels(seen: Observation) -> list[float]:
    return [share * size for share, size in zip(seen.box, (320, 240, 320, 240), strict=True)]


def test_contract():
    tool = CaptionFrame()
    assert tool.name in TOOL_NAMES
    assert (tool.name, tool.cost, tool.span, tool.reads_query) == ("caption_frame", 0.30, "frame", False)


@pytest.mark.parametrize("colour", sorted(COLOURS))
def test_the_thing_under_a_word(colour):
    thing, word = CaptionFrame().observe(batch(shop(colour=colour)), QUERY, ())[0]
    assert (thing.kind, thing.label, thing.values) == ("object", f"{colour} box", {})
    assert (word.kind, word.label) == ("text", "CAFE")
    assert pixels(thing) == pytest.approx([110, 60, 210, 170], abs=1.5)
    assert word.score > 0.9
    assert 0.5 < thing.score <= word.score


def damaged(frame: np.ndarray, how: str) -> np.ndarray:
    values = frame.astype(np.float64)
    if how == "pale":
        grey = values.mean(axis=2, keepdims=True)
        values = grey + 0.25 * (values - grey)
    elif how == "veil":
        values = 0.4 * values + 0.6 * 215
    elif how == "warm cast":
        values = values * (1.0, 0.82, 0.62)
    elif how == "dark":
        values = values * 0.15
    return values.astype(np.uint8)


@pytest.mark.parametrize("how", ["pale", "veil", "warm cast", "dark"])
@pytest.mark.parametrize("colour", ["red", "green", "blue", "purple"])
def test_weak_cast_and_dark_colours_keep_their_names(how, colour):
    seen = CaptionFrame().observe(batch(damaged(shop(colour=colour), how)), QUERY, ())[0]
    assert [one.label for one in seen] == [f"{colour} box", "CAFE"]
    assert pixels(seen[0]) == pytest.approx([110, 60, 210, 170], abs=3)


def test_the_other_tool_fails_where_this_one_works_and_the_other_way_round():
    hazy, bare = damaged(shop(colour="green"), "veil"), shop("")
    assert DetectObjects(signs=False).observe(batch(hazy, bare), QUERY, ())[0] == []
    assert DetectObjects(signs=False).observe(batch(hazy, bare), QUERY, ())[1] != []
    outputs = CaptionFrame().observe(batch(hazy, bare), QUERY, ())
    assert outputs[0] != [] and outputs[1] == []


def test_a_coloured_blob_before_the_lens_is_not_reported():
    frame = shop()
    cv2.circle(frame, (60, 120), 40, (132, 44, 148), -1)
    labels = [one.label for one in CaptionFrame().observe(batch(frame), QUERY, ())[0]]
    assert labels == ["red box", "CAFE"]


def test_border_cuts_are_flagged():
    frame = np.ascontiguousarray(shop()[:150, 105:])
    seen = CaptionFrame().observe(batch(frame), QUERY, ())[0][0]
    assert seen.values == {"clipped": 1.0, "clipped_bottom": 1.0}


@pytest.mark.parametrize("kind", ["city", "room"])
def test_boxworld(previews, kind):
    clip, places = previews[kind], range(0, len(previews[kind].frames), 12)
    outputs = CaptionFrame().observe(batch(*clip.frames[::12]), QUERY, ())
    asked = right = told = good = 0
    bottoms = []
    for place, seen in zip(places, outputs, strict=True):
        things = [one for one in seen if one.kind == "object"]
        for box in clip.seen[place]:
            near = [t for t in things if t.label == f"{box.colour} box" and overlap_share(t.box, box.box) >= 0.5]
            whole = box.plate and box.plate[0] > 0.01 and box.plate[2] < 0.99 and box.plate_pixels >= 400
            asked += bool(whole)
            right += bool(whole and near)
            bottoms += [abs(near[0].box[3] - box.box[3]) * 240] if near else []
        told += len(things)
        good += sum(
            any(t.label == f"{box.colour} box" and overlap_share(t.box, box.box) >= 0.5 for box in clip.seen[place])
            for t in things
        )
    assert asked >= 3
    assert right >= 0.9 * asked
    assert good >= 0.9 * told
    assert np.mean(bottoms) <= 1.0, "depth is read from the lower edge"


def test_a_frame_alone_and_in_a_batch_gives_the_same(previews):
    frames = [*previews["city"].frames[30:90:20], *previews["room"].frames[:30:15]]
    tool = CaptionFrame()
    together = tool.observe(batch(*frames), QUERY, ())
    assert together == tool.observe(batch(*frames), QUERY, ("CAFE",))
    for place, frame in enumerate(frames):
        alone = tool.observe(FrameBatch(frame[None], (place,), (place / 10,)), QUERY, ())[0]
        assert alone == together[place]


@pytest.mark.parametrize("size", [(1, 1), (2, 300), (300, 2), (37, 53), (240, 320)])
def test_blank_and_odd_frames(size):
    tool = CaptionFrame()
    for grey in (0, 128, 255):
        assert tool.observe(batch(np.full((*size, 3), grey, np.uint8)), QUERY, ()) == [[]]
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    assert len(tool.observe(batch(noise), QUERY, ())) == 1
    assert tool.summarise([]) == ("nothing that can be described", 0.0)


def test_sentence_and_confidence():
    tool = CaptionFrame()
    moved = np.roll(shop(), -105, axis=1)
    seen = [one for outputs in tool.observe(batch(shop(), moved), QUERY, ()) for one in outputs]
    result, intrinsic = tool.summarise(seen)
    assert result == "a red box with the sign CAFE in the middle, then on the left (0.0–0.1 s)"
    assert intrinsic == pytest.approx(np.mean([one.score for one in seen]))
    words = [one for one in seen if one.kind == "text"][:1]
    assert tool.summarise(words)[0] == "the word CAFE in the middle (0.0 s)"
    orange = tool.observe(batch(shop("BAR", "orange")), QUERY, ())[0]
    assert tool.summarise(orange)[0] == "an orange box with the sign BAR in the middle (0.0 s)"


def test_real_footage(real_clips):
    capture = cv2.VideoCapture(str(real_clips["bikes"]))
    frames = [cv2.cvtColor(capture.read()[1], cv2.COLOR_BGR2RGB) for _ in range(3)]
    for seen in CaptionFrame().observe(batch(*frames), QUERY, ()):
        for one in seen:
            x0, y0, x1, y1 = one.box
            assert 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1
            assert 0 < one.score <= 1 and len(one.label) >= 2


def test_executor_and_cache(previews):
    clip = ArraySource(previews["city"].frames[60:100])
    runs = [Executor({"caption_frame": CaptionFrame()}, cache, 60.0) for cache in (ToolCache.memory(), None)]
    found = [run.run("caption_frame", QUERY, clip, [0, 12, 24]) for run in (*runs, runs[0])]
    assert found[0].error is None and found[0].observations and 0 < found[0].intrinsic <= 1
    assert found[0] == found[1] == found[2]


def test_every_setting_is_part_of_the_fingerprint():
    changes = {"min_score": 0.7, "min_characters": 3, "min_proportion": 2.0, "detection_side": 320}
    prints = {fingerprint(CaptionFrame(**{name: value}), QUERY, ()) for name, value in changes.items()}
    assert len(prints | {fingerprint(CaptionFrame(), QUERY, ())}) == len(changes) + 1
    # The number of threads changes no output.
    assert fingerprint(CaptionFrame(threads=2), QUERY, ("A",)) == fingerprint(CaptionFrame(), QUERY, ())


def test_wrong_settings_are_reported_together():
    with pytest.raises(ConfigError) as error:
        CaptionFrame(min_score=2, min_characters=0, min_proportion=0, detection_side=100, threads=0)
    assert len(error.value.faults) == 5


def test_a_sign_is_a_chart_of_light_and_veil():
    sign = np.array([[244, 200, 160]] * 30 + [[61, 50, 40]] * 10, np.uint8)
    light, veil = chart(sign)
    assert light == pytest.approx([244, 200, 160])
    assert veil == pytest.approx(0.125, abs=0.01), "half of what the strokes show"
    white = calibrate(np.array([[[244, 200, 160]]], np.uint8), light, veil)[0, 0]
    assert white.tolist() == [220, 220, 220]
    # Letters on a coloured ground tell nothing of the light.
    assert chart(np.array([[240, 220, 20]] * 30 + [[10, 10, 10]] * 10, np.uint8))[0].tolist() == [240, 240, 240]
