"""How well a judge agrees with a reference: people's judgements, or the truth of composed responses (the Table 3 form).

The unit is a check item: a rule or a question. Beside the share of equal verdicts stand two numbers that a share over
mostly satisfied items hides: ``detection``, the share of violations that the judge finds, and ``false_alarms``, the
share of satisfied items it calls violated. Items the judge left unscored are in no headline and in the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trustvid.captioning.checklist import Checklist
from trustvid.captioning.metrics import Column, estimate_row
from trustvid.captioning.outcomes import UNTYPED, Value
from trustvid.captioning.scoring import ItemVerdicts
from trustvid.captioning.validation import OPEN_KEY, RULE_KEY

MEASURES = ("agreement", "detection", "false_alarms")


class Pair(NamedTuple):
    """One item: what the judge says and what is true."""

    video: str
    family: str  # "rule" or "open"
    constraint_id: str
    verdict: Value
    truth: bool


class NoReference(Exception):
    """A reference result that is not of this checklist."""


def pairs_of(video: str, checklist: Checklist, verdicts: ItemVerdicts, reference: Mapping[str, Any]) -> list[Pair]:
    """Items of one response beside the reference's ``result``; items the reference leaves open are left out.

    Args:
        video: id of the video.
        checklist: what was checked.
        verdicts: the judge's.
        reference: the ``check_result`` object.

    Raises:
        NoReference: its check ids are others than the checklist's.
    """
    rules, groups = reference.get(RULE_KEY) or [], reference.get(OPEN_KEY) or []
    items = [item for group in groups for item in group.get("check_items") or []]
    own = [item for group in checklist.open_groups for item in group.check_items]
    for given, wanted in ((rules, checklist.rule_items), (items, own)):
        if [item.get("check_id") for item in given] != [item.check_id for item in wanted]:
            raise NoReference("the reference has other check ids than the checklist")
    types = [group.constraint_id or UNTYPED for group in checklist.open_groups for _ in group.check_items]
    found = [
        (("rule", item.constraint_id), verdict, given)
        for item, verdict, given in zip(checklist.rule_items, verdicts.rules, rules, strict=True)
    ]
    found += [
        (("open", name), verdict, given) for name, verdict, given in zip(types, verdicts.questions, items, strict=True)
    ]
    return [
        Pair(video, *kind, verdict.value, given["result"])
        for kind, verdict, given in found
        if isinstance(given.get("result"), bool)
    ]


@dataclass(frozen=True)
class _Scope:
    name: str
    wanted: Callable[[Pair], bool]


def agreement_rows(pairs: Sequence[Pair]) -> Iterator[dict[str, Any]]:
    """Rows of ``metrics.json``: ``task`` ("all", "type:length"), ``metric`` ("agreement/rule_based"), the estimate."""
    scopes = [
        _Scope("", lambda pair: True),
        _Scope("rule_based", lambda pair: pair.family == "rule"),
        _Scope("open_ended", lambda pair: pair.family == "open"),
    ]
    for scope in scopes:
        kept = [pair for pair in pairs if scope.wanted(pair)]
        for measure in MEASURES:
            name = f"{measure}/{scope.name}" if scope.name else measure
            yield {"task": "all", "metric": name, **estimate_row(_column(kept, measure))}
    for constraint_id in sorted({pair.constraint_id for pair in pairs}):
        kept = [pair for pair in pairs if pair.constraint_id == constraint_id]
        for measure in MEASURES:
            yield {"task": f"type:{constraint_id}", "metric": measure, **estimate_row(_column(kept, measure))}


def _column(pairs: Sequence[Pair], measure: str) -> Column:
    if measure != "agreement":
        pairs = [pair for pair in pairs if pair.truth is (measure == "false_alarms")]
    # A violation is found, and an alarm raised, by the verdict "failed".
    hits = [pair.verdict == pair.truth if measure == "agreement" else pair.verdict is False for pair in pairs]
    unscored = np.array([pair.verdict is None for pair in pairs], dtype=bool)
    values = np.array(hits, dtype=np.float64)
    return Column(
        keys=tuple(str(place) for place in range(len(pairs))),
        values=np.where(unscored, np.nan, values),
        low=np.where(unscored, 0.0, values),
        high=np.where(unscored, 1.0, values),
        clusters=np.array([pair.video for pair in pairs], dtype=str),
        unscored=int(unscored.sum()),
    )
