"""Further format constraints: keywords, language, marks, case, ends, delimiters (lengths, counts: ``extras_size``).

A maker gets the right response so far and returns a constraint that this response satisfies (after ``prepare``), or
None where the layout or the content does not allow one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from trustvid.benchmarks.boxworld_captions.claim import Claim
from trustvid.benchmarks.boxworld_captions.document import Document, Piece
from trustvid.benchmarks.boxworld_captions.extras_size import count, length, signs_in, tailed
from trustvid.benchmarks.boxworld_captions.facts import ClipFacts
from trustvid.benchmarks.boxworld_captions.formats import Format, draw, parts, whole

Maker = Callable[[Document, Sequence[Claim], ClipFacts, np.random.Generator], Format | None]


_ADDED = (
    ("clear", "in clear view", "in plain view"),
    ("haste", "without any haste", "without any hurry"),
    ("steady", "at a steady pace", "at an even pace"),
)
_BANNED = {
    "very": "and very much so",
    "beautiful": "in a beautiful way",
    "maybe": "or maybe not only that",
    "amazing": "to amazing effect",
    "suddenly": "and suddenly so",
}
_LIVELY = ("action", "event", "cinematic", "summary", "inference", "perspective")


def keyword(document: Document, claims: Sequence[Claim], facts: ClipFacts, rng: np.random.Generator) -> Format | None:
    """A word that must stand there, or must not."""
    if document.joined:
        return None
    if rng.random() < 0.5:
        word = draw(rng, [word for word in _BANNED if word not in document.render().lower()])
        return Format(
            "keyword",
            f"Do not use the word '{word}'",
            f"the word '{word}' does not occur",
            {"keyword": word, "keyword_type": "exclude"},
            whole,
            tailed(_BANNED[word]),
        )
    word, added, instead = draw(rng, _ADDED)
    lively = [
        place
        for place, piece in enumerate(document.pieces)
        if piece.claim is not None and claims[piece.claim].type_key in _LIVELY
    ]
    place = lively[0] if lively else len(document.pieces) - 1
    return Format(
        "keyword",
        f"Use the word '{word}'",
        f"the word '{word}' occurs",
        {"keyword": word, "keyword_type": "include"},
        whole,
        (lambda made: made.replaced(added, instead),),
        lambda made: made.with_tail(place, added),
    )


_FOREIGN = ("很清楚", "这里很安静")


def language(document: Document, claims: Sequence[Claim], facts: ClipFacts, rng: np.random.Generator) -> Format | None:
    """English, or Chinese for a response in Chinese."""
    if document.joined:
        return Format(
            "language",
            "Write in Chinese",
            "the response is in Chinese",
            {"lang_type": "zh"},
            whole,
            (
                lambda made: made.with_tail(0, "ok"),
                lambda made: made.with_tail(0, "which is easy to see"),
                lambda made: made.with_piece(Piece("rest", "That is all there is to it.")),
            ),
        )
    contents = parts if document.layout in ("object", "array") else whole
    return Format(
        "language",
        "Write in English only",
        "the response is in English",
        {"lang_type": "en"},
        contents,
        tuple(change for tail in _FOREIGN for change in tailed(tail)),
    )


# -- looks -------------------------------------------------------------------------------------------------------------

_MARKS = {"bold": "**", "italic": "*", "highlight": "==", "code": "`"}
_NOUNS = ("camera", "clip", "boxes", "drone", "person", "left", "right", "box")


def markdown(document: Document, claims: Sequence[Claim], facts: ClipFacts, rng: np.random.Generator) -> Format | None:
    """One word in bold, italic, highlight or code."""
    if document.layout not in ("numbered", "bulleted", "document", "table"):
        return None
    taken = {target for target, _ in document.marked} | set(dict(document.marked).values())
    text = " ".join(piece.text for piece in document.pieces)
    targets = [word for word in (*signs_in(text, facts), *_NOUNS) if re.search(rf"\b{word}\b", text)]
    kinds = [kind for kind, mark in _MARKS.items() if mark not in taken]
    targets = [word for word in targets if word not in taken]
    if not kinds or not targets:
        return None
    kind, target = draw(rng, kinds), draw(rng, targets[:4])
    asks = {
        "bold": f"Put the word '{target}' in bold",
        "italic": f"Put the word '{target}' in italics",
        "highlight": f"Highlight the word '{target}' with ==",
        "code": f"Write the word '{target}' as inline code",
    }
    return Format(
        "markdown",
        asks[kind],
        f"there is {kind} text: '{target}'",
        {"md_type": kind},
        whole,
        (lambda made: replace(made, marked=tuple(pair for pair in made.marked if pair[0] != target)),),
        lambda made: replace(made, marked=(*made.marked, (target, _MARKS[kind]))),
    )


def case(document: Document, claims: Sequence[Claim], facts: ClipFacts, rng: np.random.Generator) -> Format | None:
    """Case of tags, of one value, of the title."""
    if document.layout == "tags":
        kind = draw(rng, ("upper", "lower"))
        turn: Callable[[str], str] = str.upper if kind == "upper" else str.lower

        def all_turned(made: Document) -> Document:
            return replace(made, pieces=tuple(replace(piece, text=turn(piece.text)) for piece in made.pieces))

        return Format(
            "case",
            f"Every tag is in {kind} case",
            f"every tag is in {kind} case",
            {"case_type": kind},
            parts,
            tuple(
                lambda made, place=place: made.with_text(place, made.pieces[place].text.title())
                for place in range(len(document.pieces))
            ),
            all_turned,
        )
    if document.layout == "object":
        key = document.pieces[-1].heading
        return Format(
            "case",
            f"The value of '{key}' is in upper case",
            f"the value of '{key}' is in upper case",
            {"case_type": "upper"},
            lambda made: [made.texts[made.place_of(key)]],
            (lambda made: made.with_text(made.place_of(key), made.pieces[made.place_of(key)].text.capitalize()),),
            lambda made: made.with_text(made.place_of(key), made.pieces[made.place_of(key)].text.upper()),
        )
    if document.layout == "document":
        return Format(
            "case",
            "The title is in title case",
            "the title is in title case",
            {"case_type": "title"},
            lambda made: [made.title],
            (
                lambda made: replace(made, title=made.title.lower()),
                lambda made: replace(made, title=made.title.capitalize()),
            ),
        )
    return None


def prefix_suffix(
    document: Document, claims: Sequence[Claim], facts: ClipFacts, rng: np.random.Generator
) -> Format | None:
    """A fixed beginning or end; around lists and tables it is a line of its own."""
    if document.layout in ("object", "array", "tags", "document") or document.joined:
        return None
    if rng.random() < 0.5:
        prefix, other = draw(rng, (("Report:", "Notes:"), ("In brief:", "In short:")))
        return Format(
            "prefix_suffix",
            f"Begin with '{prefix}'",
            f"begins with '{prefix}'",
            {"prefix": prefix, "suffix": None},
            whole,
            (lambda made: replace(made, prefix=other), lambda made: replace(made, prefix="")),
            lambda made: replace(made, prefix=prefix),
        )
    suffix, other = draw(rng, (("End of report", "End of notes"), ("Over and out", "Over and done")))
    return Format(
        "prefix_suffix",
        f"End with '{suffix}'",
        f"ends with '{suffix}'",
        {"prefix": None, "suffix": suffix},
        whole,
        (lambda made: replace(made, suffix=other),),
        lambda made: replace(made, suffix=suffix),
    )


def delimiter(document: Document, claims: Sequence[Claim], facts: ClipFacts, rng: np.random.Generator) -> Format | None:
    """The signs under one key separated by a symbol: a list inside a value."""
    if document.layout != "object" or "signs" not in [piece.heading for piece in document.pieces]:
        return None
    symbol, other = draw(rng, ((";", ","), ("|", "/")))

    def joined(made: Document) -> Document:
        place = made.place_of("signs")
        words = re.findall(r"\b[A-Z]{2,}\b", made.pieces[place].text)
        return made.with_text(place, f" {symbol} ".join(words)) if words else made

    def otherwise(made: Document) -> Document:
        place = made.place_of("signs")
        return made.with_text(place, made.pieces[place].text.replace(symbol, other))

    return Format(
        "delimiter",
        f"Under 'signs' put '{symbol}' between the signs",
        f"the signs in the value of 'signs' are separated by '{symbol}'",
        {"symbol": symbol},
        lambda made: [made.texts[made.place_of("signs")]],
        (otherwise,),
        joined,
    )


MAKERS: dict[str, Maker] = {
    maker.__name__: maker for maker in (delimiter, keyword, prefix_suffix, case, markdown, language, count, length)
}
"""By type; in the order in which they are applied, so that lengths and counts are taken of the finished text."""
