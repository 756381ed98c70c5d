"""Markdown markup as CommonMark reads it, with the corrections a reader of captions would make.

Where this differs from CommonMark:

- ``__init__`` and the other special names of Python are identifiers, not bold;
- an indented block is no code (captions are indented for other reasons), an unclosed fence and an empty one neither;
- ``**“…”**`` beside Chinese text is bold: CommonMark's flanking rule was made for spaces between words;
- ``==text==`` is a highlight (CommonMark has none) unless blanks stand inside the marks ("a == b == c");
- a line over ``---`` is a heading when it is short and ends without a stop; else the dashes separate two parts;
- the strings of fenced JSON may be bold, italic or highlighted, for the fence is only the wrapping;
- a reply that is one ```` ```markdown ```` fence is read as the Markdown inside it.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from trustvid.captioning.rules.verdict import Finding

# Longer lines over dashes are paragraphs before a separator.
_MAX_UNDERLINED = 60
_STOPS = ".!?。！？…”\"'}])|"
MD_TYPES = ("title", "bold", "highlight", "italic", "code")


class Markup(NamedTuple):
    """One piece of markup: its kind, the mark that made it ("##", "**", "```"), and the text inside."""

    kind: str
    mark: str
    text: str


def markdown(content: str, md_type: Any) -> Finding:
    """At least one non-empty piece of ``md_type`` (see the module for what counts); an unknown type fails.

    Bold is not italic (``***both***`` is), code is no highlight, ``snake_case`` and ``2 * 3 * 4`` are nothing.
    """
    if md_type not in MD_TYPES:
        return Finding(False, f"md_type {md_type!r} is none of {', '.join(MD_TYPES)}")
    found = [piece for piece in markup_of(content) if piece.kind == md_type]
    return Finding(bool(found), f"{len(found)} pieces of {md_type}" + (f", {found[0].text[:60]!r}" if found else ""))


def markup_of(text: str) -> list[Markup]:
    """Every piece of markup: the five of ``MD_TYPES`` and "strike", "quote", "link" and "html"."""
    text = _unwrapped(re.sub(r"\r\n?", "\n", text))
    lines = text.split("\n")
    tokens = _parser().parse(text)
    pieces: list[Markup] = []
    prose: list[str] = []
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            title = tokens[place + 1].content.strip()
            if title and (token.markup != "-" or (len(title) <= _MAX_UNDERLINED and title[-1] not in _STOPS)):
                pieces.append(Markup("title", token.markup, title))
        elif token.type == "fence":
            pieces += _fence_pieces(token, lines)
        elif token.type == "blockquote_open":
            pieces.append(Markup("quote", ">", lines[token.map[0]].strip()))
        elif token.type == "inline":
            pieces += _inline_pieces(token.children)
            prose.append(_outside_code(token.children))
    for paragraph in prose:
        pieces += _signs_in(paragraph)
    return pieces


def _fence_pieces(token: Any, lines: list[str]) -> Iterator[Markup]:
    """A closed fence with something in it is code; in fenced JSON the strings may carry markup of their own."""
    first, end = token.map
    closed = end - first > 1 and re.fullmatch(rf"[\s>]*{re.escape(token.markup)}[`~]*\s*", lines[end - 1])
    content = token.content.strip()
    if not closed or not content:
        return
    yield Markup("code", token.markup, content)
    if content[0] in "{[":
        children = _parser().parseInline(content)[0].children
        yield from _inline_pieces(children)
        yield from _signs_in(_outside_code(children))


def visible_text(text: str) -> str:
    """One line without its inline markup: ``**Name**`` is ``Name``, ``a\\|b`` is ``a|b``."""
    inline = _parser().parseInline(text)[0]
    shown = "".join(child.content for child in inline.children if child.type in ("text", "code_inline"))
    return re.sub(r"==(?=\S)(.+?)(?<=\S)==", r"\1", shown).strip()


@lru_cache(maxsize=1)
def _parser() -> Any:
    from markdown_it import MarkdownIt

    # Links, HTML and references are left to one linear pattern each: their parsers rescan the text for every bracket.
    return (
        MarkdownIt("commonmark")
        .enable(["strikethrough", "table"])
        .disable(["code", "link", "image", "autolink", "html_inline", "html_block", "reference"])
    )


def _unwrapped(text: str) -> str:
    found = re.fullmatch(r"\s*```(?:markdown|md)[ \t]*\n(.*)\n```\s*", text, re.DOTALL | re.IGNORECASE)
    return found[1] if found and "\n```" not in found[1] else text


_SHOWN_PARTS = 20
_SPANS = {"strong_open": "bold", "em_open": "italic", "s_open": "strike"}


def _inline_pieces(children: list[Any]) -> Iterator[Markup]:
    shown: list[str] = []
    open_spans: list[tuple[str, str, int]] = []
    for child in children:
        if child.type in ("text", "code_inline") and child.content.strip():
            shown.append(child.content)
        if child.type == "code_inline" and child.content.strip():
            yield Markup("code", child.markup, child.content.strip())
        elif child.type in _SPANS:
            open_spans.append((_SPANS[child.type], child.markup, len(shown)))
        elif child.type.endswith("_close") and open_spans:
            kind, mark, start = open_spans.pop()
            # A few parts are enough to show the span; joining all of them would be quadratic in nested spans.
            inside = "".join(shown[start : start + _SHOWN_PARTS])
            if inside and not (mark == "__" and f"__{inside}__" in _special_names()):
                yield Markup(kind, mark, inside)


@lru_cache(maxsize=1)
def _special_names() -> frozenset[str]:
    """Python's names of the form ``__x__``: those of its built-in types, and those a module may define."""
    names = {name for kind in vars(builtins).values() if isinstance(kind, type) for name in dir(kind)}
    module = ("main", "name", "file", "all", "path", "package", "spec", "loader", "cached", "version", "future")
    members = ("slots", "enter", "exit", "del", "post_init", "set_name", "missing", "annotations", "builtins", "import")
    more = ("aenter", "aexit", "aiter", "anext", "await", "matmul", "get", "set", "copy", "deepcopy", "index", "author")
    names |= {f"__{name}__" for name in (*module, *members, *more)}
    return frozenset(name for name in names if name.startswith("__") and name.endswith("__"))


