"""What is asked of a chat model and what comes back: plain values, equal on every machine.

Nothing here knows a server. A request's :meth:`ChatRequest.to_json` is all of the request that can change the reply.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from trustvid.llm.settings import Sampling

Role = Literal["system", "user", "assistant"]

# Part of every request key: raised when the client asks the same question in another way.
SCHEMA = 1


@dataclass(frozen=True)
class Image:
    """One picture inside a message.

    Attributes:
        data: the encoded file (PNG, JPEG, WebP), not pixels.
        media_type: its type, e.g. "image/jpeg".
    """

    data: bytes = field(repr=False)
    media_type: str = "image/png"

    @property
    def data_url(self) -> str:
        """The picture as the API takes it."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode('ascii')}"

    @property
    def digest(self) -> str:
        """SHA-256 of the file, which stands for it in keys and stores."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class ChatMessage:
    """One message: texts and pictures in the order in which the model sees them."""

    role: Role
    parts: tuple[str | Image, ...]

    @classmethod
    def of(cls, role: Role, *parts: str | Image) -> ChatMessage:
        """A message of the given parts."""
        return cls(role, parts)

    @property
    def text(self) -> str:
        """The texts, joined; pictures left out."""
        return "".join(part for part in self.parts if isinstance(part, str))

    def to_api(self) -> dict[str, Any]:
        """The message as chat completions take it: a plain string where there are no pictures."""
        if all(isinstance(part, str) for part in self.parts):
            return {"role": self.role, "content": self.text}
        content = [
            {"type": "text", "text": part}
            if isinstance(part, str)
            else {"type": "image_url", "image_url": {"url": part.data_url}}
            for part in self.parts
        ]
        return {"role": self.role, "content": content}

    def to_json(self) -> dict[str, Any]:
        """The message with pictures replaced by their digest."""
        parts = [
            part if isinstance(part, str) else {"image": part.digest, "media_type": part.media_type}
            for part in self.parts
        ]
        return {"role": self.role, "parts": parts}


@dataclass(frozen=True)
class ChatRequest:
    """One question to a model.

    Attributes:
        messages: the conversation so far; the model continues it. Where the last message is the assistant's, the
            reply begins with its words (only chats in this process can do that).
        sample: index of this reply among several to the same conversation.
        json_mode: ask the server for a JSON object.
        prompt_digest: digest of the prompt files the messages were rendered from.
        sampling: settings of this request alone; None = those of the chat.
    """

    messages: tuple[ChatMessage, ...]
    sample: int = 0
    json_mode: bool = False
    prompt_digest: str = ""
    sampling: Sampling | None = None

    def to_json(self) -> dict[str, Any]:
        """Everything about the request that can change the reply."""
        return {
            "messages": [message.to_json() for message in self.messages],
            "sample": self.sample,
            "json_mode": self.json_mode,
            "prompt_digest": self.prompt_digest,
            "sampling": self.sampling.to_json() if self.sampling else None,
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 of :meth:`to_json`."""
        return hashlib.sha256(canonical_json(self.to_json()).encode()).hexdigest()


def request_key(identity: Mapping[str, Any], request: ChatRequest) -> str:
    """SHA-256 of everything that can change the reply: who is asked (``identity``), what, and this client's schema."""
    return key_of(identity_digest(identity), request)


def identity_digest(identity: Mapping[str, Any]) -> str:
    """SHA-256 of who is asked, and of this client's schema: the part of a key that all requests to a chat share."""
    return hashlib.sha256(canonical_json([SCHEMA, identity]).encode()).hexdigest()


def key_of(who: str, request: ChatRequest) -> str:
    """The request's key, from :func:`identity_digest` of whom it goes to."""
    return hashlib.sha256(f"{who}:{request.digest}".encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON text that is the same for equal values: keys sorted, ASCII only, no NaN."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True)
class Reply:
    """What a model answered.

    Attributes:
        text: its words, never empty by accident: a reply without content is a failure.
        finish_reason: "stop", "length" (cut at the token limit), or what the server says.
        model: the model's name as the server reports it.
        prompt_tokens, completion_tokens: as the server counts them, None when it does not.
        stored: whether the reply came from a store and cost nothing now.
    """

    text: str
    finish_reason: str = "stop"
    model: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    stored: bool = False

    def to_json(self) -> dict[str, Any]:
        """All but where it came from."""
        return {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "model": self.model,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Reply:
        """Inverse of :meth:`to_json`, marked as stored."""
        return cls(**record, stored=True)


@dataclass(frozen=True)
class Failure:
    """Why there is no answer. A failure is never an answer: what depends on it is unscored.

    Attributes:
        kind: of the client: "timeout", "connection", "rate_limited", "http_<status>", "bad_reply" (no usable content),
            "refused", "too_long", "bad_request", "not_stored" (replay or offline: never asked), "unreadable" (content
            that its reader rejects). Judges add "undecided", "not_asked", "upstream_lost" and "mock".
        message: what happened, one line, fit to be shown; never holds the key.
        attempts: requests sent for it.
    """

    kind: str
    message: str
    attempts: int = 0

    def to_json(self) -> dict[str, Any]:
        """The plain record."""
        return {"kind": self.kind, "message": self.message, "attempts": self.attempts}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Failure:
        """Inverse of :meth:`to_json`."""
        return cls(**record)


Outcome = Reply | Failure
