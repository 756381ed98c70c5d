"""What the embedded tools cost and how often they are right, on BoxWorld clips as they come out of H.264 files.

    python benchmarks/tools.py [--clips 4] [--every 6] [--first-seed 500]
    python benchmarks/tools.py --corruptions [--severity 3] [--clips 2] [--every 12]

Cost: milliseconds of processor time on one core, with the ratio to a plain way to do the same in the same run
(rapidocr's own pipeline at its defaults; dense Farnebäck flow). Yield: share of what can be seen that the tool reports;
precision: share of its reports that are right. A sign counts as readable from 6 pixels a letter and 500 pixels in all,
whole in the frame; a landmark counts from 150 visible pixels.

With --corruptions it is one table instead: yield, precision and cost of every tool on clean frames and under each
corruption, which shows where the two tools of a semantic type fail apart. Its last column is the mean error of lower
edges (objects) in pixels, and of turns (motion) in degrees.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np

from trustvid.benchmarks.boxworld.preview import Preview, SeenBox, render_clip
from trustvid.corruption import SEVERITIES, Corruption
from trustvid.corruption.gaussian_noise import GaussianNoise
from trustvid.corruption.glare import Glare
from trustvid.corruption.low_light import LowLight
from trustvid.corruption.motion_blur import MotionBlur
from trustvid.corruption.occlusion import Occlusion
from trustvid.seeding import derive_rng
from trustvid.tools.caption_frame import CaptionFrame
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery, Tool
from trustvid.tools.read_text import ReadText
from trustvid.tools.recognize_action import RecognizeAction
from trustvid.tools.track_temporal import TrackTemporal
from trustvid.tools.vision.colour import overlap_share
from trustvid.video.reader import open_clip
from trustvid.video.writer import write_video

T = TypeVar("T")
QUERY = SubQuery("what is there?", "spatial")
HEIGHT, WIDTH = 240, 320


def load(kind: str, seed: int, folder: Path) -> tuple[Preview, np.ndarray]:
    """A clip's truth and its frames after coding."""
    preview = render_clip(kind, seed)
    path = folder / f"{kind}-{seed}.mp4"
    write_video(path, preview.frames, 10)
    with open_clip(path) as clip:
        return preview, clip.frames(range(clip.n_frames))


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """A result and the processor seconds it took."""
    started = time.process_time()
    return call(), time.process_time() - started


def observe(tool: Tool, frames: np.ndarray, indices: Sequence[int]) -> tuple[list[list[Observation]], float]:
    """Outputs for some frames, and the processor seconds they took."""
    batch = FrameBatch(frames[list(indices)], tuple(indices), tuple(i / 10 for i in indices))
    return timed(lambda: tool.observe(batch, QUERY, ()))


def middle(seen: Observation) -> float:
    """Horizontal centre of an observation's box."""
    return (seen.box[0] + seen.box[2]) / 2


def score_reading(seen: list[Observation], truth: list[SeenBox], count: Counter) -> None:
    """Words: exact ones, and parts of a word (a sign that the border or a wall cuts)."""
    for box in truth:
        x0, _, x1, _ = box.plate or (0.0, 0.0, 0.0, 0.0)
        whole = x0 > 0.005 and x1 < 0.995
        if box.plate_pixels >= 500 and whole and (x1 - x0) * WIDTH >= 6 * len(box.word):
            count["readable"] += 1
            count["read"] += any(s.label == box.word and x0 <= middle(s) <= x1 for s in seen)
    for one in seen:
        words = [box.word for box in truth if box.box[0] <= middle(one) <= box.box[2]]
        count["reads"] += 1
        count["exact"] += one.label in words
        count["part"] += any(one.label in word for word in words)


def score_detection(seen: list[Observation], truth: list[SeenBox], count: Counter, errors: dict[str, list]) -> None:
    """Boxes with the right colour and IoU ≥ 0.5, and where their edges lie."""
    boxes = [one for one in seen if one.kind == "object" and one.label != "sign"]
    for box in truth:
        found = [one for one in boxes if one.label == f"{box.colour} box" and overlap_share(one.box, box.box) >= 0.5]
        if box.pixels >= 150:
            count["visible"] += 1
            count["found"] += bool(found)
        if found and box.box[3] < 0.995:
            errors["bottom"].append((found[0].box[3] - box.box[3]) * HEIGHT)
        if found and box.box[0] > 0.005:
            errors["left"].append((found[0].box[0] - box.box[0]) * WIDTH)
    for one in boxes:
        count["boxes"] += 1
        same = (b for b in truth if one.label == f"{b.colour} box")
        count["right"] += any(overlap_share(one.box, b.box) >= 0.5 for b in same)


