"""Published numbers as data: one YAML file per table, checked when it is read, printed beside ours and never mixed in.

``published/<paper>/<table>.yaml`` holds::

    title, source, split, metric     one text each
    columns: [Avg, LP, …]            names of the columns
    bounds: {hours: [0, 1000]}       of columns whose values are no percentages (optional)
    beside: {results: {mean: Avg}}   table of ours → our header → its column: where it may stand beside ours (optional)
    doubts: {key: sentence}          what speaks against taking a number as it stands
    notes: [sentence, …]             what concerns the whole table
    rows:
      - method: GPT-4o
        values: {Avg: 36.0, LP: 36.8, …}   every column; null = not published
        frames: "32"                       as printed, or null (optional)
        doubts: [key, …]                   of the whole row (optional)
        cell_doubts: {LP: [key, …]}        of single values (optional)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trustvid.errors import DataError
from trustvid.evaluation.tables import Cell, Table

FOLDER = Path(__file__).parent / "published"
PERCENT_BOUNDS = (0.0, 100.0)
_TEXTS = ("title", "source", "split", "metric")
_TABLE_KEYS = (*_TEXTS, "columns", "bounds", "beside", "doubts", "notes", "rows")
_ROW_KEYS = ("method", "values", "frames", "doubts", "cell_doubts")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class PublishedRow:
    """One row as printed.

    Attributes:
        method: name of the method.
        values: by column, in the unit of the table's metric (percent unless its ``bounds`` say otherwise); None where
            nothing is published.
        frames: frames per video as printed ("32", "1 fps"), or None.
        doubts: keys of the doubts that concern the whole row.
        cell_doubts: keys of the doubts that concern single values, by column.
    """

    method: str
    values: Mapping[str, float | None]
    frames: str | None
    doubts: tuple[str, ...]
    cell_doubts: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class PublishedTable:
    """A published table.

    Attributes:
        name: "<paper>/<table>".
        title, source, split, metric: what it is, where it stands, what it was measured on, what the numbers are.
        columns: names in order.
        rows: in order.
        doubts: sentence by key.
        notes: sentences about the whole table.
        bounds: (lowest, highest) possible value of each column.
        beside: table of ours → our header → column: what may stand beside what.
    """

    name: str
    title: str
    source: str
    split: str
    metric: str
    columns: tuple[str, ...]
    rows: tuple[PublishedRow, ...]
    doubts: Mapping[str, str]
    notes: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]]
    beside: Mapping[str, Mapping[str, str]]


# -- reading -----------------------------------------------------------------------------------------------------------


def published_names() -> list[str]:
    """Names that :func:`load_published` takes, sorted: "robust_to/table1"."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml"))


def load_published(name: str) -> PublishedTable:
    """The published table of that name.

    Raises:
        DataError: there is no such table, or its file is not as it should be; all faults with file and row.
    """
    known = published_names()
    if name not in known:
        raise DataError(f"published={name} is unknown; known: {', '.join(known)}")
    return read_published(FOLDER / f"{name}.yaml", name)


def read_published(path: Path, name: str) -> PublishedTable:
    """A file of published numbers.

    Args:
        path: the YAML file.
        name: what the table is called.

    Raises:
        DataError: the file is not as it should be: no YAML, a key that is unknown, missing or there twice, a row
            without one of the columns, a value outside its bounds, a doubt that is not defined; all faults together.
    """
    content = _read_yaml(path)
    faults = list(_table_faults(content)) or list(_content_faults(content))
    if faults:
        raise DataError(f"{path}:\n" + "\n".join(f"  - {fault}" for fault in faults))
    return PublishedTable(
        name=name,
        **{key: content[key] for key in _TEXTS},
        columns=tuple(content["columns"]),
        rows=tuple(_row(row) for row in content["rows"]),
        doubts=content["doubts"],
        notes=tuple(content["notes"]),
        bounds=_bounds(content),
        beside=content.get("beside", {}),
    )


def _read_yaml(path: Path) -> Any:
    import yaml

    class OnceLoader(yaml.SafeLoader):
        """YAML lets a key stand twice and keeps the last; here that would lose a number."""

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise DataError(f"{path}, line {node.start_mark.line + 1}: {', '.join(twice)} stands there twice")
        return {
            key: loader.construct_object(value, deep=True) for key, (_, value) in zip(keys, node.value, strict=True)
        }

    OnceLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), OnceLoader)  # noqa: S506 — a SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is no YAML: {error}") from error


def _row(row: Mapping[str, Any]) -> PublishedRow:
    return PublishedRow(
        method=row["method"],
        values={column: None if value is None else float(value) for column, value in row["values"].items()},
        frames=row.get("frames"),
        doubts=tuple(row.get("doubts", ())),
        cell_doubts={column: tuple(keys) for column, keys in row.get("cell_doubts", {}).items()},
    )


