"""A reply made ready for reading: folded characters, thoughts and tags taken apart, the JSON values inside. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

ANSWER_KEYS = {
    "answer",
    "final_answer",
    "choice",
    "option",
    "letter",
    "prediction",
    "selected_option",
    "correct_answer",
}
BOXED = re.compile(r"\\boxed\s?\{([^{}\n]{0,200})\}")

_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u2060\ufeff]|<\|[^|<>\n]{0,40}\|>|</?s>")
_LATEX_TEXT = re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|it))\s?\{([^{}\n]{0,200})\}")
_MARKUP = re.compile(r"\*+|`+|__+|(?<!\w)_(?=\w)|(?<=\w)_(?!\w)|^\s?#{1,6} |^ ?>+ ", re.MULTILINE)
_QUOTES = str.maketrans("‘’‚“”„–—−⁄", "'''\"\"\"---/")


def normalise(text: str) -> str:
    """Compatibility characters folded (full-width letters, brackets), quotes and dashes plain, Markdown marks gone."""
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    text = _INVISIBLE.sub("", text)
    text = _LATEX_TEXT.sub(r"\1", text)
    text = re.sub(r"[^\S\n]+", " ", re.sub(r"\\([()\[\]])", r"\1", text))
    return _MARKUP.sub("", text).strip()


_THINK = re.compile(r"<\s?(/?)\s?think(?:ing)?\s?>", re.IGNORECASE)


def split_thinking(text: str) -> tuple[str, str]:
    """(text outside of thoughts, text after a thought that was never closed)."""
    parts: list[str] = []
    position, inside = 0, False
    for tag in _THINK.finditer(text):
        if tag[1] and not inside:
            parts.clear()  # the opening tag was part of the prompt: all so far was thought
        elif not tag[1] and not inside:
            parts.append(text[position : tag.start()])
        inside = not tag[1]
        position = tag.end()
    rest = text[position:]
    return ("\n".join(parts), rest) if inside else ("\n".join([*parts, rest]), "")


def last_tag(name: str, text: str) -> str | None:
    """Content of the last ``<name>`` in the text, up to its closing tag or the end; None when there is none."""
    tags = list(re.finditer(rf"<\s?(/?)\s?{name}\s?>", text, re.IGNORECASE))
    opening = [i for i, tag in enumerate(tags) if not tag[1]]
    if not opening:
        return None
    last = opening[-1]
    end = tags[last + 1].start() if last + 1 < len(tags) else len(text)
    return text[tags[last].end() : end].strip()


def canon(text: str) -> str:
    """Case, blanks and outer punctuation folded: equal for texts that say the same words."""
    return " ".join(text.casefold().split()).strip(" .,;:!?()[]{}\"'")


MAX_JSON_STARTS = 200  # a reply of ten thousand brackets must not take quadratic time
_DECODER = json.JSONDecoder()


def json_values(text: str, opening: str) -> Iterator[tuple[int, int, Any]]:
    """(start, end, value) of the JSON values that begin with ``opening``, outermost only."""
    position = 0
    for _ in range(MAX_JSON_STARTS):
        start = text.find(opening, position)
        if start < 0:
            return
        try:
            value, position = _DECODER.raw_decode(text, start)
            yield start, position, value
        except (ValueError, RecursionError):
            position = start + 1


def parse_json_list(reply: str) -> list[dict[str, Any]] | None:
    """The list of JSON objects in a reply, wherever it stands (code fence, text around, inside an object).

    Accepts trailing commas, a single object, objects one a line, and a list cut off after some complete objects.
    Thoughts are ignored. None when there is no object and no empty list.

    >>> parse_json_list('Sure: ```json\\n[{"sub_query": "Where is CAFE?", "type": "text"},]\\n```')
    [{'sub_query': 'Where is CAFE?', 'type': 'text'}]
    """
    visible, tail = split_thinking(reply)
    text = visible if visible.strip() else tail
    empty = False
    for candidate in (text, re.sub(r",(?=\s*[\]}])", "", text)):
        for _, _, value in json_values(candidate, "["):
            if value and all(isinstance(item, dict) for item in value):
                return value
            empty = empty or value == []
    objects = [value for _, _, value in json_values(text, "{")]
    return objects or ([] if empty else None)
