"""The official files of IF-VidCap, read and written: instructions, checklists, responses, results.

All are one JSON object, video id → list of entries that carry ``field`` and ``prompt_id``. Entries are matched by
(video, prompt_id) and never by position, because files in circulation are shorter, longer or differently ordered than
the instructions. An entry that cannot be used is listed with its reason; only a file that is not the expected kind of
file at all is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from trustvid.captioning.rules import MAX_CHARACTERS
from trustvid.errors import DataError

PROMPTS, CHECKLISTS, VIDEOS = "prompt.json", "checklist.json", "video_meta_info.json"
RESPONSES_END, RESULTS_END = "_response.json", "_check_result.json"


class TaskKey(NamedTuple):
    """Which instruction: the video's id and the instruction's id within it."""

    video: str
    prompt_id: str

    def __str__(self) -> str:
        return f"{self.video}/{self.prompt_id}"


@dataclass(frozen=True)
class Instruction:
    """One instruction of ``prompt.json``.

    Attributes:
        key: which.
        field: application field ("For Retrieval", …).
        text: what the captioner is told.
        constraints_used: ids the instruction was drafted from; not the checklist.
    """

    key: TaskKey
    field: str
    text: str
    constraints_used: tuple[str, ...] = ()


class Problem(NamedTuple):
    """An entry that cannot be used."""

    where: str
    reason: str


@dataclass
class Responses:
    """Responses of one captioner to the instructions they belong to.

    Attributes:
        texts: usable responses.
        unusable: why an instruction's response cannot be judged (empty, given twice, …).
        problems: entries that belong to no instruction.
    """

    texts: dict[TaskKey, str] = field(default_factory=dict)
    unusable: dict[TaskKey, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


# -- reading -----------------------------------------------------------------------------------------------------------


def read_object(path: Path, expected: str) -> dict[str, Any]:
    """The JSON object in a file; a byte order mark and any line ends are fine.

    Of a key that stands twice, lists are joined (a video id twice is two parts of one list).

    Raises:
        DataError: the file is missing, no UTF-8, no JSON, or holds no object; names what was ``expected``.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected {expected}")
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_joined)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error}); expected {expected}") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}: holds {type(value).__name__}; expected {expected}")
    return value


