"""Ego-motion and its segments.   pytest tests/unit/test_tools_motion.py -q"""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from trustvid.benchmarks.boxworld.preview import render_clip
from trustvid.errors import ConfigError
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.motion import describe_motion, merge_motion
from trustvid.tools.recognize_action import RecognizeAction
from trustvid.tools.vision.egomotion import EgoMotion, derotate, rotate

QUERY = SubQuery("how does the camera move?", "action")


def batch(frames, fps: float = 10.0) -> FrameBatch:
    frames = np.stack(frames)
    return FrameBatch(frames, tuple(range(len(frames))), tuple(i / fps for i in range(len(frames))))


@pytest.fixture(scope="module")
def wall() -> np.ndarray:
    """A textured picture larger than a frame: uint8 [720, 960, 3]."""
    rng = np.random.default_rng(5)
    total = np.zeros((720, 960), np.float32)
    for grain in (6, 14, 40):
        small = rng.random((720 // grain + 1, 960 // grain + 1)).astype(np.float32)
        total += cv2.resize(small, (960, 720), interpolation=cv2.INTER_LINEAR)
    grey = cv2.normalize(total, None, 20, 235, cv2.NORM_MINMAX).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)


def view(wall: np.ndarray, yaw: float = 0.0, pitch: float = 0.0, zoom: float = 1.0, size=(240, 320)) -> np.ndarray:
    """What a camera of 90 degrees sees of the wall after turning by yaw (right) and pitch (up), nearer by ``zoom``."""
    height, width = size
    columns, rows = np.meshgrid(np.arange(width) - (width - 1) / 2, np.arange(height) - (height - 1) / 2)
    points = np.stack([columns, rows], -1).reshape(-1, 2) / (width / 2)
    on_wall = derotate(points, np.radians(yaw), np.radians(pitch), 0.0).reshape(height, width, 2) * 160 / zoom
    x, y = (on_wall + np.array([479.5, 359.5])).astype(np.float32).transpose(2, 0, 1)
    return cv2.remap(wall, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)


def test_rotation_sense_and_inverse():
    ahead = np.array([[0.0, 0.0]])
    right = rotate(ahead, np.radians(10), 0, 0)
    assert right[0, 0] == pytest.approx(-np.tan(np.radians(10))), "the scene moves left when the camera turns right"
    up = rotate(ahead, 0, np.radians(10), 0)
    assert up[0, 1] == pytest.approx(np.tan(np.radians(10))), "the scene moves down when the camera looks up"
    points = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    assert derotate(rotate(points, 0.2, -0.1, 0.05), 0.2, -0.1, 0.05) == pytest.approx(points)


@pytest.mark.parametrize("yaw", [-12.0, -6.0, -0.5, 0.0, 2.0, 9.0])
@pytest.mark.parametrize("pitch", [0.0, 3.0])
def test_rotation_is_measured(wall, yaw, pitch):
    step = EgoMotion(240, 320, 90).steps(np.stack([view(wall), view(wall, yaw, pitch)]))[0]
    assert step.yaw_deg == pytest.approx(yaw, abs=0.15)
    assert step.pitch_deg == pytest.approx(pitch, abs=0.15)
    assert abs(step.expansion) < 0.004
    assert step.score > 0.7


def test_field_of_view_scales_the_angle(wall):
    frames = np.stack([view(wall), view(wall, 4.0)])
    narrow = EgoMotion(240, 320, 45).steps(frames)[0]
    assert narrow.yaw_deg == pytest.approx(4.0 * np.tan(np.radians(22.5)), abs=0.15)


@pytest.mark.parametrize("size", [(240, 320), (480, 640), (145, 201)])
def test_expansion_is_measured_at_any_size(wall, size):
    step = EgoMotion(*size, 90).steps(np.stack([view(wall, size=size), view(wall, zoom=1.05, size=size)]))[0]
    assert step.expansion == pytest.approx(0.05, abs=0.006)
    assert abs(step.yaw_deg) < 0.15


def test_labels(wall):
    tool = RecognizeAction()
    poses = [(0, 0, 1), (6, 0, 1), (12, 0, 1), (6, 0, 1), (6, 0, 1.04), (6, 0, 1), (6, 0, 1), (6, 4, 1), (6, 0, 1)]
    outputs = tool.observe(batch([view(wall, *pose) for pose in poses]), QUERY, ())
    labels = [seen[0].label for seen in outputs]
    assert labels == ["turn right"] * 2 + ["turn left", "forward", "backward", "still", "up", "down"]
    first = outputs[0][0]
    assert (first.frame, first.time, first.kind, first.box) == (0, 0.0, "motion", None)
    assert (first.values["end_frame"], first.values["end_time"]) == (1, 0.1)


def test_flat_frames_have_no_motion_and_do_not_crash():
    tool = RecognizeAction()
    for size in [(1, 1), (9, 300), (37, 53), (240, 320)]:
        for grey in (0, 128, 255):
            assert tool.observe(batch([np.full((*size, 3), grey, np.uint8)] * 3), QUERY, ()) == [[], []]
    assert tool.summarise([]) == ("no motion measurable", 0.0)


def test_a_cut_has_a_low_score(wall):
    other = np.ascontiguousarray(np.flipud(wall)[:, ::-1])
    cut = EgoMotion(240, 320, 90).steps(np.stack([view(wall), view(other, 20, 10)]))[0]
    assert cut is None or cut.score < 0.3


@pytest.mark.parametrize("seed", [101, 102])
def test_boxworld_flight_turns_and_labels(seed):
    clip = render_clip("city", seed)
    tool = RecognizeAction()
    outputs = tool.observe(batch(clip.frames), QUERY, ())
    measured = [seen[0] if seen else None for seen in outputs]
    change = np.diff(clip.poses[:, 2])
    truth = ["forward" if abs(c) < 1e-6 else "turn right" if c > 0 else "turn left" for c in change]
    right = sum(seen is not None and seen.label == label for seen, label in zip(measured, truth, strict=True))
    assert right >= 0.95 * len(truth)
    for step in clip.scene.steps:
        if step.action != "forward":
            yaw = sum(seen.values["yaw_deg"] for seen in measured[step.first : step.last] if seen)
            assert yaw == pytest.approx(clip.poses[step.last, 2] - clip.poses[step.first, 2], abs=8)


def test_boxworld_pan_adds_up():
    clip = render_clip("room", 103)
    outputs = RecognizeAction().observe(batch(clip.frames), QUERY, ())
    yaw = sum(seen[0].values["yaw_deg"] for seen in outputs if seen)
    assert yaw == pytest.approx(clip.poses[-1, 2] - clip.poses[0, 2], abs=5)


def test_settings_are_checked_together():
    with pytest.raises(ConfigError) as error:
        RecognizeAction(fov_deg=180, turn_deg_per_s=0)
    assert len(error.value.faults) == 2


# ---- segments ------------------------------------------------------------------------------------------------------


def steps(labels: str, yaw: float = 8.0, start: int = 0) -> list[Observation]:
    names = {"f": "forward", "l": "turn left", "r": "turn right", "s": "still"}
    turn = {"l": -yaw, "r": yaw}
    return [
        Observation(
            start + i,
            (start + i) / 10,
            "motion",
            names[label],
            0.8,
            None,
            {"yaw_deg": turn.get(label, 0.0), "end_frame": start + i + 1, "end_time": (start + i + 1) / 10},
        )
        for i, label in enumerate(labels)
    ]


def test_segments_carry_angle_time_and_score():
    first, turn, last = merge_motion(steps("f" * 21 + "l" * 11 + "f" * 4))
    assert (first.label, first.start, first.end, first.steps) == ("forward", 0.0, 2.1, 21)
    assert (turn.label, turn.start, turn.end) == ("turn left", 2.1, 3.2)
    assert turn.yaw_deg == pytest.approx(-88)
    assert last.score == pytest.approx(0.8)
    assert describe_motion([first, turn]) == "0.0–2.1 s forward; 2.1–3.2 s turn left (88°)"


def test_slips_are_absorbed_but_their_angle_is_kept():
    segments = merge_motion(steps("rrrrsrrrr"))
    assert [s.label for s in segments] == ["turn right"]
    assert segments[0].yaw_deg == pytest.approx(64)
    assert [s.label for s in merge_motion(steps("ffffrffff"))] == ["forward"]
    assert [s.label for s in merge_motion(steps("ffffrrrffff"))] == ["forward", "turn right", "forward"]
    assert [s.label for s in merge_motion(steps("frf"))] == ["forward", "turn right", "forward"]


def test_a_gap_parts_segments():
    segments = merge_motion(steps("ffff") + steps("ffff", start=9))
    assert [(s.start, s.end) for s in segments] == [(0.0, 0.4), (0.9, 1.3)]
    assert merge_motion([]) == []


def test_order_of_observations_does_not_matter():
    told = steps("fffflllfff")
    assert merge_motion(told[::-1]) == merge_motion(told)