def score_motion(outputs: list[list[Observation]], preview: Preview, count: Counter, errors: dict[str, list]) -> None:
    """Labels of steps, and the angle accumulated over each turn (city) or the whole pan (room)."""
    change = np.diff(preview.poses[:, 2])
    measured = [next((one for one in seen if one.kind == "motion"), None) for seen in outputs]
    for seen, yaw in zip(measured, change, strict=True):
        if 1e-6 < abs(yaw) < 0.8:
            continue  # slower than the tool calls a turn
        straight = "forward" if preview.scene.kind == "city" else "still"
        label = straight if abs(yaw) <= 1e-6 else "turn right" if yaw > 0 else "turn left"
        count["steps"] += 1
        count["told"] += seen is not None
        count["labelled"] += seen is not None and seen.label == label
    turns = [(s.first, s.last) for s in preview.scene.steps if s.action != "forward"] or [(0, len(change))]
    for first, last in turns:
        yaw = sum(seen.values["yaw_deg"] for seen in measured[first:last] if seen)
        errors["turn"].append(yaw - (preview.poses[last, 2] - preview.poses[first, 2]))


def plain_reader() -> Callable[[np.ndarray], object]:
    """rapidocr's pipeline at its defaults, on one thread."""
    from rapidocr import RapidOCR

    one_thread = {"EngineConfig.onnxruntime.intra_op_num_threads": 1, "Global.log_level": "error"}
    engine = RapidOCR(params=one_thread)
    return lambda frame: engine(np.ascontiguousarray(frame[..., ::-1]))


