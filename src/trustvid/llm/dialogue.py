"""Ask until the answer can be read: the model gets its own reply back with what was wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from trustvid.llm.chat import Chat
from trustvid.llm.messages import ChatRequest, Failure, Reply

T = TypeVar("T")


class Unreadable(Exception):
    """A reply that its reader cannot use; the message says what is wrong with it."""


@dataclass(frozen=True)
class Settled(Generic[T]):
    """A reply that was read.

    Attributes:
        value: what the reader made of it.
        reply: the reply.
        rounds: replies it took, 1 = the first could be read.
    """

    value: T
    reply: Reply
    rounds: int


async def settle(
    chat: Chat,
    request: ChatRequest,
    read: Callable[[Reply], T],
    again: Callable[[ChatRequest, Reply, str], ChatRequest],
    rounds: int,
) -> Settled[T] | Failure:
    """Ask, read, and ask again while the reply cannot be read.

    Rounds that a store remembers cost nothing, so an item that was settled once stays settled, one that was
    interrupted goes on where it stopped, and one that had used up its rounds is asked anew from the first.

    Args:
        chat: who is asked.
        request: the first question.
        read: makes a value of a reply; raises :class:`Unreadable`.
        again: the next question, from the last one, its reply and what was wrong with it.
        rounds: replies to try at most, at least 1.

    Returns:
        The value, or why there is none: the chat's own failure, or kind "unreadable" with the last reason.
    """
    outcome, asked = await _rounds(chat, request, read, again, rounds, fresh=False)
    if isinstance(outcome, Failure) and outcome.kind == "unreadable" and not asked:
        outcome, _ = await _rounds(chat, request, read, again, rounds, fresh=True)
    return outcome


async def _rounds(
    chat: Chat,
    request: ChatRequest,
    read: Callable[[Reply], T],
    again: Callable[[ChatRequest, Reply, str], ChatRequest],
    rounds: int,
    fresh: bool,
) -> tuple[Settled[T] | Failure, bool]:
    """One way through the rounds, and whether anything was asked that no store had."""
    asked, reason = False, ""
    for number in range(1, rounds + 1):
        reply = await chat.complete(request, fresh=fresh)
        if isinstance(reply, Failure):
            return reply, True
        asked |= not reply.stored
        try:
            return Settled(read(reply), reply, number), asked
        except Unreadable as error:
            reason = str(error)
        if not reply.stored:
            await chat.reject(request, reason)
        request = again(request, reply, reason)
    return Failure("unreadable", f"no readable reply in {rounds} rounds; the last: {reason}", rounds), asked
