"""Finds every fault of a checklist at once, each with its position.

Three layers: :func:`shape_faults` (keys and kinds, without which nothing can be read), the rules of the published
validator (parameters per constraint, options and answers of questions), and :func:`lint_checklist` (things that are
well formed and still wrong: an id used twice, a number or a quotation in the text that the parameters contradict).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trustvid.captioning.taxonomy import CONTENT_IDS, FORMAT_IDS, Parameter, rule_parameters

RULE_KEY, OPEN_KEY = "ruled_based_check", "open_ended_check"
CHECK_TYPES = ("attempt", "correctness")
_YES_NO = ["yes", "no"]
_LETTERS = ["A", "B", "C", "D"]


def validate_checklist(obj: Any, where: str, prompt: str | None = None, results: bool = False) -> list[str]:
    """Every fault of one checklist, empty when it is sound.

    Args:
        obj: the checklist object as parsed from JSON.
        where: how to name it in the messages ("clip_900/01").
        prompt: the instruction's text; with it, parameters that contradict the text are found too.
        results: whether it is from a result file: content is filled in, answers and verdicts are there.

    Returns:
        Lines "where.path: what is wrong; what was expected". Those of the lint begin with "lint: ".
    """
    faults = shape_faults(obj, where)
    if faults:
        return faults
    for place, item in enumerate(obj[RULE_KEY]):
        faults += _rule_faults(item, f"{where}.{RULE_KEY}[{place}]", results)
    for place, group in enumerate(obj[OPEN_KEY]):
        for index, item in enumerate(group["check_items"]):
            faults += _question_faults(item, f"{where}.{OPEN_KEY}[{place}].check_items[{index}]", results)
        constraint_id = group.get("constraint_id")
        if constraint_id is not None and constraint_id not in CONTENT_IDS:
            faults.append(f"{where}.{OPEN_KEY}[{place}].constraint_id: {constraint_id!r} is no content constraint")
    return faults + [f"lint: {line}" for line in lint_checklist(obj, where, prompt)]


# ----------------------------------------------------------------------------------------------------------- shape

_RULE_KEYS = {"check_id": str, "constraint_id": str, "check_description": str, "parameters": dict}
_GROUP_KEYS = {"check_content": str, "check_items": list}
_QUESTION_KEYS = {"check_id": str, "check_type": str, "question": str, "options": list, "correct_answer": str}
_KIND_NAMES = {str: "a string", dict: "an object", list: "a list"}


def shape_faults(obj: Any, where: str) -> list[str]:
    """Missing keys and values of the wrong kind, without which a checklist cannot be read."""
    faults = _key_faults(obj, {RULE_KEY: list, OPEN_KEY: list}, where)
    if faults:
        return faults
    for place, item in enumerate(obj[RULE_KEY]):
        faults += _key_faults(item, _RULE_KEYS, f"{where}.{RULE_KEY}[{place}]")
    for place, group in enumerate(obj[OPEN_KEY]):
        position = f"{where}.{OPEN_KEY}[{place}]"
        group_faults = _key_faults(group, _GROUP_KEYS, position)
        faults += group_faults
        for index, item in enumerate([] if group_faults else group["check_items"]):
            faults += _key_faults(item, _QUESTION_KEYS, f"{position}.check_items[{index}]")
    return faults


def _key_faults(record: Any, keys: Mapping[str, type], where: str) -> list[str]:
    if not isinstance(record, dict):
        return [f"{where}: {_shown(record)} is no object"]
    faults = [f"{where}: the key {key!r} is missing" for key in keys if key not in record]
    for key, kind in keys.items():
        if key in record and not isinstance(record[key], kind):
            faults.append(f"{where}.{key}: {_shown(record[key])} is not {_KIND_NAMES[kind]}")
    return faults


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# ------------------------------------------------------------------------------------------------------ rule items


def _rule_faults(item: Mapping[str, Any], where: str, results: bool) -> Iterator[str]:
    yield from _content_faults(item["parameters"], f"{where}.parameters", results)
    if results and not isinstance(item.get("result"), bool):
        yield f"{where}.result: {_shown(item.get('result'))} is neither true nor false"
    constraint_id = item["constraint_id"]
    if constraint_id not in FORMAT_IDS:
        yield f"{where}.constraint_id: {constraint_id!r} is unknown; rules exist for {', '.join(FORMAT_IDS)}"
        return
    known = rule_parameters(constraint_id)
    given = {name: value for name, value in item["parameters"].items() if name != "content"}
    for name in given:
        if name not in known:
            yield f"{where}.parameters.{name}: {constraint_id} takes no such parameter, only {_names(known)}"
    for name, parameter in known.items():
        if name not in given:
            if parameter.required:
                yield f"{where}.parameters: {name!r} is missing"
        elif given[name] is not None:
            fault = _value_fault(parameter, given[name])
            if fault:
                yield f"{where}.parameters.{name}: {fault}"
    yield from _bound_faults(constraint_id, given, f"{where}.parameters")


def _content_faults(parameters: Mapping[str, Any], where: str, results: bool) -> Iterator[str]:
    if "content" not in parameters:
        yield f"{where}: 'content' is missing; it is null until a judge fills it in"
        return
    content = parameters["content"]
    if not results and content is not None:
        yield f"{where}.content: {_shown(content)} is not null"
    if results and not (isinstance(content, list) and all(isinstance(text, str) for text in content)):
        yield f"{where}.content: {_shown(content)} is no list of texts"


def _names(parameters: Mapping[str, Parameter]) -> str:
    return ", ".join(("content", *parameters))


def _value_fault(parameter: Parameter, value: Any) -> str | None:
    fits = {
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "object": isinstance(value, dict),
        "strings": isinstance(value, list) and all(isinstance(text, str) for text in value),
    }
    if not fits[parameter.kind]:
        return f"{_shown(value)} is no {'list of strings' if parameter.kind == 'strings' else parameter.kind}"
    if parameter.choices and value not in parameter.choices:
        return f"{_shown(value)} is none of {', '.join(map(repr, parameter.choices))}"
    return None


_BOUNDED = {"length": ("min_len", "max_len"), "count": ("min_count", "max_count")}


def _bound_faults(constraint_id: str, given: Mapping[str, Any], where: str) -> Iterator[str]:
    bounds = bounds_of(constraint_id, given)
    if bounds and bounds[1] is not None and bounds[0] > bounds[1]:
        low, high = _BOUNDED[constraint_id]
        yield f"{where}: {low} {bounds[0]} is above {high} {bounds[1]}, so nothing can pass"


def bounds_of(constraint_id: str, parameters: Mapping[str, Any]) -> tuple[int, int | None] | None:
    """(minimum, maximum or None for no limit) of a length or count item; None for other items or broken bounds."""
    if constraint_id not in _BOUNDED:
        return None
    low, high = (parameters.get(name) for name in _BOUNDED[constraint_id])
    low, high = 0 if low is None else low, -1 if high is None else high
    if not all(isinstance(bound, int) and not isinstance(bound, bool) for bound in (low, high)):
        return None
    return low, None if high == -1 else high


# ------------------------------------------------------------------------------------------------------- questions


def _question_faults(item: Mapping[str, Any], where: str, results: bool) -> Iterator[str]:
    check_type, options, answers = item["check_type"], item["options"], _LETTERS
    if check_type == "attempt":
        answers = _YES_NO
        if options != _YES_NO:
            yield f"{where}.options: {_shown(options)} is not ['yes', 'no'] in this order"
    elif check_type == "correctness":
        if len(options) < 2 or not all(isinstance(option, str) for option in options):
            yield f"{where}.options: {_shown(options)} is no list of at least two strings"
    else:
        yield f"{where}.check_type: {check_type!r} is neither 'attempt' nor 'correctness'"
        return
    if item["correct_answer"] not in answers:
        yield f"{where}.correct_answer: {item['correct_answer']!r} is none of {', '.join(answers)}"
    if results:
        yield from _answer_faults(item, answers, where)


def _answer_faults(item: Mapping[str, Any], answers: Sequence[str], where: str) -> Iterator[str]:
    if item.get("answer") not in answers:
        yield f"{where}.answer: {_shown(item.get('answer'))} is none of {', '.join(answers)}"
    if not isinstance(item.get("result_explanation"), str):
        yield f"{where}.result_explanation: {_shown(item.get('result_explanation'))} is no string"
    confidence = item.get("result_confidence")
    if isinstance(confidence, bool) or not isinstance(confidence, int) or not 1 <= confidence <= 5:
        yield f"{where}.result_confidence: {_shown(confidence)} is no integer from 1 to 5"
    if not isinstance(item.get("result"), bool):
        yield f"{where}.result: {_shown(item.get('result'))} is neither true nor false"


# ------------------------------------------------------------------------------------------------------------ lint


def lint_checklist(obj: Mapping[str, Any], where: str, prompt: str | None = None) -> list[str]:
    """Contradictions in a well-formed checklist: repeated ids, and texts that say other than the parameters.

    A number counts as a contradiction when the description of an item (or the prompt, where it names the same unit)
    states exactly one range and the parameters another. A prefix or suffix does when the prompt quotes what to begin or
    end with and the parameter is none of those quotations.
    """
    rules = obj[RULE_KEY]
    questions = [item for group in obj[OPEN_KEY] for item in group["check_items"]]
    faults = []
    for family, items in ((RULE_KEY, rules), (OPEN_KEY, questions)):
        counts = Counter(item["check_id"] for item in items)
        faults += [f"{where}.{family}: the id {id_!r} is used {n} times" for id_, n in counts.items() if n > 1]
    for place, item in enumerate(rules):
        for fault in (*_number_contradiction(item, prompt), *_quote_contradiction(item, prompt)):
            faults.append(f"{where}.{RULE_KEY}[{place}] ({item['check_id']}): {fault}")
    return faults


_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER = rf"\b(?:\d+|{'|'.join(_WORDS)})\b"
_RANGE = re.compile(
    rf"(?P<under>fewer than|less than|under)\s+(?P<a>{_NUMBER})"
    rf"|(?P<over>more than|over)\s+(?P<b>{_NUMBER})"
    rf"|(?P<most>at most|no more than|not more than|up to|maximum of|≤|<=)\s*(?P<c>{_NUMBER})"
    rf"|(?P<least>at least|no fewer than|no less than|minimum of|≥|>=)\s*(?P<d>{_NUMBER})"
    rf"|(?P<low>{_NUMBER})\s*(?:-|–|to|and|or)\s*(?P<high>{_NUMBER})"
    rf"|(?P<exact>{_NUMBER})",
    re.IGNORECASE,
)
_UNIT_AFTER = r"[\s-]*(?:short|simple|single|complete|full)?\s*{unit}s?\b"
_OR_LESS = re.compile(r"[\w\s-]{0,20}?\bor (?:less|fewer)\b", re.IGNORECASE)
_OR_MORE = re.compile(r"[\w\s-]{0,20}?\bor more\b", re.IGNORECASE)

Range = tuple[int, int | None]


def _number_contradiction(item: Mapping[str, Any], prompt: str | None) -> Iterator[str]:
    bounds = bounds_of(item["constraint_id"], item["parameters"])
    if bounds is None:
        return
    unit = item["parameters"].get("unit")
    for name, text in (("the description", item["check_description"]), ("the prompt", prompt or "")):
        # A prompt has numbers of many things; only a unit that is named there ties one to this item.
        needs_unit = name == "the prompt"
        if needs_unit and not isinstance(unit, str):
            continue
        stated = _ranges_in(text, unit if isinstance(unit, str) else None)
        if len(stated) == 1 and stated[0] != bounds:
            yield f"{name} says {_said(stated[0])}, the parameters {_said(bounds)}"
            return
        if stated:
            return


def _ranges_in(text: str, unit: str | None) -> list[Range]:
    """Distinct ranges a text states, those in front of ``unit`` alone when it is given."""
    found: list[Range] = []
    for match in _RANGE.finditer(text):
        rest = text[match.end() : match.end() + 60]
        if unit and not re.match(_UNIT_AFTER.format(unit=re.escape(unit)), rest, re.IGNORECASE):
            continue
        stated = _range_of(match, rest)
        if stated not in found:
            found.append(stated)
    return found


def _range_of(match: re.Match, rest: str) -> Range:
    if match["under"]:
        return 0, _number(match["a"]) - 1
    if match["over"]:
        return _number(match["b"]) + 1, None
    if match["most"]:
        return 0, _number(match["c"])
    if match["least"]:
        return _number(match["d"]), None
    if match["low"]:
        return _number(match["low"]), _number(match["high"])
    exact = _number(match["exact"])
    if _OR_LESS.match(rest):
        return 0, exact
    return exact, None if _OR_MORE.match(rest) else exact


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else _WORDS.index(text.lower())


def _said(bounds: Range) -> str:
    low, high = bounds
    if high is None:
        return f"at least {low}"
    return f"exactly {low}" if low == high else f"{low} to {high}"


_QUOTE = r"(?:(?<![a-zA-Z])'([^'\n]{1,200})'|\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|‘([^’\n]{1,200})’)"
_SIDES = {
    "prefix": re.compile(rf"\b(?:start(?:s|ing)?|begin(?:s|ning)?)\b[^'\"“‘\n.]{{0,40}}{_QUOTE}", re.IGNORECASE),
    "suffix": re.compile(rf"\b(?:end(?:s|ing)?|finish(?:es|ing)?)\b[^'\"“‘\n.]{{0,40}}{_QUOTE}", re.IGNORECASE),
}


def _quote_contradiction(item: Mapping[str, Any], prompt: str | None) -> Iterator[str]:
    if item["constraint_id"] != "prefix_suffix":
        return
    for side, pattern in _SIDES.items():
        asked = item["parameters"].get(side)
        for text in (item["check_description"], prompt or ""):
            quoted = [next(filter(None, groups)) for groups in pattern.findall(text)]
            if isinstance(asked, str) and asked and quoted and asked.strip() not in map(str.strip, quoted):
                yield f"the text quotes {', '.join(map(repr, quoted))}, the {side} is {asked!r}"
                break
