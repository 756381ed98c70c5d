"""Boxes of two frames matched to each other, and what their displacement tells of the camera.

Angles are those of a level camera: a point (x, y) of the picture has the bearing atan((x - cx) / f), positive to the
right, and the slope (y - cy) / f · cos(bearing), positive downwards. In these a turn shifts every bearing alike and
changes no size. A step forward makes a thing at bearing b grow by a factor g (in slope) and shifts its bearing by
tan(b) · ln(g), whatever its distance: what is left of the shift is the camera's turn, seen by each box on its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from trustvid.tools.vision.boxes import Box
from trustvid.tools.vision.colour import overlap_share
from trustvid.tools.vision.denoise import denoised
from trustvid.tools.vision.egomotion import track_points

# Matching. Distances between centres are shares of the frame's width.
_MAX_SHIFT, _MIN_SIZE_RATIO = 0.30, 0.45
_FAR_WEIGHT, _OVERLAP_WEIGHT, _SIZE_WEIGHT = 0.5, 0.3, 0.2
_FORBIDDEN = 10.0  # above any cost of an allowed pair

# Tracks inside boxes.
_CORNERS, _CORNER_QUALITY, _CORNER_DISTANCE = 14, 0.03, 3
_MIN_PATCH = 8  # pixels; smaller boxes hold nothing to follow
_MIN_TRACKS = 4
_SMOOTHING = 1.2  # pixels at most, for noisy frames
_EDGE_ERROR, _TRACK_ERROR = 0.7, 0.25  # standard error in pixels of an edge of a box, of a median track
_GROWTH_PRIOR = 0.04  # typical |ln growth| of a step; measured growth is drawn towards 1 as far as it is uncertain

_UNCONFIRMED_WEIGHT = 0.3
_AGREE_DEG = 1.0  # boxes whose turn is this close tell of the same camera


@dataclass(frozen=True)
class Spot:
    """A detected box: label, extent in pixels, names of the sides that the frame's border cuts off."""

    label: str
    box: Box
    cut: frozenset[str] = frozenset()  # of "left", "top", "right", "bottom"


@dataclass(frozen=True)
class BoxStep:
    """A box that was found again in the next frame.

    Attributes:
        first, second: its place among the boxes of either frame.
        at: (x, y) in pixels of the first frame where ``shift`` holds.
        shift: (dx, dy) pixels; NaN along an axis whose edges are both cut off.
        growth: ratio of its angular sizes, second to first.
        growth_error: standard error of ln(growth).
        overlap: intersection over union of the box found and the box predicted: the first one moved with the tracks
            inside it, or left where it was when there are none.
        confirmed: whether tracks inside the box led to the second box.
    """

    first: int
    second: int
    at: tuple[float, float]
    shift: tuple[float, float]
    growth: float
    growth_error: float
    overlap: float
    confirmed: bool


@dataclass(frozen=True)
class CameraStep:
    """Camera motion from boxes: degrees (yaw positive to the right, pitch upwards), growth of distances from the image
    centre as a share, and the share of the boxes' weight that agrees, 0–1 (a lone box counts half)."""

    yaw_deg: float
    pitch_deg: float
    expansion: float
    agreement: float


def match_boxes(before: Sequence[Spot], after: Sequence[Spot], width: int) -> list[tuple[int, int]]:
    """Pairs (place in ``before``, place in ``after``) of equal label with the least total cost (Hungarian method).

    The cost of a pair grows with the distance of the centres, the lack of overlap and the ratio of sizes; pairs further
    apart than a third of the frame's width, or of much different size, are none.
    """
    if not before or not after:
        return []
    from scipy.optimize import linear_sum_assignment

    cost = np.array([[_cost(a, b, width) for b in after] for a in before])
    rows, columns = linear_sum_assignment(cost)
    return [(int(i), int(j)) for i, j in zip(rows, columns, strict=True) if cost[i, j] < _FORBIDDEN]


def _cost(a: Spot, b: Spot, width: int) -> float:
    if a.label != b.label:
        return _FORBIDDEN
    (ax, ay), (bx, by) = _centre(a.box), _centre(b.box)
    apart = math.hypot(ax - bx, ay - by) / width
    # A cut box changes its size with what of it is inside: only whole ones are compared.
    ratio = 1.0 if a.cut or b.cut else _size_ratio(a.box, b.box)
    if apart > _MAX_SHIFT or ratio < _MIN_SIZE_RATIO:
        return _FORBIDDEN
    lacking = 1 - overlap_share(a.box, b.box)
    return _FAR_WEIGHT * apart / _MAX_SHIFT + _OVERLAP_WEIGHT * lacking + _SIZE_WEIGHT * (1 - ratio)


