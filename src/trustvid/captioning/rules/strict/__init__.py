"""The rules as a careful reader applies them (``rules=strict``); each rule's docstring states its choices.

Common to all: thinking (``<think>…</think>``) is not part of the reply and is taken off first; an empty content list
means that nothing was found to check, and fails; null bounds are no bounds; anything else that is malformed is
unscored with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trustvid.captioning.rules.strict.counting import count, length
from trustvid.captioning.rules.strict.language import language
from trustvid.captioning.rules.strict.lists import ordered_list, unordered_list
from trustvid.captioning.rules.strict.markdown import markdown
from trustvid.captioning.rules.strict.structure import json_array, json_object, table
from trustvid.captioning.rules.strict.text import case, delimiter, keyword, plain_text, prefix_suffix
from trustvid.captioning.rules.verdict import CannotCheck, Finding, Verdict
from trustvid.captioning.taxonomy import rule_parameters

RULES: dict[str, Callable[..., Finding]] = {
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

_OPEN, _CLOSE = "<think>", "</think>"


def check_elements(constraint_id: str, parameters: dict[str, Any]) -> Verdict:
    """Every content element must satisfy the rule; the reason is of the first that does not.

    Raises:
        CannotCheck: parameters or content are malformed.
    """
    named = _parameters(constraint_id, parameters)
    content = parameters["content"]
    elements = content if isinstance(content, list) else [content]
    if not all(isinstance(element, str) for element in elements):
        raise CannotCheck("content must be a text or a list of texts")
    if not elements:
        return Verdict(False, "nothing was extracted to check")
    reasons = []
    for number, element in enumerate(elements, start=1):
        finding = RULES[constraint_id](without_thinking(element), **named)
        reason = finding.reason if len(elements) == 1 else f"element {number}: {finding.reason}"
        if not finding.holds:
            return Verdict(False, reason)
        reasons.append(reason)
    return Verdict(True, reasons[0] if len(reasons) == 1 else f"all {len(reasons)} elements; {reasons[0]}")


def _parameters(constraint_id: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters without ``content``, their names checked against the taxonomy."""
    known = rule_parameters(constraint_id)
    named = {name: value for name, value in parameters.items() if name != "content"}
    unknown = sorted(set(named) - set(known))
    missing = [name for name, parameter in known.items() if parameter.required and name not in named]
    missing += [] if "content" in parameters else ["content"]
    if unknown or missing:
        faults = [f"unknown: {', '.join(unknown)[:80]}"] * bool(unknown)
        faults += [f"missing: {', '.join(missing)}"] * bool(missing)
        raise CannotCheck(f"parameters {'; '.join(faults)} (it takes content, {', '.join(known) or 'nothing else'})")
    return named


def without_thinking(text: str) -> str:
    """The reply after its thinking; all of an unfinished thought is thinking.

    >>> without_thinking("<think>a, b</think>\\nok"), without_thinking("so it is.</think> ok")
    ('ok', 'ok')
    >>> without_thinking("<think>a, b")
    ''
    """
    end = text.rfind(_CLOSE)
    if end >= 0:
        text = text[end + len(_CLOSE) :].lstrip()
    elif text.lstrip().startswith(_OPEN):
        return ""
    return text
