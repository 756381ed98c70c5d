"""What long or paid work will cost, before it begins: calls, tokens and, where rates are known, time and money.

Numbers in, numbers out. Frames are counted as the model families cut them into tokens. Words are counted by their
letters; the constants below are means of runs on BoxWorld with the full prompts. Good to a factor, not to a per cent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trustvid.errors import ConfigError

CHARACTERS_PER_TOKEN = 4  # of English text
SYSTEM_TOKENS = 60  # the system message
TURN_TOKENS = 200  # what a turn tells and asks beside the question
EVIDENCE_TOKENS = 650  # what the tools report on three sub-queries
NAMED_FRAME_TOKENS = 10  # index and time of a frame in words: "31 (3.10 s); "
REPLY_TOKENS = 150  # a reply
CAPTION_TOKENS = 120  # a caption (IF-VidCap's example responses have 324 characters in the mean, some of them Han)
THOUGHT_TOKENS = 1500  # a thought before it: a guess, models differ
JUDGE_TOKENS = 400  # a judge's request beside instruction and response

_NAMES = (
    (r"qwen2[._-]?5[._-]?vl|video[._-]?r1", "qwen2_5_vl"),
    (r"qwen3[._-]?vl", "qwen3_vl"),
    (r"internvl", "internvl"),
    (r"llava[._-]?onevision", "llava_onevision"),
    (r"smolvlm", "smolvlm"),
)
_TOKEN_SIDE = {"qwen2_5_vl": 28, "qwen3_vl": 32}  # pixels of a token's side; frames keep their shape
_STAMP_TOKENS = 8  # Qwen3-VL: the time before each pair of frames
# Families that resize every frame to a fixed size: tokens of a frame in a video, marks and times around it included.
_FIXED = {"internvl": 256 + 8, "llava_onevision": 196, "smolvlm": 81 + 15}


@dataclass(frozen=True)
class Clips:
    """A typical video of the work.

    Attributes:
        width, height: pixels.
        n_frames: frames it has.
        seconds: its length.
    """

    width: int
    height: int
    n_frames: int
    seconds: float


@dataclass(frozen=True)
class Showing:
    """How a policy is shown frames.

    Attributes:
        family: see :func:`family_of`; None = unknown.
        as_video: frames of one message are one video, not single pictures.
        bounds: least and most pixels of a frame after resizing.
        total: most pixels of all frames of a video; None = no bound.
    """

    family: str | None
    as_video: bool = True
    bounds: tuple[int, int] = (1, 10**9)
    total: int | None = None

    def most(self, frames: int) -> int:
        """Most pixels of each of so many frames."""
        least, most = self.bounds
        if self.total is None or not self.as_video:
            return most
        return max(min(most, 2 * self.total // frames), int(1.05 * least))


@dataclass(frozen=True)
class Cost:
    """What a number of calls takes.

    Attributes:
        calls: requests to the model.
        prompt: tokens that it reads.
        written: tokens that it writes, as a guess.
        most: tokens that it can write; None = nothing bounds them.
        frames_known: whether ``prompt`` includes the frames.
    """

    calls: int = 0
    prompt: int = 0
    written: int = 0
    most: int | None = 0
    frames_known: bool = True

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.calls + other.calls,
            self.prompt + other.prompt,
            self.written + other.written,
            None if self.most is None or other.most is None else self.most + other.most,
            self.frames_known and other.frames_known,
        )

    def times(self, n: int) -> Cost:
        """The same, ``n`` times over."""
        most = None if self.most is None else self.most * n
        return Cost(self.calls * n, self.prompt * n, self.written * n, most, self.frames_known)


# -- frames ------------------------------------------------------------------------------------------------------------


def family_of(model: str) -> str | None:
    """The family of a model by its name or its ``model_type``; None = unknown.

    >>> family_of("Qwen/Qwen2.5-VL-7B-Instruct"), family_of("qwen3_vl"), family_of("gpt-4o")
    ('qwen2_5_vl', 'qwen3_vl', None)
    """
    return next((family for pattern, family in _NAMES if re.search(pattern, model, re.IGNORECASE)), None)


def frame_tokens(n: int, clip: Clips, showing: Showing) -> int | None:
    """Tokens of ``n`` frames shown with one message; None where the family, or its pictures, are not known."""
    if n == 0:
        return 0
    if showing.family in _TOKEN_SIDE:
        side = _TOKEN_SIDE[showing.family]
        height, width = resized(clip.height, clip.width, side, showing.bounds[0], showing.most(n))
        of_one = height * width // side**2
        if not showing.as_video:
            return n * (of_one + NAMED_FRAME_TOKENS)
        pairs = math.ceil(n / 2)
        return pairs * (of_one + (_STAMP_TOKENS + 2 if showing.family == "qwen3_vl" else 0))
    if showing.family in _FIXED and showing.as_video:
        return n * _FIXED[showing.family]
    return None


def resized(height: int, width: int, side: int, least: int, most: int) -> tuple[int, int]:
    """Height and width of a frame as Qwen's processors make it: multiples of ``side``, its area within the bounds.

    >>> resized(720, 1280, 28, 50176, 602112), resized(20, 30, 28, 3136, 12544)
    ((560, 1008), (56, 84))
    """
    high, wide = (max(side, round(length / side) * side) for length in (height, width))
    if high * wide > most:
        shrink = math.sqrt(height * width / most)
        high, wide = (max(side, math.floor(length / shrink / side) * side) for length in (height, width))
    elif high * wide < least:
        grow = math.sqrt(least / (height * width))
        high, wide = (math.ceil(length * grow / side) * side for length in (height, width))
    return high, wide


# -- calls -------------------------------------------------------------------------------------------------------------


def answer_cost(
    evidence: str, asks_route: bool, question: int, frames: int, shown: int | None, new: int | None, keeps: bool = False
) -> Cost:
    """What one answer by one method takes.

    Args:
        evidence: of the method: "tools", "frames", "none" or "chance".
        asks_route: whether the policy also chooses the tools.
        question: characters of the question and its options.
        frames: K.
        shown: tokens of these frames, None where unknown.
        new: most tokens of a reply, None where unbounded.
        keeps: whether the policy keeps what it has read of a conversation, so that a later turn reads what is new.
    """
    if evidence == "chance":
        return Cost()
    asked = SYSTEM_TOKENS + TURN_TOKENS + _tokens(question)
    if evidence == "none":
        return _turns([asked], new, True)
    first = asked + frames * NAMED_FRAME_TOKENS + (shown or 0)
    if evidence == "frames":
        return _turns([first], new, shown is not None)
    route = [TURN_TOKENS] if asks_route else []
    return _turns([first, *route, TURN_TOKENS + EVIDENCE_TOKENS], new, shown is not None, keeps)


def caption_cost(
    instruction: int, frames: int, shown: int | None, tools: bool, new: int | None, thinks: bool = False
) -> Cost:
    """What one caption takes. Arguments as :func:`answer_cost`.

    Args:
        instruction: its characters.
        tools: whether the policy also gets what tools report.
        thinks: whether it thinks before it writes.
    """
    words = SYSTEM_TOKENS + TURN_TOKENS + _tokens(instruction) + frames * NAMED_FRAME_TOKENS
    told = words + EVIDENCE_TOKENS * tools + (shown or 0)
    return _turns([told], new, shown is not None, reply=CAPTION_TOKENS + THOUGHT_TOKENS * thinks)


def judge_cost(items: int, instruction: int, response: int | None, new: int | None) -> Cost:
    """What one response takes: a call for each item of its checklist, each asked once.

    Args:
        items: rule items and questions of the checklist.
        instruction, response: characters; None = the response is yet to be written.
        new: most tokens of a reply, None where unbounded.
    """
    said = CAPTION_TOKENS if response is None else _tokens(response)
    return _turns([JUDGE_TOKENS + _tokens(instruction) + said], new, True).times(items)


def _turns(
    told: Sequence[int], new: int | None, frames_known: bool, keeps: bool = False, reply: int = REPLY_TOKENS
) -> Cost:
    """A conversation whose turns tell ``told`` tokens: each call reads all before it, earlier replies included."""
    reply = reply if new is None else min(reply, new)
    read = told if keeps else [sum(told[: turn + 1]) + turn * reply for turn in range(len(told))]
    calls = len(told)
    return Cost(calls, sum(read), calls * reply, None if new is None else calls * new, frames_known)


def _tokens(characters: int) -> int:
    return math.ceil(characters / CHARACTERS_PER_TOKEN)


# -- rates and words ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rates:
    """What is known of a model's speed and price (the config's ``estimate.policy`` and ``estimate.judge``).

    Attributes:
        tokens_per_s: tokens written in a second by all workers together, the reading of prompts included.
        price_per_mtok: price of a million tokens, [read, written].

    Raises:
        ConfigError: a value is out of range.
    """

    tokens_per_s: float | None = None
    price_per_mtok: list[float] | None = None

    def __post_init__(self) -> None:
        speed, price = self.tokens_per_s, self.price_per_mtok
        faults = []
        if speed is not None and not speed > 0:
            faults.append(f"estimate: tokens_per_s={speed}; expected more than 0, or null")
        if price is not None and not (len(price) == 2 and min(price) >= 0):
            faults.append(f"estimate: price_per_mtok={price}; expected [read, written], or null")
        if faults:
            raise ConfigError(faults)


def line(who: str, cost: Cost, rates: Rates) -> str:
    """The cost in one line: guesses, and in brackets what it can become where every reply is as long as allowed.

    >>> line("m", Cost(600, 2_900_000, 90_000, 600_000), Rates(40.0))
    'estimate: m: 600 calls, about 2.9 M tokens read, 90 k written (at most 600 k); 38 min (4.2 h); price unknown'
    """
    read = f"about {_short(cost.prompt)} tokens read{'' if cost.frames_known else ' beside the frames'}"
    bound = "" if cost.most is None else f" (at most {_short(cost.most)})"
    time, price = "time unknown", "price unknown"
    if rates.tokens_per_s:
        time = _both(cost, lambda written: _duration(written / rates.tokens_per_s))
    if rates.price_per_mtok:
        of_read, of_written = rates.price_per_mtok
        spent = _both(cost, lambda written: f"{(cost.prompt * of_read + written * of_written) / 1e6:,.2f}")
        price = f"{spent} to pay{'' if cost.frames_known else ' beside the frames'}"
    return f"estimate: {who}: {cost.calls:,} calls, {read}, {_short(cost.written)} written{bound}; {time}; {price}"


def _both(cost: Cost, said: Callable[[int], str]) -> str:
    return said(cost.written) + ("" if cost.most is None else f" ({said(cost.most)})")


def _short(n: int) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if n >= size:
            return f"{n / size:.3g} {letter}"
    return str(n)


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{math.ceil(seconds / 60)} min"