def _joined(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and isinstance(value, list) and isinstance(found[key], list):
            found[key] = found[key] + value
        elif key in found and found[key] != value:
            raise ValueError(f"the key {key!r} stands twice with different values")
        else:
            found[key] = value
    return found


def entries(path: Path, value_key: str, kind: type, expected: str) -> tuple[list[tuple[TaskKey, dict]], list[Problem]]:
    """(key, entry) of every entry whose ``prompt_id`` is text and whose ``value_key`` is of ``kind``; and the others.

    Raises:
        DataError: as :func:`read_object`.
    """
    found, problems = [], []
    for video, items in read_object(path, expected).items():
        if not isinstance(items, list):
            problems.append(Problem(video, f"holds {type(items).__name__}, not a list"))
            continue
        for place, item in enumerate(items):
            fault = _entry_fault(item, value_key, kind)
            if fault:
                problems.append(Problem(f"{video}[{place}]", fault))
            else:
                found.append((TaskKey(video, str(item["prompt_id"])), item))
    return found, problems


def _entry_fault(item: Any, value_key: str, kind: type) -> str | None:
    if not isinstance(item, dict):
        return f"is {type(item).__name__}, not an object"
    prompt_id = item.get("prompt_id")
    if not isinstance(prompt_id, str | int) or isinstance(prompt_id, bool) or prompt_id == "":
        return "has no prompt_id, so it belongs to no instruction"
    if not isinstance(item.get(value_key), kind):
        return f"{prompt_id}: {value_key!r} is missing or not {kind.__name__}"
    return None


def read_prompts(path: Path) -> tuple[list[Instruction], list[Problem]]:
    """Instructions in file order; of several with one (video, prompt_id) only the first.

    Raises:
        DataError: as :func:`read_object`.
    """
    found, problems = entries(path, "generated_prompt", str, "prompt.json (video id → list of instructions)")
    instructions: dict[TaskKey, Instruction] = {}
    for key, item in found:
        used = item.get("constraints_used")
        used = tuple(map(str, used)) if isinstance(used, list) else ()
        if key in instructions:
            problems.append(Problem(str(key), "the id stands twice; the first instruction counts"))
        elif not item["generated_prompt"].strip():
            problems.append(Problem(str(key), "the instruction is empty"))
        else:
            instructions[key] = Instruction(key, str(item.get("field") or ""), item["generated_prompt"], used)
    return list(instructions.values()), problems


def read_checklists(path: Path) -> tuple[dict[TaskKey, dict], list[Problem]]:
    """Checklist objects, as they are, by instruction.

    Raises:
        DataError: as :func:`read_object`.
    """
    found, problems = entries(path, "checklist", dict, "checklist.json (video id → list of checklists)")
    checklists: dict[TaskKey, dict] = {}
    for key, item in found:
        if key in checklists:
            problems.append(Problem(str(key), "has two checklists; the first counts"))
        checklists.setdefault(key, item["checklist"])
    return checklists, problems


def read_responses(path: Path, wanted: Iterable[TaskKey]) -> Responses:
    """Responses of a ``*_response.json`` to the ``wanted`` instructions.

    Not judged are a response that is missing, blank, longer than the rules check, or given twice in different words
    (which of them was meant cannot be known). The text itself is left as it is, line ends included.

    Raises:
        DataError: as :func:`read_object`.
    """
    found, problems = entries(path, "response", object, "a *_response.json (video id → list of responses)")
    given: dict[TaskKey, list[Any]] = {}
    for key, item in found:
        given.setdefault(key, []).append(item["response"])
    responses = Responses(problems=problems)
    known = set(wanted)
    responses.problems += [Problem(str(key), "there is no such instruction") for key in given if key not in known]
    for key in sorted(known):
        fault = response_fault(given.get(key, []))
        if fault:
            responses.unusable[key] = fault
        else:
            responses.texts[key] = given[key][0]
    return responses


def response_fault(given: Sequence[Any]) -> str | None:
    """Why what was given as the response to one instruction cannot be judged, None when it can.

    >>> response_fault([]), response_fault([" "]), response_fault(["a", "a"])
    ('no response', 'the response is empty', None)
    """
    if not given:
        return "no response"
    if any(other != given[0] for other in given):
        return f"{len(given)} different responses under one id"
    text = given[0]
    if not isinstance(text, str):
        return f"the response is {'null' if text is None else type(text).__name__}, not text"
    if not text.strip("\ufeff \t\r\n"):
        return "the response is empty"
    if len(text) > MAX_CHARACTERS:
        return f"the response has {len(text):,} characters; at most {MAX_CHARACTERS:,} are judged"
    return None


def read_results(path: Path) -> tuple[dict[TaskKey, dict], list[Problem]]:
    """``check_result`` objects of a ``*_check_result.json``, as they are; of a repeated id the last, as published.

    Raises:
        DataError: as :func:`read_object`.
    """
    found, problems = entries(path, "check_result", dict, "a *_check_result.json (video id → list of results)")
    return {key: item["check_result"] for key, item in found}, problems


def captioner_of(path: Path) -> str:
    """A captioner's name by its file's name.

    >>> captioner_of(Path("runs/qwen_response.json"))
    'qwen'
    """
    return path.name.removesuffix(RESPONSES_END).removesuffix(RESULTS_END).removesuffix(".json")


# -- writing -----------------------------------------------------------------------------------------------------------


def prompt_entry(instruction: Instruction) -> dict[str, Any]:
    """An entry of ``prompt.json``."""
    return {
        "field": instruction.field,
        "prompt_id": instruction.key.prompt_id,
        "generated_prompt": instruction.text,
        "constraints_used": list(instruction.constraints_used),
    }


def entry_of(instruction: Instruction, value_key: str, value: Any) -> dict[str, Any]:
    """An entry of the other files: ``value_key`` is "checklist", "response" or "check_result"."""
    return {"field": instruction.field, "prompt_id": instruction.key.prompt_id, value_key: value}


class EntryWriter:
    """Writes an official file entry by entry, one a line, in UTF-8: memory does not grow with it.

    The file appears under its name when the ``with`` block ends without an error. Entries of a video must follow one
    another.
    """

    def __init__(self, path: Path):
        self.path = path
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._done: set[str] = set()
        self._video: str | None = None

    def __enter__(self) -> EntryWriter:
        # Replies may hold lone surrogates, which UTF-8 cannot write: as \\udc80 they are valid JSON.
        self._out = self._temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")
        self._out.write("{")
        return self

    def add(self, video: str, entry: Mapping[str, Any]) -> None:
        """Adds one entry.

        Raises:
            ValueError: the video's entries do not follow one another, or a number is no JSON number.
        """
        text = json.dumps(entry, ensure_ascii=False, allow_nan=False)
        if video == self._video:
            self._out.write(f",\n  {text}")
            return
        if video in self._done:
            raise ValueError(f"entries of the video {video!r} do not follow one another")
        self._done.add(video)
        self._out.write("\n ]," if self._video is not None else "")
        self._out.write(f"\n {json.dumps(video, ensure_ascii=False)}: [\n  {text}")
        self._video = video

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.write("\n ]\n}\n" if self._video is not None else "}\n")
        self._out.close()
        if kind is None:
            self._temporary.replace(self.path)
        else:
            self._temporary.unlink(missing_ok=True)


def write_entries(path: Path, found: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """An official file of (video, entry); see :class:`EntryWriter`."""
    with EntryWriter(path) as writer:
        for video, entry in found:
            writer.add(video, entry)
