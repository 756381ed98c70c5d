"""What the published judge pipeline makes of a judge's replies, faults included (the upstream reading).

Written from a description of its behaviour. In particular: the response is cut at 2,048 characters before it is sent;
the guard compares letter by letter with the whole response, passes a bare string whose letters occur, and skips
``count``; its five failures are shared by all rule items of an instruction, and an item that finds them used up is not
asked but takes over the content of the item before it; after the last failure the rejected content is used all the
same; an answer that begins with A, B, C or D is that letter, any other is compared as it is.

Where the published pipeline raises, and then loses all instructions of the video, the item fails with kind
"upstream_lost" and the others go on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from trustvid.captioning.checklist import OpenItem, RuleItem
from trustvid.judge.base import Extraction, JudgeTask, OpenAnswer, Reading
from trustvid.judge.prompts import FirstRequests, JudgePrompts
from trustvid.judge.reading import read_confidence
from trustvid.llm.chat import Chat
from trustvid.llm.messages import ChatRequest, Failure, Reply

CUT = 2048
GUARD_FAILURES = 5
ANSWER_TRIES = 5
PARSE_TRIES = 4


async def published_reading(chat: Chat, prompts: JudgePrompts, task: JudgeTask, first: FirstRequests) -> Reading:
    """The upstream reading of one response.

    Args:
        chat: the judge, with a store: requests that the strict reading has made are answered from it.
        prompts: the requests.
        task: the response and its checklist.
        first: the strict reading's first requests, which are also this one's unless the response is cut.
    """
    if len(task.response) > CUT:
        first = FirstRequests.of(prompts, task, task.response[:CUT])
    extractions, *answers = await asyncio.gather(
        _extractions(chat, prompts, task, first), *(_answer(chat, item, request) for item, request in first.questions)
    )
    return Reading(tuple(extractions), tuple(answers))


async def _extractions(chat: Chat, prompts: JudgePrompts, task: JudgeTask, first: FirstRequests) -> list[Extraction]:
    """The rule items one after the other, because they share the guard's failures."""
    failures, content = 0, None
    done = []
    for item, request in first.rules:
        rounds, lost = 0, None
        while failures < GUARD_FAILURES:
            rounds += 1
            found = await _content(chat, request)
            if isinstance(found, Failure):
                lost = found
                break
            content, reply = found
            if item.constraint_id == "count" or all(element in task.response for element in content):
                break
            failures += 1
            request = prompts.again(request, reply, "an excerpt does not stand in the response", extraction=True)
        done.append(_extraction(item, content, lost, rounds))
    return done


def _extraction(item: RuleItem, content: Sequence[str] | None, lost: Failure | None, rounds: int) -> Extraction:
    if lost is None and content is None:
        lost = _lost("no content was ever received")
    if lost is not None:
        return Extraction(item.check_id, None, "model", lost, rounds)
    # A bare string is checked as one text, like a list of one.
    texts = (content,) if isinstance(content, str) else tuple(content or ())
    return Extraction(item.check_id, texts, "model", rounds=rounds)


async def _content(chat: Chat, request: ChatRequest) -> tuple[str | list[str], Reply] | Failure:
    got = await _json_reply(chat, request, first_sample=0)
    if isinstance(got, Failure):
        return got
    record, reply = got
    if not isinstance(record, dict) or "content" not in record:
        return _lost("the JSON has no key 'content'")
    content = record["content"]
    if isinstance(content, str) or (isinstance(content, list) and all(isinstance(text, str) for text in content)):
        return content, reply
    return _lost(f"'content' is {type(content).__name__}, not a list of texts")


async def _answer(chat: Chat, item: OpenItem, request: ChatRequest) -> OpenAnswer:
    for number in range(ANSWER_TRIES):
        got = await _json_reply(chat, request, first_sample=number * PARSE_TRIES)
        if isinstance(got, Failure):
            return OpenAnswer(item.check_id, None, "model", failure=got, rounds=number + 1)
        record, _ = got
        answer = record.get("answer") if isinstance(record, dict) else None
        if not answer:
            continue
        if not isinstance(answer, str):
            lost = _lost(f"'answer' is {type(answer).__name__}, not a text")
            return OpenAnswer(item.check_id, None, "model", failure=lost, rounds=number + 1)
        return OpenAnswer(
            item.check_id,
            answer[0] if answer[0] in "ABCD" else answer,
            "model",
            explanation=str(record.get("result_explanation") or ""),
            confidence=read_confidence(record.get("result_confidence")),
            rounds=number + 1,
        )
    lost = _lost(f"no answer in {ANSWER_TRIES} replies")
    return OpenAnswer(item.check_id, None, "model", failure=lost, rounds=ANSWER_TRIES)


async def _json_reply(chat: Chat, request: ChatRequest, first_sample: int) -> tuple[Any, Reply] | Failure:
    """The first reply that parses; the same request is repeated, as a further sample, while none does."""
    for number in range(PARSE_TRIES):
        sample = first_sample + number
        reply = await chat.complete(request if sample == request.sample else replace(request, sample=sample))
        if isinstance(reply, Failure):
            return reply
        try:
            return json.loads(_unfenced(reply.text)), reply
        except (ValueError, RecursionError):
            continue
    return _lost(f"no JSON in {PARSE_TRIES} replies")


def _unfenced(text: str) -> str:
    return text.removeprefix("```json\n").removesuffix("\n```")


def _lost(reason: str) -> Failure:
    return Failure("upstream_lost", f"the published pipeline fails here and loses the video: {reason}")
