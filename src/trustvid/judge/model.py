"""The judge of all chat models: asks item by item, guards what comes back, asks again with what was wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from trustvid.captioning.checklist import OpenItem, RuleItem
from trustvid.judge.base import Extraction, Judgement, JudgeTask, OpenAnswer, Reading
from trustvid.judge.guard import guarded
from trustvid.judge.prompts import FirstRequests, JudgePrompts
from trustvid.judge.published import published_reading
from trustvid.judge.reading import Answered, read_answer, read_content
from trustvid.llm import loop
from trustvid.llm.chat import Chat
from trustvid.llm.dialogue import settle
from trustvid.llm.messages import ChatRequest, Failure, Reply


class ModelJudge:
    """A judge over any chat.

    One request for each item, so that nothing has to be aligned: a reply belongs to the check id it was asked for.
    Each item has its own rounds. Nothing is cut off the response.

    Args:
        name: how tables call it.
        chat: the model, with its store.
        prompts: the requests.
        rounds: replies to try at most for an item whose reply cannot be used.
        upstream: also read what the published pipeline would have made of this model. Requests that both readings
            make are paid once; only retries that the guards decide differently, and responses longer than 2,048
            characters, cost more.
    """

    def __init__(self, name: str, chat: Chat, prompts: JudgePrompts, rounds: int = 5, upstream: bool = True):
        self.name, self.chat, self.prompts, self.rounds, self.upstream = name, chat, prompts, rounds, upstream

    def describe(self) -> dict[str, Any]:
        """See :meth:`~trustvid.judge.base.Judge.describe`."""
        return {
            "judge": self.name,
            "chat": dict(self.chat.identity),
            "prompts": self.prompts.folder.name,
            "prompts_digest": self.prompts.digest,
            "json_mode": self.prompts.json_mode,
            "rounds": self.rounds,
            "readings": ["strict", "upstream"] if self.upstream else ["strict"],
        }

    def judge(self, task: JudgeTask) -> Judgement:
        """See :meth:`~trustvid.judge.base.Judge.judge`."""
        return loop.run(self._judge(task))

    def judge_many(self, tasks: Iterable[JudgeTask]) -> Iterator[Judgement]:
        """See :meth:`~trustvid.judge.base.Judge.judge_many`."""
        # A task has several requests: as many tasks as requests in flight keep every place busy.
        return loop.stream((self._judge(task) for task in tasks), window=max(4, self.chat.parallel))

    async def _judge(self, task: JudgeTask) -> Judgement:
        first = FirstRequests.of(self.prompts, task, task.response)
        done = await asyncio.gather(
            *(self._extract(task, item, request) for item, request in first.rules),
            *(self._answer(item, request) for item, request in first.questions),
        )
        strict = Reading(tuple(done[: len(first.rules)]), tuple(done[len(first.rules) :]))
        upstream = await published_reading(self.chat, self.prompts, task, first) if self.upstream else None
        return Judgement(task.task_id, strict, upstream)

    async def _extract(self, task: JudgeTask, item: RuleItem, request: ChatRequest) -> Extraction:
        def read(reply: Reply) -> tuple[str, ...]:
            return guarded(read_content(reply.text), item.constraint_id, task.response)

        def again(request: ChatRequest, reply: Reply, reason: str) -> ChatRequest:
            return self.prompts.again(request, reply, reason, extraction=True)

        outcome = await settle(self.chat, request, read, again, self.rounds)
        if isinstance(outcome, Failure):
            return Extraction(item.check_id, None, "model", outcome, outcome.attempts)
        return Extraction(item.check_id, outcome.value, "model", rounds=outcome.rounds)

    async def _answer(self, item: OpenItem, request: ChatRequest) -> OpenAnswer:
        def read(reply: Reply) -> Answered:
            return read_answer(reply.text, item.check_type, item.options)

        def again(request: ChatRequest, reply: Reply, reason: str) -> ChatRequest:
            return self.prompts.again(request, reply, reason, extraction=False)

        outcome = await settle(self.chat, request, read, again, self.rounds)
        if isinstance(outcome, Failure):
            return OpenAnswer(item.check_id, None, "model", failure=outcome, rounds=outcome.attempts)
        said = outcome.value
        return OpenAnswer(item.check_id, said.answer, "model", said.explanation, said.confidence, rounds=outcome.rounds)