def plain_flow(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Dense flow between two frames."""
    greys = [cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) for frame in (before, after)]
    return cv2.calcOpticalFlowFarneback(*greys, None, 0.5, 3, 15, 3, 5, 1.2, 0)


def measure(kind: str, args: argparse.Namespace, folder: Path) -> None:
    """Print the rows of one kind of scene."""
    count: Counter = Counter()
    errors: dict[str, list] = {"bottom": [], "left": [], "turn": []}
    spent: Counter = Counter()
    reader, read_plainly = ReadText(), plain_reader()
    detectors = {"detect": DetectObjects(), "detect, no signs": DetectObjects(signs=False)}
    for seed in range(args.first_seed, args.first_seed + args.clips):
        preview, frames = load(kind, seed, folder)
        indices = range(0, len(frames), args.every)
        if seed == args.first_seed:
            observe(reader, frames, indices[:1])  # loads the models
            read_plainly(frames[0])
        words, spent_reading = observe(reader, frames, indices)
        spent["read"] += spent_reading
        spent["frames"] += len(indices)
        for name, tool in detectors.items():
            boxes, seconds = observe(tool, frames, indices)
            spent[name] += seconds
        for t, seen_words, seen_boxes in zip(indices, words, boxes, strict=True):
            score_reading(seen_words, preview.seen[t], count)
            score_detection(seen_boxes, preview.seen[t], count, errors)
        motion, seconds = observe(RecognizeAction(), frames, range(len(frames)))
        spent["motion"] += seconds
        spent["pairs"] += len(frames) - 1
        score_motion(motion, preview, count, errors)
        spent["plain read"] += timed(lambda frames=frames: read_plainly(frames[0]))[1]
        spent["plain flow"] += timed(lambda frames=frames: plain_flow(frames[0], frames[1]))[1]
    report(kind, args.clips, count, errors, spent)


def report(kind: str, clips: int, count: Counter, errors: dict[str, list], spent: Counter) -> None:
    """One line a tool."""

    def share(part: str, whole: str) -> str:
        return f"{count[part] / max(1, count[whole]):.3f} of {count[whole]}"

    def milliseconds(name: str, unit: str) -> float:
        return 1000 * spent[name] / max(1, spent[unit])

    read, motion = milliseconds("read", "frames"), milliseconds("motion", "pairs")
    detect, unsigned = milliseconds("detect", "frames"), milliseconds("detect, no signs", "frames")
    plain_read, plain_motion = (1000 * spent[name] / clips for name in ("plain read", "plain flow"))
    bottom, left, turn = (np.abs(errors[name]) for name in ("bottom", "left", "turn"))
    print(f"{kind}: {clips} clips, {spent['frames']} frames, {spent['pairs']} pairs")
    print(f"  read_text         {read:5.1f} ms/frame = {read / plain_read:.2f} × rapidocr's pipeline")
    print(f"                    yield {share('read', 'readable')}; exact {share('exact', 'reads')} reads;", end=" ")
    print(f"exact or a part of the word {share('part', 'reads')}")
    print(f"  detect_objects    {detect:5.1f} ms/frame, {unsigned:.1f} without signs")
    print(f"                    yield {share('found', 'visible')}; precision {share('right', 'boxes')};", end=" ")
    print(f"bottom edge off {bottom.mean():.2f} px (p95 {np.percentile(bottom, 95):.1f}), left {left.mean():.2f} px")
    print(f"  recognize_action  {motion:5.1f} ms/pair = {motion / plain_motion:.2f} × dense flow")
    what = "turn" if kind == "city" else "pan"
    print(f"                    labels {share('labelled', 'steps')} steps;", end=" ")
    print(f"{what} off {turn.mean():.2f}° (worst {turn.max():.2f}° of {len(turn)})")


def corrupted(frames: np.ndarray, corruption: Corruption | None, severity: int, seed: int) -> np.ndarray:
    """All frames under a corruption."""
    if corruption is None:
        return frames
    rng = derive_rng("benchmark", corruption.name, seed)
    state = corruption.plan(len(frames), 10.0, WIDTH, HEIGHT, severity, rng)
    return np.stack([corruption.apply(frame, index, state) for index, frame in enumerate(frames)])


def measure_corrupted(kind: str, args: argparse.Namespace, folder: Path) -> None:
    """Print the table of one kind of scene: a row for each corruption and tool."""
    clips = [load(kind, seed, folder) for seed in range(args.first_seed, args.first_seed + args.clips)]
    tools = (ReadText(), DetectObjects(signs=False), CaptionFrame(), RecognizeAction(), TrackTemporal())
    for tool in tools:
        observe(tool, clips[0][1], range(2))  # loads models and libraries
    print(f"{kind}: {args.clips} clips, severity {args.severity}")
    print(f"  {'corruption':<16}{'tool':<18}{'yield':>7}{'of':>6}{'precision':>11}{'of':>6}{'ms':>7}{'px or °':>8}")
    for corruption in (None, MotionBlur(), GaussianNoise(), Glare(), Occlusion(), LowLight()):
        views = [
            (truth, corrupted(frames, corruption, args.severity, args.first_seed + k))
            for k, (truth, frames) in enumerate(clips)
        ]
        for tool in tools:
            count, milliseconds, off = score_tool(tool, views, args.every)
            cells = "".join(
                f"{count[part] / count[whole] if count[whole] else float('nan'):>{wide}.2f}{count[whole]:>6}"
                for part, whole, wide in ((*YIELD[tool.name], 7), (*PRECISION[tool.name], 11))
            )
            name = corruption.name if corruption else "clean"
            print(f"  {name:<16}{tool.name:<18}{cells}{milliseconds:>7.1f}{off:>8.1f}", flush=True)


# Counters (part, whole) of the shares in the table.
OBJECTS, MOTION = ("detect_objects", "caption_frame"), ("recognize_action", "track_temporal")
YIELD = {"read_text": ("read", "readable"), **dict.fromkeys(OBJECTS, ("found", "visible"))}
YIELD |= dict.fromkeys(MOTION, ("told", "steps"))
PRECISION = {"read_text": ("part", "reads"), **dict.fromkeys(OBJECTS, ("right", "boxes"))}
PRECISION |= dict.fromkeys(MOTION, ("labelled", "told"))


def score_tool(tool: Tool, views: Sequence[tuple[Preview, np.ndarray]], every: int) -> tuple[Counter, float, float]:
    """Of one tool over clips (truth, frames): counts, milliseconds per frame or pair, and the mean error of lower edges
    in pixels or of turns in degrees (NaN where there is neither)."""
    count: Counter = Counter()
    errors: dict[str, list] = {"bottom": [], "left": [], "turn": []}
    seconds = units = 0.0
    for preview, frames in views:
        indices = range(0, len(frames), every if tool.span == "frame" else 1)
        outputs, spent = observe(tool, frames, indices)
        seconds, units = seconds + spent, units + len(outputs)
        if tool.span == "pair":
            score_motion(outputs, preview, count, errors)
            continue
        for t, seen in zip(indices, outputs, strict=True):
            if tool.name == "read_text":
                score_reading(seen, preview.seen[t], count)
            else:
                score_detection(seen, preview.seen[t], count, errors)
    off = np.abs(errors["bottom"] + errors["turn"])
    return count, 1000 * seconds / units, float(off.mean()) if len(off) else float("nan")


def main() -> None:
    """Parse the command line and measure both kinds of scene."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=4, help="clips of each kind")
    parser.add_argument("--every", type=int, default=6, help="read and detect on every n-th frame")
    parser.add_argument("--first-seed", type=int, default=500, help="seed of the first clip")
    parser.add_argument("--corruptions", action="store_true", help="all tools, clean and under each corruption")
    parser.add_argument("--severity", type=int, default=3, choices=SEVERITIES, help="of the corruptions")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("city", "room"):
            (measure_corrupted if args.corruptions else measure)(kind, args, Path(folder))


if __name__ == "__main__":
    main()
