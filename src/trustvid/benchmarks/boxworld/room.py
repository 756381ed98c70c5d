"""Draws a random room: objects around a camera that stands still and pans over them."""

from __future__ import annotations

import numpy as np

from trustvid.benchmarks.boxworld.world import (
    COLOUR_NAMES,
    ROOM_WORDS,
    Box,
    Scene,
    wrap_degrees,
)

NEAREST = 2.35  # metres from the camera to an object's centre: its foot must be in the picture
LETTER = (0.105, 0.135)  # metres of width of a sign's letters
SPEED, STRETCHES = (6.5, 8.5), 8  # degrees per frame of a pan's stretches, and how many there are
BEYOND = (60.0, 66.0)  # degrees that a pan begins before the first object and ends behind the last: out of view
SLOW = 2.0  # degrees per frame of a slow look, at most
MIN_REST = 10  # frames, at least, of the two slow looks at the empty side together
ARC = (190.0, 228.0)  # degrees of the room in which objects stand
OBJECT_GAP = 0.25  # metres between circles around footprints
VIEW_GAP = 22.0  # degrees between the bearings of two objects, so that none hides another for good


def build_room(seed: int, rng: np.random.Generator, n_frames: int) -> Scene:
    """A random room with up to 8 objects and a pan over all of them in ``n_frames`` (104–120) frames."""
    walls = tuple(float(sign * rng.uniform(3.4, 4.8)) for sign in (-1, 1, -1, 1))
    objects = _objects(rng, walls)
    poses = np.zeros((n_frames, 3))
    poses[:, 2] = _pan(rng, len(poses), np.array([np.degrees(np.arctan2(box.x, box.z)) for box in objects]))
    return Scene("room", seed, tuple(objects), (), poses, walls=walls)


def _objects(rng: np.random.Generator, walls: tuple[float, float, float, float]) -> list[Box]:
    count = int(rng.integers(5, 9))
    words, colours = rng.permutation(ROOM_WORDS), rng.permutation(COLOUR_NAMES)
    west, east, south, north = walls
    placed: list[Box] = []
    middle, arc = rng.uniform(-180, 180), rng.uniform(*ARC)
    for _ in range(400):
        if len(placed) == count:
            break
        angle, distance = middle + rng.uniform(-arc / 2, arc / 2), rng.uniform(NEAREST, 4.0)
        x, z = distance * np.sin(np.radians(angle)), distance * np.cos(np.radians(angle))
        width, depth = rng.uniform(0.7, 1.1), rng.uniform(0.55, 1.0)
        reach = np.hypot(width, depth) / 2
        inside = west + reach < x < east - reach and south + reach < z < north - reach
        apart = all(
            abs(wrap_degrees(angle - np.degrees(np.arctan2(box.x, box.z)))) > VIEW_GAP
            and np.hypot(x - box.x, z - box.z) > reach + np.hypot(box.width, box.depth) / 2 + OBJECT_GAP
            for box in placed
        )
        if inside and apart and distance - reach > 1.95:
            index = len(placed)
            yaw = angle + rng.uniform(-32, 32)
            height = rng.uniform(0.5, 1.1)
            look = int(rng.integers(1 << 31))
            placed.append(
                Box(
                    *(x, z, width, depth, height, float(yaw)),
                    word=str(words[index]),
                    colour=str(colours[index]),
                    letter=float(rng.uniform(*LETTER)),
                    look=look,
                )
            )
    return placed


def _pan(rng: np.random.Generator, n_frames: int, bearings: np.ndarray) -> np.ndarray:
    """Yaw [n_frames] in degrees: a slow look at the empty side, a sweep over the objects, a slow look again.

    Hardly an object is in view during the slow looks. The sweep changes its speed, turns back once and stops once.
    """
    ring = np.sort(bearings % 360.0)
    gaps = np.diff(np.concatenate([ring, [ring[0] + 360.0]]))
    widest = int(np.argmax(gaps))
    start = ring[(widest + 1) % len(ring)] - rng.uniform(*BEYOND)
    span = 360.0 - gaps[widest] + 2 * rng.uniform(*BEYOND)
    sweep = _sweep(rng, n_frames - MIN_REST, span)
    rest = n_frames - len(sweep)
    before = int(rng.integers(MIN_REST // 2, rest - MIN_REST // 2 + 1))
    empty = max(0.0, gaps[widest] - 2 * BEYOND[0])
    drift = np.minimum(empty * rng.uniform(0.5, 1.0, 2), SLOW * np.array([before, rest - before]))
    path = np.concatenate(
        [
            np.linspace(-drift[0], 0.0, before, endpoint=False),
            sweep,
            np.linspace(span + drift[1], span, rest - before, endpoint=False)[::-1],
        ]
    )
    return start + path if rng.random() < 0.5 else start + span - path


def _sweep(rng: np.random.Generator, longest: int, span: float) -> np.ndarray:
    """Degrees from 0 to ``span`` in at most ``longest`` frames, with a way back and a stop in between."""
    back, stop = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    degrees = rng.dirichlet(np.full(STRETCHES, 4.0)) * span
    frames = degrees / rng.uniform(*SPEED, STRETCHES)
    frames *= min(1.0, (longest - 1 - 2 * back - stop) / frames.sum())
    moving = int(np.floor(frames.sum()))
    done = np.interp(
        np.linspace(0, frames.sum(), moving + 1),
        np.concatenate([[0.0], np.cumsum(frames)]),
        np.concatenate([[0.0], np.cumsum(degrees)]),
    )
    away = np.concatenate([np.arange(1, back + 1), np.arange(back - 1, -1, -1)]) * rng.uniform(4.0, 6.0)
    turn, at = int(rng.integers(moving // 4, moving)), int(rng.integers(moving // 4, moving))
    path: list[float] = []
    for index, value in enumerate(done):
        path.append(value)
        if index == at:
            path.extend([value] * stop)
        if index == turn:
            path.extend(value - away)
    return np.array(path)
