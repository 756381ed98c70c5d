"""Answers BoxWorld questions from rendered id masks alone: the proof that a question can be answered from its clip.

It gets the id image of every frame, the word of each id, the question and its options. Headings come from the far ring
of ids, positions from where landmarks stand on the ground, everything else from counting pixels. Geometry and rules are
written anew here: no code is shared with the making of scenes or questions, so that an error there shows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from trustvid.benchmarks.boxworld.masks import FAR, GROUND, SECTOR, Label

FOCAL, CENTRE_X, CENTRE_Y = 160.0, 159.5, 119.5  # pixels: 320×240, 90 degrees across
EYE = {"landmark": 4.0, "object": 1.5}  # metres: of the flight, of the pan
METRES_PER_FRAME = 0.5  # 5 m/s at 10 frames per second
TURNING = 3.0  # degrees per frame; a flight turns at 6.4–9, a level flight is measured within 0.4
NEAR_ENOUGH = 18.0  # metres; farther feet are measured too coarsely
SEEN_PIXELS = 40  # of an object that has appeared

_WAYS = {
    "straight ahead": 0, "ahead on the right": 45, "on the right": 90, "behind on the right": 135, "behind": 180,
    "behind on the left": -135, "on the left": -90, "ahead on the left": -45,
    "keep flying straight ahead": 0, "turn right by about 45 degrees": 45, "turn right by about 90 degrees": 90,
    "turn right by about 135 degrees": 135, "turn around": 180, "turn left by about 135 degrees": -135,
    "turn left by about 90 degrees": -90, "turn left by about 45 degrees": -45,
    "left": -90, "right": 90, "back": 180,
    "front-left": -45, "front-right": 45, "back-left": -135, "back-right": 135,
}  # fmt: skip


@dataclass(frozen=True)
class _Place:
    """Centre of a landmark on the ground, in the frame of the camera's first position."""

    x: float
    z: float


