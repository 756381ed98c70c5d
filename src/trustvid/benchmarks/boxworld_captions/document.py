"""A response as a plan: pieces in a layout, with everything about its form that can be right or wrong.

A right response is a plan; a violation is a change of one field of it. Because the plan is known, so are the texts that
each format constraint is about: what a perfect judge would extract.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Layout = Literal["prose", "object", "array", "numbered", "bulleted", "table", "tags", "document"]

ORDINALS = {
    "1.": [f"{number}." for number in range(1, 40)],
    "A.": [f"{chr(65 + number)}." for number in range(26)],
    "a.": [f"{chr(97 + number)}." for number in range(26)],
    "i.": ["i.", "ii.", "iii.", "iv.", "v.", "vi.", "vii.", "viii.", "ix.", "x.", "xi.", "xii."],
    "I.": ["I.", "II.", "III.", "IV.", "V.", "VI.", "VII.", "VIII.", "IX.", "X.", "XI.", "XII."],
}


@dataclass(frozen=True)
class Piece:
    """One part of a response.

    Attributes:
        heading: JSON key, or name of the row.
        text: what it says.
        claim: index of the claim it makes; None for filler.
    """

    heading: str
    text: str
    claim: int | None = None


@dataclass(frozen=True)
class Document:
    """A response to be.

    Attributes:
        layout: how pieces are put together.
        pieces: in order.
        title: heading of a "document".
        prefix, suffix: what stands before and after, on lines of their own around lists and tables.
        markers: marker of each piece in lists (the last one is repeated when there are more pieces).
        symbol: between tags.
        columns: header of a table.
        separator: whether a table has its separator row.
        paragraphs: whether pieces of prose stand in paragraphs of their own.
        joined: whether pieces of prose need no blanks between them (Chinese).
        more_keys: further keys of an object (not pieces: nothing asks for them).
        wrapped: whether an array stands inside an object.
        cut: whether the last bracket of JSON is missing.
        marked: mark around a text, by that text: {"CAFE": "**"}; the first occurrence gets it.
        heading_mark: what makes the title a heading.
    """

    layout: Layout
    pieces: tuple[Piece, ...]
    title: str = ""
    prefix: str = ""
    suffix: str = ""
    markers: tuple[str, ...] = ("-",)
    symbol: str = ";"
    columns: tuple[str, ...] = ("Aspect", "Description")
    separator: bool = True
    paragraphs: bool = False
    joined: bool = False
    more_keys: tuple[tuple[str, Any], ...] = ()
    wrapped: bool = False
    cut: bool = False
    marked: tuple[tuple[str, str], ...] = field(default=())
    heading_mark: str = "# "

    # -- the text ------------------------------------------------------------------------------------------------------

    def render(self) -> str:
        """The response."""
        body = self.body
        gap = {"prose": "\n\n" if self.paragraphs else " ", "document": "\n\n"}.get(self.layout, "\n")
        gap = "" if self.joined else gap
        return gap.join(part for part in (self.prefix, body, self.suffix) if part)

    @property
    def body(self) -> str:
        """What stands between prefix and suffix."""
        return {
            "prose": self._prose,
            "document": lambda: f"{self.heading_mark}{self.title}\n\n{self._prose()}",
            "object": self._json,
            "array": self._json,
            "numbered": self._list,
            "bulleted": self._list,
            "table": self._table,
            "tags": lambda: f"{self.symbol} ".join(self.texts),
        }[self.layout]()

    @property
    def texts(self) -> list[str]:
        """Texts of the pieces, with their marks."""
        left = dict(self.marked)
        found = []
        for piece in self.pieces:
            text = piece.text
            for target in [target for target in left if target in text]:
                mark = left.pop(target)
                text = text.replace(target, f"{mark}{target}{mark}", 1)
            found.append(text)
        return found

    @property
    def value(self) -> Any:
        """The JSON value of an object or array."""
        if self.layout == "object":
            pairs = zip((piece.heading for piece in self.pieces), self.texts, strict=True)
            return {**dict(pairs), **dict(self.more_keys)}
        return {"items": self.texts} if self.wrapped else self.texts

    def _json(self) -> str:
        text = json.dumps(self.value, ensure_ascii=False, indent=2)
        return text[:-1].rstrip() if self.cut else text

    def _prose(self) -> str:
        return ("" if self.joined else "\n\n" if self.paragraphs else " ").join(self.texts)

    def _list(self) -> str:
        markers = [self.markers[min(place, len(self.markers) - 1)] for place in range(len(self.pieces))]
        return "\n".join(f"{marker} {text}" for marker, text in zip(markers, self.texts, strict=True))

    def _table(self) -> str:
        rows = [f"| {' | '.join(self.columns)} |"]
        if self.separator:
            rows.append("|" + " --- |" * len(self.columns))
        rows += [f"| {piece.heading} | {text} |" for piece, text in zip(self.pieces, self.texts, strict=True)]
        return "\n".join(rows)

    # -- changes -------------------------------------------------------------------------------------------------------

    def with_text(self, place: int, text: str) -> Document:
        """Another text in one piece."""
        pieces = list(self.pieces)
        pieces[place] = replace(pieces[place], text=text)
        return replace(self, pieces=tuple(pieces))

    def with_piece(self, piece: Piece) -> Document:
        """One more piece at the end."""
        return replace(self, pieces=(*self.pieces, piece))

    def with_tail(self, place: int, tail: str) -> Document:
        """Words added to one piece, before its full stop."""
        text = self.pieces[place].text
        stop = text[-1] if text and text[-1] in ".。" else ""
        blank = "" if self.joined else " "
        return self.with_text(place, f"{text.removesuffix(stop)}{blank}{tail}{stop}")

    def replaced(self, old: str, new: str) -> Document:
        """Words put for others in all pieces, in whatever case they were turned to."""
        pieces = []
        for piece in self.pieces:
            text = piece.text
            for turn in (str, str.upper, str.lower):
                text = text.replace(turn(old), turn(new))
            pieces.append(replace(piece, text=text))
        return replace(self, pieces=tuple(pieces))

    def place_of(self, heading: str) -> int:
        """Index of the piece with a heading."""
        return [piece.heading for piece in self.pieces].index(heading)
