"""How a captioner is shown a video and whether it thinks first: what IF-VidCap publishes model by model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trustvid.errors import ConfigError
from trustvid.policy.base import Message
from trustvid.video.sampling import uniform_indices
from trustvid.video.source import FrameSource

PLACINGS = ("ends", "centres")
THINKING = ("none", "prompted", "opened")
UNCLOSED = "the thought was never closed, so there is no caption"
_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class CaptionProtocol:
    """The settings of one captioner (arXiv 2510.18726, Appendix G and its inference scripts).

    Attributes:
        fps: frames for each second of the video, rounded down; None = the run's own number of frames, evenly spaced.
        placing: "ends" = evenly spaced, the first and the last frame among them (qwen-vl-utils); "centres" = the middle
            of each of as many equal stretches (InternVL).
        multiple_of: the number of frames is rounded down to a multiple of this (2 where two frames share tokens).
        least, most: bounds of the number of frames; a video that has fewer gives what it has.
        thinking: "none"; "prompted" = ``thinking_prompt`` is the system message, and what the task says comes before
            the instruction; "opened" = the model's chat template opens the thought, so a reply holds only its end.
        thinking_prompt: the system message that asks for a thought between ``<think>`` and ``</think>``.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    fps: float | None = None
    placing: Literal["ends", "centres"] = "ends"
    multiple_of: int = 1
    least: int = 1
    most: int = 768
    thinking: Literal["none", "prompted", "opened"] = "none"
    thinking_prompt: str | None = None

    def __post_init__(self) -> None:
        faults = []
        if self.fps is not None and not self.fps > 0:
            faults.append(f"captioning.fps={self.fps}; expected frames a second above 0, or null for frames=…")
        if self.placing not in PLACINGS:
            faults.append(f"captioning.placing={self.placing!r} is unknown; known: {', '.join(PLACINGS)}")
        if self.thinking not in THINKING:
            faults.append(f"captioning.thinking={self.thinking!r} is unknown; known: {', '.join(THINKING)}")
        if (self.thinking == "prompted") != bool(self.thinking_prompt):
            faults.append("captioning.thinking_prompt belongs to thinking=prompted, and that needs it")
        if not 1 <= self.multiple_of <= self.most or not 1 <= self.least <= self.most:
            faults.append(
                f"captioning: multiple_of={self.multiple_of}, least={self.least}, most={self.most}; "
                "expected 1 ≤ least ≤ most and 1 ≤ multiple_of ≤ most"
            )
        if faults:
            raise ConfigError(faults)

    def count(self, n_frames: int, seconds: float, default: int) -> int:
        """How many frames of a video are shown.

        Args:
            n_frames: frames it has.
            seconds: its length, n_frames / its mean rate.
            default: the number where there is no ``fps``.

        >>> CaptionProtocol(2.0, multiple_of=2, least=4).count(102, 20.4, 8), CaptionProtocol().count(102, 20.4, 8)
        (40, 8)
        """
        if self.fps is None:
            return min(default, n_frames)
        wanted = int(seconds * self.fps + 1e-6)  # 3.3 s · 10 must not fall just below a whole number
        within = min(max(wanted, self.least), self.most, n_frames)
        return max(1, within // self.multiple_of * self.multiple_of)

    def frames(self, clip: FrameSource, default: int) -> tuple[int, ...]:
        """Source indices of the frames that are shown, rising."""
        count = self.count(clip.n_frames, clip.n_frames / clip.fps, default)
        if self.fps is None or self.placing == "ends":
            return tuple(uniform_indices(clip.n_frames, count))
        stretch = (clip.n_frames - 1) / count
        return tuple(sorted({int(stretch / 2 + round(stretch * place)) for place in range(count)}))

    def messages(self, task: str, words: str, frames: tuple[int, ...]) -> tuple[Message, ...]:
        """The conversation that waits for a caption.

        Args:
            task: what captioners are told once: their role, and to obey.
            words: the instruction with what is said about the video.
            frames: source indices of the frames shown.
        """
        if self.thinking_prompt:
            return Message("system", self.thinking_prompt.strip()), Message("user", f"{task}\n\n{words}", frames)
        return Message("system", task), Message("user", words, frames)


def split_thought(reply: str, opened: bool) -> tuple[str | None, str | None]:
    """(thought, caption) of a reply; None for what is not there. A thought that is not closed leaves no caption.

    Args:
        reply: what the model wrote.
        opened: whether the prompt ended inside a thought, so that the reply need not open one.

    >>> split_thought("<think>a red car</think>\\nA car.", False), split_thought("A car.", False)
    (('a red car', 'A car.'), (None, 'A car.'))
    >>> split_thought("a red", True), split_thought("<think>a red", False)
    (('a red', None), ('a red', None))
    """
    end = reply.rfind(_CLOSE)
    if reply.rfind(_OPEN) > end or (opened and end < 0):
        return reply.replace(_OPEN, "").replace(_CLOSE, "").strip(), None
    if end < 0:
        return None, reply
    thought = reply[:end].strip().removeprefix(_OPEN).strip()
    return thought, reply[end + len(_CLOSE) :].lstrip()
