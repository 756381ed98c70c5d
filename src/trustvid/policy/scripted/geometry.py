"""Camera, angles and the stretches of a route. Angles in degrees, right positive; arrays are taken elementwise."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trustvid.policy.scripted.reading import Moved

EDGE = 0.012  # a box this close to the picture's border (share of the picture) is cut off there
TURN = 45.0  # a stretch that turns by more than this is a turn of the route, not a wobble
ROUNDING = 0.02  # seconds; times are told to 0.01 s


@dataclass(frozen=True)
class Camera:
    """A level pinhole camera: height above ground in metres, focal length in picture widths, speed in m/s."""

    height: float
    focal: float
    speed: float


def camera_of(question: str) -> Camera | None:
    """The camera as the question states it, or None when it states none."""
    height = re.search(r"([\d.]+) m above", question)
    view = re.search(r"field of view of ([\d.]+) degrees", question)
    if not height or not view:
        return None
    speed = re.search(r"at ([\d.]+) m/s", question)
    focal = 0.5 / math.tan(math.radians(float(view[1])) / 2)
    return Camera(float(height[1]), focal, float(speed[1]) if speed else 0.0)


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The value at which half of the weight is reached. Values and weights [n], n ≥ 1."""
    pairs = sorted(zip(values, weights, strict=True))
    half, total = sum(weights) / 2, 0.0
    for value, weight in pairs:
        total += weight
        if total >= half:
            return value
    return pairs[-1][0]


def direction(origin: np.ndarray, goal: np.ndarray) -> np.ndarray:
    """Direction from one place to another, both [..., 2] as x (right) and z (forward of the start pose): [...]."""
    x, z = np.moveaxis(goal - origin, -1, 0)
    return np.degrees(np.arctan2(x, z))


def wrap(angle: np.ndarray) -> np.ndarray:
    """Angles in (−180, 180]."""
    return -((180.0 - angle) % 360.0 - 180.0)


def turns_of(motion: Sequence[Moved]) -> list[Moved]:
    """The turns of a route: consecutive stretches of the same sense joined, those beyond ``TURN`` kept."""
    joined: list[Moved] = []
    for part in motion:
        if not part.turns:
            continue
        last = joined[-1] if joined else None
        if last and last.label == part.label and part.start - last.end < 0.35:
            joined[-1] = Moved(last.start, part.end, part.label, last.yaw + part.yaw, min(last.score, part.score))
        else:
            joined.append(part)
    return [part for part in joined if abs(part.yaw) > TURN]


def unseen_stretches(motion: Sequence[Moved], duration: float) -> list[tuple[float, float, list[Moved]]]:
    """Start, end and neighbours of the stretches of time that ``motion`` (in time order) leaves out, ends included."""
    edges = [None, *motion, None]
    unseen = []
    for before, after in itertools.pairwise(edges):
        start, end = before.end if before else 0.0, after.start if after else duration
        if end - start > ROUNDING:
            unseen.append((start, end, [part for part in (before, after) if part]))
    return unseen
