"""Wording rules as a careful reader applies them: plain text, keyword, prefix and suffix, delimiter, case."""

from __future__ import annotations

import json
import string
import unicodedata
from functools import lru_cache
from typing import Any

from trustvid.captioning.rules.json_schema import require_depth
from trustvid.captioning.rules.strict.markdown import markup_of
from trustvid.captioning.rules.strict.markers import list_markers
from trustvid.captioning.rules.strict.structure import looks_like_table
from trustvid.captioning.rules.verdict import CannotCheck, Finding

_MAX_KEYWORD = 1_000


def plain_text(content: str) -> Finding:
    """Prose without any markup.

    Markup is: a JSON object or array as the whole text (a lone number, ``true`` or a quoted sentence is prose), list
    items, a table, Markdown headings, bold, italic, code, highlight, strike-through, block quotes, links, HTML tags.
    A line of dashes is a separator, not a heading; JSON inside a sentence is prose. Blank text is no text: it fails.
    """
    if not content.strip():
        return Finding(False, "there is no text")
    if _is_json_container(content.strip()):
        return Finding(False, "the whole text is JSON")
    markers = list_markers(content)
    if markers:
        number = min(markers)
        return Finding(False, f"line {number + 1} is a list item: {content.splitlines()[number][:60].strip()!r}")
    if looks_like_table(content):
        return Finding(False, "the text holds a table")
    for found in markup_of(content):
        if not (found.kind == "title" and found.mark.startswith("-")):
            return Finding(False, f"the text holds Markdown markup ({found.kind}): {found.text[:60]!r}")
    return Finding(True, "prose without markup")


def _is_json_container(text: str) -> bool:
    if (text[0], text[-1]) not in {("{", "}"), ("[", "]")}:
        return False
    require_depth(text)
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def keyword(content: str, keyword: Any, keyword_type: Any) -> Finding:
    """The keyword occurs as a word (``include``) or does not (``exclude``); an empty keyword always passes.

    A word: not a part of a longer word ("car" is not in "carpet", nor in "cars"; inflected forms are other words).
    Scripts without spaces (Chinese, Japanese, Korean, Thai) have no such borders, nor have signs ("C++"). Case, runs
    of blanks and composed or decomposed accents make no difference.
    """
    if keyword is None or keyword == "":
        return Finding(True, "no keyword is asked for")
    if not isinstance(keyword, str):
        raise CannotCheck(f"keyword must be text, not {type(keyword).__name__}")
    found = count_keyword(content, keyword)
    if keyword_type not in ("include", "exclude"):
        return Finding(False, f"keyword_type {keyword_type!r} is neither 'include' nor 'exclude'")
    fact = f"{keyword[:60]!r} occurs {found} times as a word"
    return Finding(found > 0 if keyword_type == "include" else found == 0, fact)


def count_keyword(text: str, keyword: str) -> int:
    """How often ``keyword`` occurs in ``text`` as a word (see :func:`keyword`), overlaps not counted.

    >>> count_keyword("The car follows a cart and another car.", "car")
    2
    """
    if len(keyword) > _MAX_KEYWORD:
        raise CannotCheck(f"the keyword has {len(keyword):,} characters; at most {_MAX_KEYWORD:,} are checked")
    text, wanted = _folded(text), _folded(keyword)
    if not wanted:
        return 0
    count, position = 0, text.find(wanted)
    while position >= 0:
        end = position + len(wanted)
        joined_left = position > 0 and _in_word(wanted[0]) and _in_word(text[position - 1])
        joined_right = end < len(text) and _in_word(wanted[-1]) and _in_word(text[end])
        whole = not joined_left and not joined_right
        count += whole
        position = text.find(wanted, end if whole else position + 1)
    return count


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


# Scripts written without spaces between words, or with particles glued to nouns.
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR", "IDEOGRAPHIC")


@lru_cache(maxsize=4096)
def _in_word(char: str) -> bool:
    """Whether a character next to another such one is part of the same word."""
    if char == "_":
        return True
    if unicodedata.category(char)[0] not in "LMN":
        return False
    return char.isascii() or not unicodedata.name(char, "").startswith(_UNSPACED)