def _bounds(content: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    own = content.get("bounds", {})
    return {column: tuple(map(float, own.get(column, PERCENT_BOUNDS))) for column in content["columns"]}


def _table_faults(content: Any) -> Iterator[str]:
    """Keys and types of the file's top level and of its rows: what the other checks rest on."""
    if not isinstance(content, dict):
        yield f"is a {type(content).__name__}; expected a mapping with {', '.join(_TABLE_KEYS)}"
        return
    kinds = dict.fromkeys(_TEXTS, str) | {"columns": list, "doubts": dict, "notes": list, "rows": list}
    optional = {"bounds": dict, "beside": dict}
    yield from _key_faults("the file", content, kinds, optional)
    for index, row in enumerate(content["rows"] if isinstance(content.get("rows"), list) else []):
        where = _where(index, row)
        if isinstance(row, dict):
            optional = {"frames": (str, type(None)), "doubts": list, "cell_doubts": dict}
            yield from _key_faults(where, row, {"method": str, "values": dict}, optional)
        else:
            yield f"{where} is a {type(row).__name__}; expected a mapping with {', '.join(_ROW_KEYS)}"


def _key_faults(
    where: str, found: Mapping[str, Any], required: Mapping[str, Any], optional: Mapping[str, Any]
) -> Iterator[str]:
    known = {**required, **optional}
    for key in found:
        if key not in known:
            yield f"{where}: {key} is unknown; known: {', '.join(known)}"
        elif not isinstance(found[key], known[key]):
            yield f"{where}: {key} is a {type(found[key]).__name__}; expected {known[key]}"
        elif found[key] == "":
            yield f"{where}: {key} is empty"
    for key in required:
        if key not in found:
            yield f"{where}: {key} is missing"


def _content_faults(content: Mapping[str, Any]) -> Iterator[str]:
    """Columns, values and doubts against each other."""
    columns = content["columns"]
    for name, count in Counter(columns).items():
        if count > 1 or not isinstance(name, str):
            yield f"columns: {name!r} stands there {count} times; expected names, each once"
    for key, sentence in content["doubts"].items():
        if not isinstance(sentence, str) or not sentence.endswith("."):
            yield f"doubts.{key} is no sentence; expected text that ends with a full stop"
    if len(content["doubts"]) > len(_LETTERS):
        yield f"{len(content['doubts'])} doubts; expected at most {len(_LETTERS)}, one letter each"
    yield from (f"notes: {note!r} is no sentence" for note in content["notes"] if not str(note).endswith("."))
    for column, pair in content.get("bounds", {}).items():
        numbers = isinstance(pair, list) and len(pair) == 2 and all(map(_is_number, pair))
        if column not in columns or not numbers or pair[0] >= pair[1]:
            yield f"bounds.{column}={pair!r}; expected [lowest, highest] of one of the columns {', '.join(columns)}"
            return
    for table, shown in content.get("beside", {}).items():
        for header, column in shown.items():
            if column not in columns:
                yield f"beside.{table}.{header}={column} is none of the columns; known: {', '.join(columns)}"
    bounds = _bounds(content)
    for index, row in enumerate(content["rows"]):
        yield from _row_faults(_where(index, row), row, columns, bounds, content["doubts"])


def _row_faults(
    where: str,
    row: Mapping[str, Any],
    columns: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    doubts: Mapping[str, str],
) -> Iterator[str]:
    absent = [column for column in columns if column not in row["values"]]
    if absent:
        yield f"{where}: values lack {', '.join(absent)}; expected every column (null where nothing is published)"
    for column, value in row["values"].items():
        if column not in columns:
            yield f"{where}: {column} is none of the columns; known: {', '.join(columns)}"
        elif value is not None and not (_is_number(value) and bounds[column][0] <= value <= bounds[column][1]):
            low, high = bounds[column]
            yield f"{where}: {column}={value!r}; expected a number from {low:g} to {high:g}, or null"
    named = [(key, "doubts") for key in row.get("doubts", ())]
    for column, keys in row.get("cell_doubts", {}).items():
        if column not in columns:
            yield f"{where}: cell_doubts.{column} is none of the columns; known: {', '.join(columns)}"
        named += [(key, f"cell_doubts.{column}") for key in keys]
    for key, place in named:
        if key not in doubts:
            yield f"{where}: {place} names {key}, which is not defined; known: {', '.join(doubts) or 'none'}"


def _where(index: int, row: Any) -> str:
    method = row.get("method") if isinstance(row, dict) else None
    return f"row {index + 1}" + (f" ({method})" if method else "")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# -- beside ours -------------------------------------------------------------------------------------------------------


def beside(tables: Mapping[str, Table], published: PublishedTable, label: str = "published") -> dict[str, Table]:
    """Our tables, those with the published rows below that the published table may stand beside.

    Args:
        tables: by name.
        published: what is added; its ``beside`` says to which tables, and what goes into which column.
        label: see :func:`with_published`.

    Raises:
        DataError: it may stand beside none of them.
    """
    result = dict(tables)
    for name, shown in published.beside.items():
        headers = {header.name for header in tables[name].headers} if name in tables else set()
        columns = {header: column for header, column in shown.items() if header in headers}
        if columns:
            result[name] = with_published(tables[name], published, columns, label)
    if not any(table.muted for table in result.values()):
        raise DataError(
            f"published={published.name} belongs under {', '.join(published.beside) or 'none of our tables'}, which "
            f"this run does not have; it has {', '.join(tables)}"
        )
    return result


def with_published(table: Table, published: PublishedTable, columns: Mapping[str, str], label: str) -> Table:
    """The table with the published rows below its own, muted, and footnotes with their source and doubts.

    Our rows, marks and rules stay as they are. Published rows without a value in any of the columns are left out.

    Args:
        table: ours; its first column names the method.
        published: what is added.
        columns: header name of ours → column of the published table; our other columns stay empty there.
        label: what stands in the next column of text, if the table has one ("average", say).

    Raises:
        DataError: a header or a column is not there.
    """
    names = [header.name for header in table.headers]
    unknown = [f"{header} → {column}" for header, column in columns.items() if header not in names[1:]]
    unknown += [f"{header} → {column}" for header, column in columns.items() if column not in published.columns]
    if unknown:
        raise DataError(
            f"published {published.name} cannot stand beside {', '.join(names)}: {', '.join(unknown)}; "
            f"its columns: {', '.join(published.columns)}"
        )
    rows = [row for row in published.rows if any(row.values[column] is not None for column in columns.values())]
    keys = dict.fromkeys(key for row in rows for key in _doubts_shown(row, columns))
    letters = dict(zip(keys, _LETTERS, strict=False))
    places = _places(table, columns, label)
    start = len(table.rows)
    return replace(
        table,
        rows=(*table.rows, *(_shown_row(row, places, letters) for row in rows)),
        footnotes=(*table.footnotes, *_notes(published, rows, letters)),
        rules=table.rules | ({start} if rows else set()),
        muted=table.muted | frozenset(range(start, start + len(rows))),
    )


def _doubts_shown(row: PublishedRow, columns: Mapping[str, str]) -> list[str]:
    """Keys of the doubts about what is shown of a row."""
    return [*row.doubts, *(key for column in columns.values() for key in row.cell_doubts.get(column, ()))]


@dataclass(frozen=True)
class _Place:
    """What published rows have in one column of ours: always the same text, or the value of one of their columns."""

    text: str | None = None
    column: str | None = None
    signed: bool = False


def _places(table: Table, columns: Mapping[str, str], label: str) -> list[_Place]:
    """One for each column of ours but the first."""
    places: list[_Place] = []
    for index, header in enumerate(table.headers[1:], start=1):
        entries = [row[index] for row in table.rows]
        if header.name in columns:
            signed = any(isinstance(entry, Cell) and entry.signed for entry in entries)
            places.append(_Place(column=columns[header.name], signed=signed))
        elif all(isinstance(entry, str) for entry in entries):
            places.append(_Place(text="" if any(place.text for place in places) else label))
        else:
            places.append(_Place())
    return places


def _shown_row(row: PublishedRow, places: Sequence[_Place], letters: Mapping[str, str]) -> tuple[str | Cell, ...]:
    method = " ".join(filter(None, (row.method, _marks(row.doubts, letters))))
    return (method, *(_shown(row, place, letters) if place.text is None else place.text for place in places))


def _shown(row: PublishedRow, place: _Place, letters: Mapping[str, str]) -> Cell:
    """The value with as many digits as published, and the letters of its doubts."""
    value = None if place.column is None else row.values[place.column]
    if value is None:
        return Cell(None)
    decimals = max(1, len(f"{value:.6g}".partition(".")[2]))
    return Cell(
        value, note=_marks(row.cell_doubts.get(place.column, ()), letters), decimals=decimals, signed=place.signed
    )


def _marks(keys: Sequence[str], letters: Mapping[str, str]) -> str:
    return f"({', '.join(letters[key] for key in keys)})" if keys else ""


def _notes(published: PublishedTable, rows: Sequence[PublishedRow], letters: Mapping[str, str]) -> list[str]:
    """Source, frames and doubts of the rows shown."""
    if not rows:
        return []
    source = (
        f"Grey: {published.title} ({published.source}). {published.metric}; {published.split}. Numbers of others, in "
        "no mean, mark or difference of ours."
    )
    doubts = [f"({letter}) {published.doubts[key]}" for key, letter in letters.items()]
    return [source, *_frames_note(rows), *published.notes, *doubts]


def _frames_note(rows: Sequence[PublishedRow]) -> list[str]:
    """Frames per video: what most rows have, then the others by name."""
    by_frames: dict[str, list[str]] = {}
    for row in rows:
        if row.frames is not None:
            by_frames.setdefault(row.frames, []).append(row.method)
    if not by_frames:
        return []
    most, *others = sorted(by_frames, key=lambda frames: -len(by_frames[frames]))
    exceptions = "".join(f"; {frames}: {', '.join(by_frames[frames])}" for frames in others)
    return [f"Frames per video as printed there: {most}{exceptions}."]
