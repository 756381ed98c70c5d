"""The format constraints that come with a layout: what a response is as a whole, and how that can go wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trustvid.benchmarks.boxworld_captions.document import ORDINALS, Document, Layout

Change = Callable[[Document], Document | None]
"""A change of a response; None where it cannot be made."""


@dataclass(frozen=True)
class Format:
    """One format constraint of an instruction.

    Attributes:
        type_key: key of the taxonomy, which for format types is the constraint id.
        ask: what the instruction says; "" when its first sentence says it already.
        description: the checklist's phrase.
        parameters: of the rule, ``content`` left out.
        contents: the texts it is about in a response, as a perfect judge extracts them.
        faults: changes that violate it and, if possible, nothing else.
        prepare: the change that makes a right response satisfy it.
    """

    type_key: str
    ask: str
    description: str
    parameters: Mapping[str, Any]
    contents: Callable[[Document], Sequence[str]]
    faults: tuple[Change, ...]
    prepare: Change = lambda document: document


def whole(document: Document) -> list[str]:
    """The response."""
    return [document.render()]


def body(document: Document) -> list[str]:
    """The response without what stands before and after its list or table."""
    return [document.body]


def parts(document: Document) -> list[str]:
    """Every piece."""
    return document.texts


def quoted(names: Sequence[str]) -> str:
    """
    >>> quoted(["a", "b", "c"])
    "'a', 'b' and 'c'"
    """
    marked = [f"'{name}'" for name in names]
    return marked[0] if len(marked) == 1 else f"{', '.join(marked[:-1])} and {marked[-1]}"


def draw(rng: np.random.Generator, items: Sequence) -> Any:
    """One of ``items``."""
    return items[int(rng.integers(len(items)))]


def layout_format(layout: Layout, headings: Sequence[str], rng: np.random.Generator) -> tuple[Format, str]:
    """The constraint of a layout, and the sentence that asks for it (the points to be made follow it)."""
    makers: dict[str, Callable[..., tuple[Format, str]]] = {
        "prose": _prose,
        "object": _object,
        "array": _array,
        "numbered": _numbered,
        "bulleted": _bulleted,
        "table": _table,
        "tags": _tags,
        "document": _document,
    }
    return makers[layout](headings, rng)


def _prose(headings: Sequence[str], rng: np.random.Generator) -> tuple[Format, str]:
    def marked(mark: str) -> Change:
        def change(document: Document) -> Document:
            words = document.pieces[-1].text.split()
            target = max(words, key=lambda word: (word.isalpha(), len(word)))
            return replace(document, marked=((target, mark),))

        return change

    made = Format(
        "plain_text",
        "",
        "plain text without any markup",
        {},
        whole,
        (marked("**"), marked("`"), marked("==")),
    )
    return made, "Describe the video in plain text without any markup, one sentence for each point"


def _object(headings: Sequence[str], rng: np.random.Generator) -> tuple[Format, str]:
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in headings},
        "required": list(headings),
        "additionalProperties": False,
    }
    made = Format(
        "json_object",
        "",
        f"a JSON object with exactly the keys {quoted(headings)}",
        {"schema": schema},
        body,
        (
            lambda document: replace(document, more_keys=(("note", "none"),)),
            lambda document: replace(document, more_keys=(("seconds", 10),)),
            lambda document: replace(document, cut=True),
        ),
    )
    return made, f"Describe the video as a JSON object with exactly the keys {quoted(headings)}, each a string"


def _array(headings: Sequence[str], rng: np.random.Generator) -> tuple[Format, str]:
    made = Format(
        "json_array",
        "",
        "a JSON array of strings",
        {"schema": {"type": "array", "items": {"type": "string"}}},
        body,
        (lambda document: replace(document, wrapped=True), lambda document: replace(document, cut=True)),
    )
    return made, "Describe the video as a JSON array of strings, one for each point"


def _numbered(headings: Sequence[str], rng: np.random.Generator) -> tuple[Format, str]:
    symbol, other = (list(ORDINALS)[int(i)] for i in rng.permutation(len(ORDINALS))[:2])
    right = tuple(ORDINALS[symbol])
    made = Format(
        "ordered_list",
        "",
        f"an ordered list that starts with '{symbol}'",
        {"symbol": symbol},
        body,
        (
            lambda document: replace(document, markers=tuple(ORDINALS[other])),
            lambda document: replace(document, markers=(right[0], *right[2:])),
            lambda document: replace(document, markers=(right[0],)),
        ),
        lambda document: replace(document, markers=right),
    )
    return made, f"Describe the video in an ordered list that starts with '{symbol}', one item for each point"


def _bulleted(headings: Sequence[str], rng: np.random.Generator) -> tuple[Format, str]:
    symbol, other = ("-", "*") if rng.random() < 0.5 else ("*", "-")
    made = Format(
        "unordered_list",
        "",
        f"an unordered list with '{symbol}'",
        {"symbol": symbol},
        body,
        (
            lambda document: replace(document, markers=(other,)),
            lambda document: replace(document, markers=(symbol, other)),
        ),
        lambda document: replace(document, markers=(symbol,)),
    )
    return made, f"Describe the video in an unordered list with '{symbol}', one item for each point"


_COLUMNS = (("Aspect", "Description"), ("Point", "Finding"), ("Topic", "Remark"))


def _table(headings: Sequence[str], rng: np.random.Generator) -> tuple[Format, str]:
    columns = draw(rng, _COLUMNS)
    made = Format(
        "table",
        "",
        f"a Markdown table with the columns {quoted(columns)}",
        {"col_name": list(columns)},
        body,
        (
            lambda document: replace(document, columns=(columns[0], "Text")),
            lambda document: replace(document, columns=columns[::-1]),
            lambda document: replace(document, separator=False),
        ),
        lambda document: replace(document, columns=columns),
    )
    return made, f"Describe the video in a Markdown table with the columns {quoted(columns)}, one row for each point"


def _tags(headings: Sequence[str], rng: np.random.Generator) -> tuple[Format, str]:
    symbol, other = draw(rng, ((";", ","), ("|", "/"), ("#", "-")))
    made = Format(
        "delimiter",
        "",
        f"the tags are separated by '{symbol}'",
        {"symbol": symbol},
        body,
        (lambda document: replace(document, symbol=other), lambda document: replace(document, symbol="")),
        lambda document: replace(document, symbol=symbol),
    )
    return made, f"Describe the video in short tags separated by '{symbol}', one tag for each point"


TITLES = ("A Short Look Around", "What The Camera Saw", "Signs And Colours")


def _document(headings: Sequence[str], rng: np.random.Generator) -> tuple[Format, str]:
    title = draw(rng, TITLES)
    made = Format(
        "markdown",
        "",
        "a Markdown title stands at the top",
        {"md_type": "title"},
        whole,
        (lambda document: replace(document, heading_mark=""),),
        lambda document: replace(document, title=title),
    )
    return made, "Write a Markdown text with a title (#) and below it one sentence for each point"
