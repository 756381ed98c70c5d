"""Look-ups in a ``metrics.json``, and the sentences under its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trustvid.errors import DataError
from trustvid.evaluation.grid import MACRO, MICRO
from trustvid.evaluation.metrics import CORRUPTED_MEAN, DROP
from trustvid.evaluation.records import CLEAN, Condition
from trustvid.evaluation.tables import Cell

REFERENCE_METHODS = ("chance", "no_evidence", "oracle_mask")
"""Yardsticks: shown in every table, never marked as its best."""

PERCENT = 100.0
_NO_ROW = {"value": None, "se": None, "n": 0, "unscored": 0, "bound_low": None, "bound_high": None}


class MetricsView:
    """A ``metrics.json`` to look things up in."""

    def __init__(self, metrics: Mapping[str, Any]):
        missing = sorted({"rows", "comparisons", "context"} - metrics.keys())
        if missing:
            raise DataError(f"metrics.json lacks {missing}; write it anew with mode=score")
        self.context: Mapping[str, Any] = metrics["context"]
        self.comparisons: Sequence[Mapping[str, Any]] = metrics["comparisons"]
        self._rows = {(row["method"], row["condition"], row["task"], row["metric"]): row for row in metrics["rows"]}
        self.metrics = {row["metric"] for row in metrics["rows"]}
        self.methods: list[str] = self.context["methods"]
        self.conditions: list[str] = self.context["conditions"]

    def row(self, method: str, condition: str, task: str, metric: str = "accuracy") -> Mapping[str, Any]:
        """The row, or one whose value is None."""
        return self._rows.get((method, condition, task, metric), _NO_ROW)

    def cell(
        self,
        method: str,
        condition: str,
        task: str,
        metric: str = "accuracy",
        scale: float = PERCENT,
        decimals: int = 1,
    ) -> Cell:
        """The row as a cell, in percent unless ``scale`` says otherwise."""
        row = self.row(method, condition, task, metric)
        value, se = (None if row[key] is None else row[key] * scale for key in ("value", "se"))
        return Cell(value, se, row["n"], decimals=decimals)

    @property
    def corruptions(self) -> list[str]:
        """Conditions other than clean."""
        return [name for name in self.conditions if name != CLEAN]

    @property
    def columns(self) -> list[str]:
        """Conditions of the main table: those of the run, then mean and drop where there are corruptions."""
        return [*self.conditions, *self.derived]

    @property
    def derived(self) -> list[str]:
        """Mean and drop, as far as the run's conditions allow them."""
        if not self.corruptions:
            return []
        return [CORRUPTED_MEAN, *([DROP] if CLEAN in self.conditions else [])]

    @property
    def averages(self) -> dict[str, str]:
        """Label by scope: both averages, or the one there is when the run has a single task."""
        if len(self.context["tasks"]) == 1:
            return {MICRO: next(iter(self.context["tasks"]))}
        return {MACRO: self.context["macro_label"], MICRO: "micro"}

    def column_name(self, condition: str) -> str:
        """Header of a condition: the corruption's bare name while the run has it once."""
        if condition in (CORRUPTED_MEAN, DROP):
            return {CORRUPTED_MEAN: "mean", DROP: DROP}[condition]
        parsed = Condition.parse(condition)
        alone = sum(Condition.parse(other).name == parsed.name for other in self.conditions) == 1
        return (parsed.name if alone else condition).replace("_", " ").replace(":", " ")

    @property
    def stamp(self) -> dict[str, str]:
        """Benchmark, split and policy: on every table, so that no run passes for another."""
        return {key: str(self.context[key]) for key in ("benchmark", "split", "policy")}

    def stamp_parts(self) -> list[str]:
        """All that the numbers depend on, a few words each."""
        parsed = [Condition.parse(name) for name in self.corruptions]
        severities = sorted({condition.severity for condition in parsed if condition.severity is not None})
        coverages = sorted({condition.coverage for condition in parsed if condition.coverage is not None})
        parts = [f"{self.stamp['benchmark']}, split {self.stamp['split']}, policy {self.stamp['policy']}"]
        parts.append(f"{self.context['n_questions']} questions on {self.context['n_videos']} videos")
        if severities:
            parts.append(f"severity {', '.join(map(str, severities))}")
        if coverages:
            parts.append(f"coverage {', '.join(f'{coverage:g}' for coverage in coverages)}")
        if self.context.get("k") is not None:
            parts.append(f"K = {self.context['k']} frames")
        decode = self.context.get("decode") or {}
        return parts + [f"{key} {decode[key]}" for key in sorted(decode)]

    def stamp_text(self) -> str:
        """:meth:`stamp_parts` in one line."""
        return "; ".join(self.stamp_parts())


