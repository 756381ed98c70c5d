"""Procedural textures: sign plates, façades, furniture, ground, walls, sky. All uint8 RGB, all from a seed."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from trustvid.benchmarks.boxworld.geometry import plate_rectangle, side_length
from trustvid.benchmarks.boxworld.world import COLOURS, Box
from trustvid.seeding import derive_rng

Image8 = np.ndarray  # uint8 RGB [H, W, 3]

PLATE = (244, 244, 240)
INK = (14, 14, 18)
_LETTER_HEIGHT = 0.74  # of the plate's height, at most
_WORD_WIDTH = 0.90  # of the plate's width, at most


@lru_cache(maxsize=256)
def sign_plate(word: str, width: int, height: int) -> Image8:
    """A white plate [height, width, 3] with a thin grey frame and the word in black, as large as it fits."""
    probe = ImageFont.load_default(size=100)
    stroke = 2
    left, top, right, bottom = probe.getbbox(word, stroke_width=stroke)
    size = 100 * min(_WORD_WIDTH * width / (right - left), _LETTER_HEIGHT * height / (bottom - top))
    font = ImageFont.load_default(size=size)
    stroke = max(1, round(size * stroke / 100))
    plate = Image.new("RGB", (width, height), PLATE)
    draw = ImageDraw.Draw(plate)
    draw.rectangle((0, 0, width - 1, height - 1), outline=(168, 168, 166), width=max(1, height // 40))
    draw.text((width / 2, height / 2), word, fill=INK, font=font, anchor="mm", stroke_width=stroke, stroke_fill=INK)
    array = np.asarray(plate).copy()
    array.setflags(write=False)
    return array


def value_noise(rng: np.random.Generator, height: int, width: int, cells: tuple[int, ...], amount: float) -> np.ndarray:
    """Sum of smooth noise fields float32 [height, width] around 0; ``cells`` are their grain sizes in pixels."""
    total = np.zeros((height, width), np.float32)
    for cell in cells:
        coarse = rng.standard_normal((height // cell + 2, width // cell + 2), dtype=np.float32)
        interpolation = cv2.INTER_NEAREST if cell == 1 else cv2.INTER_LINEAR
        total += cv2.resize(coarse, (width, height), interpolation=interpolation)
    return total * np.float32(amount / np.sqrt(len(cells)))


def shade(base: Image8 | tuple, gain: np.ndarray) -> Image8:
    """``base`` (a colour or a picture) times ``gain`` [H, W] in 0–2; a gain changes the value, never the hue."""
    if isinstance(base, tuple):
        return cv2.merge([cv2.convertScaleAbs(gain, alpha=float(channel)) for channel in base])
    steps = cv2.convertScaleAbs(gain, alpha=127.0)
    return cv2.multiply(base, cv2.merge([steps, steps, steps]), scale=1 / 127)


def facade(box: Box, side: int, light: float, pixels: int = 192) -> Image8:
    """A vertical side of a city box, under ``light`` (1 = full): masonry, windows, door, and its sign if any."""
    rng = derive_rng("face", box.look, side)
    span = side_length(box, side)
    height = max(16, round(pixels * box.height / span))
    gain = 1.0 + value_noise(rng, height, pixels, (2, 8), 0.045)
    metre = pixels / span
    gain[:: max(3, round(0.5 * metre))] *= 0.90  # courses of stone
    ceiling = box.height * (1 - plate_rectangle(box, side)[3]) if box.word else box.height - 0.25
    _windows(rng, gain, metre, box.height, span, ceiling)
    if box.word is None:
        gain[: max(1, round(0.14 * metre))] *= 0.72  # cornice
    base = COLOURS[box.colour] if box.colour else _grey(box)
    picture = shade(base, gain * np.float32(light))
    if box.word:
        _mount_plate(picture, box, side, light)
    return picture


def _windows(
    rng: np.random.Generator, gain: np.ndarray, metre: float, tall: float, span: float, ceiling: float
) -> None:
    """Darkens (or lights) rows of windows below ``ceiling`` metres, and a door at the foot."""
    height, width = gain.shape
    columns = max(2, int(span // 1.5))
    pitch = width / columns
    floors = max(0, int((ceiling - 0.5) // 1.4))
    for floor in range(floors):
        top = tall - (0.55 + 1.4 * floor + 0.95)
        rows = slice(max(0, round(top * metre)), round((top + 0.85) * metre))
        for column in range(columns):
            left = round((column + 0.24) * pitch)
            right = round((column + 0.76) * pitch)
            level = 0.60 if rng.random() < 0.7 else 0.78
            gain[rows, left - 1 : right + 1] *= 0.86
            gain[rows, left:right] *= level
            gain[rows, (left + right) // 2] *= 1.25
    door = round((0.1 + 0.7 * rng.random()) * width)
    gain[height - round(1.0 * metre) :, door : door + max(2, round(0.7 * metre))] *= 0.55


def furniture(box: Box, side: int, light: float, pixels: int = 160) -> Image8:
    """A vertical side of a room's object, under ``light``: panels and grain, with the word plate."""
    rng = derive_rng("face", box.look, side)
    span = side_length(box, side)
    height = max(16, round(pixels * box.height / span))
    gain = 1.0 + cv2.resize(
        value_noise(rng, height, max(4, pixels // 12), (2,), 0.05), (pixels, height), interpolation=cv2.INTER_LINEAR
    )
    gain += value_noise(rng, height, pixels, (2,), 0.025)
    edge = max(2, pixels // 40)
    for part in (gain[:edge], gain[-edge:], gain[:, :edge], gain[:, -edge:]):
        part *= 0.78
    below = round(height * plate_rectangle(box, side)[3])
    panels = int(rng.integers(1, 4))
    for index in range(1, panels + 1):  # drawers or doors under the plate
        column = round(index * pixels / panels)
        gain[below + edge :, max(0, column - 2) : column] *= 0.7
        middle = round((index - 0.5) * pixels / panels)
        gain[(below + height) // 2 - 2 : (below + height) // 2 + 2, middle - 6 : middle + 6] *= 0.55
    picture = shade(COLOURS[box.colour or "red"], gain * np.float32(light))
    _mount_plate(picture, box, side, light)
    return picture


def _mount_plate(picture: Image8, box: Box, side: int, light: float) -> None:
    """Draws the sign plate where :func:`geometry.plate_rectangle` says it hangs, a little brighter than its wall."""
    height, width = picture.shape[:2]
    shares = plate_rectangle(box, side)
    left, top, right, bottom = (round(share * size) for share, size in zip(shares, (width, height) * 2, strict=True))
    plate = sign_plate(box.word or "", right - left, bottom - top)
    picture[top:bottom, left:right] = cv2.convertScaleAbs(plate, alpha=0.6 + 0.4 * light)


def roof(box: Box, pixels: int = 64) -> Image8:
    """The top of a box: flat with a rim, some vents on grey buildings."""
    rng = derive_rng("roof", box.look)
    gain = 1.0 + value_noise(rng, pixels, pixels, (2, 8), 0.05)
    if box.colour is None:
        for _ in range(int(rng.integers(1, 4))):
            row, column = rng.integers(8, pixels - 20, 2)
            gain[row : row + 10, column : column + 12] *= 0.8
    for part in (gain[:4], gain[-4:], gain[:, :4], gain[:, -4:]):
        part *= 0.82
    return shade(COLOURS[box.colour] if box.colour else _grey(box), gain)


def _grey(box: Box) -> tuple[float, float, float]:
    """The wall colour of a grey building: a light or dark grey with a trace of warmth or coolness."""
    rng = derive_rng("grey", box.look)
    level, tint = rng.uniform(96, 172), rng.uniform(-6, 6)
    return level + tint, level + tint / 3, level - tint


def mip_levels(picture: Image8, levels: int = 4) -> list[Image8]:
    """The picture and its halvings (area averages), as many as make sense."""
    chain = [picture]
    while len(chain) < levels and min(chain[-1].shape[:2]) >= 12:
        height, width = chain[-1].shape[:2]
        chain.append(cv2.resize(chain[-1], (max(1, width // 2), max(1, height // 2)), interpolation=cv2.INTER_AREA))
    return chain
