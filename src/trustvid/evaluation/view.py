"""Look-ups in a ``metrics.json``, and the sentences under its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trustvid.errors import DataError
from trustvid.evaluation.comparisons import REFERENCE_METHODS
from trustvid.evaluation.grid import CORRUPTED_MEAN, DROP, MACRO, MICRO
from trustvid.evaluation.records import CLEAN, Condition
from trustvid.evaluation.suites import read_pools
from trustvid.evaluation.tables import Cell

PERCENT = 100.0
FEW_VIDEOS = 10
"""With fewer, a bootstrap over videos is too coarse to call one method better than another."""

_NO_ROW = {"value": None, "se": None, "n": 0, "unscored": 0, "bound_low": None, "bound_high": None}


class MetricsView:
    """A ``metrics.json`` to look things up in.

    One that an earlier version wrote lacks "runners_up" and "power"; tables then show neither and say so.
    """

    def __init__(self, metrics: Mapping[str, Any]):
        missing = sorted({"rows", "comparisons", "context"} - metrics.keys())
        if missing:
            raise DataError(f"metrics.json lacks {missing}; write it anew with mode=score")
        self.context: Mapping[str, Any] = metrics["context"]
        self.comparisons: Sequence[Mapping[str, Any]] = metrics["comparisons"]
        self._rows = {(row["method"], row["condition"], row["task"], row["metric"]): row for row in metrics["rows"]}
        self._differences = {(c["a"], c["b"], c["condition"], c["task"]): c for c in self.comparisons}
        self.is_old = "runners_up" not in metrics
        self._runners_up = {(r["condition"], r["task"]): r for r in metrics.get("runners_up", ())}
        self.power: Sequence[Mapping[str, Any]] = metrics.get("power", ())
        self.metrics = {row["metric"] for row in metrics["rows"]}
        self.methods: list[str] = self.context["methods"]
        self.conditions: list[str] = self.context["conditions"]
        self.pools = read_pools(self.context.get("pools", ()))

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

    def difference(self, a: str, b: str, condition: str, task: str) -> Cell:
        """Accuracy of method ``a`` minus that of ``b`` in points, with its interval as the note.

        Raises:
            DataError: the run compares no such pair.
        """
        found = self._differences.get((a, b, condition, task))
        if found is None:
            raise DataError(
                f"metrics.json compares {a} with {b} nowhere under {condition}; write it anew with mode=score"
            )
        low, high = found["ci_low"], found["ci_high"]
        interval = "" if low is None else f"[{low * PERCENT:.1f}, {high * PERCENT:.1f}]".replace("-", "−")
        value = None if found["diff"] is None else found["diff"] * PERCENT
        return Cell(value, None, found["n"], interval if value is not None else "", signed=True)

    def second(self, condition: str, task: str) -> str | None:
        """The method of second best accuracy, where the best is ahead by more than chance (interval without 0).

        Never of fewer than :data:`FEW_VIDEOS`: too few to resample.
        """
        found = self._runners_up.get((condition, task))
        if found is None or found["clusters"] < FEW_VIDEOS or found["ci_low"] <= 0.0 <= found["ci_high"]:
            return None
        return found["second"]

    @property
    def corruptions(self) -> list[str]:
        """Conditions other than clean."""
        return [name for name in self.conditions if name != CLEAN]

    @property
    def states(self) -> list[str]:
        """What the tables show side by side: the run's conditions; of a run with suites clean and the pools."""
        return [*(name for name in self.conditions if name == CLEAN), *self.pools] if self.pools else self.conditions

    @property
    def columns(self) -> list[str]:
        """Conditions of the main table: :attr:`states`, then mean and drop where there are any."""
        return [*self.states, *self.derived]

    @property
    def summaries(self) -> list[str]:
        """Clean and what sums the corruptions up: their mean, or the pools of a run with suites."""
        return [name for name in (CLEAN, *(self.pools or (CORRUPTED_MEAN,))) if name in self.columns]

    @property
    def derived(self) -> list[str]:
        """Mean and drop, as far as the run's conditions allow them; with suites they would mix severities."""
        if not self.corruptions or self.pools:
            return []
        return [CORRUPTED_MEAN, *([DROP] if CLEAN in self.conditions else [])]

    @property
    def suites(self) -> dict[str, list[str]]:
        """Names of the pools by name of the suite."""
        suites: dict[str, list[str]] = {}
        for pool in self.pools:
            suites.setdefault(Condition.parse(pool).name, []).append(pool)
        return suites

    def suite_of(self, condition: str) -> str | None:
        """The first suite that has the condition; None for clean."""
        return next((Condition.parse(pool).name for pool, members in self.pools.items() if condition in members), None)

    @property
    def averages(self) -> dict[str, str]:
        """Label by scope: both averages, or the one there is when the run has a single task."""
        if len(self.context["tasks"]) == 1:
            return {MICRO: next(iter(self.context["tasks"]))}
        return {MACRO: self.context["macro_label"], MICRO: "micro"}

    def column_name(self, condition: str) -> str:
        """Header of a condition or pool: the corruption's bare name while the run has it once and has no suites."""
        if condition in (CORRUPTED_MEAN, DROP):
            return {CORRUPTED_MEAN: "mean", DROP: DROP}[condition]
        parsed = Condition.parse(condition)
        count = sum(Condition.parse(other).name == parsed.name for other in self.conditions)
        return (parsed.name if count == 1 and not self.pools else condition).replace("_", " ").replace(":", " ")

    def state_name(self, condition: str) -> str:
        """What a row calls a condition: :meth:`column_name`, but "corrupted" for the mean over the corruptions."""
        return "corrupted" if condition == CORRUPTED_MEAN else self.column_name(condition)

    @property
    def stamp(self) -> dict[str, str]:
        """Benchmark, split (with its series of clips, unless it is the first) and policy: on every table, so that no
        run passes for another.
        """
        stamp = {key: str(self.context[key]) for key in ("benchmark", "split", "policy")}
        offsets = self.context.get("offsets")
        if offsets:
            word = "offset" if len(offsets) == 1 else "offsets"
            stamp["split"] += f" ({word} {', '.join(map(str, offsets))})"
        return stamp

    def stamp_parts(self) -> list[str]:
        """All that the numbers depend on, a few words each."""
        parts = [f"{self.stamp['benchmark']}, split {self.stamp['split']}, policy {self.stamp['policy']}"]
        parts.append(f"{self.context['n_questions']} questions on {self.context['n_videos']} videos")
        if self.pools:
            parts += [f"suite {suite} at {' and '.join(_strengths(pools))}" for suite, pools in self.suites.items()]
        else:
            parts += _strengths(self.corruptions)
        if self.context.get("k") is not None:
            parts.append(f"K = {self.context['k']} frames")
        decode = self.context.get("decode") or {}
        return parts + [f"{key} {decode[key]}" for key in sorted(decode)]

    def stamp_text(self) -> str:
        """:meth:`stamp_parts` in one line."""
        return "; ".join(self.stamp_parts())


