"""BoxWorld's geometry, masks and pictures.   pytest tests/unit/test_boxworld_render.py -n 0 -q"""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from trustvid.benchmarks.boxworld.city import build_city, draw_flight, draw_turns, plan_city
from trustvid.benchmarks.boxworld.geometry import Camera, Faces, face_planes, project_rectangle
from trustvid.benchmarks.boxworld.masks import BODY, FAR, GREY, GROUND, PLATE, SECTOR, MaskPainter, id_table
from trustvid.benchmarks.boxworld.preview import render_clip
from trustvid.benchmarks.boxworld.render import Painter
from trustvid.benchmarks.boxworld.room import build_room
from trustvid.benchmarks.boxworld.world import COLOURS, CX, CY, FOCAL, Box, Scene, bearing, wrap_degrees
from trustvid.seeding import derive_rng


def _city(seed: int, n_steps: int = 4) -> Scene:
    rng = derive_rng("render-test", seed)
    flight = draw_flight(rng, int(rng.integers(104, 121)), draw_turns(rng), n_steps)
    return build_city(seed, plan_city(rng, flight), rng)


def _room(seed: int) -> Scene:
    return build_room(seed, derive_rng("render-test", seed), 100)


def _one_box(box: Box, yaw: float = 0.0) -> Scene:
    return Scene("city", 0, (box,), (), np.array([[0.0, 0.0, yaw]]))


@pytest.mark.parametrize(("yaw", "right"), [(0.0, 0.0), (30.0, -10.0), (-75.0, 6.0), (180.0, 12.0)])
def test_a_box_stands_where_the_contract_says(yaw: float, right: float) -> None:
    ahead, side = 20.0, 5.0
    sin, cos = np.sin(np.radians(yaw)), np.cos(np.radians(yaw))
    x, z = cos * right + sin * ahead, cos * ahead - sin * right
    ids = MaskPainter(_one_box(Box(x, z, side, side, 6.0, yaw, "CAFE", "red"), yaw)).frame(0)
    own = (ids == BODY) | ((ids >= PLATE) & (ids < PLATE + 4))
    rows, columns = np.flatnonzero(own.any(1)), np.flatnonzero(own[-1 - np.argmax(own.any(1)[::-1])])
    front = ahead - side / 2
    assert rows[-1] == pytest.approx(CY + FOCAL * 4.0 / front, abs=1)  # depth z = f·h / (row − cy)
    assert columns.mean() == pytest.approx(CX + FOCAL * right / front, abs=1)
    assert bearing(0, 0, yaw, x, z) == pytest.approx(np.degrees(np.arctan2(right, ahead)))


def test_the_near_box_hides_the_far_one_from_every_direction() -> None:
    near_far = [
        (
            Box(10 * np.sin(a), 10 * np.cos(a), 4, 4, 6, float(np.degrees(a)), "A", "red"),
            Box(18 * np.sin(a), 18 * np.cos(a), 4, 4, 6, float(np.degrees(a)), "B", "blue"),
        )
        for a in np.radians(np.arange(0, 360, 30))
    ]
    for pair in near_far:
        yaw = pair[0].yaw
        for boxes in (pair, pair[::-1]):
            scene = Scene("city", 0, boxes, (), np.array([[0.0, 0.0, yaw]]))
            seen = {
                label.word for value, label in id_table(scene).items() if (MaskPainter(scene).frame(0) == value).any()
            }
            assert seen == {"A"}


def _cast(scene: Scene, frame: int, row: int, column: int) -> int:
    """Id of a pixel by intersecting its ray with every box: slow, and independent of the painter."""
    x, z, yaw = scene.poses[frame]
    across, down = (column - CX) / FOCAL, (row - CY) / FOCAL
    sin, cos = np.sin(np.radians(yaw)), np.cos(np.radians(yaw))
    ray = np.array([cos * across + sin, -down, cos - sin * across])
    best, found = np.inf, GROUND if row >= 120 else FAR
    boxes = (*scene.buildings, *scene.landmarks)
    for index, box in enumerate(boxes):
        turn_sin, turn_cos = np.sin(np.radians(box.yaw)), np.cos(np.radians(box.yaw))

        def local(vector: np.ndarray, c: float = turn_cos, s: float = turn_sin) -> np.ndarray:
            return np.array([c * vector[0] - s * vector[2], vector[1], s * vector[0] + c * vector[2]])

        start = local(np.array([x - box.x, scene.camera_height, z - box.z]))
        step = local(ray)
        step = np.where(np.abs(step) < 1e-9, 1e-9, step)
        low = (np.array([-box.width / 2, 0.0, -box.depth / 2]) - start) / step
        high = (np.array([box.width / 2, box.height, box.depth / 2]) - start) / step
        enter, leave = np.minimum(low, high).max(), np.maximum(low, high).min()
        if 0 < enter < leave and enter < best:
            best, found = enter, GREY if index < len(scene.buildings) else BODY + index - len(scene.buildings)
    return found


@pytest.mark.parametrize("scene", [_city(3), _city(4, 5), _room(5)], ids=["city", "city-5-steps", "room"])
def test_masks_agree_with_ray_casting(scene: Scene) -> None:
    rng = np.random.default_rng(0)
    painter = MaskPainter(scene)
    wrong = total = 0
    for frame in rng.integers(0, scene.n_frames, 12):
        ids = painter.frame(int(frame)).astype(int)
        plates = (ids >= PLATE) & (ids < PLATE + 32)
        ids[plates] = BODY + (ids[plates] - PLATE) // 4
        ids[ids >= FAR] = FAR
        # Pixels on a border may fall to either side.
        inner = cv2.erode(np.uint8(cv2.Laplacian(ids.astype(np.float32), cv2.CV_32F) == 0), np.ones((3, 3), np.uint8))
        for row, column in rng.permutation(np.argwhere(inner))[:60]:
            total += 1
            wrong += _cast(scene, int(frame), int(row), int(column)) != ids[row, column]
    assert wrong <= 0.005 * total, f"{wrong} of {total} pixels differ"


