"""The judge's prompts: shipped in our own words, or the published files for an exact comparison."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trustvid.llm.messages import ChatMessage, ChatRequest, Reply
from trustvid.llm.prompting import PromptFolder

if TYPE_CHECKING:
    from trustvid.captioning.checklist import OpenItem, RuleItem
    from trustvid.judge.base import JudgeTask

SHIPPED = Path(__file__).parent / "prompts"

# The names of the published files, so that their folder can be given as it is.
_PUBLISHED = {
    "extract": "rule_based_judge_llm_meta_prompt.txt",
    "answer": "open_ended_judge_llm_meta_prompt.txt",
}


class JudgePrompts:
    """Requests to a judge model.

    Args:
        folder: "full" or "compact" (shipped), or a folder with ``extract`` and ``answer`` (system messages; .j2, .txt,
            or the published files by their own names) and, if wanted, ``extract_user``, ``answer_user`` and ``retry``
            (.j2). Without user prompts the user messages are the JSON objects of the published pipeline; without
            ``retry`` the shipped one is used.
        json_mode: ask the server for JSON objects.
        begin_replies: make replies begin with the words that a folder gives for it; the chat must be able to.

    Slots: ``instruction``, ``response``; extract: ``checkitem`` (JSON), ``description``, ``counting``; answer:
    ``question``, ``options``, ``check_type``; retry: ``reason``, ``extraction``.

    Raises:
        ConfigError: the folder or a file of it is missing.
    """

    def __init__(self, folder: str = "full", json_mode: bool = True, begin_replies: bool = False):
        self.json_mode, self.begin_replies = json_mode, begin_replies
        optional = ("extract_user", "answer_user", "retry")
        self._files = PromptFolder(folder, SHIPPED, ("extract", "answer"), optional, _PUBLISHED, "judge.prompts")
        self._retry = (
            self._files
            if "retry" in self._files
            else PromptFolder("full", SHIPPED, ("retry",), (), {}, "judge.prompts")
        )
        self.folder = self._files.folder

    @property
    def digest(self) -> str:
        """Short hash of all the prompts, for the run record."""
        return f"{self._files.digest}-{self._retry.digest_of('retry')}"

    def extraction(self, instruction: str, response: str, item: RuleItem) -> ChatRequest:
        """The first request for one rule item."""
        parameters = {**item.parameters, "content": None}
        checkitem = {
            "check_id": item.check_id,
            "constraint_id": item.constraint_id,
            "check_description": item.check_description,
            "parameters": parameters,
        }
        slots = {
            "instruction": instruction,
            "response": response,
            "checkitem": _dumped(checkitem),
            "description": item.check_description,
            "counting": item.constraint_id == "count",
        }
        payload = {"response": response, "checkitem": checkitem}
        return self._request("extract", slots, payload)

    def question(self, instruction: str, response: str, item: OpenItem) -> ChatRequest:
        """The first request for one question."""
        slots = {
            "instruction": instruction,
            "response": response,
            "question": item.question,
            "options": list(item.options),
            "check_type": item.check_type,
        }
        payload = {
            "prompt": instruction,
            "response": response,
            "question": item.question,
            "options": list(item.options),
        }
        return self._request("answer", slots, payload)

    def again(self, request: ChatRequest, reply: Reply, reason: str, extraction: bool) -> ChatRequest:
        """The next request after a reply that could not be used: the reply, and what was wrong with it."""
        asked, start = request.messages, ()
        if asked[-1].role == "assistant":
            asked, start = asked[:-1], asked[-1:]
        said = ChatMessage.of("assistant", reply.text)
        wrong = ChatMessage.of("user", self._retry.render("retry", reason=reason, extraction=extraction))
        # The digest of the first request, then that of the retry prompt, however many rounds.
        digest = f"{request.prompt_digest.partition('+')[0]}+{self._retry.digest_of('retry')}"
        return ChatRequest((*asked, said, wrong, *start), json_mode=request.json_mode, prompt_digest=digest)

    def _request(self, role: str, slots: dict, payload: dict) -> ChatRequest:
        user = f"{role}_user"
        system = self._files.render(role, **slots)
        turns = self._files.turns(user, **slots) if user in self._files else [("user", _dumped(payload))]
        if turns[-1][0] == "assistant" and not self.begin_replies:
            turns = turns[:-1]
        messages = (ChatMessage.of(speaker, text) for speaker, text in [("system", system), *turns])
        return ChatRequest(tuple(messages), json_mode=self.json_mode, prompt_digest=self._files.digest_of(role, user))


@dataclass(frozen=True)
class FirstRequests:
    """The first request for each item of a checklist, in its order."""

    rules: tuple[tuple[RuleItem, ChatRequest], ...]
    questions: tuple[tuple[OpenItem, ChatRequest], ...]

    @classmethod
    def of(cls, prompts: JudgePrompts, task: JudgeTask, response: str) -> FirstRequests:
        """The requests about ``response``, which may be less than the task's."""
        items = [item for group in task.checklist.open_groups for item in group.check_items]
        return cls(
            tuple((item, prompts.extraction(task.instruction, response, item)) for item in task.checklist.rule_items),
            tuple((item, prompts.question(task.instruction, response, item)) for item in items),
        )


def _dumped(value: dict) -> str:
    return json.dumps(value, ensure_ascii=False)
