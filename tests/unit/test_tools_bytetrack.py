"""ByteTrack over the detectors: identity, steps, windows.   pytest tests/unit/test_tools_bytetrack.py -q"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from tests.unit.test_tools_backends import VIDEOS, save_checkpoints
from trustvid.benchmarks.boxworld.preview import render_clip
from trustvid.config.checking import build, components
from trustvid.config.compose import compose_config
from trustvid.errors import ConfigError, TrustvidError
from trustvid.tools import bytetrack
from trustvid.tools.bytetrack import ByteTrack, track_overlaps
from trustvid.tools.cache import ToolCache, fingerprint
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.evidence import TOOL_NAMES, FrameBatch, Observation, SubQuery
from trustvid.tools.executor import Executor
from trustvid.tools.pretrained.grounding_dino import GroundingDino
from trustvid.tools.pretrained.owlv2 import Owlv2
from trustvid.tools.read_text import ReadText
from trustvid.tools.track_temporal import TrackTemporal
from trustvid.tools.tracks import Track, end_box, link_tracks
from trustvid.tools.vision.colour import overlap_share
from trustvid.video.reader import open_clip

QUERY = SubQuery("How does the red car move past the tower?", "temporal")
DETECTORS = {"grounding_dino": GroundingDino, "owlv2": Owlv2}
needs_package = pytest.mark.skipif(bytetrack.find_spec("trackers") is None, reason="the package trackers is missing")


class Boxes:
    """A detector that reports given boxes: {frame: [(label, score, box)]}."""

    name, cost, version, span, reads_query = "detect_objects", 0.5, "1", "frame", False

    def __init__(self, seen: dict[int, list]):
        self.seen = seen

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        return [
            [Observation(index, time, "object", *one) for one in self.seen.get(index, [])]
            for index, time in zip(batch.indices, batch.times, strict=True)
        ]

    def settings(self) -> dict:
        return {}


def follow(seen: dict[int, list], n_frames: int = 12, **settings) -> list[Observation]:
    """All steps of a window of frames 100 pixels wide and high, ten a second."""
    images = np.zeros((n_frames, 100, 100, 3), np.uint8)
    batch = FrameBatch(images, tuple(range(n_frames)), tuple(t / 10 for t in range(n_frames)))
    (steps,) = ByteTrack(Boxes(seen), **settings).observe(batch, QUERY, ())
    return steps


def box(x: float, y: float = 0.4, side: float = 0.2) -> tuple[float, float, float, float]:
    return (x, y, x + side, y + side)


def run(tool, clip, frames, cache=None, window_s: float = 1.0):
    return Executor({tool.name: tool}, cache, 60, window_s=window_s).run(tool.name, QUERY, clip, frames, ("CAFE",))


def ends(steps: Sequence[Observation]) -> list[tuple[int, int]]:
    return [(seen.frame, seen.values["end_frame"]) for seen in steps]


# ---- single windows --------------------------------------------------------------------------------------------------


@needs_package
def test_a_thing_that_crosses_is_one_track_from_its_first_sight_to_its_last():
    seen = {t: [("red box", 0.9, box(0.05 * t))] for t in range(12)}
    steps = follow(seen)
    assert ends(steps) == [(t, t + 1) for t in range(11)]
    for step in steps:
        assert (step.kind, step.label, step.box) == ("object", "red box", box(0.05 * step.frame))
        assert (step.time, step.values["end_time"]) == (step.frame / 10, (step.frame + 1) / 10)
        assert step.values["dx"] == pytest.approx(0.05) and step.values["dy"] == step.values["growth"] == 0
        assert step.values["confirmed"] == 1.0 and step.score == step.values["overlap"]
    assert [step.values["overlap"] for step in steps] == pytest.approx([0.6, *[1.0] * 10], abs=1e-4)
    assert len(link_tracks(steps)) == 1
    assert set(steps[0].values) == {"dx", "dy", "growth", "overlap", "confirmed", "end_frame", "end_time"}


@needs_package
def test_two_things_of_a_label_that_meet_keep_who_they_are():
    seen = {t: [("car", 0.9, box(0.05 * t, 0.30)), ("car", 0.8, box(0.7 - 0.05 * t, 0.36))] for t in range(14)}
    tracks = link_tracks(follow(seen, 14))
    assert [track.steps for track in tracks] == [13, 13]
    assert sorted((track.first[0] < track.last[0], track.first[1]) for track in tracks) == [(False, 0.36), (True, 0.3)]


@needs_package
def test_a_half_hidden_thing_of_low_score_keeps_its_track_and_is_unconfirmed():
    seen = {t: [("car", 0.2 if t in (5, 6) else 0.9, box(0.03 * t))] for t in range(12)}
    steps = follow(seen)
    assert ends(steps) == [(t, t + 1) for t in range(11)]
    assert [step.frame for step in steps if not step.values["confirmed"]] == [4, 5]
    assert steps[4].score == pytest.approx(0.6 * steps[4].values["overlap"], abs=1e-4)
    low_only = {t: [("car", 0.2, box(0.03 * t))] for t in range(12)}
    assert follow(low_only) == [], "low scores begin no track"


@needs_package
def test_a_thing_that_is_missed_is_found_again_within_the_time_kept():
    seen = {t: [("car", 0.9, box(0.03 * t))] for t in range(20) if t not in (8, 9, 10)}
    steps = follow(seen, 20)
    assert (7, 11) in ends(steps) and len(link_tracks(steps)) == 1
    forgotten = follow(seen, 20, lost_s=0.2)
    assert (7, 11) not in ends(forgotten) and len(forgotten) == len(steps) - 1


@needs_package
def test_labels_are_never_mixed():
    seen = {t: [("red box" if t < 6 else "red ball", 0.9, box(0.3))] for t in range(12)}
    assert ends(follow(seen)) == [*((t, t + 1) for t in range(5)), *((t, t + 1) for t in range(6, 11))]


@needs_package
def test_nothing_to_follow():
    assert follow({}) == [] and follow({3: [("car", 0.9, box(0.3))]}) == []
    apart = {t: [("car", 0.9, box(0.0 if t % 2 else 0.7))] for t in range(4)}
    assert all(seen.values["end_frame"] == seen.frame + 2 for seen in follow(apart, lost_s=1.0))


def test_overlap_is_with_where_the_speed_leads():
    assert track_overlaps([], []) == track_overlaps([(0, 0, 1, 1)], [0.0]) == []
    rising = [(0, 0, 4, 4), (1, 0, 5, 4), (2, 0, 6, 4), (4, 0, 8, 4)]
    assert track_overlaps(rising, [0.0, 0.1, 0.2, 0.4]) == pytest.approx([0.6, 1.0, 1.0])
    assert track_overlaps(rising, [0.0, 0.1, 0.2, 0.3])[-1] == pytest.approx(0.6)


# ---- real pixels -----------------------------------------------------------------------------------------------------


@needs_package
def test_on_a_real_clip_it_follows_what_the_embedded_tracker_follows():
    clip = open_clip(VIDEOS / "v01_cfr30_90f.mp4")
    ours, other = (run(tool, clip, [15, 45, 80]) for tool in (ByteTrack(DetectObjects()), TrackTemporal()))
    assert ours.error is None and ours.observations
    mine, theirs = link_tracks(ours.observations), link_tracks(other.observations)
    assert [track.label for track in mine] == [track.label for track in theirs] == ["blue box", "red box"]
    for one, two in zip(mine, theirs, strict=True):
        assert abs(one.start - two.start) <= 0.11 and abs(one.end - two.end) <= 0.11
        assert overlap_share(one.first, two.first) > 0.9 and overlap_share(one.last, two.last) > 0.9
        assert one.steps >= 0.9 * two.steps
    steps = [seen.values["overlap"] for seen in ours.observations]
    assert ours.intrinsic == pytest.approx(np.mean(steps)), "mean IoU of matched tracklets"
    assert ours.result.startswith("blue box: ")


def _same(tracks: Sequence[Track], others: Sequence[Track]) -> int:
    """How many of ``others`` have a counterpart: label and time of their sights, three quarters of them or more."""
    return sum(
        any(
            one.label == two.label and min(one.end, two.end) - max(one.start, two.start) >= 0.75 * (two.end - two.start)
            for one in tracks
        )
        for two in others
    )


@needs_package
@pytest.mark.parametrize(("place", "seed"), [("city", 500), ("room", 501)])
def test_with_a_moving_camera_it_follows_what_the_embedded_tracker_follows(place, seed):
    clip = ArraySource(np.stack(render_clip(place, seed).frames[30:100]))
    frames = range(5, clip.n_frames, 10)
    finder = DetectObjects(signs=False)  # as the embedded tracker has it
    ours, other = (run(tool, clip, frames, window_s=2.0) for tool in (ByteTrack(finder), TrackTemporal()))
    mine = link_tracks(ours.observations)
    theirs = [track for track in link_tracks(other.observations) if track.steps >= 8]
    assert len(theirs) >= 4 and _same(mine, theirs) >= 0.8 * len(theirs)
    assert len(mine) <= 1.5 * len(theirs), "tracks are not cut into pieces"
    assert ours.intrinsic > 0.7


@needs_package
def test_each_step_ends_on_a_box_of_the_detector():
    clip = open_clip(VIDEOS / "v34_event_near_end_298f.mp4")
    evidence = run(ByteTrack(DetectObjects()), clip, [150, 290])
    found = run(DetectObjects(), clip, evidence.frames).observations
    assert evidence.observations
    for step in evidence.observations:
        later = [seen.box for seen in found if (seen.frame, seen.label) == (step.values["end_frame"], step.label)]
        assert max(overlap_share(end_box(step), one) for one in later) > 0.9
        assert (step.label, step.box) in [(seen.label, seen.box) for seen in found if seen.frame == step.frame]


@needs_package
def test_overlapping_windows_tell_a_step_once_and_one_track(tmp_path):
    clip, cache = open_clip(VIDEOS / "v01_cfr30_90f.mp4"), ToolCache(tmp_path)
    evidence = run(ByteTrack(DetectObjects()), clip, [30, 41, 47], cache)
    named = [(seen.frame, seen.label, seen.values["end_frame"]) for seen in evidence.observations]
    assert len(set(named)) == len(named) and len(link_tracks(evidence.observations)) == 2

    class Blind(DetectObjects):
        def observe(self, *args):
            pytest.fail("all windows are stored")

    assert run(ByteTrack(Blind()), clip, [30, 41, 47], cache) == evidence
    assert run(ByteTrack(Blind()), clip, [41], cache).observations, "a window is stored by itself"


@needs_package
def test_two_runs_give_the_same_bytes():
    clip = ArraySource(np.stack(render_clip("room", 501).frames[30:60]))
    first, second = (run(ByteTrack(DetectObjects()), clip, [8, 20]) for _ in range(2))
    assert repr(first) == repr(second) and first.observations


# ---- detectors with weights --------------------------------------------------------------------------------------------


@needs_package
@pytest.mark.parametrize("backend", list(DETECTORS))
def test_what_the_sub_query_names_is_followed(backend, tmp_path):
    detector = DETECTORS[backend](save_checkpoints([backend], tmp_path)[backend], min_score=0.0, max_objects=6)
    tool = ByteTrack(detector, high_score=0.0, start_score=0.0)
    assert tool.reads_query and tool.load() is detector.load()
    clip = open_clip(VIDEOS / "v01_cfr30_90f.mp4")
    evidence = run(tool, clip, [40], window_s=0.6)
    assert evidence.error is None and len(evidence.observations) > 3
    assert {seen.label for seen in evidence.observations} <= {"red car", "tower", "cafe"}
    found = {(seen.frame, seen.label, seen.box) for seen in run(detector, clip, evidence.frames).observations}
    assert {(seen.frame, seen.label, seen.box) for seen in evidence.observations} <= found


def test_the_runs_own_detector_is_the_default_with_all_its_settings():
    from omegaconf import OmegaConf

    def node(*choices: str) -> dict:
        config = compose_config(["tools/track_temporal=bytetrack", *choices])
        return OmegaConf.to_container(config, resolve=True)["tools"]["track_temporal"]

    tool = build(node("tools/detect_objects=grounding_dino", "tools.detect_objects.min_score=0.1"))
    assert isinstance(tool.detector, GroundingDino) and tool.detector.min_score == 0.1
    assert isinstance(build(node()).detector, DetectObjects) and not build(node()).reads_query
    other = node("tools.track_temporal.detector={_target_: trustvid.tools.pretrained.owlv2.Owlv2, min_score: 0.1}")
    assert isinstance(build(other).detector, Owlv2)
    assert [path for path, _ in components({"tools": {"track_temporal": node()}})] == ["tools.track_temporal"]
    assert build(node()).settings() == ByteTrack(DetectObjects()).settings()


# ---- contract ----------------------------------------------------------------------------------------------------------


def test_contract_and_settings():
    tool = ByteTrack(DetectObjects())
    assert tool.name in TOOL_NAMES
    assert (tool.name, tool.cost, tool.span, tool.reads_query) == ("track_temporal", 0.70, "window", False)
    assert tool.summarise([]) == ("no thing could be followed", 0.0)
    changes = [{}, {"high_score": 0.3}, {"start_score": 0.5}, {"min_overlap": 0.2}, {"lost_s": 2.0}]
    keys = [fingerprint(ByteTrack(DetectObjects(), **change), QUERY, ()) for change in changes]
    keys.append(fingerprint(ByteTrack(DetectObjects(min_score=0.1)), QUERY, ()))
    assert len(set(keys)) == len(keys)
    json.dumps(tool.settings())


def test_all_faults_come_together():
    with pytest.raises(ConfigError) as caught:
        ByteTrack(ReadText(), high_score=1.2, start_score=0.1, min_overlap=-1, lost_s=-0.1)
    assert len(caught.value.faults) == 5
    assert "track_temporal.detector is a ReadText; expected one of the group tools/detect_objects" in str(caught.value)


def test_a_missing_package_is_said_before_the_first_question(monkeypatch):
    monkeypatch.setattr(bytetrack, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "trackers", None)
    tool = ByteTrack(Boxes({0: [("car", 0.9, box(0.1))]}))
    with pytest.raises(TrustvidError, match="pip install supervision") as caught:
        tool.load()
    evidence = run(tool, ArraySource(np.zeros((10, 8, 8, 3), np.uint8)), [0])
    assert (evidence.error.kind, evidence.error.message) == ("exception", f"track_temporal: {caught.value}")


def test_there_is_nothing_to_load_over_a_detector_without_weights(monkeypatch):
    monkeypatch.setattr(bytetrack, "find_spec", lambda name: SimpleNamespace())
    assert not hasattr(ByteTrack(DetectObjects()), "load")
