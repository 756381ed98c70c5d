"""Option texts and answer letters of question files, however they are spelt."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from trustvid.benchmarks.sample import LETTERS

_LETTERED = re.compile(r"\s*[(\[]?([A-Z])\s*[.:)\]．：）]\s*(.*)", re.DOTALL)


def check_options(options: Sequence[str]) -> tuple[str, ...]:
    """Option texts, trimmed. Raises ValueError with the reason when they cannot serve a question."""
    texts = tuple(" ".join(text.split()) for text in options)
    if not texts:
        raise ValueError("no options")
    if len(texts) == 1:
        raise ValueError("only one option")
    if len(texts) > len(LETTERS):
        raise ValueError(f"{len(texts)} options; at most {len(LETTERS)} have a letter")
    if empty := [LETTERS[i] for i, text in enumerate(texts) if not text]:
        raise ValueError(f"option {', '.join(empty)} is empty")
    return texts


def strip_letters(options: Sequence[str]) -> tuple[str, ...]:
    """Options without their own "A. ", "B) ", … when all have one; checked as by :func:`check_options`.

    Raises:
        ValueError: all options are lettered but not A, B, C, … in this order, or :func:`check_options` objects.
    """
    matches = [_LETTERED.fullmatch(text) for text in options]
    if not options or not all(matches):
        return check_options(options)
    check_order([match[1] for match in matches])
    return check_options([match[2] for match in matches])


def check_order(letters: Sequence[str]) -> None:
    """Raise ValueError unless the letters are A, B, C, …"""
    if list(letters) != [chr(ord("A") + i) for i in range(len(letters))]:
        raise ValueError(f"option letters are {', '.join(letters)}; expected A, B, C, … in order")


def normalise_letter(text: str) -> str | None:
    """The option letter in an answer cell (" b ", "B.", "(B)", full-width "Ｂ"), upper case; None if it is not one."""
    match = re.fullmatch(r"[(\[]?([A-Za-z])[)\]]?[.:]?", unicodedata.normalize("NFKC", text).strip())
    return match[1].upper() if match else None
