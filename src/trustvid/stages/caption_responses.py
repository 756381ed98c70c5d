"""The first step of a caption evaluation: responses, written by the policy or imported, into the run folder."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trustvid.captioning.files import RESPONSES_END, Instruction, captioner_of
from trustvid.config.checking import build
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, DataError, TrustvidError
from trustvid.evaluation.store import RunFolder, RunInfo, RunWriter

if TYPE_CHECKING:
    from trustvid.benchmarks.if_vidcap import CaptionTask
    from trustvid.captioning.records import Lines
    from trustvid.evaluation.pool import UnitEvent

PLANTED = "planted"
_TOLD = 20  # entries that cannot be used are listed up to this many


class _Asked(NamedTuple):
    """What a run is of: the benchmark, all its tasks, those that are asked, files of responses written elsewhere."""

    benchmark: Any
    found: Sequence[Any]
    tasks: Sequence[Any]
    files: Sequence[Path]


def collect_responses(config: dict[str, Any], typed: EvaluateConfig, folder: RunFolder, info: RunInfo) -> None:
    """Write or import the responses that are not there yet."""
    from trustvid.captioning.records import RESPONSES, TASKS, TaskRecord, response_lines, task_lines

    asked = _asked(config, typed)
    tasks = asked.tasks
    imported = _imported(asked.files, [task.instruction for task in asked.found], {task.id for task in tasks})
    with folder.writing(_info(config, typed, info, asked), fresh=typed.fresh) as writer:
        _write_about(writer, config, asked)
        known = task_lines(folder.path)
        fresh_tasks = (TaskRecord.of(task.instruction, task.checklist) for task in tasks if task.id not in known)
        writer.append(TASKS, (record.to_json() for record in fresh_tasks))
        done = response_lines(folder.path)
        if asked.files:
            writer.append(RESPONSES, (r for r in imported if (r["captioner"], r["task_id"]) not in done))
        else:
            _write_captions(config, typed, tasks, done, writer)


def count_benchmark(config: dict[str, Any], typed: EvaluateConfig, folder: RunFolder, info: RunInfo) -> None:
    """Write what the run is of and the statistics of its instructions; no response is written, imported or judged."""
    asked = _asked(config, typed)
    with folder.writing(_info(config, typed, info, asked), fresh=typed.fresh) as writer:
        _write_about(writer, config, asked)


def _asked(config: dict[str, Any], typed: EvaluateConfig) -> _Asked:
    """Read the benchmark, and say what is in it and what cannot be used."""
    from trustvid.benchmarks.splits import choose

    benchmark = build(config["benchmark"])
    found, problems = benchmark.tasks()
    tasks = choose(found, typed.limit, typed.seed)
    print(f"{benchmark.name}: {len(tasks)} instructions on {len({task.cluster for task in tasks})} videos")
    tell("left out", problems)
    return _Asked(benchmark, found, tasks, _response_files(typed.responses, benchmark))


def _info(config: dict[str, Any], typed: EvaluateConfig, info: RunInfo, asked: _Asked) -> RunInfo:
    digests = _digests(asked.benchmark, asked.tasks, asked.files)
    return replace(info, datasets=digests, seeds={"seed": typed.seed}, decode=_decode(config))


def _write_about(writer: RunWriter, config: dict[str, Any], asked: _Asked) -> None:
    """The config, what the run is of, and the statistics of its instructions."""
    writer.write_config(config)
    writer.write_json("about.json", _about(config, asked.benchmark, asked.tasks, asked.files))
    writer.write_json("statistics.json", _statistics(config, asked.benchmark, asked.tasks))


def estimate(config: dict[str, Any], typed: EvaluateConfig, folder: RunFolder) -> None:
    """Print what the responses that are not there yet will cost, and judging all that are not judged."""
    from trustvid.benchmarks.splits import choose
    from trustvid.captioning.records import judge_id, judgement_lines, response_lines
    from trustvid.stages.cost import NOTHING, checklist_items, tell_captions, tell_judgements

    benchmark = build(config["benchmark"])
    found, problems = benchmark.tasks()
    tasks = choose(found, typed.limit, typed.seed)
    print(f"{benchmark.name}: {len(tasks)} instructions on {len({task.cluster for task in tasks})} videos")
    tell("left out", problems)
    files = _response_files(typed.responses, benchmark)
    captioners = [captioner_of(path) for path in files] or [build(config["policy"]).name]
    there = {} if typed.fresh else response_lines(folder.path)
    told = not files and tell_captions(config, [task for task in tasks if (captioners[0], task.id) not in there])
    if config["judge"]:
        judge = build(config["judge"])
        judged = {} if typed.fresh else judgement_lines(folder.path)
        name = judge_id(judge.name, judge.describe()) if judged else ""
        sizes = [
            (checklist_items(task.checklist), len(task.instruction.text), None)
            for captioner in captioners
            for task in tasks
            if (name, captioner, task.id) not in judged and (files or isinstance(task.video, Path))
        ]
        told = tell_judgements(config, sizes) or told
    if not told:
        print(NOTHING)


def _response_files(responses: Any, benchmark: Any) -> list[Path]:
    """The files to import; none when the policy is to write."""
    if responses is None:
        return []
    if responses == PLANTED:
        known = benchmark.known_responses()
        if known is None:
            raise ConfigError([f"responses={PLANTED}: {benchmark.name} has no responses of known truth; name files"])
        return sorted(
            known.glob(f"*{RESPONSES_END}"), key=lambda path: (path.name != f"right{RESPONSES_END}", path.name)
        )
    named = [responses] if isinstance(responses, str) else list(responses)
    files = []
    for path in map(Path, named):
        files += sorted(path.glob(f"*{RESPONSES_END}")) if path.is_dir() else [path]
    names = [captioner_of(path) for path in files]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not files:
        fault = f"several files are called {', '.join(twice)}" if twice else "there is no *_response.json"
        raise ConfigError([f"responses={responses}: {fault}"])
    return files


def _imported(files: Sequence[Path], known: Sequence[Instruction], chosen: set[str]) -> Iterator[dict[str, Any]]:
    """A response record for every file and every chosen instruction."""
    from trustvid.captioning.files import read_responses
    from trustvid.captioning.records import ResponseRecord

    for path in files:
        name = captioner_of(path)
        found = read_responses(path, [one.key for one in known])
        usable = sum(str(key) in chosen for key in found.texts)
        print(f"{name}: {usable} of {len(chosen)} responses from {path}")
        tell(f"left out of {path.name}", found.problems)
        for one in (one for one in known if str(one.key) in chosen):
            text, reason = found.texts.get(one.key), found.unusable.get(one.key)
            yield ResponseRecord(name, str(one.key), text, reason).to_json()


def _write_captions(
    config: dict[str, Any], typed: EvaluateConfig, tasks: Sequence[CaptionTask], done: Lines, writer: RunWriter
) -> None:
    """One unit for each video with open instructions; whatever a unit does not deliver is unscored, once."""
    from trustvid.captioning.records import RESPONSES, ResponseRecord
    from trustvid.evaluation import caption_runner
    from trustvid.evaluation.pool import Unit, Work, run_units
    from trustvid.progress import Progress
    from trustvid.stages.cost import tell_captions
    from trustvid.stages.evaluate import workers_of

    caption_runner.caption_prompts(config["prompts"]["folder"])  # a missing prompt stops here, not in a worker
    captioner = build(config["policy"]).name
    still: dict[str, list[CaptionTask]] = {}
    for task in tasks:
        if (captioner, task.id) not in done:
            still.setdefault(task.cluster, []).append(task)
    missing = [task for of_video in still.values() for task in of_video if isinstance(task.video, str)]
    writer.append(RESPONSES, (ResponseRecord(captioner, t.id, None, str(t.video)).to_json() for t in missing))
    units = [
        Unit(video, {"video": str(of_video[0].video), "captioner": captioner, "tasks": _plain(of_video)})
        for video, of_video in still.items()
        if isinstance(of_video[0].video, Path)
    ]
    tell_captions(config, [task for of_video in still.values() for task in of_video])
    open_ids = {unit.name: {task["id"] for task in unit.payload["tasks"]} for unit in units}
    already = len(tasks) - sum(map(len, open_ids.values()))
    with Progress(len(tasks), "captions", unit="captions", done=already) as progress:

        def on_result(event: UnitEvent) -> None:
            if event.kind == "group":
                writer.append(RESPONSES, event.records)
                open_ids[event.unit.name] -= {record["task_id"] for record in event.records}
                progress.advance(len(event.records), sum(record["text"] is None for record in event.records))
            elif event.kind == "failed":
                if typed.on_error == "stop":
                    raise TrustvidError(f"{event.unit.name}: {event.reason} (on_error=stop)")
                lost = sorted(open_ids[event.unit.name])
                writer.append(RESPONSES, (ResponseRecord(captioner, id_, None, event.reason).to_json() for id_ in lost))
                progress.advance(len(lost), len(lost))
                print(f"{event.unit.name}: {event.reason}\n{event.detail}", file=sys.stderr)

        work = Work(caption_runner.set_up, caption_runner.caption_video, config)
        asked = {**config, "methods": {}, "tools": config["tools"] if typed.evidence == "tools" else {}}
        run_units(units, work, workers_of(typed, asked), typed.video_time_limit_s, on_result)


def _plain(tasks: Sequence[CaptionTask]) -> list[dict[str, str]]:
    return [{"id": task.id, "instruction": task.instruction.text} for task in tasks]


# -- what the run is ---------------------------------------------------------------------------------------------------


def _digests(benchmark: Any, tasks: Sequence[CaptionTask], files: Sequence[Path]) -> dict[str, str]:
    """Digests of the instructions with their checklists, and of each imported file: other data, another run."""
    rows = [[task.id, task.instruction.text, task.checklist] for task in tasks]
    text = json.dumps(rows, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    found = {benchmark.name: hashlib.sha256(text.encode()).hexdigest()}
    return found | {captioner_of(path): hashlib.sha256(_bytes(path)).hexdigest() for path in files}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; expected a *_response.json file") from error


def _decode(config: Mapping[str, Any]) -> dict[str, Any]:
    from trustvid.evaluation.caption_runner import protocol_of

    protocol = protocol_of(config)
    frames = config["frames"] if protocol.fps is None else f"{protocol.fps:g} a second"
    thinking = {} if protocol.thinking == "none" else {"thinking": protocol.thinking}
    side = config["reader"].get("side")
    size = {"size": f"{side} × {side}"} if side else {}
    return {
        "reader": config["reader"].get("kind"),
        "frames": frames,
        "evidence": config["evidence"],
        **size,
        **thinking,
    }


def _about(
    config: Mapping[str, Any], benchmark: Any, tasks: Sequence[CaptionTask], files: Sequence[Path]
) -> dict[str, Any]:
    """What the scores are of."""
    writer = "imported responses" if files else build(config["policy"]).name
    return {
        "benchmark": benchmark.name,
        "split": config["benchmark"].get("split") or "all",
        "policy": "composed responses of known truth" if config["responses"] == PLANTED else writer,
        "decode": {} if files else _decode(config),
        "n_expected": len(tasks),
        "truth": str(benchmark.known_responses().parent / "truth") if config["responses"] == PLANTED else None,
    }


def _statistics(config: Mapping[str, Any], benchmark: Any, tasks: Sequence[CaptionTask]) -> dict[str, Any]:
    """Counts of the instructions, checklists and videos of this run, and faults of its checklists.

    Bare checklists, which are made of the drafted ids, are neither counted nor checked.
    """
    from trustvid.captioning.statistics import checklist_statistics, prompt_statistics, video_statistics

    meta = benchmark.meta()
    bare = config["benchmark"].get("checklists") == "skeleton"
    found: dict[str, Any] = {
        "prompts": prompt_statistics([task.instruction for task in tasks]),
        "checklists": checklist_statistics(None if bare else task.checklist for task in tasks),
    }
    if meta:
        found["videos"] = video_statistics(meta, (task.cluster for task in tasks))
    found["checklist_faults"] = faults = [] if bare else checklist_faults(tasks)
    if faults:
        print(f"  {len(faults)} faults in checklists, e.g. {faults[0]} (all in statistics.json)", file=sys.stderr)
    return found


def checklist_faults(tasks: Sequence[CaptionTask]) -> list[str]:
    """What the checklists get wrong, contradictions with their instructions included: no captioner's fault."""
    from trustvid.captioning.validation import validate_checklist

    return [
        fault
        for task in tasks
        if task.checklist is not None
        for fault in validate_checklist(task.checklist, task.id, task.instruction.text)
    ]


def tell(what: str, problems: Sequence[Any]) -> None:
    """Lists entries that cannot be used on standard error."""
    for problem in problems[:_TOLD]:
        print(f"  {what}: {problem.where}: {problem.reason}", file=sys.stderr)
    if len(problems) > _TOLD:
        print(f"  {what}: {len(problems) - _TOLD} more", file=sys.stderr)
