"""A vision-language policy behind an OpenAI-compatible server: vLLM, SGLang, a gateway, a hosted API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trustvid.errors import ConfigError
from trustvid.llm.messages import ChatMessage, ChatRequest, Failure, Image
from trustvid.llm.settings import Endpoint, Limits, Sampling
from trustvid.policy.base import Message, PolicyError, PolicyRequest
from trustvid.video.source import FrameSource

if TYPE_CHECKING:
    from trustvid.llm.stored import StoredChat

FORMATS = ("jpeg", "png")


@dataclass(frozen=True)
class Pictures:
    """How frames are sent.

    Attributes:
        longest_side: larger frames are scaled down to this many pixels along their longer side; None = never.
        image_format: "jpeg", or "png" (lossless, several times larger).
        jpeg_quality: 1 to 100; PNG does not read it.
    """

    longest_side: int | None = 1024
    image_format: str = "jpeg"
    jpeg_quality: int = 95

    def faults(self) -> Iterator[str]:
        """What is wrong with the values."""
        if self.longest_side is not None and self.longest_side < 1:
            yield f"longest_side={self.longest_side}; expected at least 1 pixel, or null for frames as they are"
        if self.image_format not in FORMATS:
            yield f"image_format={self.image_format} is unknown; known: {', '.join(FORMATS)}"
        if not 1 <= self.jpeg_quality <= 100:
            yield f"jpeg_quality={self.jpeg_quality}; expected 1 to 100"

    def encode(self, frame: np.ndarray) -> Image:
        """A frame, uint8 RGB [height, width, 3], as a picture file."""
        import cv2

        height, width = frame.shape[:2]
        longest = max(height, width)
        if self.longest_side is not None and longest > self.longest_side:
            size = [max(1, round(side * self.longest_side / longest)) for side in (width, height)]
            frame = cv2.resize(frame, size, interpolation=cv2.INTER_AREA)
        ending, options = ".png", []
        if self.image_format == "jpeg":
            ending, options = ".jpg", [cv2.IMWRITE_JPEG_QUALITY, self.jpeg_quality]
        _, data = cv2.imencode(ending, cv2.cvtColor(frame, cv2.COLOR_RGB2BGR), options)
        return Image(data.tobytes(), f"image/{self.image_format}")


class OpenAICompatiblePolicy:
    """Continues conversations with a served vision-language model.

    A message's frames go before its text, each after a line that names its index and time, as pictures inside the
    request; nothing is uploaded elsewhere. Earlier messages keep theirs. Every reply is stored by all that can change
    it (model, decoding, texts, the bytes of the pictures), so that what has been answered once is never paid for again,
    whichever process asks.

    Args:
        model: its name on the server.
        base_url: the API's root, usually ending in /v1.
        key_env: environment variable that holds the key; None = the server wants none.
        served_by: who serves the model, for the key of stored replies; None = the host of ``base_url``.
        store: SQLite file of the replies; None = they last as long as the process.
        offline: answer from the store alone.
        temperature, top_p, max_tokens, seed: decoding; None = not sent.
        extra: more fields of the request body.
        longest_side, image_format, jpeg_quality: see :class:`Pictures`.
        concurrency, timeout_s, total_timeout_s, max_retries, backoff_s, give_up_after: see
            :class:`~trustvid.llm.settings.Limits`; they hold for each worker process.
        name: how tables call it; None = the model.

    Raises:
        ConfigError: with all faults; also when the variable with the key is not set, unless ``offline``.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "http://127.0.0.1:8000/v1",
        key_env: str | None = None,
        served_by: str | None = None,
        store: str | None = None,
        offline: bool = False,
        temperature: float | None = None,
        top_p: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        extra: Mapping[str, Any] | None = None,
        longest_side: int | None = 1024,
        image_format: str = "jpeg",
        jpeg_quality: int = 95,
        concurrency: int = 16,
        timeout_s: float = 120.0,
        total_timeout_s: float = 240.0,
        max_retries: int = 4,
        backoff_s: float = 1.0,
        give_up_after: int | None = 3,
        name: str | None = None,
    ):
        self.name = name or model
        # Nobody is asked offline, so no key is needed.
        self._endpoint = Endpoint(model, base_url, None if offline else key_env, served_by, dict(extra or {}))
        self._sampling = Sampling(temperature, top_p, max_tokens, seed)
        self._limits = Limits(concurrency, timeout_s, total_timeout_s, max_retries, backoff_s, give_up_after)
        self._pictures = Pictures(longest_side, image_format, jpeg_quality)
        self._store, self._offline = store, offline
        self.parallel = concurrency
        parts = (self._endpoint, self._sampling, self._limits, self._pictures)
        faults = [fault for part in parts for fault in part.faults()] + list(_store_faults(store, offline))
        try:
            self._endpoint.read_key()
        except ConfigError as error:
            faults += error.faults
        if faults:
            raise ConfigError(faults)

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        """One reply for each request, in order; several requests are asked side by side.

        Raises:
            PolicyError: a request failed for good; it has the server's reasons, and the replies to the others.
            VideoError: frames of a message cannot be decoded.
        """
        outcomes = list(self._chat.complete_stream(self._chat_request(request) for request in requests))
        reasons = {
            place: f"the policy gave no reply ({outcome.kind}): {outcome.message}"
            for place, outcome in enumerate(outcomes)
            if isinstance(outcome, Failure)
        }
        if reasons:
            replies = [None if place in reasons else outcome.text for place, outcome in enumerate(outcomes)]
            raise PolicyError(next(iter(reasons.values())), replies, reasons)
        return [outcome.text for outcome in outcomes]

    @cached_property
    def _chat(self) -> StoredChat:
        """The client, built at the first request: workers are processes, and each has its own connections."""
        from trustvid.llm.client import OpenAIChat
        from trustvid.llm.stored import remembered

        return remembered(OpenAIChat(self._endpoint, self._sampling, self._limits), self._store, self._offline)

    def _chat_request(self, request: PolicyRequest) -> ChatRequest:
        return ChatRequest(tuple(self._chat_message(message, request.clip) for message in request.messages))

    def _chat_message(self, message: Message, clip: FrameSource) -> ChatMessage:
        parts: list[str | Image] = []
        if message.frames:
            for index, frame in zip(message.frames, clip.frames(message.frames), strict=True):
                parts += [f"frame {index}, {clip.timestamps[index]:.2f} s", self._pictures.encode(frame)]
        return ChatMessage(message.role, (*parts, message.text))


def _store_faults(store: str | None, offline: bool) -> Iterator[str]:
    if offline and store is None:
        yield "offline=true needs the stored replies of an earlier run; name them (policy.store=…)"
    elif offline and not Path(store).is_file():
        yield f"offline=true and no replies at {store}; expected the store of an earlier run (policy.store=…)"
