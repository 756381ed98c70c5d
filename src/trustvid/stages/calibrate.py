"""``python evaluate.py mode=calibrate``: how often each tool is right, fitted on dev or train, checked elsewhere.

The run folder gets ``cases.jsonl`` (a record for each video and condition; a killed run goes on after the last),
``calibration.json`` (a fit only), ``calibration_metrics.json`` and ``calibration.md``.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trustvid.config.checking import build
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, TrustvidError
from trustvid.evaluation.store import RunFolder, RunInfo, RunWriter
from trustvid.seeding import derive_seed

FIT_SPLITS = ("train", "dev")
LABELS = ("auto", "truth", "agreement")


def faults(config: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the settings that only calibration has."""
    settings = config["calibrate"]
    severities, labels = settings["severities"], settings["labels"]
    if not severities or any(s not in (1, 2, 3, 4, 5) for s in severities):
        yield f"calibrate.severities={severities}; expected some of 1 to 5"
    if settings["frames"] < 2:
        yield f"calibrate.frames={settings['frames']}; expected at least 2"
    if not settings["window_s"] > 0:
        yield f"calibrate.window_s={settings['window_s']}; expected a time in seconds above 0"
    if labels not in LABELS:
        yield f"calibrate.labels={labels} is unknown; known: {', '.join(LABELS)}"
    if not config["corruption"]:
        yield "corruption=[] leaves no disturbance to calibrate on; choose some of conf/corruption"
    if settings["output"] and not _fits(config):
        yield f"calibrate.output={settings['output']}: nothing is fitted on split {_split(config)}; use dev or train"


def run(config: dict[str, Any], typed: EvaluateConfig, folder: RunFolder, info: RunInfo) -> None:
    """Collect the cases of every video, then fit (split dev or train) or check (any other), and write the tables.

    Raises:
        ConfigError: the settings do not go together; all faults in one message.
        DataError: the benchmark or the calibration cannot be read.
        TrustvidError: not one video gave cases.
    """
    from trustvid.benchmarks.splits import choose

    found = list(faults(config))
    if found:
        raise ConfigError(found)
    benchmark = build(config["benchmark"])
    samples, _ = benchmark.samples()
    questions: dict[str, list[str]] = {}
    for sample in choose(samples, typed.limit, typed.seed):
        questions.setdefault(str(sample.video), []).append(sample.question)
    videos = _shuffled(questions, typed.seed)
    print(f"{benchmark.name}: {len(videos)} videos, {'fit' if _fits(config) else 'check'} on {_split(config)}")
    names = "\n".join(sorted(Path(video).stem for video in videos))
    digest = hashlib.sha256(names.encode()).hexdigest()
    info = replace(info, datasets={benchmark.name: digest}, seeds={"seed": typed.seed})
    with folder.writing(info, fresh=typed.fresh) as writer:
        writer.write_config(config)
        _collect(config, typed, folder, writer, {video: questions[video] for video in videos})
        records = _sorted(folder.load("cases").records)
        if not records:
            raise TrustvidError(f"{folder.path}: no video gave a case; the errors above say why")
        _conclude(config, writer, records)
    print(f"written: {folder.path}/calibration.md, calibration_metrics.json")


def _shuffled(videos: Iterable[str], seed: int) -> list[str]:
    """Videos in a seeded order: what a long run has done at any moment is then a fair sample."""
    return sorted(videos, key=lambda video: derive_seed("calibrate", seed, Path(video).stem))


def _split(config: Mapping[str, Any]) -> str:
    return config["benchmark"].get("split") or "all"


def _fits(config: Mapping[str, Any]) -> bool:
    """Whether this split may be learnt from."""
    return _split(config) in FIT_SPLITS


