"""Bright plates with dark strokes (signs, labels, captions on a panel) as quadrilaterals, seen at any angle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from trustvid.tools.vision.denoise import denoised

CROP_HEIGHT = 48

Box = tuple[float, float, float, float]

# Brightness levels at which plates are looked for, as shares of the frame's bright end: one level would miss either a
# plate in the shade or the one whose surroundings are light.
LEVELS = (0.86, 0.72, 0.56, 0.42)
QUICK_LEVELS = (0.76, 0.50)  # half of the time; misses some small or shaded plates
_STROKE_SMOOTHING = 0.6  # pixels; more would close small letters
_MIN_BRIGHT_END = 24  # a frame darker than this shows nothing
_MIN_HEIGHT, _MIN_WIDTH, _MIN_AREA = 7.0, 12.0, 80.0
_MIN_ASPECT = 0.35  # a word seen at a steep angle can be narrower than it is tall
_MAX_SHARE = 0.4  # of the frame: more is a wall, not a sign on it
_MAX_BRIGHT = 1.0  # bright pixels within a plate's outline, as a share of it: strokes leave less
_MIN_FILL = 0.75  # of the quadrilateral by the bright outline
_RING = 0.12  # width of the ring around a plate that must be darker than its ground, as a share of its height
_MIN_RING_DROP = 0.16
_MIN_INK, _MAX_INK = 0.05, 0.62
_MIN_CROSSINGS = 2.5  # changes between dark and bright along a row through the middle: one letter has two
_MIN_CONTRAST = 0.30


@dataclass(frozen=True)
class Plate:
    """A plate.

    Attributes:
        quad: float32 [4, 2] pixels: top left, top right, bottom right, bottom left.
        score: contrast of its strokes, less when it takes up much of the frame, 0–1.
    """

    quad: np.ndarray
    score: float

    @property
    def box(self) -> Box:
        """Extent in pixels (x0, y0, x1, y1)."""
        x0, y0 = self.quad.min(axis=0)
        x1, y1 = self.quad.max(axis=0)
        return float(x0), float(y0), float(x1), float(y1)


def find_plates(image: np.ndarray, levels: Sequence[float] = LEVELS, working_width: int = 640) -> list[Plate]:
    """Plates of a uint8 RGB frame [H, W, 3], best first, none overlapping another by half.

    Frames wider than ``working_width`` are searched at that width; the quadrilaterals are in pixels of the frame.
    """
    scale = working_width / image.shape[1]
    if scale < 1:
        size = (working_width, max(1, round(image.shape[0] * scale)))
        small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        return [Plate(plate.quad / np.float32(scale), plate.score) for plate in find_plates(small, levels)]
    # The least channel: a plate is bright in all three, a coloured surface in at most two.
    red, green, blue = cv2.split(denoised(image, strongest=_STROKE_SMOOTHING)[0])
    least = cv2.min(cv2.min(red, green), blue)
    if min(least.shape) < _MIN_HEIGHT:
        return []
    bright_end = float(np.percentile(least[::3, ::3], 99.5))
    if bright_end < _MIN_BRIGHT_END:
        return []
    found: list[Plate] = []
    accepted: list[Box] = []  # the same plate stands out at several levels
    for level in levels:
        mask = cv2.inRange(least, level * bright_end, 255)
        contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        for contour in contours:
            x, y, w, h = cv2.boundingRect(contour)
            if w < _MIN_WIDTH or h < _MIN_HEIGHT or w < _MIN_ASPECT * h:
                continue
            box = (x, y, x + w, y + h)
            if any(_same(box, other) for other in accepted):
                continue
            area = cv2.contourArea(contour)
            bright = cv2.countNonZero(mask[y : y + h, x : x + w])
            if area < max(_MIN_AREA, 0.3 * w * h) or area > _MAX_SHARE * least.size or bright > _MAX_BRIGHT * area:
                continue
            plate = _plate(contour, area, least)
            if plate is not None:
                accepted.append(box)
                found.append(plate)
    return _distinct(found)


def rectify(
    image: np.ndarray,
    quad: np.ndarray,
    height: int = CROP_HEIGHT,
    min_proportion: float = 0.5,
    border: int = cv2.BORDER_REPLICATE,
) -> np.ndarray:
    """The quadrilateral seen from the front: [height, w] (and channels), w after its proportions.

    ``min_proportion``: least width / height. A word seen at an angle is squeezed, and reads better drawn out again.
    """
    top, right, bottom, left = (np.linalg.norm(quad[(i + 1) % 4] - quad[i]) for i in range(4))
    proportion = max(min_proportion, (top + bottom) / max(left + right, 1e-3))
    width = int(np.clip(round(height * proportion), height // 2, 16 * height))
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    # Quads are in edge coordinates (a pixel k spans k…k+1), warps in those of pixel centres.
    matrix = cv2.getPerspectiveTransform(quad.astype(np.float32) - 0.5, target - 0.5)
    return cv2.warpPerspective(image, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=border)


def overlaps(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the extents of two quads [4, 2] share over half of the smaller."""
    return _shared((*a.min(axis=0), *a.max(axis=0)), (*b.min(axis=0), *b.max(axis=0))) > 0.5


