"""track_temporal: matching, tracks, camera.   pytest tests/unit/test_tools_track_temporal.py -q"""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.benchmarks.boxworld.preview import Preview, render_clip
from trustvid.benchmarks.boxworld.world import COLOURS
from trustvid.errors import ConfigError
from trustvid.tools.cache import ToolCache, fingerprint
from trustvid.tools.evidence import TOOL_NAMES, FrameBatch, Observation, SubQuery
from trustvid.tools.executor import Executor
from trustvid.tools.recognize_action import RecognizeAction
from trustvid.tools.track_temporal import TrackTemporal
from trustvid.tools.tracks import link_tracks
from trustvid.tools.vision.boxmotion import BoxFollower, Spot, match_boxes

QUERY = SubQuery("when does it appear?", "temporal")


def batch(frames, first: int = 0) -> FrameBatch:
    frames = np.stack(list(frames))
    indices = tuple(range(first, first + len(frames)))
    return FrameBatch(frames, indices, tuple(i / 10 for i in indices))


def motion(outputs: list[list[Observation]]) -> list[Observation | None]:
    return [next((one for one in seen if one.kind == "motion"), None) for seen in outputs]


@pytest.fixture(scope="module")
def previews() -> dict[str, Preview]:
    return {"city": render_clip("city", 500), "room": render_clip("room", 501)}


def test_contract():
    tool = TrackTemporal()
    assert tool.name in TOOL_NAMES
    assert (tool.name, tool.cost, tool.span, tool.reads_query) == ("track_temporal", 0.70, "pair", False)


# ---- matching ------------------------------------------------------------------------------------------------------


def test_boxes_are_matched_by_label_place_and_size():
    before = [
        Spot("red box", (10, 50, 40, 90)),
        Spot("red box", (100, 50, 130, 90)),
        Spot("blue box", (60, 50, 90, 90)),
    ]
    after = [Spot("red box", (90, 50, 120, 90)), Spot("blue box", (50, 50, 80, 90)), Spot("red box", (0, 50, 30, 90))]
    assert sorted(match_boxes(before, after, 320)) == [(0, 2), (1, 0), (2, 1)]
    assert match_boxes(before[:1], [Spot("red box", (250, 50, 280, 90))], 320) == [], "too far"
    assert match_boxes(before[:1], [Spot("red box", (10, 50, 20, 60))], 320) == [], "too small"
    assert match_boxes([], after, 320) == match_boxes(before, [], 320) == []


@pytest.mark.parametrize("yaw", [-9.0, -2.0, 3.0])
@pytest.mark.parametrize("ahead", [0.0, 0.5])
def test_each_box_tells_the_turn_whatever_its_distance(yaw, ahead):
    """Boxes of a level scene before and after a step, projected exactly."""
    follower, focal = BoxFollower(240, 320, 90), 160.0

    def seen(x: float, z: float, size: float, turn: float, step: float) -> tuple[float, float, float, float]:
        bearing, distance = np.arctan2(x, z - step) - np.radians(turn), np.hypot(x, z - step)
        u, tall = np.tan(bearing) * focal + 159.5, size * focal / distance / np.cos(bearing)
        return u - tall / 2, 119.5 - 0.6 * tall, u + tall / 2, 119.5 + 0.4 * tall

    places = [(-4.0, 9.0, 3.0), (2.0, 15.0, 4.0), (6.0, 12.0, 3.0)]
    first = [Spot(f"thing {k}", seen(*place, 0.0, 0.0)) for k, place in enumerate(places)]
    second = [Spot(f"thing {k}", seen(*place, yaw, ahead)) for k, place in enumerate(places)]
    blank = np.full((240, 320), 90, np.uint8)
    steps = follower.steps(blank, blank, first, second)
    camera = follower.camera(steps)
    assert camera.yaw_deg == pytest.approx(yaw, abs=0.9)
    assert camera.pitch_deg == pytest.approx(0, abs=0.4)
    assert camera.agreement == 1.0
    assert (camera.expansion > 0.01) == (ahead > 0)
    assert follower.camera(steps[:1]).agreement == 0.5, "a lone box is borne out by nothing"
    assert follower.camera([]) is None


# ---- rendered scenes -----------------------------------------------------------------------------------------------


