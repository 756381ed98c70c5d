"""Any multiple-choice questions about any videos: one JSON object a line.

``{"video": "clips/a.mp4", "question": "Where …?", "options": ["left", "right"], "answer": "B"}``, with optional "id"
(else the line number), "task" (else "mcq") and "cluster" (else the video). Options may be a list, lettered or not, or
an object ``{"A": …, "B": …}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trustvid.benchmarks.base import OnBad, QuestionFile, Row, Tasks, video_name
from trustvid.benchmarks.files import cell, read_json_lines, require_folder
from trustvid.benchmarks.options import check_options, check_order, strip_letters
from trustvid.errors import ConfigError


class MCQJsonl(QuestionFile):
    """Loader of a JSON-lines file of multiple-choice questions.

    Args:
        file: the JSON-lines file (UTF-8). A line that is no JSON object is a rejected row.
        video_root: folder that the "video" paths are relative to and may not leave; None is the file's own folder.
        tasks: None or "all" for every task, or a list of task names.
        name, on_bad, strict_counts, expected, split, split_file, split_seed: as in :class:`QuestionFile`. Splits are
            cut by cluster: give clips of one place the same "cluster".

    Raises:
        ConfigError: no ``file``.
    """

    source = (
        'a UTF-8 file with one object a line: {"video": path below video_root, "question": text, '
        '"options": list or {"A": text, …}, "answer": letter}, and optionally "id", "task", "cluster"'
    )

    def __init__(
        self,
        file: str | Path | None,
        video_root: str | Path | None = None,
        *,
        tasks: Tasks = None,
        name: str = "mcq_jsonl",
        on_bad: OnBad = "skip",
        strict_counts: bool = False,
        expected: Mapping[str, int] | None = None,
        split: str | None = None,
        split_file: str | Path | None = None,
        split_seed: int = 0,
    ):
        super().__init__(
            name=name,
            on_bad=on_bad,
            strict_counts=strict_counts,
            expected=expected,
            split=split,
            split_file=split_file,
            split_seed=split_seed,
        )
        if not file:
            raise ConfigError([f"benchmark={name} needs benchmark.file: {self.source}"])
        self._file = Path(file).expanduser()
        self.video_root = Path(video_root).expanduser() if video_root else self._file.parent
        everything = tasks is None or tasks == "all"
        self._tasks = None if everything else frozenset([tasks] if isinstance(tasks, str) else tasks)

    @property
    def file(self) -> Path:
        return self._file

    def _wants(self, task: str) -> bool:
        return self._tasks is None or task in self._tasks

    def _published(self) -> dict[str, int]:
        return {}

    def _rows(self) -> list[Row]:
        lines = read_json_lines(self.file, self.source)
        require_folder(self.video_root, f"the folder that the videos of {self.file} are relative to")
        return [_row(number, record, self.video_root) for number, record in lines]


def _row(number: int, record: dict[str, Any] | str, root: Path) -> Row:
    faults = []
    if isinstance(record, str):
        faults, record = [record], {}
    options: tuple[str, ...] = ()
    try:
        options = _options(record.get("options"))
    except ValueError as error:
        faults.append(str(error))
    video = cell(record.get("video")).strip()
    cluster = cell(record.get("cluster")).strip() or video_name(video)
    return Row(
        number=number,
        id=cell(record.get("id")).strip() or f"line {number}",
        task=cell(record.get("task")).strip() or "mcq",
        scene=cluster or None,
        cluster=cluster,
        root=root,
        video=video,
        question=cell(record.get("question")).strip(),
        options=options,
        answer=cell(record.get("answer")),
        faults=tuple(faults),
    )


def _options(value: Any) -> tuple[str, ...]:
    if value is None:
        raise ValueError("no options")
    texts = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(texts, list) or not all(isinstance(text, str | int | float) for text in texts):
        raise ValueError(f"options are neither a list of texts nor an object by letter but {value!r:.60}")
    if not isinstance(value, dict):
        return strip_letters([cell(text) for text in texts])
    by_letter = {str(letter).strip().upper(): cell(text) for letter, text in value.items()}
    if len(by_letter) < len(value):
        raise ValueError(f"option letters repeat: {', '.join(map(str, value))}")
    letters = sorted(by_letter)
    check_order(letters)
    return check_options([by_letter[letter] for letter in letters])