def _plate(contour: np.ndarray, area: float, least: np.ndarray) -> Plate | None:
    """The quadrilateral of a contour that encloses ``area`` pixels, when it passes for a plate."""
    hull = cv2.convexHull(contour)
    if area < _MIN_FILL * cv2.contourArea(hull):
        return None
    quad = quad_of_hull(hull)
    if quad is None or area < _MIN_FILL * cv2.contourArea(quad):
        return None
    crop = rectify(least, _grown(quad, 1 + 2 * _RING), 30, border=cv2.BORDER_CONSTANT)
    margin = round(30 * _RING / (1 + 2 * _RING))
    contrast = _stroke_contrast(crop, margin)
    # A wall with dark things on it passes too: of two that overlap the smaller is the likelier sign.
    return Plate(quad, contrast * (1 - area / least.size)) if contrast > 0 else None


def _grown(quad: np.ndarray, factor: float) -> np.ndarray:
    centre = quad.mean(axis=0)
    return (centre + (quad - centre) * factor).astype(np.float32)


def quad_of_hull(hull: np.ndarray) -> np.ndarray | None:
    """The four-sided outline [4, 2] that encloses a convex contour with the least extra area, in edge coordinates."""
    if len(hull) < 4:
        return None
    corners = cv2.approxPolyN(hull, 4, epsilon_percentage=-1.0, ensure_convex=True).reshape(-1, 2).astype(np.float32)
    if len(corners) != 4:
        return None
    # Contours run through pixel centres: half a pixel outwards is the edge.
    centre = corners.mean(axis=0)
    corners = corners + 0.5 + 0.5 * np.sign(corners - centre)
    return _ordered(corners)


def _ordered(corners: np.ndarray) -> np.ndarray:
    """Corners as top left, top right, bottom right, bottom left; text runs rightwards."""
    a, b, c, d = sorted(corners.tolist())
    left, right = sorted((a, b), key=_row), sorted((c, d), key=_row)
    return np.array([left[0], right[0], right[1], left[1]], np.float32)


def _row(point: list[float]) -> float:
    return point[1]


def _stroke_contrast(crop: np.ndarray, margin: int) -> float:
    """Contrast of dark strokes on bright ground, 0–1; 0 when a rectified grey crop [h, w] is no plate.

    Args:
        crop: the plate with a ring of its surroundings.
        margin: width of the ring at the top and bottom; at the sides it is the same share of the width.
    """
    side = max(1, round(margin * crop.shape[1] / crop.shape[0]))
    inner = crop[margin + 2 : -margin - 2, side + 1 : -side - 1]
    if inner.shape[1] < 8:
        return 0.0
    _, binary = cv2.threshold(inner, 0, 1, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    ink = 1 - cv2.mean(binary)[0]
    if not _MIN_INK <= ink <= _MAX_INK:
        return 0.0
    bright, dark = cv2.mean(inner, binary)[0], cv2.mean(inner, 1 - binary)[0]
    contrast = (bright - dark) / max(bright, 1.0)
    rows = binary[binary.shape[0] // 4 : -(binary.shape[0] // 4)]
    crossings = np.count_nonzero(rows[:, 1:] != rows[:, :-1]) / len(rows)
    if contrast < _MIN_CONTRAST or crossings < _MIN_CROSSINGS:
        return 0.0
    ring = np.concatenate([part.ravel() for part in (crop[:margin], crop[-margin:], crop[:, :side], crop[:, -side:])])
    return contrast if (bright - np.median(ring)) / max(bright, 1.0) >= _MIN_RING_DROP else 0.0


def _distinct(plates: list[Plate]) -> list[Plate]:
    """Best first. One that overlaps a better is the same plate at another level; one that holds a smaller is none."""
    kept: list[tuple[Plate, Box]] = []
    boxes = [plate.box for plate in plates]
    for plate, box in sorted(zip(plates, boxes, strict=True), key=lambda item: (-item[0].score, item[1])):
        holds_one = any(_holds(box, other) for other in boxes)
        if not holds_one and all(_shared(box, other) < 0.5 for _, other in kept):
            kept.append((plate, box))
    return [plate for plate, _ in kept]


def _same(a: Box, b: Box) -> bool:
    """Two extents that differ by a pixel or two on any side."""
    slack = 1 + 0.04 * (a[2] - a[0])
    near = abs(a[0] - b[0]) <= slack and abs(a[1] - b[1]) <= slack
    return near and abs(a[2] - b[2]) <= slack and abs(a[3] - b[3]) <= slack


def _holds(outer: Box, inner: Box) -> bool:
    return _area(outer) > 4 * _area(inner) and _shared(outer, inner) > 0.8


def _shared(a: Box, b: Box) -> float:
    """Intersection as a share of the smaller box."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / max(1e-6, min(_area(a), _area(b)))


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
