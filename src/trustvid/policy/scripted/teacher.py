"""Who shows a small model how turns are taken, as data for supervised fine-tuning.

It plans and answers as well as can be, in few and regular words; it chooses tools evenly among those on offer. So what
the pupil starts with is every skill but routing, and all tools are still worth a try to it when rewards begin to count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from trustvid.errors import ConfigError
from trustvid.policy.base import PolicyRequest
from trustvid.policy.scripted.reading import read_scene
from trustvid.policy.scripted.routing import asks_for_routing, disturbance_of, entry, offers
from trustvid.seeding import Part, derive_rng

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

_SUPPORT = re.compile(r"### Pooled support\n(?P<shares>[A-J] ?(?:0\.)?\d\d.*)$", re.MULTILINE)
_SHARE = re.compile(r"(?P<letter>[A-J]) ?(?:0\.)?(?P<hundredths>\d\d)")
_LETTERS = re.compile(r"\b([A-J]) to [A-J]\b")


class Teacher:
    """Takes each turn rightly, but chooses tools by chance.

    Decomposition follows the question's wording. Every sub-query goes to one of the tools listed with it, each as
    likely as the others; the draw follows from the conversation (its words, its frames and what was done to their
    pixels, the number of the sample) and from ``draw``. The answer is the best-supported option of the pooled support,
    the first of equals; where nothing is supported it says so and takes the first option, which is as good as any and
    a rule that can be learnt.

    Args:
        draw: another number chooses other tools for the same conversation.

    Raises:
        ConfigError: ``draw`` is below 0.
    """

    name = "teacher"

    def __init__(self, draw: int = 0):
        if draw < 0:
            raise ConfigError([f"policy.draw={draw}; expected 0 or more"])
        self.draw = draw

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
            tool = offer.tools[int(rng.integers(len(offer.tools)))] if offer.tools else "none"
            lines.append(entry(offer, disturbance, tool))
        return "\n".join(lines)


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
