"""What a worker of ``mode=calibrate`` does with one video: measure its frames, run every tool, compare with the labels.

One record for each condition. It holds measures, not channels or features, so that a change of their constants needs
no new run. Everything given and taken is a plain container: it crosses process borders.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from trustvid.agent.assembly import build_executor
from trustvid.config.checking import build
from trustvid.errors import DataError, TrustvidError
from trustvid.evaluation.calibrating_labels import (
    TASK_OF_KIND,
    AgreementLabels,
    Labels,
    Target,
    TruthLabels,
    Unit,
    is_right,
)
from trustvid.evaluation.records import CLEAN, Condition
from trustvid.evaluation.runner import under
from trustvid.reliability.measures import Measurer
from trustvid.tools.assess_quality import AssessQuality, stored_measurer
from trustvid.tools.evidence import Observation, SubQuery
from trustvid.tools.executor import Executor
from trustvid.video.sampling import dense_windows, uniform_indices
from trustvid.video.source import FrameSource

PROFILED = 64  # frames measured in a clip: what the estimators measure
QUERY = "everything the tool can tell"  # where a video has no questions
GENERATED = "trustvid.benchmarks.boxworld.benchmark.BoxWorld"

Outputs = dict[Unit, list[Observation]]


@dataclass(frozen=True)
class Worker:
    """What a worker process keeps between videos.

    Attributes:
        executor: with windows of ``calibrate.window_s``: a step is the same in any window.
        wide: with windows of ``window_s``, as in a run, for tools that look at a window as a whole.
    """

    config: Mapping[str, Any]
    executor: Executor
    wide: Executor
    measure: Measurer
    reader: Any
    corruptions: Mapping[str, Any]

    @property
    def tools(self) -> list[str]:
        """The tools to calibrate: all of the config but the one that measures."""
        return [name for name in self.executor.tools if name != AssessQuality.name]

    def run(self, tool: str, clip: FrameSource, frames: Sequence[int], query: SubQuery) -> Outputs:
        """Reports of a tool: :func:`run_tool` in windows of the width that it wants."""
        executor = self.wide if self.executor.tools[tool].span == "window" else self.executor
        return run_tool(executor, tool, clip, frames, query)


def set_up(config: dict[str, Any]) -> Worker:
    """Build the components of a validated config in this process."""
    import cv2

    cv2.setNumThreads(1)  # one video, one core: the pool is the parallelism
    cache = Path(config["paths"]["cache"]) / "tools"
    executor = build_executor({**config, "window_s": config["calibrate"]["window_s"]}, cache)
    return Worker(
        config=config,
        executor=executor,
        wide=build_executor(config, cache),
        measure=stored_measurer(executor),
        reader=build(config["reader"]),
        corruptions={name: build(node) for name, node in config["corruption"].items()},
    )


def conditions_of(config: Mapping[str, Any]) -> list[str]:
    """Clean, then each corruption at each severity of ``calibrate.severities`` and the config's coverage."""
    return [
        CLEAN,
        *(
            Condition(name, severity, config["coverage"]).text
            for name in config["corruption"]
            for severity in config["calibrate"]["severities"]
        ),
    ]


def label_source(config: Mapping[str, Any]) -> str:
    """ "truth" or "agreement": what ``calibrate.labels`` says, or, for "auto", truth where it can judge every tool.

    The truth has names of its own for things and motion, which are those of the embedded tools; a word is a word to any
    reader. Published models have others ("riding a bike", a whole sentence): by it they would be wrong throughout.

    Raises:
        DataError: truth of a benchmark that has none, or about a tool with other names.
    """
    wanted, known = config["calibrate"]["labels"], config["benchmark"].get("_target_") == GENERATED
    backends = {tool.name: tool.settings().get("backend", "") for tool in map(build, config["tools"].values())}
    others = [f"tools/{tool}={name}" for tool, name in backends.items() if name != "embedded" and tool != "read_text"]
    if wanted == "truth" and not known:
        raise DataError(
            f"calibrate.labels=truth: {config['benchmark'].get('name')} does not know what is in its frames; "
            "use labels=agreement or benchmark=boxworld"
        )
    if wanted == "truth" and others:
        raise DataError(
            f"calibrate.labels=truth cannot judge {', '.join(others)}: published models have other names for what they "
            "see; use labels=agreement, or embedded tools"
        )
    return "truth" if known and not others and wanted != "agreement" else "agreement"


