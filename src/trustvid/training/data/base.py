"""What every source of examples gives, and the clips that its frames are of."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from trustvid.config.checking import build
from trustvid.errors import ConfigError, DataError
from trustvid.seeding import derive_rng
from trustvid.training.conversations import Conversation
from trustvid.video.source import FrameSource

Conditioned = tuple[str, int, float]  # a corruption's name, severity 1–5, share of the frames
_OPEN = 64  # clips that stay open
_TOLD = 5  # reasons that are told


class Source(Protocol):
    """A source of examples.

    Attributes:
        reads: groups of the config that it reads beside its own settings.
    """

    reads: tuple[str, ...]

    def load(self, config: Mapping[str, Any]) -> Examples:
        """The examples, under a plain and checked config of the stage.

        Raises:
            DataError: files cannot be read, or nothing is left of them.
        """
        ...


@dataclass(frozen=True)
class Item:
    """A conversation, the video it is about (what is held out is held out by video), and which part of the source."""

    conversation: Conversation
    cluster: str
    part: str = "all"


@dataclass(frozen=True)
class Examples:
    """What a source gives.

    Attributes:
        learned: conversations to learn from.
        parts: of each of them, which part of the source it is; phases of a run name these.
        held_out: conversations about other videos, on which the loss is measured.
        left_out: what could not be used, and why.
        digest: of all words and frames.
    """

    learned: list[Conversation]
    parts: list[str]
    held_out: list[Conversation]
    left_out: list[str] = field(default_factory=list)
    digest: str = ""

    def lines(self) -> list[str]:
        """What there is, for a reader: counts, and the first reasons of what is not."""
        parts = ", ".join(f"{count} {part}" for part, count in sorted(Counter(self.parts).items()))
        lines = [f"{len(self.learned)} conversations to learn from ({parts}), {len(self.held_out)} held out"]
        if self.left_out:
            lines.append(f"  {len(self.left_out)} left out: {'; '.join(self.left_out[:_TOLD])}")
        return lines


def examples_of(items: Sequence[Item], held_out: float, seed: int, left_out: Sequence[str] = ()) -> Examples:
    """The items, a share of the videos held out, each with a key of its own.

    Args:
        items: in the order of the source.
        held_out: share of the videos, 0 to 1; which of them follows from ``seed`` and their names.
        left_out: reasons.

    Raises:
        DataError: nothing is left to learn from.
    """
    times: Counter[str] = Counter()
    learned, parts, kept = [], [], []
    digest = hashlib.sha256()
    for item in items:
        conversation = item.conversation
        times[conversation.key] += 1
        if times[conversation.key] > 1:
            conversation = replace(conversation, key=f"{conversation.key} #{times[conversation.key]}")
        said = [[message.role, message.text, list(message.frames)] for message in conversation.messages]
        digest.update(json.dumps([conversation.key, conversation.learn, said]).encode())
        if held_out and derive_rng("held_out", seed, item.cluster).random() < held_out:
            kept.append(conversation)
        else:
            learned.append(conversation)
            parts.append(item.part)
    if not learned:
        reasons = "; ".join(left_out[:_TOLD]) or f"{len(kept)} are held out (data.held_out={held_out})"
        raise DataError(f"there is nothing to learn from: {reasons}")
    return Examples(learned, parts, kept, list(left_out), digest.hexdigest())


def held_out_fault(held_out: float) -> list[str]:
    """What is wrong with a share of held-out videos."""
    return [] if 0 <= held_out < 1 else [f"data.held_out={held_out}; expected a share of the videos, 0 to below 1"]


def refuse(faults: Sequence[str]) -> None:
    """Raise all faults as one error, where there are any.

    Raises:
        ConfigError: there are.
    """
    if faults:
        raise ConfigError(faults)


class Clips:
    """Opens the videos of a run, clean or corrupted; the last ones stay open.

    Args:
        config: has ``reader``, ``corruption`` and ``disturbance``, whose seed is that of the corruptions.
    """

    def __init__(self, config: Mapping[str, Any]):
        self.reader = build(config["reader"])
        self.seed = int(config["disturbance"].get("seed", 0)) if config.get("disturbance") else 0
        self.corruptions = {name: build(node) for name, node in (config.get("corruption") or {}).items()}
        self.open = lru_cache(maxsize=_OPEN)(self._open)

    def opener(self, video: Path | str, condition: Conditioned | None = None) -> Callable[[], FrameSource]:
        """Opens a clip when it is needed."""
        return lambda: self.open(str(video), condition)

    def _open(self, video: str, condition: Conditioned | None = None) -> FrameSource:
        from trustvid.corruption.clip import corrupt
        from trustvid.video.memo import RememberedClip

        clip: FrameSource = self.reader.open(Path(video))
        if condition is None:
            return clip
        name, severity, coverage = condition
        return RememberedClip(corrupt(clip, self.corruptions[name], severity, coverage, self.seed))
