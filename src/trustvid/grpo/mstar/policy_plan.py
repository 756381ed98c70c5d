"""m* from the trained policy's own plan: how many sub-queries it lists when it is asked by words alone. An ablation."""

from __future__ import annotations

from collections.abc import Sequence

from trustvid.agent.method import Question
from trustvid.agent.prompting import Prompts
from trustvid.agent.rendering import brief_question_block, question_block
from trustvid.agent.replies import read_decomposition
from trustvid.errors import ConfigError
from trustvid.grpo.mstar.base import Asked
from trustvid.grpo.mstar.policy import PolicyEstimator
from trustvid.policy.base import Message


class PolicyPlanEstimator(PolicyEstimator):
    """As :class:`~trustvid.grpo.mstar.policy.PolicyEstimator`, for policies that can plan but cannot write a number.

    The policy that is being trained takes the question apart with its own prompts and no frame; m* is the length
    of its list. So it raises its reward by listing more, as the paper's ablation does.

    Args:
        prompts: those of the run: "full", "compact", "tiny", or a folder.

    Raises:
        ConfigError: there are no such prompts.
    """

    def __init__(self, prompts: str = "full"):
        super().__init__(rounds=1, name="policy_plan")
        self._prompts = Prompts(prompts)

    def _estimate(self, questions: Sequence[Asked]) -> list[int | str]:
        if self._policy is None:
            raise ConfigError(
                ["mstar=policy_plan asks the policy that is being trained, and none was given to it (bind)"]
            )
        conversations = [self._conversation(question) for question in questions]
        return [
            failure if reply is None else _length(reply, question)
            for question, (reply, failure) in zip(questions, self._replies(conversations), strict=True)
        ]

    def _conversation(self, asked: Asked) -> list[Message]:
        question = Question(asked.text, asked.options)
        text = self._prompts.render(
            "decompose",
            question=question_block(question.text, question.letters, question.options),
            brief_question=brief_question_block(question.text),
            frames="## Frames\nnone shown",
            profile="## Reliability\nnot measured",
        )
        return [Message("system", self._prompts.render("system")), Message("user", text)]


def _length(reply: str, asked: Asked) -> int | str:
    sub_queries, understood = read_decomposition(reply, Question(asked.text, asked.options))
    return len(sub_queries) if understood else f"unreadable: {reply[:80]!r} is no list of sub-queries"