def test_boxworld_camera_and_labels(previews):
    clip = previews["city"]
    measured = motion(TrackTemporal().observe(batch(clip.frames), QUERY, ()))
    change = np.diff(clip.poses[:, 2])
    truth = ["forward" if abs(c) < 1e-6 else "turn right" if c > 0 else "turn left" for c in change]
    told = [(seen, label, c) for seen, label, c in zip(measured, truth, change, strict=True) if seen]
    assert len(told) >= 0.9 * len(truth)
    assert np.mean([seen.label == label for seen, label, _ in told]) >= 0.9
    assert np.median([abs(seen.values["yaw_deg"] - c) for seen, _, c in told]) <= 0.3


def test_values_and_labels_are_those_of_the_other_tool(previews):
    frames = batch(previews["city"].frames[:12])
    ours = motion(TrackTemporal().observe(frames, QUERY, ()))
    other = motion(RecognizeAction().observe(frames, QUERY, ()))
    assert [set(one.values) for one in ours] == [set(one.values) for one in other]
    assert [(one.frame, one.time, one.box) for one in ours] == [(one.frame, one.time, one.box) for one in other]
    assert [one.label for one in ours].count("forward") >= 10


def test_things_of_a_room_are_followed(previews):
    clip = previews["room"]
    tool = TrackTemporal()
    outputs = tool.observe(batch(clip.frames), QUERY, ())
    things = [one for seen in outputs for one in seen if one.kind == "object"]
    assert len(things) >= 30
    assert all(0 <= one.values["overlap"] <= 1 and 0 <= one.score <= one.values["overlap"] + 1e-3 for one in things)
    assert np.mean([one.values["overlap"] for one in things]) > 0.7
    assert np.mean([one.values["confirmed"] for one in things]) > 0.6
    shown = {f"{box.colour} box" for seen in clip.seen for box in seen if box.pixels >= 300}
    assert shown <= {track.label for track in link_tracks(things)}
    json.dumps([one.to_json() for one in things], allow_nan=False)


def specks(frames: np.ndarray) -> np.ndarray:
    """The frames behind specks of dirt that stay on the lens."""
    rng, mask = np.random.default_rng(3), np.zeros(frames.shape[1:3], np.uint8)
    for x, y, radius in rng.integers((0, 0, 1), (320, 240, 4), (450, 3)).tolist():
        cv2.circle(mask, (x, y), radius, 255, -1)
    dirty = frames.copy()
    dirty[:, mask > 0] = (50, 48, 45)
    return dirty


def test_failure_modes_differ(previews):
    clip = previews["city"]
    dirty = specks(clip.frames[:40])
    straight = np.abs(np.diff(clip.poses[:40, 2])) < 1e-6
    assert straight.sum() >= 10

    def right(tool, frames) -> float:
        seen = np.array(motion(tool.observe(batch(frames), QUERY, ())), dtype=object)[straight]
        return float(np.mean([one is not None and one.label == "forward" for one in seen]))

    assert right(TrackTemporal(), dirty) > 0.7 > 0.3 > right(RecognizeAction(), dirty)
    grey = np.repeat(clip.frames[:40].mean(axis=3, keepdims=True), 3, axis=3).astype(np.uint8)
    assert right(RecognizeAction(), grey) > 0.9
    assert right(TrackTemporal(), grey) == 0, "nothing coloured, nothing to follow"


def test_a_pair_alone_and_in_a_batch_gives_the_same(previews):
    frames = previews["city"].frames[40:48]
    tool = TrackTemporal()
    together = tool.observe(batch(frames), QUERY, ())
    assert together == tool.observe(batch(frames), QUERY, ("CAFE",))
    for t, seen in enumerate(together):
        assert tool.observe(batch(frames[t : t + 2], first=t), QUERY, ())[0] == seen


@pytest.mark.parametrize("size", [(1, 1), (2, 300), (300, 2), (37, 53), (240, 320)])
def test_blank_and_odd_frames(size):
    tool = TrackTemporal()
    for grey in (0, 128, 255):
        assert tool.observe(batch([np.full((*size, 3), grey, np.uint8)] * 3), QUERY, ()) == [[], []]
    noise = np.random.default_rng(0).integers(0, 256, (2, *size, 3), dtype=np.uint8)
    assert len(tool.observe(batch(noise), QUERY, ())) == 1
    coloured = np.full((2, *size, 3), COLOURS["red"], np.uint8)  # its edges are all cut off: no displacement is known
    assert motion(tool.observe(batch(coloured), QUERY, ())) == [None]
    assert tool.summarise([]) == ("no thing could be followed", 0.0)


