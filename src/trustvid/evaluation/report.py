"""The tables of a run, from its ``metrics.json`` alone. Several runs in one table: ``multirun``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trustvid.evaluation.grid import MACRO, MICRO
from trustvid.evaluation.metrics import CORRUPTED_MEAN, DROP
from trustvid.evaluation.render import to_csv, to_latex, to_markdown
from trustvid.evaluation.store import RunWriter
from trustvid.evaluation.tables import Cell, Direction, Header, Table, mark_best
from trustvid.evaluation.view import PERCENT, REFERENCE_METHODS, MetricsView, average_notes, pool_notes, result_notes

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
        marked = mark_columns(block, [direction(condition) for condition in columns], view.methods)
        rows += [(method, label, *row) for method, row in zip(view.methods, marked, strict=True)]
    headers = [Header("method"), Header("average")]
    headers += [Header(view.column_name(condition), f"n={most[condition]}") for condition in columns]
    return Table(
        caption=f"Accuracy in percent ± standard error (clustered by video). {view.stamp_text()}.",
        headers=tuple(headers),
        rows=tuple(rows),
        footnotes=tuple(result_notes(view)),
        rules=frozenset(rules),
        stamp=view.stamp,
    )


def task_table(metrics: Mapping[str, Any]) -> Table:
    """Tasks against methods, clean and (where there are corruptions) under their mean or in each pool."""
    view = MetricsView(metrics)
    scopes = {task: task for task in view.context["tasks"]} | view.averages
    eligible = [method not in REFERENCE_METHODS for method in view.methods]
    rows: list[tuple[str | Cell, ...]] = []
    rules = set()
    for condition in view.summaries:
        rules.add(len(rows))
        for scope, label in scopes.items():
            cells = [view.cell(method, condition, scope) for method in view.methods]
            most = max(cell.n or 0 for cell in cells)
            marked = mark_best([with_n(cell, most) for cell in cells], "max", eligible)
            rows.append((label, _state(view, condition), str(most), *marked))
    return Table(
        caption=f"Accuracy per task in percent ± standard error (clustered by video). {view.stamp_text()}.",
        headers=tuple(Header(name) for name in ("task", "condition", "n", *view.methods)),
        rows=tuple(rows),
        footnotes=(*average_notes(view), *pool_notes(view)),
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
    eligible = [method not in REFERENCE_METHODS for method in view.methods]
    rows: list[tuple[str | Cell, ...]] = []
    for condition in view.conditions:
        cells = [view.cell(method, condition, scope) for method in view.methods]
        most = max(cell.n or 0 for cell in cells)
        marked = mark_best([with_n(cell, most) for cell in cells], "max", eligible)
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
        footnotes=tuple(average_notes(view)),
        rules=frozenset(index for index in range(1, len(rows)) if suites[index] != suites[index - 1]),
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
    headers, rows, rules = _by_state(view, view.methods, shown)
    return Table(
        caption=f"Effort per question (mean ± standard error, clustered by video). {view.stamp_text()}.",
        headers=headers,
        rows=rows,
        footnotes=(
            "Unparsed and abstained answers count as wrong; failed calls are a share of the calls made.",
            *pool_notes(view),
        ),
        rules=rules,
        stamp=view.stamp,
    )


def write_tables(writer: RunWriter, metrics: Mapping[str, Any]) -> Table:
    """Write ``table.md`` and ``table.tex`` (every table) and ``table.csv`` (the main one, every task and condition).

    Returns:
        The main table, to be shown.
    """
    main, compared = results_table(metrics), comparison_table(metrics)
    tables = {
        "results": main,
        "differences": compared,
        "conditions": conditions_table(metrics),
        "tasks": task_table(metrics),
        **{f"trust-{i}": table for i, table in enumerate(trust_tables(metrics))},
        "effort": effort_table(metrics),
    }
    present = {name: table for name, table in tables.items() if table is not None}
    writer.write_text("table.md", "\n".join(to_markdown(table) for table in present.values()))
    writer.write_text("table.tex", "\n".join(to_latex(table, f"tab:{name}") for name, table in present.items()))
    writer.write_text("table.csv", to_csv(results_table(metrics, complete=True)))
    return main


# -- parts -------------------------------------------------------------------------------------------------------------


def _state(view: MetricsView, condition: str) -> str:
    return "corrupted" if condition == CORRUPTED_MEAN else view.column_name(condition)


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


def _trust_table(view: MetricsView, source: str) -> Table:
    shown = {
        f"{metric}/{source}": (title, 1.0, 3)
        for metric, title in (("ece", "ECE"), ("brier", "Brier"), ("aurc", "AURC"))
    }
    methods = [
        m for m in view.methods if any(view.row(m, c, MICRO, name)["n"] for name in shown for c in view.summaries)
    ]
    headers, rows, rules = _by_state(view, methods, shown, "min")
    return Table(
        caption=(
            f"Trust in confidence of source {source} (lower is better; every question weighs the same). "
            f"{view.stamp_text()}."
        ),
        headers=headers,
        rows=rows,
        footnotes=(
            "ECE: calibration error over 10 bins of equal mass. Brier: squared distance of confidence and score, ± "
            "standard error. AURC: mean error among the most confident answers, over all coverages.",
            *pool_notes(view),
        ),
        rules=rules,
        stamp=view.stamp,
    )


def _by_state(
    view: MetricsView,
    methods: Sequence[str],
    shown: Mapping[str, tuple[str, float, int]],
    better: Direction | None = None,
) -> tuple[tuple[Header, ...], tuple[tuple[str | Cell, ...], ...], frozenset[int]]:
    """Headers, rows and rules of several metrics, clean and corrupted; every question weighs the same.

    A row per method with clean and corrupted side by side; the many pools of a run with suites go below each other.

    Args:
        shown: (title, scale, decimals) by metric.
        better: direction in which the best is marked; None marks none.
    """

    def block(places: Sequence[tuple[str, str]]) -> list[tuple[str | Cell, ...]]:
        cells = [[view.cell(m, state, MICRO, name, *shown[name][1:]) for name, state in places] for m in methods]
        return mark_columns(cells, [better] * len(places), methods) if better else [tuple(row) for row in cells]

    if view.pools:
        blocks = {_state(view, state): block([(name, state) for name in shown]) for state in view.summaries}
        headers = [Header("condition"), Header("method"), *(Header(title) for title, *_ in shown.values())]
        rows = [(s, m, *row) for s, found in blocks.items() for m, row in zip(methods, found, strict=True)]
        return tuple(headers), tuple(rows), frozenset(range(0, len(rows), len(methods)))
    places = [(name, state) for name in shown for state in view.summaries]
    headers = [Header("method"), *(Header(shown[name][0], _state(view, state)) for name, state in places)]
    return tuple(headers), tuple((m, *row) for m, row in zip(methods, block(places), strict=True)), frozenset()
