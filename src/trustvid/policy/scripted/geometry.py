"""Where things are, from boxes, headings and the camera of the question. Angles in degrees, right positive."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from trustvid.policy.scripted.reading import Moved, Scene, Seen

EDGE = 0.012  # a box this close to the picture's border (share of the picture) is cut off there
TURN = 45.0  # a stretch that turns by more than this is a turn of the route, not a wobble


@dataclass(frozen=True)
class Camera:
    """A level pinhole camera: height above ground in metres, focal length in picture widths, speed in m/s."""

    height: float
    focal: float
    speed: float


@dataclass(frozen=True)
class Spot:
    """A thing's place on the ground in metres (x right, z forward of the start pose) and the weight of the finding."""

    x: float
    z: float
    weight: float


def camera_of(question: str) -> Camera | None:
    """The camera as the question states it, or None when it states none."""
    height = re.search(r"([\d.]+) m above", question)
    view = re.search(r"field of view of ([\d.]+) degrees", question)
    if not height or not view:
        return None
    speed = re.search(r"at ([\d.]+) m/s", question)
    focal = 0.5 / math.tan(math.radians(float(view[1])) / 2)
    return Camera(float(height[1]), focal, float(speed[1]) if speed else 0.0)


def heading_at(scene: Scene, time: float) -> float:
    """Heading at a time, from the stretches of motion (linear inside a stretch)."""
    total = 0.0
    for part in scene.motion:
        if part.start < time:
            total += part.yaw * min(1.0, (time - part.start) / max(part.end - part.start, 1e-9))
    return total


def position_at(scene: Scene, camera: Camera, time: float) -> tuple[float, float]:
    """Dead reckoning: metres (x, z) from the start, moving at the stated speed wherever the motion says forward."""
    x = z = 0.0
    for part in scene.motion:
        if part.label == "forward" and part.start < time:
            distance = camera.speed * (min(time, part.end) - part.start)
            heading = math.radians(heading_at(scene, (part.start + min(time, part.end)) / 2))
            x, z = x + distance * math.sin(heading), z + distance * math.cos(heading)
    return x, z


def bearing_in_view(seen: Seen, camera: Camera) -> float:
    """Bearing of a box's centre from the optical axis."""
    return math.degrees(math.atan2((seen.box[0] + seen.box[2]) / 2 - 0.5, camera.focal))


def sighting(seen: Seen, scene: Scene, camera: Camera) -> Spot | None:
    """Ground place of one sighting: depth from the bottom edge, f·h/v; None when the box ends above the horizon."""
    x0, _, x1, y1 = seen.box
    below = (y1 - 0.5) * scene.height / scene.width
    if below <= 0.01:
        return None
    depth = camera.focal * camera.height / below
    width = (x1 - x0) * depth / camera.focal
    centre = depth + 0.4 * min(
        width, depth
    )  # the bottom edge belongs to the near face, the thing's middle is behind it
    lateral = centre * ((x0 + x1) / 2 - 0.5) / camera.focal
    heading = scene.headings.get(seen.frame, heading_at(scene, seen.time))
    weight = 1.0
    if x0 < EDGE or x1 > 1 - EDGE:
        weight *= 0.15
    if y1 > 1 - EDGE:
        weight *= 0.15
    angle = math.radians(heading)
    px, pz = position_at(scene, camera, seen.time)
    x = px + lateral * math.cos(angle) + centre * math.sin(angle)
    z = pz - lateral * math.sin(angle) + centre * math.cos(angle)
    return Spot(x, z, weight * seen.score / max(depth, 1.0))


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The value at which half of the weight is reached. Values and weights [n], n ≥ 1."""
    pairs = sorted(zip(values, weights, strict=True))
    half, total = sum(weights) / 2, 0.0
    for value, weight in pairs:
        total += weight
        if total >= half:
            return value
    return pairs[-1][0]


def locate(thing: str, scene: Scene, camera: Camera) -> Spot | None:
    """Place of a thing from all its sightings (weighted median of each coordinate); None when it was never placed."""
    spots = [s for box in scene.boxes if box.label == thing and (s := sighting(box, scene, camera))]
    if not spots:
        return None
    weights = [spot.weight for spot in spots]
    x = weighted_median([spot.x for spot in spots], weights)
    z = weighted_median([spot.z for spot in spots], weights)
    return Spot(x, z, sum(weights))


def bearing(origin: tuple[float, float], heading: float, spot: Spot) -> float:
    """Bearing of a place seen from ``origin`` looking along ``heading``, in (−180, 180]."""
    absolute = math.degrees(math.atan2(spot.x - origin[0], spot.z - origin[1]))
    return wrap(absolute - heading)


def wrap(angle: float) -> float:
    """An angle in (−180, 180]."""
    return -((180.0 - angle) % 360.0 - 180.0)


def turns_of(motion: Sequence[Moved]) -> list[Moved]:
    """The turns of a route: consecutive stretches of the same sense joined, those beyond ``TURN`` kept."""
    joined: list[Moved] = []
    for part in motion:
        if not part.label.startswith("turn"):
            continue
        last = joined[-1] if joined else None
        if last and last.label == part.label and part.start - last.end < 0.35:
            joined[-1] = Moved(last.start, part.end, part.label, last.yaw + part.yaw, min(last.score, part.score))
        else:
            joined.append(part)
    return [part for part in joined if abs(part.yaw) > TURN]
