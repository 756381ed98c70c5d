"""UrbanVideo-Bench (arXiv 2503.06157): multiple-choice questions about drone flights, read from its official files.

Each row of ``MCQ.parquet`` carries question *and* options in one string, in several spellings; :func:`split_question`
reads them all. Rows without options (the first release had 19) are rejected with that reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from trustvid.benchmarks.base import OnBad, QuestionFile, Row, Tasks, video_name
from trustvid.benchmarks.files import cell, read_parquet, require_folder
from trustvid.benchmarks.options import check_options, check_order
from trustvid.errors import ConfigError

#: The four tasks that Robust-TO reports, under their names in its tables.
PAPER_TASKS = {
    "Landmark Position": "LP",
    "Counterfactual": "CF",
    "Progress Evaluation": "PE",
    "Action Generation": "AG",
}
#: Questions per category, as published (5,250 in all).
CATEGORY_COUNTS = {
    "Landmark Position": 859,
    "Counterfactual": 132,
    "Progress Evaluation": 763,
    "Action Generation": 1171,
    "Trajectory Captioning": 411,
    "Sequence Recall": 112,
    "Object Recall": 120,
    "Scene Recall": 111,
    "Start/End Position": 142,
    "Proximity": 117,
    "Duration": 132,
    "Goal Detection": 317,
    "Cognitive Map": 265,
    "Causal": 110,
    "Association Reasoning": 230,
    "High-level Planning": 258,
}
#: The paper's shorter name of a category, and the one its file uses.
_ALIASES = {"Association": "Association Reasoning"}
_COLUMNS = ("Question_id", "video_id", "question_category", "question", "answer")


class UrbanVideo(QuestionFile):
    """Loader of ``<data_dir>/MCQ.parquet`` with ``<data_dir>/videos/*.mp4``.

    Args:
        data_dir: folder of the data set.
        tasks: None for the four of the paper (LP, CF, PE, AG), "all" for every category, or a list of short names or
            official category names. Categories outside the four keep their official name as task.
        name, on_bad, strict_counts, expected, split, split_file, split_seed: as in :class:`QuestionFile`.

    Raises:
        ConfigError: no ``data_dir``, or an unknown task.
    """

    source = (
        "the data set EmbodiedCity/UrbanVideo-Bench of the Hugging Face hub "
        "(`hf download EmbodiedCity/UrbanVideo-Bench --repo-type dataset --local-dir DIR`) "
        "with DIR/MCQ.parquet and DIR/videos/*.mp4, and data_dir=DIR"
    )

    def __init__(
        self,
        data_dir: str | Path | None,
        *,
        tasks: Tasks = None,
        name: str = "urbanvideo",
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
        if not data_dir:
            raise ConfigError([f"benchmark={name} needs data_dir: {self.source}"])
        self.data_dir = Path(data_dir).expanduser()
        self._tasks = _chosen_tasks(tasks)

    @property
    def file(self) -> Path:
        return self.data_dir / "MCQ.parquet"

    def _wants(self, task: str) -> bool:
        return self._tasks is None or task in self._tasks

    def _published(self) -> dict[str, int]:
        return {PAPER_TASKS.get(category, category): count for category, count in CATEGORY_COUNTS.items()}

    def _rows(self) -> list[Row]:
        records = read_parquet(self.file, _COLUMNS, self.source)
        videos = self.data_dir / "videos"
        require_folder(videos, self.source)
        return [_row(number, record, videos) for number, record in enumerate(records, start=1)]


def _chosen_tasks(tasks: Tasks) -> frozenset[str] | None:
    """Task names to keep; None keeps all."""
    if tasks is None:
        return frozenset(PAPER_TASKS.values())
    if tasks == "all":
        return None
    asked = [tasks] if isinstance(tasks, str) else list(tasks)
    by_name = {name: PAPER_TASKS.get(_ALIASES.get(name, name), _ALIASES.get(name, name)) for name in CATEGORY_COUNTS}
    by_name |= {short: short for short in PAPER_TASKS.values()} | _ALIASES
    if unknown := [name for name in asked if name not in by_name]:
        known = ", ".join([*PAPER_TASKS.values(), *CATEGORY_COUNTS])
        raise ConfigError([f"benchmark.tasks: {', '.join(map(repr, unknown))} unknown; known: all, {known}"])
    return frozenset(by_name[name] for name in asked)


def _row(number: int, record: dict, videos: Path) -> Row:
    category = cell(record["question_category"]).strip()
    category = _ALIASES.get(category, category)
    video = cell(record["video_id"]).strip()
    faults: tuple[str, ...] = ()
    try:
        question, options = split_question(cell(record["question"]))
    except ValueError as error:
        question, options, faults = cell(record["question"]), (), (str(error),)
    return Row(
        number=number,
        id=cell(record["Question_id"]).strip(),
        task=PAPER_TASKS.get(category, category),
        scene=scene_of(video),
        cluster=video_name(video),
        root=videos,
        video=video,
        question=question,
        options=options,
        answer=cell(record["answer"]),
        faults=faults,
    )


def scene_of(video: str) -> str | None:
    """Where a clip was flown: its prefix and first number ("EmbodiedCity_18_0.mp4" → "EmbodiedCity_18").

    For AerialVLN it is the part up to the third underscore (environment and flight), as in Embodied-R's split; None for
    names outside the official scheme.

    >>> scene_of("AerialVLN_19_33ISQZ_7.mp4")
    'AerialVLN_19_33ISQZ'
    """
    stem = PurePosixPath(video).name.removesuffix(".mp4")
    match = re.match(r"((?:EmbodiedCity|RealWorld)_\d+|AerialVLN_[^_]+_[^_]+)(?=_|$)", stem)
    return match[1] if match else None


# -- the one-string question ---------------------------------------------------------------------------------

_PREFIX = re.compile(r"\s*question\s*[:：]\s*", re.IGNORECASE)
_HEADER = re.compile(r"\b(?:choices?|choose|options?)\s*[:：]\s*", re.IGNORECASE)
# "A." "A:" "A)" "(A)" at the start of a line; the text after a header counts as such a start.
_LINE_MARK = re.compile(r"^[^\S\n]*[(\[]?([A-Z])[.:)\]．：）]+[^\S\n]*", re.MULTILINE)
_INLINE_MARK = re.compile(r"(?<![^\s(])[(\[]?([A-Z])[.:)\]．：）]+(?=\s)\s*")


def split_question(text: str) -> tuple[str, tuple[str, ...]]:
    """Question and option texts of UrbanVideo-Bench's one-string questions.

    Reads a leading "Question:", the headers "Choices:", "Choice:", "choose:", "Options:", "Option:" in any case or no
    header at all, options on lines of their own (the first may share the header's line) or all on one line, lettered
    "A.", "A:", "A)" or "(A)", up to ten of them.

    Raises:
        ValueError: there are no options, or they are not lettered A, B, C, … without gaps or repeats.
    """
    text = text.replace("\r\n", "\n")
    if prefix := _PREFIX.match(text):
        text = text[prefix.end() :]
    for header in _HEADER.finditer(text):
        body = text[header.end() :]
        first = _LINE_MARK.match(body)
        if first is not None and first[1] == "A":
            return _clean(text[: header.start()]), _options(body)
    start = next((mark for mark in _LINE_MARK.finditer(text) if mark[1] == "A"), None)
    if start is not None and any(mark[1] == "B" for mark in _LINE_MARK.finditer(text, start.end())):
        return _clean(_drop_header(text[: start.start()])), _options(text[start.start() :])
    inline = _in_sequence(text)
    if len(inline) >= 2:
        return _clean(_drop_header(text[: inline[0].start()])), _options(text[inline[0].start() :])
    raise ValueError("no options")


def _options(body: str) -> tuple[str, ...]:
    marks = list(_LINE_MARK.finditer(body))
    inline = _in_sequence(body)
    if len(inline) > len(marks):  # several options share a line
        marks = inline
    check_order([mark[1] for mark in marks])
    ends = [mark.start() for mark in marks[1:]] + [len(body)]
    return check_options([body[mark.end() : end] for mark, end in zip(marks, ends, strict=True)])


def _in_sequence(text: str) -> list[re.Match[str]]:
    """Inline marks A, B, C, … in order; other single letters between them are prose."""
    found: list[re.Match[str]] = []
    for mark in _INLINE_MARK.finditer(text):
        if mark[1] == chr(ord("A") + len(found)):
            found.append(mark)
    return found


def _drop_header(head: str) -> str:
    return re.sub(_HEADER.pattern + r"$", "", head, flags=re.IGNORECASE)


def _clean(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().split("\n"))
