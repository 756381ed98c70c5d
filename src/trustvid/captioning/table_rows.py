"""The table form of IF-VidCap on the hub: one row an instruction, with its checklist as JSON text and no ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from trustvid.captioning.files import Instruction, Problem, TaskKey
from trustvid.errors import DataError

_ROW_COLUMNS = ("video", "instruction", "checklist")


def rows_of(
    instructions: Iterable[Instruction], checklists: Mapping[TaskKey, Any], video_path: Callable[[str], str]
) -> Iterator[dict[str, str]]:
    """Rows of the table form: path of the video, instruction, and the checklist as JSON text."""
    for instruction in instructions:
        checklist = json.dumps(checklists[instruction.key], ensure_ascii=False)
        yield {"video": video_path(instruction.key.video), "instruction": instruction.text, "checklist": checklist}


def write_rows(path: Path, rows: Iterable[Mapping[str, str]]) -> None:
    """Rows as JSON lines or, by the name's ending, Parquet."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
        return
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as out:
        out.writelines(json.dumps(dict(row), ensure_ascii=False) + "\n" for row in rows)


def read_rows(path: Path) -> tuple[list[Instruction], dict[TaskKey, dict], dict[str, str], list[Problem]]:
    """Instructions, checklists and video paths of a table (.parquet, or .jsonl).

    The table has no ids: the n-th row of a video is its instruction "0n".

    Raises:
        DataError: the file is missing, cannot be decoded, or lacks a column.
    """
    instructions, checklists, videos, problems = [], {}, {}, []
    counts: dict[str, int] = {}
    for number, row in enumerate(_table(path), start=1):
        where = row.get("video")
        where = where.get("path") if isinstance(where, dict) else where
        if not isinstance(where, str) or not where or not isinstance(row.get("instruction"), str):
            problems.append(Problem(f"row {number}", "has no video or no instruction"))
            continue
        video = video_id(where)
        counts[video] = counts.get(video, 0) + 1
        key = TaskKey(video, f"{counts[video]:02d}")
        videos[video] = where
        instructions.append(Instruction(key, "", row["instruction"]))
        checklist = _parsed_checklist(row.get("checklist"))
        if isinstance(checklist, dict):
            checklists[key] = checklist
        else:
            problems.append(Problem(f"row {number} ({key})", checklist))
    return instructions, checklists, videos, problems


def video_id(path: str) -> str:
    """The official id of a video by its path: folder and number.

    >>> video_id("videos/clip/001.mp4"), video_id("walk.mp4"), video_id("clip_007.mp4")
    ('clip_001', 'walk', 'clip_007')
    """
    parts = PurePosixPath(path.replace("\\", "/"))
    return f"{parts.parent.name}_{parts.stem}" if re.fullmatch(r"\d+", parts.stem) and parts.parent.name else parts.stem


def _parsed_checklist(text: Any) -> dict | str:
    """The checklist object in a cell, or why there is none."""
    if isinstance(text, dict):
        return text
    if not isinstance(text, str):
        return "has no checklist"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"its checklist is no JSON: {error}"
    return value if isinstance(value, dict) else "its checklist is no JSON object"


def _table(path: Path) -> Iterable[Mapping[str, Any]]:
    expected = f"a .jsonl or .parquet file with the columns {', '.join(_ROW_COLUMNS)}"
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected {expected}")
    if path.suffix != ".parquet":
        return _json_table(path, expected)
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
        missing = [name for name in _ROW_COLUMNS if name not in schema.names]
        if missing:
            raise DataError(f"{path}: lacks the columns {', '.join(missing)}; expected {expected}")
        # A column of embedded videos is a struct whose bytes must not be loaded.
        nested = pa.types.is_struct(schema.field("video").type)
        columns = ["video.path" if nested else "video", "instruction", "checklist"]
        return pq.read_table(path, columns=columns).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be decoded as Parquet ({error}); expected {expected}") from error


def _json_table(path: Path, expected: str) -> list[Mapping[str, Any]]:
    rows = []
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
            if line.strip():
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise DataError(f"{path}, line {number}: holds {type(row).__name__}; expected {expected}")
                rows.append(row)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error}); expected {expected}") from error
    return rows
