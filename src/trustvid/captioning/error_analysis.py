"""What goes wrong in a captioner's responses, as the paper groups it, with examples.

By constraint type; lengths missed and by how much; kinds of broken JSON; words that were to be left out; repetition
loops; responses that could not be judged. Fed response by response, so that nothing is kept but counts and a few
examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from trustvid.captioning.checklist import Checklist, RuleItem
from trustvid.captioning.outcomes import UNTYPED, all_of
from trustvid.captioning.repetition import find_loop
from trustvid.captioning.rules.strict.counting import (
    count_characters,
    count_paragraphs,
    count_sentences,
    count_words,
)
from trustvid.captioning.rules.strict.markers import strip_markers
from trustvid.captioning.scoring import ItemVerdicts, Scored
from trustvid.captioning.validation import bounds_of

EXAMPLES = 3  # kept of each kind
_SHOWN = 160  # characters of an example
_MEASURES = {
    "character": count_characters,
    "word": count_words,
    "sentence": count_sentences,
    "paragraph": count_paragraphs,
}
# What the strict JSON rules say, by what is wrong; anything else they say is about the schema.
_JSON_FAULTS = (
    ("no JSON is in it", "no JSON"),
    ("is broken", "broken syntax"),
    ("without its opening one", "broken syntax"),
    ("JSON values instead of one", "several values"),
    ("the JSON value is no", "wrong kind of value"),
    ("nothing was extracted", "nothing extracted"),
)


@dataclass
class _Kind:
    """One line of the analysis."""

    total: int = 0
    failed: int = 0
    unscored: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)

    def add(self, value: bool | None, task_id: str, what: str, why: str) -> None:
        """Counts one verdict; a failed one may become an example."""
        self.total += 1
        self.unscored += value is None
        self.failed += value is False
        if value is False and len(self.examples) < EXAMPLES:
            self.examples.append({"task": task_id, "asked": _short(what), "found": _short(why)})


class ErrorAnalysis:
    """Collects the errors of one captioner under one judge and rule mode."""

    def __init__(self) -> None:
        self._types: dict[str, _Kind] = {}
        self._groups: dict[str, dict[str, _Kind]] = {"length": {}, "json": {}, "keyword": {}, "loops": {}}
        self._overshoot: list[float] = []
        self._unjudged: Counter[str] = Counter()
        self._responses = 0

    def unjudged(self, reason: str) -> None:
        """A response of which nothing could be judged."""
        self._unjudged[reason] += 1

    def add(
        self, task_id: str, checklist: Checklist, response: str, verdicts: ItemVerdicts, contents: Sequence[Any]
    ) -> None:
        """One judged response.

        Args:
            task_id: which.
            checklist: what was checked.
            response: the text.
            verdicts: of every item.
            contents: extracted texts of each rule item, None where the judge failed.
        """
        self._responses += 1
        for item, verdict, content in zip(checklist.rule_items, verdicts.rules, contents, strict=True):
            self._add_type(item.constraint_id, verdict.value, task_id, item.check_description, verdict.reason)
            if verdict.value is False:
                self._add_rule_fault(item, verdict, content or (), task_id)
        given = iter(verdicts.questions)
        for group in checklist.open_groups:
            answers = [(item, next(given)) for item in group.check_items]
            value = all_of(verdict.value for _, verdict in answers) if answers else False
            failed = next(((item, verdict) for item, verdict in answers if verdict.value is False), None)
            asked, why = (failed[0].question, failed[1].reason) if failed else (group.check_content, "")
            self._add_type(group.constraint_id or UNTYPED, value, task_id, asked, why)
        loop = find_loop(response)
        if loop:
            kind = self._groups["loops"].setdefault("repetition loop", _Kind())
            kind.add(False, task_id, "", f"{loop.times} times: {loop.phrase}")

    def _add_type(self, name: str, value: bool | None, task_id: str, what: str, why: str) -> None:
        self._types.setdefault(name, _Kind()).add(value, task_id, what, why)

    def _add_rule_fault(self, item: RuleItem, verdict: Scored, content: Sequence[str], task_id: str) -> None:
        if item.constraint_id in ("json_object", "json_array"):
            self._add_group("json", _json_fault(verdict.reason), item, verdict, task_id)
        elif item.constraint_id == "keyword" and item.parameters.get("keyword_type") == "exclude":
            self._add_group("keyword", str(item.parameters.get("keyword")), item, verdict, task_id)
        elif item.constraint_id == "length":
            missed = _missed(item, content)
            if missed:
                self._add_group("length", missed[0], item, verdict, task_id)
                self._overshoot += [missed[1]] if missed[1] is not None else []

    def _add_group(self, group: str, name: str, item: RuleItem, verdict: Scored, task_id: str) -> None:
        kind = self._groups[group].setdefault(name, _Kind())
        kind.add(False, task_id, item.check_description, verdict.reason)

    def to_json(self) -> dict[str, Any]:
        """The analysis as plain containers, most failures first."""
        return {
            "responses": self._responses,
            "types": _ranked(self._types),
            "groups": {name: _ranked(kinds) for name, kinds in self._groups.items()},
            "median_overshoot": median(self._overshoot) if self._overshoot else None,
            "unjudged": [{"reason": reason, "n": n} for reason, n in self._unjudged.most_common()],
        }


def _ranked(kinds: Mapping[str, _Kind]) -> list[dict[str, Any]]:
    order = sorted(kinds.items(), key=lambda item: (-item[1].failed, -item[1].unscored, item[0]))
    return [
        {"name": name, "total": k.total, "failed": k.failed, "unscored": k.unscored, "examples": k.examples}
        for name, k in order
    ]


def _json_fault(reason: str) -> str:
    return next((name for sign, name in _JSON_FAULTS if sign in reason), "does not satisfy the schema")


def _missed(item: RuleItem, content: Sequence[str]) -> tuple[str, float | None] | None:
    """("too long, words", share above the limit) of the worst text; None when no bound is missed by our count."""
    bounds, unit = bounds_of("length", item.parameters), item.parameters.get("unit")
    measure = _MEASURES.get(unit) if isinstance(unit, str) else None
    if bounds is None or measure is None:
        return None
    low, high = bounds
    sizes = [measure(strip_markers(text)) for text in content]
    longest, shortest = max(sizes, default=0), min(sizes, default=0)
    if high is not None and high > 0 and longest > high:
        return f"too long ({unit}s)", longest / high - 1
    return (f"too short ({unit}s)", None) if shortest < low else None


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 1]}…"


# -- as tables ---------------------------------------------------------------------------------------------------------

_TITLES = {
    "length": "Lengths missed",
    "json": "JSON that failed",
    "keyword": "Words that were to be left out",
    "loops": "Repetition loops",
}


def error_lines(name: str, analysis: Mapping[str, Any]) -> Iterator[str]:
    """The analysis of one captioner as Markdown, tables and examples."""
    yield f"# Errors of {name}\n"
    yield f"{analysis['responses']} responses judged."
    for entry in analysis["unjudged"]:
        yield f"Not judged: {entry['n']} × {_cell(entry['reason'])}."
    yield "\n## Constraints by type\n"
    yield from _rows(("type", "constraints", "failed", "failed %", "unscored"), analysis["types"])
    for group, kinds in analysis["groups"].items():
        if kinds:
            yield f"\n## {_TITLES[group]}\n"
            yield from _counts(kinds)
            if group == "length" and analysis["median_overshoot"] is not None:
                yield f"\nMedian overshoot of what was too long: {100 * analysis['median_overshoot']:.0f} %."
    yield "\n## Examples\n"
    for kind in analysis["types"]:
        for example in kind["examples"]:
            asked, found = _cell(example["asked"]), _cell(example["found"])
            yield f"- {_cell(kind['name'])}, {_cell(example['task'])}: asked “{asked}”; {found}"
    for kind in analysis["groups"]["loops"]:
        yield from (f"- loop, {_cell(e['task'])}: {_cell(e['found'])}" for e in kind["examples"])


def _rows(header: Sequence[str], kinds: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield "|---|" + "---:|" * (len(header) - 1)
    for kind in kinds:
        scored = kind["total"] - kind["unscored"]
        share = f"{100 * kind['failed'] / scored:.1f}" if scored else "—"
        yield f"| {_cell(kind['name'])} | {kind['total']} | {kind['failed']} | {share} | {kind['unscored']} |"


def _counts(kinds: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| what | failed | example |"
    yield "|---|---:|---|"
    for kind in kinds:
        example = kind["examples"][0] if kind["examples"] else {"task": "", "found": ""}
        yield f"| {_cell(kind['name'])} | {kind['failed']} | {_cell(example['task'])}: {_cell(example['found'])} |"


def _cell(text: str) -> str:
    return "".join(f"\\{character}" if character in "\\|*`<_" else character for character in text)
