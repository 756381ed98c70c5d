"""What a judge's words mean. Nothing is guessed: a reply that does not say it clearly is unreadable.

Pure functions from text to "yes"/"no", a letter, a list of texts; None or :class:`Unreadable` when there is no clear
answer. "INCORRECT" is no yes, "Yesterday" neither, and a reply that was cut off is not completed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trustvid.llm.dialogue import Unreadable

_YES = frozenset({"yes", "true", "correct", "right", "是", "是的", "对", "正确"})
_NO = frozenset(
    {"no", "false", "incorrect", "wrong", "not correct", "not true", "not right", "否", "不", "不是", "不对", "错"}
    | {"错误", "不正确"}
)
_VERDICTS = {**dict.fromkeys(_YES, "yes"), **dict.fromkeys(_NO, "no"), "y": "yes", "n": "no"}
_VERDICT_KEYS = ("answer", "judgement", "judgment", "verdict", "result", "decision", "label", "correct")

_FENCE = re.compile(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)
_MARKUP = re.compile(r"[*_`#>]+")
_LABEL = re.compile(
    r"(?:the\s+|my\s+)?(?:(?:final|correct|right|best)\s+)?(?:verdict|judge?ment|answer|result|conclusion|decision|option|choice)"
    r"(?:\s+is)?\s*[:：=\-–—]?\s*(?:(?:option|choice)\s+)?(.+)",
    re.IGNORECASE,
)
_OPENING = re.compile(
    rf"({'|'.join(sorted(map(re.escape, _YES | _NO), key=len, reverse=True))})(?![^\W_])", re.IGNORECASE
)
_PAUSE = re.compile(r"\s*[.,;:!。，；：！\n–—-]\s*")
_TAIL = re.compile(r"(?:and|but|or|/)?\s*(?:yes|no|not?\s+sure|neither|both|unsure|unclear)(?![^\W_])", re.IGNORECASE)


def spoken(text: str) -> str:
    """The reply without the model's thinking.

    Raises:
        Unreadable: the reply ends inside its thinking.

    >>> spoken("<think>is it? yes, no…</think> no")
    'no'
    """
    _, end, rest = text.rpartition("</think>")
    text = rest if end else text
    if "<think>" in text:
        raise Unreadable("the reply ends inside its thinking")
    return text.strip()


@dataclass(frozen=True)
class Parsed:
    """A JSON object out of a reply, and whether its syntax had to be repaired."""

    record: Mapping[str, Any]
    repaired: bool


def parse_object(text: str) -> Parsed | None:
    """The JSON object in a reply: alone, in a code fence, or with words around it; None when there is none.

    Slips of syntax (single quotes, a trailing comma, a raw line break) are repaired and marked. An object without its
    closing brace was cut off, and is none: what is missing cannot be known.

    >>> parse_object('Here: {"answer": "B",}').record
    {'answer': 'B'}
    >>> parse_object('{"answer": "B", "result_explanation": "the go')
    """
    fenced = _FENCE.match(text)
    text = fenced[1] if fenced else text
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    body = text[start : end + 1]
    try:
        value, repaired = json.loads(body), False
    except (ValueError, RecursionError):
        import json_repair

        try:
            value, repaired = json_repair.loads(body), True
        except (ValueError, RecursionError):
            return None
    return Parsed(value, repaired) if isinstance(value, dict) else None


# ----------------------------------------------------------------------------------------------------------- yes, no


def read_yes_no(text: str | None) -> str | None:
    """ "yes", "no", or None when a reply says neither clearly.

    Read are: an object with the verdict under a usual key; a labelled line ("Final verdict: NO"), where all labelled
    lines must agree; a reply that begins with the word and then pauses or ends ("No, the dog is missing.").

    >>> [read_yes_no(text) for text in ("**Judgement**: yes", "INCORRECT", "Yesterday it rained.", "Yes and no.")]
    ['yes', 'no', None, None]
    """
    try:
        text = spoken(text or "")
    except Unreadable:
        return None
    if "{" in text or text.startswith("["):
        parsed = parse_object(text)
        return _verdict_of(parsed.record) if parsed else None
    lines = [_MARKUP.sub("", line).strip() for line in _without_fence(text).splitlines()]
    lines = [line for line in lines if line]
    labelled = {_opening_verdict(found[1]) for line in lines if (found := _LABEL.match(line))} - {None}
    opening = _opening_verdict("\n".join(lines))
    if labelled:
        return labelled.pop() if len(labelled | ({opening} - {None})) == 1 else None
    return opening


def _verdict_of(record: Mapping[str, Any]) -> str | None:
    keys = {str(key).strip().lower(): value for key, value in record.items()}
    value = next((keys[key] for key in _VERDICT_KEYS if key in keys), None)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and "{" not in value:
        return read_yes_no(value)
    return None


def _opening_verdict(text: str) -> str | None:
    plain = text.strip().strip("\"'“”‘’()[] ").lower()
    if plain.rstrip(".!。！") in _VERDICTS:
        return _VERDICTS[plain.rstrip(".!。！")]
    verdicts = {_VERDICTS.get(word) for word in re.findall(r"[^\W_]+", plain)}
    if len(verdicts) == 1 and None not in verdicts:
        return verdicts.pop()  # the same word over and over, as small models do
    found = _OPENING.match(plain)
    if not found:
        return None
    verdict, rest = _VERDICTS[found[1]], plain[found.end() :]
    pause = _PAUSE.match(rest)
    if pause:
        return None if _TAIL.match(rest[pause.end() :]) else verdict
    # Without a pause ("Yes it does", "No and yes") the rest must not take it back.
    opposite = {"no", "not", "or", "but"} if verdict == "yes" else {"yes", "or", "but", "sure"}
    words = set(re.findall(r"[^\W_]+", rest))
    return None if not rest[:1].isspace() or words & opposite else verdict


# ----------------------------------------------------------------------------------------------------------- letters

_MARKED_OPTION = re.compile(r"\(?([A-Z])\s*[.):：、]\s*(.*)", re.DOTALL)
_BARE_LETTER = re.compile(r"[(\[]?\s*([A-Za-z])\s*[)\]]?\s*[.:：、。]?")
_LETTER_AND_TEXT = re.compile(r"[(\[]?\s*([A-Za-z])(?:\s*[)\].:：、,-]\s*|\s+)(.+)", re.DOTALL)


def read_letter(text: str, options: Sequence[str]) -> str | None:
    """The letter of one option, or None when a reply does not name exactly one.

    Read are: a letter alone ("c", "(B)", "**D**."), with its option's text ("B. Goat") or a reason after a stop, after
    a label ("The answer is C"), or the text of one option. Letters beyond the options, a letter beside another
    option's text, "Both" or "Cannot be determined" are not.

    Args:
        text: the answer.
        options: the options as shown, "A. Heron" or "Heron", in the order of their letters.

    >>> options = ["A. Heron", "B. Goat", "C. Mole", "D. None of the above"]
    >>> [read_letter(text, options) for text in ("c", "(A)", "none of the above", "Both", "E", "B. Mole")]
    ['C', 'A', 'D', None, None, None]
    """
    texts = [_plain(_option_text(option)) for option in options]
    lines = [_MARKUP.sub("", line).strip(" \"'“”") for line in _without_fence(text).strip().splitlines()]
    lines = [line for line in lines if line]
    labelled = {_letter_of(found[1], texts) for line in lines if (found := _LABEL.match(line))} - {None}
    if labelled:
        return labelled.pop() if len(labelled) == 1 else None
    if len(lines) > 1 and _BARE_LETTER.fullmatch(lines[0]):
        # A letter on a line of its own, then its reason; a second such line is a second answer.
        return None if any(_BARE_LETTER.fullmatch(line) for line in lines[1:]) else _letter_of(lines[0], texts)
    return _letter_of("\n".join(lines), texts)


def _letter_of(text: str, texts: Sequence[str]) -> str | None:
    known = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(texts)]
    if texts.count(_plain(text)) == 1:
        return known[texts.index(_plain(text))]
    bare = _BARE_LETTER.fullmatch(text.strip())
    if bare:
        return bare[1].upper() if bare[1].upper() in known else None
    found = _LETTER_AND_TEXT.fullmatch(text.strip())
    if not found or found[1].upper() not in known:
        return None
    letter, rest = found[1].upper(), found[2]
    own = texts[known.index(letter)]
    head = _plain(rest.splitlines()[0]) if rest.strip() else ""
    if _begins_with(head, own) and own:
        return letter
    if any(other and _begins_with(head, other) for other in texts if other != own):
        return None
    # A reason may follow a capital and a stop ("B. The goat is named."); "A man walks" or "A, B" is no answer.
    stopped = re.match(r"[(\[]?\s*[A-Z]\s*[)\].:：、-]", text.strip())
    return letter if stopped and not re.match(r"[(\[]?[A-Z][)\].,:\s]", rest + " ") else None


def _begins_with(text: str, start: str) -> bool:
    return text == start or text.startswith(f"{start} ")


def _option_text(option: str) -> str:
    found = _MARKED_OPTION.fullmatch(option.strip())
    return found[2] if found else option


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


def _without_fence(text: str) -> str:
    fenced = _FENCE.match(text)
    return fenced[1] if fenced else text


# ------------------------------------------------------------------------------------------------------- whole replies


@dataclass(frozen=True)
class Answered:
    """A question's reply, read.

    Attributes:
        answer: "yes", "no" or a letter.
        explanation: the judge's reason, "" when it gives none.
        confidence: 1–5, None when it gives none in that range.
    """

    answer: str
    explanation: str = ""
    confidence: int | None = None


def read_answer(text: str, check_type: str, options: Sequence[str]) -> Answered:
    """The reply to a question.

    Args:
        text: the reply.
        check_type: "attempt" asks for yes or no, everything else for a letter.
        options: the options as shown.

    Raises:
        Unreadable: it gives no clear answer; the message says what was expected.
    """
    text = spoken(text)
    said, explanation, confidence = text, "", None
    if "{" in text:
        parsed = parse_object(text)
        if parsed is None:
            raise Unreadable("the JSON is broken or cut off")
        keys = {str(key).strip().lower(): value for key, value in parsed.record.items()}
        key = next((key for key in _VERDICT_KEYS if key in keys), None)
        if key is None:
            raise Unreadable("the JSON has no key 'answer'")
        said = keys[key]
        explanation = str(keys.get("result_explanation") or keys.get("explanation") or keys.get("reason") or "")
        confidence = read_confidence(keys.get("result_confidence", keys.get("confidence")))
    if check_type == "attempt":
        answer = ("yes" if said else "no") if isinstance(said, bool) else read_yes_no(said if _is_text(said) else None)
        expected = "yes or no"
    else:
        answer = read_letter(said, options) if _is_text(said) else None
        expected = f"one letter from A to {'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[len(options) - 1]}" if options else "a letter"
    if answer is None:
        raise Unreadable(f"the answer {str(said)[:60]!r} is not clear; expected {expected}")
    return Answered(answer, explanation, confidence)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "{" not in value


def read_confidence(value: Any) -> int | None:
    """1–5 as a whole number or its text ("4", "4/5"); None for everything else.

    >>> [read_confidence(value) for value in (4, 4.0, "4/5", True, 9, "high")]
    [4, 4, 4, None, None, None]
    """
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([1-5])(?:\s*/\s*5)?\s*", value)
        return int(found[1]) if found else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value in (1, 2, 3, 4, 5) else None


def read_content(text: str) -> list[str]:
    """The texts that a reply extracts: {"content": […]}, a bare JSON list, or <span>…</span> marks.

    A single text instead of a list is a list of one.

    Raises:
        Unreadable: it has none of these forms, or the list holds something else than texts.
    """
    text = spoken(text)
    spans = re.findall(r"<span>(.*?)</span>", text, re.DOTALL)
    if spans:
        return spans
    value = _content_value(text)
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list) or not all(isinstance(element, str) for element in value):
        raise Unreadable("'content' is not a list of texts")
    return value


def _content_value(text: str) -> Any:
    bare = _without_fence(text).strip()
    if bare.startswith("["):
        try:
            return json.loads(bare)
        except (ValueError, RecursionError):
            raise Unreadable("the JSON is broken or cut off") from None
    parsed = parse_object(text)
    if parsed is None:
        raise Unreadable("there is no whole JSON object in the reply")
    if "content" not in parsed.record:
        raise Unreadable("the JSON has no key 'content'")
    return parsed.record["content"]
