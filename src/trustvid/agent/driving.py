"""Running passes of the pipeline side by side: whoever waits for the policy is asked in one list."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from trustvid.errors import TrustvidError
from trustvid.policy.base import Policy, PolicyError, PolicyRequest

T = TypeVar("T")
Turns = Generator[PolicyRequest, str, T]
"""A pass: yields a request whenever the policy has to speak, takes its reply, returns what came of it."""
Asked = Callable[[Sequence[int], Sequence[PolicyRequest]], Sequence[str | TrustvidError]]
"""Asks the policy: numbers of the passes that wait and their requests; a reply, or why there is none, for each."""


def drive(turns: Turns[T], policy: Policy) -> T:
    """Run one pass to its end, one policy turn at a time.

    Raises:
        TrustvidError: what the pipeline or the policy raised.
    """
    (outcome,) = drive_all([turns], policy)
    if isinstance(outcome, TrustvidError):
        raise outcome
    return outcome


def drive_all(passes: Sequence[Turns[T]], policy: Policy) -> list[T | TrustvidError]:
    """Run passes side by side: in each round, all that wait for the policy are asked in one list.

    Returns:
        For each, in order, what it came to, or why there is nothing; one that fails does not touch the others.
    """
    return drive_with(passes, lambda places, requests: _replies(policy, requests))


def drive_with(passes: Sequence[Turns[T]], ask: Asked) -> list[T | TrustvidError]:
    """As :func:`drive_all`, where ``ask`` knows which pass a request is of."""
    outcomes: list[Any] = [TrustvidError("not started")] * len(passes)
    waiting: dict[int, PolicyRequest] = {}

    def go_on(place: int, reply: str | None) -> None:
        try:
            waiting[place] = passes[place].send(reply)
        except StopIteration as stop:
            outcomes[place] = stop.value
        except TrustvidError as error:
            outcomes[place] = error

    for place in range(len(passes)):
        go_on(place, None)
    while waiting:
        places, requests = list(waiting), list(waiting.values())
        waiting.clear()
        for place, reply in zip(places, ask(places, requests), strict=True):
            if isinstance(reply, TrustvidError):
                passes[place].close()
                outcomes[place] = reply
            else:
                go_on(place, reply)
    return outcomes


def _replies(policy: Policy, requests: Sequence[PolicyRequest]) -> list[str | TrustvidError]:
    """One reply or error for each request. Where an error does not say whose it is, each is asked alone."""
    try:
        return list(policy.generate(requests))
    except PolicyError as error:
        if error.replies:
            return replies_of(error)
        alone: TrustvidError = error
    except TrustvidError as error:
        alone = error
    return [alone] if len(requests) == 1 else [one for each in requests for one in _replies(policy, [each])]


def replies_of(error: PolicyError) -> list[Any]:
    """The replies that an error holds, and an error of its own where one is missing."""
    return [
        TrustvidError(error.reasons.get(place, str(error))) if reply is None else reply
        for place, reply in enumerate(error.replies)
    ]
