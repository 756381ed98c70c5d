"""Which language a text is in: scripts first, then a detector that gives the same answer in every process."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from trustvid.captioning.rules.verdict import Finding

# What the detector tells English from. Each language costs some 15 MB; a text in another one is judged by its script.
_ALTERNATIVES = (
    *("FRENCH", "SPANISH", "GERMAN", "ITALIAN", "PORTUGUESE", "DUTCH"),
    *("SWEDISH", "POLISH", "TURKISH", "VIETNAMESE", "INDONESIAN"),
)
# Another language must be this many times as likely as English; with fewer words than three, with a single lower-case
# word (the rest may be names), or beside plainly English small words, much more so. Measured on some 4,000 real English
# replies and lines of them (under 0.3 % rejected, most of those in another language) and 37 foreign sentences.
_RATIO, _RATIO_DOUBTFUL = 2.0, 6.0
_FEW_WORDS = 3
_ENGLISH_CUES = frozenset({"the", "and", "of", "with", "from", "his", "their", "this", "that"})
# Up to this share of words with accents are borrowed ones (café, piñata); they say nothing about the language.
_BORROWED_SHARE = 0.25
_MAX_DETECTED = 50_000

_QUOTED = re.compile(r"“[^“”\n]*”|「[^「」\n]*」|«[^«»\n]*»|\"[^\"\n]*\"")


def language(content: str, lang_type: Any) -> Finding:
    """The text is written in English (``en``) or Chinese (``zh``); any other code fails.

    English: all letters are Latin, and no other language is clearly more likely (names, titles in capitals and single
    words pass, for they have none).
    Chinese: Han characters, no kana and no other script. Latin names, acronyms, letters and units may stand in it
    (BMW, T恤, 3 km), lower-case foreign words may not, and three or more Latin words need twice as many Han characters.
    In both, words of another script inside quotation marks are quotes from the video, not the writer's own, as long as
    they are the smaller part. Limits: simplified and traditional characters are both Chinese; Japanese without kana
    passes as Chinese; Latin-script languages outside the detector's list may pass as English.
    """
    checks = {"en": _english_fault, "zh": _chinese_fault}
    if not isinstance(lang_type, str) or lang_type not in checks:
        return Finding(False, f"lang_type {lang_type!r:.60} is none of {', '.join(checks)}")
    fault = checks[lang_type](content)
    return Finding(fault is None, fault or f"reads as {lang_type}")


def _english_fault(text: str) -> str | None:
    letters, latin = _patterns()["letter"], _patterns()["latin"]
    if not letters.search(text):
        return "there are no letters"
    own = _without_foreign_quotes(text, latin)
    foreign = next((char for char in letters.findall(own) if not latin.match(char)), None)
    if foreign:
        return f"{foreign!r} is no Latin letter"
    return _other_language(own)


def _chinese_fault(text: str) -> str | None:
    patterns = _patterns()
    own = _without_foreign_quotes(text, patterns["han"])
    characters = len(patterns["han"].findall(own))
    if not characters:
        return "there are no Han characters"
    foreign = next((char for char in patterns["letter"].findall(own) if not patterns["han_or_latin"].match(char)), None)
    if foreign:
        return f"{foreign!r} belongs to another script"
    words = list(patterns["latin_word"].finditer(own))
    common = next((found[0] for found in words if _is_common_word(found, own)), None)
    if common:
        return f"{common!r} is a foreign word"
    if len(words) > 2 and 2 * len(words) > characters:
        return f"{len(words)} Latin words are too many beside {characters} Han characters"
    return None


def _is_common_word(found: re.Match, text: str) -> bool:
    """A lower-case word of two letters or more that is no unit after a number."""
    word, before = found[0], text[max(found.start() - 2, 0) : found.start()].rstrip()
    is_unit = len(word) <= 3 and before[-1:].isdecimal()
    return len(word) > 1 and word.islower() and word.isalpha() and not is_unit


def _without_foreign_quotes(text: str, own_script: Any) -> str:
    """``text`` without quotations that hold another script, unless they are the larger part of its words."""
    letter, unit = _patterns()["letter"], _patterns()["unit"]

    def drop(quote: re.Match) -> str:
        return " " if any(not own_script.match(char) for char in letter.findall(quote[0])) else quote[0]

    kept = _QUOTED.sub(drop, text)
    return kept if 2 * len(unit.findall(kept)) >= len(unit.findall(text)) else text


def _other_language(text: str) -> str | None:
    """Why a text in Latin letters is not English, None when it is or when nobody could tell."""
    # Each word once: the repeated keys of a JSON reply would otherwise outweigh what it says.
    words = list(dict.fromkeys(_patterns()["latin_run"].findall(text[:_MAX_DETECTED])))
    small = sum(word[0].islower() for word in words)
    shouted = all(word.isupper() for word in words)
    if len(words) < 2 or (small == 0 and not shouted):
        return None
    plain = [word for word in words if word.isascii()]
    if len(words) - len(plain) <= len(words) * _BORROWED_SHARE:
        words = plain
    values = _detector().compute_language_confidence_values(" ".join(words))
    scores = {found.language.name: found.value for found in values}
    english = scores.pop("ENGLISH", 0.0)
    rival, score = max(scores.items(), key=lambda item: (item[1], item[0]))
    few = len(words) < _FEW_WORDS or (small == 1 and not shouted)
    ratio = _RATIO_DOUBTFUL if few or _ENGLISH_CUES.intersection(map(str.lower, words)) else _RATIO
    if score <= ratio * english:
        return None
    return f"reads as {rival.capitalize()} ({score:.2f}) rather than English ({english:.2f})"


@lru_cache(maxsize=1)
def _detector() -> Any:
    from lingua import Language, LanguageDetectorBuilder

    names = ("ENGLISH", *_ALTERNATIVES)
    return LanguageDetectorBuilder.from_languages(*(getattr(Language, name) for name in names)).build()


@lru_cache(maxsize=1)
def _patterns() -> dict[str, Any]:
    import regex

    sources = {
        "letter": r"\p{L}",
        "unit": r"\p{Han}|(?:(?!\p{Han})\p{L})+",
        "latin": r"\p{Latin}",
        "han": r"\p{Han}",
        "han_or_latin": r"[\p{Han}\p{Latin}]",
        "latin_run": r"\p{Latin}+(?:['’]\p{Latin}+)*",
        "latin_word": r"[\p{Latin}\p{N}]*\p{Latin}[\p{Latin}\p{N}]*(?:['’\-][\p{Latin}\p{N}]+)*",
    }
    return {name: regex.compile(source) for name, source in sources.items()}
