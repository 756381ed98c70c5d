"""Structured text as a careful reader sees it: a JSON value in a reply, and a Markdown table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from trustvid.captioning.rules.json_schema import require_depth, violation
from trustvid.captioning.rules.strict.markdown import visible_text
from trustvid.captioning.rules.verdict import CannotCheck, Finding

# ------------------------------------------------------------------------------------------------------------ JSON


def json_object(content: str, schema: Any) -> Finding:
    """The text holds one JSON value, an object, and it satisfies ``schema``; see :func:`_one_value` for the choices."""
    return _json(content, schema, dict, "object")


def json_array(content: str, schema: Any) -> Finding:
    """The text holds one JSON value, an array, and it satisfies ``schema``; see :func:`_one_value` for the choices."""
    return _json(content, schema, list, "array")


def _json(content: str, schema: Any, kind: type, name: str) -> Finding:
    if schema is None:
        raise CannotCheck("schema is null; an empty object accepts any JSON")
    try:
        value = _one_value(content)
    except _NotOneValue as fault:
        return Finding(False, str(fault))
    if not isinstance(value, kind):
        return Finding(False, f"the JSON value is no {name}")
    fault = violation(value, schema)
    return Finding(fault is None, fault or f"a JSON {name} that satisfies the schema")


class _NotOneValue(Exception):
    """Why the text does not hold exactly one JSON object or array."""


class _Found(NamedTuple):
    value: Any
    is_aside: bool


def _one_value(text: str) -> Any:
    """The one JSON object or array in ``text``.

    Choices:

    - words and code fences around the value do not matter, but two values are not one value;
    - brackets that do not open JSON ({smile}, [see note]) are prose; ``[3]``, ``[]`` and ``{}`` beside another value
      are references and signs;
    - brackets that open JSON (a quote, a bracket or a whole literal follows) but do not parse are broken JSON, and no
      part of broken JSON counts; a stray closing bracket right after a value breaks it too;
    - NaN and Infinity are not JSON; single quotes, comments, trailing commas, raw line breaks in strings neither.
      Of a repeated key the last counts.
    """
    found = list(_values(text))
    if len(found) > 1:
        found = [item for item in found if not item.is_aside]
    if len(found) != 1:
        raise _NotOneValue(f"the text holds {len(found)} JSON values instead of one" if found else "no JSON is in it")
    return found[0].value


_OPENS_JSON = re.compile(
    r"""\{\s*(?:["'{}\[]|$)|\[\s*(?:["'{\[\]]|(?:-?\d[\d.eE+-]*|true|false|null|NaN|-?Infinity)\s*[,\]])"""
)
_ASIDE = re.compile(r"\[\s*\d*\s*\]|\{\s*\}")
_STRAY_CLOSER = re.compile(r"\s*[}\]]")
_BRACKET = re.compile(r"[{\[]")


def _values(text: str) -> Iterator[_Found]:
    require_depth(text)
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    position = 0
    while found := _BRACKET.search(text, position):
        start = found.start()
        if not _OPENS_JSON.match(text, start):
            position = start + 1
            continue
        try:
            value, position = decoder.raw_decode(text, start)
        except ValueError as error:
            raise _NotOneValue(f"the JSON that begins at character {start + 1} is broken: {error}"[:200]) from None
        if _STRAY_CLOSER.match(text, position):
            raise _NotOneValue(
                f"a closing bracket without its opening one follows the JSON at character {position + 1}"
            )
        yield _Found(value, _ASIDE.fullmatch(text, start, position) is not None)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# ----------------------------------------------------------------------------------------------------------- table


class Table(NamedTuple):
    """A Markdown table: header cells and data rows as written, trimmed, with escaped pipes resolved."""

    header: list[str]
    rows: list[list[str]]


_SEPARATOR_CELL = re.compile(r"\s*:?-+:?\s*")


def table(content: str, col_name: Any) -> Finding:
    """A Markdown table stands at the beginning and its header cells are ``col_name``, in order and case.

    Choices: the separator row has as many cells as the header, each with a hyphen at least; inline markup in header
    cells (bold, code, …) does not matter, underscores inside a name do; ``\\|`` belongs to its cell; empty header cells
    (the corner above row names) are left out of the comparison; the number of cells in data rows is free, and so is
    what follows the table. Not accepted: text before the table, a table in a code fence, grid tables.
    """
    if not isinstance(col_name, list) or not all(isinstance(name, str) for name in col_name):
        raise CannotCheck(f"col_name must be a list of texts, not {col_name!r:.60}")
    found = parse_table(content)
    if found is None:
        return Finding(False, "the text does not begin with a Markdown table (header row, then a row of hyphens)")
    shown = [visible_text(cell) for cell in found.header if cell]
    wanted = [visible_text(name) for name in col_name]
    return Finding(
        shown == wanted, f"the columns are {shown!r:.120}" + ("" if shown == wanted else f", not {wanted!r:.120}")
    )


def parse_table(text: str) -> Table | None:
    """The Markdown table at the beginning of ``text`` (blank lines before it aside), None when there is none.

    >>> parse_table("| a | b |\\n|:--|--:|\\n| 1 | |").rows
    [['1', '']]
    """
    lines = [line.strip() for line in text.strip().split("\n")]
    if len(lines) < 2 or "|" not in lines[0] or "|" not in lines[1]:
        return None
    header, separator = _cells(lines[0]), _cells(lines[1])
    if len(header) != len(separator) or not all(map(_SEPARATOR_CELL.fullmatch, separator)):
        return None
    rows = []
    for line in lines[2:]:
        if not line or "|" not in line:
            break
        rows.append(_cells(line))
    return Table(header, rows)


def looks_like_table(text: str) -> bool:
    """A Markdown table anywhere, or two neighbouring lines that both begin and end with a pipe."""
    lines = [line.strip() for line in text.split("\n")]
    for first, second in pairwise(lines):
        if "|" not in first or "|" not in second:
            continue
        if all(len(line) > 1 and line[0] == line[-1] == "|" for line in (first, second)):
            return True
        if parse_table(f"{first}\n{second}") is not None:
            return True
    return False


def _cells(line: str) -> list[str]:
    """Cells of a row; the outer pipes are optional, an escaped pipe is text."""
    cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]
    if len(cells) > 1 and not cells[0]:
        cells = cells[1:]
    if len(cells) > 1 and not cells[-1]:
        cells = cells[:-1]
    return cells
