"""List markers at the start of a line: which bullet, which ordinal, and whether a reader would take it for a list.

Choices:

- bullets are ``-``, ``*``, ``+`` and ``•`` followed by a blank (dashes, middle dots and the like are prose);
- ordinals are numbers, letters, roman and Chinese numerals closed by ``.`` ``)`` ``:`` ``、`` ``．`` ``：`` or put in
  parentheses; after a full-width mark no blank is needed (一、甲), after an ASCII one it is (``1.5 m`` is prose);
- a line that only might be a marker counts when its neighbour in the sequence is there too. Such are: an initial
  ("I. Newton"), a number of four or more digits ("2024. A year"), a word made of roman letters ("MIX. Then"), two
  letters ("OK. Go"), a number with a colon that is not 1, and an ordinal without text after it;
- 三、四个人 ("three or four people") is prose: what follows 、 is the next number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from trustvid.captioning.rules.numerals import HAN_DIGITS, Numbering, readings

BULLETS = "-*+•"
# Closing marks of an ordinal. The wide ones need no blank after them.
SEPARATORS = ".):、．：）"
_WIDE = "、．：）"
TAB_WIDTH = 4

_HAN_NUMERAL = rf"[{HAN_DIGITS}十百零]+"
_BULLET = re.compile(rf"(?P<bullet>[{BULLETS}])(?=\s)")
_LEADING_NUMERAL = re.compile(rf"\d{{1,9}}|{_HAN_NUMERAL}")
_ORDINAL = re.compile(
    rf"(?P<head>[(（]?)(?P<ordinal>\d{{1,9}}|[a-zA-Z]{{1,8}}|{_HAN_NUMERAL})(?P<tail>[{SEPARATORS}])",
)
_THEMATIC_BREAK = re.compile(r"\s*([-*_])(?:[ \t]*\1){2,}\s*")
# A roman numeral above this is more likely a word (MIX, DIM, CIVIL) unless its neighbours are there.
_LARGEST_PLAIN_ROMAN = 39


@dataclass(frozen=True)
class Marker:
    """The marker of one line.

    Attributes:
        written: the marker as it stands in the line ("2)", "-").
        indent: columns before the marker (tabs to multiples of four).
        head: what stands before the ordinal ("(", "Step "); the bullet itself for bullets.
        tail: what closes the ordinal ("." and the like); empty for bullets.
        values: numberings the ordinal can belong to, with its place in each; empty for bullets.
        end: index in the line where the item's text begins.
        doubtful: whether only a neighbour in sequence would make it a list.
    """

    written: str
    indent: int
    head: str
    tail: str
    end: int
    values: dict[Numbering, int] = field(default_factory=dict)
    doubtful: bool = False

    @property
    def is_bullet(self) -> bool:
        return not self.values

    def follows(self, other: Marker) -> bool:
        """Whether this is the next ordinal after ``other`` in some numbering, written the same way."""
        return (self.head, self.tail) == (other.head, other.tail) and any(
            other.values.get(numbering) == value - 1 for numbering, value in self.values.items()
        )


def indent_of(line: str) -> int:
    """Columns of blank space before the first other character."""
    blank = line[: len(line) - len(line.lstrip())]
    return len(blank.expandtabs(TAB_WIDTH))


def is_thematic_break(line: str) -> bool:
    """``---``, ``* * *`` and the like."""
    return _THEMATIC_BREAK.fullmatch(line) is not None


def marker_of(line: str) -> Marker | None:
    """The marker at the start of ``line``, doubtful ones included; None when there is none."""
    start = len(line) - len(line.lstrip())
    if is_thematic_break(line):
        return None
    bullet = _BULLET.match(line, start)
    if bullet:
        return Marker(bullet[0], indent_of(line), bullet[0], "", _skip_blanks(line, bullet.end()))
    found = _ORDINAL.match(line, start)
    if not found:
        return None
    head, ordinal, tail = found["head"], found["ordinal"], found["tail"]
    values, rest = readings(ordinal), line[found.end() :]
    if not values or _is_prose(head, tail, values, rest):
        return None
    end = _skip_blanks(line, found.end())
    doubtful = _is_doubtful(ordinal, head, tail, values, line[end:])
    return Marker(found[0], indent_of(line), head, tail, end, values, doubtful)


def list_markers(text: str) -> dict[int, Marker]:
    """Markers of the lines (split at line feeds) that a reader takes for list items, by line number."""
    found = {number: marker for number, line in enumerate(text.split("\n")) if (marker := marker_of(line))}
    present = {
        (marker.head, marker.tail, numbering, value)
        for marker in found.values()
        for numbering, value in marker.values.items()
    }

    def has_neighbour(marker: Marker) -> bool:
        return any(
            (marker.head, marker.tail, numbering, value + step) in present
            for numbering, value in marker.values.items()
            for step in (-1, 1)
        )

    return {number: marker for number, marker in found.items() if not marker.doubtful or has_neighbour(marker)}


def strip_markers(text: str) -> str:
    """``text`` without the markers of its list items."""
    lines = text.split("\n")
    for number, marker in list_markers(text).items():
        lines[number] = lines[number][marker.end :]
    return "\n".join(lines)


def _skip_blanks(line: str, position: int) -> int:
    return len(line) - len(line[position:].lstrip())


def _is_prose(head: str, tail: str, values: dict[Numbering, int], rest: str) -> bool:
    """Whether an ordinal with a closing mark is certainly no marker."""
    if head and tail not in ")）":
        return True
    if tail in ":：" and "arabic" not in values:
        return True
    if tail not in _WIDE:
        return bool(rest) and not rest[0].isspace()
    number = _LEADING_NUMERAL.match(rest)
    if tail != "、":
        return number is not None and rest[0].isdecimal()
    following = readings(number[0]) if number else {}
    return any(values.get(numbering) == value - 1 for numbering, value in following.items())


def _is_doubtful(ordinal: str, head: str, tail: str, values: dict[Numbering, int], rest: str) -> bool:
    if not rest:
        return True
    if "han" in values:
        return False
    if "arabic" in values:
        return values["arabic"] >= 1000 or (tail in ":：" and values["arabic"] != 1)
    if head or tail in ")）":
        return len(ordinal) > 2
    if len(ordinal) == 1:
        return ordinal.isupper() and rest[:1].isupper()
    roman = values.get("upper_roman", values.get("lower_roman"))
    return roman is None or roman > _LARGEST_PLAIN_ROMAN
