"""The record of one question: what was seen, asked, found and answered. Round-trips through JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from trustvid.policy.base import Message
from trustvid.tools.evidence import Evidence, Observation, SubQuery, ToolFailure


@dataclass(frozen=True)
class Answer:
    """What the policy settled on.

    Attributes:
        value: option letter, number as text, or free text; None when there is none.
        status: "ok", "unparsed" (no answer could be read) or "abstained" (it declined).
        confidence: probability of being right, 0–1, or None.
        confidence_source: "stated" (by the policy), "pooled" (the support of the option, by synthesis=pooled) or None.
    """

    value: str | None
    status: str
    confidence: float | None
    confidence_source: str | None


@dataclass(frozen=True)
class FrameCall:
    """A call of a tool that looks after frames rather than content.

    Attributes:
        tool: "assess_quality", "select_frames" or "retrieve_frames".
        result: what came of it, for a reader.
        confidence: c_intrinsic, 0–1.
        frames: source indices it measured, selected or retrieved, rising.
        cost: Table 17.
    """

    tool: str
    result: str
    confidence: float
    frames: tuple[int, ...]
    cost: float


@dataclass(frozen=True)
class Trajectory:
    """One pass of the pipeline.

    Attributes:
        frames: source indices that were selected, rising.
        reliability: of each of ``frames``, 0–1; empty when the method does not measure it.
        dominant: dominant disturbance of the selected frames, or "unknown".
        sub_queries, evidence: in the order asked.
        decomposition_ok: False when the policy's decomposition could not be read and the question itself was asked.
        messages: the whole conversation, append-only.
        answer: the outcome.
        frame_calls: what was done about frames, in order; empty for methods that measure no reliability.
        routing_ok: False when the policy was to choose tools and at least one choice could not be read.
        relevance: to the question, of each of ``frames``, 0–1; empty when the method has no model of it.
    """

    frames: tuple[int, ...]
    reliability: tuple[float, ...]
    dominant: str
    sub_queries: tuple[SubQuery, ...]
    evidence: tuple[Evidence, ...]
    decomposition_ok: bool
    messages: tuple[Message, ...]
    answer: Answer
    frame_calls: tuple[FrameCall, ...] = ()
    routing_ok: bool = True
    relevance: tuple[float, ...] = ()

    @property
    def calls(self) -> int:
        """Tool calls made for sub-queries, repeated and failed ones included."""
        return sum(item.calls for item in self.evidence)

    @property
    def cost(self) -> float:
        """Sum of the costs (Table 17) of all calls, failed ones and those about frames included."""
        return sum(item.cost for item in (*self.frame_calls, *self.evidence))

    @property
    def tiers(self) -> dict[str, int]:
        """Number of calls in each tier; empty when the method has no tiers."""
        names = [item.tier for item in self.evidence if item.tier]
        return {tier: names.count(tier) for tier in ("high", "medium", "low")} if names else {}

    def to_json(self) -> dict:
        """Plain containers only."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: dict) -> Trajectory:
        """Inverse of :meth:`to_json`, also after a trip through a JSON file; older records name no relevance."""
        return cls(
            frames=tuple(record["frames"]),
            reliability=tuple(record["reliability"]),
            dominant=record["dominant"],
            sub_queries=tuple(SubQuery(**q) for q in record["sub_queries"]),
            evidence=tuple(_evidence(e) for e in record["evidence"]),
            decomposition_ok=record["decomposition_ok"],
            messages=tuple(Message(m["role"], m["text"], tuple(m["frames"])) for m in record["messages"]),
            answer=Answer(**record["answer"]),
            frame_calls=tuple(FrameCall(**{**c, "frames": tuple(c["frames"])}) for c in record["frame_calls"]),
            routing_ok=record["routing_ok"],
            relevance=tuple(record.get("relevance", ())),
        )


def _evidence(record: dict) -> Evidence:
    return Evidence(
        **{
            **record,
            "sub_query": SubQuery(**record["sub_query"]),
            "observations": tuple(Observation.from_json(o) for o in record["observations"]),
            "frames": tuple(record["frames"]),
            "disturbance": tuple(record["disturbance"]),
            "error": ToolFailure(**record["error"]) if record["error"] else None,
        }
    )
