"""Conversations to learn from: what was said, which replies count, and how much each of their tokens does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trustvid.errors import ConfigError
from trustvid.policy.base import Message, PolicyRequest

if TYPE_CHECKING:
    from trustvid.policy.vlm_model import VisionLanguageModel
    from trustvid.policy.vlm_settings import Showing
    from trustvid.policy.vlm_tokens import TokenBuffer
    from trustvid.video.source import FrameSource

Learn = Literal["all", "last"]


@dataclass(frozen=True)
class Conversation:
    """One example for supervised fine-tuning.

    Attributes:
        key: its name.
        messages: ends with a reply ("assistant") of the kind that is wanted.
        clip: opens the clip that the messages' frames are of; None where no message has frames.
        learn: whether all replies are learned or the last one alone.
    """

    key: str
    messages: tuple[Message, ...]
    clip: Callable[[], FrameSource] | None = None
    learn: Learn = "all"


@dataclass(frozen=True)
class Example:
    """A conversation as tokens.

    Attributes:
        buffer: all tokens; those that are learned are the ones "written".
        weights: of each token, 0 where it is not learned.
    """

    buffer: TokenBuffer
    weights: list[float]


class Emphasis:
    """Parts of a reply that count more than the rest of it: a value is a token or two among forty of form.

    Args:
        weights: regular expression → weight of what it matches (its first group where it has one); elsewhere 1.

    Raises:
        ConfigError: an expression is none, or a weight is not above 0.
    """

    def __init__(self, weights: Mapping[str, float] | None = None):
        self.weights: dict[re.Pattern[str], float] = {}
        faults = []
        for pattern, weight in (weights or {}).items():
            try:
                self.weights[re.compile(pattern, re.DOTALL)] = float(weight)
            except re.error as error:
                faults.append(f"emphasis holds {pattern!r}: {error}; expected a regular expression")
            if not weight > 0:
                faults.append(f"emphasis[{pattern!r}]={weight}; expected a weight above 0")
        if faults:
            raise ConfigError(faults)

    def of(self, reply: str, ends: Sequence[int]) -> list[float]:
        """Weight of each token of a reply.

        Args:
            reply: its words.
            ends: for each token, the number of characters that are written when it is.
        """
        by_character = [1.0] * (len(reply) + 1)  # one more for the end of the turn
        for pattern, weight in self.weights.items():
            for match in pattern.finditer(reply):
                start, stop = match.span(1 if pattern.groups else 0)
                by_character[start:stop] = [weight] * (stop - start)
        starts = [0, *ends[:-1]]
        return [max(by_character[start : max(end, start + 1)]) for start, end in zip(starts, ends, strict=True)]


def example_of(
    conversation: Conversation, model: VisionLanguageModel, showing: Showing, emphasis: Emphasis | None = None
) -> Example:
    """The tokens of a conversation as a policy would have written it, reply after reply.

    Raises:
        VideoError: its clip cannot be read.
        TrustvidError: its frames do not fit the model.
        ValueError: it does not end with a reply.
    """
    from trustvid.policy.vlm_tokens import TokenBuffer

    messages = conversation.messages
    replies = [at for at, message in enumerate(messages) if message.role == "assistant"]
    if not replies or replies[-1] != len(messages) - 1 or replies[0] == 0:
        raise ValueError(f"{conversation.key}: {len(messages)} messages; expected the last one to be a reply")
    clip: Any = conversation.clip() if conversation.clip else None
    buffer = TokenBuffer(model.encode(PolicyRequest(messages[: replies[0]], clip), showing))
    weights = [0.0] * len(buffer)
    for at in range(replies[0], len(messages)):
        if at not in replies:
            buffer.show(model.following(messages[at], buffer.ids))
        else:
            text = model.reply_prefix + messages[at].text
            tokens = [*model.tokens_of(text), model.turn_end]
            if conversation.learn == "last" and at != replies[-1]:
                buffer.show(tokens)
            else:
                buffer.write(tokens, [0.0] * len(tokens), complete=True)
                ends = model.character_ends(tokens)
                weights += [1.0] * len(tokens) if emphasis is None else emphasis.of(text, ends)
        weights += [0.0] * (len(buffer) - len(weights))
    return Example(buffer, weights)