def test_real_footage(real_clips):
    capture = cv2.VideoCapture(str(real_clips["bikes"]))
    frames = [cv2.cvtColor(capture.read()[1], cv2.COLOR_BGR2RGB) for _ in range(4)]
    for seen in TrackTemporal().observe(batch(frames), QUERY, ()):
        assert len(seen) <= 13
        assert all(0 <= one.score <= 1 for one in seen)


# ---- tracks and words ----------------------------------------------------------------------------------------------


def step(frame: int, x: float, label: str = "red box", dx: float = 0.02, overlap: float = 0.9) -> Observation:
    values = {"dx": dx, "dy": 0.0, "growth": 0.0, "overlap": overlap, "confirmed": 1.0}
    box = (max(0.0, x), 0.4, x + 0.1, 0.6)
    return Observation(
        frame,
        frame / 10,
        "object",
        label,
        overlap,
        box,
        {**values, "end_frame": frame + 1, "end_time": (frame + 1) / 10},
    )


def test_steps_are_linked_where_one_ends_and_the_next_starts():
    chain = [step(t, 0.1 + 0.02 * t) for t in range(5)] + [step(t, 0.8 - 0.02 * t, dx=-0.02) for t in range(5)]
    tracks = link_tracks(chain[::-1])
    assert [(round(t.first[0], 2), round(t.last[0], 2), t.steps) for t in tracks] == [(0.1, 0.2, 5), (0.8, 0.7, 5)]
    assert tracks == link_tracks(chain)
    other = link_tracks([step(0, 0.1), step(1, 0.12, label="blue box")])
    assert [track.label for track in other] == ["red box", "blue box"]


def test_a_short_gap_does_not_end_a_track_but_a_long_one_or_a_jump_does():
    assert len(link_tracks([step(0, 0.1), step(4, 0.18)])) == 1
    assert len(link_tracks([step(0, 0.1), step(9, 0.18)])) == 2
    assert len(link_tracks([step(0, 0.1), step(4, 0.7)])) == 2
    assert link_tracks([]) == []


def test_tracks_are_told_over_time():
    tool = TrackTemporal()
    blue = [step(t, 0.45, "blue box", dx=0.0, overlap=0.8) for t in range(30)]
    red = [step(t, -0.03 + 0.05 * (t - 4), dx=0.05, overlap=1.0) for t in range(4, 23)]
    camera = [
        Observation(
            t, t / 10, "motion", "still", 0.8, None, {"yaw_deg": 0.0, "end_frame": t + 1, "end_time": t / 10 + 0.1}
        )
        for t in range(30)
    ]
    result, intrinsic = tool.summarise([*blue, *red, *camera])
    assert result == (
        "blue box: seen at 0.0 s in the middle, last seen at 3.0 s in the middle; "
        "red box: enters at 0.4 s on the left, leaves at 2.3 s on the right; camera: 0.0–3.0 s still"
    )
    assert intrinsic == pytest.approx((30 * 0.8 + 19 * 1.0) / 49)


def test_executor_and_cache(previews):
    clip = ArraySource(previews["city"].frames[:40])
    runs = [Executor({"track_temporal": TrackTemporal()}, cache, 60.0) for cache in (ToolCache.memory(), None)]
    found = [run.run("track_temporal", QUERY, clip, [10, 30]) for run in (*runs, runs[0])]
    assert found[0].error is None and 0 < found[0].intrinsic <= 1
    assert {one.kind for one in found[0].observations} == {"object", "motion"}
    assert found[0] == found[1] == found[2]


def test_every_setting_is_part_of_the_fingerprint():
    changes = {
        "fov_deg": 60,
        "turn_deg_per_s": 9,
        "tilt_deg_per_s": 13,
        "growth_per_s": 0.04,
        "min_box_score": 0.3,
        "max_objects": 6,
        "min_saturation": 0.4,
        "min_score": 0.1,
    }
    prints = {fingerprint(TrackTemporal(**{name: value}), QUERY, ()) for name, value in changes.items()}
    assert len(prints | {fingerprint(TrackTemporal(), QUERY, ())}) == len(changes) + 1


def test_wrong_settings_are_reported_together():
    with pytest.raises(ConfigError) as error:
        TrackTemporal(180, 0, -1, 0, 2, 0, 3, -1)
    assert len(error.value.faults) == 8
