"""Tables of robustness: what corruption takes away, and how that grows with severity and coverage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from trustvid.evaluation.grid import CORRUPTED_MEAN
from trustvid.evaluation.marking import mark_accuracy, mark_columns, with_n
from trustvid.evaluation.records import CLEAN, Condition
from trustvid.evaluation.tables import Cell, Header, Table
from trustvid.evaluation.view import PERCENT, MetricsView, average_notes, mark_notes, pool_notes

Strength = Literal["severity", "coverage"]


def degradation_tables(metrics: Mapping[str, Any]) -> dict[str, Table]:
    """The tables that a run has, by name: none of clean video alone, sweeps only where there are several strengths."""
    view = MetricsView(metrics)
    tables = {
        "degradation": degradation_table(metrics) if "degradation" in view.metrics else None,
        "severity": sweep_table(metrics, "severity"),
        "coverage": sweep_table(metrics, "coverage"),
    }
    return {name: table for name, table in tables.items() if table is not None}


def degradation_table(metrics: Mapping[str, Any]) -> Table:
    """Accuracy clean and corrupted, the difference, and what is kept of clean: for the mean and each corruption.

    Of a run with suites for each pool. The average is the first of the main table.
    """
    view = MetricsView(metrics)
    scope, label = next(iter(view.averages.items()))
    rows: list[tuple[str | Cell, ...]] = []
    for condition in view.pools or (CORRUPTED_MEAN, *view.corruptions):
        places = ((CLEAN, "accuracy"), (condition, "accuracy"))
        places += ((condition, "degradation"), (condition, "relative_robustness"))
        block = [[view.cell(method, state, scope, metric) for state, metric in places] for method in view.methods]
        most = max(row[2].n or 0 for row in block)
        cells = [[*row[:2], *(with_n(cell, most) for cell in row[2:])] for row in block]
        marked = mark_columns(cells, ["max", "max", "min", "max"], view.methods)
        name = view.column_name(condition)
        rows += [(name, method, *row) for method, row in zip(view.methods, marked, strict=True)]
    return Table(
        caption=f"Degradation ({label}) in percent ± standard error (clustered by video). {view.stamp_text()}.",
        headers=tuple(
            Header(name) for name in ("condition", "method", "clean", "corrupted", "degradation", "relative robustness")
        ),
        rows=tuple(rows),
        footnotes=(
            "degradation: clean minus corrupted in points (lower is better), relative robustness: corrupted as a share "
            "of clean (error by the delta method), both over the questions scored clean and corrupted. A method often "
            "wrong on clean video has little to lose: read both beside its accuracy.",
            *average_notes(view),
            *pool_notes(view),
        ),
        rules=frozenset(range(0, len(rows), len(view.methods))),
        stamp=view.stamp,
    )


def sweep_table(metrics: Mapping[str, Any], along: Strength) -> Table | None:
    """A row per method, a column per severity (or coverage) in the order of numbers, a block per suite and the other.

    None where no suite of the run has two strengths. The average is the first of the main table.
    """
    view = MetricsView(metrics)
    blocks = _blocks(view, along)
    if not blocks:
        return None
    scope, label = next(iter(view.averages.items()))
    strengths = sorted({strength for pools in blocks.values() for strength in pools})
    rows: list[tuple[str | Cell, ...]] = []
    for name, pools in blocks.items():
        states = [*([CLEAN] if CLEAN in view.conditions else []), *(pools.get(strength) for strength in strengths)]
        columns = [_column(view, state, scope) for state in states]
        rows += [(name, method, *row) for method, row in zip(view.methods, zip(*columns, strict=True), strict=True)]
    headers = [Header("suite"), Header("method"), *([Header("clean")] if CLEAN in view.conditions else [])]
    headers += [Header(f"{along[0]}{strength:g}") for strength in strengths]
    return Table(
        caption=f"Accuracy ({label}) by {along} in percent ± standard error (clustered by video). {view.stamp_text()}.",
        headers=tuple(headers),
        rows=tuple(rows),
        footnotes=(*average_notes(view), *pool_notes(view), *mark_notes(view)),
        rules=frozenset(range(0, len(rows), len(view.methods))),
        stamp=view.stamp,
    )


def _blocks(view: MetricsView, along: Strength) -> dict[str, dict[float, str]]:
    """Pools by strength, by what stays the same along the row ("five c0.5"); rows of one strength are no sweep."""
    blocks: dict[str, dict[float, str]] = {}
    for pool in view.pools:
        parsed = Condition.parse(pool)
        strength = getattr(parsed, along)
        if strength is not None:
            fixed = parsed._replace(**{along: None})
            blocks.setdefault(fixed.text.replace("_", " ").replace(":", " "), {})[strength] = pool
    return {name: pools for name, pools in blocks.items() if len(pools) > 1}


def _column(view: MetricsView, state: str | None, scope: str) -> list[str | Cell]:
    """Accuracies of all methods, marked; no numbers for a strength that this suite does not have."""
    if state is None:
        return [Cell(None) for _ in view.methods]
    cells = [view.cell(method, state, scope, scale=PERCENT) for method in view.methods]
    most = max(cell.n or 0 for cell in cells)
    return mark_accuracy(view, state, scope, [with_n(cell, most) for cell in cells])
