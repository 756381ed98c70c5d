"""How fast BoxWorld renders, on one core.

    python benchmarks/render.py [--clips 3]

CPU seconds, so that a busy machine does not count; ratios against the bare minimum of work on a frame: decoding it.
The bar is 200 frames of 320×240 a second and core.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2

from trustvid.benchmarks.boxworld.generate import make_clip
from trustvid.benchmarks.boxworld.masks import MaskPainter
from trustvid.benchmarks.boxworld.render import Painter
from trustvid.benchmarks.boxworld.world import FPS, Scene
from trustvid.video.writer import write_video

SERIES = 1001  # offset of the clips used here


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process for one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def decode(path: Path) -> None:
    """Reads every frame of a video file."""
    import av

    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            frame.to_ndarray(format="rgb24")


def measure(scenes: list[Scene], folder: Path) -> dict[str, float]:
    """Frames per CPU second of each kind of work."""
    painters = [Painter(scene) for scene in scenes]
    clips = [list(painter.frames()) for painter in painters]
    files = [folder / f"{number}.mp4" for number in range(len(scenes))]
    n = sum(scene.n_frames for scene in scenes)
    jobs: dict[str, Callable[[], object]] = {
        "render, textures made before": lambda: [list(painter.frames()) for painter in painters],
        "render, textures included": lambda: [list(Painter(scene).frames()) for scene in scenes],
        "id masks": lambda: [list(MaskPainter(scene).frames()) for scene in scenes],
        "H.264 encoding": lambda: [write_video(f, c, FPS, crf=18) for f, c in zip(files, clips, strict=True)],
        "H.264 decoding": lambda: [decode(path) for path in files],
    }
    return {name: n / cpu_seconds(work) for name, work in jobs.items()}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=3, help="of each kind")
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    print(f"{'frames per CPU second':32s}{'city':>8s}{'room':>8s}{'city / decoding':>18s}{'room / decoding':>18s}")
    with tempfile.TemporaryDirectory() as folder:
        rates = [
            measure([make_clip("dev", SERIES, 2 * i + parity).scene for i in range(arguments.clips)], Path(folder))
            for parity in (0, 1)
        ]
    for name, city in rates[0].items():
        room = rates[1][name]
        shares = city / rates[0]["H.264 decoding"], room / rates[1]["H.264 decoding"]
        print(f"{name:32s}{city:8.0f}{room:8.0f}{shares[0]:18.2f}{shares[1]:18.2f}")


if __name__ == "__main__":
    main()
