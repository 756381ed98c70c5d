"""From a judge's reading to verdicts: rules applied to what was extracted, answers compared with the right ones.

Pure and offline: a stored judgement gives the same verdicts on every machine. Both rule modes read the judgement in
their own way (see ``judge.base``); whatever cannot be decided is None with the reason, item by item.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from trustvid.captioning.checklist import Checklist, OpenItem, RuleItem
from trustvid.captioning.outcomes import UNTYPED, Constraint, Value
from trustvid.captioning.rules import Mode, check


class Extracted(Protocol):
    """What scoring needs of a judge's extraction (``judge.base.Extraction``)."""

    check_id: str
    content: tuple[str, ...] | None
    failure: Any


class Answered(Protocol):
    """What scoring needs of a judge's answer (``judge.base.OpenAnswer``)."""

    check_id: str
    answer: str | None
    explanation: str
    confidence: int | None
    failure: Any


class Read(Protocol):
    """What scoring needs of a reading (``judge.base.Reading``)."""

    extractions: tuple[Any, ...]
    answers: tuple[Any, ...]


class Scored(NamedTuple):
    """The verdict on one item, and the fact that decided or the reason why there is none."""

    value: Value
    reason: str


@dataclass(frozen=True)
class ItemVerdicts:
    """Verdicts of one response in one mode, in the checklist's order.

    Attributes:
        rules: one for each rule item.
        questions: one for each question, group after group.
    """

    rules: tuple[Scored, ...]
    questions: tuple[Scored, ...]


class Misaligned(Exception):
    """A judgement that is not of this checklist."""


def score(checklist: Checklist, reading: Read, mode: Mode, own_reading: bool = True) -> ItemVerdicts:
    """Verdicts of every item.

    Args:
        checklist: what was checked.
        reading: what the judge read of the response.
        mode: "upstream" or "strict".
        own_reading: False when ``mode`` is "upstream" and the reading is the strict one, for want of another: then "the
            response has nothing of the kind" is written as the published judge writes it, as one empty text.

    Raises:
        Misaligned: ids of the reading and the checklist differ.
    """
    questions = [item for group in checklist.open_groups for item in group.check_items]
    _require_same("rule items", checklist.rule_items, reading.extractions)
    _require_same("questions", questions, reading.answers)
    nothing = ("",) if mode == "upstream" and not own_reading else ()
    rules = tuple(
        _rule_verdict(item, found, mode, nothing)
        for item, found in zip(checklist.rule_items, reading.extractions, strict=True)
    )
    answers = tuple(_question_verdict(item, said) for item, said in zip(questions, reading.answers, strict=True))
    return ItemVerdicts(rules, answers)


def _require_same(what: str, items: Any, read: Any) -> None:
    wanted, given = [item.check_id for item in items], [one.check_id for one in read]
    if wanted != given:
        raise Misaligned(f"the judgement is of other {what}: {given[:6]} instead of {wanted[:6]}")


def _rule_verdict(item: RuleItem, found: Extracted, mode: Mode, nothing: tuple[str, ...]) -> Scored:
    if found.content is None:
        return Scored(None, _failure_text(found.failure))
    verdict = check(item.constraint_id, {**item.parameters, "content": list(found.content or nothing)}, mode)
    return Scored(verdict.value, verdict.reason)


def _question_verdict(item: OpenItem, said: Answered) -> Scored:
    if said.answer is None:
        return Scored(None, _failure_text(said.failure))
    holds = said.answer == item.correct_answer
    return Scored(holds, f"answered {said.answer}" + ("" if holds else f", right is {item.correct_answer}"))


def _failure_text(failure: Any) -> str:
    return f"{failure.kind}: {failure.message}" if failure else "the judge gave nothing"


def unscored(checklist: Checklist, reason: str) -> ItemVerdicts:
    """No verdict on anything, for one reason."""
    questions = sum(len(group.check_items) for group in checklist.open_groups)
    return ItemVerdicts((Scored(None, reason),) * len(checklist.rule_items), (Scored(None, reason),) * questions)


def constraints_of_verdicts(checklist: Checklist, verdicts: ItemVerdicts) -> tuple[Constraint, ...]:
    """The checklist's constraints with their verdicts."""
    rules = [
        Constraint("rule", item.constraint_id, (("rule", verdict.value),))
        for item, verdict in zip(checklist.rule_items, verdicts.rules, strict=True)
    ]
    answers = iter(verdicts.questions)
    groups = [
        Constraint(
            "open",
            group.constraint_id or UNTYPED,
            tuple((item.check_type, next(answers).value) for item in group.check_items),
        )
        for group in checklist.open_groups
    ]
    return (*rules, *groups)


def result_json(checklist: Checklist, reading: Read | None, verdicts: ItemVerdicts) -> dict[str, Any]:
    """A ``check_result`` object in the official shape; items without a verdict have no ``result``."""
    record = checklist.to_json()
    extractions = reading.extractions if reading else (None,) * len(checklist.rule_items)
    answers: Iterator[Any] = iter(reading.answers) if reading else iter(())
    for item, found, verdict in zip(record["ruled_based_check"], extractions, verdicts.rules, strict=True):
        if found is not None and found.content is not None:
            item["parameters"] = {**item["parameters"], "content": list(found.content)}
        _set_result(item, verdict)
    given = iter(verdicts.questions)
    for group in record["open_ended_check"]:
        for item in group["check_items"]:
            said, verdict = next(answers, None), next(given)
            if said is not None and said.answer is not None:
                item.update(answer=said.answer, result_explanation=said.explanation)
                if said.confidence is not None:
                    item["result_confidence"] = said.confidence
            _set_result(item, verdict)
    return record


def _set_result(item: dict[str, Any], verdict: Scored) -> None:
    if verdict.value is not None:
        item["result"] = verdict.value


def verdicts_json(verdicts: ItemVerdicts) -> dict[str, list[list[Any]]]:
    """As plain lists [value, reason], for the run folder."""
    return {"rules": [list(v) for v in verdicts.rules], "questions": [list(v) for v in verdicts.questions]}


def verdicts_from_json(record: Mapping[str, Any]) -> ItemVerdicts:
    """Inverse of :func:`verdicts_json`."""
    return ItemVerdicts(
        tuple(Scored(*pair) for pair in record["rules"]), tuple(Scored(*pair) for pair in record["questions"])
    )
