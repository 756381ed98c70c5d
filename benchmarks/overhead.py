"""What reliability costs in a clean run: profile and selection as a share of everything one video takes, on one core.

    python benchmarks/overhead.py [--videos 6] [--root .cache]

Each video of the val split of BoxWorld is answered by ``anchored`` from an empty cache. Frames are decoded first, once
for everyone (motion needs them all), and that is told apart. Printed: processor seconds per video, and the share of
profile and selection when one question is asked and when all four are.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import cv2
from omegaconf import OmegaConf

from trustvid.agent.assembly import build_pipelines
from trustvid.agent.driving import drive
from trustvid.agent.method import Question, View
from trustvid.config.checking import build
from trustvid.config.compose import compose_config
from trustvid.tools.assess_quality import stored_measurer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=6, help="videos of the val split, cities and rooms in turn")
    parser.add_argument("--root", type=Path, default=Path(".cache"), help="where BoxWorld lies or is generated")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    overrides = ["methods=[anchored]", "corruption=[]", f"benchmark.n_videos={args.videos}", f"paths.cache={args.root}"]
    config = OmegaConf.to_container(compose_config(overrides), resolve=True)
    samples, _ = build(config["benchmark"]).samples()
    policy, reader = build(config["policy"]), build(config["reader"])
    by_video: dict[Path, list] = {}
    for sample in samples:
        by_video.setdefault(sample.video, []).append(sample)
    rows = []
    for path, asked in by_video.items():
        pipeline = build_pipelines(config, cache_dir=None)["anchored"]  # nothing is remembered from the last video
        clip = reader.open(path)
        view = View(clip, stored_measurer(pipeline.executor))
        started = time.process_time()
        clip.frames(range(clip.n_frames))
        decoded = time.process_time()
        profile = view.profile(pipeline.method.reliability)
        pipeline.method.selection.select(profile, clip.n_frames, pipeline.method.frames)
        spent, marks = time.process_time() - decoded, []
        for sample in asked:
            drive(pipeline.run(Question(sample.question, sample.options), view), policy)
            marks.append(time.process_time() - started)
        rows.append((path.stem, decoded - started, spent, marks[0], marks[-1]))
    rows = rows[1:] or rows  # the first video also pays for imports and models
    print("seconds            decoding   profile+selection   one question   all questions")
    for name, decoding, spent, one, every in rows:
        print(f"{name:<16} {decoding:10.3f} {spent:19.3f} {one:14.3f} {every:15.3f}")
    spent, one, every = (sum(row[i] for row in rows) for i in (2, 3, 4))
    print(f"share: {spent / one:.1%} of a run with one question a video, {spent / every:.1%} with all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
