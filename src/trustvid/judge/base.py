"""The judge contract: one response and its checklist in; extracted texts and answers out, each with its check id.

Everything a judge could not do is a typed failure at its item, never a missing item and never a "no": the lists of a
judgement have one entry for each item of the checklist, in its order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from trustvid.llm.messages import Failure

if TYPE_CHECKING:
    from trustvid.captioning.checklist import Checklist


@dataclass(frozen=True)
class JudgeTask:
    """One response to be judged.

    Attributes:
        task_id: names it across runs ("clip_001/02"); seeds derive from it.
        instruction: what the captioner was asked to do.
        response: what it answered, untouched.
        checklist: what is checked.
    """

    task_id: str
    instruction: str
    response: str
    checklist: Checklist


@dataclass(frozen=True)
class Extraction:
    """What one rule is about.

    Attributes:
        check_id: the rule item's id.
        content: texts to be checked, all of which must pass; empty = the response has nothing of the kind. None = the
            judge failed. In the strict reading every text is a verbatim piece of the response (a listing "(a),(b)" of
            verbatim things for ``count``; texts found in JSON without a model are decoded).
        source: who extracted it: "model", "rules" (found without a model), "mock".
        failure: why ``content`` is None.
        rounds: replies it took.
    """

    check_id: str
    content: tuple[str, ...] | None
    source: str
    failure: Failure | None = None
    rounds: int = 1

    def to_json(self) -> dict[str, Any]:
        """The plain record."""
        return {
            "check_id": self.check_id,
            "content": None if self.content is None else list(self.content),
            "source": self.source,
            "failure": self.failure.to_json() if self.failure else None,
            "rounds": self.rounds,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Extraction:
        """Inverse of :meth:`to_json`."""
        content, failure = record["content"], record["failure"]
        return cls(
            record["check_id"],
            None if content is None else tuple(content),
            record["source"],
            Failure.from_json(failure) if failure else None,
            record["rounds"],
        )


@dataclass(frozen=True)
class OpenAnswer:
    """What the response says to one question.

    Attributes:
        check_id: the open item's id.
        answer: "yes" or "no" for attempts, a letter for correctness; None = the judge failed. The upstream reading
            keeps whatever the published pipeline would compare with the right answer.
        source: "model", "lexical" (found by comparing words, without a model), "mock".
        explanation: the judge's reason, "" when it gives none.
        confidence: the judge's own, 1 (guess) to 5 (certain); None when it gives none.
        failure: why ``answer`` is None.
        rounds: replies it took.
    """

    check_id: str
    answer: str | None
    source: str
    explanation: str = ""
    confidence: int | None = None
    failure: Failure | None = None
    rounds: int = 1

    def to_json(self) -> dict[str, Any]:
        """The plain record."""
        return {
            "check_id": self.check_id,
            "answer": self.answer,
            "source": self.source,
            "explanation": self.explanation,
            "confidence": self.confidence,
            "failure": self.failure.to_json() if self.failure else None,
            "rounds": self.rounds,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> OpenAnswer:
        """Inverse of :meth:`to_json`."""
        failure = record["failure"]
        return cls(**{**record, "failure": Failure.from_json(failure) if failure else None})


@dataclass(frozen=True)
class Reading:
    """One protocol's view of a response.

    Attributes:
        extractions: one for each rule item, in the checklist's order.
        answers: one for each open item, group after group, in the checklist's order.
    """

    extractions: tuple[Extraction, ...]
    answers: tuple[OpenAnswer, ...]

    def to_json(self) -> dict[str, Any]:
        """The plain record."""
        return {
            "extractions": [extraction.to_json() for extraction in self.extractions],
            "answers": [answer.to_json() for answer in self.answers],
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Reading:
        """Inverse of :meth:`to_json`."""
        return cls(
            tuple(Extraction.from_json(one) for one in record["extractions"]),
            tuple(OpenAnswer.from_json(one) for one in record["answers"]),
        )


@dataclass(frozen=True)
class Judgement:
    """All that a judge says about one response.

    Attributes:
        task_id: the task's.
        strict: what holds: guarded extractions, answers that could be read without doubt.
        upstream: what the published judge pipeline would have made of the same judge; None = the judge has no such
            reading, and the strict one serves both.
    """

    task_id: str
    strict: Reading
    upstream: Reading | None = None

    def to_json(self) -> dict[str, Any]:
        """The plain record."""
        return {
            "task_id": self.task_id,
            "strict": self.strict.to_json(),
            "upstream": self.upstream.to_json() if self.upstream else None,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Judgement:
        """Inverse of :meth:`to_json`."""
        upstream = record["upstream"]
        return cls(
            record["task_id"], Reading.from_json(record["strict"]), Reading.from_json(upstream) if upstream else None
        )


class Judge(Protocol):
    """Anything that judges responses.

    Attributes:
        name: how tables call it.
    """

    name: str

    def describe(self) -> dict[str, Any]:
        """For the run record: model, sampling, digest of the prompts, protocol. Plain JSON, no secrets."""
        ...

    def judge(self, task: JudgeTask) -> Judgement:
        """One response. What fails, fails at its item; raises for broken settings and a broken disk only."""
        ...

    def judge_many(self, tasks: Iterable[JudgeTask]) -> Iterator[Judgement]:
        """Many responses, in their order, as many at a time as the judge can work on, in bounded memory."""
        ...


class LazyJudge(ABC):
    """A judge whose working part is built at the first use, so that configs are cheap to check."""

    name: str = ""

    def __init__(self) -> None:
        self._built: Judge | None = None

    @abstractmethod
    def _build(self) -> Judge:
        """The working part."""

    @property
    def engine(self) -> Judge:
        """The working part, built when first asked for."""
        if self._built is None:
            self._built = self._build()
        return self._built

    def describe(self) -> dict[str, Any]:
        """See :meth:`Judge.describe`."""
        return self.engine.describe()

    def judge(self, task: JudgeTask) -> Judgement:
        """See :meth:`Judge.judge`."""
        return self.engine.judge(task)

    def judge_many(self, tasks: Iterable[JudgeTask]) -> Iterator[Judgement]:
        """See :meth:`Judge.judge_many`."""
        return self.engine.judge_many(tasks)
