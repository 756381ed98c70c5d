"""What measuring a frame costs on one core, beside plain ways to do the same, in one run.

    python benchmarks/channels.py [--frames 32] [--repeats 7]

Paper channels (Eqs. 11–13) on 640×480 against vectorised float32 NumPy, whose results must agree to 1e-3; then all nine
measures on 320×240, and ramps, profile and scores of a whole clip. Processor time, turn by turn, best round of each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import cv2
import numpy as np

from trustvid.benchmarks.boxworld.preview import render_clip
from trustvid.reliability.channels import MU_REF, TAU_BLUR, TAU_EDGE, paper_channels
from trustvid.reliability.measures import measure_frame
from trustvid.reliability.ramps import absolute_ramps, relative_ramps

TOLERANCE = 1e-3


def numpy_channels(frames: np.ndarray) -> np.ndarray:
    """Eqs. 11–13 of uint8 RGB [n, H, W, 3], whole arrays at a time in float32; [n, 3]."""
    grey = np.rint(frames.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32))
    p = np.pad(grey, ((0, 0), (1, 1), (1, 1)), mode="edge")
    laplacian = p[:, :-2, 1:-1] + p[:, 2:, 1:-1] + p[:, 1:-1, :-2] + p[:, 1:-1, 2:] - 4 * grey
    rows = p[:, :-2] + 2 * p[:, 1:-1] + p[:, 2:]
    columns = p[:, :, :-2] + 2 * p[:, :, 1:-1] + p[:, :, 2:]
    x, y = rows[:, :, 2:] - rows[:, :, :-2], columns[:, 2:] - columns[:, :-2]
    value = frames.max(axis=3).astype(np.float32).mean(axis=(1, 2)) / 255
    blur = 1 - np.minimum(1, laplacian.var(axis=(1, 2)) / TAU_BLUR)
    occlusion = 1 - (np.sqrt(x * x + y * y) > TAU_EDGE).mean(axis=(1, 2))
    return np.stack([blur, np.minimum(1, 2 * np.abs(value - MU_REF)), occlusion], axis=1)


def best_ms(calls: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The best round of each call in milliseconds of processor time; the rounds take turns."""
    best = [float("inf")] * len(calls)
    for _ in range(repeats):
        for place, call in enumerate(calls):
            start = time.process_time()
            call()
            best[place] = min(best[place], 1000 * (time.process_time() - start))
    return best


def main() -> int:
    """Print the table; exit code 1 when the channels do not agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    cv2.setNumThreads(1)
    small = render_clip("city", 0).frames[: args.frames]
    n = len(small)
    large = np.stack([cv2.resize(frame, (640, 480), interpolation=cv2.INTER_CUBIC) for frame in small])
    table = np.array([measure_frame(frame) for frame in small])
    ours, plain, measures, absolute, relative = best_ms(
        [
            lambda: [paper_channels(frame) for frame in large],
            lambda: numpy_channels(large),
            lambda: [measure_frame(frame) for frame in small],
            lambda: absolute_ramps(table),
            lambda: relative_ramps(table),
        ],
        args.repeats,
    )
    apart = float(np.abs(np.array([paper_channels(frame) for frame in large]) - numpy_channels(large)).max())
    print(f"{n} frames, one core, best of {args.repeats} rounds")
    print(f"{'what':<44}{'ms/frame':>10}{'plain':>10}{'faster':>9}")
    print(f"{'paper channels, 640×480, against NumPy':<44}{ours / n:>10.2f}{plain / n:>10.2f}{plain / ours:>8.1f}×")
    print(f"{'all nine measures, 320×240':<44}{measures / n:>10.2f}")
    print(f"{'absolute ramps':<44}{absolute / n:>10.4f}")
    print(f"{'relative ramps':<44}{relative / n:>10.4f}")
    print(f"largest difference of a channel: {apart:.1e} (allowed {TOLERANCE:.0e})")
    return int(apart > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
