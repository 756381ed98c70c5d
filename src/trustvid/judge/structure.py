"""The visible structure of a response: JSON, lists, tables, headings, paragraphs, sentences, delimited parts.

Every part comes back as it stands in the text. Where a text has no such parts, the list is empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from trustvid.captioning.rules.strict.markers import list_markers, marker_of
from trustvid.captioning.rules.strict.structure import Table, parse_table

_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+\S.*$", re.MULTILINE)
_BOLD_LINE = re.compile(r"^[ \t]*(?:\*\*|__)[^*_\n]+(?:\*\*|__)[ \t]*:?[ \t]*$", re.MULTILINE)
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_FENCE_LINE = re.compile(r"^```.*$", re.MULTILINE)
_MARKS = {
    "bold": re.compile(r"\*\*(.+?)\*\*|__(.+?)__", re.DOTALL),
    "italic": re.compile(r"(?<![*\w])\*([^*\n]+)\*(?![*\w])|(?<![_\w])_([^_\n]+)_(?![_\w])"),
    "highlight": re.compile(r"==(.+?)=="),
    "code": re.compile(r"`([^`\n]+)`"),
}


class Structure:
    """One text and its parts.

    Args:
        text: the text, as it is.
    """

    def __init__(self, text: str):
        self.text = text

    @cached_property
    def value(self) -> Any:
        """The first JSON object or array in the text; a text that is broken JSON is mended. None = there is no JSON."""
        found = self._json
        return found[0] if found else _mended(self.text)

    @cached_property
    def _json(self) -> tuple[Any, int] | None:
        """The JSON value that parses, and where it begins."""
        return next(_json_values(self.text), None)

    @cached_property
    def leaves(self) -> list[tuple[tuple[str, ...], str | float]]:
        """Texts and numbers of the JSON value with the keys that lead to them, in order."""
        return list(_leaves(self.value, ()))

    @property
    def value_texts(self) -> list[str]:
        """Texts of the JSON value, in order."""
        return [text for _, text in self.leaves if isinstance(text, str)]

    @cached_property
    def keys(self) -> list[str]:
        """Keys of all JSON objects, in order, repetitions kept."""
        return list(_keys(self.value))

    @cached_property
    def list_block(self) -> str:
        """From the first to the last paragraph with a list item; lines before it that lead up to it ("…:") left out."""
        paragraphs = self.paragraphs
        held = [number for number, paragraph in enumerate(paragraphs) if _is_list(paragraph)]
        if not held:
            return ""
        start = self.text.index(paragraphs[held[0]])
        end = start
        for paragraph in paragraphs[held[0] : held[-1] + 1]:
            end = self.text.index(paragraph, end) + len(paragraph)
        lines = self.text[start:end].split("\n")
        first = next(number for number, line in enumerate(lines) if marker_of(line))
        if first and all(line.rstrip().endswith((":", "：")) for line in lines[:first] if line.strip()):
            lines = lines[first:]
        return "\n".join(lines)

    @cached_property
    def items(self) -> list[str]:
        """List items without their markers, continuation lines included; nested items are items."""
        items: list[list[str]] = []
        for line in self.list_block.split("\n") if self.list_block else ():
            # Inside a list a doubtful marker ("I." before "III.") is one.
            marker = marker_of(line)
            if marker:
                items.append([line[marker.end :]])
            elif items and line.strip():
                items[-1].append(line)
        return [text for item in items if (text := "\n".join(item).strip())]

    @cached_property
    def table_block(self) -> str:
        """The first table with its header, "" when there is none; lines with pipes that are no table count as one."""
        lines = self.text.split("\n")
        for number in range(len(lines) - 1):
            if "|" in lines[number] and parse_table("\n".join(lines[number : number + 2])) is not None:
                end = next((at for at in range(number, len(lines)) if "|" not in lines[at]), len(lines))
                return "\n".join(lines[number:end])
        piped = [number for number, line in enumerate(lines) if line.count("|") >= 2]
        return "\n".join(lines[piped[0] : piped[-1] + 1]) if piped else ""

    @cached_property
    def table(self) -> Table | None:
        """The first table's cells."""
        return parse_table(self.table_block) if self.table_block else None

    @cached_property
    def headings(self) -> list[str]:
        """Markdown headings with their marks, or lines that are bold as a whole."""
        found = _HEADING.findall(self.text) or _BOLD_LINE.findall(self.text)
        return [line.strip() for line in found]

    @cached_property
    def paragraphs(self) -> list[str]:
        """Pieces between blank lines."""
        return [piece.strip("\n") for piece in _BLANK_LINE.split(self.text) if piece.strip()]

    @cached_property
    def lines(self) -> list[str]:
        """Non-blank lines."""
        return [line.strip() for line in self.text.split("\n") if line.strip()]

    @cached_property
    def sentences(self) -> list[str]:
        """Sentences; a line break ends one, and headings are none."""
        import sentencex

        language = "zh" if re.search(r"[\u4e00-\u9fff]", self.text) else "en"
        marked = list_markers(self.text)
        pieces = []
        for number, line in enumerate(self.text.split("\n")):
            if line.strip() in self.headings:
                continue
            body = line[marked[number].end :] if number in marked else line
            pieces += [sentence.strip() for sentence in sentencex.segment(language, body)]
        return [piece for piece in pieces if re.search(r"[^\W_]", piece)]

    def marked(self, kind: str) -> list[str]:
        """Texts inside bold, italic, highlight or code marks, marks left out."""
        pattern = _MARKS.get(kind)
        return [next(filter(None, found.groups()), "") for found in pattern.finditer(self.text)] if pattern else []

    def parts(self, symbol: str) -> list[str]:
        """Non-blank parts between the occurrences of ``symbol``, none when it does not occur."""
        if not symbol or symbol not in self.text:
            return []
        return [part.strip() for part in self.text.split(symbol) if part.strip()]

    def values_of(self, key: str) -> list[str]:
        """Texts and numbers below a JSON key, wherever it stands; case makes no difference."""
        wanted = key.casefold()
        return [str(text) for path, text in self.leaves if any(name.casefold() == wanted for name in path)]

    def column(self, name: str) -> list[str]:
        """Cells below a table column, none when there is no such column."""
        if self.table is None:
            return []
        names = [cell.strip("*_` ").casefold() for cell in self.table.header]
        if name.casefold() not in names:
            return []
        place = names.index(name.casefold())
        return [row[place] for row in self.table.rows if len(row) > place and row[place].strip()]

    @property
    def rows(self) -> list[str]:
        """Data rows of the table, as lines; of lines with pipes that are no table, all but the first."""
        return [line.strip() for line in self.table_block.split("\n")[2 if self.table else 1 :]]

    @property
    def elements(self) -> list[str]:
        """The parts the text is most visibly made of: JSON array elements, list items, table rows, or paragraphs."""
        if self.value is not None:
            return self._array_elements
        if self.items:
            return self.items
        if self.rows:
            return self.rows
        return self.paragraphs if len(self.paragraphs) > 1 else []

    @cached_property
    def _array_elements(self) -> list[str]:
        """Elements of the JSON array, or of the one array in the JSON object; texts without quotes, others as JSON."""
        if self._json is None:
            return self.value_texts if isinstance(self.value, list) else []
        value, start = self._json
        if isinstance(value, dict):
            keys = [key for key, inner in value.items() if isinstance(inner, list)]
            found = re.compile(rf"{re.escape(json.dumps(keys[0]))}\s*:\s*(?=\[)") if len(keys) == 1 else None
            opening = found.search(self.text, start) if found else None
            if opening is None:
                return []
            start = opening.end()
        return list(_elements(self.text, start))


