"""The verbatim guard: what a judge extracts must stand in the response, or it is not the response that gets checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from trustvid.llm.dialogue import Unreadable

_COUNT = "count"
_BLANK = ("", "()", "（）")


def guarded(content: Sequence[str], constraint_id: str, response: str) -> tuple[str, ...]:
    """The extracted texts as they stand in the response.

    Only runs of white space may differ; what comes back is the response's own text, its line breaks included. For
    ``count`` each element is a listing "(a),(b)" whose things must stand in the response, a thing that is listed
    twice at two places; bare texts are taken as one listing.

    Args:
        content: texts by the judge; [""] and [] say that the response has nothing of the kind.
        constraint_id: of the rule.
        response: in full.

    Returns:
        The verified texts, () when there is nothing of the kind.

    Raises:
        Unreadable: an element does not stand in the response; the message names it.
    """
    filled = [element for element in content if element.strip() not in _BLANK]
    if not filled:
        return ()
    if len(filled) < len(content):
        raise Unreadable("'content' has an empty element beside others; leave out what is not there")
    if constraint_id == _COUNT:
        return _guarded_listings(filled, response)
    return tuple(_located(element, response) for element in filled)


def _located(text: str, response: str) -> str:
    found = locate(text, response)
    if found is None:
        raise Unreadable(f"{_shown(text)} does not stand in the response")
    return found


def locate(text: str, response: str) -> str | None:
    """The part of ``response`` that is ``text`` but for runs of white space, None when there is none.

    >>> locate("a red car", "It is a red\\n car.")
    'a red\\n car'
    """
    if text in response:
        return text
    words = text.split()
    found = re.search(r"\s+".join(map(re.escape, words)), response) if words else None
    return found[0] if found else None


def _guarded_listings(elements: Sequence[str], response: str) -> tuple[str, ...]:
    listings = [listed(element) for element in elements]
    if all(listing is None for listing in listings):
        # Bare texts: one thing each, all of one listing.
        _require_all(elements, response)
        return (",".join(f"({element.strip()})" for element in elements),)
    for element, listing in zip(elements, listings, strict=True):
        if listing is None:
            raise Unreadable(f"{_shown(element)} is no listing; expected (first),(second)")
        _require_all(listing, response)
    return tuple(elements)


def _require_all(things: Sequence[str], response: str) -> None:
    text = " ".join(response.split())
    for thing, times in Counter(" ".join(thing.split()) for thing in things).items():
        stands = text.count(thing)
        if stands < times:
            where = "does not stand in the response" if not stands else f"stands there {stands} times, not {times}"
            raise Unreadable(f"{_shown(thing)} {where}")


def listed(text: str) -> list[str] | None:
    """The things of a listing "(a),(b)"; a thing may hold parentheses. None when the text is no listing.

    >>> listed("(a car (red)), (dog)"), listed("a car (red)")
    (['a car (red)', 'dog'], None)
    """
    text = text.strip()
    if not text.startswith("(") or not text.endswith(")"):
        return None
    things, depth, start = [], 0, 0
    for found in re.finditer(r"[()]", text):
        if found[0] == "(":
            if depth == 0 and text[start : found.start()].strip(" \n,，、;；"):
                return None
            start = found.end() if depth == 0 else start
            depth += 1
        else:
            depth -= 1
            if depth < 0:
                return _split_flat(text)
            if depth == 0:
                things.append(text[start : found.start()].strip())
                start = found.end()
    return [thing for thing in things if thing] if depth == 0 else _split_flat(text)


def _split_flat(text: str) -> list[str]:
    """Where parentheses do not match (emoticons), "),(" separates."""
    return [thing.strip() for thing in re.split(r"\)\s*[,，、;；]\s*\(", text[1:-1]) if thing.strip()]


def _shown(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 80 else f"{flat[:77]}…")
