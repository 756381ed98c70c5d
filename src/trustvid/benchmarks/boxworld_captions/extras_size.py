"""Format constraints on sizes: lengths of the response or its parts, numbers of parts or signs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trustvid.benchmarks.boxworld_captions.claim import Claim
from trustvid.benchmarks.boxworld_captions.document import Document, Piece
from trustvid.benchmarks.boxworld_captions.facts import ClipFacts
from trustvid.benchmarks.boxworld_captions.formats import Change, Format, draw, parts, whole
from trustvid.captioning.rules.strict.counting import count_characters, count_sentences, count_words

UNIT = {"numbered": "list item", "bulleted": "list item", "array": "array element", "tags": "tag", "table": "row"}
LONG_TAIL = "as far as anybody can tell from a few seconds without any sound"
FILLERS = ("Nothing else stands out.", "That is all there is to it.", "The rest is of no interest.")
FILLERS_ZH = ("其余的没有什么特别。", "内容就是这些。")


def filler(document: Document, number: int = 0) -> Piece:
    """A piece that makes no claim."""
    texts = FILLERS_ZH if document.joined else FILLERS
    text = texts[number % len(texts)]
    return Piece("rest", text.removesuffix(".").lower() if document.layout == "tags" else text)


def tailed(tail: str) -> tuple[Change, ...]:
    """The same tail at the first and at the last piece."""
    return (
        lambda document: document.with_tail(0, tail),
        lambda document: document.with_tail(len(document.pieces) - 1, tail),
    )


# -- length ------------------------------------------------------------------------------------------------------------


def length(document: Document, claims: Sequence[Claim], facts: ClipFacts, rng: np.random.Generator) -> Format | None:
    """A length that suits the layout."""
    makers = {
        "prose": (_sentences, _words_of_all, _paragraphs),
        "document": (_title_characters, _words_of_all),
        "object": (_words_of_value,),
        "table": (_words_of_cells,),
    }
    if document.joined:
        return _characters_of_all(document, rng)
    return draw(rng, makers.get(document.layout, (_words_of_parts,)))(document, rng)


def _words_of_parts(document: Document, rng: np.random.Generator) -> Format:
    limit = max(map(count_words, document.texts)) + int(rng.integers(1, 4))
    unit = UNIT[document.layout]
    return Format(
        "length",
        f"Each {unit} has at most {limit} words",
        f"each {unit} has at most {limit} words",
        {"unit": "word", "min_len": 0, "max_len": limit},
        parts,
        tailed(LONG_TAIL),
    )


def _words_of_cells(document: Document, rng: np.random.Generator) -> Format:
    limit = max(map(count_words, document.texts)) + int(rng.integers(1, 4))
    column = document.columns[1]
    return Format(
        "length",
        f"Each cell under '{column}' has at most {limit} words",
        f"each cell under '{column}' has at most {limit} words",
        {"unit": "word", "min_len": 0, "max_len": limit},
        parts,
        tailed(LONG_TAIL),
    )


def _words_of_value(document: Document, rng: np.random.Generator) -> Format:
    place = int(rng.integers(len(document.pieces)))
    key = document.pieces[place].heading
    limit = count_words(document.texts[place]) + int(rng.integers(1, 4))
    return Format(
        "length",
        f"The value of '{key}' has at most {limit} words",
        f"the value of '{key}' has at most {limit} words",
        {"unit": "word", "min_len": 0, "max_len": limit},
        lambda made: [made.texts[made.place_of(key)]],
        (lambda made: made.with_tail(made.place_of(key), LONG_TAIL),),
    )


def _sentences(document: Document, rng: np.random.Generator) -> Format:
    number = count_sentences(document.render())
    return Format(
        "length",
        f"Write exactly {number} sentences",
        f"exactly {number} sentences",
        {"unit": "sentence", "min_len": number, "max_len": number},
        whole,
        (
            lambda made: made.with_piece(filler(made, 0)),
            lambda made: made.with_piece(filler(made, 1)).with_piece(filler(made, 2)),
        ),
    )


def _words_of_all(document: Document, rng: np.random.Generator) -> Format:
    number = count_words(document.render())
    low, high = max(1, number - int(rng.integers(3, 9))), number + int(rng.integers(3, 9))
    return Format(
        "length",
        f"Use {low} to {high} words in all",
        f"{low} to {high} words in all",
        {"unit": "word", "min_len": low, "max_len": high},
        whole,
        tailed(LONG_TAIL),
    )


def _characters_of_all(document: Document, rng: np.random.Generator) -> Format:
    limit = count_characters(document.render()) + int(rng.integers(2, 8))
    tail = "而且看得非常清楚，没有任何东西挡住视线"
    return Format(
        "length",
        f"Use at most {limit} characters",
        f"at most {limit} characters in all",
        {"unit": "character", "min_len": 0, "max_len": limit},
        whole,
        tailed(tail),
    )


def _paragraphs(document: Document, rng: np.random.Generator) -> Format:
    number = len(document.pieces)
    return Format(
        "length",
        f"Write exactly {number} paragraphs, one for each point",
        f"exactly {number} paragraphs",
        {"unit": "paragraph", "min_len": number, "max_len": number},
        lambda made: [made.body],
        (lambda made: replace(made, paragraphs=False), lambda made: made.with_piece(filler(made))),
        lambda made: replace(made, paragraphs=True),
    )


def _title_characters(document: Document, rng: np.random.Generator) -> Format:
    limit = 10 * (count_characters(document.title) // 10 + 1)
    longer = f"{document.title} In A Few Simple And Honest Words"
    return Format(
        "length",
        f"The title has at most {limit} characters",
        f"the title has at most {limit} characters",
        {"unit": "character", "min_len": 0, "max_len": limit},
        lambda made: [made.title],
        (lambda made: replace(made, title=longer),),
    )


# -- count -------------------------------------------------------------------------------------------------------------


def count(document: Document, claims: Sequence[Claim], facts: ClipFacts, rng: np.random.Generator) -> Format | None:
    """A number of parts, or of signs."""
    if document.layout in UNIT:
        return _count_parts(document)
    if document.layout in ("prose", "document") and not document.joined:
        return _count_signs(document, claims, facts)
    return None


def _count_parts(document: Document) -> Format:
    unit, number = UNIT[document.layout], len(document.pieces)
    return Format(
        "count",
        f"Give exactly {number} {unit}s",
        f"exactly {number} {unit}s",
        {"min_count": number, "max_count": number},
        lambda made: [",".join(f"({text})" for text in made.texts)],
        (
            lambda made: made.with_piece(filler(made)),
            lambda made: made.with_piece(filler(made, 1)).with_piece(filler(made, 2)),
        ),
    )


def signs_in(text: str, facts: ClipFacts) -> list[str]:
    """Sign words of the scene's kind in a text, in order, each once."""
    known = {*(thing.word for thing in facts.things), *facts.absent}
    return [word for word in dict.fromkeys(re.findall(r"[A-Z]{2,}", text)) if word in known]


def _count_signs(document: Document, claims: Sequence[Claim], facts: ClipFacts) -> Format | None:
    named = signs_in(" ".join(document.texts), facts)
    asked = " ".join(option for claim in claims for question in claim.questions for option in question.options)
    talked = {word for claim in claims for word in claim.names}
    spare = [word for word in facts.absent if word not in asked and word not in talked]
    if not named or not spare:
        return None
    number = len(named)
    plural = "s" if number > 1 else ""
    return Format(
        "count",
        f"Name exactly {number} sign{plural} in all",
        f"exactly {number} sign{plural} named",
        {"min_count": number, "max_count": number},
        lambda made: [",".join(f"({word})" for word in signs_in(" ".join(made.texts), facts))],
        tailed(f"near the {spare[0]}"),
    )
