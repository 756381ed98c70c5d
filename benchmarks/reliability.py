"""Does a trained network tell better than the clip-relative channels which tools will report what is there?

    python train.py stage=reliability                       # first; footage='[a.mp4, b.mp4]' adds videos without labels
    python benchmarks/reliability.py [--weights outputs/reliability/weights] [--videos 36] [--footage c.mp4 d.mp4]

Three sets that neither saw: BoxWorld's test clips under the five corruptions of the training; the same clips under
seven others; footage under the five, where a tool's report on the clean video counts as true. Each predicts, for each
thing that a tool ought to report, how likely it will: `relative` by the calibration of the package, `learned` by the
weights. AUC: chance that a reported target was given more than a missed one. ECE: ten bins of equal mass. Differences
are learned − relative, with 95 % intervals from a bootstrap over videos, the same resamples for both. The rule that was
fixed before: learned may become the default only where the interval of its AUC difference lies above 0. With fewer than
ten videos there is no interval worth the name, and none is given.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from trustvid.config.checking import build
from trustvid.config.compose import compose_config
from trustvid.evaluation.calibrating import ranking_auc
from trustvid.evaluation.records import CLEAN, Condition
from trustvid.evaluation.runner import under
from trustvid.evaluation.stats import expected_calibration_error
from trustvid.reliability.learned import Learned
from trustvid.reliability.profile import Profile, Relative
from trustvid.seeding import derive_rng
from trustvid.stages.common import plain_config
from trustvid.stages.reliability_data import Source, collect, collector_config

FIVE = ("motion_blur", "gaussian_noise", "glare", "occlusion", "low_light")
UNSEEN = ("defocus", "h264", "fog", "rain", "frame_drop", "freeze", "camera_shake")
RESAMPLES = 1000
LEAST_VIDEOS = 10  # fewer say nothing of other videos
NAMES = ("relative", "learned")

Row = tuple[str, str, float, float, int]  # tool, video, yield by relative, by learned, reported (0 or 1)


def source_of(part: str, corruptions: Sequence[str], args: argparse.Namespace) -> Source:
    """The videos of a part and the config to look at them with."""
    words = ["stage=reliability", f"corruption=[{','.join(corruptions)}]"]
    config = plain_config(compose_config(words, "train"))
    config["cases"]["severities"] = args.severities
    if part == "footage":
        return Source(part, {path: [] for path in args.footage}, collector_config(config, {"name": part}, "agreement"))
    node = {**config["benchmark"], "split": args.split, "n_videos": args.videos}
    videos: dict[str, list[str]] = {}
    for sample in build(node).samples()[0]:
        videos.setdefault(str(sample.video), []).append(sample.question)
    return Source(part, videos, collector_config(config, node, "truth"))


def predicted(profile: Profile, tool: str, frames: Sequence[int]) -> float:
    """Yield of a tool for a case: that of the nearest profiled frame, of a step the lower of both."""
    indices = np.asarray(profile.indices)
    return float(min(profile.yields[tool][np.abs(indices - frame).argmin()] for frame in frames))


def rows_of(source: Source, records: Sequence[Mapping[str, Any]], weights: str) -> tuple[list[Row], dict[str, float]]:
    """All cases with both predictions; and seconds and frames of the learned profile."""
    estimators = (Relative(), Learned(weights=weights))
    estimators[1].load()
    paths = {Path(video).stem: video for video in source.videos}
    reader = build(source.config["reader"])
    corruptions = {name: build(node) for name, node in source.config["corruption"].items()}
    rows: list[Row] = []
    spent = {"seconds": 0.0, "frames": 0}
    for record in sorted(records, key=lambda one: (one["video"], one["condition"])):
        clip = under(reader.open(paths[record["video"]]), record["condition"], corruptions, source.config["seed"])
        clip.frames(record["indices"])  # decoded and corrupted before the clock starts
        measures = np.asarray(record["measures"])
        start = time.perf_counter()
        relative, learned = (one.profile(clip, lambda _, indices, known=measures: known) for one in estimators)
        spent["seconds"] += time.perf_counter() - start
        spent["frames"] += len(learned.indices)
        for tool, task, _, frame, end, touched, right in record["yields"]:
            # Clean frames are counted once, under the clean condition.
            if task != "colour" and tool in learned.yields and (touched or record["condition"] == CLEAN):
                both = [predicted(profile, tool, (frame, end)) for profile in (relative, learned)]
                rows.append((tool, record["video"], *both, right))
    return rows, spent


# -- statistics --------------------------------------------------------------------------------------------------------


def scores(values: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """AUC and ECE of both, [n, 2] predictions; NaN where there is no AUC."""
    found = {}
    for place, name in enumerate(NAMES):
        auc = ranking_auc(values[:, place], right)
        found[f"auc {name}"] = np.nan if auc is None else auc
        found[f"ece {name}"] = expected_calibration_error(values[:, place], right)
    return found


def compare(rows: Sequence[Row], tool: str) -> dict[str, Any]:
    """Scores of one tool, and the intervals of learned − relative."""
    own = [row for row in rows if row[0] == tool]
    values, right = np.array([row[2:4] for row in own]), np.array([row[4] for row in own], dtype=float)
    videos, codes = np.unique([row[1] for row in own], return_inverse=True)
    found: dict[str, Any] = {"tool": tool, "n": len(own), "right": right.mean(), "videos": len(videos)}
    found |= scores(values, right)
    if len(videos) >= LEAST_VIDEOS:
        places = [np.flatnonzero(codes == code) for code in range(len(videos))]
        rng = derive_rng("benchmark", "reliability", tool)
        drawn = []
        for _ in range(RESAMPLES):
            some = np.concatenate([places[code] for code in rng.integers(0, len(videos), len(videos))])
            one = scores(values[some], right[some])
            drawn.append([one[f"{score} learned"] - one[f"{score} relative"] for score in ("auc", "ece")])
        found["auc interval"], found["ece interval"] = np.nanpercentile(drawn, (2.5, 97.5), axis=0).T
    return found


def table(part: str, rows: Sequence[Row]) -> Iterator[str]:
    """Markdown of one part."""
    yield f"\n{part}\n"
    head = ("tool", "targets", "reported", "AUC relative", "AUC learned", "Δ AUC [95 %]")
    head += ("ECE relative", "ECE learned", "Δ ECE [95 %]", "above 0")
    yield "| " + " | ".join(head) + " |\n|" + "---|" * len(head)
    for tool in dict.fromkeys(row[0] for row in rows):
        one = compare(rows, tool)
        cells = [tool, f"{one['n']}", f"{one['right']:.2f}"]
        for score in ("auc", "ece"):
            relative, learned = one[f"{score} relative"], one[f"{score} learned"]
            low, high = one.get(f"{score} interval", (np.nan, np.nan))
            interval = "" if np.isnan(low) else f" [{low:+.3f}, {high:+.3f}]"
            cells += [f"{relative:.3f}", f"{learned:.3f}", f"{learned - relative:+.3f}{interval}"]
        low = one.get("auc interval", (np.nan,))[0]
        cells.append("–" if np.isnan(low) else "yes" if low > 0 else "no")
        yield "| " + " | ".join(cells) + " |"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", default="outputs/reliability/weights", help="folder of trained weights")
    parser.add_argument("--split", default="test", choices=("dev", "val", "test"), help="choose on dev, claim on test")
    parser.add_argument("--videos", type=int, default=36, help="clips of BoxWorld")
    parser.add_argument("--severities", type=int, nargs="+", default=[3, 5])
    parser.add_argument("--per-video", type=int, default=5, help="conditions of each clip and part, besides clean")
    parser.add_argument("--footage", nargs="*", default=[], help="video files that the training did not see")
    parser.add_argument("--workers", type=int, default=2)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    args = arguments()
    cv2.setNumThreads(1)
    parts = [(f"BoxWorld {args.split}, corruptions of the training", "five", FIVE, args.per_video)]
    parts.append((f"BoxWorld {args.split}, other corruptions", "unseen", UNSEEN, args.per_video))
    if args.footage:
        parts.append(("footage, corruptions of the training, labels by agreement", "footage", FIVE, None))
    about = Learned(weights=args.weights).load()
    print(f"weights of {about.backbone.name}, {about.data['frames']} frames, config {about.config_hash}")
    for title, part, corruptions, per_video in parts:
        source, records = source_of(part, corruptions, args), []
        collect(source, per_video, args.workers, [], records.extend)
        rows, spent = rows_of(source, records, args.weights)
        seen = len({Condition.parse(record["condition"]).name for record in records}) - 1
        print("\n".join(table(f"{title}: {len(source.videos)} videos, {seen} corruptions", rows)))
        print(f"\nviews and network: {spent['frames'] / spent['seconds']:.0f} frames/s")


if __name__ == "__main__":
    main()
