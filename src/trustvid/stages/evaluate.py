"""``python evaluate.py``: from a config to a run folder with predictions, metrics and tables."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.benchmarks.digest import questions_digest
from trustvid.benchmarks.sample import Sample
from trustvid.benchmarks.splits import choose
from trustvid.config.checking import build
from trustvid.config.schema import EvaluateConfig
from trustvid.config.sweeps import may_skip, tell_sweep
from trustvid.errors import ConfigError, TrustvidError
from trustvid.evaluation.provenance import NOT_HASHED
from trustvid.evaluation.scored import QUESTIONS, about_questions, score_run
from trustvid.evaluation.store import RunFolder, RunInfo, RunWriter
from trustvid.stages.common import opened, plain_config
from trustvid.stages.finished import evaluation_finished
from trustvid.stages.report import matching, tell

if TYPE_CHECKING:
    from omegaconf import DictConfig

# Beside what never changes an answer: where data lie (their digests are in the record) and how failures are handled.
NOT_IN_HASH = (
    *NOT_HASHED,
    "data_dir",
    "benchmark.data_dir",
    "benchmark.root",
    "benchmark.workers",
    "on_error",
    "video_time_limit_s",
    "tool_device",
    "save_trajectories",
    "retry_unscored",
    "baseline",
    "contrasts",
    "estimate",
    *(f"*policy.{name}" for name in ("store", "offline", "key_env", "concurrency", "timeout_s", "total_timeout_s")),
    *(f"*policy.{name}" for name in ("max_retries", "backoff_s", "give_up_after")),
)
# Settings that only benchmarks of captions read, and those that only benchmarks of questions do.
ONLY_CAPTIONS = ("judge", "rules", "responses", "reference", "evidence", "captioning")
ONLY_QUESTIONS = ("suites",)
Key = tuple[str, str, str]  # sample_id, method, condition of a prediction
# Conditions up to which ``video_time_limit_s`` holds for a video; more of them get more time in proportion.
TIMED_CONDITIONS = 6


# What mode=calibrate does not read: it asks no question. Which calibration it checks changes no case it collects.
NOT_OF_CALIBRATION = (
    *ONLY_CAPTIONS,
    *("methods", "policy", "prompts", "severity", "suites", "frames"),
    *("calibrate.calibration", "calibrate.output"),
)


def run(cfg: DictConfig) -> Path:
    """Run the modes that ``cfg.mode`` asks for and return the run folder.

    Raises:
        ConfigError: the config cannot run; all faults together. In a sweep the reason also lies in the run folder.
        DataError: the benchmark cannot be read.
        TrustvidError: nothing could be scored (exit code 1: a table without numbers is no result).
    """
    from trustvid.stages import calibrate, captions

    for chatty in ("httpx", "httpx2"):  # a line for each request would bury the table
        logging.getLogger(chatty).setLevel(logging.WARNING)
    config = plain_config(cfg)
    of_captions, calibrates = captions.wanted(config), config.get("mode") == "calibrate"
    unread = (*captions.NOT_IN_HASH, *ONLY_QUESTIONS) if of_captions else unread_settings(config)
    stage = "calibrate" if calibrates else "evaluate"
    typed, folder, info = opened(config, EvaluateConfig, stage, (*NOT_IN_HASH, *unread))
    if typed.runs is not None:
        if typed.mode != "table":
            raise ConfigError([f"runs={typed.runs} with mode={typed.mode}: several runs are reported on by mode=table"])
        return tell(config, typed, matching(typed.runs))
    print(f"run folder {folder.path}")
    if of_captions and calibrates:
        raise ConfigError(["mode=calibrate: a benchmark of captions has no frames to be right about; use boxworld"])
    if of_captions:
        captions.run(config, typed, folder, info)
        return folder.path
    if calibrates:
        calibrate.run(config, typed, folder, info)
        return folder.path
    if typed.mode == "judge":
        raise ConfigError([f"mode=judge: {typed.name} asks no judge; it is for captions (benchmark=if_vidcap, …)"])
    if typed.mode == "all" and may_skip() and evaluation_finished(folder, info, typed, lambda: _cheap(config, typed)):
        print(f"finished already: {folder.path}")
        tell_sweep(folder.path, already=True)
        return folder.path
    if typed.mode in ("all", "infer", "precompute", "estimate"):
        _work(folder, info, typed, config)
    if typed.mode in ("all", "score"):
        score_run(folder, typed.baseline, typed.contrasts, typed.seed)
    if typed.mode in ("all", "score", "table"):
        tell(config, typed, [folder.path])
    return folder.path


def unread_settings(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Settings that this mode does not read: those of captions, what suites take the place of, those of calibration."""
    if config.get("mode") == "calibrate":
        return NOT_OF_CALIBRATION
    return (*ONLY_CAPTIONS, "calibrate", *(("severity", "coverage") if config.get("suites") else ("suites",)))


