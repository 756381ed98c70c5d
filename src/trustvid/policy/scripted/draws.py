"""What else could be true: draws of the camera's motion and of the places of things, consistent with what was seen.

A bootstrap (Efron 1979) over the sightings of each thing with a model of how tools err. Row 0 of every array is the
estimate itself, free of noise; the other rows are the draws. All rows go through the same geometry, so the share of
draws in which an option wins is the probability that it is right. Angles in degrees, right positive; places in metres
as (x right, z forward of the start pose).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from trustvid.policy.scripted.geometry import EDGE, Camera, unseen_stretches, weighted_median
from trustvid.policy.scripted.reading import Moved, Scene
from trustvid.seeding import derive_rng

ROWS = 81  # the estimate and 80 draws

# How tools err. Chosen on the development split of the embedded benchmark, never on its validation or test split.
PIXELS = 1.5  # standard deviation of a box's edge, pixels
CUT = 0.25  # standard deviation of the hidden edge of a box that the border cuts off, in sizes of what is left
STRAY = 0.1  # chance that a sighting of score 0 is of something else; falls linearly to 0 at score 1
CARRY = 0.9  # chance that an unseen stretch between two turns is a turn as well; half of that beside one turn
SLACK = 1.0  # seconds unseen away from turns in which a turn is as likely as none
PACE = 75.0  # degrees per second of turns, in a video in which none was seen well

Stretch = tuple[float, float, np.ndarray, np.ndarray]  # start, end, yaw [ROWS], metres [ROWS]


class _Sightings(NamedTuple):
    """Boxes that end below the horizon, so that a place on the ground is known.

    Attributes:
        labels: [N] of the boxes.
        spots: [ROWS, N, 2] their places.
        scores: [N] 0–1.
        weights: [N] what each counts for the place of its thing, > 0.
    """

    labels: np.ndarray
    spots: np.ndarray
    scores: np.ndarray
    weights: np.ndarray


class Draws:
    """The rows of one scene.

    Args:
        scene: what the messages say.
        camera: of the question; speed 0 when it only turns.

    Attributes:
        starts, ends: [S] seconds of the stretches of motion, seen and unseen ones, in time order.
        yaws, metres: [ROWS, S] by which the camera turns and flies on in each.
    """

    def __init__(self, scene: Scene, camera: Camera):
        self._scene, self._camera = scene, camera
        rng = derive_rng("motion", scene.question)
        # A camera that flies wherever it does not turn was misjudged where it seems to do something else.
        seen = [part for part in scene.motion if part.turns or part.label == "forward" or not camera.speed]
        pace = _pace(seen)
        stretches = [self._draw_seen(part, pace, rng) for part in seen]
        stretches += [self._draw_unseen(*gap, pace, rng) for gap in unseen_stretches(seen, scene.duration)]
        stretches.sort(key=lambda stretch: stretch[:2])
        self.starts = np.array([start for start, _, _, _ in stretches])
        self.ends = np.array([end for _, end, _, _ in stretches])
        self.yaws = np.array([yaw for _, _, yaw, _ in stretches]).reshape(-1, ROWS).T
        self.metres = np.array([metres for _, _, _, metres in stretches]).reshape(-1, ROWS).T

    # -- motion ----------------------------------------------------------------------------------------------------

    def _draw_seen(self, part: Moved, pace: float, rng: np.random.Generator) -> Stretch:
        """A turn that was seen badly may have gone further than was measured, at most at the pace of the others."""
        length = part.end - part.start
        yaw = np.full(ROWS, part.yaw)
        if part.turns:
            lacking = max(0.0, pace * length - abs(part.yaw)) * (1.0 - part.score)
            yaw[1:] += math.copysign(lacking, part.yaw) * rng.random(ROWS - 1)
        flown = self._camera.speed * length if part.label == "forward" else 0.0
        return part.start, part.end, yaw, np.full(ROWS, flown)

    def _draw_unseen(
        self, start: float, end: float, neighbours: Sequence[Moved], pace: float, rng: np.random.Generator
    ) -> Stretch:
        """An unseen stretch either turns throughout, as its neighbours do, or flies on; the estimate stands still."""
        length = end - start
        senses = [math.copysign(1.0, part.yaw) for part in neighbours if part.turns]
        turns = rng.random(ROWS) < max(CARRY * len(senses) / 2, length / (length + SLACK))
        yaw = turns * rng.choice(senses or (-1.0, 1.0), ROWS) * pace * length
        metres = ~turns * self._camera.speed * length
        yaw[0] = metres[0] = 0.0
        return start, end, yaw, metres

    def _done(self, times: np.ndarray) -> np.ndarray:
        """Share of each stretch that is over at each of the times [T]: [S, T]."""
        lengths = np.maximum(self.ends - self.starts, 1e-9)
        return np.clip((times - self.starts[:, None]) / lengths[:, None], 0.0, 1.0)

    def headings(self, times: np.ndarray) -> np.ndarray:
        """Heading of the camera at times [T]: [ROWS, T]."""
        return self.yaws @ self._done(times)

    def positions(self, times: np.ndarray) -> np.ndarray:
        """Place of the camera at times [T] by dead reckoning: [ROWS, T, 2]."""
        middle, done = np.radians(self.headings((self.starts + self.ends) / 2)), self._done(times)
        return np.stack([(self.metres * np.sin(middle)) @ done, (self.metres * np.cos(middle)) @ done], axis=-1)

    # -- places ----------------------------------------------------------------------------------------------------

    @cached_property
    def _sightings(self) -> _Sightings:
        """Every box placed on the ground: depth from its bottom edge, f·h/v, and direction from its middle."""
        camera, shape = self._camera, self._scene.height / max(self._scene.width, 1)
        boxes = [box for box in self._scene.boxes if (box.box[3] - 0.5) * shape > 0.01]
        x0, _, x1, y1 = np.array([box.box for box in boxes]).reshape(-1, 4).T
        sides, bottom = (x0 < EDGE) | (x1 > 1 - EDGE), y1 > 1 - EDGE
        noise = derive_rng("sightings", self._scene.question).standard_normal((2, ROWS, len(boxes)))
        noise[:, 0] = 0.0
        pixel = PIXELS / max(self._scene.width, 1)
        below = (y1 - 0.5) * shape
        below = np.maximum(below + noise[0] * pixel + np.abs(noise[0]) * CUT * below * bottom, 0.01)
        depth = camera.focal * camera.height / below
        # The bottom edge belongs to the near face; the thing's middle is behind it.
        ahead = depth + 0.4 * np.minimum((x1 - x0) * depth / camera.focal, depth)
        middle = (x0 + x1) / 2 - 0.5 + noise[1] * (pixel + CUT * (x1 - x0) * sides)
        aside = ahead * middle / camera.focal
        times = np.array([box.time for box in boxes])
        headings = self.headings(times)
        # The heading told for a frame is finer than that along a stretch; the draws vary about it.
        told = [self._scene.headings.get(box.frame, at) for box, at in zip(boxes, headings[0], strict=True)]
        angle = np.radians(headings + told - headings[0])
        x = aside * np.cos(angle) + ahead * np.sin(angle)
        z = ahead * np.cos(angle) - aside * np.sin(angle)
        scores = np.array([box.score for box in boxes])
        whole = np.where(sides, 0.15, 1.0) * np.where(bottom, 0.15, 1.0)
        return _Sightings(
            np.array([box.label for box in boxes], dtype=str),
            self.positions(times) + np.stack([x, z], axis=-1),
            scores,
            np.maximum(scores, 0.01) * whole / np.maximum(depth[0], 1.0),
        )

    def places(self, words: Sequence[str]) -> tuple[dict[str, np.ndarray], list[str]]:
        """Places [ROWS, 2] of the things that carry words, and which of the words were never placed.

        The latter are placed at random, or not at all where nothing else was sighted either.
        """
        known = {word: self._place(word) for word in words}
        lost = [word for word, place in known.items() if place is None]
        if not len(self._sightings.labels):
            return {}, lost
        somewhere = {word: self._elsewhere(self._rng_of(word), 1)[:, 0] for word in lost}
        return known | somewhere, lost

    def _place(self, word: str) -> np.ndarray | None:
        """Place of the thing that carries a word; None when it was never placed.

        The estimate is the weighted median of each coordinate over all sightings. A draw takes as many sightings with
        replacement, some of them of something else, and the word stands on another thing as often as readings say so.
        """
        thing, share = self._scene.links.get(word.upper(), ("", 0.0))
        labels, spots, scores, weights = self._sightings
        mine = np.flatnonzero(labels == thing)
        if not len(mine):
            return None
        rng = self._rng_of(word)
        picked = rng.choice(mine, size=(ROWS, len(mine)), p=weights[mine] / weights[mine].sum())
        other = self._elsewhere(rng, len(mine) + 1)
        stray = rng.random(picked.shape) < STRAY * (1.0 - scores[picked])
        drawn = np.where(stray[..., None], other[:, 1:], spots[np.arange(ROWS)[:, None], picked])
        linked = rng.random(ROWS) < share
        places = np.where(linked[:, None], np.median(drawn, axis=1), other[:, 0])
        places[0] = [weighted_median(spots[0, mine, axis], weights[mine]) for axis in (0, 1)]
        return places

    def _rng_of(self, word: str) -> np.random.Generator:
        return derive_rng("place", self._scene.question, word)

    @cached_property
    def _middle(self) -> np.ndarray:
        """Mean place of the camera, [ROWS, 1, 2]."""
        return self.positions(np.linspace(0.0, self._scene.duration, 9)).mean(axis=1, keepdims=True)

    @cached_property
    def _reach(self) -> np.ndarray:
        """Distances of all sightings from there, [ROWS, N]."""
        x, z = np.moveaxis(self._sightings.spots - self._middle, -1, 0)
        return np.hypot(x, z)

    def _elsewhere(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Places [ROWS, count, 2] of anything: in any direction from mid-flight, as far off as things are."""
        distance = self._reach[np.arange(ROWS)[:, None], rng.integers(self._reach.shape[1], size=(ROWS, count))]
        angle = rng.uniform(0.0, 2 * math.pi, (ROWS, count))
        return self._middle + np.stack([distance * np.sin(angle), distance * np.cos(angle)], axis=-1)


def _pace(motion: Sequence[Moved]) -> float:
    """Degrees per second of the fastest turn that was seen well and for long enough to tell."""
    turns = [part for part in motion if part.turns and part.score > 0.5 and part.end - part.start > 0.35]
    return max((abs(part.yaw) / (part.end - part.start) for part in turns), default=PACE)
