"""A question and what all tasks share: templates, fair options, fair targets.

No option, order or number may tell the answer to one who has not seen the video. Therefore: the wanted answer class is
drawn before the scene (in shuffled blocks, so that small sets are balanced too); wrong options are a uniform draw from
the classes that are left; their order comes from a generator of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trustvid.seeding import Part, derive_rng

CITY_PREAMBLE = (
    "The camera is level, 4 m above the ground, with a horizontal field of view of 90 degrees; "
    "it flies forward at 5 m/s and turns on the spot."
)
ROOM_PREAMBLE = (
    "The camera is level, 1.5 m above the floor, with a horizontal field of view of 90 degrees; "
    "it only turns on the spot."
)

# Sectors of 45 degrees by bearing: index i is centred on 45·i degrees to the right.
LP_LABELS = (
    "straight ahead",
    "ahead on the right",
    "on the right",
    "behind on the right",
    "behind",
    "behind on the left",
    "on the left",
    "ahead on the left",
)
AG_LABELS = (
    "keep flying straight ahead",
    "turn right by about 45 degrees",
    "turn right by about 90 degrees",
    "turn right by about 135 degrees",
    "turn around",
    "turn left by about 135 degrees",
    "turn left by about 90 degrees",
    "turn left by about 45 degrees",
)
RDIR_MEDIUM = ("left", "right", "back")
RDIR_HARD = ("front-left", "front-right", "back-left", "back-right")
RP_TURNS = ("turn left", "turn right", "turn back")
RP_LABELS = tuple(f"{first}, {second}" for first in RP_TURNS for second in RP_TURNS)
PE_WINDOW = (2, 3, 4, 5)


@dataclass(frozen=True)
class Question:
    """One multiple-choice question; ``answer`` is the index of the right option, ``kind`` the benchmark's own name."""

    task: str
    kind: str
    text: str
    options: tuple[str, ...]
    answer: int

    @property
    def letter(self) -> str:
        """The letter of the right option."""
        return "ABCDEFGHIJ"[self.answer]


def make_question(
    seed: tuple[Part, ...], task: str, kind: str, text: str, truth: str, others: Sequence[str], n_options: int
) -> Question:
    """Draws ``n_options - 1`` of the wrong options and shuffles all, by generators that nothing else uses."""
    wrong = list(others)
    chosen = derive_rng(*seed, task, "distractors").choice(len(wrong), n_options - 1, replace=False)
    options = [truth, *(wrong[int(i)] for i in chosen)]
    order = [int(i) for i in derive_rng(*seed, task, "order").permutation(n_options)]
    return Question(task, kind, text, tuple(options[i] for i in order), order.index(0))


def target(labels: Sequence[str], stream: tuple[Part, ...], index: int) -> str:
    """The wanted answer class of the ``index``-th clip: each block of ``len(labels)`` clips has every label once."""
    block, position = divmod(index, len(labels))
    return labels[int(derive_rng(*stream, "block", block).permutation(len(labels))[position])]


def n_options(seed: tuple[Part, ...], task: str, fewest: int, most: int) -> int:
    """How many options a question has."""
    return int(derive_rng(*seed, task, "count").integers(fewest, most + 1))
