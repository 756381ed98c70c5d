"""m* from a vision-language policy: a frozen one, or, as the paper's ablation, the one that is being trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trustvid.errors import ConfigError
from trustvid.grpo.mstar.base import Asked, MStarEstimator
from trustvid.grpo.mstar.chat import rounds_faults
from trustvid.grpo.mstar.prompts import MStarPrompts, read_estimate
from trustvid.llm.dialogue import Unreadable
from trustvid.policy.base import Message, Policy, PolicyError, PolicyRequest


class NoVideo:
    """The :class:`~trustvid.video.source.FrameSource` of conversations that show nothing."""

    video_id = digest = "no video"
    n_frames = width = height = 0
    fps = 0.0
    timestamps = np.zeros(0)

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        """No frames, uint8 [0, 0, 0, 3].

        Raises:
            IndexError: any is asked for.
        """
        if len(indices):
            raise IndexError(f"frame {indices[0]} of no video")
        return np.zeros((0, 0, 0, 3), np.uint8)

    def frame_key(self, index: int) -> str:
        """There is no frame to describe."""
        raise IndexError(f"frame {index} of no video")


class PolicyEstimator(MStarEstimator):
    """Asks a policy, by text: the question and its options, no frames.

    Without a policy of its own it asks the one that is being trained (``bind`` gives it). This exists to repeat the
    paper's ablation: such a policy raises its reward by raising m*, so nothing is remembered and its record says
    "ablation". Use a frozen model for anything else.

    Args:
        policy: a frozen policy; None = the one that is being trained.
        prompts: "full", "compact", or a folder.
        rounds: replies to try for a question whose reply cannot be read.
        name: how logs call it; None = "policy", or the frozen policy's name.

    Raises:
        ConfigError: with all faults.
    """

    def __init__(self, policy: Policy | None = None, prompts: str = "full", rounds: int = 2, name: str | None = None):
        super().__init__()
        faults = rounds_faults(rounds)
        if faults:
            raise ConfigError(faults)
        self._prompts, self._rounds, self._policy = MStarPrompts(prompts), rounds, policy
        self.asks_policy, self.remembers = policy is None, policy is not None
        self.name = name or (policy.name if policy is not None else "policy")

    def bind(self, policy: Policy) -> None:
        """Give the policy that is being trained.

        Raises:
            ValueError: the estimator has a policy of its own.
        """
        if not self.asks_policy:
            raise ValueError(f"mstar {self.name} asks a frozen policy; the trained one must not replace it")
        self._policy = policy

    def describe(self) -> dict[str, Any]:
        """See :meth:`MStarEstimator.describe`."""
        role = "trained policy (ablation: it can raise its own reward)" if self.asks_policy else "frozen policy"
        prompts = {"prompts": self._prompts.folder.name, "prompts_digest": self._prompts.digest}
        return {"mstar": self.name, "asked": role, **prompts, "rounds": self._rounds}

    def _estimate(self, questions: Sequence[Asked]) -> list[int | str]:
        if self._policy is None:
            raise ConfigError(["mstar=policy asks the policy that is being trained, and none was given to it (bind)"])
        outcomes: list[int | str] = ["not asked"] * len(questions)
        waiting = {
            place: [Message(role, text) for role, text in self._prompts.first(question)]
            for place, question in enumerate(questions)
        }
        for _ in range(self._rounds):
            for place, (reply, failure) in zip(list(waiting), self._replies(list(waiting.values())), strict=True):
                if reply is None:
                    outcomes[place] = failure
                    del waiting[place]
                    continue
                try:
                    outcomes[place] = read_estimate(reply)
                    del waiting[place]
                except Unreadable as error:
                    outcomes[place] = f"unreadable: no readable reply in {self._rounds} rounds; the last: {error}"
                    again = Message("user", self._prompts.again(str(error)))
                    waiting[place] += [Message("assistant", reply), again]
            if not waiting:
                break
        return outcomes

    def _replies(self, conversations: Sequence[Sequence[Message]]) -> list[tuple[str | None, str]]:
        """(reply, "") or (None, why there is none) for each conversation."""
        requests = [PolicyRequest(tuple(messages), NoVideo()) for messages in conversations]
        try:
            return [(reply, "") for reply in self._policy.generate(requests)]
        except PolicyError as error:
            if error.replies:
                reasons = error.reasons
                return [(reply, reasons.get(place, str(error))) for place, reply in enumerate(error.replies)]
            if len(conversations) == 1:
                return [(None, str(error))]
        # Nothing is known of single requests: each is asked alone, so that one does not take others with it.
        return [outcome for messages in conversations for outcome in self._replies([messages])]
