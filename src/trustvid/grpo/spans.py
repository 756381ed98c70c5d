"""Where in a trajectory's tokens the policy named the tools it chose: the tokens that a call's own credit goes to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trustvid.grpo.rollout import Rollout
    from trustvid.policy.vlm_model import VisionLanguageModel

Span = tuple[int, int]


def tool_spans(rollout: Rollout, model: VisionLanguageModel) -> dict[int, Span]:
    """Tokens [start, stop) of the buffer that name the tool of each call, by number of its sub-query.

    A call whose tool the policy did not name (its line could not be read, the table stood in) has none.
    """
    outcome = rollout.outcome
    if outcome is None or outcome.routing_turn is None or outcome.routing_turn >= len(rollout.replies):
        return {}
    first = rollout.buffer.turns.index(outcome.routing_turn)
    tokens = [
        token
        for token, turn in zip(rollout.buffer.ids, rollout.buffer.turns, strict=True)
        if turn == outcome.routing_turn
    ]
    reply, ends = rollout.replies[outcome.routing_turn], model.character_ends(tokens)
    spans = {}
    for call in outcome.calls:
        where = _named(reply, call.number + 1, call.tool)
        if where is not None:
            inside = [at for at, end in enumerate(ends) if end > where[0] and (ends[at - 1] if at else 0) < where[1]]
            spans[call.number] = (first + inside[0], first + inside[-1] + 1)
    return spans


def _named(reply: str, number: int, tool: str) -> Span | None:
    """Characters of the tool's name where it stands last on the first line with that number (as it is read)."""
    thought = reply.rfind("</think>") + 1
    line = re.compile(rf"^[^\w\n]*{number}\b.*$", re.MULTILINE).search(reply, thought)
    if line is None:
        return None
    named = [match.span() for match in re.finditer(rf"\b{re.escape(tool)}\b", line[0])]
    return (line.start() + named[-1][0], line.start() + named[-1][1]) if named else None
