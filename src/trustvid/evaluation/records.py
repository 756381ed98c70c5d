"""One line of ``predictions.jsonl``: what a method answered to a question under a condition, and what came of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from trustvid.errors import DataError

if TYPE_CHECKING:
    from trustvid.benchmarks.sample import Sample

Status = Literal["ok", "unparsed", "abstained", "unscored"]
ConfidenceSource = Literal["stated", "pooled", "option_logprobs"]
STATUSES: tuple[Status, ...] = get_args(Status)
CONFIDENCE_SOURCES: tuple[ConfidenceSource, ...] = get_args(ConfidenceSource)
CLEAN = "clean"

_CONDITION = re.compile(r"(?P<name>[\w.+/-]+)(?::s(?P<severity>\d+))?(?::c(?P<coverage>\d+(?:\.\d+)?))?")


class Condition(NamedTuple):
    """What was done to the video: "clean", or a corruption with its severity (1–5) and coverage (share of frames).

    >>> Condition.parse("glare:s3:c0.5")
    Condition(name='glare', severity=3, coverage=0.5)
    >>> Condition("glare", 3, 0.5).text
    'glare:s3:c0.5'
    """

    name: str
    severity: int | None = None
    coverage: float | None = None

    @classmethod
    def parse(cls, text: str) -> Condition:
        """The condition that ``text`` writes.

        Raises:
            ValueError: the text is not of the form ``name[:s<severity>][:c<coverage>]``.
        """
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise ValueError(f"condition {text!r} is not 'clean' or '<corruption>:s<severity>:c<coverage>'")
        severity, coverage = match["severity"], match["coverage"]
        return cls(
            match["name"],
            None if severity is None else int(severity),
            None if coverage is None else float(coverage),
        )

    @property
    def text(self) -> str:
        """The one way to write this condition."""
        severity = "" if self.severity is None else f":s{self.severity}"
        coverage = "" if self.coverage is None else f":c{self.coverage:g}"
        return f"{self.name}{severity}{coverage}"


@dataclass(frozen=True)
class TierCounts:
    """How many pieces of evidence the synthesis put into each tier."""

    high: int = 0
    medium: int = 0
    low: int = 0


@dataclass(frozen=True)
class Prediction:
    """One answer. "unparsed" and "abstained" are wrong answers (score 0) that are counted apart; "unscored" means that
    no answer could be had (video unreadable, policy failed): such a record has no score and stays out of the headline.

    Attributes:
        sample_id: id of the question.
        cluster: name of the video; questions on one video are not independent.
        task: short task name ("LP", "RDir", …).
        method: preset of the pipeline ("blind", "robust_to", …).
        condition: "clean" or ``Condition.text`` of a corruption.
        truth: the right letter, or the number as text.
        answer: the letter or number as text that the method gave; None unless ``status`` is "ok".
        score: 0–1 (multiple choice: 0 or 1; numeric: mean relative accuracy); None when unscored.
        confidence: the method's probability, 0–1, that its answer is right; None when it gave none.
        confidence_source: where the confidence came from; None exactly when ``confidence`` is.
        status: see above.
        reason: why it is not "ok"; required for "unscored" and "unparsed".
        tiers: evidence per tier.
        calls: tool calls made.
        failures: tool calls that failed, 0…calls.
        cost: summed relative cost of the tool calls, ≥ 0.
        frames: source indices of the selected frames.

    Raises:
        ValueError: the fields contradict each other, or one is out of its range or not of its type.
    """

    sample_id: str
    cluster: str
    task: str
    method: str
    condition: str
    truth: str
    answer: str | None
    score: float | None
    confidence: float | None
    confidence_source: ConfidenceSource | None
    status: Status
    reason: str | None = None
    tiers: TierCounts = TierCounts()
    calls: int = 0
    failures: int = 0
    cost: float = 0.0
    frames: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        faults = [*_type_faults(self)] or [*_value_faults(self)]
        if faults:
            raise ValueError(f"prediction {self.sample_id!r}: " + "; ".join(faults))

    @property
    def key(self) -> tuple[str, str, str]:
        """(sample_id, method, condition): at most one prediction of a run has it."""
        return self.sample_id, self.method, self.condition

    @classmethod
    def unscored(cls, sample: Sample, method: str, condition: str, reason: str) -> Prediction:
        """The record of a question that could not be asked or answered."""
        return cls(
            sample_id=sample.id,
            cluster=sample.cluster,
            task=sample.task,
            method=method,
            condition=condition,
            truth=sample.answer,
            answer=None,
            score=None,
            confidence=None,
            confidence_source=None,
            status="unscored",
            reason=reason,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain containers only; inverse of :meth:`from_json`."""
        return {**asdict(self), "frames": list(self.frames)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Prediction:
        """The prediction that ``record`` writes: exactly the known fields, each of its type.

        Raises:
            DataError: a field is missing, unknown, of another type or out of its range.
        """
        _check_names(record, {field.name for field in fields(cls)}, "prediction")
        tiers, frames = record["tiers"], record["frames"]
        if not isinstance(tiers, Mapping) or not isinstance(frames, list | tuple):
            raise DataError("prediction: 'tiers' must be an object and 'frames' a list")
        _check_names(tiers, {field.name for field in fields(TierCounts)}, "tiers")
        numbers = {name: _as_float(record[name]) for name in ("score", "confidence", "cost")}
        try:
            return cls(**{**record, **numbers, "tiers": TierCounts(**tiers), "frames": tuple(frames)})
        except ValueError as error:
            raise DataError(str(error)) from error


def _check_names(record: Mapping[str, Any], expected: set[str], what: str) -> None:
    missing, unknown = sorted(expected - record.keys()), sorted(record.keys() - expected)
    if missing or unknown:
        raise DataError(
            f"{what}: missing fields {missing}, unknown fields {unknown}; expected exactly {sorted(expected)}"
        )


def _as_float(value: Any) -> Any:
    """JSON writes 1.0 as 1 in some hands; everything else is left to the type check."""
    return float(value) if type(value) is int else value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_int(value: Any) -> bool:
    return type(value) is int  # neither bool nor a numpy integer, which JSON cannot write


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or _is_int(value)


def _is_frames(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_is_int, value))


