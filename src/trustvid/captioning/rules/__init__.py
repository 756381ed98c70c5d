"""The rule checks of the 14 format constraints, in two readings of each.

``upstream`` is the published checker, faults included; ``strict`` is what a careful reader expects. Both are pure
functions of their input, the same in every process, and no input makes them raise: what cannot be checked is unscored.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from trustvid.captioning.rules import strict, upstream
from trustvid.captioning.rules.verdict import Verdict
from trustvid.captioning.taxonomy import CONTENT_IDS, FORMAT_IDS

__all__ = ["MAX_CHARACTERS", "MODES", "Mode", "Verdict", "check"]

Mode = Literal["upstream", "strict"]
MODES: tuple[Mode, ...] = get_args(Mode)

# Longer content is unscored. Real replies stay under a quarter of this even when a model loops to its token limit.
MAX_CHARACTERS = 1_000_000
MAX_ELEMENTS = 10_000


def check(constraint_id: Any, parameters: Any, mode: Mode) -> Verdict:
    """Applies one rule to the content it is given.

    Args:
        constraint_id: a format id of the taxonomy ("json_object", "length", …).
        parameters: the rule's parameters with ``content``: a list of texts that must all pass, or one text.
        mode: "upstream" (published checkers) or "strict" (careful reader).

    Returns:
        True or False with what decided; None with the reason when the id is unknown, the parameters are malformed,
        or the text is beyond what can be checked in bounded time.

    Raises:
        ValueError: ``mode`` is none of ``MODES``.

    >>> check("keyword", {"content": ["The carpet is blue."], "keyword": "car", "keyword_type": "include"}, "upstream")
    Verdict(value=True, reason='passed the published check')
    """
    if mode not in MODES:
        raise ValueError(f"rules mode {mode!r} is unknown; these exist: {', '.join(MODES)}")
    problem = _unfit(constraint_id, parameters)
    if problem:
        return Verdict(None, problem)
    try:
        if mode == "strict":
            return strict.check_elements(constraint_id, parameters)
        passed = upstream.check_elements(constraint_id, parameters)
    except Exception as error:  # The boundary: whatever a rule meets in foreign data, the item is unscored, not lost.
        return Verdict(None, f"{constraint_id} cannot be checked: {_one_line(error)}")
    return Verdict(passed, "passed the published check" if passed else "failed the published check")


def _unfit(constraint_id: Any, parameters: Any) -> str | None:
    """Why no rule can run at all, or None."""
    if not isinstance(constraint_id, str) or not constraint_id:
        return f"constraint_id must be a non-empty string, not {constraint_id!r:.60}"
    if constraint_id in CONTENT_IDS:
        return f"{constraint_id!r} is judged by questions and has no rule; rules: {', '.join(FORMAT_IDS)}"
    if constraint_id not in FORMAT_IDS:
        return f"unknown constraint_id {constraint_id[:60]!r}; rules: {', '.join(FORMAT_IDS)}"
    if not isinstance(parameters, dict):
        return f"parameters must be an object, not {type(parameters).__name__}"
    content = parameters.get("content")
    elements = content if isinstance(content, list) else [content]
    if len(elements) > MAX_ELEMENTS:
        return f"content has {len(elements):,} elements; at most {MAX_ELEMENTS:,} are checked"
    size = sum(len(element) for element in elements if isinstance(element, str))
    if size > MAX_CHARACTERS:
        return f"content has {size:,} characters; at most {MAX_CHARACTERS:,} are checked"
    return None


def _one_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__