def collect_video(worker: Worker, unit: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The cases of one video, a record for each condition that is still open.

    Args:
        unit: ``video`` (path), ``done`` (conditions that have a record) and, where there are any, ``questions`` (texts;
            what they name is what tools are asked for that look for things by name).

    Yields:
        [{"video", "condition", "indices", "measures", "frames", "yields", "reports"}]: measured frames [n] and their
        measures [n, 9]; the frames that tools looked at; ``yields`` are [tool, task, key, frame, end, touched, right]
        for each target that a tool ought to report; ``reports`` are [tool, task, frame, end, touched, score, area,
        clipped, right].

    Raises:
        VideoError: the clip cannot be decoded.
        TrustvidError: a tool call failed; silence of a tool must mean that it saw nothing.
    """
    clip = worker.reader.open(Path(unit["video"]))
    settings = worker.config["calibrate"]
    indices = uniform_indices(clip.n_frames, PROFILED)
    frames = [indices[place] for place in uniform_indices(len(indices), settings["frames"])]
    query = SubQuery(" ".join(unit.get("questions", ())) or QUERY, "spatial")
    labels = _labels(worker, clip, frames, query)
    for condition in conditions_of(worker.config):
        if condition in unit["done"]:
            continue
        view = under(clip, condition, worker.corruptions, worker.config["seed"])
        touched = getattr(view, "touched", np.zeros(clip.n_frames, dtype=bool))
        record: dict[str, Any] = {"video": clip.video_id, "condition": condition, "indices": indices, "frames": frames}
        record["measures"] = worker.measure(view, indices).tolist()
        record["yields"], record["reports"] = [], []
        for tool in worker.tools:
            outputs = worker.run(tool, view, frames, query)
            for seen_in in sorted({*outputs, *labels.units(tool)}):
                seen = outputs.get(seen_in, [])
                seconds = float(clip.timestamps[seen_in[-1]] - clip.timestamps[seen_in[0]])
                targets = labels.targets(tool, seen_in, seconds)
                place = [seen_in[0], seen_in[-1], int(touched[list(seen_in)].any())]
                record["yields"] += _yields(tool, targets, seen, labels, place)
                record["reports"] += _reports(tool, targets, seen, labels, place)
        yield [record]


def run_tool(executor: Executor, tool: str, clip: FrameSource, frames: Sequence[int], query: SubQuery) -> Outputs:
    """Reports of a tool by frame, or by step for a tool that looks at steps; units without a report are there too.

    For a tool that looks at windows as a whole a unit is what a report says of itself, its frame and ``end_frame``.

    Raises:
        TrustvidError: the call failed.
    """
    executor = _reaching(executor, clip)
    evidence = executor.run(tool, query, clip, frames)
    if evidence.error:
        raise TrustvidError(f"{clip.video_id}: {evidence.error.message}")
    if executor.tools[tool].span == "window":
        told: Outputs = {}
        for seen in evidence.observations:
            told.setdefault((seen.frame, int(seen.values.get("end_frame", seen.frame))), []).append(seen)
        return told
    if executor.tools[tool].span == "frame":
        units: list[Unit] = [(frame,) for frame in frames]
    else:
        windows = dense_windows(clip.timestamps, frames, executor.max_fps, executor.window_s)
        units = sorted({pair for window in windows for pair in pairwise(window)})
    outputs: Outputs = {unit: [] for unit in units}
    of_first = {unit[0]: unit for unit in units}
    for seen in evidence.observations:
        outputs[of_first[seen.frame]].append(seen)
    return outputs


def _reaching(executor: Executor, clip: FrameSource) -> Executor:
    """The executor, its windows wide enough for a step to both sides at the clip's own rate of frames."""
    step_s = math.ceil(clip.fps / executor.max_fps - 1e-6) / clip.fps
    if executor.window_s >= 2 * step_s:
        return executor
    wider = copy(executor)
    wider.window_s = 2 * step_s
    return wider


def _labels(worker: Worker, clip: FrameSource, frames: Sequence[int], query: SubQuery) -> Labels:
    if label_source(worker.config) == "agreement":
        return AgreementLabels({tool: worker.run(tool, clip, frames, query) for tool in worker.tools})
    from trustvid.benchmarks.boxworld.truth import truth_of_video

    return TruthLabels(truth_of_video(worker.config["benchmark"]["split"], clip.video_id))


def _yields(
    tool: str, targets: Sequence[Target], seen: Sequence[Observation], labels: Labels, place: list[int]
) -> list[list[Any]]:
    """One row for each target that the tool ought to report."""
    duties = labels.duties(tool)
    return [
        [tool, target.task, target.key, *place, int(any(is_right(one, target, labels.words) for one in seen))]
        for target in targets
        if target.expected and target.task in duties
    ]


def _reports(
    tool: str, targets: Sequence[Target], seen: Sequence[Observation], labels: Labels, place: list[int]
) -> list[list[Any]]:
    """One row for each report that the labels can judge."""
    rows = []
    for one in seen:
        if one.label in labels.unknown:
            continue
        task = TASK_OF_KIND[one.kind]
        area = (one.box[2] - one.box[0]) * (one.box[3] - one.box[1]) if one.box else 0.0
        right = any(is_right(one, target, labels.words) for target in targets if target.task == task)
        rows.append([tool, task, *place, one.score, area, int("clipped" in one.values), int(right)])
    return rows
