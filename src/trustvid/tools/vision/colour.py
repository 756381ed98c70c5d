"""Coloured things in a frame: connected regions of one named hue, with the gaps that signs and windows leave closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import cv2
import numpy as np

from trustvid.tools.vision.denoise import denoised

# Upper ends of the hue ranges in degrees; red wraps around. Boundaries lie where people change the name, which is not
# halfway between the pure hues: orange is narrow, green is wide.
_HUES: tuple[tuple[float, str], ...] = (
    (13, "red"),
    (42, "orange"),
    (75, "yellow"),
    (158, "green"),
    (206, "cyan"),
    (254, "blue"),
    (298, "purple"),
    (343, "pink"),
    (360, "red"),
)
COLOUR_NAMES = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink")

# The pale rim of a small thing: how far its hue may be off (of 256), how weak its colour.
_RIM_MAX_HEIGHT, _RIM_HUE, _RIM_SATURATION, _RIM_CHROMA = 40, 12, 45, 20

_TOUCHING = 2  # pixels between boxes of one colour that are one thing

_MAX_PIECES = 24  # of one colour; more is texture, and pairing them up costs the cube of their number

_FULL_LIGHT = 220  # brightness (HSV value) of the bright end of a well-exposed frame
# Per grey level of noise left after smoothing: the chroma that noise seldom reaches, and what it adds to saturation.
_NOISE_CHROMA, _NOISE_SATURATION = 11.0, 0.012

Box = tuple[float, float, float, float]  # x0, y0, x1, y1 in pixels, right and lower ends exclusive


@dataclass(frozen=True)
class ColourSettings:
    """What counts as coloured.

    Attributes:
        min_saturation: of HSV, 0–1.
        min_chroma: max(R, G, B) - min(R, G, B), 0–255, in a frame of full brightness; keeps noise of dark pixels, whose
            saturation means nothing, out.
        min_area: pixels at 320×240, scaled with the frame's area.
    """

    min_saturation: float = 0.34
    min_chroma: float = 38.0
    min_area: float = 20.0


@dataclass(frozen=True)
class Region:
    """One coloured thing.

    Attributes:
        colour: one of ``COLOUR_NAMES``.
        box: pixels.
        area: coloured pixels.
        purity: how vivid and how uniform in hue it is, 0–1.
        solidity: share of its convex hull that it fills once holes and gaps (a sign, windows) are closed, 0–1.
        roundness: share of agreement between its outline and the ellipse of the same box, 0–1.
    """

    colour: str
    box: Box
    area: int
    purity: float
    solidity: float
    roundness: float


def coloured_regions(image: np.ndarray, settings: ColourSettings, working_width: int = 640) -> list[Region]:
    """Coloured things of a uint8 RGB frame [H, W, 3], largest first; of two that cover each other the larger.

    Frames wider than ``working_width`` are searched at that width; boxes and areas are in pixels of the frame.
    """
    scale = working_width / image.shape[1]
    if scale < 1:
        size = (working_width, max(1, round(image.shape[0] * scale)))
        small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        return [_scaled(region, 1 / scale) for region in coloured_regions(small, settings, working_width)]
    height, width = image.shape[:2]
    smooth, noise = denoised(image, strongest=2.2)
    hsv = cv2.cvtColor(smooth, cv2.COLOR_RGB2HSV_FULL)
    # In a dark frame all colours are weak alike; noise has colours of its own.
    light = min(1.0, float(np.percentile(hsv[::4, ::4, 2], 99)) / _FULL_LIGHT)
    min_saturation = settings.min_saturation + _NOISE_SATURATION * (noise if smooth is not image else 0.0)
    names = _name_pixels(hsv, min_saturation, max(settings.min_chroma * light, _NOISE_CHROMA * noise))
    min_area = max(6.0, settings.min_area * height * width / (320 * 240))
    regions: list[Region] = []
    counts = np.bincount(names.ravel(), minlength=len(COLOUR_NAMES) + 1)
    for k, colour in enumerate(COLOUR_NAMES, start=1):
        if counts[k] >= min_area:
            mask = cv2.inRange(names, k, k)
            regions += [_measure(colour, part, mask, hsv) for part in _parts(mask, min_area)]
    regions = [_with_pale_rim(region, hsv) for region in regions if not _is_sliver(region.box, height, width)]
    distinct: list[Region] = []
    for region in sorted(regions, key=lambda region: (-region.area, region.box)):
        if all(overlap_share(region.box, other.box) < 0.8 for other in distinct):
            distinct.append(region)
    return distinct


def _scaled(region: Region, factor: float) -> Region:
    box = tuple(v * factor for v in region.box)
    return replace(region, box=box, area=round(region.area * factor**2))


@lru_cache(maxsize=1)
def hue_names() -> np.ndarray:
    """Colour number 1–8 of each of the 256 hues of HSV_FULL."""
    table = np.zeros(256, np.uint8)
    for hue in range(256):
        degrees = hue * 360 / 256
        name = next(name for end, name in _HUES if degrees < end)
        table[hue] = COLOUR_NAMES.index(name) + 1
    return table


def _name_pixels(hsv: np.ndarray, min_saturation: float, min_chroma: float) -> np.ndarray:
    """uint8 [H, W]: 0 where there is no colour to speak of, else 1–8."""
    hue, saturation, value = cv2.split(hsv)
    names = cv2.LUT(hue, hue_names())
    chroma = cv2.multiply(saturation, value, scale=1 / 255)
    vivid = cv2.inRange(saturation, min_saturation * 255, 255)
    vivid &= cv2.inRange(chroma, min_chroma, 255)
    names &= vivid
    return names


def _parts(mask: np.ndarray, min_area: float) -> list[tuple[Box, list[np.ndarray]]]:
    """Groups of contours of a mask that belong to one thing, with their common box."""
    contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    pieces = []
    for contour in contours:
        x, y, w, h = cv2.boundingRect(contour)
        if w * h >= max(4.0, min_area / 6):
            pieces.append(((float(x), float(y), float(x + w), float(y + h)), [contour]))
    pieces.sort(key=lambda piece: (-_area(piece[0]), piece[0]))
    del pieces[_MAX_PIECES:]
    merged = _merge(pieces)
    return [piece for piece in merged if sum(map(cv2.contourArea, piece[1])) >= min_area / 2]


def _merge(pieces: list[tuple[Box, list[np.ndarray]]]) -> list[tuple[Box, list[np.ndarray]]]:
    """Pieces of one colour joined until no two belong together."""
    pieces = list(pieces)
    i = 0
    while i < len(pieces):
        j = next((j for j in range(len(pieces)) if j != i and _belong_together(pieces[i][0], pieces[j][0])), None)
        if j is None:
            i += 1
            continue
        a, b = pieces[min(i, j)], pieces[max(i, j)]
        del pieces[max(i, j)]
        pieces[min(i, j)] = (_union(a[0], b[0]), a[1] + b[1])
        i = 0
    return pieces


def _belong_together(a: Box, b: Box) -> bool:
    """Two pieces one above the other (a sign between them), or side by side (a post before them), close for their size.

    The smaller must mostly lie in the span of the larger, and the gap be no wider than the two together.
    """
    gap_x, gap_y = max(a[0], b[0]) - min(a[2], b[2]), max(a[1], b[1]) - min(a[3], b[3])
    if gap_x <= _TOUCHING and gap_y <= _TOUCHING:
        return True
    for low, high in ((0, 2), (1, 3)):
        across_low, across_high = 1 - low, 5 - high
        overlap = min(a[high], b[high]) - max(a[low], b[low])
        narrower = min(a[high] - a[low], b[high] - b[low])
        gap = max(a[across_low], b[across_low]) - min(a[across_high], b[across_high])
        extent = (a[across_high] - a[across_low]) + (b[across_high] - b[across_low])
        # A sign splits a thing across its height and may be as tall as the rest; what stands in front is narrower.
        reach = 1.0 if low == 0 else 0.3
        if overlap >= 0.6 * narrower and gap <= reach * extent + 1:
            return True
    return False


def _measure(colour: str, part: tuple[Box, list[np.ndarray]], mask: np.ndarray, hsv: np.ndarray) -> Region:
    box, contours = part
    x0, y0, x1, y1 = (int(v) for v in box)
    inside = mask[y0:y1, x0:x1] > 0
    area = int(inside.sum())
    pixels = hsv[y0:y1, x0:x1][inside]
    hull = cv2.convexHull(np.concatenate(contours))
    hull_area = max(cv2.contourArea(hull), 1.0)
    solidity = min(1.0, min(_spanned(inside), _spanned(inside.T)) / hull_area)
    return Region(colour, box, area, _purity(pixels), solidity, _roundness(hull, hull_area, box))


def _spanned(inside: np.ndarray) -> float:
    """Area of a mask [h, w] after each column is filled between its first and last pixel, corners counted half."""
    used = inside.any(axis=0)
    first = inside.argmax(axis=0)
    last = inside.shape[0] - 1 - inside[::-1].argmax(axis=0)
    return float(np.maximum(last - first, 1)[used].sum())


def _is_sliver(box: Box, height: int, width: int) -> bool:
    """A line of one or two pixels inside the frame: the fringe that colour subsampling leaves along an edge."""
    thin = min(box[2] - box[0], box[3] - box[1]) < 3
    return thin and box[0] > 0 and box[1] > 0 and box[2] < width and box[3] < height


def _with_pale_rim(region: Region, hsv: np.ndarray) -> Region:
    """The region with the paler pixels of its hue that hang on to it above and beside.

    Subsampled colour washes out the thin frame around a small sign; the frame's top is the thing's top. Growth that
    runs into the border of its search area has met something else of that hue (the sky) and is dropped.
    """
    x0, y0, x1, y1 = (int(v) for v in region.box)
    tall = y1 - y0
    if tall > _RIM_MAX_HEIGHT:
        return region
    left, right = max(0, x0 - 3), min(hsv.shape[1], x1 + 3)
    top = max(0, y0 - 2 * tall - 4)
    window = hsv[top:y1, left:right]
    body = hsv[y0:y1, x0:x1]
    vivid = body[..., 1] >= np.percentile(body[..., 1], 75)
    angle = np.angle(np.exp(1j * body[..., 0][vivid] * (2 * np.pi / 256)).mean()) * 256 / (2 * np.pi)
    off = np.abs((window[..., 0].astype(np.float32) - angle + 128) % 256 - 128)
    chroma = window[..., 1].astype(np.uint16) * window[..., 2] // 255
    pale = ((off <= _RIM_HUE) & (window[..., 1] >= _RIM_SATURATION) & (chroma >= _RIM_CHROMA)).astype(np.uint8)
    pale[y0 - top :, x0 - left : x1 - left] = 1
    _, labels = cv2.connectedComponents(pale, connectivity=8)
    grown = labels == labels[-1, (x0 + x1) // 2 - left]
    columns, rows = np.flatnonzero(grown.any(axis=0)), np.flatnonzero(grown.any(axis=1))
    leaks = (rows[0] == 0 and top > 0) or (columns[0] == 0 and left > 0)
    leaks |= columns[-1] == pale.shape[1] - 1 and right < hsv.shape[1]
    if leaks:
        return region
    box = (float(left + columns[0]), float(top + rows[0]), float(left + columns[-1] + 1), float(y1))
    return replace(region, box=box)


def _purity(pixels: np.ndarray) -> float:
    """Of HSV_FULL pixels [N, 3]: mean saturation × concentration of the hue (length of the mean hue vector)."""
    angle = pixels[:, 0] * np.float32(2 * np.pi / 256)
    concentration = float(np.hypot(np.cos(angle).mean(), np.sin(angle).mean()))
    # Hues within one name are close anyway: what counts is the last tenth.
    concentrated = max(0.0, 1 - 10 * (1 - concentration))
    return float(pixels[:, 1].mean() / 255) * concentrated


def _roundness(hull: np.ndarray, hull_area: float, box: Box) -> float:
    """1 for an ellipse that fills its box, about .57 for a rectangle that does; less for lopsided outlines."""
    width, height = box[2] - box[0], box[3] - box[1]
    points = hull[:, 0, :] + 0.5
    centred = (points - ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)) / (max(width, 1) / 2, max(height, 1) / 2)
    radius = np.linalg.norm(centred, axis=1)
    ellipse = np.pi / 4 * width * height
    return float(min(hull_area / ellipse, ellipse / hull_area) * min(radius.min(), 1 / radius.max()))


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _union(a: Box, b: Box) -> Box:
    return min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])


def overlap_share(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union of two boxes (x0, y0, x1, y1)."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / (_area(tuple(a)) + _area(tuple(b)) - width * height)
