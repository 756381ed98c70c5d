"""Instructions with checklists and responses of known truth, from the facts of a clip.

What an instruction asks is drawn so that all 27 constraint types take turns over a set. Responses are built from its
plan: the right one, and violations of one constraint each. A violation counts only if, by the strict rules on the texts
the plan says they are about, it fails its own constraint and no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trustvid.benchmarks.boxworld_captions.claim import Claim, Wording
from trustvid.benchmarks.boxworld_captions.claims import APART, IN_CHINESE, MAKERS
from trustvid.benchmarks.boxworld_captions.document import Document, Layout, Piece
from trustvid.benchmarks.boxworld_captions.extras import MAKERS as EXTRAS
from trustvid.benchmarks.boxworld_captions.facts import ClipFacts
from trustvid.benchmarks.boxworld_captions.formats import Format, layout_format
from trustvid.captioning.rules import check
from trustvid.captioning.taxonomy import CONSTRAINT_TYPES
from trustvid.seeding import Part, derive_rng

FIELDS = ("For Understanding", "For Generation", "For Retrieval", "For Communication")
CHINESE = "chinese"
LAYOUTS: tuple[str, ...] = ("prose", "object", "numbered", "tags", "table", "bulleted", "array", "document", CHINESE)
# Content and further format constraints of each level; with the layout's own that makes 4–5, 6–7 and 9–10.
LEVELS = {1: ((2, 3), 1), 2: ((3, 4), 2), 3: ((5, 6), 3)}
_IDS = {type_.key: type_.constraint_id for type_ in CONSTRAINT_TYPES}


@dataclass(frozen=True)
class Truth:
    """What a careful reader finds in a response: verdicts of rules, answers to questions."""

    contents: tuple[tuple[str, ...], ...]
    rules: tuple[bool, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True)
class Composed:
    """A response with its truth.

    Attributes:
        text: the response.
        truth: as above.
        violated: type of the violated constraint, "" for a right response.
    """

    text: str
    truth: Truth
    violated: str = ""


@dataclass(frozen=True)
class Plan:
    """One instruction and all that is known about it.

    Attributes:
        field: application field.
        level: 1–3.
        layout: of the response.
        in_chinese: whether it is to be in Chinese.
        claims: content constraints.
        formats: format constraints, the layout's first.
        opening: first sentence of the instruction.
        seed: of wordings.
    """

    field: str
    level: int
    layout: Layout
    in_chinese: bool
    claims: tuple[Claim, ...]
    formats: tuple[Format, ...]
    opening: str
    seed: tuple[Part, ...]

    @property
    def type_keys(self) -> list[str]:
        """Types of all constraints, formats first."""
        return [made.type_key for made in (*self.formats, *self.claims)]

    # -- the official objects ------------------------------------------------------------------------------------------

    @property
    def instruction(self) -> str:
        """The instruction's text."""
        points = [claim for claim in self.claims if claim.has_piece]
        if self.layout in ("object", "table"):
            asked = [f"'{claim.heading}': {claim.ask}" for claim in points]
        else:
            asked = [f"({number}) {claim.ask}" for number, claim in enumerate(points, start=1)]
        rest = [claim.ask for claim in self.claims if not claim.has_piece]
        rest += [made.ask for made in self.formats if made.ask]
        sentences = [f"{self.opening}, in this order: {'; '.join(asked)}", *rest]
        return " ".join(f"{text[0].upper()}{text[1:]}." for text in sentences)

    @property
    def constraints_used(self) -> tuple[str, ...]:
        """Official ids of all constraints."""
        return tuple(_IDS[key] for key in self.type_keys)

    def checklist(self) -> dict[str, Any]:
        """The official object; groups of questions carry our ``constraint_id``."""
        rules = [
            {
                "check_id": f"rule-{number:03d}",
                "constraint_id": made.type_key,
                "check_description": made.description,
                "parameters": {"content": None, **made.parameters},
            }
            for number, made in enumerate(self.formats, start=1)
        ]
        groups, number = [], 0
        for claim in self.claims:
            items = []
            for question in claim.questions:
                number += 1
                items.append(
                    {
                        "check_id": f"open-{number:03d}",
                        "check_type": question.kind,
                        "question": question.text,
                        "options": list(question.options),
                        "correct_answer": question.right,
                    }
                )
            groups.append({"check_content": claim.content, "constraint_id": _IDS[claim.type_key], "check_items": items})
        return {"ruled_based_check": rules, "open_ended_check": groups}

    # -- responses -----------------------------------------------------------------------------------------------------

    def right(self) -> Composed:
        """A response that satisfies everything."""
        document, answers = self._document(self._wordings())
        return Composed(document.render(), self._truth(document, answers))

    def violations(self, place: int) -> Iterator[Composed]:
        """Responses that violate the constraint at ``place`` of ``type_keys`` and no other."""
        name = self.type_keys[place]
        for document, answers in self._changed(place):
            truth = self._truth(document, answers)
            if self._failed(truth) == [place]:
                yield Composed(document.render(), truth, name)

    def _changed(self, place: int) -> Iterator[tuple[Document, tuple[str, ...]]]:
        right = self._wordings()
        if place < len(self.formats):
            document, answers = self._document(right)
            for fault in self.formats[place].faults:
                changed = fault(document)
                if changed is not None:
                    yield changed, answers
            return
        claim = place - len(self.formats)
        for wording in self.claims[claim].faults:
            # Where a tail is put decides whether it disturbs a limit of another constraint.
            for tailed in range(-1, sum(made.has_piece for made in self.claims) - 1 if wording.tail else 0):
                yield self._document([*right[:claim], wording, *right[claim + 1 :]], tailed)

    def _wordings(self) -> list[Wording]:
        rng = derive_rng(*self.seed, "wordings")
        return [claim.right[int(rng.integers(len(claim.right)))] for claim in self.claims]

    def _document(self, wordings: Sequence[Wording], tailed: int = -1) -> tuple[Document, tuple[str, ...]]:
        """A response that says ``wordings`` in the right form (tails at the piece ``tailed``), and what it answers."""
        document = bare(self.layout, self.in_chinese, self.claims, wordings)
        for made in self.formats:
            document = made.prepare(document) or document
        for wording in wordings:
            if wording.tail:
                document = document.with_tail(tailed % len(document.pieces), wording.tail)
        return document, tuple(answer for wording in wordings for answer in wording.answers)

    def _truth(self, document: Document, answers: tuple[str, ...]) -> Truth:
        contents = tuple(tuple(made.contents(document)) for made in self.formats)
        verdicts = [
            check(made.type_key, {**made.parameters, "content": list(content)}, "strict").value
            for made, content in zip(self.formats, contents, strict=True)
        ]
        return Truth(contents, tuple(bool(verdict) for verdict in verdicts), answers)

    def _failed(self, truth: Truth) -> list[int]:
        """Places of the constraints that do not hold."""
        failed = [place for place, holds in enumerate(truth.rules) if not holds]
        given = iter(truth.answers)
        for place, claim in enumerate(self.claims, start=len(self.formats)):
            said = [next(given) for _ in claim.questions]
            if said != [question.right for question in claim.questions]:
                failed.append(place)
        return failed

    def is_sound(self) -> bool:
        """Whether the right response does satisfy everything."""
        return not self._failed(self.right().truth)