def test_colour_is_where_the_masks_say_and_nowhere_else() -> None:
    for kind, seed in (("city", 1), ("room", 1)):
        clip = render_clip(kind, seed)
        masks = MaskPainter(clip.scene)
        for frame in range(0, len(clip.frames), 20):
            hsv = cv2.cvtColor(clip.frames[frame], cv2.COLOR_RGB2HSV)
            ids = masks.frame(frame)
            inner = cv2.erode(
                np.uint8(cv2.Laplacian(ids.astype(np.float32), cv2.CV_32F) == 0), np.ones((3, 3), np.uint8)
            )
            grey = (inner > 0) & ((ids <= GREY) | (ids >= FAR))
            assert np.percentile(hsv[..., 1][grey], 99.9) < 0.33 * 255
            for index, box in enumerate(clip.scene.landmarks):
                own = (inner > 0) & (ids == BODY + index)
                if own.sum() > 50:
                    wanted = cv2.cvtColor(np.uint8([[COLOURS[box.colour]]]), cv2.COLOR_RGB2HSV)[0, 0]
                    away = np.abs(wrap_degrees(2.0 * (hsv[..., 0][own].astype(float) - float(wanted[0]))))
                    assert np.median(away) < 5 and np.median(hsv[..., 1][own]) > 0.5 * 255
                plate = (inner > 0) & (ids >= PLATE + 4 * index) & (ids < PLATE + 4 * index + 4)
                if plate.sum() > 400:
                    values = hsv[..., 2][plate]
                    assert np.percentile(values, 75) > 200 and values.min() < 90  # black on white


def test_colours_differ_in_hue() -> None:
    hues = [2.0 * cv2.cvtColor(np.uint8([[rgb]]), cv2.COLOR_RGB2HSV)[0, 0, 0] for rgb in COLOURS.values()]
    gaps = [abs(wrap_degrees(a - b)) for i, a in enumerate(hues) for b in hues[:i]]
    assert min(gaps) >= 24


def test_frames_depend_on_the_seed_alone_and_not_on_the_order() -> None:
    scene = _city(9)
    forward = Painter(scene)
    first = [forward.frame(i) for i in (0, 40, 80)]
    backward = Painter(_city(9))
    second = [backward.frame(i) for i in (80, 40, 0)][::-1]
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert not np.array_equal(first[0], Painter(_city(10)).frame(0))
    assert first[0].shape == (240, 320, 3) and first[0].dtype == np.uint8


def test_far_ring_tells_the_heading() -> None:
    for yaw in (0.0, 13.0, 200.0, 359.5):
        scene = _one_box(Box(0.0, -50.0, 4, 4, 6, 0.0, "A", "red"), yaw)
        ids = MaskPainter(scene).frame(0)
        middle = (int(ids[0, 159]) - FAR) * SECTOR, (int(ids[0, 160]) - FAR) * SECTOR
        assert middle[0] <= (yaw - 0.2) % 360 < middle[0] + SECTOR
        assert middle[1] <= (yaw + 0.2) % 360 < middle[1] + SECTOR


def test_faces_cut_at_the_near_plane_stay_finite() -> None:
    box = Box(3.0, 0.5, 4.0, 9.0, 6.0)  # beside the camera: one side runs from ahead to behind
    camera = Camera(0.0, 0.0, 0.0, 4.0)
    views = Faces([box]).views(camera)
    assert [view.side for view in views] == [3]
    assert np.isfinite(views[0].polygon).all() and len(views[0].polygon) == 4
    behind = camera.project_planes(face_planes([Box(0.0, -9.0, 2.0, 2.0, 6.0)]))
    assert all(project_rectangle(homography, 0, 0, 1, 1) is None for homography in behind)


@pytest.mark.parametrize("n_steps", [2, 3, 4, 5])
def test_flights_keep_the_contract(n_steps: int) -> None:
    for seed in range(20):
        rng = derive_rng("flight-test", seed)
        length = int(rng.integers(104, 121))
        flight = draw_flight(rng, length, draw_turns(rng), n_steps)
        assert len(flight.poses) == length
        assert [step.action == "forward" for step in flight.steps] == [i % 2 == 0 for i in range(n_steps)]
        for step in flight.steps:
            part = flight.poses[step.first : step.last + 1]
            moved = np.hypot(*np.diff(part[:, :2], axis=0).T)
            turned = np.diff(part[:, 2])
            if step.action == "forward":
                assert np.allclose(moved, 0.5) and not turned.any() and len(moved) >= 16
            else:
                assert not moved.any() and 10 <= len(turned) <= 14
                assert turned.sum() == pytest.approx(90 if step.action == "right" else -90)


def test_pans_stand_still_and_sweep_over_every_object() -> None:
    for seed in range(20):
        scene = _room(100 + seed)
        assert not scene.poses[:, :2].any()
        speed = np.diff(scene.poses[:, 2])
        assert np.abs(speed).max() < 9 and (speed == 0).sum() >= 2
        assert (speed > 0).any() and (speed < 0).any()  # a reversal
        for box in scene.landmarks:
            away = [abs(bearing(0, 0, yaw, box.x, box.z)) for yaw in scene.poses[:, 2]]
            assert min(away) < 15
