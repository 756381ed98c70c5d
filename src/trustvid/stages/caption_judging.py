"""The second step of a caption evaluation: a judge reads every response that it has not read yet."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from trustvid.config.checking import build
from trustvid.errors import DataError
from trustvid.evaluation.store import RunFolder, RunInfo

if TYPE_CHECKING:
    from trustvid.captioning.records import Lines, TaskRecord

# Failures that another try may mend; all others are the judge's word.
_LASTING = frozenset({"undecided", "not_asked", "mock", "upstream_lost", "too_long"})
_BATCH = 16  # judgements that share a wait for the disk; what a kill loses of them is in the judge's own store


def judge_responses(config: Mapping[str, Any], folder: RunFolder, info: RunInfo) -> None:
    """Judge every response that this judge has not judged yet, or could not judge for a reason that may have passed.

    Raises:
        DataError: there are no responses.
    """
    from trustvid.captioning.records import JUDGEMENTS, judge_id, judgement_lines, require, response_lines, task_lines
    from trustvid.progress import Progress
    from trustvid.stages.cost import tell_judgements

    judge = build(config["judge"])
    description = judge.describe()
    name = judge_id(judge.name, description)
    tasks = require(task_lines(folder.path), "instructions", "infer")
    responses = require(response_lines(folder.path), "responses", "infer")
    done = judgement_lines(folder.path)
    keys = [key for key in responses if _is_open(key, name, tasks, responses, done)]
    run = folder.existing_run()
    tell_judgements(config, [_size(tasks[key[1]], responses[key]["text"]) for key in keys])
    same = replace(info, datasets=run["datasets"], seeds=run["seeds"], decode=run["decode"])
    with folder.writing(same) as writer:
        known = {other: about for other, about in judges_of(folder).items() if other != name}
        turn = 1 + max((about["turn"] for about in known.values()), default=0)  # the last to judge leads the tables
        writer.write_json("judges.json", {**known, name: {"name": judge.name, "turn": turn, **description}})
        with Progress(len(responses), f"judge {judge.name}", "responses", done=len(responses) - len(keys)) as progress:
            records = _judgements(judge, name, keys, tasks, responses)
            for batch in _batches(records):
                changed = [r for r in batch if r["judgement"] != (done.get(_key(r)) or {}).get("judgement")]
                writer.append(JUDGEMENTS, changed)
                progress.advance(len(batch), sum(_failures(record["judgement"]) > 0 for record in batch))


def _size(task: Mapping[str, Any], text: str) -> tuple[int, int, int]:
    """What a judgement's cost depends on: items of the checklist, characters of instruction and response."""
    from trustvid.stages.cost import checklist_items

    return checklist_items(task["checklist"]), len(task["instruction"]), len(text)


def _is_open(key: tuple[str, str], judge: str, tasks: Lines, responses: Lines, done: Lines) -> bool:
    from trustvid.captioning.records import TaskRecord, judged_digest

    captioner, task_id = key
    text = responses[key]["text"]
    if text is None or task_id not in tasks:
        return False
    task = TaskRecord.from_json(tasks[task_id])
    record = done.get((judge, captioner, task_id))
    if task.checklist is None:
        return False
    return record is None or record["digest"] != judged_digest(task, text) or _may_be_mended(record["judgement"])


def _judgements(
    judge: Any, name: str, keys: Sequence[tuple[str, str]], tasks: Lines, responses: Lines
) -> Iterator[dict[str, Any]]:
    """A record for each response, as the judge gets done with them."""
    from trustvid.captioning.records import judged_digest

    waiting: deque[tuple[str, TaskRecord, str]] = (
        deque()
    )  # what was handed to the judge and has not come back, in order

    def ask() -> Iterator[Any]:
        from trustvid.captioning.checklist import Checklist
        from trustvid.captioning.records import TaskRecord
        from trustvid.judge.base import JudgeTask

        for captioner, task_id in keys:
            task, text = TaskRecord.from_json(tasks[task_id]), responses[captioner, task_id]["text"]
            try:
                checklist = Checklist.from_json(task.checklist, task_id)
            except DataError as error:
                print(f"{task_id}: {error}", file=sys.stderr)
                continue
            waiting.append((captioner, task, text))
            yield JudgeTask(task_id, task.instruction, text, checklist)

    for judgement in judge.judge_many(ask()):
        captioner, task, text = waiting.popleft()
        yield {
            "judge": name,
            "captioner": captioner,
            "task_id": task.id,
            "digest": judged_digest(task, text),
            "judgement": judgement.to_json(),
        }


def _batches(records: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    source = iter(records)
    while batch := list(islice(source, _BATCH)):
        yield batch


def _key(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return record["judge"], record["captioner"], record["task_id"]


def _item_failures(judgement: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for reading in (judgement["strict"], judgement["upstream"]):
        for item in (*reading["extractions"], *reading["answers"]) if reading else ():
            if item["failure"]:
                yield item["failure"]


def _failures(judgement: Mapping[str, Any]) -> int:
    return sum(1 for _ in _item_failures(judgement))


def _may_be_mended(judgement: Mapping[str, Any]) -> bool:
    return any(failure["kind"] not in _LASTING for failure in _item_failures(judgement))


def judges_of(folder: RunFolder) -> dict[str, Any]:
    """Descriptions of the judges that worked in a run folder, by their ids."""
    from trustvid.evaluation.jsonfiles import read_json

    path = folder.path / "judges.json"
    return read_json(path) if path.is_file() else {}
