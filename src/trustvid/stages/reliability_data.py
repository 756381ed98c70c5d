"""What the learned estimator learns from: the cases of ``mode=calibrate``, and a view of each frame they are about.

Cases come from the collector of the calibration (``trustvid.evaluation.calibrating_cases``): which tool reported what
is there, under which corruption. A worker needs seconds for each video's tools and milliseconds for its views, so cases
are records of the run folder (a killed run goes on after the last), and views files of the cache that may be deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from trustvid.config.checking import build
from trustvid.errors import TrustvidError
from trustvid.evaluation import calibrating_cases
from trustvid.evaluation.calibrating import quality
from trustvid.evaluation.pool import Unit, UnitEvent, Work, run_units
from trustvid.evaluation.records import CLEAN
from trustvid.evaluation.runner import under
from trustvid.progress import Progress
from trustvid.reliability.learned_fit import FrameTable, calibrate_heads, yield_features
from trustvid.reliability.learned_views import VERSION, frame_view
from trustvid.reliability.ramps import relative_ramps
from trustvid.seeding import derive_rng

TIME_LIMIT_S = 900.0  # for one video in all its conditions

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """Videos that are looked at under one kind of labels.

    Attributes:
        part: "train", "dev" or "footage": the record file is cases_<part>.jsonl.
        videos: the questions of each video, by path; tools that look for things by name are asked for those in them.
        config: of the collector (see :func:`collector_config`).
    """

    part: str
    videos: Mapping[str, Sequence[str]]
    config: dict[str, Any]


def collector_config(config: Mapping[str, Any], benchmark: Mapping[str, Any], labels: str) -> dict[str, Any]:
    """The config that the collector of the calibration reads, from that of this stage."""
    cases = config["cases"]
    return {
        "benchmark": dict(benchmark),
        "calibrate": {**{key: cases[key] for key in ("severities", "frames", "window_s")}, "labels": labels},
        **{key: config[key] for key in ("seed", "reader", "tools", "corruption", "paths")},
        **{key: config[key] for key in ("window_s", "tool_time_limit_s")},
        "coverage": cases["coverage"],
    }


def chosen_conditions(config: Mapping[str, Any], video: str, per_video: int | None) -> list[str]:
    """Clean and a seeded draw of ``per_video`` of the others (None: all): many videos teach more than many conditions.

    The draw depends on the video's name alone.
    """
    every = calibrating_cases.conditions_of(config)
    rest = [name for name in every if name != CLEAN]
    if per_video is None or per_video >= len(rest):
        return every
    rng = derive_rng(config["seed"], Path(video).stem, "conditions")
    return [CLEAN, *(rest[place] for place in sorted(rng.choice(len(rest), per_video, replace=False)))]


# -- cases -------------------------------------------------------------------------------------------------------------


def collect(
    source: Source,
    per_video: int | None,
    workers: int,
    known: Sequence[Record],
    on_records: Callable[[Sequence[Record]], None],
) -> None:
    """Look at what is still open; ``on_records`` stores records as they come. What fails is named on standard error.

    Args:
        source: the videos.
        per_video: conditions of each besides clean; None for all.
        workers: processes; 0 = this one.
        known: records of an earlier run.
    """
    done: dict[str, set[str]] = {}
    for record in known:
        done.setdefault(record["video"], set()).add(record["condition"])
    every, units, total, finished = calibrating_cases.conditions_of(source.config), [], 0, 0
    for video in source.videos:
        wanted = chosen_conditions(source.config, video, per_video)
        skip = (set(every) - set(wanted)) | done.get(Path(video).stem, set())
        total, finished = total + len(wanted), finished + len(set(wanted) & skip)
        if set(wanted) - skip:
            questions = list(source.videos[video])
            units.append(Unit(video, {"video": video, "done": sorted(skip), "questions": questions}))
    with Progress(total, f"cases {source.part}", unit="passes", done=finished) as progress:

        def on_result(event: UnitEvent) -> None:
            if event.kind == "group":
                on_records(event.records)
                progress.advance(len(event.records))
            elif event.kind == "failed":
                print(f"{event.unit.name}: {event.reason}\n{event.detail}", file=sys.stderr)

        work = Work(calibrating_cases.set_up, calibrating_cases.collect_video, source.config)
        run_units(units, work, workers, TIME_LIMIT_S, on_result)


# -- views -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ViewWorker:
    """What a process that makes views keeps between videos."""

    config: Mapping[str, Any]
    reader: Any
    corruptions: Mapping[str, Any]


def set_up_views(config: dict[str, Any]) -> ViewWorker:
    """Build reader and corruptions of a collector's config, which also has ``size``, of a view."""
    import cv2

    cv2.setNumThreads(1)
    corruptions = {name: build(node) for name, node in config["corruption"].items()}
    return ViewWorker(config, build(config["reader"]), corruptions)


