"""The coloured surface that a word is written on: its colour from a ring around the word, its extent by growing.

No threshold is global. A sign is a two-point colour chart: its ground gives the colour of the light, its strokes the
veil that haze or glare lays over the picture; both are taken out before colours are named. What then belongs to the
surface is what has the hue of the ring and hangs together with it, however weak that colour is in the frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import cv2
import numpy as np

from trustvid.tools.vision.boxes import Box
from trustvid.tools.vision.colour import COLOUR_NAMES, hue_names
from trustvid.tools.vision.denoise import denoised

_SMOOTHING = 2.2  # pixels at most: patches of colour bear it
_REACH = 1.6  # width of the ring around the word, as a share of its height; the plate of a sign takes part of it
_MIN_REACH = 5.0  # pixels
# Of a calibrated pixel, 0–1: below the first its hue means nothing, below the second the surface has no colour.
_MIN_SATURATION, _MIN_SURFACE_SATURATION = 0.16, 0.26
_MIN_VALUE = 0.08  # darker pixels (windows, shadows) have no hue to speak of
_HUE_TOLERANCE = 13  # of 256: how far the surface's pixels lie from the hue of the ring
_HUE_SMOOTHING = 9  # bins of the hue histogram, odd
_SATURATION_SHARE = 0.55  # of the surface's own: paler pixels are something else (sky, a wall)
_MIN_PIXELS = 12  # of the ring that must agree on a hue
_MIN_AGREEMENT = 0.35  # share of the coloured pixels of the ring that have the surface's hue
_SEED_SHARE = 0.08  # of the ring's pixels of the surface, from which a connected part of it belongs to the thing
# The light's colour is taken out only where the sign's ground is a plausible white: else it is a coloured surface.
_MAX_CAST = 0.45
# Only part of the veil is taken out: it varies over the picture, and the strokes of small letters are never black.
_VEIL_SHARE = 0.5
# A border row or column of the box holds this share of the median one's pixels, else it is a speck that sticks out: few
# in a clean frame, where a corner tapers; more in a noisy one.
_EDGE_SHARE, _NOISY_EDGE_SHARE = 0.04, 0.12


@dataclass(frozen=True)
class Surface:
    """What a word is written on.

    Attributes:
        colour: one of ``COLOUR_NAMES``.
        box: extent of the whole thing, pixels.
        agreement: share of the coloured pixels around the word that have this colour, 0–1.
    """

    colour: str
    box: Box
    agreement: float


class SurfaceFinder:
    """Finds the surfaces of words in one frame.

    Args:
        image: uint8 RGB [H, W, 3].
    """

    def __init__(self, image: np.ndarray):
        self._sharp = image
        self._smooth, _ = denoised(image, _SMOOTHING)
        self._edge_share = _EDGE_SHARE if self._smooth is image else _NOISY_EDGE_SHARE

    def find(self, quad: np.ndarray) -> Surface | None:
        """The surface around a word's quadrilateral [4, 2] (pixels); None where nothing coloured surrounds it."""
        height, width = self._smooth.shape[:2]
        inner, ring = _ring(quad, height, width)
        sign = self._sharp[inner > 0]
        if len(sign) < _MIN_PIXELS:
            return None
        hsv = cv2.cvtColor(calibrate(self._smooth, *chart(sign)), cv2.COLOR_RGB2HSV_FULL)
        coloured = _coloured(hsv, _MIN_SATURATION)
        around = (ring > 0) & coloured
        if around.sum() < _MIN_PIXELS:
            return None
        hue, saturation, share = dominant_hue(hsv[around], _nearness(inner)[around])
        if saturation < _MIN_SURFACE_SATURATION or share < _MIN_AGREEMENT:
            return None
        alike = _alike(hsv, hue, saturation)
        part = _grow(alike, inner > 0, (ring > 0) & alike, _gap(quad))
        if part is None:
            return None
        return Surface(COLOUR_NAMES[hue_names()[hue] - 1], _extent(part, self._edge_share), share)


def chart(sign: np.ndarray) -> tuple[np.ndarray, float]:
    """What the pixels [N, 3] of a word and its ground tell about light and haze.

    Returns:
        (colour of white under this light, float [3] of 0–255; the veil to take out as a share of it, 0–0.5, from what
        even the darkest stroke shows).
    """
    level = sign.astype(np.float32).mean(axis=1)
    light = np.maximum(np.median(sign[level >= np.percentile(level, 75)], axis=0).astype(np.float64), 1.0)
    if 1 - light.min() / light.max() > _MAX_CAST:
        light = np.full(3, light.max())
    dark = np.median(sign[level <= np.percentile(level, 8)], axis=0)
    return light, float(_VEIL_SHARE * (dark / light).min())


def calibrate(image: np.ndarray, light: np.ndarray, veil: float) -> np.ndarray:
    """A uint8 RGB image with ``light`` mapped to white (220: brighter surfaces keep their hue) and the veil removed."""
    gain = 220.0 / (light * (1 - veil))
    levels = np.arange(256)[:, None] * gain - 220.0 * veil / (1 - veil)
    return cv2.LUT(image, np.clip(np.rint(levels), 0, 255).astype(np.uint8)[None])