def bare(layout: Layout, in_chinese: bool, claims: Sequence[Claim], wordings: Sequence[Wording]) -> Document:
    """The pieces in their layout, nothing yet done for other formats."""
    said = {"tags": "phrase", "table": "phrase"}.get(layout, "zh" if in_chinese else "sentence")
    pieces = tuple(
        Piece(claim.heading, getattr(wording, said), index)
        for index, (claim, wording) in enumerate(zip(claims, wordings, strict=True))
        if claim.has_piece
    )
    return Document(layout, pieces, joined=in_chinese)


# -- drawing plans -----------------------------------------------------------------------------------------------------


def plans_of(clips: Sequence[ClipFacts], seed: tuple[Part, ...]) -> list[list[Plan]]:
    """Four plans for each clip, one of each field.

    Types that were used least so far come first, so a set of a dozen clips has them all. Plans of the first n clips are
    the same however many follow.
    """
    used: Counter[str] = Counter()
    found = []
    for number, facts in enumerate(clips):
        plans = []
        for place, name in enumerate(FIELDS):
            level = 1 + (number + place) % 3
            plan = _plan(facts, name, level, used, (*seed, number, place))
            used.update({*plan.type_keys, CHINESE if plan.in_chinese else f"layout {plan.layout}"})
            plans.append(plan)
        found.append(plans)
    return found


