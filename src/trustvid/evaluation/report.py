"""The tables of a run, from its ``metrics.json`` alone. Several runs in one table: ``multirun``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trustvid.evaluation.grid import MACRO, MICRO
from trustvid.evaluation.metrics import CORRUPTED_MEAN, DROP
from trustvid.evaluation.records import CLEAN
from trustvid.evaluation.render import to_csv, to_latex, to_markdown
from trustvid.evaluation.store import RunWriter
from trustvid.evaluation.tables import Cell, Direction, Header, Table, mark_best
from trustvid.evaluation.view import PERCENT, REFERENCE_METHODS, MetricsView, average_notes, result_notes

# -- tables of one run -------------------------------------------------------------------------------------------------


def results_table(metrics: Mapping[str, Any], with_tasks: bool = False) -> Table:
    """The main table: methods against clean, each corruption, their mean and the drop; accuracy in percent ± error.

    One block of rows per average (with ``with_tasks`` then one per task, for the CSV form); the best method of each
    block and column is marked, reference methods aside.
    """
    view = MetricsView(metrics)
    blocks = dict(view.averages)
    if with_tasks and MACRO in blocks:
        blocks.update({task: task for task in view.context["tasks"]})
    # Both averages of a column are over the same answers, so their n stands once, in the header.
    most = {c: max(view.row(m, c, MICRO)["n"] for m in view.methods) for c in view.columns}
    rows: list[tuple[str | Cell, ...]] = []
    rules = set()
    for scope, label in blocks.items():
        rules.add(len(rows))
        block = [[view.cell(method, condition, scope) for condition in view.columns] for method in view.methods]
        if scope in (MACRO, MICRO):
            block = [[with_n(cell, most[c]) for cell, c in zip(row, view.columns, strict=True)] for row in block]
        marked = mark_columns(block, [direction(condition) for condition in view.columns], view.methods)
        rows += [(method, label, *row) for method, row in zip(view.methods, marked, strict=True)]
    headers = [Header("method"), Header("average")]
    headers += [Header(view.column_name(condition), f"n={most[condition]}") for condition in view.columns]
    return Table(
        caption=f"Accuracy in percent ± standard error (clustered by video). {view.stamp_text()}.",
        headers=tuple(headers),
        rows=tuple(rows),
        footnotes=tuple(result_notes(view)),
        rules=frozenset(rules),
        stamp=view.stamp,
    )


def task_table(metrics: Mapping[str, Any]) -> Table:
    """Tasks against methods, clean and (where there are corruptions) under their mean."""
    view = MetricsView(metrics)
    conditions = [name for name in (CLEAN, CORRUPTED_MEAN) if name in view.columns]
    scopes = {task: task for task in view.context["tasks"]} | view.averages
    eligible = [method not in REFERENCE_METHODS for method in view.methods]
    rows: list[tuple[str | Cell, ...]] = []
    rules = set()
    for condition in conditions:
        rules.add(len(rows))
        for scope, label in scopes.items():
            cells = [view.cell(method, condition, scope) for method in view.methods]
            most = max(cell.n or 0 for cell in cells)
            marked = mark_best([with_n(cell, most) for cell in cells], "max", eligible)
            rows.append((label, _state(condition), str(most), *marked))
    return Table(
        caption=f"Accuracy per task in percent ± standard error (clustered by video). {view.stamp_text()}.",
        headers=tuple(Header(name) for name in ("task", "condition", "n", *view.methods)),
        rows=tuple(rows),
        footnotes=tuple(average_notes(view)),
        rules=frozenset(rules),
        stamp=view.stamp,
    )


def comparison_table(metrics: Mapping[str, Any]) -> Table | None:
    """Each method minus the baseline, paired by question, with 95 % intervals; None when the run has one method."""
    view = MetricsView(metrics)
    found = {(c["a"], c["condition"], c["task"]): c for c in view.comparisons}
    if not found:
        return None
    columns = [name for name in view.columns if name != DROP]
    others = [method for method in view.methods if method != view.context["baseline"]]
    rows = [
        (method, label, *(_difference_cell(found[method, condition, scope]) for condition in columns))
        for scope, label in view.averages.items()
        for method in others
    ]
    return Table(
        caption=(
            f"Accuracy minus that of {view.context['baseline']}, in points, over the questions both answered, with "
            f"95 % interval (bootstrap over videos). {view.stamp_text()}."
        ),
        headers=tuple(Header(name) for name in ("method", "average", *map(view.column_name, columns))),
        rows=tuple(rows),
        footnotes=tuple(average_notes(view)),
        rules=frozenset({len(others)}),
        stamp=view.stamp,
    )


def trust_tables(metrics: Mapping[str, Any]) -> list[Table]:
    """Calibration and selective risk, one table per source of confidence: sources are never compared."""
    view = MetricsView(metrics)
    sources = sorted({name.split("/")[1] for name in view.metrics if "/" in name})
    return [_trust_table(view, source) for source in sources]


def effort_table(metrics: Mapping[str, Any]) -> Table:
    """What the answers took and how many came to nothing: tool calls, cost, failures, unparsed, abstained."""
    view = MetricsView(metrics)
    shown = {
        "calls": ("calls", 1.0, 2),
        "cost": ("cost", 1.0, 2),
        "tool_failure_rate": ("failed calls %", PERCENT, 1),
        "unparsed_rate": ("unparsed %", PERCENT, 1),
        "abstained_rate": ("abstained %", PERCENT, 1),
    }
    conditions = [name for name in (CLEAN, CORRUPTED_MEAN) if name in view.columns]
    headers = [Header("method")]
    headers += [Header(shown[metric][0], _state(condition)) for metric in shown for condition in conditions]
    rows = [
        (
            method,
            *(
                view.cell(method, condition, MICRO, metric, scale, decimals)
                for metric, (_, scale, decimals) in shown.items()
                for condition in conditions
            ),
        )
        for method in view.methods
    ]
    return Table(
        caption=f"Effort per question (mean ± standard error, clustered by video). {view.stamp_text()}.",
        headers=tuple(headers),
        rows=tuple(rows),
        footnotes=("Unparsed and abstained answers count as wrong; failed calls are a share of the calls made.",),
        stamp=view.stamp,
    )


def write_tables(writer: RunWriter, metrics: Mapping[str, Any]) -> Table:
    """Write ``table.md`` and ``table.tex`` (every table) and ``table.csv`` (the main one, per task too).

    Returns:
        The main table, to be shown.
    """
    main, compared = results_table(metrics), comparison_table(metrics)
    tables = {
        "results": main,
        "differences": compared,
        "tasks": task_table(metrics),
        **{f"trust-{i}": table for i, table in enumerate(trust_tables(metrics))},
        "effort": effort_table(metrics),
    }
    present = {name: table for name, table in tables.items() if table is not None}
    writer.write_text("table.md", "\n".join(to_markdown(table) for table in present.values()))
    writer.write_text("table.tex", "\n".join(to_latex(table, f"tab:{name}") for name, table in present.items()))
    writer.write_text("table.csv", to_csv(results_table(metrics, with_tasks=True)))
    return main


# -- parts -------------------------------------------------------------------------------------------------------------


def _state(condition: str) -> str:
    return "corrupted" if condition == CORRUPTED_MEAN else condition


def direction(condition: str) -> Direction:
    return "min" if condition == DROP else "max"


def with_n(cell: Cell, expected: int) -> Cell:
    """The cell with its own n beside it where that differs from its neighbours'."""
    differs = cell.value is not None and cell.n != expected
    return Cell(cell.value, cell.spread, cell.n, f"(n={cell.n})" if differs else "", cell.decimals)


