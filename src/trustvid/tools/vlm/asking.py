"""One question about each frame, put to a vision-language policy; replies are JSON or a failure of the tool."""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from trustvid.errors import TrustvidError
from trustvid.policy.base import Message, Policy, PolicyRequest
from trustvid.tools.pretrained.checkpoint import Checkpoint, contents_digest

T = TypeVar("T")

# Policies in this process keep settings of a call in their processors: one call at a time, over all tools, so that a
# thread left behind by a time limit never meets the next one in the model.
_ONE_AT_A_TIME = threading.Lock()
_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
_TOLD_CHARACTERS = 80  # of a reply that cannot be read
# What a policy holds that says where and how fast it runs, or what it is called (it changes no more than rounding), and
# what it has loaded.
_NOT_OF_THE_REPLY = frozenset(
    "attn_implementation batch_size device device_map key_env limits loaded name offline parallel store".split()  # noqa: SIM905
)


class Still:
    """A single frame as a :class:`~trustvid.video.source.FrameSource`, without a place in any video.

    A reply can then depend on the pixels alone: the same picture is read alike wherever it stands.

    Args:
        image: uint8 RGB [H, W, 3].
    """

    video_id = "frame"
    n_frames = 1
    fps = 1.0

    def __init__(self, image: np.ndarray):
        self._image = image
        self.height, self.width = image.shape[:2]
        self.timestamps = np.zeros(1)
        self.digest = hashlib.sha256(repr(image.shape).encode() + np.ascontiguousarray(image).tobytes()).hexdigest()

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        """The frame, once for each index (all are 0)."""
        return np.stack([self._image[None][index] for index in indices])

    def frame_key(self, index: int) -> str:
        """Always "clean": the digest says all."""
        return "clean"


def policy_faults(tool: str, policy: Any, instead: str) -> Iterator[str]:
    """Why a policy cannot be asked about frames; ``tool`` names whose setting it is, ``instead`` the way out."""
    if type(policy).__module__.startswith("trustvid.policy.scripted"):
        yield (
            f"{tool}.policy is a {type(policy).__name__}, which reads words and cannot see pixels; expected a "
            f"vision-language policy, e.g. policy=qwen2_5_vl_7b, or use {instead}"
        )
    elif not callable(getattr(policy, "generate", None)):
        yield f"{tool}.policy is a {type(policy).__name__}; expected a component of the group policy"


class FrameAsker:
    """Asks a policy the same question about single frames.

    Args:
        tool: name of the tool, for messages.
        policy: anything with ``generate``; its weights are its own business.
        question: the words that go with each frame.
        wanted: what a reply has to be, for messages.
    """

    def __init__(self, tool: str, policy: Policy, question: str, wanted: str):
        self.tool, self.policy, self.question, self.wanted = tool, policy, question, wanted
        self.scores = callable(getattr(policy, "logprobs", None))
        self._guard = _ONE_AT_A_TIME if hasattr(policy, "load") else nullcontext()
        self._settings = _settings_of(policy)

    def ask(self, images: Sequence[np.ndarray], read: Callable[[str], T]) -> list[tuple[T, float | None]]:
        """What ``read`` makes of the reply about each image (uint8 RGB [H, W, 3]), and the reply's probability.

        ``read`` raises ValueError where a reply is not what was asked for. The probability is the geometric mean of
        those of the reply's tokens, exp(mean log p), 0–1; None where the policy tells none or nothing was reported.

        Raises:
            TrustvidError: a reply cannot be read, or the policy failed.
        """
        requests = [PolicyRequest((Message("user", self.question, (0,)),), Still(image)) for image in images]
        with self._guard:
            replies = self.policy.generate(requests)
            found = self._read(replies, read)
            told = [place for place, one in enumerate(found) if one] if self.scores else []
            tokens = self.policy.logprobs([requests[p] for p in told], [replies[p] for p in told]) if told else []
        scores = {place: math.exp(sum(row) / len(row)) for place, row in zip(told, tokens, strict=True)}
        return [(one, scores.get(place)) for place, one in enumerate(found)]

    def settings(self) -> dict:
        """All of the policy that can change a reply: model, contents of the weights, decoding, how frames are shown."""
        weights = getattr(self.policy, "weights", None)
        if weights is None:
            return dict(self._settings)
        known = {**self._settings["weights"]}
        known |= Checkpoint(weights.model, weights.revision, dtype=weights.dtype).settings()
        if weights.init_from is not None:  # trained anew, it lies in the same place
            known["init_from"] = contents_digest(Path(weights.init_from))
        return {**self._settings, "weights": known}

    def _read(self, replies: Sequence[str], read: Callable[[str], T]) -> list[T]:
        found: list[T] = []
        unread: list[str] = []
        for reply in replies:
            try:
                found.append(read(reply))
            except ValueError:
                unread.append(reply)
        if unread:
            start = " ".join(unread[0].split())[:_TOLD_CHARACTERS]
            raise TrustvidError(
                f"{len(unread)} of {len(replies)} replies of policy {self.policy.name} cannot be read, e.g. {start!r}; "
                f"expected {self.wanted}"
            )
        return found


def json_of(reply: str) -> Any:
    """The JSON that a reply consists of, after thoughts (up to ``</think>``) and without a code fence around it.

    Raises:
        ValueError: it is not JSON, or more than that.

    >>> json_of('<think>a sign</think> ```json\\n["CAFE"]\\n```')
    ['CAFE']
    """
    text = reply.rpartition("</think>")[2].strip()
    fenced = _FENCED.fullmatch(text)
    try:
        return json.loads(fenced[1] if fenced else text)
    except RecursionError:
        raise ValueError("brackets nested too deep") from None


def _settings_of(policy: Any) -> dict[str, Any]:
    """The settings among a policy's attributes: public plain values and frozen dataclasses, but ``_NOT_OF_THE_REPLY``.

    What is not known to be without effect counts: a setting too many costs a second look, one too few a wrong answer.
    """
    kept: dict[str, Any] = {}
    for attribute, value in vars(policy).items():
        name = attribute.lstrip("_")
        if name in _NOT_OF_THE_REPLY:
            continue
        if is_dataclass(value) and value.__dataclass_params__.frozen:
            kept[name] = {
                field.name: getattr(value, field.name) for field in fields(value) if field.name not in _NOT_OF_THE_REPLY
            }
        elif name == attribute and (value is None or isinstance(value, str | bool | int | float)):
            kept[name] = value
    return kept
