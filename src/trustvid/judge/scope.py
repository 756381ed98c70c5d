"""Which part of a response a check's description speaks of, by the description's words alone.

The grammar, tried in this order (letter case makes no difference):

1. A quoted name ('x', "x", `x`) that is a key of the response's JSON, of a schema or a column among the sibling checks:
   the values below that key, the cells of that column. With "key(s)" or "column name(s)" instead: the names themselves.
2. each | every | all (of) the + UNIT: every such unit. UNIT is one of sentence, paragraph, line, row, cell, value, key,
   title (heading, headline, header), bold / italic / highlighted text, part (tag, segment, label, phrase, keyword: what
   the delimiter of a sibling check separates), item (bullet, point, entry, step, element: list items, JSON array
   elements, table rows). "each" + any other noun: the elements the response is visibly made of.
3. first | second | third | fourth | fifth | last | final | opening | closing + UNIT: that one.
4. title, heading, headline, header: the headings, else a JSON key "title", else the first of several lines.
5. body, main text, content below the title: what is not a heading.
6. Everything else: the whole response.

What a description points at and the response lacks is nothing: the empty list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trustvid.judge.structure import Structure

_QUOTED = re.compile(r"""['"`‘“「](?P<name>[^'"`’”」\n]{1,60})['"`’”」]""")
_ORDINALS = {
    **{"first": 0, "opening": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4},
    **{"last": -1, "final": -1, "closing": -1},
}
_ADJECTIVES = r"(?:(?:single|individual|numbered|bulleted|listed|list|json|separate|own)\s+)*"


@dataclass(frozen=True)
class Siblings:
    """What the other checks of the checklist say about the form of the response.

    Attributes:
        delimiters: symbols of delimiter checks.
        names: keys of schemas and columns of tables.
        prefixes, suffixes: fixed beginnings and ends asked for.
    """

    delimiters: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scope:
    """The texts a check is about.

    Attributes:
        texts: as they stand in the response; empty when it lacks what the description points at.
        whole: whether that is simply all of the response.
    """

    texts: tuple[str, ...]
    whole: bool = False


Unit = Callable[[Structure, Siblings], Sequence[str]]


def _parts(found: Structure, siblings: Siblings) -> Sequence[str]:
    for symbol in siblings.delimiters:
        if parts := found.parts(symbol):
            return parts
    return found.elements or ([found.text] if siblings.delimiters and found.text.strip() else [])


def _items(found: Structure, siblings: Siblings) -> Sequence[str]:
    return found.elements if found.elements else _parts(found, siblings)


def _values(found: Structure, siblings: Siblings) -> Sequence[str]:
    return found.value_texts


def _titles(found: Structure, siblings: Siblings) -> Sequence[str]:
    if found.headings:
        return found.headings
    if values := found.values_of("title"):
        return values
    return found.lines[:1] if len(found.lines) > 1 and not found.items else []


_UNITS: tuple[tuple[str, Unit], ...] = (
    (r"sentences?", lambda found, _: found.sentences),
    (r"paragraphs?", lambda found, _: found.paragraphs),
    (r"lines?", lambda found, _: found.lines),
    (r"(?:table\s+)?rows?", lambda found, _: found.rows),
    (
        r"(?:table\s+)?cells?",
        lambda found, _: [cell for row in found.table.rows for cell in row] if found.table else [],
    ),
    (r"(?:string\s+)?values?", _values),
    (r"(?:json\s+)?(?:keys?|field names?)", lambda found, _: found.keys),
    (r"columns?(?:\s+names?)?", lambda found, _: found.table.header if found.table else []),
    (r"(?:titles?|headings?|headlines?|headers?)", _titles),
    (r"bold(?:ed)?\s+\w+", lambda found, _: found.marked("bold")),
    (r"italic(?:i[sz]ed)?\s+\w+", lambda found, _: found.marked("italic")),
    (r"highlight(?:ed)?\s+\w+", lambda found, _: found.marked("highlight")),
    (r"(?:parts?|tags?|segments?|labels?|phrases?|keywords?)", _parts),
    (r"(?:items?|bullets?(?:\s+points?)?|points?|entries|entry|steps?|elements?|objects?)", _items),
)
_EACH_UNIT = tuple(
    (re.compile(rf"\b(?:each|every|all(?:\s+of)?(?:\s+the)?)\s+{_ADJECTIVES}(?:{name})\b", re.IGNORECASE), unit)
    for name, unit in _UNITS
)
_ORDINAL_UNIT = tuple(
    (re.compile(rf"\b(?P<ordinal>{'|'.join(_ORDINALS)})\s+{_ADJECTIVES}(?:{name})\b", re.IGNORECASE), unit)
    for name, unit in _UNITS
)
_EACH_OTHER = re.compile(r"\b(?:each|every)\s+(?!word|letter|character|time|other)\w+", re.IGNORECASE)
_TITLE = re.compile(r"\b(?:titles?|headings?|headlines?)\b(?!\s+case)", re.IGNORECASE)
_BODY = re.compile(r"\b(?:body|main text|text (?:below|after|under) the title)\b", re.IGNORECASE)
_NAMES_THEMSELVES = re.compile(r"\b(?:keys?|field names?|column names?|column headers?|columns?)\b", re.IGNORECASE)
_VALUE = re.compile(r"\b(?:values?|fields?|contents?|entry|entries|cells?|under|below|column)\b", re.IGNORECASE)


def scope_of(description: str, found: Structure, siblings: Siblings) -> Scope:
    """The part of a response that ``description`` speaks of (see the module)."""
    named = _named(description, found, siblings)
    if named is not None:
        return Scope(tuple(named))
    for pattern, unit in _EACH_UNIT:
        if pattern.search(description):
            return Scope(tuple(unit(found, siblings)))
    for pattern, unit in _ORDINAL_UNIT:
        match = pattern.search(description)
        if match:
            units = unit(found, siblings)
            place = _ORDINALS[match["ordinal"].lower()]
            return Scope((units[place],) if -len(units) <= place < len(units) else ())
    if _EACH_OTHER.search(description):
        elements = _items(found, siblings)
        return Scope(tuple(elements)) if elements else Scope((found.text,), whole=True)
    if _TITLE.search(description):
        return Scope(tuple(_titles(found, siblings)))
    if _BODY.search(description) and found.headings:
        body = "\n".join(line for line in found.text.split("\n") if line.strip() not in found.headings)
        return Scope((body.strip(),))
    return Scope((found.text,), whole=True)


def _named(description: str, found: Structure, siblings: Siblings) -> Sequence[str] | None:
    """Texts below a quoted key or column, None when the description quotes none."""
    known = {name.casefold() for name in (*found.keys, *siblings.names)}
    if found.table:
        known |= {cell.strip("*_` ").casefold() for cell in found.table.header}
    names = [match["name"] for match in _QUOTED.finditer(description) if match["name"].casefold() in known]
    if not names or (_NAMES_THEMSELVES.search(description) and not _VALUE.search(description)):
        return None
    return [text for name in names for text in (found.values_of(name) or found.column(name))]