def video_time_limit(typed: EvaluateConfig, n_conditions: int) -> float:
    """Seconds that one video may take in all its conditions: the setting, and in proportion more for many of them."""
    return typed.video_time_limit_s * max(1.0, n_conditions / TIMED_CONDITIONS)


# -- answering ---------------------------------------------------------------------------------------------------------


def _work(folder: RunFolder, info: RunInfo, typed: EvaluateConfig, config: dict[str, Any]) -> None:
    """Load the benchmark and answer (or precompute, or estimate the cost of) what is still open."""
    from dataclasses import replace

    from trustvid.evaluation.suites import conditions_of
    from trustvid.stages.cost import NOTHING, tell_answers

    benchmark = build(config["benchmark"])
    found, rejected = benchmark.samples()
    samples = choose(found, typed.limit, typed.seed)
    print(f"{benchmark.name}: {len(samples)} questions on {len({s.cluster for s in samples})} videos")
    for row in rejected:
        print(f"  left out: {row.id}: {row.reason}", file=sys.stderr)
    if typed.mode == "estimate":
        done = set() if typed.fresh else folder.done_keys(typed.retry_unscored)
        if not tell_answers(config, samples, done, conditions_of(config)):
            print(NOTHING)
        return
    info = replace(
        info,
        datasets={benchmark.name: questions_digest(samples)} | _parts(config),
        seeds={"seed": typed.seed},
        decode={"reader": config["reader"].get("kind"), "frames": typed.frames},
    )
    with folder.writing(info, fresh=typed.fresh) as writer:
        writer.write_config(config)
        if typed.mode == "precompute":
            _run_pool(typed, config, samples, set(), {}, "precompute", writer)
        else:
            found = folder.load("predictions").records
            failed = {one.key: one.reason or "" for one in found if one.status == "unscored"}
            done = folder.done_keys(typed.retry_unscored)
            tell_answers(config, samples, done, conditions_of(config))
            _run_pool(typed, config, samples, done, failed, "infer", writer)
            about = about_questions(config, samples, rejected, benchmark, build(config["policy"]).name)
            writer.write_json(QUESTIONS, about)


def _run_pool(
    typed: EvaluateConfig,
    config: dict[str, Any],
    samples: Sequence[Sample],
    done: set[Key],
    failed: Mapping[Key, str],
    job: str,
    writer: RunWriter,
) -> None:
    """One unit for each video with open questions; whatever a unit does not deliver becomes unscored, once.

    ``failed``: why questions are unscored that were tried before.
    """
    from trustvid.evaluation import runner
    from trustvid.evaluation.pool import UnitEvent, Work, run_units
    from trustvid.evaluation.suites import conditions_of
    from trustvid.progress import Progress

    conditions = conditions_of(config)
    by_video = _by_video(samples)
    units = _units(by_video, done, list(config["methods"]), conditions)
    if job == "precompute":
        work, total, unit_name = Work(runner.set_up, runner.fill_cache, config), len(units) * len(conditions), "passes"
    else:
        work, unit_name = Work(runner.set_up, runner.answer_video, config), "answers"
        total = len(samples) * len(conditions) * len(config["methods"])
    answered = 0 if job == "precompute" else len(done)

    with Progress(total, job, unit=unit_name, done=answered) as progress:

        def on_result(event: UnitEvent) -> None:
            if job == "precompute":
                progress.advance(len(event.records))
                if event.kind == "failed":
                    print(f"{event.unit.name}: {event.reason}", file=sys.stderr)
            elif event.kind == "group":
                _store(writer, event.records, done, failed)
                progress.advance(len(event.records), sum(_is_unscored(record) for record in event.records))
            elif event.kind == "failed":
                if typed.on_error == "stop":
                    raise TrustvidError(f"{event.unit.name}: {event.reason} (on_error=stop)")
                lost = list(
                    runner.unscored(by_video[event.unit.name], list(config["methods"]), conditions, done, event.reason)
                )
                _store(writer, [{"prediction": p.to_json(), "trajectory": None} for p in lost], done, failed)
                progress.advance(len(lost), unscored=len(lost))
                print(f"{event.unit.name}: {event.reason}\n{event.detail}", file=sys.stderr)

        run_units(units, work, workers_of(typed, config), video_time_limit(typed, len(conditions)), on_result)


