"""The policy contract: rendered messages in, text out, a list at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trustvid.video.source import FrameSource


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
    """A conversation that waits for the policy's next turn. ``clip`` serves the pixels of the messages' frames."""

    messages: tuple[Message, ...]
    clip: FrameSource


class Policy(Protocol):
    """Anything that continues conversations."""

    name: str

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        """One reply for each request, in order."""
        ...
