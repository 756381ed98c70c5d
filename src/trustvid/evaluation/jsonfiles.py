"""Files that survive a kill: JSON replaced as a whole, JSON lines appended and synced, a cut last line left out.

Text is ASCII (JSON escapes the rest): replies of models and names of files may hold lone surrogates, which UTF-8
cannot write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trustvid.errors import DataError

_DIGITS = 12  # significant digits of a float in a report: below them equal runs may differ by the order of a sum


def dump_json(value: Mapping[str, Any]) -> str:
    """JSON that is the same text for the same numbers: sorted keys, floats at 12 significant digits, no NaN.

    A list of objects under a top-level key is written one object a line, so that a diff of two runs reads well.

    Raises:
        ValueError: a number is NaN or infinite.
        TypeError: a value is not a plain container, text, number, bool or None.
    """
    rounded = _rounded(value)
    parts = []
    for key in sorted(rounded):
        item = rounded[key]
        if isinstance(item, list) and item and all(isinstance(entry, dict) for entry in item):
            text = "[\n" + ",\n".join(f"  {_compact(entry)}" for entry in item) + "\n ]"
        else:
            text = json.dumps(item, sort_keys=True, ensure_ascii=True, allow_nan=False, indent=1).replace("\n", "\n ")
        parts.append(f" {json.dumps(key, ensure_ascii=True)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        DataError: the file cannot be read or holds no JSON object.
    """
    try:
        value = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}; expected a JSON object as trustvid writes it") from error
    if not isinstance(value, dict):
        raise DataError(f"{path}: holds a {type(value).__name__}; expected a JSON object as trustvid writes it")
    return value


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") + 0.0  # + 0.0 turns -0.0 into 0.0
    if isinstance(value, Mapping):
        return {str(key): _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value


def _compact(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def json_lines(records: Iterable[Mapping[str, Any]]) -> bytes:
    """One compact object a line, numbers in full, each line ended.

    Raises:
        ValueError: a number is NaN or infinite.
        TypeError: a value is not a plain container, text, number, bool or None.
    """
    return "".join(
        json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n" for record in records
    ).encode("ascii")


def read_lines(path: Path) -> tuple[list[tuple[int, dict[str, Any]]], bool]:
    """The objects of a JSON-lines file with their line numbers, and whether a cut last line was left out.

    A line is whole when a newline ends it: what a kill leaves behind never is.

    Raises:
        DataError: a whole line is not a JSON object.
    """
    *lines, tail = path.read_bytes().split(b"\n")
    return [(number, _parse_line(line, path, number)) for number, line in enumerate(lines, start=1)], bool(tail)


def bad_line(path: Path, number: int, reason: object) -> DataError:
    """The error for a whole line that is not what its file holds."""
    return DataError(
        f"{path}, line {number}: not a record of this file ({reason}); expected one JSON object a line. "
        "Remove the line (its question is then answered again), or start anew with fresh=true"
    )


def _parse_line(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line, parse_constant=_refuse_constant)
    except ValueError as error:
        raise bad_line(path, number, error) from error
    if not isinstance(record, dict):
        raise bad_line(path, number, f"a {type(record).__name__}")
    return record


def append_synced(descriptor: int, data: bytes) -> None:
    """All of ``data`` on the disk, or (disk full) nothing of it and the error."""
    size = os.fstat(descriptor).st_size
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def drop_cut_line(descriptor: int) -> None:
    """Remove what follows the last newline: a line that a kill cut."""
    end = os.fstat(descriptor).st_size
    keep, step = end, 1 << 16
    while keep > 0:
        start = max(0, keep - step)
        newline = os.pread(descriptor, keep - start, start).rfind(b"\n")
        if newline >= 0:
            keep = start + newline + 1
            break
        keep = start
    if keep < end:
        os.ftruncate(descriptor, keep)
        os.fsync(descriptor)


def replace_file(path: Path, content: str | bytes) -> None:
    """Write the file so that a reader, or a kill, sees the old content or the new one and nothing between."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode(errors="backslashreplace"))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
