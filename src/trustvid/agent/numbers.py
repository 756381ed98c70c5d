"""Reading numbers: the answer to a numeric question, and a stated confidence. Pure; no text makes them raise."""

from __future__ import annotations

import math
import re

from trustvid.agent.reply_text import (
    ANSWER_KEYS,
    BOXED,
    MAX_JSON_STARTS,
    json_values,
    last_tag,
    normalise,
    split_thinking,
)

_NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>(?<![\w)]-)(?<![\w)])[-+])?"
    r"(?:(?P<european>\d{1,3}(?:\.\d{3})+,\d+)|(?P<grouped>\d{1,3}(?:,\d{3})+(?:\.\d+)?)|(?P<plain>\d+(?:[.,]\d+)?|\.\d+))"
    r"(?:e(?P<exponent>[-+]?\d{1,4}))?(?: ?/ ?(?P<divisor>\d+(?:\.\d+)?)(?![\w/]))?(?!\d|(?:st|nd|rd|th|d)\b)",
    re.I,
)
_UNIT = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen"
    "|eighteen|nineteen"
)
_TEN = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_UNITS = {word: value for value, word in enumerate(_UNIT.split("|"))}
_TENS = {word: 10 * value for value, word in enumerate(_TEN.split("|"), start=2)}
_SCALES = {"dozen": 12, "hundred": 100}
_BELOW_100 = rf"(?:(?:{_TEN})(?:[ -](?:{_UNIT})\b)?|(?:{_UNIT})\b)"
_NUMBER_WORDS = re.compile(
    rf"\b(?P<whole>(?:a|{_BELOW_100})(?: (?:hundred|thousand|dozen))(?: (?:and )?{_BELOW_100}(?: hundred)?(?: (?:and )?"
    rf"{_BELOW_100})?)?|{_BELOW_100})\b(?: point (?P<decimals>(?:(?:{_UNIT})\b ?){{1,6}})|(?P<half> and a half))?",
    re.I,
)
_PRONOUN_ONE = re.compile(r"\b(?:no|any|every|some|each|this|that|which|the|another) $", re.I)
_ANSWER_CUE = re.compile(r"\b(?:answer|estimate|total)\b", re.I)


def parse_number(reply: str) -> float | None:
    """The number a reply answers a numeric question with; None when there is none.

    Looks in the last answer tag, else a JSON "answer", else the last box, else after the last "answer" (estimate,
    total), else anywhere; the first number there counts ("2.5 m (8 ft)" is 2.5), in digits or words. Units are not
    converted.

    >>> parse_number("8.8 meters"), parse_number("There are twenty-five chairs"), parse_number("1,250.5")
    (8.8, 25.0, 1250.5)
    """
    visible, tail = split_thinking(normalise(reply))
    tagged = last_tag("answer", tail) or last_tag("answer", visible)
    if tagged is not None:
        return _first_number(tagged)
    for _, _, record in json_values(visible, "{"):
        for key, value in record.items() if isinstance(record, dict) else ():
            if key.casefold() in ANSWER_KEYS and isinstance(value, str | int | float) and not isinstance(value, bool):
                return _first_number(str(value))
    starts = [box.start(1) for box in BOXED.finditer(visible)][-1:]
    starts += [cue.end() for cue in _ANSWER_CUE.finditer(visible)][: -MAX_JSON_STARTS - 1 : -1]
    for start in starts:
        if (number := _first_number(visible[start:])) is not None:
            return number
    return _first_number(visible)


def _first_number(text: str) -> float | None:
    digits = next(((m.start(), value) for m in _NUMBER.finditer(text) if (value := _digits(m)) is not None), None)
    words = next((m for m in _NUMBER_WORDS.finditer(text) if not _is_pronoun(text, m)), None)
    if words and (digits is None or words.start() < digits[0]):
        return _words(words)
    return digits[1] if digits else None


def _digits(match: re.Match[str]) -> float | None:
    if match["european"]:
        body = match["european"].replace(".", "").replace(",", ".")
    else:
        body = match["grouped"].replace(",", "") if match["grouped"] else match["plain"].replace(",", ".")
    value = float(f"{match['sign'] or ''}{body}e{match['exponent'] or 0}")
    if match["divisor"]:
        divisor = float(match["divisor"])
        value = value / divisor if divisor else math.nan
    return value if math.isfinite(value) else None


def _is_pronoun(text: str, match: re.Match[str]) -> bool:
    if match[0].casefold() != "one":
        return False
    after = re.match(r" (?:of|can|could|would|might|must|another)\b", text[match.end() : match.end() + 9])
    return bool(after or _PRONOUN_ONE.search(text[max(0, match.start() - 9) : match.start()]))


def _words(match: re.Match[str]) -> float:
    thousands, group = 0, 0
    for word in re.split(r"[ -]", match["whole"].casefold()):
        if word == "thousand":
            thousands, group = thousands + max(group, 1) * 1000, 0
        elif word in _SCALES:
            group = max(group, 1) * _SCALES[word]
        else:
            group += _UNITS.get(word, _TENS.get(word, 0))
    decimals = "".join(str(_UNITS[word] % 10) for word in (match["decimals"] or "").casefold().split())
    return thousands + group + float(f"0.{decimals or 0}") + (0.5 if match["half"] else 0.0)


_CONFIDENCE = re.compile(
    r"\bconfiden(?:ce|t)\b[^\d\n%]{0,30}?(?P<after>-?\d+(?:[.,]\d+)?|\.\d+) ?(?P<unit>%|percent|/ ?10+)?"
    r"|(?P<before>-?\d+(?:\.\d+)?|\.\d+) ?(?:%|percent) (?:confiden|sure|certain)",
    re.I,
)
_SHARE = re.compile(r"\W*?(?P<number>-?(?:\d+(?:[.,]\d+)?|\.\d+)) ?(?P<unit>%|percent|/ ?10+)?\W*", re.I)


def parse_confidence(reply: str) -> float | None:
    """The probability of being right that a reply states, 0–1; None when it states none, or none in that range.

    Reads the last ``<confidence>`` tag, else "confidence: 0.8", "90% sure", or a reply that is only a number. A number
    above 1 counts as per cent; so does any with "%".

    >>> parse_confidence("<answer>B</answer><confidence>0.83</confidence>"), parse_confidence("83%")
    (0.83, 0.83)
    """
    visible, tail = split_thinking(normalise(reply))
    tagged = last_tag("confidence", tail) or last_tag("confidence", visible)
    if match := _SHARE.fullmatch(visible if tagged is None else tagged):
        return _share(match["number"], match["unit"])
    if tagged is not None:
        return None
    if not (stated := list(_CONFIDENCE.finditer(visible))):
        return None
    last = stated[-1]
    return _share(last["before"], "%") if last["before"] else _share(last["after"], last["unit"])


def _share(number: str, unit: str | None) -> float | None:
    value = float(number.replace(",", "."))
    if unit and unit.startswith("/"):
        value /= float(unit[1:])
    elif unit or value > 1:
        value /= 100
    return value if 0 <= value <= 1 else None
