"""What a run's questions can show: the table of power, and the warning where a difference is smaller than that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trustvid.evaluation.grid import MICRO
from trustvid.evaluation.power import ALPHA, POWER, detectable_difference, questions_needed
from trustvid.evaluation.tables import Cell, Header, Table
from trustvid.evaluation.view import PERCENT, MetricsView

POINTS = (2, 3, 5, 10)
"""Differences, in points, whose questions the table tells."""

REAL_TASKS = {"CF of UrbanVideo-Bench": 132, "RP of VSI-Bench": 194}
"""Questions of the smallest tasks of the real benchmarks, clean, all splits together."""

_EXAMPLES = 3  # differences that are too small which the warning names
_TEST = f"{POWER:.0%} power at α = {ALPHA:g}".replace("%", " %")


def power_table(metrics: Mapping[str, Any]) -> Table | None:
    """Per compared pair and state: spread, questions needed, and the smallest difference the run shows, also by task.

    None when the run compares no two methods that are no reference.
    """
    view = MetricsView(metrics)
    overall = [entry for entry in view.power if entry["task"] == MICRO]
    if not overall:
        return None
    by_place = {_place(entry): entry for entry in view.power}
    tasks = [task for task in view.context["tasks"] if (*_place(overall[0])[:3], task) in by_place]
    rows = []
    for entry in overall:
        of_tasks = [by_place[*_place(entry)[:3], task] for task in tasks]
        rows.append(
            (
                f"{entry['a']} − {entry['b']}",
                view.state_name(entry["condition"]),
                _percent(entry["diff"], signed=True),
                Cell(entry["discordance"], decimals=2),
                Cell(entry["design_effect"], decimals=2),
                *(Cell(_needed(entry, points), decimals=0) for points in POINTS),
                Cell(entry["n"], decimals=0),
                *(_percent(_seen(one)) for one in (entry, *of_tasks)),
            )
        )
    counts = view.context["n_per_task"]
    headers = [Header(name) for name in ("pair", "condition", "difference", "discordance", "design effect")]
    headers += [*(Header("questions for", f"{points} points") for points in POINTS), Header("n"), Header("sees")]
    headers += [Header(f"{task} sees", f"n={counts[task]}") for task in tasks]
    return Table(
        caption=f"Questions that a difference needs, and the smallest difference that the questions of this run show "
        f"(points, {_TEST}). {view.stamp_text()}.",
        headers=tuple(headers),
        rows=tuple(rows),
        footnotes=(*_explanations(overall[0], view), *too_few_notes(view)),
        rules=frozenset(i for i in range(1, len(rows)) if rows[i][0] != rows[i - 1][0]),
        stamp=view.stamp,
    )


def too_few_notes(view: MetricsView) -> list[str]:
    """A warning that names the largest of the differences that are too small for the questions behind them.

    Nothing when there are none.
    """
    compared = [entry for entry in view.power if entry["diff"] and abs(entry["diff"]) * PERCENT >= 0.05]
    small = [(entry, seen) for entry in compared if (seen := _seen(entry)) is None or abs(entry["diff"]) < seen]
    if not small:
        return []
    small.sort(key=lambda found: -abs(found[0]["diff"]))
    examples = "; ".join(_example(view, entry, seen) for entry, seen in small[:_EXAMPLES])
    return [
        f"Too few questions: {len(small)} of {len(compared)} differences between methods (overall and by task) are "
        f"smaller than what their questions show with {_TEST} (table power), the largest of them: {examples}."
    ]


def _example(view: MetricsView, entry: Mapping[str, Any], seen: float | None) -> str:
    place = "overall" if entry["task"] == MICRO else entry["task"]
    difference = _percent(entry["diff"], signed=True).number
    shown = "none can be seen" if seen is None else f"{seen * PERCENT:.1f} or more can be seen"
    pair = f"{entry['a']} − {entry['b']}"
    return f"{pair}, {view.state_name(entry['condition'])}, {place} {difference} (n={entry['n']}: {shown})"


def _explanations(first: Mapping[str, Any], view: MetricsView) -> Iterator[str]:
    yield (
        "discordance: mean squared difference per question; of right-or-wrong answers the share of questions that "
        "exactly one of the two gets right. design effect: how much larger clustering by video makes the variance "
        "(below 1 it counts as 1). Questions after Connor (1987) for McNemar's test, two-sided, at the discordance and "
        "design effect of the row; sees: the smallest true difference found with that power, by task at the task's own."
    )
    seen = {
        name: detectable_difference(n, first["discordance"], first["design_effect"] or 1.0, first["conditions"])
        for name, n in REAL_TASKS.items()
        if first["discordance"] is not None
    }
    if seen and None not in seen.values():
        parts = ", ".join(f"{name} ({REAL_TASKS[name]} questions) {d * PERCENT:.1f}" for name, d in seen.items())
        yield (
            f"Planning, at the spread of the first row ({first['a']} − {first['b']}, "
            f"{view.state_name(first['condition'])}): the smallest tasks of the real benchmarks show differences of as "
            f"many points or more: {parts}."
        )


def _place(entry: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return entry["a"], entry["b"], entry["condition"], entry["task"]


def _seen(entry: Mapping[str, Any]) -> float | None:
    if entry["discordance"] is None:
        return None
    return detectable_difference(entry["n"], entry["discordance"], entry["design_effect"] or 1.0, entry["conditions"])


def _needed(entry: Mapping[str, Any], points: int) -> float | None:
    if entry["discordance"] is None:
        return None
    return questions_needed(points / PERCENT, entry["discordance"], entry["design_effect"] or 1.0, entry["conditions"])


def _percent(value: float | None, signed: bool = False) -> Cell:
    return Cell(None if value is None else value * PERCENT, signed=signed)