def workers_of(typed: EvaluateConfig, config: Mapping[str, Any]) -> int:
    """Worker processes: as set; else one for each core, but one in all where each would load published weights."""
    if typed.workers is not None:
        return typed.workers
    parts = [config["policy"], *config["tools"].values(), *(node["relevance"] for node in config["methods"].values())]
    loads = any(hasattr(build(part), "load") for part in parts)
    return 1 if loads else os.cpu_count() or 1


def _by_video(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    by_video: dict[str, list[Sample]] = {}
    for sample in samples:
        by_video.setdefault(str(sample.video), []).append(sample)
    return by_video


def _units(
    by_video: Mapping[str, Sequence[Sample]],
    done: set[Key],
    methods: Sequence[str],
    conditions: Sequence[str],
) -> list[Any]:
    """A unit for each video on which something is open."""
    from trustvid.evaluation.pool import Unit
    from trustvid.evaluation.runner import sample_record

    units = []
    for video, samples in by_video.items():
        keys = {(s.id, method, condition) for s in samples for method in methods for condition in conditions}
        if keys - done:
            payload = {
                "video": video,
                "samples": [sample_record(sample) for sample in samples],
                "done": sorted(list(key) for key in keys & done),
            }
            units.append(Unit(video, payload))
    return units


def _store(writer: RunWriter, records: Sequence[Mapping[str, Any]], done: set[Key], failed: Mapping[Key, str]) -> None:
    """Append a group; trajectories first, so that a stored prediction has its conversation.

    What failed again for the same reason is stored already.
    """
    trajectories = [record["trajectory"] for record in records if record["trajectory"]]
    if trajectories:
        writer.append("trajectories", trajectories)
    predictions = {_key(record): record["prediction"] for record in records}
    news = [p for key, p in predictions.items() if p["status"] != "unscored" or failed.get(key) != p["reason"]]
    if news:
        writer.append("predictions", news)
    done.update(predictions)


def _key(record: Mapping[str, Any]) -> Key:
    prediction = record["prediction"]
    return prediction["sample_id"], prediction["method"], prediction["condition"]


def _is_unscored(record: Mapping[str, Any]) -> bool:
    return record["prediction"]["status"] == "unscored"


def _cheap(config: Mapping[str, Any], typed: EvaluateConfig) -> dict[str, str]:
    """The digests that can be known without work: of prompts, calibrations, and questions that are read from files.

    A generated benchmark (it has a cache, ``root``) is what its settings and the program's version make it, and might
    have to be generated for its digest.
    """
    digests = _parts(config)
    if not config["benchmark"].get("root"):
        benchmark = build(config["benchmark"])
        digests[benchmark.name] = questions_digest(choose(benchmark.samples()[0], typed.limit, typed.seed))
    return digests


def _parts(config: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the prompts and of the calibrations that methods use: others give other answers, so another run."""
    import hashlib

    from trustvid.reliability.calibration import calibration_file

    parts = [node.get(part) or {} for node in config["methods"].values() for part in ("reliability", "confidence")]
    names = sorted({str(part["calibration"]) for part in parts if part.get("calibration")})
    digests = {"prompts": build(config["prompts"]).digest}
    digests |= {
        f"calibration {name}": hashlib.sha256(calibration_file(name).read_bytes()).hexdigest() for name in names
    }
    for folder in sorted({str(part["weights"]) for part in parts if part.get("weights")}):
        from trustvid.reliability.learned_files import weights_digest

        digests[f"reliability {Path(folder).name}"] = weights_digest(folder)
    return digests
