"""Which cells of a run's tables are marked, and what stands beside a number that is over fewer answers than others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trustvid.evaluation.grid import DROP
from trustvid.evaluation.tables import Cell, Direction, mark_best, mark_second
from trustvid.evaluation.view import REFERENCE_METHODS, MetricsView


def direction(condition: str) -> Direction:
    """Whether more accuracy under a condition is better; of the drop less is."""
    return "min" if condition == DROP else "max"


def with_n(cell: Cell, expected: int) -> Cell:
    """The cell with its own n beside it where that differs from its neighbours'."""
    differs = cell.value is not None and cell.n != expected
    return replace(cell, note=f"(n={cell.n})" if differs else "")


def mark_accuracy(view: MetricsView, condition: str, task: str, cells: Sequence[Cell]) -> list[str | Cell]:
    """Accuracies of all methods of a run, in its order, with best and second marked; reference methods never.

    Args:
        view: the run.
        condition, task: what the accuracies are of, as in metrics.json.
        cells: one per method.
    """
    marked = mark_best(cells, direction(condition), _eligible(view.methods))
    second = view.second(condition, task)
    return mark_second(marked, None if second is None else view.methods.index(second))


def mark_columns(
    block: Sequence[Sequence[Cell]], directions: Sequence[Direction], methods: Sequence[str]
) -> list[tuple[str | Cell, ...]]:
    """A block of cells, methods × columns, with the best of each column marked; reference methods never."""
    columns = [
        mark_best(list(column), direction, _eligible(methods))
        for column, direction in zip(zip(*block, strict=True), directions, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _eligible(methods: Sequence[str]) -> list[bool]:
    return [method not in REFERENCE_METHODS for method in methods]
