"""The published rule checkers, verdict for verdict, their faults included (``rules=upstream``).

Written from a description of their behaviour and its oracle, not from their code. Nothing here is an opinion: what a
careful reader expects lives in ``rules/strict``. Parameters are named arguments, as published: a missing or an unknown
one, a null where a value is needed, a number that is text, all raise, and the dispatcher turns that into "unscored".

Every function takes one content element and says whether the published checker accepts it. Where the published
regular expressions would need quadratic time on hostile text, an equivalent linear scan stands in.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from typing import Any

from trustvid.captioning.rules.json_schema import require_depth, violation
from trustvid.captioning.rules.upstream_lists import ordered_list, unordered_list

_HAN_DIGITS = "一二三四五六七八九十"
_LIST_LINE = re.compile(
    rf"\s*(?:[-*+•]|\d+[.)]|[a-zA-Z][.)]|[{_HAN_DIGITS}]+[.、]|[IVXLCDM]+[.)])\s",
)
_TABLE_RULE = re.compile(r"\|[\s:-]+\|")


def plain_text(content: str) -> bool:
    """False for text that is a JSON value as a whole, has a list line, or an empty or separator table cell."""
    if _is_json(content):
        return False
    if any(_LIST_LINE.match(line) for line in content.split("\n")):
        return False
    return _TABLE_RULE.search(content) is None


def _is_json(content: str) -> bool:
    if content.lstrip()[:1] in ("[", "{"):
        require_depth(content)
    try:
        json.loads(content)
    except json.JSONDecodeError:
        return False
    return True


def json_object(content: str, schema: Any) -> bool:
    """From the first ``{`` to the last ``}``: Python JSON, an object, and valid under ``schema``."""
    return _json_between(content, "{}", dict, schema)


def json_array(content: str, schema: Any) -> bool:
    """From the first ``[`` to the last ``]``: Python JSON, an array, and valid under ``schema``."""
    return _json_between(content, "[]", list, schema)


def _json_between(content: str, brackets: str, kind: type, schema: Any) -> bool:
    start, end = content.find(brackets[0]), content.rfind(brackets[1])
    if start < 0 or end < start:
        return False
    require_depth(content[start : end + 1])
    try:
        value = json.loads(content[start : end + 1])
    except json.JSONDecodeError:
        return False
    return isinstance(value, kind) and violation(value, schema) is None


# Paired markup that the published checker takes out of header cells, in its order.
_CELL_MARKUP = tuple(
    re.compile(pattern)
    for pattern in (r"\*\*(.*?)\*\*", r"__(.*?)__", r"\*(.*?)\*", r"_(.*?)_", r"==(.*?)==", r"`(.*?)`", r"~~(.*?)~~")
)
_SEPARATOR_LINE = re.compile(r"[\s|:-]+")


def table(content: str, col_name: list[str]) -> bool:
    """The first two lines are a header with exactly ``col_name`` and a line of blanks, ``|``, ``:`` and ``-``."""
    lines = content.strip().split("\n")
    if len(lines) < 2 or "|" not in lines[0] or "|" not in lines[1]:
        return False
    if not _SEPARATOR_LINE.fullmatch(lines[1]):
        return False
    cells = [cell.strip() for cell in lines[0].split("|")]
    header = [_without_markup(cell) for cell in cells if cell]
    return header == [_without_markup(name) for name in col_name]


def _without_markup(text: str) -> str:
    for pattern in _CELL_MARKUP:
        text = pattern.sub(r"\1", text)
    return text.strip()


def keyword(content: str, keyword: str | None, keyword_type: str) -> bool:
    """Case-insensitive substring, present (``include``) or absent (``exclude``); an empty keyword always passes."""
    if not keyword:
        return True
    found = keyword.lower() in content.lower()
    return {"include": found, "exclude": not found}.get(keyword_type, False)


_MARKDOWN = {
    "title": re.compile(r"^#{1,6}\s+.+$", re.MULTILINE),
    "bold": re.compile(r"\*\*.+?\*\*|__.+?__"),
    "italic": re.compile(r"\*.+?\*|_.+?_"),
    "highlight": re.compile(r"==.+?==|`.+?`"),
    "code": re.compile(r"```[\s\S]*?```|`.+?`"),
}


def markdown(content: str, md_type: str) -> bool:
    """One occurrence of the markup anywhere; the patterns overlap (bold is italic, code is a highlight)."""
    pattern = _MARKDOWN.get(md_type)
    return pattern is not None and pattern.search(content) is not None


_CLOSING_MARKS = string.punctuation + "，。！？；：、（）【】《》〈〉·"


def prefix_suffix(content: str, prefix: str | None = None, suffix: str | None = None) -> bool:
    """Literal start, literal end; the end may be followed by ASCII or common Chinese punctuation."""
    if prefix and not content.startswith(prefix):
        return False
    return not suffix or content.endswith(suffix) or content.rstrip(_CLOSING_MARKS).endswith(suffix)


def delimiter(content: str, symbol: str) -> bool:
    """The symbol occurs and parts at least two non-blank pieces."""
    return symbol in content and sum(bool(part.strip()) for part in content.split(symbol)) >= 2


_MARKER = re.compile(
    rf"\s*(?:[-*+•]|\d+[.)]|[a-zA-Z][.)]|[{_HAN_DIGITS}]+[.、]|[IVXLCDM]+[.)]|[ivxlcdm]+[.)])\s+",
)
_HAN = re.compile(r"[\u4e00-\u9fa5]")
_ENGLISH_WORD = re.compile(r"\b[a-zA-Z]+(?:-[a-zA-Z]+)*\b")
_SENTENCE_END = re.compile(r"[.!?。！？]+")

_UNITS: dict[str, Callable[[str], int]] = {
    "word": lambda text: len(_HAN.findall(text)) + len(_ENGLISH_WORD.findall(text)),
    "sentence": lambda text: len(_SENTENCE_END.findall(text)),
    "paragraph": lambda text: sum(bool(piece.strip()) for piece in text.split("\n\n")),
    "character": lambda text: len(text) - text.count(" "),
}


def length(content: str, unit: str, min_len: int = 0, max_len: int = -1) -> bool:
    """Size in ``unit`` after list markers are taken off the lines; a maximum of 0 or less is no limit."""
    text = "\n".join(_without_marker(line) for line in content.split("\n"))
    measure = _UNITS.get(unit)
    return measure is not None and _within(measure(text), min_len, max_len)


def _without_marker(line: str) -> str:
    marker = _MARKER.match(line)
    return line[marker.end() :] if marker else line


def count(content: str, min_count: int = 0, max_count: int = -1) -> bool:
    """Number of ``(…)`` groups without a closing parenthesis inside; a maximum of 0 or less is no limit."""
    found, start = 0, content.find("(")
    while start >= 0 and (end := content.find(")", start + 1)) >= 0:
        found += 1
        start = content.find("(", end + 1)
    return _within(found, min_count, max_count)


def _within(number: int, low: int, high: int) -> bool:
    return not (number < low or (high > 0 and number > high))


_ASCII_TOKEN = re.compile(r"\b[a-zA-Z]+\b")


def case(content: str, case_type: str) -> bool:
    """Case of the pure ASCII words; text without any passes every case, an unknown one included."""
    words = _ASCII_TOKEN.findall(content)
    if not words:
        return True
    if case_type == "upper":
        return all(word.isupper() for word in words)
    if case_type == "lower":
        return all(word.islower() for word in words)
    if case_type == "title":
        shouting = [word.isupper() for word in words]
        return not all(shouting) and all(
            loud or (word[0].isupper() and word[1:].islower()) for word, loud in zip(words, shouting, strict=True)
        )
    return False


_ASCII_LETTER = re.compile(r"[a-zA-Z]")


def language(content: str, lang_type: str) -> bool:
    """en: an ASCII letter and no basic Han character; zh: the reverse; nothing else is known."""
    english, chinese = _ASCII_LETTER.search(content) is not None, _HAN.search(content) is not None
    return {"en": english and not chinese, "zh": chinese and not english}.get(lang_type, False)


RULES: dict[str, Callable[..., bool]] = {
    "plain_text": plain_text,
    "json_object": json_object,
    "json_array": json_array,
    "ordered_list": ordered_list,
    "unordered_list": unordered_list,
    "table": table,
    "keyword": keyword,
    "markdown": markdown,
    "delimiter": delimiter,
    "prefix_suffix": prefix_suffix,
    "count": count,
    "length": length,
    "case": case,
    "language": language,
}


def check_elements(constraint_id: str, parameters: dict[str, Any]) -> bool:
    """The published dispatch: each element of a content list must pass (so an empty list passes); else one call.

    Raises:
        Exception: whatever a rule raises on parameters or content of the wrong kind.
    """
    rule = RULES[constraint_id]
    content = parameters.get("content")
    if not isinstance(content, list):
        return rule(**{**parameters, "content": _text(parameters, content)})
    named = {name: value for name, value in parameters.items() if name != "content"}
    return all(rule(_text(parameters, element), **named) for element in content)


def _text(parameters: dict[str, Any], element: Any) -> str:
    if "content" not in parameters:
        raise TypeError("the parameter 'content' is missing")
    if not isinstance(element, str):
        raise TypeError(f"content must be text, not {type(element).__name__}")
    return element
