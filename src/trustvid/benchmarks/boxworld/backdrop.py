"""What surrounds the boxes: the city's ground and sky, the room's floor, walls and ceiling, as textures."""

from __future__ import annotations

import itertools
from dataclasses import replace

import cv2
import numpy as np

from trustvid.benchmarks.boxworld.geometry import footprints
from trustvid.benchmarks.boxworld.textures import Image8, shade, value_noise
from trustvid.benchmarks.boxworld.world import Scene

STREET_HALF_WIDTH = 2.8  # metres
GROUND_SCALE = 8  # pixels per metre of the city's ground texture
GROUND_MARGIN = 38.0  # metres of ground around the flight path
FLOOR_SCALE = 48  # pixels per metre of the room's floor
HAZE = (186, 196, 204)
WALL_HEIGHT = 2.7  # metres
WALL_SCALE = 48  # pixels per metre of a wall
SKY_PER_DEGREE = 10  # columns of the panorama per degree
SKY_ROWS = 130  # rows above the horizon
SHADOW = 0.72


def city_ground(scene: Scene, rng: np.random.Generator) -> tuple[Image8, float, float]:
    """The ground seen from above, north up, and the world position (x, z) of its top left corner, in metres."""
    west, east = scene.poses[:, 0].min() - GROUND_MARGIN, scene.poses[:, 0].max() + GROUND_MARGIN
    south, north = scene.poses[:, 1].min() - GROUND_MARGIN, scene.poses[:, 1].max() + GROUND_MARGIN
    width, height = round((east - west) * GROUND_SCALE), round((north - south) * GROUND_SCALE)

    def column(x: float) -> int:
        return round((x - west) * GROUND_SCALE)

    def row(z: float) -> int:
        return round((north - z) * GROUND_SCALE)

    picture = np.zeros((height, width, 3), np.uint8)
    edges = [0, *sorted(c for c in map(column, scene.streets_x) if 0 < c < width), width]
    rows = [0, *sorted(r for r in map(row, scene.streets_z) if 0 < r < height), height]
    for left, right in itertools.pairwise(edges):
        for top, bottom in itertools.pairwise(rows):
            _pave(picture[top:bottom, left:right], rng)
    half, kerb = round(STREET_HALF_WIDTH * GROUND_SCALE), 5
    asphalt, kerb_colour = (82, 83, 88), (164, 163, 158)
    for extra, colour in ((kerb, kerb_colour), (0, asphalt)):
        for x in scene.streets_x:
            picture[:, max(0, column(x) - half - extra) : max(0, column(x) + half + extra)] = colour
        for z in scene.streets_z:
            picture[max(0, row(z) - half - extra) : max(0, row(z) + half + extra)] = colour
    columns, rows = [column(x) for x in scene.streets_x], [row(z) for z in scene.streets_z]
    _road_marks(picture, columns, rows, half)
    _road_marks(picture.transpose(1, 0, 2), rows, columns, half)
    _shadows(picture, scene, west, north)
    noise = value_noise(rng, height // 2, width // 2, (1, 3, 24), 0.085)
    gain = 1.0 + cv2.resize(noise, (width, height), interpolation=cv2.INTER_LINEAR)
    return shade(picture, gain), west, north


def _pave(block: Image8, rng: np.random.Generator) -> None:
    """Fills a block between streets: slabs of some size and tone, now and then with lawns (of low saturation too)."""
    tone = rng.uniform(122, 146)
    block[:] = (tone, tone - 2, tone - 9)
    pitch = int(rng.choice([10, 16, 24]))
    block[::pitch] = (tone - 16, tone - 18, tone - 25)
    block[:, ::pitch] = (tone - 16, tone - 18, tone - 25)
    height, width = block.shape[:2]
    for _ in range(int(rng.integers(0, 4))):
        if min(height, width) < 96:
            return
        top, left = int(rng.integers(36, height - 56)), int(rng.integers(36, width - 56))
        tall, wide = (int(value) for value in rng.integers(20, 90, 2))
        lawn = block[top : min(top + tall, height - 36), left : min(left + wide, width - 36)]
        lawn[:] = (150, 150, 144)
        lawn[3:-3, 3:-3] = (106, 116, 99)


def _road_marks(picture: Image8, streets: list[int], crossings: list[int], half: int) -> None:
    """Dashed centre lines along the columns of ``streets``, zebra crossings before each of ``crossings``."""
    paint = (214, 214, 208)
    height = picture.shape[0]
    for street in streets:
        if not half < street < picture.shape[1] - half:
            continue
        free = np.ones(height, bool)
        for crossing in crossings:
            free[max(0, crossing - half - 12) : max(0, crossing + half + 12)] = False
        dashes = free & (np.arange(height) % 24 < 13)
        picture[dashes, street - 1 : street + 1] = paint
        for crossing in crossings:
            for start in (crossing - half - 12, crossing + half + 3):
                if start < 0 or start + 9 >= height:
                    continue
                for left in range(street - half + 3, street + half - 4, 8):
                    picture[start : start + 9, left : left + 4] = paint


def _shadows(picture: Image8, scene: Scene, west: float, north: float) -> None:
    """Darkens the ground to the north-east of every box: the sun stands in the south-west."""
    shadow = np.full(picture.shape[:2], 255, np.uint8)
    boxes = (*scene.buildings, *scene.landmarks)
    for box, foot in zip(boxes, footprints(boxes), strict=True):
        reach = 0.35 * min(box.height, 5.0)
        corners = np.concatenate([foot, foot + np.array([reach, reach])])
        pixels = (corners - np.array([west, north])) * np.array([GROUND_SCALE, -GROUND_SCALE])
        hull = cv2.convexHull(np.round(pixels).astype(np.int32))
        cv2.fillConvexPoly(shadow, hull, round(255 * SHADOW))
    shadow = cv2.blur(shadow, (5, 5))
    picture[:] = cv2.multiply(picture, cv2.merge([shadow] * 3), scale=1 / 255)


def room_floor(scene: Scene, rng: np.random.Generator) -> tuple[Image8, float, float]:
    """Planks seen from above, with soft shadows around the objects; and the position (x, z) of the top left corner."""
    west, east, south, north = scene.walls
    width, height = round((east - west) * FLOOR_SCALE), round((north - south) * FLOOR_SCALE)
    plank, length = 10, 76
    rows = height // plank + 1
    tone = 1.0 + 0.10 * rng.standard_normal((rows, width // length + 2)).astype(np.float32)
    gain = np.ones((height, width), np.float32)
    for index in range(rows):
        shift = int(rng.integers(0, length))
        line = np.repeat(tone[index], length)[shift : shift + width]
        gain[index * plank : (index + 1) * plank] = line
        joints = np.arange(-shift % length, width, length)
        gain[index * plank : (index + 1) * plank, joints] *= 0.72
    gain[::plank] *= 0.74
    grain = value_noise(rng, height, max(2, width // 10), (1, 2), 0.05)
    gain *= 1.0 + cv2.resize(grain, (width, height), interpolation=cv2.INTER_LINEAR)
    shadow = np.full((height, width), 255, np.uint8)
    grown = [replace(box, width=box.width + 0.16, depth=box.depth + 0.16) for box in scene.landmarks]
    for foot in footprints(grown):
        pixels = (foot - np.array([west, north])) * np.array([FLOOR_SCALE, -FLOOR_SCALE])
        cv2.fillConvexPoly(shadow, np.round(pixels).astype(np.int32), 140)
    gain *= cv2.GaussianBlur(shadow, (0, 0), 6).astype(np.float32) / 255
    return shade((150, 144, 134), gain), west, north


def room_wall(length: float, rng: np.random.Generator) -> Image8:
    """A wall of ``length`` metres: wallpaper with stripes, a skirting board, a door or window, picture frames."""
    width, height = round(length * WALL_SCALE), round(WALL_HEIGHT * WALL_SCALE)
    gain = 1.0 + value_noise(rng, height, width, (2, 6, 30), 0.045)
    stripe = int(rng.integers(14, 26))
    gain[:, np.arange(width) % (2 * stripe) < stripe] *= 0.94
    gain[np.arange(height) % 22 < 2] *= 0.965
    picture = shade((178, 176, 170), gain)
    position = 0.5
    while position < length - 1.4:
        _wall_item(picture, position, rng)
        position += rng.uniform(1.4, 2.4)
    picture[-round(0.12 * WALL_SCALE) :] = (112, 109, 104)
    picture[: round(0.06 * WALL_SCALE)] = (204, 203, 200)
    return picture


def _wall_item(picture: Image8, position: float, rng: np.random.Generator) -> None:
    """A framed picture, a window or a door at ``position`` metres from the wall's left end."""
    metres = {"picture": (0.7, 0.55, 1.35), "window": (1.0, 0.95, 1.1), "door": (0.85, 2.05, 0.0)}
    name = ("picture", "picture", "window", "door")[int(rng.integers(4))]
    width, tall, foot = (round(value * WALL_SCALE) for value in metres[name])
    left, bottom = round(position * WALL_SCALE), picture.shape[0] - foot
    area = picture[bottom - tall : bottom, left : left + width]
    level = rng.uniform(70, 130)
    area[:] = (level, level * 0.98, level * 0.95)
    inner = area[4:-4, 4:-4]
    if name == "door":
        inner[:] = (level * 1.15, level * 1.12, level * 1.08)
        inner[8:40, 6:-6] = inner[52:-8, 6:-6] = (level, level * 0.98, level * 0.94)
    elif name == "window":
        inner[:] = np.linspace(225, 190, inner.shape[0])[:, None, None]
        inner[:, inner.shape[1] // 2 - 1 : inner.shape[1] // 2 + 1] = level
        inner[inner.shape[0] // 2 - 1 : inner.shape[0] // 2 + 1] = level
    else:
        blot = 1.0 + value_noise(rng, inner.shape[0], inner.shape[1], (3, 8), 0.35)
        inner[:] = shade((150, 150, 148), blot)


def room_ceiling(width: float, depth: float) -> Image8:
    """A pale ceiling of panels with lamps, ``FLOOR_SCALE`` pixels per metre."""
    picture = np.full((round(depth * FLOOR_SCALE), round(width * FLOOR_SCALE), 3), (206, 205, 202), np.uint8)
    pitch = round(0.6 * FLOOR_SCALE)
    picture[::pitch] = picture[1::pitch] = (182, 181, 178)
    picture[:, ::pitch] = picture[:, 1::pitch] = (182, 181, 178)
    for row in range(pitch, picture.shape[0] - pitch, 4 * pitch):
        for column in range(pitch, picture.shape[1] - pitch, 4 * pitch):
            picture[row + 4 : row + pitch - 3, column + 4 : column + pitch - 3] = (246, 246, 240)
    return picture


def sky_panorama(rng: np.random.Generator) -> Image8:
    """Sky, clouds and a far skyline all around: rows are tan(elevation), columns the azimuth, 90 degrees repeated.

    Row ``SKY_ROWS - 1`` is the horizon; one row is 1/FOCAL of tan(elevation). Column 0 is azimuth -45 degrees.
    """
    round_trip = 360 * SKY_PER_DEGREE
    rise = np.linspace(1, 0, SKY_ROWS, dtype=np.float32)[:, None, None]
    top, low = np.array([126, 152, 182], np.float32), np.array(HAZE, np.float32)
    picture = np.repeat(low + (top - low) * rise**0.8, round_trip, axis=1)
    clouds = np.zeros((SKY_ROWS, round_trip), np.float32)
    for rows, columns, weight in ((4, 40, 0.55), (9, 90, 0.35), (20, 200, 0.2), (40, 400, 0.12)):
        field = rng.standard_normal((rows, columns), dtype=np.float32)
        field = np.concatenate([field, field[:, :1]], axis=1)  # closes the panorama
        clouds += weight * cv2.resize(field, (round_trip, SKY_ROWS), interpolation=cv2.INTER_CUBIC)
    cover = np.clip((clouds - 0.2) * 1.1, 0, 0.7)[..., None] * np.clip(rise * 3, 0, 1)
    picture += (np.array([232, 234, 236], np.float32) - picture) * cover
    picture = np.clip(picture, 0, 255).astype(np.uint8)
    _skyline(picture, rng)
    return np.concatenate([picture, picture[:, : 100 * SKY_PER_DEGREE]], axis=1)


def _skyline(picture: Image8, rng: np.random.Generator) -> None:
    """Two rows of far towers, the farther paler."""
    for level, tallest in ((158, 17), (128, 11)):
        column = 0
        while column < picture.shape[1]:
            width = int(rng.integers(14, 46))
            height = int(rng.integers(3, tallest))
            tone = level + rng.uniform(-16, 16)
            tower = picture[SKY_ROWS - height :, column : column + width - int(rng.integers(0, 8))]
            tower[:] = (tone, tone + 2, tone + 6)
            tower[2::3, 2::4] = (tone - 26, tone - 24, tone - 18)
            column += width
