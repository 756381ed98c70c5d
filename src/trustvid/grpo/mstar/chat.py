"""m* from a frozen chat model: one request for each question, asked again where the reply cannot be read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trustvid.grpo.mstar.base import Asked, MStarEstimator
from trustvid.grpo.mstar.prompts import MStarPrompts, read_estimate

if TYPE_CHECKING:
    from trustvid.llm.chat import Chat
    from trustvid.llm.messages import ChatRequest, Failure, Reply


class ChatEstimator(MStarEstimator):
    """An estimator over any chat, which is built at the first use.

    Args:
        prompts: what is asked.
        rounds: replies to try at most for a question, at least 1.
    """

    def __init__(self, prompts: MStarPrompts, rounds: int):
        super().__init__()
        self._prompts, self._rounds = prompts, rounds

    @abstractmethod
    def _build(self) -> Chat:
        """The chat, with its store."""

    @cached_property
    def chat(self) -> Chat:
        """The chat, built when first asked for."""
        return self._build()

    def describe(self) -> dict[str, Any]:
        """See :meth:`MStarEstimator.describe`."""
        return {
            "mstar": self.name,
            "chat": dict(self.chat.identity),
            "prompts": self._prompts.folder.name,
            "prompts_digest": self._prompts.digest,
            "rounds": self._rounds,
        }

    def _estimate(self, questions: Sequence[Asked]) -> list[int | str]:
        from trustvid.llm import loop

        works = (self._ask(question) for question in questions)
        return list(loop.stream(works, window=8 * self.chat.parallel))

    async def _ask(self, question: Asked) -> int | str:
        from trustvid.llm.dialogue import settle
        from trustvid.llm.messages import ChatMessage, ChatRequest, Failure

        def read(reply: Reply) -> int:
            return read_estimate(reply.text)

        messages = tuple(ChatMessage.of(role, text) for role, text in self._prompts.first(question))
        request = ChatRequest(messages, prompt_digest=self._prompts.digest)
        outcome: Any | Failure = await settle(self.chat, request, read, self._again, self._rounds)
        return f"{outcome.kind}: {outcome.message}" if isinstance(outcome, Failure) else outcome.value

    def _again(self, request: ChatRequest, reply: Reply, reason: str) -> ChatRequest:
        from trustvid.llm.messages import ChatMessage, ChatRequest

        more = (ChatMessage.of("assistant", reply.text), ChatMessage.of("user", self._prompts.again(reason)))
        return ChatRequest((*request.messages, *more), prompt_digest=request.prompt_digest)


def rounds_faults(rounds: int) -> list[str]:
    """What is wrong with a number of rounds."""
    return [] if rounds >= 1 else [f"mstar.rounds={rounds}; expected at least 1"]