class MaskOracle:
    """Solves the questions of one clip.

    Args:
        masks: the id images uint8 [240, 320] of all frames, in order.
        table: the word of every id that belongs to a landmark.

    Raises:
        ValueError: the masks show no heading at all.
    """

    def __init__(self, masks: Iterable[np.ndarray], table: Mapping[int, Label]):
        self._masks = list(masks)
        self._words = sorted({label.word for label in table.values()})
        owner = np.full(256, 255, np.uint8)
        for value, label in table.items():
            owner[value] = self._words.index(label.word)
        self._owners = [owner[mask] for mask in self._masks]  # index of the word of each pixel, 255 for none
        self._yaw = _headings(self._masks)
        self._places: dict[tuple[str, bool], _Place | None] = {}

    def answer(self, question: str, options: Sequence[str]) -> int:
        """Index of the right option.

        Raises:
            ValueError: no task of BoxWorld asks like this, or a landmark it needs is nowhere to be measured.
        """
        for pattern, solve in self._solvers:
            match = re.search(pattern, question)
            if match:
                return solve(self, options, *match.groups())
        raise ValueError(f"the mask oracle knows no task that asks {question!r}")

    def _own(self, word: str, frame: int) -> np.ndarray:
        """bool [240, 320]: the pixels of a landmark in a frame."""
        return self._owners[frame] == self._words.index(word)

    # -- flight ------------------------------------------------------------------------------------------------

    def _turning(self) -> np.ndarray:
        """int [T-1]: -1 turns left, 0 flies forward, 1 turns right from one frame to the next."""
        change = np.diff(self._yaw)
        return np.where(np.abs(change) < TURNING, 0, np.sign(change)).astype(int)

    def _track(self) -> np.ndarray:
        """Positions [T, 2] (x, z) by dead reckoning from the first frame."""
        forward = (self._turning() == 0) * METRES_PER_FRAME
        angle = np.radians((self._yaw[1:] + self._yaw[:-1]) / 2)
        steps = np.stack([forward * np.sin(angle), forward * np.cos(angle)], axis=1)
        return np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])

    def _legs(self) -> list[tuple[int, int, int]]:
        """The flight's steps: (-1, 0 or 1 as in ``_turning``, first frame, last frame)."""
        turning = self._turning()
        borders = [0, *(int(i) + 1 for i in np.flatnonzero(np.diff(turning))), len(turning)]
        return [(int(turning[a]), a, b) for a, b in itertools.pairwise(borders)]

    # -- places ------------------------------------------------------------------------------------------------

    def _place(self, word: str, flying: bool) -> _Place:
        key = (word, flying)
        if key not in self._places:
            self._places[key] = self._square_tower(word) if flying else self._object(word)
        place = self._places[key]
        if place is None:
            raise ValueError(f"the foot of {word} is in none of the masks")
        return place

    def _square_tower(self, word: str) -> _Place | None:
        """Centre of a city landmark: the square that fits the points at its foot, seen from all over the flight."""
        track = self._track()
        points, cameras = [], []
        for frame, mask in enumerate(self._masks):
            right, ahead = _foot(self._own(word, frame), mask, EYE["landmark"])
            near = ahead < NEAR_ENOUGH
            if near.any():
                points.append(_to_world(right[near], ahead[near], track[frame], self._yaw[frame]))
                cameras.append(np.repeat(track[frame][None], int(near.sum()), axis=0))
        if not points:
            return None
        cloud, eyes = np.concatenate(points), np.concatenate(cameras)
        low, high = np.percentile(cloud, 1.0, axis=0), np.percentile(cloud, 99.0, axis=0)
        side = (high - low).max()
        centre = (low + high) / 2
        for axis in (0, 1):
            if high[axis] - low[axis] < 0.7 * side:
                # Only the near face was seen along this axis: the tower extends away from the camera.
                away = np.sign(np.median(cloud[:, axis] - eyes[:, axis]))
                middle = np.median(cloud[:, axis])
                centre[axis] = middle + away * side / 2
        return _Place(float(centre[0]), float(centre[1]))

    def _object(self, word: str) -> _Place | None:
        """Centre of a room's object: median over the frames that show it whole."""
        centres = []
        for frame, mask in enumerate(self._masks):
            own = self._own(word, frame)
            local = _box_centre(own, mask)
            if local is not None:
                right, ahead = (np.array([value]) for value in local)
                centres.append(_to_world(right, ahead, np.zeros(2), self._yaw[frame])[0])
        if not centres:
            return None
        x, z = np.median(np.array(centres), axis=0)
        return _Place(float(x), float(z))

    # -- tasks -------------------------------------------------------------------------------------------------

    def _where(self, options: Sequence[str], word: str) -> int:
        """LP and AG: where a landmark lies as seen from the last frame."""
        place, (x, z) = self._place(word, True), self._track()[-1]
        return _nearest_way(_compass(place.x - x, place.z - z) - self._yaw[-1], options)

    def _counterfactual(self, options: Sequence[str], instead: str) -> int:
        end = self._legs()[0][2]
        x, z = self._track()[end]
        heading = self._yaw[end] + (90.0 if instead == "right" else -90.0)
        return int(np.argmin([self._off_course(word, x, z, heading) for word in options]))

    def _off_course(self, word: str, x: float, z: float, heading: float) -> float:
        try:
            place = self._place(word, True)
        except ValueError:  # a wrong option may be out of sight; the right one never is
            return 360.0
        return abs(_wrap(_compass(place.x - x, place.z - z) - heading))

    def _progress(self, options: Sequence[str]) -> int:
        return list(options).index(str(len(self._legs())))

    def _closest(self, options: Sequence[str], word: str) -> int:
        origin = self._place(word, False)
        places = [self._place(option, False) for option in options]
        return int(np.argmin([np.hypot(place.x - origin.x, place.z - origin.z) for place in places]))

    def _direction(self, options: Sequence[str], stand: str, face: str, sought: str) -> int:
        a, b, c = (self._place(word, False) for word in (stand, face, sought))
        facing, wanted = _compass(b.x - a.x, b.z - a.z), _compass(c.x - a.x, c.z - a.z)
        return _nearest_way(wanted - facing, options)

    def _route(self, options: Sequence[str], start: str, goal: str, first: str, second: str) -> int:
        stops = [self._place(word, False) for word in (start, first, second, goal)]
        legs = [_compass(b.x - a.x, b.z - a.z) for a, b in itertools.pairwise(stops)]
        names = ("left", "right", "back")
        turns = [names[_nearest_way(b - a, names)] for a, b in itertools.pairwise(legs)]
        return list(options).index(", ".join(f"turn {turn}" for turn in turns))

    def _order(self, options: Sequence[str], words: str) -> int:
        first = {}
        for word in words.split(", "):
            seen = [int(self._own(word, frame).sum()) >= SEEN_PIXELS for frame in range(len(self._masks))]
            first[word] = seen.index(True)
        return list(options).index(", ".join(sorted(first, key=first.__getitem__)))

    _solvers = (
        (r"where is the landmark with the sign (\w+) relative", _where),
        (r"fly to the landmark with the sign (\w+)\. What do you do first", _where),
        (r"Suppose you had turned (left|right) there instead", _counterfactual),
        (r"How many steps of the route have you completed", _progress),
        (r"which of these objects is closest to the (\w+)\?", _closest),
        (r"standing at the (\w+) and facing the (\w+)\. Where is the (\w+)\?", _direction),
        (
            r"You stand at the (\w+) facing .* walk to the (\w+): 1\. .* until the (\w+); 2\. .* until the (\w+); 4",
            _route,
        ),
        (r"do these objects first appear in the video: ([\w, ]+)\?", _order),
    )


