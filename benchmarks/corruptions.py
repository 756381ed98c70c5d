"""Milliseconds per frame of each corruption on one core, beside a plain NumPy loop that does the same thing.

    python benchmarks/corruptions.py [--severity 5] [--width 320 --height 240] [--frames 20] [--repeats 5]

Both are timed in the same run, turn by turn; the best round of each counts, so that other work on the machine disturbs
the ratio little. The plain loops are what one would write first: full-size arrays in floating point, frame by frame.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import cv2
import numpy as np

from trustvid.corruption import SEVERITIES, Corruption
from trustvid.corruption.base import State
from trustvid.corruption.gaussian_noise import GaussianNoise
from trustvid.corruption.glare import Glare
from trustvid.corruption.low_light import LowLight
from trustvid.corruption.motion_blur import MotionBlur
from trustvid.corruption.occlusion import Occlusion

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


if __name__ == "__main__":
    main()
