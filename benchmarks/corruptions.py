"""Milliseconds per frame of each corruption on one core, beside a plain NumPy loop that does the same thing.

    python benchmarks/corruptions.py [--severity 5] [--width 320 --height 240] [--frames 20] [--repeats 5]

Both are timed in the same run, turn by turn; the best round of each counts, so that other work on the machine disturbs
the ratio little. The plain loops are what one would write first: full-size arrays in floating point, frame by frame.
H.264 has none; freezes and dropped frames only copy a frame, and are left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import cv2
import numpy as np

from trustvid.corruption import SEVERITIES, Corruption
from trustvid.corruption.base import State
from trustvid.corruption.camera_shake import CameraShake
from trustvid.corruption.defocus import Defocus
from trustvid.corruption.fog import Fog
from trustvid.corruption.gaussian_noise import GaussianNoise
from trustvid.corruption.glare import Glare
from trustvid.corruption.h264 import H264
from trustvid.corruption.low_light import LowLight
from trustvid.corruption.motion_blur import MotionBlur
from trustvid.corruption.occlusion import Occlusion
from trustvid.corruption.rain import Rain, drops

Apply = Callable[[np.ndarray, int, State], np.ndarray]


def to_bytes(values: np.ndarray) -> np.ndarray:
    """Round and clip to uint8."""
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def plain_motion_blur(frame: np.ndarray, index: int, state: State) -> np.ndarray:
    """One shifted copy for each pixel of the streak, averaged in linear light."""
    height, width = frame.shape[:2]
    length, angle = state["length"][index], state["angle"][index]
    reach = int(length / 2) + 2
    padded = np.pad((frame / 255.0) ** 2, ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    along = np.linspace(-length / 2, length / 2, max(2, int(np.ceil(length)) + 1))
    total = np.zeros(frame.shape)
    for x, y in zip(np.rint(along * np.cos(angle)), np.rint(along * np.sin(angle)), strict=True):
        top, left = reach + int(y), reach + int(x)
        total += padded[top : top + height, left : left + width]
    return to_bytes(255 * np.sqrt(total / len(along)))


def plain_gaussian_noise(frame: np.ndarray, index: int, state: State) -> np.ndarray:
    """Normal floats for every pixel."""
    rng = np.random.default_rng([int(state["key"][0]), index])
    return to_bytes(frame + state["sigma"][frame] * rng.standard_normal(frame.shape))


def plain_glare(frame: np.ndarray, index: int, state: State) -> np.ndarray:
    """Source, streaks and veil at every pixel."""
    radius, veil, _ = state["size"]
    y, x = np.mgrid[0 : frame.shape[0], 0 : frame.shape[1]] + 0.5
    dx, dy = x - state["source"][index, 0], y - state["source"][index, 1]
    bloom = radius**2 / (dx**2 + dy**2 + 0.09 * radius**2)
    light = bloom + veil
    for angle in state["streak"]:
        across = dy * np.cos(angle) - dx * np.sin(angle)
        light += 0.9 * bloom * radius**2 / (radius**2 + 40 * across**2)
    light *= state["strength"][index]
    return to_bytes(255 * np.sqrt((frame / 255.0) ** 2 + light[..., None] * state["colour"]))


def plain_occlusion(frame: np.ndarray, index: int, state: State) -> np.ndarray:
    """Each blob blended in floating point over the pixels it covers."""
    height, width = frame.shape[:2]
    out = frame.astype(np.float64)
    for k, (x, y) in enumerate(state["centre"][index]):
        alpha, colour = state[f"alpha{k}"], state[f"colour{k}"]
        rows, columns = alpha.shape
        left, top = round(x - columns / 2), round(y - rows / 2)
        x0, x1, y0, y1 = max(0, left), min(width, left + columns), max(0, top), min(height, top + rows)
        if x0 >= x1 or y0 >= y1:
            continue
        here = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
        share = alpha[here][..., None]
        out[y0:y1, x0:x1] = out[y0:y1, x0:x1] * (1 - share) + colour[here] * share
    return to_bytes(out)


def plain_low_light(frame: np.ndarray, index: int, state: State) -> np.ndarray:
    """To linear light and back with powers, noise in between."""
    rng = np.random.default_rng([int(state["key"][0]), index])
    light = (frame / 255.0) ** 2.2 * state["gain"][index]
    noisy = light + np.sqrt(0.006**2 + 0.005 * light) * rng.standard_normal(frame.shape)
    step = int(state["step"][0])
    return to_bytes(np.rint(255 * np.maximum(noisy, 0) ** (1 / 2.2) / step) * step)


def plain_defocus(frame: np.ndarray, index: int, state: State) -> np.ndarray:
    """One shifted copy for each pixel of the disk, averaged in linear light."""
    height, width = frame.shape[:2]
    radius = state["radius"][index]
    reach = int(np.ceil(radius + 0.5))
    padded = np.pad((frame / 255.0) ** 2, ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    total, weights = np.zeros(frame.shape), 0.0
    for y in range(2 * reach + 1):
        for x in range(2 * reach + 1):
            weight = min(max(radius + 0.5 - np.hypot(x - reach, y - reach), 0.0), 1.0)
            if weight > 0:
                total += weight * padded[y : y + height, x : x + width]
                weights += weight
    return to_bytes(255 * np.sqrt(total / weights))


def plain_rain(frame: np.ndarray, index: int, state: State) -> np.ndarray:
    """Each streak by the distance of the pixels around it."""
    height, width = frame.shape[:2]
    share = np.zeros((height, width))
    opacity, veil = state["strength"]
    for k in range(3):
        ends = drops(k, width, height, index, state)
        for (x0, y0), (x1, y1) in ends:
            left, right = max(0, int(min(x0, x1)) - 2), min(width, int(max(x0, x1)) + 3)
            top, bottom = max(0, int(y0) - 2), min(height, int(y1) + 3)
            if left >= right or top >= bottom:
                continue
            y, x = np.mgrid[top:bottom, left:right]
            along = np.clip(((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / ((x1 - x0) ** 2 + (y1 - y0) ** 2), 0, 1)
            away = np.hypot(x - x0 - along * (x1 - x0), y - y0 - along * (y1 - y0))
            seen = share[top:bottom, left:right]
            np.maximum(seen, opacity * np.clip(1 - away, 0, 1), out=seen)
    dull = frame * (1 - veil) + np.array([150, 156, 164]) * veil
    return to_bytes(dull * (1 - share[..., None]) + np.array([208, 213, 220]) * share[..., None])


def plain_fog(frame: np.ndarray, index: int, state: State) -> np.ndarray:
    """The depth of the fog at every pixel."""
    height, width = frame.shape[:2]
    y, x = np.mgrid[0:height, 0:width] + 0.5
    x, y = x / width, y / height
    under = y - state["horizon"][index]
    below = (under + np.hypot(under, 0.15)) / (2 * (1 - state["horizon"][index]))
    distance = 0.3 + 0.7 * (1 / (1 + 3 * below) - 0.25) / 0.75
    banks = np.zeros((height, width))
    for (wave_x, wave_y), phase, weight in zip(state["wave"], state["phase"][index], state["weight"], strict=True):
        banks += weight * np.sin(2 * np.pi * (x * wave_x + y * wave_y) + phase)
    banks = np.clip(2 * (banks - banks.mean()), -1, 1)
    left = np.exp(-state["depth"][0] * distance * (1 + 0.35 * banks))[..., None]
    return to_bytes(frame * left + state["colour"] * (1 - left))


def plain_camera_shake(frame: np.ndarray, index: int, state: State) -> np.ndarray:
    """Bilinear samples at every pixel's place before the shake (ours are bicubic)."""
    height, width = frame.shape[:2]
    y, x = np.mgrid[0:height, 0:width].astype(float)
    middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
    move_x, move_y = state["move"][index]
    cos, sin = np.cos(state["turn"][index]), np.sin(state["turn"][index])
    dx, dy = x - middle_x - move_x, y - middle_y - move_y
    from_x, from_y = cos * dx + sin * dy + middle_x, cos * dy - sin * dx + middle_y
    whole_x, whole_y = np.floor(from_x).astype(int), np.floor(from_y).astype(int)
    total = np.zeros(frame.shape)
    for right in (0, 1):
        for down in (0, 1):
            weight = np.abs(1 - right - (from_x - whole_x)) * np.abs(1 - down - (from_y - whole_y))
            total += weight[..., None] * frame[mirrored(whole_y + down, height), mirrored(whole_x + right, width)]
    return to_bytes(total)