def _wrap(angle: float) -> float:
    return (angle + 180.0) % 360.0 - 180.0


def _compass(dx: float, dz: float) -> float:
    """Direction of a step on the ground, degrees clockwise from north."""
    return float(np.degrees(np.arctan2(dx, dz)))


def _nearest_way(angle: float, options: Sequence[str]) -> int:
    """Index of the option that points closest to ``angle`` (degrees, positive to the right)."""
    return int(np.argmin([abs(_wrap(angle - _WAYS[option])) for option in options]))


def _headings(masks: Sequence[np.ndarray]) -> np.ndarray:
    """Yaw [T] in degrees, unwrapped; frames without a border of the far ring in view take their neighbours' course."""
    measured = np.array([_heading(mask) for mask in masks])
    known = np.flatnonzero(np.isfinite(measured))
    if not len(known):
        raise ValueError("no mask shows a border of the far ring, so no heading can be read")
    return np.interp(np.arange(len(masks)), known, np.unwrap(measured[known], period=360.0))


def _heading(mask: np.ndarray) -> float:
    """Yaw in degrees from the borders between ids of the far ring; nan if no border is in view."""
    upper = mask[: mask.shape[0] // 2]
    ring = np.where(upper >= FAR, upper, 0).max(0).astype(int) - FAR  # sector of each column, negative where hidden
    left = np.flatnonzero((ring[:-1] >= 0) & (ring[1:] == (ring[:-1] + 1) % (360 // SECTOR)))
    if not len(left):
        return float("nan")
    azimuth = SECTOR * (ring[left] + 1)
    yaw = np.radians(azimuth - np.degrees(np.arctan((left + 0.5 - CENTRE_X) / FOCAL)))
    return float(np.degrees(np.arctan2(np.sin(yaw).mean(), np.cos(yaw).mean())))


def _foot(own: np.ndarray, mask: np.ndarray, eye: float) -> tuple[np.ndarray, np.ndarray]:
    """Points (metres to the right, metres ahead) where a landmark meets open ground."""
    columns = np.flatnonzero(own.any(0))
    rows = own.shape[0] - 1 - np.argmax(own[::-1, columns], axis=0)
    open_below = (rows < own.shape[0] - 1) & (rows > CENTRE_Y + 4)
    columns, rows = columns[open_below], rows[open_below]
    on_ground = mask[rows + 1, columns] == GROUND
    columns, rows = columns[on_ground], rows[on_ground]
    ahead = FOCAL * eye / (rows + 0.5 - CENTRE_Y)
    return ahead * (columns - CENTRE_X) / FOCAL, ahead


def _to_world(right: np.ndarray, ahead: np.ndarray, position: np.ndarray, yaw: float) -> np.ndarray:
    """Points [N, 2] on the ground from camera coordinates."""
    sin, cos = np.sin(np.radians(yaw)), np.cos(np.radians(yaw))
    return position + np.stack([cos * right + sin * ahead, cos * ahead - sin * right], axis=1)


def _box_centre(own: np.ndarray, mask: np.ndarray) -> tuple[float, float] | None:
    """Centre (right, ahead) of an object that is wholly in view: near edges on the floor, far edges along its top."""
    columns = np.flatnonzero(own.any(0))
    if len(columns) < 16 or columns[0] == 0 or columns[-1] == own.shape[1] - 1 or own[-1].any():
        return None
    eye = EYE["object"]
    right, ahead = _foot(own, mask, eye)
    if len(right) < 0.9 * len(columns):
        return None  # something stands in front
    # The outermost columns are vertical edges: foot and top of the same corner give the height.
    heights = []
    for column in (columns[1], columns[-2]):
        rows = np.flatnonzero(own[:, column])
        distance = FOCAL * eye / (rows[-1] + 0.5 - CENTRE_Y)
        heights.append(eye - distance * (rows[0] - 0.5 - CENTRE_Y) / FOCAL)
    above = eye - float(np.mean(heights))
    tops = np.argmax(own[:, columns], axis=0)
    far = FOCAL * above / (tops - 0.5 - CENTRE_Y)
    points = np.concatenate([np.stack([right, ahead], 1), np.stack([far * (columns - CENTRE_X) / FOCAL, far], 1)])
    (x, z), _, _ = cv2.minAreaRect(points.astype(np.float32))
    return float(x), float(z)
