"""A checklist from constraint ids alone, for instructions whose checklist is not at hand.

It shows what of the path works, not what a response is worth: parameters are unknown, so rules that need them are
unscored, and each content id becomes the bare question whether it was attempted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trustvid.captioning.taxonomy import CONTENT_IDS, types_of
from trustvid.captioning.validation import OPEN_KEY, RULE_KEY


def skeleton(constraint_ids: Iterable[str]) -> dict[str, Any]:
    """The official object with one rule item for each id that is no content id, one question for each that is."""
    rules: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
    for name in constraint_ids:
        if name in CONTENT_IDS:
            groups.append(_group(name, len(groups) + 1))
        else:
            rules.append(
                {
                    "check_id": f"rule-{len(rules) + 1:03d}",
                    "constraint_id": name,
                    "check_description": "the whole response",
                    "parameters": {"content": None},
                }
            )
    return {RULE_KEY: rules, OPEN_KEY: groups}


def _group(name: str, number: int) -> dict[str, Any]:
    meaning = "; ".join(type_.meaning for type_ in types_of(name))
    item = {
        "check_id": f"open-{number:03d}",
        "check_type": "attempt",
        "question": f"Does the response attempt this: {meaning}?",
        "options": ["yes", "no"],
        "correct_answer": "yes",
    }
    return {"check_content": meaning, "constraint_id": name, "check_items": [item]}