def dominant_hue(pixels: np.ndarray, nearness: np.ndarray) -> tuple[int, float, float]:
    """The hue that surrounds a word.

    Args:
        pixels: coloured HSV_FULL pixels [N, 3] of the ring.
        nearness: weight of each [N]: what touches the sign is likelier its surface than what stands further out.

    Returns:
        (the heaviest hue, 0–255; median saturation of the pixels that have it, 0–1; share of the weight they have, 0–1)
    """
    weights = np.bincount(pixels[:, 0], weights=nearness * pixels[:, 1], minlength=256)
    margin = _HUE_SMOOTHING // 2
    circle = np.concatenate([weights[-margin:], weights, weights[:margin]])
    hue = int(np.argmax(np.convolve(circle, np.ones(_HUE_SMOOTHING), "valid")))
    near = _near_hue()[hue][pixels[:, 0]] > 0
    return hue, float(np.median(pixels[near, 1])) / 255, float(nearness[near].sum() / nearness.sum())


@lru_cache(maxsize=1)
def _near_hue() -> np.ndarray:
    """uint8 [256, 256]: 255 where two hues are within the tolerance."""
    hues = np.arange(256)
    off = np.abs((hues[:, None] - hues[None, :] + 128) % 256 - 128)
    return np.where(off <= _HUE_TOLERANCE, 255, 0).astype(np.uint8)


def _coloured(hsv: np.ndarray, min_saturation: float) -> np.ndarray:
    return (hsv[..., 1] >= min_saturation * 255) & (hsv[..., 2] >= _MIN_VALUE * 255)


def _alike(hsv: np.ndarray, hue: int, saturation: float) -> np.ndarray:
    """bool [H, W]: pixels of the surface's hue that are not much paler than it."""
    near = cv2.LUT(hsv[..., 0], _near_hue()[hue]) > 0
    return near & _coloured(hsv, max(_MIN_SATURATION, _SATURATION_SHARE * saturation))


def _ring(quad: np.ndarray, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """uint8 masks [H, W]: the quadrilateral, and the ring around it that its surface shows in."""
    inner = np.zeros((height, width), np.uint8)
    cv2.fillConvexPoly(inner, np.rint(quad - 0.5).astype(np.int32), 1)
    reach = max(_MIN_REACH, _REACH * _text_height(quad))
    centre = quad.mean(axis=0)
    across = np.linalg.norm(quad[1] - quad[0]) + np.linalg.norm(quad[2] - quad[3])
    scale = np.array([1 + 4 * reach / max(across, 1.0), 1 + 2 * reach / max(_text_height(quad), 1.0)])
    along = (quad[1] - quad[0] + quad[2] - quad[3]) / max(across, 1e-3)  # unit vector of the line of text
    axes = np.array([along, [-along[1], along[0]]])
    outer_quad = centre + ((quad - centre) @ axes.T * scale) @ axes
    outer = np.zeros_like(inner)
    cv2.fillConvexPoly(outer, np.rint(outer_quad - 0.5).astype(np.int32), 1)
    return inner, outer & ~inner & 1


def _nearness(inner: np.ndarray) -> np.ndarray:
    """float32 [H, W]: one over the distance to the word, in pixels, evened out close by."""
    return 1 / (cv2.distanceTransform(1 - inner, cv2.DIST_L2, 3) + 2)


def _text_height(quad: np.ndarray) -> float:
    return float(np.linalg.norm(quad[3] - quad[0]) + np.linalg.norm(quad[2] - quad[1])) / 2


def _gap(quad: np.ndarray) -> int:
    """Pixels across which parts of a surface still hang together (glazing bars, seams); odd."""
    return 2 * round(min(6.0, max(1.0, 0.25 * _text_height(quad)))) + 1


def _grow(alike: np.ndarray, word: np.ndarray, seeds: np.ndarray, gap: int) -> np.ndarray | None:
    """The parts of ``alike`` [H, W] that hold seeds; the word's own pixels join what they touch."""
    surface = alike.astype(np.uint8)
    closed = cv2.morphologyEx(surface, cv2.MORPH_CLOSE, np.ones((gap, gap), np.uint8))
    closed |= word.astype(np.uint8)
    count, labels = cv2.connectedComponents(closed, connectivity=4)
    held = np.bincount(labels[seeds], minlength=count)
    held[0] = 0
    if held.sum() < _MIN_PIXELS:
        return None
    part = alike & (labels > 0) & (held >= _SEED_SHARE * held.sum())[labels]
    return part if part.any() else None


def _extent(mask: np.ndarray, edge_share: float) -> Box:
    """Box of a mask [H, W] that is not empty, without the specks that stick out of it."""
    ends = []
    for axis in (0, 1):
        filled = mask.sum(axis=axis)
        places = np.flatnonzero(filled >= max(1.0, edge_share * np.median(filled[filled > 0])))
        ends.append((float(places[0]), float(places[-1] + 1)))
    (x0, x1), (y0, y1) = ends
    return x0, y0, x1, y1