def make_views(worker: ViewWorker, unit: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Views of one video's frames, a file for each condition.

    Args:
        unit: ``video`` (path) and ``wanted``: [condition, frames] pairs.

    Yields:
        [{"video", "condition", "frames", "file"}]: the frames that are in the file, [n, 3, 2·size, size] uint8: all of
        a clean clip, of a corrupted one those it touched (the others are the clean ones once more).
    """
    clip = worker.reader.open(Path(unit["video"]))
    size, folder = worker.config["size"], Path(worker.config["paths"]["cache"]) / "views"
    for condition, frames in unit["wanted"]:
        view = under(clip, condition, worker.corruptions, worker.config["seed"])
        kept = [frame for frame in frames if condition == CLEAN or view.touched[frame]]
        record = {"video": clip.video_id, "condition": condition, "frames": kept, "file": None}
        if kept:
            parts = [clip.digest, [view.frame_key(frame) for frame in kept], kept, size, VERSION]
            name = hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()
            record["file"] = str(folder / f"{name}.npy")
            if not Path(record["file"]).is_file():
                _save(Path(record["file"]), np.stack([frame_view(view.frames([f])[0], size) for f in kept]))
        yield [record]


def _save(path: Path, views: np.ndarray) -> None:
    """Beside the target, then moved: no other process reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.stem}.{os.getpid()}.npy")
    np.save(draft, views, allow_pickle=False)
    draft.replace(path)


def view_files(source: Source, records: Sequence[Record], size: int, workers: int) -> dict[tuple[str, str], Record]:
    """Make the views of records that lack them; what :func:`make_views` says of each (video, condition).

    Raises:
        TrustvidError: a video that was looked at before cannot be read now.
    """
    paths = {Path(video).stem: video for video in source.videos}
    wanted: dict[str, list[list[Any]]] = {}
    for record in records:
        wanted.setdefault(record["video"], []).append([record["condition"], record["frames"]])
    units = [Unit(name, {"video": paths[name], "wanted": pairs}) for name, pairs in wanted.items()]
    found: dict[tuple[str, str], Record] = {}
    with Progress(len(records), f"views {source.part}", unit="passes") as progress:

        def on_result(event: UnitEvent) -> None:
            if event.kind == "failed":
                raise TrustvidError(f"{event.unit.name}: {event.reason}")
            found.update({(one["video"], one["condition"]): one for one in event.records})
            progress.advance(len(event.records))

        work = Work(set_up_views, make_views, {**source.config, "size": size})
        run_units(units, work, workers, TIME_LIMIT_S, on_result)
    return found


# -- table -------------------------------------------------------------------------------------------------------------


def frame_table(records: Sequence[Record], views: Mapping[tuple[str, str], Record], tools: Sequence[str]) -> FrameTable:
    """One row for each different frame that tools looked at, in an order that no worker decides.

    A case belongs to the frame it is about, a step between two frames to that nearest to its first.
    """
    pixels, ramps, right, count, videos = [], [], [], [], []
    for record in sorted(records, key=lambda one: (one["video"], one["condition"])):
        view = views[record["video"], record["condition"]]
        if not view["file"]:
            continue
        pixels.append(np.load(view["file"], allow_pickle=False))
        indices, frames = np.asarray(record["indices"]), np.asarray(record["frames"])
        of_clip = relative_ramps(np.asarray(record["measures"]))
        sums = np.zeros((2, len(frames), len(tools)))
        for tool, task, _, frame, _, _, is_right in record["yields"]:
            if task != "colour":  # the same thing once more, judged by its name: for routing alone
                place = np.abs(frames - frame).argmin(), tools.index(tool)
                sums[(0, *place)] += is_right
                sums[(1, *place)] += 1
        for frame in view["frames"]:
            at = int(np.abs(frames - frame).argmin())
            ramps.append(of_clip[np.abs(indices - frame).argmin()])
            right.append(sums[0, at])
            count.append(sums[1, at])
            videos.append(record["video"])
    if not pixels:
        raise TrustvidError("no video gave a case; the errors above say why")
    arrays = (np.asarray(values, dtype=np.float32) for values in (ramps, right, count))
    return FrameTable(np.concatenate(pixels), *arrays, np.array(videos))


def joined(tables: Sequence[FrameTable]) -> FrameTable:
    """The rows of several tables, one after another."""
    return FrameTable(*(np.concatenate([getattr(table, one.name) for table in tables]) for one in fields(FrameTable)))


def yield_quality(
    found: np.ndarray, table: FrameTable, tools: Sequence[str], use_ramps: bool, folds: int = 4
) -> list[dict[str, Any]]:
    """ECE, Brier score and AUC of each tool's yield, over the targets of the held-out frames.

    Calibrated across ``folds`` parts of the videos: each is predicted by models that were fitted on the others.

    Args:
        found: [n, tools] log-odds of the network.
    """
    names = sorted(set(table.video.tolist()))
    fold_of = {name: place % folds for place, name in enumerate(names)}
    folds_of_rows = np.array([fold_of[name] for name in table.video.tolist()])
    predicted = np.zeros(found.shape)
    for fold in sorted(set(folds_of_rows.tolist())):
        out = folds_of_rows == fold
        fit_on = ~out if (~out).any() else out
        models = calibrate_heads(found[fit_on], rows_of(table, fit_on), tools, use_ramps)
        for place, tool in enumerate(tools):
            predicted[out, place] = models[tool].predict(yield_features(found[out, place], table.ramps[out]))
    rows = []
    for place, tool in enumerate(tools):
        hits, misses = table.right[:, place], table.count[:, place] - table.right[:, place]
        confidence = np.concatenate([np.repeat(predicted[:, place], n.astype(int)) for n in (hits, misses)])
        right = np.concatenate([np.ones(int(hits.sum())), np.zeros(int(misses.sum()))])
        rows.append({"tool": tool, **quality(confidence, right)})
    return rows


def rows_of(table: FrameTable, keep: np.ndarray) -> FrameTable:
    """The rows that ``keep`` [n] bool marks."""
    return FrameTable(*(getattr(table, one.name)[keep] for one in fields(FrameTable)))
