"""What a model is asked for m*, and how its reply is read."""

from __future__ import annotations

import re
from pathlib import Path

from trustvid.benchmarks.sample import LETTERS
from trustvid.grpo.mstar.base import Asked
from trustvid.llm.dialogue import Unreadable
from trustvid.llm.prompting import PromptFolder

SHIPPED = Path(__file__).parents[1] / "prompts"

_NUMBER = re.compile(r"(?:[-\w* ]{0,40}[:=])?\s*\**\s*(\d{1,4})\s*\**\s*\.?")


class MStarPrompts:
    """Prompts of the estimator (paper E.4).

    Args:
        folder: "full" or "compact" (shipped), or a folder with ``instructions`` (.j2, or .txt taken as it is) and, if
            wanted, ``question`` and ``again`` (.j2); those it lacks are the shipped ones.

    Slots: ``question`` and ``options`` (texts with their letters; may be empty) in all but ``again``, which has
    ``reason``.

    Raises:
        ConfigError: the folder or its instructions are missing.
    """

    def __init__(self, folder: str = "full"):
        optional = ("question", "again")
        self._files = PromptFolder(folder, SHIPPED, ("instructions",), optional, setting="mstar.prompts")
        self._shipped = PromptFolder("full", SHIPPED, ("instructions", *optional), setting="mstar.prompts")
        self.folder = self._files.folder

    @property
    def digest(self) -> str:
        """Short hash of all the prompts in use, for the run record."""
        return "-".join(self._of(role).digest_of(role) for role in ("instructions", "question", "again"))

    def first(self, question: Asked) -> list[tuple[str, str]]:
        """(role, text) of the messages that ask about a question.

        Raises:
            ValueError: it has more options than there are letters.
        """
        if len(question.options) > len(LETTERS):
            raise ValueError(f"{len(question.options)} options; at most {len(LETTERS)} have a letter")
        options = [f"{letter}. {text}" for letter, text in zip(LETTERS, question.options, strict=False)]
        slots = {"question": question.text.strip(), "options": options}
        roles = (("system", "instructions"), ("user", "question"))
        return [(speaker, self._of(role).render(role, **slots)) for speaker, role in roles]

    def again(self, reason: str) -> str:
        """What to say to a reply that could not be read."""
        return self._of("again").render("again", reason=reason)

    def _of(self, role: str) -> PromptFolder:
        return self._files if role in self._files else self._shipped


def read_estimate(reply: str) -> int:
    """The number that a reply gives; not yet clipped.

    Strict: after a thought between think tags, the reply must be one whole number, alone, after a label ("Number: 3"),
    or in an answer tag. A number among other words is not taken for an estimate.

    Raises:
        Unreadable: anything else.

    >>> read_estimate("3"), read_estimate("<think>2 cars, 1 order</think>\\n**Sub-queries: 4**")
    (3, 4)
    """
    said = re.sub(r"<think>.*?</think>", "", reply, flags=re.DOTALL).strip()
    if "<think>" in said:
        raise Unreadable("the thought did not end; expected one whole number")
    tagged = re.fullmatch(r"<answer>(.*)</answer>", said, flags=re.DOTALL)
    number = _NUMBER.fullmatch(tagged[1].strip() if tagged else said)
    if number is None:
        raise Unreadable(f"{said[:60]!r} is not one whole number")
    return int(number[1])