def prefix_suffix(content: str, prefix: Any = None, suffix: Any = None) -> Finding:
    """The text begins with ``prefix`` and ends with ``suffix``, letter by letter; a null or empty side is free.

    The beginning is literal: no blank, quote or markup may stand before it. Blanks after the end do not matter, and
    closing punctuation may follow the suffix ("END!", "END…", "END”", "(end)."). One exception: a suffix that is a
    mark set off by a blank (" ---") closes the text, so nothing but blanks may follow it.
    """
    for name, side in (("prefix", prefix), ("suffix", suffix)):
        if side is not None and not isinstance(side, str):
            raise CannotCheck(f"{name} must be text or null, not {type(side).__name__}")
    if prefix and not content.startswith(prefix):
        return Finding(False, f"the text begins with {content[: len(prefix) + 10][:80]!r}, not {prefix[:60]!r}")
    if suffix and not _ends_with(content, suffix):
        return Finding(False, f"the text ends with {content[-len(suffix) - 10 :][-80:]!r}, not {suffix[:60]!r}")
    return Finding(True, "begins and ends as asked")


def _ends_with(content: str, suffix: str) -> bool:
    if not suffix.strip():
        return content.endswith(suffix)
    suffix = suffix.rstrip()
    content = content.rstrip()
    if content.endswith(suffix):
        return True
    if suffix[0].isspace() and all(map(_is_mark, suffix.strip())):
        return False
    end = len(content)
    while end and (_is_mark(content[end - 1]) or content[end - 1].isspace()):
        end -= 1
        if content.endswith(suffix, 0, end):
            return True
    return False


def _is_mark(char: str) -> bool:
    return char in string.punctuation or unicodedata.category(char).startswith("P")


def delimiter(content: str, symbol: Any) -> Finding:
    """The symbol stands literally between at least two non-blank parts; half- and full-width forms differ."""
    if not isinstance(symbol, str) or not symbol:
        raise CannotCheck(f"symbol must be non-empty text, not {symbol!r:.60}")
    parts = split_parts(content, symbol)
    return Finding(len(parts) >= 2, f"{symbol!r:.60} separates {len(parts)} parts")


def split_parts(text: str, symbol: str) -> list[str]:
    """Non-blank parts between the occurrences of ``symbol``, none when it does not occur.

    >>> split_parts("walks in | sun sets |", "|")
    ['walks in', 'sun sets']
    """
    return [part.strip() for part in text.split(symbol) if part.strip()] if symbol in text else []


def case(content: str, case_type: Any) -> Finding:
    """Every Latin letter, accented ones included, has the case; other scripts and digits have none and do not matter.

    Title case: each word begins with a capital and goes on in lower case, small words and both halves of a hyphenated
    word too; acronyms may stand in it but not be all of it; what follows an apostrophe is free to be lower case; words
    that begin with a digit ("3rd") are left out. Blank text fails; so does an unknown case type.
    """
    if not content.strip():
        return Finding(False, "there is no text")
    words = _latin_words(content)
    if case_type in ("upper", "lower"):
        fits = str.isupper if case_type == "upper" else str.islower
        wrong = next((word for word in words if not all(fits(char) for char in word if _is_cased(char))), None)
    elif case_type == "title":
        capitals = [word for word in words if _all_caps(word)]
        if words and len(capitals) == len(words) and any(_letters(word) > 1 for word in words):
            return Finding(False, "every word is in capitals")
        wrong = next((word for word in words if not (_all_caps(word) or _is_title(word))), None)
    else:
        return Finding(False, f"case_type {case_type!r} is none of upper, lower, title")
    return Finding(wrong is None, f"{wrong[:60]!r} is not in {case_type} case" if wrong else f"all in {case_type} case")


def _latin_words(text: str) -> list[str]:
    """Runs of Latin letters with inner apostrophes and digits; a run that begins with a digit keeps it."""
    return [found for found in _word_pattern().findall(unicodedata.normalize("NFC", text)) if not found.isdigit()]


@lru_cache(maxsize=1)
def _word_pattern() -> Any:
    import regex

    return regex.compile(r"[\p{Latin}\d]+(?:['’][\p{Latin}\d]+)*")


def _is_cased(char: str) -> bool:
    return char.isupper() or char.islower() or char.istitle()


def _letters(word: str) -> int:
    return sum(map(str.isalpha, word))


def _all_caps(word: str) -> bool:
    return word[0].isalpha() and all(char.isupper() for char in word if _is_cased(char))


def _is_title(word: str) -> bool:
    if word[0].isdigit():
        return True
    first, *rest = word.replace("’", "'").split("'")
    return _capitalised(first) and all(part.islower() or part.isdigit() or _capitalised(part) for part in rest)


def _capitalised(part: str) -> bool:
    letters = [char for char in part if _is_cased(char)]
    return bool(letters) and not letters[0].islower() and all(char.islower() for char in letters[1:])
