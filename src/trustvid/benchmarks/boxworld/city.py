"""Draws a random city around a random flight: route first, then the street grid through it, landmarks, grey houses."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trustvid.benchmarks.boxworld.backdrop import STREET_HALF_WIDTH
from trustvid.benchmarks.boxworld.world import (
    CITY_WORDS,
    COLOUR_NAMES,
    FLIGHT_SPEED,
    FPS,
    Box,
    Scene,
    Step,
    wrap_degrees,
)

PLANNED_STEPS = 8  # of the route in words; the flight shows the first few of them
MIN_STRETCH = 16  # frames of a straight stretch, at least: 8 m, so that streets never touch
FIRST_STRETCH = (38, 49)  # frames of the first stretch, at least, where the clip is long enough: drawn from this range
TURN_FRAMES = (10, 14)
PAVEMENT = 0.9  # metres between street and house
CITY_RADIUS = 40.0  # metres of city around the flight
NEAR_ZONE = 20.0  # metres around the flight in which houses line the streets
LOW, TALL, LOW_SHARE = (1.1, 2.9), (5.5, 10.0), 0.12  # metres of height of houses there; share of the low ones
# Metres up to which houses do not hide a landmark; one that questions are to be about.
SIGHT, OPEN_SIGHT = (9.0, 12.0), 18.0
# Share of lots without a house: between the flight and a landmark, elsewhere near it, farther away.
EMPTY_IN_VIEW, EMPTY_NEAR, EMPTY_FAR = 0.95, 0.1, 0.12
READING_DISTANCE, READING_ANGLE = (7.0, 20.0), 38.0  # metres and degrees within which a sign may be read
LANDMARK_GAP = 8.5  # metres between landmark centres, at least
LANDMARK_SIDE = (4.2, 6.2)  # metres
LETTER = (0.34, 0.42)  # metres of width of a sign's letters
END_DISTANCE = (7.5, 10.0)  # metres from a corner to the landmark on a street's axis beyond it
SIGHT_WIDTH, HOUSE_CLEARANCE = 1.2, 2.2  # metres to either side of a line of sight free of towers, of houses
# Points tried for a landmark that is to lie in a given sector; degrees around its middle; metres.
SECTOR_TRIES, SECTOR_SPREAD, SECTOR_REACH = 160, 12.0, 40.0

Spot = tuple[float, float, float]  # x, z of the centre, length of a side
Lot = tuple[float, float, float, float]  # x, z of the centre, width, depth


@dataclass(frozen=True)
class Flight:
    """A flight and the plan it follows: turns of the whole plan, steps flown, poses [T, 3]."""

    turns: tuple[str, ...]
    steps: tuple[Step, ...]
    poses: np.ndarray

    @property
    def corners(self) -> list[tuple[float, float, float]]:
        """(x, z, heading) where each straight stretch ends, with the heading in which it was flown."""
        ends = [self.poses[step.last] for step in self.steps if step.action == "forward"]
        return [(float(x), float(z), float(yaw)) for x, z, yaw in ends]


@dataclass(frozen=True)
class CityPlan:
    """A city on paper: enough to know what could be asked, cheap enough to throw away."""

    flight: Flight
    streets_x: tuple[float, ...]
    streets_z: tuple[float, ...]
    lots: tuple[Lot, ...]
    landmarks: tuple[Box, ...]
    sight: tuple[float, ...]  # metres up to which no house hides each landmark


def draw_turns(rng: np.random.Generator) -> tuple[str, ...]:
    """The turns, "left" or "right", of a planned route."""
    return tuple(str(side) for side in rng.choice(["left", "right"], PLANNED_STEPS // 2))


def draw_flight(rng: np.random.Generator, n_frames: int, turns: tuple[str, ...], n_steps: int) -> Flight:
    """The first ``n_steps`` (2–5) steps of a plan with the given turns, in ``n_frames`` (104–120) frames.

    Number of frames, turns and number of steps must have been drawn independently: then none tells of another. The
    first stretch is long enough to see what stands to the left and right of its end.
    """
    flown = n_steps // 2
    turn_frames = rng.integers(TURN_FRAMES[0], TURN_FRAMES[1] + 1, flown)
    stretches = n_steps - flown
    spare = n_frames - 1 - int(turn_frames.sum()) - stretches * MIN_STRETCH
    straight_frames = MIN_STRETCH + _share_out(rng, spare, stretches)
    poses = [(0.0, 0.0, 90.0 * int(rng.integers(4)))]
    steps: list[Step] = []
    for index in range(n_steps):
        first = len(poses) - 1
        action = "forward" if index % 2 == 0 else turns[index // 2]
        if action == "forward":
            _fly(poses, int(straight_frames[index // 2]))
        else:
            _turn(poses, int(turn_frames[index // 2]), 90.0 if action == "right" else -90.0)
        steps.append(Step(action, first, len(poses) - 1))
    return Flight(turns, tuple(steps), np.array(poses))


def _share_out(rng: np.random.Generator, spare: int, stretches: int) -> np.ndarray:
    """Spare frames of each stretch: the first gets up to ``FIRST_STRETCH``, the last half of the rest or more."""
    extra = np.zeros(stretches, int)
    extra[0] = min(int(rng.integers(*FIRST_STRETCH)) - MIN_STRETCH, spare)
    left = spare - extra[0]
    last = int(rng.integers(left // 2, left + 1))
    extra[-1] += last
    for _ in range(left - last):
        extra[int(rng.integers(stretches))] += 1
    return extra


def _fly(poses: list[tuple[float, float, float]], frames: int) -> None:
    x, z, yaw = poses[-1]
    metres = FLIGHT_SPEED / FPS
    dx, dz = np.round((np.sin(np.radians(yaw)), np.cos(np.radians(yaw))))  # headings are multiples of 90 degrees
    poses.extend((x + metres * dx * i, z + metres * dz * i, yaw) for i in range(1, frames + 1))


def _turn(poses: list[tuple[float, float, float]], frames: int, degrees: float) -> None:
    x, z, yaw = poses[-1]
    poses.extend((x, z, yaw + degrees * i / frames) for i in range(1, frames + 1))


def plan_city(rng: np.random.Generator, flight: Flight, sectors: Sequence[int] = ()) -> CityPlan:
    """A random city plan around a flight, if possible with a landmark in each of the given sectors of its end.

    ``sectors`` are eighths of the horizon: 0 straight ahead, rising to the right.
    """
    streets_x = _street_lines({0.0, *(x for x, _, _ in flight.corners)}, rng)
    streets_z = _street_lines({0.0, *(z for _, z, _ in flight.corners)}, rng)
    lots = _lots(flight, streets_x, streets_z, rng)
    site = _Site(flight, streets_x, streets_z)
    landmarks, sight = _landmarks(site, lots, sectors, rng)
    return CityPlan(flight, streets_x, streets_z, lots, landmarks, sight)


def build_city(seed: int, plan: CityPlan, rng: np.random.Generator) -> Scene:
    """The city of a plan, with grey houses on the lots that its landmarks leave free."""
    lots = np.array(plan.lots)
    distances = np.hypot(*(lots[:, None, :2] - plan.flight.poses[None, ::4, :2]).transpose(2, 0, 1)).min(1)
    taken = np.array([[box.x, box.z, box.width + 0.8, box.depth + 0.8] for box in plan.landmarks])
    clash = (
        (np.abs(lots[:, None, :2] - taken[None, :, :2]) < (lots[:, None, 2:] + taken[None, :, 2:]) / 2).all(2).any(1)
    )
    blocking = _blocks_view(plan, lots)
    buildings = []
    for (x, z, width, depth), distance, clashes, blocks in zip(plan.lots, distances, clash, blocking, strict=True):
        near = distance < NEAR_ZONE
        empty = rng.random() < (EMPTY_IN_VIEW if blocks else EMPTY_NEAR if near else EMPTY_FAR)
        height = rng.uniform(*(LOW if rng.random() < LOW_SHARE else TALL)) if near else rng.uniform(2.0, 11.0)
        look = int(rng.integers(1 << 31))
        if not clashes and not empty:
            buildings.append(Box(x, z, width, depth, float(height), look=look))
    flight = plan.flight
    return Scene(
        "city", seed, plan.landmarks, tuple(buildings), flight.poses, plan.streets_x, plan.streets_z, steps=flight.steps
    )


def sight_points(poses: np.ndarray, points: np.ndarray, farthest: np.ndarray) -> np.ndarray:
    """Points [M, 2] on the lines of sight to signs at ``points`` [N, 2] from where they can be read.

    Only from within ``farthest`` [N] metres; beyond that a sign may be hidden.
    """
    some = poses[::4]
    distance = np.hypot(*(points[:, None] - some[None, :, :2]).transpose(2, 0, 1))
    sign, pose = np.nonzero(_readable_from(some, points) & (distance < farthest[:, None]))
    share = np.linspace(0.3, 0.95, 9)[None, :, None]
    return (some[pose, None, :2] * (1 - share) + points[sign, None] * share).reshape(-1, 2)


def _blocks_view(plan: CityPlan, lots: np.ndarray) -> np.ndarray:
    """bool [N]: a house on the lot would stand before a landmark's foot where its sign can be read."""
    boxes = np.array([[box.x, box.z] for box in plan.landmarks])
    points = sight_points(plan.flight.poses, boxes, np.array(plan.sight))[:, None]
    return (np.abs(points - lots[None, :, :2]) < lots[None, :, 2:] / 2 + HOUSE_CLEARANCE).all(2).any(0)


