"""What a caption evaluation leaves in its run folder, and how it is read back one record at a time.

- ``tasks.jsonl``: the instructions with their checklists, so that scoring needs no benchmark;
- ``responses.jsonl``: one response (or why there is none) for each captioner and instruction;
- ``judgements.jsonl``: what each judge read of each response; of several for one key the last counts;
- ``scores.jsonl``: the verdicts in both rule modes.

Files are indexed by the place of their lines, not loaded: memory stays flat in the number of instructions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trustvid.captioning.files import Instruction, TaskKey
from trustvid.errors import DataError
from trustvid.evaluation.jsonfiles import bad_line

TASKS, RESPONSES, JUDGEMENTS, SCORES = "tasks", "responses", "judgements", "scores"


class Lines(Mapping[Any, dict[str, Any]]):
    """The records of a JSON-lines file by key, in the order of first occurrence, each read when asked for.

    Of a repeated key the last record counts. A last line that a kill cut is left out. There need be no file.

    Args:
        path: the file.
        key: the key of a record.

    Raises:
        DataError: a whole line is no record of this file.
    """

    def __init__(self, path: Path, key: Callable[[dict[str, Any]], Any]):
        self.path = path
        self._places: dict[Any, int] = {}
        if not path.is_file():
            return
        with path.open("rb") as file:
            place = 0
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    try:
                        self._places[key(json.loads(line))] = place
                    except (ValueError, KeyError, TypeError) as error:
                        raise bad_line(path, number, repr(error)) from error
                place += len(line)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._places)

    def __getitem__(self, key: Any) -> dict[str, Any]:
        place = self._places[key]
        with self.path.open("rb") as file:
            file.seek(place)
            return json.loads(file.readline())


@dataclass(frozen=True)
class TaskRecord:
    """One instruction with its checklist, as scoring needs it."""

    video: str
    prompt_id: str
    field: str
    instruction: str
    constraints_used: tuple[str, ...]
    checklist: dict[str, Any] | None

    @property
    def id(self) -> str:
        """ "clip_001/02"."""
        return f"{self.video}/{self.prompt_id}"

    @classmethod
    def of(cls, instruction: Instruction, checklist: dict[str, Any] | None) -> TaskRecord:
        """The record of an instruction."""
        video, prompt_id = instruction.key
        return cls(video, prompt_id, instruction.field, instruction.text, instruction.constraints_used, checklist)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> TaskRecord:
        """Inverse of :meth:`to_json`."""
        return cls(**{**record, "constraints_used": tuple(record["constraints_used"])})

    def to_json(self) -> dict[str, Any]:
        """The plain record."""
        return {**asdict(self), "constraints_used": list(self.constraints_used)}

    def as_instruction(self) -> Instruction:
        """What the official files know of it."""
        key = TaskKey(self.video, self.prompt_id)
        return Instruction(key, self.field, self.instruction, self.constraints_used)


@dataclass(frozen=True)
class ResponseRecord:
    """One captioner's response to one instruction.

    Attributes:
        captioner: name in tables.
        task_id: which instruction.
        text: the response; None when there is none that can be judged.
        reason: why there is none.
        seconds: it took to write, None when it was written elsewhere.
        thinking: what the model thought first, which is no part of the response; None when it did not think.
    """

    captioner: str
    task_id: str
    text: str | None
    reason: str | None = None
    seconds: float | None = None
    thinking: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The plain record; inverse of the constructor."""
        return asdict(self)


def task_lines(folder: Path) -> Lines:
    """``tasks.jsonl`` by task id."""
    return Lines(folder / f"{TASKS}.jsonl", lambda record: f"{record['video']}/{record['prompt_id']}")


def response_lines(folder: Path) -> Lines:
    """``responses.jsonl`` by (captioner, task id)."""
    return Lines(folder / f"{RESPONSES}.jsonl", lambda record: (record["captioner"], record["task_id"]))


def judgement_lines(folder: Path) -> Lines:
    """``judgements.jsonl`` by (judge id, captioner, task id)."""
    return Lines(
        folder / f"{JUDGEMENTS}.jsonl", lambda record: (record["judge"], record["captioner"], record["task_id"])
    )


def judged_digest(task: TaskRecord, text: str) -> str:
    """Names exactly what a judgement is of: instruction, checklist and response. Another digest, another judgement."""
    content = json.dumps([task.instruction, task.checklist, text], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def judge_id(name: str, description: Mapping[str, Any]) -> str:
    """A judge's name with a digest of all its settings: other settings, another judge."""
    content = json.dumps(description, sort_keys=True, ensure_ascii=True, default=str)
    return f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"


def require(lines: Lines, what: str, mode: str) -> Lines:
    """The lines, which must not be none.

    Raises:
        DataError: there are none; names the mode that writes them.
    """
    if not lines:
        raise DataError(f"{lines.path}: no {what} here; run mode={mode} (or mode=all) first")
    return lines