def _collect(
    config: dict[str, Any],
    typed: EvaluateConfig,
    folder: RunFolder,
    writer: RunWriter,
    videos: Mapping[str, Sequence[str]],
) -> None:
    """One unit for each video with open conditions; its records are stored as they come.

    Args:
        videos: path → texts of its questions, in the order of work.
    """
    from trustvid.evaluation import calibrating_cases
    from trustvid.evaluation.pool import Unit, UnitEvent, Work, run_units
    from trustvid.progress import Progress
    from trustvid.stages.evaluate import video_time_limit, workers_of

    calibrating_cases.label_source(config)  # an impossible choice ends the run here, not in every worker
    done: dict[str, list[str]] = {}
    for record in folder.load("cases").records:
        done.setdefault(record["video"], []).append(record["condition"])
    conditions = calibrating_cases.conditions_of(config)
    units = [
        Unit(video, {"video": video, "done": done.get(Path(video).stem, []), "questions": list(texts)})
        for video, texts in videos.items()
    ]
    units = [unit for unit in units if len(unit.payload["done"]) < len(conditions)]
    total = len(videos) * len(conditions)
    with Progress(total, "calibrate", unit="passes", done=sum(map(len, done.values()))) as progress:

        def on_result(event: UnitEvent) -> None:
            if event.kind == "group":
                writer.append("cases", event.records)
                progress.advance(len(event.records))
            elif event.kind == "failed":
                if typed.on_error == "stop":
                    raise TrustvidError(f"{event.unit.name}: {event.reason} (on_error=stop)")
                print(f"{event.unit.name}: {event.reason}\n{event.detail}", file=sys.stderr)

        work = Work(calibrating_cases.set_up, calibrating_cases.collect_video, config)
        run_units(units, work, workers_of(typed, config), video_time_limit(typed, len(conditions)), on_result)


def _sorted(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Records in an order that does not depend on which worker was first: a fit must not either."""
    return sorted(records, key=lambda record: (record["video"], record["condition"]))


def _conclude(config: Mapping[str, Any], writer: RunWriter, records: Sequence[Mapping[str, Any]]) -> None:
    """Fit or load, check, and write the files of the run."""
    from trustvid.evaluation import calibrating
    from trustvid.evaluation.calibrating_report import calibration_tables
    from trustvid.evaluation.calibrating_routing import routing_headroom
    from trustvid.evaluation.render import print_table, to_markdown
    from trustvid.reliability.calibration import CHANNEL_KINDS, artefact, load_calibration, save_calibrations

    cases = calibrating.assemble(records)
    about = _about(config, records)
    if _fits(config):
        about["cases"] = {
            tool: {"targets": len(c.yields.right), "reports": len(c.reports.right)} for tool, c in cases.items()
        }
        suite = list(config["corruption"])
        fitted = [calibrating.fit_calibration(cases, kind, suite, about) for kind in CHANNEL_KINDS]
        writer.write_json("calibration.json", artefact(fitted))
        if config["calibrate"]["output"]:
            save_calibrations(config["calibrate"]["output"], fitted)
        source = "fitted on these very videos"
    else:
        fitted = [load_calibration(config["calibrate"]["calibration"], kind) for kind in CHANNEL_KINDS]
        source = Path(config["calibrate"]["calibration"]).stem
    metrics = {
        "about": {**about, "calibration": source},
        "precision": calibrating.check_precision(cases, fitted),
        "yields": calibrating.check_yields(cases, fitted, hold_out=_fits(config)),
        "right": calibrating.right_by_condition(cases),
        # Of agreement, every tool has targets of its own: there is nothing to choose between.
        "routing": routing_headroom(records, cases, fitted[-1]) if about["labels"] == "truth" else [],
    }
    tables = calibration_tables(metrics)
    writer.write_json("calibration_metrics.json", metrics)
    writer.write_text("calibration.md", "\n".join(to_markdown(table) for table in tables))
    print_table(tables[0])


def _about(config: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the cases are of: goes into the artefact, so it names no place and no time."""
    from trustvid.evaluation.calibrating_cases import label_source

    settings = config["calibrate"]
    return {
        "benchmark": config["benchmark"].get("name"),
        "split": _split(config),
        "offset": config["benchmark"].get("offset"),
        "videos": len({record["video"] for record in records}),
        "labels": label_source(config),
        "severities": list(settings["severities"]),
        "coverage": config["coverage"],
        "frames": settings["frames"],
        "seed": config["seed"],
        "backends": {tool.name: tool.settings().get("backend", "") for tool in map(build, config["tools"].values())},
    }
