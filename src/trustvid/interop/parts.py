"""What is exported, whatever the form: one method under one condition, its samples and their scores."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple


class Turn(NamedTuple):
    """One message of a conversation: "system", "user" or "assistant", and its text (frames are not exported)."""

    role: str
    text: str


class Estimate(NamedTuple):
    """A mean over the samples, 0–1, and its standard error (None: from fewer than two videos)."""

    value: float
    se: float | None


@dataclass(frozen=True)
class Item:
    """One sample.

    Attributes:
        id: of the question or instruction.
        video: name of the video, never where it lies.
        task: task of the question, or application field of the instruction.
        question: text without options; "" when the texts were not to be had.
        options: texts without letters; empty for numbers and captions.
        target: the right letter or number as text; "" for captions, which a checklist judges.
        turns: the conversation; empty when the run kept none.
        reply: the policy's last text; without a conversation the answer it came to, "" when there is none.
        answer: what was read from the reply; None when nothing was.
        scores: 0–1 by metric; empty exactly when the sample is unscored.
        reason: why it is unscored, or what else there is to say; None when nothing.
        details: what the record holds beside, plain containers.
    """

    id: str
    video: str
    task: str
    question: str
    options: tuple[str, ...]
    target: str
    turns: tuple[Turn, ...]
    reply: str
    answer: str | None
    scores: Mapping[str, float]
    reason: str | None
    details: Mapping[str, Any]

    @property
    def prompt(self) -> str:
        """Question with lettered options, as text."""
        lines = [f"{letter}. {text}" for letter, text in zip("ABCDEFGHIJ", self.options, strict=False)]
        return "\n".join([self.question, *lines]).strip()


@dataclass(frozen=True)
class Run:
    """What the samples are of.

    Attributes:
        benchmark, split, policy: as in the run's tables.
        record: ``run.json``.
        settings: decode settings, for the record.
    """

    benchmark: str
    split: str
    policy: str
    record: Mapping[str, Any]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """One method under one condition.

    Attributes:
        method: or captioner.
        condition: "clean", a corruption, or for captions whose rules and judge.
        items: its samples, sorted by id.
        summaries: by score, the run's means of it (by metric name); the first is the headline.
    """

    method: str
    condition: str
    items: tuple[Item, ...]
    summaries: Mapping[str, Mapping[str, Estimate]]

    @property
    def scored(self) -> int:
        """Samples that have a score."""
        return sum(bool(item.scores) for item in self.items)


_FOLDERS = re.compile(r"(?<![^\s\"'(\[=,])(?:/|[A-Za-z]:\\)(?:[^\s/\\:'\"<>|*?]+[/\\])+")


def without_folders(text: str) -> str:
    """The text with absolute paths cut to the names of their files: an export says nothing of this machine.

    Only paths without blanks are found whole.

    >>> without_folders("<think>a</think> missing video /data/set/a.mp4, see https://example.org/a/b")
    '<think>a</think> missing video a.mp4, see https://example.org/a/b'
    """
    return _FOLDERS.sub("", text)


def plain_details(value: Any) -> Any:
    """Plain containers with every text passed through :func:`without_folders`."""
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, Mapping):
        return {str(key): plain_details(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_details(item) for item in value]
    return value


def sha256(text: str) -> str:
    """Hex digest of a text."""
    return hashlib.sha256(text.encode("utf-8", errors="backslashreplace")).hexdigest()


def file_word(text: str) -> str:
    """The text as one word of a file name: letters, digits, ".", "+" and "-".

    >>> file_word("glare:s3:c0.5"), file_word("ablation/uniform frames")
    ('glare-s3-c0.5', 'ablation-uniform-frames')
    """
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", str(PurePosixPath(text))).strip("-") or "unnamed"