def mirrored(places: np.ndarray, size: int) -> np.ndarray:
    """Places outside of 0…size−1 mirrored back at the edge."""
    places = places % (2 * size)
    return np.minimum(places, 2 * size - 1 - places)


def best_ms(calls: list[Apply], frames: np.ndarray, state: State, repeats: int) -> list[float]:
    """The best round of each, in milliseconds per frame; the rounds take turns."""
    best = [float("inf")] * len(calls)
    for _ in range(repeats):
        for place, call in enumerate(calls):
            start = time.perf_counter()
            for index, frame in enumerate(frames):
                call(frame, index, state)
            best[place] = min(best[place], 1000 * (time.perf_counter() - start) / len(frames))
    return best


def h264_ms(frames: np.ndarray, severity: int, repeats: int) -> float:
    """The best round of encoding and decoding whole groups, in milliseconds per frame."""
    operator = H264()
    state = operator.plan(len(frames), 10.0, frames.shape[2], frames.shape[1], severity, np.random.default_rng(0))
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for first in range(0, len(frames), operator.group):
            operator.apply_group(frames[first : first + operator.group], first, state)
        best = min(best, 1000 * (time.perf_counter() - start) / len(frames))
    return best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--severity", type=int, default=5, choices=SEVERITIES)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--height", type=int, default=240)
    parser.add_argument("--frames", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()

    cv2.setNumThreads(1)
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (args.frames, 24, 32, 3), dtype=np.uint8)
    frames = np.array([cv2.resize(small, (args.width, args.height)) for small in coarse])
    pairs: list[tuple[Corruption, Apply]] = [
        (MotionBlur(), plain_motion_blur),
        (GaussianNoise(), plain_gaussian_noise),
        (Glare(), plain_glare),
        (Occlusion(), plain_occlusion),
        (LowLight(), plain_low_light),
        (Defocus(), plain_defocus),
        (Rain(), plain_rain),
        (Fog(), plain_fog),
        (CameraShake(), plain_camera_shake),
    ]
    print(f"severity {args.severity}, {args.width}×{args.height}, one core, best of {args.repeats} rounds")
    print(f"{'corruption':<16}{'ms/frame':>10}{'plain NumPy':>14}{'faster':>9}{'plan, ms':>11}")
    for corruption, plain in pairs:
        corruption.plan(args.frames, 10.0, args.width, args.height, args.severity, rng)  # imports, tables
        start = time.perf_counter()
        state = corruption.plan(args.frames, 10.0, args.width, args.height, args.severity, rng)
        planned = 1000 * (time.perf_counter() - start)
        ours, other = best_ms([corruption.apply, plain], frames, state, args.repeats)
        print(f"{corruption.name:<16}{ours:>10.2f}{other:>14.2f}{other / ours:>8.1f}×{planned:>11.1f}")
    print(f"{'h264':<16}{h264_ms(frames, args.severity, args.repeats):>10.2f}{'–':>14}{'–':>9}{0:>11.1f}")


if __name__ == "__main__":
    main()
