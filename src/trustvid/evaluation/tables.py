"""Tables as values: cells, best marks, order of labels, and a pivot of run records. Rendering lies in ``render``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from trustvid.errors import DataError

Direction = Literal["max", "min"]
MISSING = "—"


@dataclass(frozen=True)
class Cell:
    """A number in a table.

    Attributes:
        value: in the unit shown, unrounded; None is shown as "—", never as 0.
        spread: what follows "±" (the table says what it is), or None.
        n: values behind it, or None.
        note: text after the number ("(n=78)", "[0.4, 5.9]").
        decimals: digits after the point.
        signed: whether a plus sign is shown.
        best: whether it is marked as the best.
        second: whether it is marked as the second best, which is said of one that is behind by more than chance.
    """

    value: float | None
    spread: float | None = None
    n: int | None = None
    note: str = ""
    decimals: int = 1
    signed: bool = False
    best: bool = False
    second: bool = False

    @property
    def number(self) -> str:
        """The rounded value alone, with a true minus sign; "—" when there is none."""
        if self.value is None:
            return MISSING
        rounded = round(self.value, self.decimals) + 0.0  # no "−0.0"
        return f"{rounded:{'+' if self.signed else ''}.{self.decimals}f}".replace("-", "−")

    @property
    def error(self) -> str:
        """The spread as "± 1.9", or nothing."""
        return "" if self.value is None or self.spread is None else f"± {self.spread:.{self.decimals}f}"


@dataclass(frozen=True)
class Header:
    """A column's name, and a second line under it ("n=80")."""

    name: str
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table ready to be rendered.

    Attributes:
        caption: what the numbers are, and of what: it names benchmark, split and policy.
        headers: one per column.
        rows: entries as many as headers; text or :class:`Cell`.
        footnotes: whole sentences.
        rules: indices of rows with a line above them.
        muted: indices of rows that are shown in grey: numbers of others, printed for comparison.
        stamp: columns put before each row of the CSV form, which has no caption.
        spread: what the spreads are ("se", "sd"), for column names of the CSV form.
    """

    caption: str
    headers: tuple[Header, ...]
    rows: tuple[tuple[str | Cell, ...], ...]
    footnotes: tuple[str, ...] = ()
    rules: frozenset[int] = frozenset()
    muted: frozenset[int] = frozenset()
    stamp: Mapping[str, str] = field(default_factory=dict)
    spread: str = "se"


def mark_best(
    cells: Sequence[str | Cell], direction: Direction, eligible: Sequence[bool] | None = None
) -> list[str | Cell]:
    """The entries with the best cell marked, and those that show the same number; none when only one competes.

    Args:
        cells: competitors; text and cells without a value do not compete.
        direction: "max" when higher is better.
        eligible: [len(cells)] which may be marked; default all.
    """
    allowed = eligible if eligible is not None else [True] * len(cells)
    competing = [
        cell
        for cell, may in zip(cells, allowed, strict=True)
        if may and isinstance(cell, Cell) and cell.value is not None
    ]
    if len(competing) < 2:
        return list(cells)
    pick = max if direction == "max" else min
    best = pick(competing, key=lambda cell: round(cell.value, cell.decimals)).number
    return [
        replace(cell, best=True) if may and isinstance(cell, Cell) and cell.number == best else cell
        for cell, may in zip(cells, allowed, strict=True)
    ]


def mark_second(cells: Sequence[str | Cell], index: int | None) -> list[str | Cell]:
    """The entries with cell ``index`` marked as the second best; none for None.

    Where several show the best number, or another shows the second's, there is no one second, hence no mark.
    """
    marked = list(cells)
    if index is None or sum(isinstance(cell, Cell) and cell.best for cell in cells) != 1:
        return marked
    second = marked[index]
    shown = [cell.number for cell in cells if isinstance(cell, Cell)]
    if not second.best and shown.count(second.number) == 1:
        marked[index] = replace(second, second=True)
    return marked


def natural_key(label: Any) -> tuple:
    """Sort key that puts numbers by value before words, and numbers inside words by value too.

    >>> sorted(["128", "16", "8"], key=natural_key)
    ['8', '16', '128']
    >>> sorted(["step_10000", "step_9000"], key=natural_key)
    ['step_9000', 'step_10000']
    """
    number = as_number(label)
    if number is not None:
        return (0, number, ())
    parts = re.split(r"(\d+)", str(label))  # words and digits by turns, so that like is compared with like
    return (1, 0.0, tuple(int(part) if index % 2 else part for index, part in enumerate(parts)))


def as_number(value: Any) -> float | None:
    """A finite number, or the text of one; None for everything else (empty text and NaN among it)."""
    if isinstance(value, bool) or value is None or "_" in str(value):  # to Python "1_2" is twelve
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def pivot_table(
    rows: Iterable[Mapping[str, Any]],
    index: str | Sequence[str],
    columns: str,
    value: str,
    direction: Direction,
    *,
    repeats: Sequence[str] = ("seed",),
    measures: Sequence[str] = (),
    decimals: int = 2,
    caption: str = "",
) -> Table:
    """Runs as a table: a row per setting, a column per competitor, the best competitor of each row marked.

    Several runs in one place are averaged, "±" is then their standard deviation. A run without a value, and a setting
    that was not run, are shown as "—" and named in a footnote; the last row averages over the settings that every
    competitor has, and says over how many.

    Args:
        rows: run records (of ``csv.DictReader``, say: numbers may be text).
        index: key or keys of a setting; sorted by value where they are numbers.
        columns: key that tells the competitors apart.
        value: key of the number shown.
        direction: "max" when higher is better.
        repeats: keys in which runs of one place may differ.
        measures: further keys that are outcomes, not settings.
        decimals: digits shown.
        caption: of the table; default: ``value`` and its direction.

    Raises:
        DataError: a key is missing, or one place mixes runs that differ in something else.
    """
    keys = (index,) if isinstance(index, str) else tuple(index)
    runs = [dict(row) for row in rows]
    _check_keys(runs, (*keys, columns, value))
    settings = sorted({tuple(str(run[key]) for key in keys) for run in runs}, key=lambda s: tuple(map(natural_key, s)))
    competitors = sorted({str(run[columns]) for run in runs}, key=natural_key)
    places: dict[tuple[tuple[str, ...], str], list[dict[str, Any]]] = {}
    for run in runs:
        places.setdefault((tuple(str(run[key]) for key in keys), str(run[columns])), []).append(run)
    _check_unmixed(places, {*keys, columns, value, *repeats, *measures})
    grid = [[_run_cell(places.get((s, c), []), value, decimals) for c in competitors] for s in settings]
    body = [(*setting, *mark_best(cells, direction)) for setting, cells in zip(settings, grid, strict=True)]
    average, shared_note = _shared_average(grid, direction, decimals)
    names = [", ".join(f"{key}={part}" for key, part in zip(keys, setting, strict=True)) for setting in settings]
    better = "higher" if direction == "max" else "lower"
    return Table(
        caption=caption or f"{value} ({better} is better)",
        headers=tuple(Header(name) for name in (*keys, *competitors)),
        rows=(*body, ("average", *[""] * (len(keys) - 1), *average)),
        footnotes=(*_run_footnotes(places, settings, names, competitors, columns, value), shared_note),
        rules=frozenset({len(body)}),
        spread="sd",
    )


def _check_keys(runs: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> None:
    if not runs:
        raise DataError("no runs to make a table of")
    missing = sorted({key for run in runs for key in keys if key not in run})
    if missing:
        raise DataError(f"runs lack {missing}; they have {sorted({str(key) for run in runs for key in run})}")


def _check_unmixed(places: Mapping[Any, Sequence[Mapping[str, Any]]], allowed: set[str]) -> None:
    for (setting, competitor), runs in places.items():
        for key in sorted({key for run in runs for key in run} - allowed):
            found = sorted({str(run.get(key)) for run in runs}, key=natural_key)
            if len(found) > 1:
                raise DataError(
                    f"the place {setting}, {competitor!r} mixes {key}={', '.join(found)}: "
                    f"put {key!r} into index, filter the runs, or name it in repeats (an outcome: in measures)"
                )


def _run_cell(runs: Sequence[Mapping[str, Any]], value: str, decimals: int) -> Cell:
    numbers = [number for run in runs if (number := as_number(run[value])) is not None]
    if not numbers:
        return Cell(None, n=0, decimals=decimals)
    spread = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
    return Cell(float(np.mean(numbers)), spread, len(numbers), decimals=decimals)


def _shared_average(grid: Sequence[Sequence[Cell]], direction: Direction, decimals: int) -> tuple[list, str]:
    """Averages over the rows that are complete, and the sentence that says so."""
    shared = [cells for cells in grid if all(cell.value is not None for cell in cells)]
    means = [float(np.mean([cell.value for cell in column])) for column in zip(*shared, strict=True)]
    cells = [Cell(mean, n=len(shared), decimals=decimals) for mean in means] or [
        Cell(None, n=0, decimals=decimals) for _ in grid[0]
    ]
    return mark_best(
        cells, direction
    ), f"average: over the {len(shared)} of {len(grid)} settings that all columns have."


def _run_footnotes(
    places: Mapping[Any, Sequence[Mapping[str, Any]]],
    settings: Sequence[tuple[str, ...]],
    names: Sequence[str],
    competitors: Sequence[str],
    columns: str,
    value: str,
) -> list[str]:
    lost, absent = [], []
    for setting, name in zip(settings, names, strict=True):
        for competitor in competitors:
            runs = places.get((setting, competitor), [])
            empty = sum(as_number(run[value]) is None for run in runs)
            place = f"{name}, {columns}={competitor}"
            lost += [place] * empty
            absent += [place] if not runs else []
    notes = []
    if lost:
        notes.append(f"{len(lost)} {_plural('run', len(lost))} missing (no {value}): {'; '.join(lost)}.")
    if absent:
        notes.append(f"{len(absent)} {_plural('setting', len(absent))} not run: {'; '.join(absent)}.")
    return notes


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
