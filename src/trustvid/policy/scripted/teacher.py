"""Who shows a small model how turns are taken, as data for supervised fine-tuning.

It plans and answers as well as can be, in few and regular words; it chooses tools by chance among those on offer,
evenly or by habits that know nothing of what is right. So what the pupil starts with is every skill but routing, and
all tools are still worth a try to it when rewards begin to count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trustvid.errors import ConfigError
from trustvid.policy.base import PolicyRequest
from trustvid.policy.scripted.reading import read_scene
from trustvid.policy.scripted.routing import Offer, asks_for_routing, disturbance_of, entry, offers
from trustvid.seeding import Part, derive_rng

if TYPE_CHECKING:
    import numpy as np

WORDS = {"sub_query": "words", "type": "text"}
THINGS = {"sub_query": "coloured things", "type": "spatial"}
MOTION = {"sub_query": "camera motion", "type": "temporal"}

# Wording of a question → its needs; the first pattern that fits decides. All others need words on things, and how the
# camera moved between the places that it saw them from.
NEEDS: tuple[tuple[str, tuple[dict[str, str], ...]], ...] = (
    (r"How many steps of the route", (MOTION,)),
    (r"(?i)how (does|is|did) the camera", (MOTION,)),
    (r"(?i)\b(read|written|says?)\b", (WORDS,)),
)
_EVERYTHING = (WORDS, THINGS, MOTION)

# Disturbances that a routing turn can state: the columns of the routing table.
COLUMNS = ("clean", "blur", "brightness", "occlusion")

_SUPPORT = re.compile(r"### Pooled support\n(?P<shares>[A-J] ?(?:0\.)?\d\d.*)$", re.MULTILINE)
_SHARE = re.compile(r"(?P<letter>[A-J]) ?(?:0\.)?(?P<hundredths>\d\d)")
_LETTERS = re.compile(r"\b([A-J]) to [A-J]\b")


class Teacher:
    """Takes each turn rightly, but chooses tools by chance.

    Decomposition follows the question's wording. Every sub-query goes to one of the tools listed with it, each as
    likely as the others unless there is a ``habit``; the draw follows from the conversation (its words, its frames and
    what was done to their pixels, the number of the sample) and from ``draw``. The answer is the best-supported option
    of the pooled support, the first of equals; where nothing is supported it says so and takes the first option, which
    is as good as any and a rule that can be learnt.

    A pupil of an even teacher has no greedy choice to speak of: what it is likeliest to say is an accident of its
    training, often one tool for all. Habits (:func:`favourites`) make it a matter of record, and balanced.

    Args:
        draw: another number chooses other tools for the same conversation, and has other habits.
        habit: share of the choices that go by habit, 0–1; all others are even. 0.4 sends seven of ten sub-queries with
            two tools on offer to the favourite.

    Raises:
        ConfigError: ``draw`` is below 0, or ``habit`` is no share; both faults at once.
    """

    name = "teacher"

    def __init__(self, draw: int = 0, habit: float = 0.0):
        faults = [f"policy.draw={draw}; expected 0 or more"] if draw < 0 else []
        if not 0 <= habit <= 1:
            faults.append(f"policy.habit={habit}; expected a share, 0 (even) to 1 (always the favourite)")
        if faults:
            raise ConfigError(faults)
        self.draw, self.habit = draw, float(habit)

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        """One reply for each conversation: a decomposition, a choice of tools, or an answer."""
        return [self._reply(request) for request in requests]

    def _reply(self, request: PolicyRequest) -> str:
        last = request.messages[-1].text
        if asks_for_routing(last):
            return self._chosen(last, request)
        if "## Evidence" in last:
            return answer(last)
        return json.dumps(needs(read_scene([message.text for message in request.messages]).question))

    def _chosen(self, text: str, request: PolicyRequest) -> str:
        rng = derive_rng("teacher", self.draw, *_identity(request))
        disturbance, lines = disturbance_of(text), []
        for offer in offers(text):
            tool = self._tool(offer, disturbance, rng) if offer.tools else "none"
            lines.append(entry(offer, disturbance, tool))
        return "\n".join(lines)

    def _tool(self, offer: Offer, disturbance: str, rng: np.random.Generator) -> str:
        if self.habit and disturbance not in COLUMNS:
            raise ValueError(f"no habit for disturbance {disturbance!r}; expected one of {', '.join(COLUMNS)}")
        if self.habit and rng.random() < self.habit:
            return offer.tools[favourites(self.draw, offer.kind, len(offer.tools))[disturbance]]
        return offer.tools[int(rng.integers(len(offer.tools)))]


def favourites(draw: int, kind: str, n: int) -> dict[str, int]:
    """Disturbance → place of the tool that a teacher's habit prefers for a semantic type, among ``n`` tools on offer.

    Drawn from ``draw`` and the type alone, and balanced: of two tools each is preferred under two of the four
    disturbances, of more each as often as the others, give or take one. So a policy that always follows such habits
    routes, over many draws, as well as chance does, and chooses differently under different disturbances.
    """
    order = derive_rng("habits", draw, kind).permutation(len(COLUMNS))
    return {COLUMNS[column]: place % n for place, column in enumerate(order)}


def needs(question: str) -> list[dict[str, str]]:
    """Sub-queries for a question, by its wording; its last sentence is enough."""
    return list(next((wanted for pattern, wanted in NEEDS if re.search(pattern, question)), _EVERYTHING))


def answer(text: str) -> str:
    """The best-supported option of the message with its share; without support the first option, said to be a guess."""
    told = _SUPPORT.search(text)
    if told is None:
        letters = _LETTERS.search(text)
        return f"<think>none</think><answer>{letters[1] if letters else 'A'}</answer>"
    shares = {share["letter"]: share["hundredths"] for share in _SHARE.finditer(told["shares"])}
    best = max(shares, key=shares.__getitem__)
    return f"<think>{best}{shares[best]}</think><answer>{best}</answer>"


def _identity(request: PolicyRequest) -> Iterator[Part]:
    """What tells conversations apart: words, frames, what was done to their pixels, and the number of the sample."""
    yield from (request.clip.digest, request.sample)
    for message in request.messages:
        yield from (message.role, message.text, *message.frames)
        yield from map(request.clip.frame_key, message.frames)
