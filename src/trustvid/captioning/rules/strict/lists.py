"""Lists as a careful reader sees them: items with levels, text that runs on under its item, numbering that counts.

Choices:

- the content is the list and nothing else: an introduction, a closing line or a rule between items fails;
- an item has text; lines indented by at least two columns under an item continue it (paragraphs, code, nested lists);
- nested items are not items of the outer list. An item that is indented but carries the outer list's next ordinal is
  taken as sloppily indented, not as nested;
- bullets: one kind throughout, nested bullets included;
- numbering: with a symbol the list starts at that very ordinal (``I V X`` are roman, other letters are letters);
  without one, numbers may start anywhere (a list can go on after a pause), and a single lettered line must be the
  first of its alphabet ("Z. only" is an initial). Each item is the next ordinal: Markdown's ``1. 1. 1.`` fails,
  because the text that the reader sees does not count. Leading zeros are fine; Z is followed by AA.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from trustvid.captioning.rules.numerals import HAN_DIGITS, Numbering, readings
from trustvid.captioning.rules.strict.markers import SEPARATORS, Marker, indent_of, is_thematic_break, marker_of
from trustvid.captioning.rules.verdict import CannotCheck, Finding

# A line this much deeper than its item's marker belongs to the item.
_NESTING = 2
_MAX_LEVELS = 32

Recogniser = Callable[[str], Marker | None]


@dataclass
class Item:
    """One list item.

    Attributes:
        marker: how it is marked.
        level: 0 for items of the outer list.
        has_text: whether there is text beside or under the marker.
        children: nested items.
    """

    marker: Marker
    level: int
    has_text: bool
    children: list[Item] = field(default_factory=list)


def list_items(text: str) -> list[Item]:
    """The outer items of every list in ``text``, other lines left out; nested items hang below theirs."""
    return _read(text, marker_of)[0]


def unordered_list(content: str, symbol: Any = None) -> Finding:
    """Every outer item has the same bullet: ``symbol``, or any one of ``- * + •`` when there is none."""
    wanted = _wanted(symbol)
    roots, strays = _read(content, _bullet_recogniser(wanted) if wanted else marker_of)
    fault = _shape_fault(roots, strays)
    if fault:
        return Finding(False, fault)
    kind = wanted or roots[0].marker.head
    for item in roots:
        if not item.marker.is_bullet or item.marker.head != kind:
            return Finding(False, f"an item begins with {item.marker.written!r} instead of {kind!r}")
    for item in _nested(roots):
        if item.marker.is_bullet and item.marker.head != kind:
            return Finding(False, f"a nested item has another bullet, {item.marker.head!r}, than the list, {kind!r}")
    return Finding(True, f"{len(roots)} items with {kind!r}")


def ordered_list(content: str, symbol: Any = None) -> Finding:
    """The outer items carry consecutive ordinals, written as ``symbol`` when there is one."""
    wanted = _wanted(symbol)
    style = _style_of(wanted, content) if wanted else None
    if wanted and style is None:
        return Finding(False, f"the symbol {wanted!r} holds no ordinal to count from")
    roots, strays = _read(content, style.recogniser() if style else marker_of)
    fault = _shape_fault(roots, strays)
    if fault:
        return Finding(False, fault)
    markers = [item.marker for item in roots]
    fault = _numbering_fault(markers, style)
    if not fault and style is None and len(markers) == 1 and not _may_stand_alone(markers[0]):
        fault = "a single lettered line that is not the first of its alphabet is no list"
    fault = fault or next(filter(None, map(_nested_fault, _sibling_groups(roots))), None)
    return Finding(not fault, fault or f"{len(markers)} items in sequence")


def _wanted(symbol: Any) -> str:
    """The asked-for mark without blanks around it; empty for none."""
    if symbol is not None and not isinstance(symbol, str):
        raise CannotCheck(f"symbol must be text or null, not {symbol!r:.60}")
    return (symbol or "").strip()


# ---------------------------------------------------------------------------------------------- reading the lines


def _read(text: str, recognise: Recogniser) -> tuple[list[Item], list[str]]:
    """Outer items, and the non-blank lines that belong to no item."""
    roots: list[Item] = []
    strays: list[str] = []
    path: list[Item] = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        inside = bool(path) and indent_of(line) >= path[0].marker.indent + _NESTING
        # Inside an item the asked-for style has no privilege: there an initial or a year is text.
        marker = (marker_of(line) or recognise(line)) if inside else (recognise(line) or marker_of(line))
        if marker is None or (inside and marker.doubtful and not marker.follows(path[-1].marker)):
            if inside:
                path[-1].has_text = True
            else:
                strays.append(line.strip())
            continue
        path = path[: _level_for(path, marker)]
        item = Item(marker, len(path), bool(line[marker.end :].strip()))
        (path[-1].children if path else roots).append(item)
        path.append(item)
    return roots, strays


def _level_for(path: Sequence[Item], marker: Marker) -> int:
    """The level of a new item below the open items ``path`` (outermost first)."""
    for level, item in enumerate(path):
        if marker.indent < item.marker.indent + _NESTING:
            return level
    if path and marker.follows(path[-1].marker):
        return len(path) - 1
    return min(len(path), _MAX_LEVELS - 1)


def _nested(items: Sequence[Item]) -> Iterator[Item]:
    for item in items:
        yield from item.children
        yield from _nested(item.children)


def _sibling_groups(items: Sequence[Item]) -> Iterator[list[Item]]:
    for item in (*items, *_nested(items)):
        if item.children:
            yield item.children


# ------------------------------------------------------------------------------------------------- what is wrong


def _shape_fault(roots: Sequence[Item], strays: Sequence[str]) -> str | None:
    if strays:
        return f"a line is no list item: {strays[0][:60]!r}"
    if not roots:
        return "there is no list item"
    if not all(item.has_text for item in (*roots, *_nested(roots))):
        return "an item has no text"
    return None


def _numbering_fault(markers: Sequence[Marker], style: _Style | None = None) -> str | None:
    """Why the markers are not one sequence in ``style`` (any style and start when None); None when they are."""
    lead = markers[0]
    head, tail = (style.head, style.tail) if style else (lead.head, lead.tail)
    for marker in markers:
        if marker.is_bullet or (marker.head, marker.tail) != (head, tail):
            return f"an item is marked {marker.written!r}, not {head!r} + ordinal + {tail!r}"
    starts = {style.numbering: style.first} if style else lead.values
    for numbering, start in starts.items():
        if all(marker.values.get(numbering) == start + step for step, marker in enumerate(markers)):
            return None
    return "the ordinals do not run on one by one" + (f" from {style.first}" if style else "")


def _nested_fault(items: Sequence[Item]) -> str | None:
    """A nested list may be of bullets, or numbered in sequence from anywhere."""
    markers = [item.marker for item in items]
    if all(marker.is_bullet for marker in markers):
        return None
    fault = _numbering_fault(markers)
    return fault and f"in a nested list {fault}"


def _may_stand_alone(marker: Marker) -> bool:
    return "arabic" in marker.values or "han" in marker.values or 1 in marker.values.values()


# ------------------------------------------------------------------------------------------------ asked-for styles

_ANY_ORDINAL = rf"\d{{1,9}}|[a-zA-Z]{{1,8}}|[{HAN_DIGITS}十百零]+"


@dataclass(frozen=True)
class _Style:
    """An asked-for item mark such as "(1)", "Step 1:" or "一、": an ordinal between a head and a tail."""

    head: str
    tail: str
    numbering: Numbering
    first: int

    def recogniser(self) -> Recogniser:
        """Recognises lines of this style."""
        # A wide mark closes without a blank, an ASCII one needs it; an item's text may stand on the next line.
        blank = "" if self.tail and not self.tail[-1].isascii() else r"(?=\s|$)"
        pattern = re.compile(rf"\s*{re.escape(self.head)}({_ANY_ORDINAL}){re.escape(self.tail)}{blank}\s*")

        def recognise(line: str) -> Marker | None:
            found = pattern.match(line)
            values = readings(found[1]) if found else {}
            if not found or not values:
                return None
            return Marker(found[0].strip(), indent_of(line), self.head, self.tail, found.end(), values)

        return recognise


def _style_of(symbol: str, content: str) -> _Style | None:
    """The style a symbol asks for, None when it holds no ordinal.

    The ordinal is the last number in the symbol, else the last Chinese numeral, else the last letter or roman numeral.
    A symbol without a closing mark ("1") leaves the choice of the mark to the first item of ``content``.
    """
    for pattern in (r"\d{1,9}", rf"[{HAN_DIGITS}十百零]+", r"(?<![a-zA-Z])[a-zA-Z]{1,8}(?![a-zA-Z])"):
        for found in reversed(list(re.finditer(pattern, symbol))):
            values = readings(found[0])
            if not values:
                continue
            order = ("arabic", "han", "upper_roman", "lower_roman", "upper_letter", "lower_letter")
            if found[0] in "CDLMcdlm":
                order = ("upper_letter", "lower_letter")
            numbering = next(name for name in order if name in values)
            head, tail = symbol[: found.start()], symbol[found.end() :]
            if not tail:
                opening = re.match(rf"\s*{re.escape(head)}(?:{_ANY_ORDINAL})([{SEPARATORS}])", content)
                tail = opening[1] if opening else ""
            return _Style(head, tail, numbering, values[numbering])
    return None


def _bullet_recogniser(symbol: str) -> Recogniser:
    pattern = re.compile(rf"\s*{re.escape(symbol)}(?=\s)\s*")

    def recognise(line: str) -> Marker | None:
        found = None if is_thematic_break(line) else pattern.match(line)
        return Marker(symbol, indent_of(line), symbol, "", found.end()) if found else None

    return recognise
