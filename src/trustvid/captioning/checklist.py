"""Checklists in the official shape: rule items, and groups of questions.

One rule item is one constraint; one group of questions is one constraint whose questions must all be answered right.
The official files spell the first list ``ruled_based_check``. Result files have the same shape with
``parameters.content`` filled in and a verdict at every item, so the same classes read and write both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trustvid.captioning.validation import OPEN_KEY, RULE_KEY, shape_faults, validate_checklist
from trustvid.errors import DataError

__all__ = ["Checklist", "OpenGroup", "OpenItem", "RuleItem", "validate_checklist"]


def _without_none(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value is not None}


@dataclass(frozen=True)
class RuleItem:
    """One constraint that a rule checks.

    Attributes:
        check_id: "rule-001", … running over the whole checklist.
        constraint_id: a format id of the taxonomy.
        check_description: the phrase of the instruction it stands for.
        parameters: the rule's parameters; ``content`` is null until a judge has extracted it.
        result: the verdict in a result file, None elsewhere.
    """

    check_id: str
    constraint_id: str
    check_description: str
    parameters: Mapping[str, Any]
    result: bool | None = None

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> RuleItem:
        """Inverse of :meth:`to_json`."""
        return cls(
            check_id=record["check_id"],
            constraint_id=record["constraint_id"],
            check_description=record["check_description"],
            parameters=dict(record["parameters"]),
            result=record.get("result"),
        )

    def to_json(self) -> dict[str, Any]:
        """The official object."""
        shape = {
            "check_id": self.check_id,
            "constraint_id": self.constraint_id,
            "check_description": self.check_description,
            "parameters": dict(self.parameters),
            "result": self.result,
        }
        return _without_none(shape)


@dataclass(frozen=True)
class OpenItem:
    """One question about the response.

    Attributes:
        check_id: "open-001", … running over the whole checklist.
        check_type: "attempt" (was it tried at all) or "correctness" (is it true of the video).
        question: the question.
        options: "yes" and "no" for attempts, lettered texts for correctness.
        correct_answer: "yes", "no", or a letter.
        answer: a judge's answer, its explanation, its confidence (1–5) and the verdict: in result files, else None.
    """

    check_id: str
    check_type: str
    question: str
    options: tuple[str, ...]
    correct_answer: str
    answer: str | None = None
    result_explanation: str | None = None
    result_confidence: int | None = None
    result: bool | None = None

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> OpenItem:
        """Inverse of :meth:`to_json`."""
        return cls(
            check_id=record["check_id"],
            check_type=record["check_type"],
            question=record["question"],
            options=tuple(record["options"]),
            correct_answer=record["correct_answer"],
            answer=record.get("answer"),
            result_explanation=record.get("result_explanation"),
            result_confidence=record.get("result_confidence"),
            result=record.get("result"),
        )

    def to_json(self) -> dict[str, Any]:
        """The official object."""
        shape = {
            "check_id": self.check_id,
            "check_type": self.check_type,
            "question": self.question,
            "options": list(self.options),
            "correct_answer": self.correct_answer,
            "answer": self.answer,
            "result_explanation": self.result_explanation,
            "result_confidence": self.result_confidence,
            "result": self.result,
        }
        return _without_none(shape)


@dataclass(frozen=True)
class OpenGroup:
    """One constraint that questions check; it holds when every question is answered right.

    Attributes:
        check_content: what the group is about.
        check_items: its questions.
        constraint_id: a content id of the taxonomy; None in official files, whose groups have no type.
    """

    check_content: str
    check_items: tuple[OpenItem, ...]
    constraint_id: str | None = None

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> OpenGroup:
        """Inverse of :meth:`to_json`."""
        items = tuple(OpenItem.from_json(item) for item in record["check_items"])
        return cls(record["check_content"], items, record.get("constraint_id"))

    def to_json(self) -> dict[str, Any]:
        """The official object, with ``constraint_id`` where there is one."""
        items = [item.to_json() for item in self.check_items]
        shape = {"check_content": self.check_content, "constraint_id": self.constraint_id, "check_items": items}
        return _without_none(shape)


@dataclass(frozen=True)
class Checklist:
    """What one response to one instruction is checked for."""

    rule_items: tuple[RuleItem, ...] = field(default=())
    open_groups: tuple[OpenGroup, ...] = field(default=())

    @classmethod
    def from_json(cls, record: Any, where: str = "checklist") -> Checklist:
        """Reads the official object.

        Parameters of rules are kept as they are, right or wrong: a rule that cannot run makes its item unscored, not
        the file unreadable. ``validate_checklist`` finds those.

        Raises:
            DataError: keys are missing or of the wrong kind; the message lists every place.
        """
        faults = shape_faults(record, where)
        if faults:
            raise DataError("this is no checklist:\n" + "\n".join(f"  - {fault}" for fault in faults))
        return cls(
            tuple(RuleItem.from_json(item) for item in record[RULE_KEY]),
            tuple(OpenGroup.from_json(group) for group in record[OPEN_KEY]),
        )

    def to_json(self) -> dict[str, Any]:
        """The official object."""
        return {
            RULE_KEY: [item.to_json() for item in self.rule_items],
            OPEN_KEY: [group.to_json() for group in self.open_groups],
        }