def mark_columns(
    block: Sequence[Sequence[Cell]], directions: Sequence[Direction], methods: Sequence[str]
) -> list[tuple[str | Cell, ...]]:
    eligible = [method not in REFERENCE_METHODS for method in methods]
    columns = [
        mark_best(list(column), direction, eligible)
        for column, direction in zip(zip(*block, strict=True), directions, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _difference_cell(comparison: Mapping[str, Any]) -> Cell:
    low, high = comparison["ci_low"], comparison["ci_high"]
    interval = "" if low is None else f"[{low * PERCENT:.1f}, {high * PERCENT:.1f}]".replace("-", "−")
    diff = comparison["diff"]
    value = None if diff is None else diff * PERCENT
    return Cell(value, None, comparison["n"], interval if value is not None else "", signed=True)


def _trust_table(view: MetricsView, source: str) -> Table:
    names = [(f"{metric}/{source}", metric) for metric in ("ece", "brier", "aurc")]
    conditions = [name for name in (CLEAN, CORRUPTED_MEAN) if name in view.columns]
    places = [(metric, condition) for metric, _ in names for condition in conditions]
    methods = [m for m in view.methods if any(view.row(m, c, MICRO, name)["n"] for name, c in places)]
    block = [[view.cell(m, c, MICRO, name, 1.0, 3) for name, c in places] for m in methods]
    rows = mark_columns(block, ["min"] * len(places), methods)
    headers = [Header("method")]
    titles = {"ece": "ECE", "brier": "Brier", "aurc": "AURC"}
    headers += [Header(titles[short], _state(condition)) for _, short in names for condition in conditions]
    return Table(
        caption=(
            f"Trust in confidence of source {source} (lower is better; every question weighs the same). "
            f"{view.stamp_text()}."
        ),
        headers=tuple(headers),
        rows=tuple((method, *row) for method, row in zip(methods, rows, strict=True)),
        footnotes=(
            "ECE: calibration error over 10 bins of equal mass. Brier: squared distance of confidence and score, ± "
            "standard error. AURC: mean error among the most confident answers, over all coverages.",
        ),
        stamp=view.stamp,
    )