class BoxFollower:
    """Follows boxes from frame to frame.

    Args:
        height, width: of the frames, pixels.
        fov_deg: horizontal field of view, 0–180 exclusive.
    """

    def __init__(self, height: int, width: int, fov_deg: float):
        self.height, self.width = height, width
        self.focal = width / 2 / math.tan(math.radians(fov_deg) / 2)
        self._middle = np.array([(width - 1) / 2, (height - 1) / 2])

    def steps(
        self, before: np.ndarray, after: np.ndarray, first: Sequence[Spot], second: Sequence[Spot]
    ) -> list[BoxStep]:
        """The boxes ``first`` of grey frame ``before`` [H, W] that are among the boxes ``second`` of ``after``."""
        pairs = match_boxes(first, second, self.width)
        tracks = _tracks(before, after, [(first[i].box, second[j].box) for i, j in pairs])
        return [self._step(i, j, first[i], second[j], *inside) for (i, j), inside in zip(pairs, tracks, strict=True)]

    def camera(self, steps: Sequence[BoxStep]) -> CameraStep | None:
        """What most of the boxes say of the camera; None without a box whose displacement is known."""
        told = [step for step in steps if not any(map(math.isnan, step.shift))]
        if not told:
            return None
        yaw, pitch, growth, weight = (np.array(v) for v in zip(*map(self._told, told), strict=True))
        near = np.abs(yaw[:, None] - yaw[None, :]) <= math.radians(_AGREE_DEG)
        best = int(np.argmax(near @ weight))
        agree = near[best]
        share = weight[agree].sum() / weight.sum()
        w = weight * agree / weight[agree].sum()
        return CameraStep(
            yaw_deg=math.degrees(float(w @ yaw)),
            pitch_deg=math.degrees(float(w @ pitch)),
            expansion=math.expm1(float(w @ growth)),
            agreement=float(share) * (1.0 if agree.sum() > 1 else 0.5),
        )

    def _told(self, step: BoxStep) -> tuple[float, float, float, float]:
        """(yaw, pitch, ln of the growth along the optical axis; radians) by one box, and its weight."""
        bearing, slope = self._angles(np.array(step.at))
        later, later_slope = self._angles(np.array(step.at) + step.shift)
        prior = _GROWTH_PRIOR**2
        grown = math.log(step.growth) * prior / (prior + step.growth_error**2)
        yaw = bearing + math.tan(bearing) * grown - later
        pitch = math.atan(later_slope) - math.atan(slope * math.exp(grown))
        error = (_TRACK_ERROR if step.confirmed else _EDGE_ERROR) / self.focal
        doubt = math.hypot(error, math.tan(bearing) * min(step.growth_error, _GROWTH_PRIOR))
        weight = (1.0 if step.confirmed else _UNCONFIRMED_WEIGHT) / (doubt + 2 / self.focal)
        return yaw, pitch, grown / math.cos(bearing) ** 2, weight

    def _angles(self, point: np.ndarray) -> np.ndarray:
        """Bearing and slope of points [..., 2]."""
        u, v = np.moveaxis((point - self._middle) / self.focal, -1, 0)
        bearing = np.arctan(u)
        return np.stack([bearing, v * np.cos(bearing)], axis=-1)

    def _step(self, i: int, j: int, a: Spot, b: Spot, start: np.ndarray, end: np.ndarray) -> BoxStep:
        """The step of one matched pair with the tracks (pixels [N, 2]) that were found inside it."""
        if len(start) >= _MIN_TRACKS:
            shift = np.median(end - start, axis=0)
            at = np.median(start, axis=0)
            spread, later = _distances(self._angles(start)), _distances(self._angles(end))
            apart = spread > 2 / self.focal
            growth = float(np.median(later[apart] / spread[apart])) if apart.any() else 1.0
            growth_error = _TRACK_ERROR / self.focal / max(float(np.median(spread)), 1e-6)
            overlap = overlap_share(_moved(a, b, at, shift, growth), b.box)
            # Tracks that do not lead to the box are those of something else (the ground around it, say).
            if overlap >= overlap_share(a.box, b.box) - 0.05:
                return BoxStep(i, j, tuple(at), tuple(shift), growth, growth_error, overlap, True)
        at, shift = _edge_shift(a, b)
        growth, growth_error = self._edge_growth(a, b)
        return BoxStep(i, j, at, shift, growth, growth_error, overlap_share(a.box, b.box), False)

    def _edge_growth(self, a: Spot, b: Spot) -> tuple[float, float]:
        """Ratio of angular heights of two boxes and the error of its logarithm; 1 where an end is cut off."""
        if {"top", "bottom"} & (a.cut | b.cut):
            return 1.0, 1.0
        heights = []
        for box in (a.box, b.box):
            (x, _), tall = _centre(box), box[3] - box[1]
            heights.append(tall * math.cos(math.atan((x - self._middle[0]) / self.focal)))
        return heights[1] / heights[0], 1.4 * _EDGE_ERROR / min(heights)