def _street_lines(given: set[float], rng: np.random.Generator) -> tuple[float, ...]:
    """Street centre lines through the ``given`` ones, others between those far apart and outwards at 15–24 m."""
    lines = sorted({round(value, 6) for value in given})
    result = list(lines)
    for low, high in itertools.pairwise(lines):
        parts = int((high - low) // 24)
        result.extend(low + (high - low) * i / (parts + 1) for i in range(1, parts + 1))
    low, high = lines[0], lines[-1]
    while low > lines[0] - CITY_RADIUS:
        low -= rng.uniform(15, 24)
        result.append(low)
    while high < lines[-1] + CITY_RADIUS:
        high += rng.uniform(15, 24)
        result.append(high)
    return tuple(sorted(float(value) for value in result))


def _lots(
    flight: Flight, streets_x: Sequence[float], streets_z: Sequence[float], rng: np.random.Generator
) -> tuple[Lot, ...]:
    """Building lots of all blocks within ``CITY_RADIUS`` of the flight."""
    inset = STREET_HALF_WIDTH + PAVEMENT
    path = flight.poses[::10, :2]
    lots: list[Lot] = []
    for west, east in itertools.pairwise(streets_x):
        for south, north in itertools.pairwise(streets_z):
            columns = _split(west + inset, east - inset, rng)
            rows = _split(south + inset, north - inset, rng)
            block = [((a + b) / 2, (c + d) / 2, b - a, d - c) for a, b in columns for c, d in rows]
            lots.extend(lot for lot in block if min(lot[2:]) > 1.0)
    centres = np.array(lots)[:, None, :2]
    near = np.abs(centres - path[None]).max(2).min(1) < CITY_RADIUS
    return tuple(lot for lot, kept in zip(lots, near, strict=True) if kept)


def _split(low: float, high: float, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Cuts a stretch of a block into lots of about 6 m, with narrow gaps between them."""
    parts = max(1, round((high - low) / rng.uniform(5.5, 8.0)))
    edges = np.linspace(low, high, parts + 1).tolist()
    gap = 0.25
    return [(a + gap * (i > 0), b - gap * (i < parts - 1)) for i, (a, b) in enumerate(itertools.pairwise(edges))]


class _Site:
    """Where landmarks stand so far, and whether one more would fit."""

    def __init__(self, flight: Flight, streets_x: Sequence[float], streets_z: Sequence[float]):
        self.flight = flight
        self.streets = np.array(streets_x), np.array(streets_z)
        self.places: list[Spot] = []
        self.sight: list[float] = []  # metres up to which houses may not hide each
        self._sight = np.zeros((0, 2))  # points that must stay open for the landmarks so far to be seen

    def add(self, spot: Spot | None, sight: float) -> None:
        """Takes a spot if it fits."""
        if spot is not None and self.fits(np.array([spot[:2]]), spot[2])[0]:
            self.places.append(spot)
            self.sight.append(sight)
            clear = sight_points(self.flight.poses, np.array([spot[:2]]), np.array([sight]))
            self._sight = np.concatenate([self._sight, clear])

    def fits(self, points: np.ndarray, side: float) -> np.ndarray:
        """bool [N]: a landmark at a point [N, 2] is off the flight path, away from the others and in no one's way."""
        fits = _steps_to(points, self.flight.poses[::2, :2]) >= side / 2 + STREET_HALF_WIDTH
        if self.places:
            others = np.array(self.places)[None, :, :2]
            fits &= np.hypot(*(points[:, None] - others).transpose(2, 0, 1)).min(1) >= LANDMARK_GAP
        if len(self._sight):
            fits &= _steps_to(points, self._sight) >= side / 2 + SIGHT_WIDTH
        return fits


def _steps_to(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Chebyshev distance [N] of each point [N, 2] to the nearest of the others [M, 2]."""
    return np.abs(points[:, None] - others[None]).max(2).min(1)


def _landmarks(
    site: _Site, lots: Sequence[Lot], sectors: Sequence[int], rng: np.random.Generator
) -> tuple[tuple[Box, ...], tuple[float, ...]]:
    """Coloured towers where questions need them, where they close a view, and beside the flight; and their sight."""
    count = int(rng.integers(5, 9))
    away, *further = _end_spots(site.flight, rng)
    site.add(away, OPEN_SIGHT)
    for sector in sectors:
        site.add(_sector_spot(site, sector, rng), OPEN_SIGHT)
    for spot in further:
        site.add(spot, float(rng.uniform(*SIGHT)))
    table = np.array(lots)
    weights = _readable_from(site.flight.poses[::3], table[:, :2]).sum(1) ** 1.5 + 0.01
    for index in rng.choice(len(lots), len(lots), replace=False, p=weights / weights.sum()):
        if len(site.places) >= count:
            break
        x, z, width, depth = lots[index]
        side = min(width, depth, rng.uniform(*LANDMARK_SIDE))
        if side >= LANDMARK_SIDE[0]:
            site.add((x, z, side), float(rng.uniform(*SIGHT)))
    order = [int(i) for i in rng.permutation(min(len(site.places), len(COLOUR_NAMES)))]
    words, colours = rng.permutation(CITY_WORDS), rng.permutation(COLOUR_NAMES)
    landmarks = tuple(
        Box(
            *(x, z, side, side),
            height=float(rng.uniform(5.6, 7.4)),
            word=str(word),
            colour=str(colour),
            letter=float(rng.uniform(*LETTER)),
            look=int(rng.integers(1 << 31)),
        )
        for (x, z, side), word, colour in zip([site.places[i] for i in order], words, colours, strict=False)
    )
    return landmarks, tuple(site.sight[i] for i in order)


def _end_spots(flight: Flight, rng: np.random.Generator) -> list[Spot | None]:
    """Spots on a street's axis beyond the corners: the first on the side to which the first turn did not go.

    The others, on such sides of later corners or straight on, come with some probability only.
    """
    ways = []
    turns = [step.action for step in flight.steps if step.action != "forward"]
    for number, ((x, z, heading), turn) in enumerate(zip(flight.corners, turns, strict=False)):
        ways.append((x, z, heading + (90.0 if turn == "left" else -90.0), 0.3 if number else 1.0))
        ways.append((x, z, heading, 0.3))
    spots: list[Spot | None] = []
    for x, z, heading, chance in ways:
        angle, distance, side = np.radians(heading), rng.uniform(*END_DISTANCE), rng.uniform(*LANDMARK_SIDE)
        spot = (float(x + distance * np.sin(angle)), float(z + distance * np.cos(angle)), float(side))
        spots.append(spot if rng.random() < chance else None)
    return spots


def _sector_spot(site: _Site, sector: int, rng: np.random.Generator) -> Spot | None:
    """A spot in a sector of the flight's end, inside a block or on a street's axis, and readable on the way."""
    x, z, yaw = (float(value) for value in site.flight.poses[-1])
    spread = rng.uniform(-SECTOR_SPREAD, SECTOR_SPREAD, SECTOR_TRIES)
    if sector % 2 == 0:
        spread[::2] *= 0.1  # towers on a street's axis, where the sector holds one
    angles = np.radians(yaw + 45.0 * sector + spread)
    distances = rng.uniform(6.5, SECTOR_REACH, SECTOR_TRIES)
    points = np.stack([x + distances * np.sin(angles), z + distances * np.cos(angles)], axis=1)
    side = float(rng.uniform(*LANDMARK_SIDE))
    clearance = STREET_HALF_WIDTH + PAVEMENT + side / 2
    off_street = [np.abs(points[:, axis, None] - site.streets[axis]).min(1) > clearance for axis in (0, 1)]
    allowed = (off_street[0] & off_street[1]) | (np.abs(spread) <= 0.1 * SECTOR_SPREAD)
    allowed &= site.fits(points, side)
    weights = (_readable_from(site.flight.poses[::3], points).sum(1) * allowed).astype(float) ** 2
    if not weights.any():
        return None
    chosen = points[int(rng.choice(SECTOR_TRIES, p=weights / weights.sum()))]
    return float(chosen[0]), float(chosen[1]), side


def _readable_from(poses: np.ndarray, points: np.ndarray) -> np.ndarray:
    """bool [N, P]: a sign at a point [N, 2] would be near and central enough to be read from a pose [P, 3]."""
    dx, dz = (points[:, None, axis] - poses[None, :, axis] for axis in (0, 1))
    angle = np.abs(wrap_degrees(np.degrees(np.arctan2(dx, dz)) - poses[None, :, 2]))
    distance = np.hypot(dx, dz)
    return (angle < READING_ANGLE) & (distance > READING_DISTANCE[0]) & (distance < READING_DISTANCE[1])
