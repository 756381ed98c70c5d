"""One question about one video, as every benchmark loader yields it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LETTERS = "ABCDEFGHIJ"


@dataclass(frozen=True)
class Sample:
    """A question with its truth.

    Attributes:
        id: unique within the benchmark.
        video: absolute path of the clip (inside the benchmark's root).
        cluster: name of the video: questions of one cluster are not independent.
        task: short task name as in the tables ("LP", "RDir", …).
        question: text without the options.
        options: option texts without letters; the i-th has the letter ``LETTERS[i]``. Empty for numeric questions.
        answer: the right letter ("A"…), or the number as text for numeric questions.
        kind: "mcq" (scored right or wrong) or "numeric" (scored by mean relative accuracy).
    """

    id: str
    video: Path
    cluster: str
    task: str
    question: str
    options: tuple[str, ...]
    answer: str
    kind: Literal["mcq", "numeric"] = "mcq"

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of the options, ("A", "B", …)."""
        return tuple(LETTERS[: len(self.options)])


@dataclass(frozen=True)
class Rejected:
    """A row that could not become a sample, with the reason; rejected rows are listed, never silently dropped."""

    id: str
    reason: str
