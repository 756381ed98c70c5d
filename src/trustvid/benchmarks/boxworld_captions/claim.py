"""A content constraint: what is asked, which questions check it, and wordings that satisfy or violate it.

Every wording knows the right reading of itself, question by question, so that what a judge ought to answer never has to
be guessed. A claim either has its own piece of the response (a sentence, item, value, row) or watches over all of it
(``focus``, ``exclude``): then its right wording adds nothing and its faults add a tail to another piece.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trustvid.benchmarks.boxworld_captions.facts import ClipFacts, Thing

NONE = "None of the above"
FILLER = "Nothing more can be said about this part."
COLOURS_ZH = dict(
    zip(
        ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink"),
        ("红色", "橙色", "黄色", "绿色", "青色", "蓝色", "紫色", "粉色"),
        strict=True,
    )
)


@dataclass(frozen=True)
class Question:
    """One question about a response: "attempt" (yes or no) or "correctness" (lettered options)."""

    kind: str
    text: str
    options: tuple[str, ...]
    right: str


@dataclass(frozen=True)
class Wording:
    """How a response puts a claim, and what it thereby answers.

    Attributes:
        sentence: a full sentence; "" for claims without a piece of their own.
        phrase: the same as a few words, for tags and table cells.
        answers: the right reading of this wording, one for each question.
        tail: words added to another piece, for claims without their own.
        zh: the sentence in Chinese, "" where the claim has none.
    """

    sentence: str
    phrase: str
    answers: tuple[str, ...]
    tail: str = ""
    zh: str = ""


@dataclass(frozen=True)
class Claim:
    """One content constraint of an instruction.

    Attributes:
        type_key: key of the taxonomy.
        ask: what the instruction says, after "…; ".
        heading: name of its piece: JSON key, row name.
        content: what the group of questions is about.
        questions: the group.
        right: wordings that satisfy it.
        faults: wordings that violate it, each answering at least one question wrongly.
        names: signs that the claim is about; no two claims of an instruction share one, so that none answers another's
            questions.
    """

    type_key: str
    ask: str
    heading: str
    content: str
    questions: tuple[Question, ...]
    right: tuple[Wording, ...]
    faults: tuple[Wording, ...]
    names: tuple[str, ...] = ()

    @property
    def has_piece(self) -> bool:
        """Whether it stands in a piece of its own."""
        return bool(self.right[0].sentence)


Maker = Callable[[ClipFacts, Sequence[Thing], np.random.Generator], Claim | None]
"""Makes a claim from the facts, speaking of ``free`` things only; None when these do not allow it."""


def attempt(text: str, right: str = "yes") -> Question:
    """A yes-no question."""
    return Question("attempt", text, ("yes", "no"), right)


def choice(rng: np.random.Generator, text: str, right: str, wrong: Sequence[str]) -> Question:
    """A question with ``right`` and the wrong options shuffled, and the opt-out last."""
    texts = [right, *wrong]
    order = [int(i) for i in rng.permutation(len(texts))]
    letters = "ABCDEFG"
    options = [f"{letters[place]}. {texts[i]}" for place, i in enumerate(order)]
    options.append(f"{letters[len(texts)]}. {NONE}")
    return Question("correctness", text, tuple(options), letters[order.index(0)])


def letter_of(question: Question, text: str) -> str:
    """The letter of an option, of the opt-out when no option says ``text``."""
    return next((option[0] for option in question.options if option[3:] == text), question.options[-1][0])


def pick(rng: np.random.Generator, items: Sequence, n: int) -> list:
    """``n`` different items in random order (all of them where there are fewer)."""
    return [items[int(i)] for i in rng.permutation(len(items))[:n]]


def listing(words: Sequence[str]) -> str:
    """
    >>> listing(["CAFE", "BANK", "GYM"])
    'CAFE, BANK and GYM'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def omitted(answers: tuple[str, ...]) -> Wording:
    """A piece that says nothing of what was asked."""
    return Wording(FILLER, "nothing to add", answers, zh="这一部分没有更多内容。")
