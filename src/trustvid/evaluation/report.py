"""The tables of a run, from its ``metrics.json`` alone. Several runs in one table: ``multirun``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trustvid.evaluation.degradation import degradation_tables
from trustvid.evaluation.grid import DROP, MACRO, MICRO
from trustvid.evaluation.marking import mark_accuracy, with_n
from trustvid.evaluation.paper_tables import paper_tables
from trustvid.evaluation.power_tables import power_table, too_few_notes
from trustvid.evaluation.published_tables import PublishedTable, beside
from trustvid.evaluation.tables import Cell, Header, Table
from trustvid.evaluation.trust_tables import trust_tables
from trustvid.evaluation.view import (
    PERCENT,
    REFERENCE_METHODS,
    MetricsView,
    average_notes,
    mark_notes,
    pool_notes,
    result_notes,
)

# -- tables of one run -------------------------------------------------------------------------------------------------


def results_table(metrics: Mapping[str, Any], complete: bool = False) -> Table:
    """The main table: methods against clean, each corruption, their mean and the drop; accuracy in percent ± error.

    Of a run with suites: methods against clean and the pools. One block of rows per average; the best method of each
    block and column is marked, reference methods aside. With ``complete``, for the CSV form, there is also a block per
    task, and a column for every condition that a pool holds.
    """
    view = MetricsView(metrics)
    blocks, columns = dict(view.averages), view.columns
    if complete:
        blocks |= {task: task for task in view.context["tasks"] if MACRO in blocks}
        columns = [*columns, *(name for name in view.conditions if name not in columns)]
    # Both averages of a column are over the same answers, so their n stands once, in the header.
    most = {c: max(view.row(m, c, MICRO)["n"] for m in view.methods) for c in columns}
    rows: list[tuple[str | Cell, ...]] = []
    rules = set()
    for scope, label in blocks.items():
        rules.add(len(rows))
        block = [[view.cell(method, condition, scope) for condition in columns] for method in view.methods]
        if scope in (MACRO, MICRO):
            block = [[with_n(cell, most[c]) for cell, c in zip(row, columns, strict=True)] for row in block]
        marked = [
            mark_accuracy(view, c, scope, cells) for c, cells in zip(columns, zip(*block, strict=True), strict=True)
        ]
        rows += [(method, label, *row) for method, row in zip(view.methods, zip(*marked, strict=True), strict=True)]
    headers = [Header("method"), Header("average")]
    headers += [Header(view.column_name(condition), f"n={most[condition]}") for condition in columns]
    return Table(
        caption=f"Accuracy in percent ± standard error (clustered by video). {view.stamp_text()}.",
        headers=tuple(headers),
        rows=tuple(rows),
        footnotes=(*result_notes(view), *too_few_notes(view)),
        rules=frozenset(rules),
        stamp=view.stamp,
    )


def task_table(metrics: Mapping[str, Any]) -> Table:
    """Tasks against methods, clean and (where there are corruptions) under their mean or in each pool."""
    view = MetricsView(metrics)
    scopes = {task: task for task in view.context["tasks"]} | view.averages
    rows: list[tuple[str | Cell, ...]] = []
    rules = set()
    for condition in view.summaries:
        rules.add(len(rows))
        for scope, label in scopes.items():
            cells = [view.cell(method, condition, scope) for method in view.methods]
            most = max(cell.n or 0 for cell in cells)
            marked = mark_accuracy(view, condition, scope, [with_n(cell, most) for cell in cells])
            rows.append((label, view.state_name(condition), str(most), *marked))
    return Table(
        caption=f"Accuracy per task in percent ± standard error (clustered by video). {view.stamp_text()}.",
        headers=tuple(Header(name) for name in ("task", "condition", "n", *view.methods)),
        rows=tuple(rows),
        footnotes=(*average_notes(view), *pool_notes(view), *mark_notes(view), *too_few_notes(view)),
        rules=frozenset(rules),
        stamp=view.stamp,
    )


def comparison_table(metrics: Mapping[str, Any]) -> Table | None:
    """Each method minus the baseline, then the run's contrasts, paired by question, with 95 % intervals.

    None when the run has one method.
    """
    view = MetricsView(metrics)
    if not view.comparisons:
        return None
    columns = [name for name in view.columns if name != DROP]
    baseline = view.context["baseline"]
    pairs = [(method, baseline) for method in view.methods if method != baseline]
    pairs += [tuple(pair) for pair in view.context.get("contrasts", ())]
    rows = [
        (a if b == baseline else f"{a} − {b}", label, *(view.difference(a, b, c, scope) for c in columns))
        for scope, label in view.averages.items()
        for a, b in pairs
    ]
    return Table(
        caption=(
            f"Accuracy minus that of {view.context['baseline']}, in points, over the questions both answered, with "
            f"95 % interval (bootstrap over videos). {view.stamp_text()}."
        ),
        headers=tuple(Header(name) for name in ("method", "average", *map(view.column_name, columns))),
        rows=tuple(rows),
        footnotes=(*average_notes(view), *pool_notes(view)),
        rules=frozenset({len(pairs)}),
        stamp=view.stamp,
    )


def conditions_table(metrics: Mapping[str, Any]) -> Table | None:
    """Every single condition of a run with suites: accuracy of each method, and its difference to the baseline.

    The average is the first of the main table; reference methods show no difference. None for a run without suites,
    whose main table has every condition.
    """
    view = MetricsView(metrics)
    if not view.pools:
        return None
    scope, label = next(iter(view.averages.items()))
    baseline = view.context["baseline"]
    others = [method for method in view.methods if method not in (baseline, *REFERENCE_METHODS)]
    rows: list[tuple[str | Cell, ...]] = []
    for condition in view.conditions:
        cells = [view.cell(method, condition, scope) for method in view.methods]
        most = max(cell.n or 0 for cell in cells)
        marked = mark_accuracy(view, condition, scope, [with_n(cell, most) for cell in cells])
        differences = [view.difference(method, baseline, condition, scope) for method in others]
        rows.append((view.column_name(condition), str(most), *marked, *differences))
    suites = [view.suite_of(condition) for condition in view.conditions]
    compared = (
        "; differences in points with 95 % interval (bootstrap over videos), paired by question" if others else ""
    )
    return Table(
        caption=f"Accuracy ({label}) under each condition in percent ± standard error{compared}. {view.stamp_text()}.",
        headers=tuple(
            Header(name) for name in ("condition", "n", *view.methods, *(f"{name} − {baseline}" for name in others))
        ),
        rows=tuple(rows),
        footnotes=(*average_notes(view), *mark_notes(view)),
        rules=frozenset(index for index in range(1, len(rows)) if suites[index] != suites[index - 1]),
        stamp=view.stamp,
    )


def effort_table(metrics: Mapping[str, Any]) -> Table:
    """What the answers took and how many came to nothing: tool calls, cost, frames, failures, unparsed, abstained."""
    view = MetricsView(metrics)
    shown = {
        "calls": ("calls", 1.0, 2),
        "cost": ("cost", 1.0, 2),
        "frames": ("frames", 1.0, 1),
        "tool_failure_rate": ("failed calls %", PERCENT, 1),
        "unparsed_rate": ("unparsed %", PERCENT, 1),
        "abstained_rate": ("abstained %", PERCENT, 1),
    }
    headers, rows, rules = _by_state(view, shown)
    return Table(
        caption=f"Effort per question (mean ± standard error, clustered by video). {view.stamp_text()}.",
        headers=headers,
        rows=rows,
        footnotes=(
            "frames: those selected; frames of retrieved evidence and of dense windows are not counted. Unparsed and "
            "abstained answers count as wrong; failed calls are a share of the calls made.",
            *pool_notes(view),
        ),
        rules=rules,
        stamp=view.stamp,
    )


def tables_of(
    metrics: Mapping[str, Any], published: PublishedTable | None = None, origin: Sequence[str] = ()
) -> dict[str, Table]:
    """Every table that a run has, by the name that ``show`` and LaTeX labels know it under, the main one first.

    Args:
        metrics: of the run.
        published: numbers of others, put in grey under ours where they belong.
        origin: footnotes that say how the answers were made (:func:`~trustvid.evaluation.origin.origin_notes`), put
            under every table of accuracies.

    Raises:
        DataError: the published numbers belong under no table of this run.
    """
    about = {
        "results": results_table(metrics),
        "differences": comparison_table(metrics),
        "conditions": conditions_table(metrics),
        "tasks": task_table(metrics),
        **paper_tables(metrics),
        **degradation_tables(metrics),
    }
    tables = {
        name: replace(table, footnotes=(*table.footnotes, *origin))
        for name, table in about.items()
        if table is not None
    }
    power = power_table(metrics)
    tables |= {**trust_tables(metrics), "effort": effort_table(metrics), **({"power": power} if power else {})}
    if published is None:
        return tables
    return beside(tables, published)


# -- parts -------------------------------------------------------------------------------------------------------------


def _by_state(
    view: MetricsView, shown: Mapping[str, tuple[str, float, int]]
) -> tuple[tuple[Header, ...], tuple[tuple[str | Cell, ...], ...], frozenset[int]]:
    """Headers, rows and rules of several metrics, clean and corrupted; every question weighs the same.

    A row per method with clean and corrupted side by side; the many pools of a run with suites go below each other.

    Args:
        shown: (title, scale, decimals) by metric.
    """

    def row(method: str, places: Sequence[tuple[str, str]]) -> list[Cell]:
        return [view.cell(method, state, MICRO, name, *shown[name][1:]) for name, state in places]

    if view.pools:
        headers = [Header("condition"), Header("method"), *(Header(title) for title, *_ in shown.values())]
        rows = [
            (view.state_name(state), method, *row(method, [(name, state) for name in shown]))
            for state in view.summaries
            for method in view.methods
        ]
        return tuple(headers), tuple(rows), frozenset(range(0, len(rows), len(view.methods)))
    places = [(name, state) for name in shown for state in view.summaries]
    headers = [Header("method"), *(Header(shown[name][0], view.state_name(state)) for name, state in places)]
    return tuple(headers), tuple((method, *row(method, places)) for method in view.methods), frozenset()
