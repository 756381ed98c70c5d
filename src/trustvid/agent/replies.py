"""Reading the policy's turns: sub-queries, tool choices, the answer. What cannot be read is said to be so."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trustvid.agent.method import Question
from trustvid.agent.numbers import parse_confidence, parse_number
from trustvid.agent.parsing import parse_choice
from trustvid.agent.reply_text import parse_json_list
from trustvid.agent.trajectory import Answer
from trustvid.tools.evidence import SEMANTIC_TYPES, SubQuery

MAX_SUB_QUERIES = 12
_ENTRY = re.compile(r"^\W*(?P<number>\d+)\W+(?P<words>[\w ,:|>→-]+?)\W*$")


def read_decomposition(reply: str, question: Question) -> tuple[list[SubQuery], bool]:
    """Sub-queries of a decomposition reply, at most 12, and whether it could be read.

    An unreadable reply makes the question itself one spatial sub-query.

    Entries without a known type or without words are left out; a list with none left counts as unreadable.
    """
    entries = parse_json_list(reply) or []
    queries = [
        SubQuery(str(entry["sub_query"]).strip(), entry["type"])
        for entry in entries
        if isinstance(entry, dict) and entry.get("type") in SEMANTIC_TYPES and str(entry.get("sub_query") or "").strip()
    ]
    if not queries:
        return [SubQuery(question.text, "spatial")], False
    return queries[:MAX_SUB_QUERIES], True


def read_routing(reply: str, candidates: Sequence[Sequence[str]]) -> list[str | None]:
    """The tool chosen for each sub-query, from lines "number type disturbance tool".

    Args:
        reply: the policy's turn; thoughts before the lines, and other lines, are skipped.
        candidates: tools that may be chosen, for each sub-query in order.

    Returns:
        For each sub-query the tool named last on its first line, or None where there is no such line or it names none
        of the candidates.
    """
    chosen: list[str | None] = [None] * len(candidates)
    answered: set[int] = set()
    for line in reply.rpartition("</think>")[2].splitlines():
        entry = _ENTRY.match(line)
        place = int(entry["number"]) - 1 if entry else -1
        if not 0 <= place < len(candidates) or place in answered:
            continue
        answered.add(place)
        named = [word for word in re.findall(r"\w+", entry["words"]) if word in candidates[place]]
        chosen[place] = named[-1] if named else None
    return chosen


def read_answer(reply: str, question: Question) -> Answer:
    """The policy's last turn as an answer; what cannot be read is "unparsed", never a guess."""
    confidence = parse_confidence(reply)
    source = "stated" if confidence is not None else None
    if question.options:
        choice = parse_choice(reply, question.options)
        status = choice.status if choice.status in ("ok", "abstained") else "unparsed"
        return Answer(choice.letter, status, confidence, source)
    if question.numeric:
        number = parse_number(reply)
        return Answer(
            None if number is None else repr(number), "unparsed" if number is None else "ok", confidence, source
        )
    text = reply.rpartition("<answer>")[2].partition("</answer>")[0].strip()
    return Answer(text or None, "ok" if text else "unparsed", confidence, source)
