"""The chat contract: whatever continues conversations, one by one inside the event loop or a list at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trustvid.llm import loop
from trustvid.llm.messages import ChatRequest, Outcome


class Chat(ABC):
    """Something that answers chat requests.

    Attributes:
        parallel: requests it can work on at a time.
    """

    parallel: int = 1

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Everything about the chat that can change its replies: model, server, sampling. Plain JSON, no secrets."""

    @abstractmethod
    async def complete(self, request: ChatRequest, *, fresh: bool = False) -> Outcome:
        """The reply to one request, or why there is none; never raises for what a server or a model does.

        Args:
            request: the conversation.
            fresh: do not answer from memory.
        """

    async def reject(self, request: ChatRequest, reason: str) -> None:  # noqa: B027 (most chats forget)
        """Note that the reply to ``request`` could not be read. Chats without a memory have nothing to note."""

    def complete_many(self, requests: Sequence[ChatRequest]) -> list[Outcome]:
        """One outcome for each request, in order, as many at a time as the chat can work on."""
        return list(self.complete_stream(requests))

    def complete_stream(self, requests: Iterable[ChatRequest]) -> Iterator[Outcome]:
        """As :meth:`complete_many` for any number of requests in bounded memory."""
        # Several times the places: one slow reply at the head must not leave the others idle.
        return loop.stream((self.complete(request) for request in requests), window=8 * self.parallel)
