"""What every benchmark loader shares: reading a question file, checking its rows, reporting what was found.

A loader turns the rows of its file into :class:`Row` s; everything after that is the same for all of them: rows are
checked one by one, become a :class:`Sample` or a :class:`Rejected` with the reason, are counted against the published
numbers, and are narrowed to one scene-disjoint split. A row never leaves without a trace.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Literal, Protocol

from trustvid.benchmarks.options import normalise_letter
from trustvid.benchmarks.sample import LETTERS, Rejected, Sample
from trustvid.benchmarks.splits import SPLITS, SplitFile, load_or_write_split
from trustvid.errors import ConfigError, DataError

OnBad = Literal["skip", "error"]
Tasks = str | Sequence[str] | None


class Benchmark(Protocol):
    """A set of questions about videos, as the runner sees it."""

    name: str

    def samples(self) -> tuple[list[Sample], list[Rejected]]:
        """The questions to run, in file order, and the rows that cannot be run."""
        ...

    def expected_counts(self) -> dict[str, int]:
        """Published number of questions by task; empty where none is published."""
        ...

    def report(self) -> LoadReport:
        """What the file held, beside what it should hold."""
        ...


@dataclass(frozen=True)
class Row:
    """One row as its loader understood it, not yet checked.

    Attributes:
        number: position in the file, from 1.
        id: the file's own id; "" when the row has none.
        task: task name of the tables; "" when the row names none.
        scene: the place the video was taken in, by which splits are cut; None when it cannot be told.
        cluster: name of the video.
        root: folder that the video may not leave.
        video: path of the video relative to ``root``, as the file spells it.
        question, options, answer, kind: as in :class:`Sample`, the answer still unchecked.
        faults: what the loader already found wrong.
    """

    number: int
    id: str
    task: str
    scene: str | None
    cluster: str
    root: Path
    video: str
    question: str
    options: tuple[str, ...]
    answer: str
    kind: Literal["mcq", "numeric"] = "mcq"
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadReport:
    """What a question file held.

    Attributes:
        benchmark: name of the benchmark.
        file: the question file.
        found: valid questions by task, in the whole file (all splits).
        expected: published questions by task; tasks without a published number are absent.
        rejected: rows that could not be used, in the whole file.
        split: name of the split that was selected, None for everything.
        split_sha256: SHA-256 of the split file, for the run record; None without a split.
        selected: valid questions after the split.
    """

    benchmark: str
    file: Path
    found: dict[str, int]
    expected: dict[str, int]
    rejected: tuple[Rejected, ...]
    split: str | None = None
    split_sha256: str | None = None
    selected: int = 0

    @property
    def complete(self) -> bool:
        """Whether every task with a published number has exactly that many valid questions."""
        return all(self.found.get(task, 0) == count for task, count in self.expected.items())

    def lines(self) -> list[str]:
        """One line per task ("LP: found 9 of 10"), one for the split, one per rejected row."""
        tasks = [*self.expected, *(task for task in self.found if task not in self.expected)]
        lines = [
            f"{task}: found {self.found.get(task, 0)}" + (f" of {self.expected[task]}" if task in self.expected else "")
            for task in tasks
        ]
        if self.split is not None:
            lines.append(f"split {self.split}: {self.selected} of {sum(self.found.values())} questions")
        return lines + [f"rejected {row.id}: {row.reason}" for row in self.rejected]

    def __str__(self) -> str:
        return "\n".join([f"{self.benchmark} ({self.file})", *(f"  {line}" for line in self.lines())])


class QuestionFile(ABC):
    """Base of the loaders: subclasses read rows, this class checks, counts, splits and reports them.

    Args:
        name: name of the benchmark in tables and records.
        on_bad: "skip" lists bad rows and runs the rest, "error" stops when there is any.
        strict_counts: stop unless every task has exactly the published number of valid questions.
        expected: numbers to check instead of the published ones; {} checks nothing.
        split: "train", "dev", "test", or None for every question.
        split_file: JSON file that holds the split; written on first use, never overwritten. None puts it beside the
            question file.
        split_seed: seed of a split file that is yet to be written.

    Raises:
        ConfigError: an argument has an unknown value.
    """

    #: Where the file comes from and how its folder should look: ends every error about missing parts.
    source = ""

    def __init__(
        self,
        *,
        name: str,
        on_bad: OnBad = "skip",
        strict_counts: bool = False,
        expected: Mapping[str, int] | None = None,
        split: str | None = None,
        split_file: str | Path | None = None,
        split_seed: int = 0,
    ):
        faults = []
        if on_bad not in ("skip", "error"):
            faults.append(f"benchmark.on_bad={on_bad!r} is unknown; known: skip, error")
        if split is not None and split not in SPLITS:
            faults.append(f"benchmark.split={split!r} is unknown; known: {', '.join(SPLITS)}, null (everything)")
        if faults:
            raise ConfigError(faults)
        self.name, self.on_bad, self.strict_counts = name, on_bad, strict_counts
        self._expected = None if expected is None else dict(expected)
        self._split, self._split_file, self._split_seed = split, split_file, split_seed

    # -- what a loader provides ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def file(self) -> Path:
        """The question file."""

    @abstractmethod
    def _rows(self) -> list[Row]:
        """All rows of the file, whatever their task. Raises DataError when the file cannot be read."""

    @abstractmethod
    def _published(self) -> dict[str, int]:
        """Published questions by task, for the file at hand."""

    @abstractmethod
    def _wants(self, task: str) -> bool:
        """Whether questions of this task were asked for."""

    # -- what callers use ----------------------------------------------------------------------------------

    def expected_counts(self) -> dict[str, int]:
        """Published number of questions (or ``expected``) of the tasks that were asked for."""
        counts = self._published() if self._expected is None else self._expected
        return {task: count for task, count in counts.items() if self._wants(task)}

    def samples(self) -> tuple[list[Sample], list[Rejected]]:
        """Questions in file order, and rejected rows, of the tasks and the split that were asked for.

        Raises:
            DataError: the file is missing, malformed or lacks columns; no valid row is left; there are bad rows under
                ``on_bad="error"``; counts differ under ``strict_counts``; a scene is not in the split file.
        """
        samples, rejected, _ = self._loaded
        return list(samples), list(rejected)

    def report(self) -> LoadReport:
        """Counts and rejected rows of the whole file. Raises as :meth:`samples`."""
        return self._loaded[2]

    @cached_property
    def _loaded(self) -> tuple[list[Sample], list[Rejected], LoadReport]:
        rows = self._rows()
        wanted = [row for row in rows if not row.task or self._wants(row.task)]
        checked = list(zip(wanted, check_rows(wanted), strict=True))
        split = self._split_of(rows)
        inside = [result for row, result in checked if split is None or split.scenes.get(row.scene) == self._split]
        samples = [result for result in inside if isinstance(result, Sample)]
        rejected = [result for result in inside if isinstance(result, Rejected)]
        report = LoadReport(
            benchmark=self.name,
            file=self.file,
            found=dict(Counter(result.task for _, result in checked if isinstance(result, Sample))),
            expected=self.expected_counts(),
            rejected=tuple(result for _, result in checked if isinstance(result, Rejected)),
            split=self._split,
            split_sha256=None if split is None else split.sha256,
            selected=len(samples),
        )
        self._insist(samples, rejected, report)
        return samples, rejected, report

    def _split_of(self, rows: Sequence[Row]) -> SplitFile | None:
        """The split file, over the scenes of every row: what was downloaded or asked for must not change the split."""
        if self._split is None:
            return None
        unknown = sorted({row.cluster for row in rows if row.scene is None and row.video})
        if unknown:
            raise DataError(
                f"{self.file}: cannot tell the scene of {len(unknown)} videos ({', '.join(unknown[:5])}), "
                f"so no scene-disjoint split can be cut; expected the official file names, or set benchmark.split=null"
            )
        path = self._split_file or self.file.parent / f"split_seed{self._split_seed}.json"
        scenes = {row.scene for row in rows if row.scene is not None}
        return load_or_write_split(Path(path), scenes, benchmark=self.name, seed=self._split_seed)

    def _insist(self, samples: list[Sample], rejected: list[Rejected], report: LoadReport) -> None:
        bad = "".join(f"\n  - {row.id}: {row.reason}" for row in rejected)
        if rejected and self.on_bad == "error":
            raise DataError(f"{self.file}: {len(rejected)} bad rows (on_bad=skip runs the others):{bad}")
        if self.strict_counts and not report.complete:
            raise DataError(
                f"{self.file}: the number of valid questions is not the published one (strict_counts=false runs on "
                f"what there is):" + "".join(f"\n  - {line}" for line in report.lines())
            )
        if not samples:
            where = f" in split {self._split}" if self._split else ""
            raise DataError(f"{self.file}: no question to run{where}; {len(rejected)} rows were rejected:{bad}")


# -- checking rows -------------------------------------------------------------------------------------------


def check_rows(rows: Iterable[Row]) -> Iterator[Sample | Rejected]:
    """Each row as a sample, or rejected with all its faults; of rows with one id, only the first can be a sample."""
    first_row: dict[str, int] = {}
    videos: dict[tuple[Path, str], Path | str] = {}
    for row in rows:
        faults = list(row.faults)
        if not row.id:
            faults.append("no id")
        elif row.id in first_row:
            faults.append(f"duplicate id {row.id} (row {row.number}; first seen in row {first_row[row.id]})")
        else:
            first_row[row.id] = row.number
        if not row.task:
            faults.append("no task")
        if not row.question.strip():
            faults.append("empty question")
        key = (row.root, row.video)
        if key not in videos:
            videos[key] = find_video(*key)
        video = videos[key]
        if isinstance(video, str):
            faults.append(video)
        answer, answer_fault = _check_answer(row)
        faults += answer_fault
        if faults or isinstance(video, str):
            yield Rejected(row.id or f"row {row.number}", "; ".join(faults))
        else:
            yield Sample(row.id, video, row.cluster, row.task, row.question, row.options, answer, row.kind)


def _check_answer(row: Row) -> tuple[str, list[str]]:
    if row.kind == "numeric":
        value = _finite(row.answer)
        return row.answer.strip(), [] if value is not None else [f"answer {row.answer!r} is not a number"]
    letter = normalise_letter(row.answer)
    if letter is None:
        return "", [f"answer {row.answer!r} is not a letter"]
    if row.options and letter not in LETTERS[: len(row.options)]:
        return "", [f"answer {letter} is not among the options A–{LETTERS[len(row.options) - 1]}"]
    return letter, []


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def video_name(video: str) -> str:
    """A video's path without its extension: the cluster of its questions."""
    return re.sub(r"\.[A-Za-z0-9]{1,5}$", "", video)


def find_video(root: Path, relative: str) -> Path | str:
    """The video's absolute path; or, as text, why it may not or cannot be used.

    ``root`` itself may be a symbolic link (that is the user's own layout); nothing below it may lead outside.
    """
    parts = PurePosixPath(relative).parts
    if not relative.strip() or "\0" in relative:
        return "no video named"
    if PurePosixPath(relative).is_absolute() or ".." in parts or "\\" in relative:
        return f"video path {relative!r} leaves the folder {root}; expected a path below it"
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()):
        return (
            f"video {relative!r} is a link out of the folder {root}; expected the file itself "
            f"(download the data set with --local-dir, or copy it there)"
        )
    if not path.is_file():
        return f"missing video {root / relative}"
    return path
