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
SPEED, STRETCHES = (7.5, 9.0), 8  # degrees per frame of a pan's stretches, and how many there are
BEYOND = (56.0, 64.0)  # degrees that a pan begins before the first object and ends behind the last: out of view
ARC = (190.0, 228.0)  # degrees of the room in which objects stand
OBJECT_GAP = 0.25  # metres between circles around footprints
VIEW_GAP = 22.0  # degrees between the bearings of two objects, so that none hides another for good


def build_room(seed: int, rng: np.random.Generator, n_frames: int) -> Scene:
    """A random room with up to 8 objects and a pan over all of them in ``n_frames`` (90–120) frames."""
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
    """Yaw [n_frames] in degrees: from the empty side of the room over all objects and on to the empty side again.

    The pan runs at changing speeds, turns back once, stops once, and rests at both ends, where no object is in view.
    """
    ring = np.sort(bearings % 360.0)
    gaps = np.diff(np.concatenate([ring, [ring[0] + 360.0]]))
    widest = int(np.argmax(gaps))
    first = ring[(widest + 1) % len(ring)]
    start, end = first - rng.uniform(*BEYOND), first + 360.0 - gaps[widest] + rng.uniform(*BEYOND)
    path = _sweep(rng, n_frames, end - start)
    return start + path if rng.random() < 0.5 else end - path


def _sweep(rng: np.random.Generator, n_frames: int, span: float) -> np.ndarray:
    """Degrees [n_frames] from 0 to ``span``: rest, sweep with a way back and a stop in it, rest."""
    back, stop, rest = int(rng.integers(2, 5)), int(rng.integers(2, 5)), int(rng.integers(4, 9))
    degrees = rng.dirichlet(np.full(STRETCHES, 4.0)) * span
    frames = degrees / rng.uniform(*SPEED, STRETCHES)
    longest = n_frames - 1 - 2 * back - stop - rest
    frames *= min(1.0, longest / frames.sum())
    moving = int(np.ceil(frames.sum()))
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
    spare = n_frames - len(path)
    before = int(rng.integers(0, spare + 1))
    return np.array([0.0] * before + path + [span] * (spare - before))
