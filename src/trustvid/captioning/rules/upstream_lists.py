"""The published list checkers (see ``rules/upstream``): every non-blank line is one item, indentation is ignored."""

from __future__ import annotations

import re
from collections.abc import Callable

SEPARATORS = ".)、:．"

# The published tables of numerals end here; larger ones are not numerals to these rules.
_ROMAN = (
    *("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X"),
    *("XI", "XII", "XIII", "XIV", "XV", "XVI", "XVII", "XVIII", "XIX", "XX"),
)
_UPPER_ROMAN = {numeral: value for value, numeral in enumerate(_ROMAN, start=1)}
_LOWER_ROMAN = {numeral.lower(): value for numeral, value in _UPPER_ROMAN.items()}
_HAN = {numeral: value for value, numeral in enumerate("一二三四五六七八九十", start=1)}


def _arabic(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d+", text) else None


def _letter(first: str) -> Callable[[str], int | None]:
    """Letters from ``first`` on. The last letter has no value: the published loop fails as soon as it meets it."""

    def value(text: str) -> int | None:
        place = ord(text) - ord(first) if len(text) == 1 else -1
        return place if 0 <= place < 25 else None

    return value


# Numbering by name: text of an ordinal -> its place in the sequence, None when it is no such ordinal.
_NUMBERING: dict[str, Callable[[str], int | None]] = {
    "arabic": _arabic,
    "upper_letter": _letter("A"),
    "lower_letter": _letter("a"),
    "han": _HAN.get,
    "upper_roman": _UPPER_ROMAN.get,
    "lower_roman": _LOWER_ROMAN.get,
}

# How an item begins in each numbering when no symbol is asked for, in the order they are tried.
_FAMILIES = {
    "arabic": re.compile(r"\d+[.):]\s"),
    "upper_letter": re.compile(r"[A-Z][.)]\s"),
    "lower_letter": re.compile(r"[a-z][.)]\s"),
    "han": re.compile(r"[一二三四五六七八九十]+[.、]\s"),
    "upper_roman": re.compile(r"[IVXLCDM]+[.)]\s"),
    "lower_roman": re.compile(r"[ivxlcdm]+[.)]\s"),
}
_SYMBOL_ORDER = ("arabic", "han", "upper_roman", "lower_roman", "upper_letter", "lower_letter")


def _item_lines(content: str) -> list[str]:
    return [line.strip() for line in content.split("\n") if line.strip()]


def unordered_list(content: str, symbol: str | None = None) -> bool:
    """Every line begins with the symbol (any of ``- * + •`` when there is none) and a blank."""
    lines = _item_lines(content)
    bullet = re.compile(rf"{re.escape(symbol) if symbol else '[-*+•]'}\s")
    return bool(lines) and all(bullet.match(line) for line in lines)


def ordered_list(content: str, symbol: str | None = None) -> bool:
    """Every line is the next item of one numbering.

    With a symbol the list begins with the symbol's own ordinal; without one, with any ordinal.
    """
    lines = _item_lines(content)
    if not lines:
        return False
    if symbol:
        place = max(symbol.rfind(separator) for separator in SEPARATORS)
        ordinal = symbol[:place] if place >= 0 else ""
        for name in _SYMBOL_ORDER:
            first = _NUMBERING[name](ordinal)
            if first is not None:
                return _runs_on(lines, symbol[place], _NUMBERING[name], first)
        return False
    for name, pattern in _FAMILIES.items():
        if all(pattern.match(line) for line in lines):
            separator = next(char for char in lines[0] if char in SEPARATORS)
            first = _NUMBERING[name](lines[0].split(separator, 1)[0])
            if first is not None and _runs_on(lines, separator, _NUMBERING[name], first):
                return True
    return False


def _runs_on(lines: list[str], separator: str, value: Callable[[str], int | None], first: int) -> bool:
    """Whether the lines carry first, first + 1, … each followed by the separator and a blank."""
    for expected, line in enumerate(lines, start=first):
        ordinal, found, rest = line.partition(separator)
        if not found or value(ordinal) != expected or not rest[:1].isspace():
            return False
    return True