def _is_tiers(value: Any) -> bool:
    return isinstance(value, TierCounts) and all(map(_is_int, (value.high, value.medium, value.low)))


_TEXTS = ("sample_id", "cluster", "task", "method", "condition", "truth", "status")
_OPTIONAL = frozenset(("answer", "reason", "confidence_source", "score", "confidence"))
_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys((*_TEXTS, "answer", "reason", "confidence_source"), (_is_text, "text")),
    **dict.fromkeys(("score", "confidence", "cost"), (_is_float, "a float")),
    **dict.fromkeys(("calls", "failures"), (_is_int, "an int")),
    "frames": (_is_frames, "a tuple of ints"),
    "tiers": (_is_tiers, "TierCounts of ints"),
}


def _type_faults(prediction: Prediction) -> Iterator[str]:
    """Fields whose value would not survive a round trip through JSON (numpy integers, lists of other things, …)."""
    for name, (check, expected) in _TYPES.items():
        value = getattr(prediction, name)
        if not check(value) and not (value is None and name in _OPTIONAL):
            yield f"{name}={value!r} is not {expected}{' or None' if name in _OPTIONAL else ''}"


def _value_faults(prediction: Prediction) -> Iterator[str]:
    """Fields of the right types that are out of range or contradict each other."""
    yield from _range_faults(prediction)
    status, score = prediction.status, prediction.score
    if (score is None) != (status == "unscored"):
        yield f"status {status!r} with score {score!r}: a score is missing exactly when the answer is unscored"
    if status in ("unparsed", "abstained") and score != 0:
        yield f"status {status!r} with score {score!r}: such an answer scores 0"
    if (prediction.answer is None) == (status == "ok"):
        yield f"status {status!r} with answer {prediction.answer!r}: an answer is given exactly when the status is 'ok'"
    if status in ("unparsed", "unscored") and not prediction.reason:
        yield f"status {status!r} needs a reason"
    if (prediction.confidence is None) != (prediction.confidence_source is None):
        yield "confidence and confidence_source come together or not at all"


def _range_faults(prediction: Prediction) -> Iterator[str]:
    if prediction.status not in STATUSES:
        yield f"status {prediction.status!r} is none of {STATUSES}"
    if prediction.confidence_source not in (None, *CONFIDENCE_SOURCES):
        yield f"confidence_source {prediction.confidence_source!r} is none of {CONFIDENCE_SOURCES}"
    for name in ("sample_id", "cluster", "task", "method"):
        if not getattr(prediction, name):
            yield f"{name} is empty"
    try:
        Condition.parse(prediction.condition)
    except ValueError as error:
        yield str(error)
    for name in ("score", "confidence"):
        value = getattr(prediction, name)
        if value is not None and not 0.0 <= value <= 1.0:
            yield f"{name}={value!r} is outside 0–1"
    if not 0 <= prediction.failures <= prediction.calls:
        yield f"failures={prediction.failures} is outside 0…calls={prediction.calls}"
    if not 0.0 <= prediction.cost < math.inf:
        yield f"cost={prediction.cost!r} is negative or not finite"
    tiers = prediction.tiers
    if min(tiers.high, tiers.medium, tiers.low, *prediction.frames, 0) < 0:
        yield "a tier count or a frame index is negative"