def average_notes(view: MetricsView) -> list[str]:
    """What the averages are; nothing when there is one task."""
    if MACRO not in view.averages:
        return []
    label, tasks = view.context["macro_label"], len(view.context["tasks"])
    return [f"{label}: unweighted mean over {tasks} tasks; micro: every question weighs the same (sample-weighted)."]


def result_notes(view: MetricsView) -> list[str]:
    """Under the main table: what the columns mean, and all that is not in the numbers."""
    notes = average_notes(view)
    if view.derived:
        notes.append(
            "mean: unweighted mean over the corruptions; drop: clean minus mean over the questions scored under every "
            "condition (lower is better)."
        )
    references = [method for method in view.methods if method in REFERENCE_METHODS]
    if references:
        notes.append(f"Bold: best of the methods; {', '.join(references)} stand for comparison.")
    return [*notes, *_gap_notes(view)]


def _gap_notes(view: MetricsView) -> list[str]:
    """What is not in the numbers: unscored and unparsed answers, questions not asked, questions without a pair."""
    notes = []
    for method in view.methods:
        gaps = [_unscored_text(view, method, condition) for condition in view.conditions]
        if any(gaps):
            notes.append(f"Unscored, {method}: {'; '.join(gap for gap in gaps if gap)}.")
    if view.context["unscored_reasons"]:
        reasons = "; ".join(f"{entry['reason']} ({entry['n']})" for entry in view.context["unscored_reasons"])
        notes.append(f"Reasons for unscored answers, most frequent first: {reasons}.")
    for metric, word in (("unparsed_rate", "Unparsed"), ("abstained_rate", "Abstained")):
        notes += _rate_note(view, metric, word)
    notes += [
        f"Missing: {entry['method']} under {entry['condition']} has no answer to {entry['n']} questions."
        for entry in view.context["missing"]
    ]
    if view.context["unpaired"]:
        left_out = ", ".join(f"{entry['method']} {entry['n']}" for entry in view.context["unpaired"])
        notes.append(f"Left out of the drop, as not scored under every condition: {left_out}.")
    expected, found = view.context.get("n_expected"), view.context["n_questions"]
    if expected is not None and expected != found:
        notes.append(f"{found} of {expected} questions have answers.")
    if view.context.get("duplicates"):
        notes.append(f"{view.context['duplicates']} repeated records were left out.")
    return notes


def _unscored_text(view: MetricsView, method: str, condition: str) -> str:
    row = view.row(method, condition, next(iter(view.averages)))
    if not row["unscored"]:
        return ""
    low, high = row["bound_low"], row["bound_high"]
    between = "" if low is None else f" (between {low * PERCENT:.1f} and {high * PERCENT:.1f})"
    return f"{view.column_name(condition)} {row['unscored']}{between}"


def _rate_note(view: MetricsView, metric: str, word: str) -> list[str]:
    rates = []
    for method in view.methods:
        found = [view.row(method, condition, MICRO, metric)["value"] for condition in view.conditions]
        if any(found):
            shown = (
                f"{view.column_name(c)} {v * PERCENT:.1f} %" for c, v in zip(view.conditions, found, strict=True) if v
            )
            rates.append(f"{method} {', '.join(shown)}")
    return [f"{word} answers (wrong): {'; '.join(rates)}."] if rates else []
