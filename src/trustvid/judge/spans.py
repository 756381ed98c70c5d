"""Extraction without a model: the texts a rule is about, from the description's words and the response's structure.

Deterministic and limited: it reads structure, not meaning. ``scope`` holds the grammar of descriptions; here stands
what each constraint takes of a scope:

- JSON, plain text, delimiter, prefix and suffix, keyword: the scope as it is.
- lists: the list inside the scope (its lines from the first item to the last, a lead-in "…:" left out), else the scope.
- table: the table inside the scope, else the scope.
- markdown: the scope with its marks; for titles the whole response, where the marks stand.
- length, case, language: the scope without heading and bold marks around it; of JSON its text values, each for itself
  (the length of a whole response is the exception).
- count: the things of the kind the description names, as far as structure shows them (sentences, paragraphs, lines,
  items, parts, keys, rows, columns, headings, bold terms), colours, and words in capitals; other kinds need a reader
  and are a typed failure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trustvid.captioning.rules.strict.markers import marker_of
from trustvid.judge.guard import locate
from trustvid.judge.scope import Scope, Siblings, scope_of
from trustvid.judge.structure import Structure
from trustvid.judge.words import COLOURS

if TYPE_CHECKING:
    from trustvid.captioning.checklist import RuleItem


class NeedsReader(Exception):
    """The description asks for something that only a reader of meaning can find; the message says what."""


_THINK = re.compile(r"\A.*?</think>", re.DOTALL)
_AROUND = re.compile(r"\A\s*(?:#{1,6}[ \t]+)?(?P<mark>\*\*|__|==|`)?(?P<text>.*?)(?(mark)(?P=mark))\s*\Z", re.DOTALL)


def extract(item: RuleItem, checklist: Sequence[RuleItem], response: str) -> tuple[str, ...]:
    """The texts that ``item`` is about; () when the response has nothing of the kind.

    Args:
        item: the rule item.
        checklist: all rule items of the response, for what they say about its form.
        response: the response; the model's thinking is no part of it.

    Raises:
        NeedsReader: the check counts things that structure does not show.
    """
    found = Structure(_THINK.sub("", response))
    siblings = siblings_of(checklist)
    if not found.text.strip():
        return ()
    # Units are looked for between the fixed beginning and ending that another check asks for.
    inner = Structure(_within_ends(found.text, "\n", siblings))
    if item.constraint_id == "count":
        things = _counted(item.check_description, inner, siblings)
        return (",".join(f"({thing})" for thing in things),) if things else ()
    if item.constraint_id == "markdown" and item.parameters.get("md_type") == "title":
        return (found.text,)
    scope = scope_of(item.check_description, inner, siblings)
    if scope.whole:
        scope = Scope((found.text,), whole=True)
    return tuple(locate(text, response) or text for text in _taken(item, scope, siblings) if text.strip())


def siblings_of(checklist: Sequence[RuleItem]) -> Siblings:
    """What the checks of a checklist say about the form of the response."""
    delimiters, names, prefixes, suffixes = [], [], [], []
    for item in checklist:
        parameters = item.parameters
        if item.constraint_id == "delimiter":
            delimiters.append(parameters.get("symbol"))
        if item.constraint_id in ("json_object", "json_array"):
            names += _schema_names(parameters.get("schema"))
        if item.constraint_id == "table" and isinstance(parameters.get("col_name"), list):
            names += parameters["col_name"]
        if item.constraint_id == "prefix_suffix":
            prefixes.append(parameters.get("prefix"))
            suffixes.append(parameters.get("suffix"))
    return Siblings(*(tuple(filter(_is_text, texts)) for texts in (delimiters, names, prefixes, suffixes)))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _schema_names(schema: Any) -> list[str]:
    if isinstance(schema, Mapping):
        own = schema.get("properties")
        names = list(own) if isinstance(own, Mapping) else []
        return names + [name for inner in schema.values() for name in _schema_names(inner)]
    if isinstance(schema, list):
        return [name for inner in schema for name in _schema_names(inner)]
    return []


def _taken(item: RuleItem, scope: Scope, siblings: Siblings) -> Sequence[str]:
    kind = item.constraint_id
    if kind in ("ordered_list", "unordered_list"):
        return [_within_ends(Structure(text).list_block or text, "\n", siblings) for text in scope.texts]
    if kind == "table":
        return [Structure(text).table_block or text for text in scope.texts]
    if kind in ("case", "language") or (kind == "length" and not scope.whole):
        return [_bare(part) for text in scope.texts for part in _without_json(text)]
    if kind == "length" and item.parameters.get("unit") == "paragraph":
        return [_within_ends(text, "\n\n", siblings) for text in scope.texts]
    if kind == "length":
        return [_bare(text) for text in scope.texts]
    return scope.texts


def _within_ends(text: str, between: str, siblings: Siblings) -> str:
    """``text`` without a first and a last line (or paragraph) that stands where another check asks for a fixed one.

    It is left out if it is that beginning or end, or as long in words and no list item: a wrong ending is an ending.
    """
    pieces = text.split(between)
    if len(pieces) > 1 and any(_stands_for(pieces[0], end) for end in siblings.prefixes):
        pieces = pieces[1:]
    if len(pieces) > 1 and any(_stands_for(pieces[-1], end) for end in siblings.suffixes):
        pieces = pieces[:-1]
    return between.join(pieces)


def _stands_for(piece: str, end: str) -> bool:
    if piece.strip() == end.strip():
        return True
    return marker_of(piece) is None and len(piece.split()) == len(end.split())


def _without_json(text: str) -> list[str]:
    """The text values of a text that is JSON, else the text."""
    found = Structure(text)
    return found.value_texts if found.value is not None else [text]


def _bare(text: str) -> str:
    """``text`` without the marks that stand around all of it."""
    match = _AROUND.match(text)
    inner = match["text"] if match else text
    return inner if inner.strip() and "**" not in inner.strip("*") else text.strip()


# ----------------------------------------------------------------------------------------------------------- counting

_CAPITALS = re.compile(r"(?<![^\W_])[A-Z][A-Z0-9]+(?![^\W_])")
_COUNTED_UNITS = (
    (re.compile(r"\bsentences?\b"), lambda found, _: found.sentences),
    (re.compile(r"\bparagraphs?\b"), lambda found, _: found.paragraphs),
    (re.compile(r"\blines?\b"), lambda found, _: found.lines),
    (re.compile(r"\brows?\b"), lambda found, _: found.rows),
    (re.compile(r"\bcolumns?\b"), lambda found, _: found.table.header if found.table else []),
    (re.compile(r"\b(?:keys?|fields?)\b"), lambda found, _: found.keys),
    (re.compile(r"\b(?:headings?|titles?|headlines?|sections?)\b"), lambda found, _: found.headings),
    (re.compile(r"\bbold"), lambda found, _: found.marked("bold")),
    (re.compile(r"\bhighlight"), lambda found, _: found.marked("highlight")),
    (re.compile(r"\b(?:colou?rs?)\b"), lambda found, _: _colours(found.text)),
    (
        re.compile(r"\b(?:signs?|sign words?|words in (?:upper|capital)|capitali[sz]ed words|landmarks?)\b"),
        lambda found, _: _distinct(_CAPITALS.findall(found.text)),
    ),
)
_STRUCTURAL = re.compile(
    r"\b(?:items?|bullets?|points?|entries|entry|steps?|elements?|objects?|parts?|tags?|segments?|labels?|phrases?"
    r"|keywords?|events?|actions?|scenes?|shots?|moments?|facts?|features?|details?|examples?)\b"
)


def _counted(description: str, found: Structure, siblings: Siblings) -> Sequence[str]:
    wanted = description.lower()
    for pattern, unit in _COUNTED_UNITS:
        if pattern.search(wanted):
            return [_unbracketed(text) for text in unit(found, siblings)]
    if _STRUCTURAL.search(wanted):
        for symbol in siblings.delimiters:
            if parts := found.parts(symbol):
                return [_unbracketed(part) for part in parts]
        if found.elements:
            return [_unbracketed(text) for text in found.elements]
    raise NeedsReader("only a reader of meaning can count these things; rules_only counts parts, colours and signs")


def _colours(text: str) -> list[str]:
    pattern = rf"(?<![^\W_])(?:{'|'.join(sorted(COLOURS, key=len, reverse=True))})(?![^\W_])"
    return _distinct(re.findall(pattern, text, re.IGNORECASE))


def _distinct(words: Sequence[str]) -> list[str]:
    return list({word.casefold(): word for word in reversed(words)}.values())[::-1]


def _unbracketed(text: str) -> str:
    # Parentheses inside a thing would end it in the listing.
    return re.sub(r"[()]", " ", text).strip() or text
