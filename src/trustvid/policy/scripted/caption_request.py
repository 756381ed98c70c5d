"""Reading an instruction: what form a caption is to have, and the points it is to make. By its words alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_QUOTE = r"[\"'“‘`]([^\"'”’`\n]{1,60})[\"'”’`]"
_NUMBERS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
}
_NUMBER = rf"(\d+|{'|'.join(_NUMBERS)})"
_PARTS = r"(?:list |array )?(?:items?|points?|tags?|keywords?|elements?|rows?|phrases?|sentences?|paragraphs?|entries)"


@dataclass
class Request:
    """What an instruction asks for, as far as its words were understood.

    Attributes:
        layout: "prose", "object", "array", "numbered", "bulleted", "table", "tags" or "document" (with a title).
        keys: of a JSON object, or None.
        columns: of a table.
        symbol: list mark, or what separates tags.
        inner_symbol: what separates the things in one value.
        points: (name, what to tell) in order; names are JSON keys or rows, "" without.
        parts: how many parts there are to be, None = as many as points.
        unit: what is counted by ``parts`` ("sentence", "paragraph", "item").
        max_words: longest part, None = free.
        words: words that must stand there.
        banned: words that must not.
        silent_on: things not to be mentioned.
        prefix, suffix: fixed beginning and end.
        case: "upper", "lower", "title" or "".
        case_of: JSON key or "title" that the case is for, "" = everything.
        marks: (word, mark) to put around words.
        chinese: whether to write Chinese.
    """

    layout: str = "prose"
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ("Aspect", "Description")
    symbol: str = ""
    inner_symbol: str = ""
    points: list[tuple[str, str]] = field(default_factory=list)
    parts: int | None = None
    unit: str = ""
    max_words: int | None = None
    words: tuple[str, ...] = ()
    banned: tuple[str, ...] = ()
    silent_on: tuple[str, ...] = ()
    prefix: str = ""
    suffix: str = ""
    case: str = ""
    case_of: str = ""
    marks: tuple[tuple[str, str], ...] = ()
    chinese: bool = False


def read_request(text: str) -> Request:
    """The request that ``text`` makes."""
    request = Request()
    _read_layout(text, request)
    _read_sizes(text, request)
    _read_words(text, request)
    request.points = _points(text)
    request.chinese = bool(re.search(r"\bin (?:simplified )?Chinese\b", text)) or _mostly_han(text)
    return request


def _mostly_han(text: str) -> bool:
    return 2 * len(re.findall(r"[\u4e00-\u9fff]", text)) > len(re.findall(r"[^\W\d_]", text))


def _quotes(pattern: str, text: str) -> tuple[str, ...]:
    found = re.search(pattern, text, re.IGNORECASE)
    return tuple(re.findall(_QUOTE, found[0])) if found else ()


def _read_layout(text: str, request: Request) -> None:
    low = text.lower()
    quote_after = rf"[^.'\"“‘`]{{0,40}}{_QUOTE}"
    if "json array" in low or "json list" in low:
        request.layout = "array"
    elif "json" in low:
        request.layout = "object"
        request.keys = _quotes(rf"\b(?:keys?|fields?)\b(?:[^.'\"“‘`]{{0,30}}{_QUOTE})+", text)
    elif "table" in low:
        request.layout = "table"
        request.columns = _quotes(rf"\bcolumns?\b(?:[^.'\"“‘`]{{0,30}}{_QUOTE})+", text) or request.columns
    elif "unordered list" in low or "bullet" in low:
        request.layout = "bulleted"
        request.symbol = _first(rf"\b(?:unordered list|bullet)\w*{quote_after}", text) or "-"
    elif "ordered list" in low or "numbered list" in low:
        request.layout = "numbered"
        request.symbol = _first(rf"\blist{quote_after}", text) or "1."
    elif separated := _first(rf"\b(?:separated|split|divided|delimited) (?:by|with|using){quote_after}", text):
        request.layout, request.symbol = "tags", separated
    elif re.search(r"\bmarkdown (?:title|heading)|\btitle \(#\)|\bwith a title\b", low):
        request.layout = "document"
    if inner := re.search(rf"under {_QUOTE} put {_QUOTE} between", text, re.IGNORECASE):
        request.inner_symbol = inner[2]


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.IGNORECASE)
    return found[1] if found else ""


def _read_sizes(text: str, request: Request) -> None:
    if counted := re.search(rf"\b(?:exactly|list|give|write|with)\s+{_NUMBER}\s+({_PARTS})\b", text, re.IGNORECASE):
        request.parts = _number(counted[1])
        word = counted[2].lower()
        request.unit = next((unit for unit in ("sentence", "paragraph") if unit in word), "item")
    limit = rf"\b(?:at most|no more than|not more than|up to|within|under|fewer than|less than)\s+{_NUMBER}\s+words?\b"
    ranged = rf"\b\d+\s*(?:-|–|to|and)\s*{_NUMBER}\s+words?\b"
    for pattern in (limit, ranged):
        if found := re.search(pattern, text, re.IGNORECASE):
            request.max_words = _number(found[1])
            return


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else _NUMBERS[text.lower()]


def _read_words(text: str, request: Request) -> None:
    request.banned = tuple(
        re.findall(rf"(?:not use|avoid|without|not include|not contain)[^.'\"]{{0,20}}word\w* {_QUOTE}", text)
    )
    request.words = tuple(re.findall(rf"(?<!not )\b(?:[Uu]se|[Ii]nclude|[Cc]ontain) the word {_QUOTE}", text))
    request.silent_on = tuple(re.findall(r"not mention the (\w+)", text))
    request.prefix = _first(rf"\b(?:begin|start) with {_QUOTE}", text)
    request.suffix = _first(rf"\bend with {_QUOTE}", text)
    if found := re.search(r"\b(upper|lower|title)[ -]?case\b", text, re.IGNORECASE):
        request.case = found[1].lower()
        about = re.search(rf"value of {_QUOTE} is in {request.case}", text, re.IGNORECASE)
        request.case_of = about[1] if about else "title" if re.search(r"title is in", text, re.IGNORECASE) else ""
    marks = {
        "**": (rf"word {_QUOTE} in bold",),
        "*": (rf"word {_QUOTE} in italics",),
        "==": (rf"[Hh]ighlight the word {_QUOTE}",),
        "`": (rf"word {_QUOTE} as inline code",),
    }
    request.marks = tuple((word, mark) for mark, (pattern,) in marks.items() for word in re.findall(pattern, text))


def _points(text: str) -> list[tuple[str, str]]:
    """Numbered or named points of an instruction; none when it has no such list."""
    numbered = re.findall(r"\(\d+\) ([^;]+?)(?=;|\.\s|\.$|$)", text)
    if numbered:
        return [("", point.strip()) for point in numbered]
    return [(name, point.strip()) for name, point in re.findall(rf"{_QUOTE}: ([^;]+?)(?=;|\.\s|\.$|$)", text)]
