"""Reading question files: Parquet and JSON lines, with errors that say what was expected and where to get it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trustvid.errors import DataError


def cell(value: Any) -> str:
    """A table cell as text: "" for null and NaN, whole floats without their ".0"."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def read_parquet(path: Path, columns: Sequence[str], source: str) -> list[dict[str, Any]]:
    """Rows of a Parquet file as plain dictionaries; only ``columns`` are read.

    Raises:
        DataError: the file is missing, is not readable Parquet, or lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    _check_file(path, source)
    try:
        found = pq.read_schema(path).names
        _check_columns(path, columns, found, source)
        return pq.read_table(path, columns=list(columns)).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be decoded as Parquet ({error}); expected {source}") from error


def read_json_lines(path: Path, source: str) -> list[tuple[int, dict[str, Any] | str]]:
    """(line number, object) of every non-blank line; a line that is no JSON object comes as text saying why.

    Raises:
        DataError: the file is missing or is not UTF-8 text.
    """
    _check_file(path, source)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 text ({error}); expected {source}") from error
    return [(number, _json_object(line)) for number, line in enumerate(lines, start=1) if line.strip()]


def _json_object(line: str) -> dict[str, Any] | str:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return record if isinstance(record, dict) else f"not a JSON object but {type(record).__name__}"


def _check_file(path: Path, source: str) -> None:
    if not path.is_file():
        beside = sorted(entry.name for entry in path.parent.iterdir())[:8] if path.parent.is_dir() else []
        raise DataError(f"{path}: no such file (found there: {', '.join(beside) or 'nothing'}); expected {source}")
    with path.open("rb") as stream:
        if stream.read(24).startswith(b"version https://git-lfs"):
            raise DataError(f"{path}: is only a Git LFS pointer; run `git lfs pull` in its folder. Expected {source}")


def _check_columns(path: Path, columns: Sequence[str], found: Sequence[str], source: str) -> None:
    missing = [column for column in columns if column not in found]
    if missing:
        raise DataError(
            f"{path}: lacks the columns {', '.join(missing)} (found: {', '.join(found) or 'none'}); expected {source}"
        )


def require_folder(path: Path, source: str) -> None:
    """Raise DataError unless the folder exists: a whole set without videos is one fault, not thousands."""
    if not path.is_dir():
        raise DataError(f"{path}: no such folder; expected {source}")
