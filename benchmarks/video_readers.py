"""How fast 16 uniform frames of a long clip are read, by each reader, opening included, and whether they are right.

    python benchmarks/video_readers.py [--frames 6000] [--repeats 5]

The clip is made on the spot: 320×240, H.264, a key frame every 250 frames, moving content, its frame number drawn in.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np

from trustvid.video.reader import Reader
from trustvid.video.sampling import uniform_indices
from trustvid.video.writer import write_video

WIDTH, HEIGHT, GOP, BITS, ASKED = 320, 240, 250, 16, 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=6000, help="length of the clip (default: 6000)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each reader, interleaved (default: 5)")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        seconds = timed(lambda: write_video(path, moving_frames(args.frames), fps=30, gop=GOP))[0]
        size_mb = path.stat().st_size / 1e6
        print(f"{args.frames} frames of {WIDTH}×{HEIGHT}, drawn and written in {seconds:.1f} s, {size_mb:.1f} MB\n")
        report(path, args.frames, args.repeats)


def report(path: Path, n_frames: int, repeats: int) -> None:
    """Prints the table. Runs are interleaved, so that a busy moment of the machine hits all readers alike."""
    wanted = uniform_indices(n_frames, ASKED)
    readers = list(known_readers(path, wanted))
    seconds: dict[str, list[float]] = {name: [] for name, _ in readers}
    right: dict[str, bool] = {}
    for _ in range(repeats):
        for name, read in readers:
            took, frames = timed(read)
            seconds[name].append(took)
            right[name] = [read_number(frame) for frame in frames] == wanted
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    base = medians.get("decord, raw") or next(iter(medians.values()))
    print(f"{'reader':<34} {'median ms':>9} {'best ms':>8} {'ratio':>6}  frames")
    for name, median in medians.items():
        best, verdict = min(seconds[name]), "right" if right[name] else "WRONG"
        print(f"{name:<34} {median * 1e3:>9.0f} {best * 1e3:>8.0f} {median / base:>6.2f}  {verdict}")


def known_readers(path: Path, wanted: list[int]) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """Name and call of each reader; decord's only where it is installed. The first is what ratios refer to."""
    try:
        import decord
    except ImportError:
        decord = None
    if decord is not None:
        yield "decord, raw", lambda: decord.VideoReader(str(path)).get_batch(wanted).asnumpy()
    yield "trustvid reader=auto", lambda: Reader("auto").open(path).frames(wanted)
    yield "trustvid reader=pyav", lambda: Reader("pyav").open(path).frames(wanted)
    yield "trustvid reader=pyav, one thread", lambda: Reader("pyav", threads=1).open(path).frames(wanted)
    if decord is not None:
        yield "trustvid reader=auto prefer=decord", lambda: Reader("auto", prefer="decord").open(path).frames(wanted)
    yield "OpenCV, reading forward", lambda: read_forward(path, wanted)


def read_forward(path: Path, wanted: list[int]) -> np.ndarray:
    """What OpenCV offers where a property-based seek cannot be trusted: decode all, keep some."""
    capture, kept, frames = cv2.VideoCapture(str(path)), set(wanted), []
    for index in range(wanted[-1] + 1):
        capture.grab()
        if index in kept:
            frames.append(cv2.cvtColor(capture.retrieve()[1], cv2.COLOR_BGR2RGB))
    return np.stack(frames)


def timed(call: Callable[[], np.ndarray | int]) -> tuple[float, np.ndarray | int]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def moving_frames(n_frames: int) -> Iterator[np.ndarray]:
    """A window wandering over a smooth random texture; the frame number as a row of black and white squares."""
    rng = np.random.default_rng(0)
    texture = cv2.GaussianBlur(rng.integers(0, 256, (HEIGHT * 2, WIDTH * 3, 3), dtype=np.uint8), (0, 0), 3)
    texture = cv2.normalize(texture, None, 0, 255, cv2.NORM_MINMAX)
    side = WIDTH // BITS
    for index in range(n_frames):
        x, y = index * 3 % (2 * WIDTH), int(HEIGHT / 2 * (1 + np.sin(index / 40)))
        frame = texture[y : y + HEIGHT, x : x + WIDTH].copy()
        for bit in range(BITS):
            frame[:side, bit * side : (bit + 1) * side] = 255 * (index >> (BITS - 1 - bit) & 1)
        yield frame


def read_number(frame: np.ndarray) -> int:
    """The number that :func:`moving_frames` drew."""
    side = WIDTH // BITS
    bits = [frame[side // 2, bit * side + side // 2].mean() > 127 for bit in range(BITS)]
    return int("".join("1" if bit else "0" for bit in bits), 2)


if __name__ == "__main__":
    main()
