"""Does a frame hold text besides its plates? Rows of small, thin-stroked, ragged shapes of like height."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from trustvid.tools.vision.denoise import denoised

Box = tuple[float, float, float, float]

_WORKING_WIDTH = 640  # frames wider than this are scaled down first
# Grey levels by which a stroke stands out: the low one finds faint text, the high one parts letters that touch.
_CONTRASTS = (50, 110)
_NOISE_CONTRAST = 6.0  # as a multiple of the noise left after smoothing
_MIN_HEIGHT, _MAX_HEIGHT = 7, 48  # of a character, working pixels
_MIN_CHARACTERS = 4
_MAX_SOLIDITY = 0.80  # of its convex hull: windows, stripes and bricks are solid, most letters are not


@dataclass(frozen=True)
class Glyph:
    """A connected stroke that may be a character: box in working pixels, and whether its outline is ragged."""

    x0: int
    y0: int
    x1: int
    y1: int
    ragged: bool

    @property
    def height(self) -> int:
        return self.y1 - self.y0


def quad_of_box(box: Box) -> np.ndarray:
    """The corners [4, 2] of a box: top left, top right, bottom right, bottom left."""
    x0, y0, x1, y1 = box
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float32)


def text_lines(image: np.ndarray, explained: Sequence[np.ndarray] = ()) -> list[Box]:
    """Boxes (pixels) of what looks like lines of text in a uint8 RGB frame, outside the quads [4, 2] ``explained``."""
    height, width = image.shape[:2]
    smooth, noise = denoised(image, strongest=0.9)
    grey = cv2.cvtColor(smooth, cv2.COLOR_RGB2GRAY)
    scale = min(1.0, _WORKING_WIDTH / width)
    if scale < 1:
        grey = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    if min(grey.shape) < 2 * _MIN_HEIGHT:
        return []
    hidden = [(*(quad.min(axis=0) * scale - 1), *(quad.max(axis=0) * scale + 1)) for quad in explained]
    pieces: list[Box] = []
    kernel = cv2.getStructuringElement(cv2.MORPH_RECT, (11, 11))
    for operation in (cv2.MORPH_TOPHAT, cv2.MORPH_BLACKHAT):  # bright strokes, dark strokes
        relief = cv2.morphologyEx(grey, operation, kernel)
        for contrast in _CONTRASTS:
            strokes = cv2.inRange(relief, max(contrast, _NOISE_CONTRAST * noise), 255)
            rows = _rows(_glyphs(strokes, hidden))
            pieces += [(row[0].x0, min(g.y0 for g in row), row[-1].x1, max(g.y1 for g in row)) for row in rows]
    return [_padded(box, scale, width, height) for box in _joined(pieces)]


def _joined(pieces: list[Box]) -> list[Box]:
    """Pieces of one line, found at different contrasts, as one box each."""
    lines: list[Box] = []
    for piece in sorted(pieces):
        for i, line in enumerate(lines):
            overlap = min(line[3], piece[3]) - max(line[1], piece[1])
            tall = min(line[3] - line[1], piece[3] - piece[1])
            if overlap >= 0.6 * tall and piece[0] - line[2] <= 1.2 * tall:
                lines[i] = (line[0], min(line[1], piece[1]), max(line[2], piece[2]), max(line[3], piece[3]))
                break
        else:
            lines.append(piece)
    return sorted(lines, key=lambda box: (box[1], box[0]))


def _padded(box: Box, scale: float, width: int, height: int) -> Box:
    """In pixels of the frame, with the margin a recogniser expects around a line."""
    margin = 0.15 * (box[3] - box[1])
    return (
        max(0.0, (box[0] - 2 * margin) / scale),
        max(0.0, (box[1] - margin) / scale),
        min(float(width), (box[2] + 2 * margin) / scale),
        min(float(height), (box[3] + margin) / scale),
    )


def _glyphs(strokes: np.ndarray, hidden: Sequence[Box]) -> list[Glyph]:
    contours, _ = cv2.findContours(strokes, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    glyphs = []
    for contour in contours:
        x, y, w, h = cv2.boundingRect(contour)
        if not (_MIN_HEIGHT <= h <= _MAX_HEIGHT and 0.1 * h <= w <= 1.7 * h):
            continue
        middle_x, middle_y = x + w / 2, y + h / 2
        if any(b[0] <= middle_x <= b[2] and b[1] <= middle_y <= b[3] for b in hidden):
            continue
        ink = cv2.countNonZero(strokes[y : y + h, x : x + w])
        if ink < 0.15 * w * h:
            continue
        hull = max(1.0, cv2.contourArea(cv2.convexHull(contour)))
        glyphs.append(Glyph(x, y, x + w, y + h, cv2.contourArea(contour) < _MAX_SOLIDITY * hull or ink < 0.7 * hull))
    return glyphs


def _rows(glyphs: list[Glyph]) -> list[list[Glyph]]:
    """Chains of neighbours of like height on one line, of at least four of which most are ragged."""
    rows: list[list[Glyph]] = []
    open_rows: list[list[Glyph]] = []
    for glyph in sorted(glyphs, key=lambda g: (g.x0, g.y0)):
        open_rows = [row for row in open_rows if glyph.x0 - row[-1].x1 <= _MAX_HEIGHT]
        for row in open_rows:
            if _continues(row[-1], glyph):
                row.append(glyph)
                break
        else:
            open_rows.append([glyph])
            rows.append(open_rows[-1])
    return [row for row in rows if len(row) >= _MIN_CHARACTERS and sum(g.ragged for g in row) >= 0.6 * len(row)]


def _continues(last: Glyph, glyph: Glyph) -> bool:
    tall = max(last.height, glyph.height)
    overlap = min(last.y1, glyph.y1) - max(last.y0, glyph.y0)
    return overlap >= 0.6 * tall and -0.3 * tall <= glyph.x0 - last.x1 <= 0.9 * tall
