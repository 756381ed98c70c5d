"""VLMEvalKit's prediction files (``<model>_<dataset>.xlsx``, or .tsv, .csv, .json): one row a question.

Columns that are read: index (or id), question, A, B, C, … (or options, candidates), answer, prediction, and the video's
name where there is one. Anything else is left alone.
"""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trustvid.benchmarks.files import cell
from trustvid.benchmarks.options import strip_letters
from trustvid.benchmarks.sample import LETTERS
from trustvid.errors import DataError
from trustvid.interop.parts import without_folders
from trustvid.interop.replies import Reply, failure_in

SOURCE = "a prediction file of VLMEvalKit (.xlsx, .tsv, .csv or .json) with the columns index and prediction"
_IDS = ("Question_id", "question_id", "id", "index")
_VIDEOS = ("video", "video_id", "video_name", "video_path", "scene_name")
_OPTION_LISTS = ("options", "candidates")
_MAX_CELL = 1 << 24  # characters; a thinking model's reply is longer than the csv module allows by itself


def read_replies(path: Path) -> list[Reply]:
    """The replies of a prediction file, in its order.

    Raises:
        DataError: the file cannot be read, or lacks a column.
    """
    readers = {".xlsx": _xlsx_rows, ".tsv": _separated_rows, ".csv": _separated_rows, ".json": _json_rows}
    if path.suffix.lower() not in readers:
        raise DataError(f"{path}: unknown form {path.suffix!r}; expected {SOURCE}")
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected {SOURCE}")
    rows = list(readers[path.suffix.lower()](path))
    columns = {name for row in rows for name in row}
    if "prediction" not in columns or not columns & {*_IDS}:
        raise DataError(f"{path}: has the columns {', '.join(sorted(columns)) or 'none'}; expected {SOURCE}")
    return [_reply(f"{path.name}, row {number}", row) for number, row in enumerate(rows, start=1)]


def _reply(place: str, row: Mapping[str, Any]) -> Reply:
    text = cell(row.get("prediction"))
    return Reply(
        place=place,
        id=_first(row, _IDS),
        question=cell(row.get("question")).strip(),
        video=_first(row, _VIDEOS),
        options=_options(row),
        answer=next((cell(row[name]).strip() for name in ("answer", "ground_truth") if cell(row.get(name))), ""),
        text=without_folders(text),
        failure=failure_in(text),
    )


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((text for name in names if (text := cell(row.get(name)).strip())), "")


def _options(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Columns A, B, C, … up to the first empty one; else a list in one cell; else ()."""
    texts: list[str] = []
    for letter in LETTERS:
        if not (text := cell(row.get(letter)).strip()):
            break
        texts.append(text)
    if texts:
        return tuple(texts)
    for name in _OPTION_LISTS:
        listed = row.get(name)
        if isinstance(listed, str):
            try:
                listed = ast.literal_eval(listed)  # pandas writes a list as Python's literal; nothing is evaluated
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
        if isinstance(listed, list) and listed:
            try:
                return strip_letters([cell(text) for text in listed])
            except ValueError:
                return tuple(cell(text) for text in listed)
    return ()


# -- forms -------------------------------------------------------------------------------------------------------------


def _xlsx_rows(path: Path) -> Iterator[dict[str, Any]]:
    from zipfile import BadZipFile

    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        book = load_workbook(path, read_only=True)
    except (BadZipFile, InvalidFileException, KeyError, OSError, ValueError) as error:
        raise DataError(f"{path}: is no Excel workbook ({error}); expected {SOURCE}") from error
    try:
        rows = book.worksheets[0].iter_rows(values_only=True)
        names = [cell(name) for name in next(rows, ())]
        for row in rows:
            if any(value is not None for value in row):
                yield dict(zip(names, row, strict=False))
    finally:
        book.close()


def _separated_rows(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(_MAX_CELL)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ","):
                if None in row:
                    raise DataError(f"{path}: a row has more cells than the first line names; expected {SOURCE}")
                yield row
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: {error}; expected {SOURCE}") from error


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """A list of rows, or columns of {row: value}: the two ways in which pandas writes a table."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is no JSON ({error}); expected {SOURCE}") from error
    if isinstance(value, dict) and value and all(isinstance(column, dict) for column in value.values()):
        keys = list(dict.fromkeys(key for column in value.values() for key in column))
        value = [{name: column.get(key) for name, column in value.items()} for key in keys]
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise DataError(f"{path}: holds neither a list of rows nor columns of rows; expected {SOURCE}")
    yield from value
