"""Ordinals as lists write them: 1, iv, C, 十一. One text can be in two numberings ("i": a letter, a roman 1)."""

from __future__ import annotations

import re
from typing import Literal

Numbering = Literal["arabic", "han", "upper_roman", "lower_roman", "upper_letter", "lower_letter"]

HAN_DIGITS = "一二三四五六七八九"
_HAN = re.compile(rf"(?:([{HAN_DIGITS}])?(百))?(?:零?([{HAN_DIGITS}])?(十))?零?([{HAN_DIGITS}])?")
_ROMAN = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})", re.IGNORECASE)
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
# Longer digit runs are no ordinals; the bound also keeps int() linear.
_MAX_DIGITS = 9


def roman(text: str) -> int | None:
    """Value of a canonical roman numeral in one case (1–3999), else None.

    >>> roman("xiv"), roman("IIII"), roman("iV")
    (14, None, None)
    """
    if not text or not (text.isupper() or text.islower()) or not _ROMAN.fullmatch(text):
        return None
    digits = [_ROMAN_VALUES[char] for char in text.upper()]
    return sum(
        -digit if digit < following else digit for digit, following in zip(digits, [*digits[1:], 0], strict=True)
    )


def han(text: str) -> int | None:
    """Value of a Chinese numeral up to 999, else None.

    >>> han("十一"), han("二十"), han("一百零二"), han("百十零")
    (11, 20, 102, None)
    """
    found = _HAN.fullmatch(text)
    if not text or not found or text.endswith("零"):
        return None
    hundreds, hundred, tens, ten, units = found.groups()
    return (
        (HAN_DIGITS.index(hundreds) + 1 if hundreds else 1) * 100 * bool(hundred)
        + (HAN_DIGITS.index(tens) + 1 if tens else 1) * 10 * bool(ten)
        + (HAN_DIGITS.index(units) + 1 if units else 0)
    )


def letters(text: str) -> int | None:
    """Place of one or two ASCII letters of one case: a = 1, z = 26, aa = 27; else None.

    >>> letters("C"), letters("ab"), letters("aB")
    (3, 28, None)
    """
    if len(text) not in (1, 2) or not (text.isascii() and text.isalpha() and (text.isupper() or text.islower())):
        return None
    value = 0
    for char in text.lower():
        value = value * 26 + ord(char) - ord("a") + 1
    return value


def readings(text: str) -> dict[Numbering, int]:
    """Every numbering that ``text`` can belong to, with its place there; empty when it is no ordinal.

    >>> readings("i")
    {'lower_roman': 1, 'lower_letter': 9}
    """
    found: dict[Numbering, int] = {}
    if text.isdecimal() and len(text) <= _MAX_DIGITS:
        found["arabic"] = int(text)
    elif (value := han(text)) is not None:
        found["han"] = value
    elif text.isascii() and text.isalpha():
        side = "upper" if text[0].isupper() else "lower"
        for kind, value in (("roman", roman(text)), ("letter", letters(text))):
            if value is not None:
                found[f"{side}_{kind}"] = value  # type: ignore[index]
    return found
