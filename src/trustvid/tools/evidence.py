"""The evidence contract: what a tool sees, what it says, and what becomes of a failure.

A *tool* turns pixels into :class:`Observation` s, frame by frame (or pair by pair, or window by window), so that its
outputs can be stored and shared by every question and method. The executor bundles the observations of one call into
:class:`Evidence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np

SemanticType = Literal["spatial", "temporal", "attribute", "action", "text"]
SEMANTIC_TYPES: tuple[SemanticType, ...] = ("spatial", "temporal", "attribute", "action", "text")
TOOL_NAMES = ("read_text", "detect_objects", "recognize_action", "track_temporal", "caption_frame")
Tier = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class SubQuery:
    """One atomic perceptual demand: its words and its semantic type (paper E.1)."""

    text: str
    type: SemanticType


@dataclass(frozen=True)
class Observation:
    """One thing a tool saw in one frame (or between one frame and the next).

    Attributes:
        frame: source index of the frame (for a pair or a window: of its first frame).
        time: seconds from the clip's start of that frame.
        kind: "object" (a labelled box), "text" (a word in a box), "motion" (of the camera, between two frames),
            "action" (what somebody does), "caption" (a sentence about the frame) or "quality" (measures).
        label: "red box", "sign", "CAFE", "turn left", …
        score: the tool's own confidence in this observation, 0–1.
        box: (x0, y0, x1, y1) as shares of width and height, 0–1, or None.
        values: further numbers by name (motion: "yaw_deg" positive to the right, "end_frame", "end_time", …).
        confidence: P(right) by the method's confidence rule, 0–1; None where the rule does not look at single
            observations, and always None in the tool's own output.
    """

    frame: int
    time: float
    kind: Literal["object", "text", "motion", "action", "caption", "quality"]
    label: str
    score: float
    box: tuple[float, float, float, float] | None = None
    values: dict[str, float] = field(default_factory=dict)
    confidence: float | None = None

    @property
    def weight(self) -> float:
        """How much the observation counts, 0–1: its confidence, or the tool's own score where there is none."""
        return self.score if self.confidence is None else self.confidence

    @classmethod
    def from_json(cls, record: dict) -> Observation:
        """Inverse of :meth:`to_json`."""
        box = record["box"]
        return cls(**{**record, "box": tuple(box) if box is not None else None})

    def to_json(self) -> dict:
        """Plain containers only."""
        return asdict(self)


@dataclass(frozen=True)
class ToolFailure:
    """Why a call gave no result: "timeout", "exception", "no_frames", "unavailable"; and the message."""

    kind: Literal["timeout", "exception", "no_frames", "unavailable"]
    message: str


@dataclass(frozen=True)
class Evidence:
    """The outcome of one tool call.

    Attributes:
        sub_query: what was asked.
        tool: name of the tool.
        observations: all it saw, by frame.
        result: one factual sentence or two for a reader ("no text found" when there is none).
        intrinsic: the tool's own confidence c_intrinsic, 0–1; 0 for a failure (paper Eq. 4).
        frames: source indices the call looked at, rising.
        cost: Table 17.
        error: set when the call failed; a failure is evidence, not an exception.
        confidence: c_j after the confidence rule of the method; equal to ``intrinsic`` until it is set.
        disturbance: d of each of ``frames``, 0–1; empty when the method knows nothing of reliability.
        tier: set by the synthesis; None when the method has no tiers.
        calls: how often the tool was called for it: 2 after a refinement.
        note: what a reader should know of how it came about; "" normally.
    """

    sub_query: SubQuery
    tool: str
    observations: tuple[Observation, ...]
    result: str
    intrinsic: float
    frames: tuple[int, ...]
    cost: float
    error: ToolFailure | None = None
    confidence: float = 0.0
    disturbance: tuple[float, ...] = ()
    tier: Tier | None = None
    calls: int = 1
    note: str = ""


@dataclass(frozen=True)
class FrameBatch:
    """Decoded frames handed to a tool: pixels and time, and nothing that says where they come from.

    Attributes:
        images: uint8 RGB [T, H, W, 3].
        indices: source index of each, rising.
        times: seconds from the clip's start of each.
    """

    images: np.ndarray
    indices: tuple[int, ...]
    times: tuple[float, ...]


class Tool(Protocol):
    """A perception tool. Constructors are cheap: models load at the first call.

    Attributes:
        name: one of ``TOOL_NAMES``.
        cost: relative cost of one call (Table 17).
        version: changes whenever the same pixels can give another output; part of the cache key.
        span: "frame" (observations belong to single frames), "pair" (to consecutive frames of a dense window) or
            "window" (to a whole dense window, which such a tool is given alone).
        reads_query: whether the sub-query changes the output (then it is part of the cache key).
    """

    name: str
    cost: float
    version: str
    span: Literal["frame", "pair", "window"]
    reads_query: bool

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """Observations of each frame (span "frame": T lists), of each step from t to t+1 ("pair": T-1 lists), or of all
        of them together ("window": one list).

        ``words`` are the words of question and options: a hint for tools with ``reads_query``; others ignore it.
        """
        ...

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """(result sentence, c_intrinsic in 0–1) of one call's observations; ("no text found", 0.0) when empty."""
        ...

    def settings(self) -> dict:
        """Everything configurable that can change the output, plain containers; part of the cache key."""
        ...


@runtime_checkable
class CountingTool(Protocol):
    """A tool whose c_intrinsic counts the frames it saw nothing in, too. The executor then asks this instead."""

    def summarise_of(self, observations: Sequence[Observation], looked_at: int) -> tuple[str, float]:
        """As :meth:`Tool.summarise`, of the observations in ``looked_at`` frames (pairs, windows)."""
        ...