def _plan(facts: ClipFacts, name: str, level: int, used: Counter[str], seed: tuple[Part, ...]) -> Plan:
    for attempt in range(200):
        own = (*seed, attempt)
        rng = derive_rng(*own, "plan")
        ranked = sorted(LAYOUTS, key=lambda n: (used[n if n == CHINESE else f"layout {n}"], rng.random()))
        layout = ranked[attempt % 3 if attempt else 0]
        in_chinese = layout == CHINESE
        made = _draw(facts, "prose" if in_chinese else layout, in_chinese, level, used, rng)
        if made is None:
            continue
        claims, formats, opening = made
        plan = Plan(name, level, "prose" if in_chinese else layout, in_chinese, claims, formats, opening, own)
        if plan.is_sound():
            return plan
    raise ValueError(f"no sound instruction in 200 draws for a {facts.kind} with {len(facts.things)} things")


def _draw(
    facts: ClipFacts, layout: Any, in_chinese: bool, level: int, used: Counter[str], rng: np.random.Generator
) -> tuple[tuple[Claim, ...], tuple[Format, ...], str] | None:
    (fewest, most), n_extras = LEVELS[level]
    claims = _claims(facts, int(rng.integers(fewest, most + 1)), IN_CHINESE if in_chinese else tuple(MAKERS), used, rng)
    pieces = [claim for claim in claims if claim.has_piece]
    if len(claims) < fewest or len(pieces) < 2:
        return None
    first, opening = layout_format(layout, [claim.heading for claim in pieces], rng)
    document = bare(layout, in_chinese, claims, [claim.right[0] for claim in claims])
    document = first.prepare(document) or document
    formats = [first]
    ranked = sorted(EXTRAS, key=lambda key: (used[key], rng.random()))
    fitting = [key for key in ranked if EXTRAS[key](document, claims, facts, derive_rng("fits")) is not None]
    if in_chinese:  # what language it is in comes first
        fitting.sort(key=lambda key: key != "language")
    for key in [key for key in EXTRAS if key in fitting[:n_extras]]:
        extra = EXTRAS[key](document, claims, facts, rng)
        if extra is not None:
            document = extra.prepare(document) or document
            formats.append(extra)
    if len(formats) < 1 + min(n_extras, 2):
        return None
    return claims, tuple(formats), opening


def _claims(
    facts: ClipFacts, n: int, allowed: Sequence[str], used: Counter[str], rng: np.random.Generator
) -> tuple[Claim, ...]:
    """At most ``n`` claims about different things, least used types first, in an order of their own."""
    free = list(facts.things)
    claims: list[Claim] = []
    for key in sorted(allowed, key=lambda key: (used[key], rng.random())):
        there = {claim.type_key for claim in claims}
        clash = any(key in pair and there & set(pair) for pair in APART)
        watching = sum(not claim.has_piece for claim in claims)
        claim = None if clash or len(claims) == n else MAKERS[key](facts, free, rng)
        if claim is None or (not claim.has_piece and (watching > n // 4)):
            continue
        free = [thing for thing in free if thing.word not in claim.names]
        claims.append(claim)
    return tuple(claims)