def _strengths(conditions: Sequence[str]) -> list[str]:
    """Severities and coverages of some conditions or pools, in words."""
    parsed = [Condition.parse(name) for name in conditions]
    severities = sorted({condition.severity for condition in parsed if condition.severity is not None})
    coverages = sorted({condition.coverage for condition in parsed if condition.coverage is not None})
    parts = [f"severity {', '.join(map(str, severities))}"] if severities else []
    return parts + ([f"coverage {', '.join(f'{coverage:g}' for coverage in coverages)}"] if coverages else [])


def average_notes(view: MetricsView) -> list[str]:
    """What the averages are; nothing when there is one task."""
    if MACRO not in view.averages:
        return []
    label, tasks = view.context["macro_label"], len(view.context["tasks"])
    return [f"{label}: unweighted mean over {tasks} tasks; micro: every question weighs the same (sample-weighted)."]


def pool_notes(view: MetricsView) -> list[str]:
    """What a column of a suite is the mean of; nothing without suites."""
    if not view.pools:
        return []
    members = {
        suite: ", ".join(Condition.parse(name).name.replace("_", " ") for name in view.pools[pools[0]])
        for suite, pools in view.suites.items()
    }
    return [
        "Suites, per severity (s) and coverage (c): unweighted mean over the corruptions, n counts their answers; "
        + "; ".join(f"{suite}: {names}" for suite, names in members.items())
        + "."
    ]


def result_notes(view: MetricsView) -> list[str]:
    """Under the main table: what the columns mean, and all that is not in the numbers."""
    notes = [*average_notes(view), *pool_notes(view)]
    if view.derived:
        notes.append(
            "mean: unweighted mean over the corruptions; drop: clean minus mean over the questions scored under every "
            "condition (lower is better)."
        )
    return [*notes, *mark_notes(view), *_gap_notes(view)]


def mark_notes(view: MetricsView) -> list[str]:
    """What bold and underlined mean; nothing where fewer than two methods compete."""
    references = [method for method in view.methods if method in REFERENCE_METHODS]
    if len(view.methods) - len(references) < 2:
        return []
    aside = f"; {', '.join(references)} {_stand(references)} for comparison" if references else ""
    if view.is_old:
        return [
            f"Bold: best of the methods{aside}. Second best, degradation and power are not in this metrics.json, which "
            "an earlier version wrote; mode=score adds them."
        ]
    return [
        f"Bold: best of the methods{aside}. Underlined: second best, only where the best is ahead of it by more than "
        f"chance (paired by question, 95 % bootstrap interval over {FEW_VIDEOS} or more videos excludes 0)."
    ]


def _stand(names: Sequence[str]) -> str:
    return "stands" if len(names) == 1 else "stand"


def _gap_notes(view: MetricsView) -> list[str]:
    """What is not in the numbers: unscored and unparsed answers, questions not asked, questions without a pair."""
    notes = []
    for method in view.methods:
        gaps = [_unscored_text(view, method, condition) for condition in view.states]
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
        found = [view.row(method, condition, MICRO, metric)["value"] for condition in view.states]
        if any(found):
            shown = (f"{view.column_name(c)} {v * PERCENT:.1f} %" for c, v in zip(view.states, found, strict=True) if v)
            rates.append(f"{method} {', '.join(shown)}")
    return [f"{word} answers (wrong): {'; '.join(rates)}."] if rates else []
