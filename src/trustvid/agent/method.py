"""What a method is made of: the contracts of its parts, the preset that names them, and what it is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from trustvid.agent.synthesis import Link, words_of
from trustvid.benchmarks.sample import LETTERS
from trustvid.reliability.confidence import Call, Judged
from trustvid.reliability.measures import Measurer, measure_clip
from trustvid.reliability.profile import Profile
from trustvid.tools.evidence import Evidence, SubQuery
from trustvid.tools.executor import Executor
from trustvid.tools.relevance import NoRelevance
from trustvid.video.source import FrameSource

EVIDENCE = ("tools", "frames", "none", "chance")


class Estimator(Protocol):
    """A frame-reliability estimator (config group ``reliability``)."""

    def profile(self, clip: FrameSource, measure: Measurer = measure_clip) -> Profile: ...


class Selector(Protocol):
    """A frame selector (config group ``selection``). ``k_min`` and ``k_max`` bound the K it keeps."""

    k_min: int
    k_max: int

    def select(
        self, profile: Profile, n_frames: int, k: int, relevance: np.ndarray | None = None
    ) -> tuple[int, ...]: ...

    def around(self, selected: tuple[int, ...], n_frames: int, k: int) -> tuple[int, ...]: ...


class Relevance(Protocol):
    """Relevance of frames to a question (config group ``relevance``): [len(indices)], each in [0, 1]."""

    def relevance(
        self, clip: FrameSource, indices: Sequence[int], question: str, words: Sequence[str], executor: Executor
    ) -> np.ndarray: ...


class ConfidenceRule(Protocol):
    """A tool-confidence rule (config group ``confidence``)."""

    def judge(self, call: Call) -> Judged: ...


class Router(Protocol):
    """A tool router (config group ``routing``).

    ``asks_policy``: the policy chooses, ``route`` is the fallback. ``varies``: equal sub-queries of different questions
    (``asked``: the question, its options, what was done to which video) may go to different tools.
    """

    asks_policy: bool
    varies: bool

    def route(self, query: SubQuery, disturbance: str, available: Sequence[str], asked: str = "") -> str: ...


class Synthesis(Protocol):
    """An evidence synthesis (config group ``synthesis``)."""

    def sort(self, evidence: Sequence[Evidence]) -> list[Evidence]: ...

    def link(self, evidence: Sequence[Evidence], words: Sequence[str]) -> list[Link]: ...


@dataclass(frozen=True)
class Method:
    """A preset of the pipeline (config group ``methods``).

    Attributes:
        evidence: "tools" runs the whole pipeline; "frames" shows the policy the selected frames and asks no tool;
            "none" asks it without any evidence; "chance" picks an option by a seeded draw and asks nobody.
        frames: K, frames handed to policy and tools.
        refine: whether a call of low confidence is repeated once on four frames of the pool.
        per_tool_frames: whether each tool gets frames selected by its own yield instead of the common ones.
        decompose_with_frames: whether the policy sees the selected frames in its first turn, where it takes the
            question apart; if not, it is only told about them (Table 9, "text only"), and sees no frame at all.
        relevance: what selection knows of the question; by default nothing.

    Raises:
        ValueError: a value is unknown or out of range, or two parts do not fit; all of it in one message.
    """

    evidence: str
    frames: int
    reliability: Estimator
    selection: Selector
    confidence: ConfidenceRule
    routing: Router
    synthesis: Synthesis
    refine: bool = False
    per_tool_frames: bool = False
    decompose_with_frames: bool = True
    relevance: Relevance = field(default_factory=NoRelevance)

    def __post_init__(self) -> None:
        faults = []
        if self.evidence not in EVIDENCE:
            faults.append(f"evidence={self.evidence!r}; expected {', '.join(EVIDENCE[:-1])} or {EVIDENCE[-1]}")
        low, high = self.selection.k_min, self.selection.k_max
        if self.evidence in ("tools", "frames") and not low <= self.frames <= high:
            faults.append(f"frames={self.frames}; its selection keeps {low} to {high} (selection.k_min, k_max)")
        elif self.frames < 1:
            faults.append(f"frames={self.frames}; expected at least 1")
        known, wanted = (getattr(part, "channels", None) for part in (self.reliability, self.confidence))
        if known and wanted and known != wanted:
            faults.append(f"confidence.channels={wanted} does not fit reliability, whose channels are {known}")
        if faults:
            raise ValueError("method: " + "; ".join(faults))


@dataclass(frozen=True)
class Question:
    """What is asked: no truth, no path, no id of the sample's file (tools and policy see nothing else)."""

    text: str
    options: tuple[str, ...] = ()
    numeric: bool = False

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of the options."""
        return tuple(LETTERS[: len(self.options)])


@dataclass
class View:
    """One condition of a clip with what was already measured on it, so that methods and questions share profiles.

    Attributes:
        clip: the frames.
        measure: how frames are measured; by default afresh, without a cache.
    """

    clip: FrameSource
    measure: Measurer = measure_clip
    profiles: dict[int, Profile] = field(default_factory=dict)
    relevances: dict[tuple, np.ndarray] = field(default_factory=dict)
    calls: dict[tuple, Evidence] = field(default_factory=dict)

    def call(
        self, executor: Executor, tool: str, query: SubQuery, frames: tuple[int, ...], words: tuple[str, ...]
    ) -> Evidence:
        """What a tool reports, asked once: several passes over one question mostly make the same calls.

        A call that failed is made again.
        """
        key = (id(executor), tool, query, frames, words)
        if key not in self.calls:
            evidence = executor.run(tool, query, self.clip, frames, words)
            if evidence.error is not None:
                return evidence
            self.calls[key] = evidence
        return self.calls[key]

    def profile(self, estimator: Estimator) -> Profile:
        """The profile of an estimator instance, measured once."""
        key = id(estimator)
        if key not in self.profiles:
            self.profiles[key] = estimator.profile(self.clip, self.measure)
        return self.profiles[key]

    def relevance(
        self, estimator: Relevance, indices: tuple[int, ...], question: Question, executor: Executor
    ) -> np.ndarray:
        """Relevance of frames to a question by an estimator instance, asked once: several passes may share it.

        Raises:
            VideoError: the clip cannot be decoded.
            TrustvidError: the estimator failed.
        """
        key = (id(estimator), indices, question)
        if key not in self.relevances:
            words = words_of(question.text, *question.options)
            self.relevances[key] = estimator.relevance(self.clip, indices, question.text, words, executor)
        return self.relevances[key]
