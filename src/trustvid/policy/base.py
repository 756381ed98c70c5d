"""The policy contract: rendered messages in, text out, a list at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trustvid.errors import TrustvidError
from trustvid.video.source import FrameSource


class PolicyError(TrustvidError):
    """The policy did not take its turn in some of the conversations: no answer there, hence no score.

    Attributes:
        replies: one for each request in order, None where it failed; empty when nothing is known of single requests.
        reasons: place of a request that failed → why.
    """

    def __init__(self, message: str, replies: Sequence[Any] = (), reasons: Mapping[int, str] | None = None):
        super().__init__(message)
        self.replies, self.reasons = tuple(replies), dict(reasons or {})


@dataclass(frozen=True)
class Message:
    """One chat message.

    Attributes:
        role: "system", "user" or "assistant".
        text: its words.
        frames: source indices of the frames shown with it, before the text; pixels come from the request's clip.
    """

    role: str
    text: str
    frames: tuple[int, ...] = ()


@dataclass(frozen=True)
class PolicyRequest:
    """A conversation that waits for the policy's next turn.

    Attributes:
        messages: what was said so far.
        clip: serves the pixels of the messages' frames.
        sample: number of the conversation among several of the same words, whose draws are to differ.
    """

    messages: tuple[Message, ...]
    clip: FrameSource
    sample: int = 0


class Policy(Protocol):
    """Anything that continues conversations. One with ``parallel`` above 1 is asked that many at a time, if it may be.

    ``generate`` raises :class:`PolicyError` when a request failed for good.
    """

    name: str

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        """One reply for each request, in order."""
        ...
