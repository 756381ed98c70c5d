"""What came of one checked response: every constraint with the verdicts it rests on, True, False or None (unscored).

A rule item is one constraint; a group of questions is one constraint that holds when all of them are answered right.
An unscored verdict stays unknown exactly as far as the others do not decide: one wrong answer fails a group whatever
the unscored one would have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trustvid.captioning.validation import OPEN_KEY, RULE_KEY

Value = bool | None
ConstraintFamily = Literal["rule", "open"]
UNTYPED = "untyped"
"""The type of a group of questions that names none, as in the official files."""


def all_of(values: Iterable[Value]) -> Value:
    """Whether all hold: False as soon as one fails, else None when one is unknown.

    >>> all_of([True, None, False]), all_of([True, None]), all_of([])
    (False, None, True)
    """
    unknown = False
    for value in values:
        if value is False:
            return False
        unknown |= value is None
    return None if unknown else True


@dataclass(frozen=True)
class Constraint:
    """One constraint of a checked response.

    Attributes:
        family: "rule" or "open".
        constraint_id: id of the taxonomy; ``UNTYPED`` for groups without one.
        items: (check type, verdict) of the rule ("rule") or of each question ("attempt", "correctness", …).
    """

    family: ConstraintFamily
    constraint_id: str
    items: tuple[tuple[str, Value], ...]

    @property
    def value(self) -> Value:
        """Whether it holds. A group without questions never does (as published)."""
        return all_of(value for _, value in self.items) if self.items else False

    @property
    def fact_free(self) -> Value | Literal["absent"]:
        """Whether what can be checked without knowing the video holds; "absent" when there is nothing of the kind."""
        return self._part(lambda kind: kind != "correctness")

    @property
    def fact_only(self) -> Value | Literal["absent"]:
        """Whether what is asked about the video's content holds; "absent" when nothing is asked."""
        return self._part(lambda kind: kind == "correctness")

    def _part(self, wanted: Any) -> Value | Literal["absent"]:
        values = [value for kind, value in self.items if wanted(kind)]
        return all_of(values) if values else "absent"


@dataclass(frozen=True)
class Outcome:
    """One instruction with what came of its response.

    Attributes:
        video: id of the video; instructions on one video are not independent.
        prompt_id: id of the instruction within the video.
        field: application field ("For Retrieval", …).
        n_words: words of the instruction, separated by white space.
        constraints: all of the checklist, in its order.
        reason: why nothing of it could be scored (no response, say); None otherwise.
    """

    video: str
    prompt_id: str
    field: str
    n_words: int
    constraints: tuple[Constraint, ...]
    reason: str | None = None

    @property
    def task_id(self) -> str:
        """ "clip_001/02"."""
        return f"{self.video}/{self.prompt_id}"


def constraints_of(check_result: Mapping[str, Any]) -> tuple[Constraint, ...]:
    """Constraints of a result object in the official shape; a missing family is empty, a missing verdict is None.

    >>> constraints_of({"ruled_based_check": [{"constraint_id": "case", "result": True}]})[0].value
    True
    """
    rules = [
        Constraint("rule", str(item.get("constraint_id", "")), (("rule", _verdict(item)),))
        for item in check_result.get(RULE_KEY) or ()
    ]
    groups = [
        Constraint(
            "open",
            group.get("constraint_id") or UNTYPED,
            tuple((str(item.get("check_type", "")), _verdict(item)) for item in group.get("check_items") or ()),
        )
        for group in check_result.get(OPEN_KEY) or ()
    ]
    return (*rules, *groups)


def _verdict(item: Mapping[str, Any]) -> Value:
    value = item.get("result")
    return None if value is None else bool(value)