def grey_for_tracks(image: np.ndarray) -> np.ndarray:
    """uint8 grey [H, W] of a uint8 RGB frame, smoothed so that noise makes no corners."""
    return cv2.cvtColor(cv2.GaussianBlur(denoised(image, _SMOOTHING)[0], (3, 3), 0), cv2.COLOR_RGB2GRAY)


def _tracks(
    before: np.ndarray, after: np.ndarray, pairs: Sequence[tuple[Box, Box]]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each pair of boxes the points [N, 2] inside the first that lead into ``after`` and back, and where to."""
    starts, guesses = [], []
    for a, b in pairs:
        start = _corners(before, a)
        scale = np.array([(b[2] - b[0]) / (a[2] - a[0]), (b[3] - b[1]) / (a[3] - a[1])], np.float32)
        starts.append(start)
        guesses.append((start - a[:2]) * scale + np.array(b[:2], np.float32))
    start = np.concatenate([np.empty((0, 2), np.float32), *starts])
    if not len(start):
        return [(start, start)] * len(pairs)
    guess = np.concatenate(guesses).astype(np.float32)
    found, agrees = track_points(before, after, start[:, None], guess[:, None])
    ends = np.cumsum([len(part) for part in starts])[:-1]
    parts = zip(np.split(start, ends), np.split(found, ends), np.split(agrees, ends), strict=True)
    return [(p[good], q[good]) for p, q, good in parts]


def _corners(grey: np.ndarray, box: Box) -> np.ndarray:
    """float32 [N, 2]: what can be followed inside a box."""
    x0, y0, x1, y1 = (round(v) for v in box)
    if x1 - x0 < _MIN_PATCH or y1 - y0 < _MIN_PATCH:
        return np.empty((0, 2), np.float32)
    found = cv2.goodFeaturesToTrack(grey[y0:y1, x0:x1], _CORNERS, _CORNER_QUALITY, _CORNER_DISTANCE)
    return np.empty((0, 2), np.float32) if found is None else found[:, 0] + np.array([x0, y0], np.float32)


def _distances(points: np.ndarray) -> np.ndarray:
    """Distances between all pairs of points [N, 2]."""
    i, j = np.triu_indices(len(points), 1)
    return np.linalg.norm(points[i] - points[j], axis=1)


def _moved(a: Spot, b: Spot, at: np.ndarray, shift: np.ndarray, growth: float) -> Box:
    """Box a after its tracks; sides that the border cuts off before or after are those of b, since nothing is known."""
    corners = (np.array(a.box).reshape(2, 2) - at) * growth + at + shift
    sides = zip(("left", "top", "right", "bottom"), corners.ravel(), b.box, strict=True)
    return tuple(found if side in a.cut | b.cut else float(predicted) for side, predicted, found in sides)


def _edge_shift(a: Spot, b: Spot) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where, and by how much, the sides that are not cut off moved; NaN along an axis that has none."""
    at, shift = [], []
    for low, high, names in ((0, 2, ("left", "right")), (1, 3, ("top", "bottom"))):
        whole = [k for k, name in zip((low, high), names, strict=True) if name not in a.cut | b.cut]
        at.append(sum(a.box[k] for k in whole) / len(whole) if whole else math.nan)
        shift.append(sum(b.box[k] - a.box[k] for k in whole) / len(whole) if whole else math.nan)
    return tuple(at), tuple(shift)


def _centre(box: Box) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _size_ratio(a: Box, b: Box) -> float:
    areas = [max((box[2] - box[0]) * (box[3] - box[1]), 1e-9) for box in (a, b)]
    return math.sqrt(min(areas) / max(areas))
