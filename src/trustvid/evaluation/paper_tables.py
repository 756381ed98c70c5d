"""Tables in the layouts of the Robust-TO paper (arXiv 2606.26904), from a run's ``metrics.json`` alone.

Table 1 has methods by tasks on clean video; Figs. 4 and 5 have the same by routing, clean and corrupted. What Tables 2,
9 and 11 show stands in the tables of every run: results (methods by conditions) and differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trustvid.evaluation.grid import MACRO
from trustvid.evaluation.marking import mark_accuracy, with_n
from trustvid.evaluation.records import CLEAN
from trustvid.evaluation.tables import Cell, Header, Table
from trustvid.evaluation.view import MetricsView, average_notes, mark_notes, pool_notes

CITY_TASKS = ("LP", "CF", "PE", "AG")
"""The tasks that the paper takes from UrbanVideo-Bench."""

ROOM_TASKS = ("RDist", "RDir", "RP", "AO")
"""The tasks that the paper takes from VSI-Bench."""

_POOLED = (
    "RDir: easy, medium and hard are pooled (every question weighs the same), as in the published table; VSI-Bench's "
    "own number is the unweighted mean of the three."
)

_COUNTED = "n: answers in the first block; in a mean over several corruptions each question has an answer under each."


def paper_tables(metrics: Mapping[str, Any]) -> dict[str, Table]:
    """The tables of this module that the run has, by the name that ``show`` knows them under."""
    tables = {"task_columns": task_columns_table(metrics), "routing": routing_table(metrics)}
    return {name: table for name, table in tables.items() if table is not None}


def task_columns_table(metrics: Mapping[str, Any]) -> Table | None:
    """Methods against tasks on clean video, then both averages: the layout of the paper's Table 1.

    None when the run has no clean condition.
    """
    view = MetricsView(metrics)
    if CLEAN not in view.conditions:
        return None
    headers, rows = _block(view, CLEAN)
    return Table(
        caption=f"Accuracy by task, clean, in percent ± standard error (clustered by video). {view.stamp_text()}.",
        headers=(Header("method"), *headers),
        rows=tuple((method, *row) for method, row in zip(view.methods, rows, strict=True)),
        footnotes=(*average_notes(view), *_task_notes(view), *mark_notes(view)),
        stamp=view.stamp,
    )


def routing_table(metrics: Mapping[str, Any]) -> Table | None:
    """Methods against tasks, a block for clean and one for each summary of the corruptions: Figs. 4 and 5 as a table.

    None when the run has clean video alone, which :func:`task_columns_table` shows.
    """
    view = MetricsView(metrics)
    if not view.corruptions:
        return None
    blocks = {condition: _block(view, condition) for condition in view.summaries}
    headers, _ = next(iter(blocks.values()))
    rows = tuple(
        (method, view.state_name(condition), *row)
        for condition, (_, block) in blocks.items()
        for method, row in zip(view.methods, block, strict=True)
    )
    return Table(
        caption=(
            "Accuracy by task, clean and corrupted, in percent ± standard error (clustered by video). "
            f"{view.stamp_text()}."
        ),
        headers=(Header("method"), Header("condition"), *headers),
        rows=rows,
        footnotes=(_COUNTED, *average_notes(view), *pool_notes(view), *_task_notes(view), *mark_notes(view)),
        rules=frozenset(range(0, len(rows), len(view.methods))),
        stamp=view.stamp,
    )


def _block(view: MetricsView, condition: str) -> tuple[list[Header], list[tuple[str | Cell, ...]]]:
    """Headers (tasks, averages) and the rows of all methods under one condition, the best of each column marked."""
    scopes = {task: task for task in view.context["tasks"]}
    if MACRO in view.averages:
        scopes |= view.averages | {MACRO: _macro_name(view)}
    headers, columns = [], []
    for scope, name in scopes.items():
        cells = [view.cell(method, condition, scope) for method in view.methods]
        most = max(cell.n or 0 for cell in cells)
        headers.append(Header(name, f"n={most}"))
        columns.append(mark_accuracy(view, condition, scope, [with_n(cell, most) for cell in cells]))
    return headers, list(zip(*columns, strict=True))


def _macro_name(view: MetricsView) -> str:
    """The macro average's header. It says which four tasks it is over where they are those of one data set, so that
    means over different tasks never share a name.
    """
    tasks: Sequence[str] = view.context["tasks"]
    for known in (CITY_TASKS, ROOM_TASKS):
        if set(tasks) == set(known):
            return f"macro {known[0]}–{known[-1]}"
    return view.averages[MACRO]


def _task_notes(view: MetricsView) -> list[str]:
    return [_POOLED] if "RDir" in view.context["tasks"] else []