def _elements(text: str, start: int) -> Iterator[str]:
    """Elements of the JSON array that begins at ``start`` and is known to parse."""
    decoder, position = json.JSONDecoder(), start + 1
    while text[position] != "]":
        if text[position] in ", \t\r\n":
            position += 1
            continue
        value, end = decoder.raw_decode(text, position)
        yield value if isinstance(value, str) else text[position:end]
        position = end


def _json_values(text: str) -> Iterator[tuple[Any, int]]:
    decoder = json.JSONDecoder()
    position = 0
    while found := re.compile(r"[{\[]").search(text, position):
        try:
            value, end = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            position = found.start() + 1
            continue
        # [3] and [] in prose are references and signs.
        if value and (isinstance(value, dict) or not all(isinstance(element, int) for element in value)):
            yield value, found.start()
        position = end


def _is_list(paragraph: str) -> bool:
    lines = [line for line in paragraph.split("\n") if line.strip()]
    # Several lines that all look like items are a list, however odd their numbers.
    return bool(list_markers(paragraph)) or (len(lines) > 1 and all(map(marker_of, lines)))


def _mended(text: str) -> Any:
    body = _FENCE_LINE.sub("", text).strip()
    if not body.startswith(("{", "[")) or '"' not in body:
        return None
    import json_repair

    try:
        value = json_repair.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if value and isinstance(value, dict | list) else None


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str | float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield path, value


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _keys(inner)
