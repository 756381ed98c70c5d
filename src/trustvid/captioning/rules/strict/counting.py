"""Counts as a careful reader makes them: characters, words, sentences, paragraphs, and listed things."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from trustvid.captioning.rules.strict.markers import list_markers, strip_markers
from trustvid.captioning.rules.verdict import CannotCheck, Finding


def length(content: str, unit: Any, min_len: Any = 0, max_len: Any = -1) -> Finding:
    """Size of the text in ``unit``, bounds included; list markers ("1.", "-") are not part of the text.

    See :func:`count_words`, :func:`count_characters`, :func:`count_sentences` and :func:`count_paragraphs` for what
    counts. A null or negative maximum is no limit, 0 is one. An unknown unit fails.
    """
    low, high = _bounds(("min_len", min_len), ("max_len", max_len))
    measure = _UNITS.get(unit) if isinstance(unit, str) else None
    if measure is None:
        return Finding(False, f"unit {unit!r:.60} is none of {', '.join(_UNITS)}")
    return _within(measure(content), low, high, f"{unit}s")


def count(content: str, min_count: Any = 0, max_count: Any = -1) -> Finding:
    """Number of things listed as ``(first),(second)``, bounds included; a null or negative maximum is no limit.

    See :func:`count_groups` for what is one thing.
    """
    low, high = _bounds(("min_count", min_count), ("max_count", max_count))
    return _within(count_groups(content), low, high, "things")


def _bounds(low: tuple[str, Any], high: tuple[str, Any]) -> tuple[float, float | None]:
    for name, value in (low, high):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise CannotCheck(f"{name} must be a number or null, not {value!r:.60}")
    maximum = high[1]
    return low[1] or 0, None if maximum is None or maximum < 0 else maximum


def _within(number: int, low: float, high: float | None, what: str) -> Finding:
    asked = f"at least {low:g}" if high is None else f"{low:g} to {high:g}"
    return Finding(number >= low and (high is None or number <= high), f"{number} {what}, asked for {asked}")


# ---------------------------------------------------------------------------------------------------------- length


@lru_cache(maxsize=1)
def _word() -> Any:
    import regex

    unspaced = r"\p{Han}\p{Hiragana}\p{Katakana}"
    letter = rf"(?:(?![{unspaced}])[\p{{L}}\p{{M}}\p{{N}}])"
    return regex.compile(
        r"(?:https?://|www\.)[^\s\p{Han}]+"  # an address
        rf"|(?:(?<![\p{{L}}\p{{N}}])\p{{L}}\.){{2,}}(?:\p{{L}}(?![\p{{L}}\p{{N}}]))?"  # U.S., e.g.
        rf"|\p{{Nd}}+(?:[.,:]\p{{Nd}}+)+{letter}*"  # 3.5, 1,000, 12:30
        rf"|{letter}+(?:['’ʼ\-‐‑]{letter}+)*"  # don't, well-known, 3D
        rf"|[{unspaced}]"
    )


def count_words(text: str) -> int:
    """Words, as an editor would count them.

    One word each: a run of letters and digits, with inner apostrophes and hyphens (don't, well-known, 3D, v2, café);
    a number with its points and colons (3.5, 1,000, 12:30); a dotted abbreviation (U.S., e.g.); an address; every Han
    character and kana. Slashes, underscores and dashes separate. Signs and emoji are no words. Korean is counted by
    its spaces. Limit: scripts without spaces other than Chinese and Japanese (Thai) give one word a run.

    >>> count_words("It's a well-known co-op"), count_words("他用iPhone拍照"), count_words("U.S. flag, 3.5 m")
    (4, 5, 4)
    """
    return sum(1 for _ in _word().finditer(unicodedata.normalize("NFC", text)))


@lru_cache(maxsize=1)
def _grapheme() -> Any:
    import regex

    return regex.compile(r"\X")


_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]{2}")
_BLANK_CATEGORIES = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})


def count_characters(text: str, punctuation: bool = True) -> int:
    """Visible characters: user-perceived ones (an emoji family is one), blanks and line breaks left out.

    Args:
        text: the text.
        punctuation: whether punctuation counts; the length rule counts it.

    >>> count_characters("ab\\tc d"), count_characters("一个人走过街道。", punctuation=False)
    (4, 7)
    """
    if text.isascii():
        clusters: Any = text
    else:
        # A flag is two regional letters; the pattern engine looks all the way back to pair them.
        clusters = _grapheme().findall(_FLAG.sub("\N{WAVING WHITE FLAG}", text))
    return sum(_is_visible(cluster, punctuation) for cluster in clusters)


@lru_cache(maxsize=4096)
def _is_visible(cluster: str, punctuation: bool) -> bool:
    categories = {unicodedata.category(char) for char in cluster} - _BLANK_CATEGORIES
    return bool(categories) and (punctuation or not all(category[0] == "P" for category in categories))


_ELLIPSIS_PAUSE = re.compile(r"(?<=\.\.\.)\s+")
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
# Far above any paragraph of a caption.
_MAX_CHUNK = 5_000
_STOP = re.compile(r"[.!?]\s|[。！？]")
_HAS_WORD = re.compile(r"[^\W_]")


def count_sentences(text: str) -> int:
    """Sentences with at least one letter or digit; the last one needs no full stop.

    Abbreviations, initials, decimals and addresses do not end a sentence (the sentencex splitter decides). Three full
    stops and a blank do; the character … alone is a pause. A blank line and a new list item end a sentence, a plain
    line break does not.

    >>> count_sentences("Dr. Lee drove 3.5 km. He stopped"), count_sentences("他走了。她来了！谁在那？")
    (2, 3)
    """
    import sentencex

    language = "zh" if re.search(r"[\u4e00-\u9fff]", text) else "en"
    pieces = (
        sentence
        for block in _blocks(text)
        for part in _ELLIPSIS_PAUSE.split(block)
        for chunk in _chunks(part)
        for sentence in sentencex.segment(language, chunk)
    )
    return sum(_HAS_WORD.search(piece) is not None for piece in pieces)


def _chunks(text: str) -> Iterator[str]:
    """``text`` in pieces small enough for the splitter, quadratic on unmatched quotes; cut after a stop if possible."""
    while len(text) > _MAX_CHUNK:
        stops = [found.end() for found in _STOP.finditer(text, _MAX_CHUNK // 2, _MAX_CHUNK)]
        cut = stops[-1] if stops else _MAX_CHUNK
        yield text[:cut]
        text = text[cut:]
    yield text


def _blocks(text: str) -> list[str]:
    """Paragraphs and list items, markers taken off."""
    text = re.sub(r"\r\n?", "\n", text)
    items = set(list_markers(text))
    lines = strip_markers(text).split("\n")
    opened = [f"\n{line}" if number in items else line for number, line in enumerate(lines)]
    return _BLANK_LINE.split("\n".join(opened))


def count_paragraphs(text: str) -> int:
    """Pieces of text between blank lines; a line of blanks is blank, whatever the line ends are."""
    return sum(bool(piece.strip()) for piece in _BLANK_LINE.split(re.sub(r"\r\n?", "\n", text)))


_UNITS: dict[str, Callable[[str], int]] = {
    "character": lambda text: count_characters(strip_markers(text)),
    "word": lambda text: count_words(strip_markers(text)),
    "sentence": count_sentences,
    "paragraph": count_paragraphs,
}

# ----------------------------------------------------------------------------------------------------------- count

_BETWEEN_GROUPS = re.compile(r"\)\s*[,，、;；]\s*\(")
_ONLY_SEPARATORS = re.compile(r"[\s,，、;；]*")
_FLAT_GROUP = re.compile(r"\(([^()]+)\)")


def count_groups(text: str) -> int:
    """Things in a listing like ``(a),(b)``: outermost parentheses with something inside.

    Full-width parentheses count; parentheses inside a thing belong to it; a pair that only wraps the others is no
    thing. Where parentheses do not match (emoticons), "),(" separates.

    >>> count_groups("(a car (red) and (blue)),(dog)"), count_groups("((a),(b))"), count_groups("(smile :)),(sad :()")
    (2, 2, 2)
    """
    text = text.replace("（", "(").replace("）", ")").strip()
    groups = _outermost(text)
    if groups is None:
        if text.startswith("(") and text.endswith(")"):
            return sum(bool(part.strip()) for part in _BETWEEN_GROUPS.split(text[1:-1]))
        return sum(bool(inside.strip()) for inside in _FLAT_GROUP.findall(text))
    while len(groups) == 1 and f"({groups[0]})" == text:
        inner = _outermost(groups[0])
        if not inner or not _ONLY_SEPARATORS.fullmatch(_between(groups[0])):
            break
        text, groups = groups[0], inner
    return sum(bool(inside.strip()) for inside in groups)


def _outermost(text: str) -> list[str] | None:
    """Insides of the outermost pairs of parentheses, None when they do not match."""
    groups, depth, start = [], 0, 0
    for found in re.finditer(r"[()]", text):
        if found[0] == "(":
            start = found.end() if depth == 0 else start
            depth += 1
        else:
            depth -= 1
            if depth < 0:
                return None
            if depth == 0:
                groups.append(text[start : found.start()])
    return groups if depth == 0 else None


def _between(text: str) -> str:
    """``text`` without its outermost parenthesised groups (which match)."""
    parts, depth, end = [], 0, 0
    for found in re.finditer(r"[()]", text):
        if found[0] == "(":
            if depth == 0:
                parts.append(text[end : found.start()])
            depth += 1
        else:
            depth -= 1
            end = found.end()
    return "".join(parts) + text[end:]