_OUTSIDE_CODE = {"softbreak": "\n", "hardbreak": "\n", "code_inline": " "}


def _outside_code(children: list[Any]) -> str:
    """Text of a paragraph with its remaining signs, code left out."""
    return "".join(child.content if child.type == "text" else _OUTSIDE_CODE.get(child.type, "") for child in children)


# CJK punctuation and ideographs: beside them CommonMark takes ** for no delimiter, though it plainly is one.
_CJK = r"\u2018-\u201d\u2026\u3000-\u303f\u3400-\u9fff\uff00-\uffef"
_CJK_BOLD = re.compile(r"(?<!\*)\*\*(?=[^\s*])([^*\n]+)(?<=[^\s*])\*\*(?!\*)")
_TOUCHES_CJK = re.compile(rf"[{_CJK}]")
_HIGHLIGHT = re.compile(r"(?<!=)==(?=[^\s=])([^\n=]+(?:=[^\n=]+)*)(?<=[^\s=])==(?!=)")
_LINK = re.compile(r"!?\[[^\[\]\n]{0,300}\]\([^()\s]{1,1000}\)")
_HTML = re.compile(
    r"</?(?:a|b|br|center|code|div|em|font|h[1-6]|hr|i|img|li|mark|ol|p|pre|s|span|strong|sub|sup|table|td|th|tr|u|ul)"
    r"(?:\s[^<>]{0,300})?/?>",
    re.IGNORECASE,
)


def _signs_in(text: str) -> Iterator[Markup]:
    for found in _CJK_BOLD.finditer(text):
        edges = text[max(found.start() - 1, 0) : found.start()] + found[1][0] + found[1][-1]
        if _TOUCHES_CJK.search(edges + text[found.end() : found.end() + 1]):
            yield Markup("bold", "**", found[1])
    for kind, pattern in (("highlight", _HIGHLIGHT), ("link", _LINK), ("html", _HTML)):
        for found in pattern.finditer(text):
            yield Markup(kind, found[0][:2], found[found.lastindex or 0])
