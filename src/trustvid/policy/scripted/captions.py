"""The scripted caption writer: evidence into sentences, sentences into the form an instruction asks for.

It reads the rendered messages and nothing else: what it tells is what the tools report, its form is what it understood
of the instruction. It knows the wordings that captions of BoxWorld are asked for, and a little of others'.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from trustvid.policy.scripted.caption_facts import SceneFacts
from trustvid.policy.scripted.caption_request import Request, read_request
from trustvid.policy.scripted.reading import read_scene

TITLE = "A Short Look Around"
_FILLERS = ("Nothing else stands out.", "The rest is of no interest.", "That is all there is to it.")
_ROMANS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV", "XV")
_LEAD = re.compile(r"^(?:The one who films |To sum up, the clip is |The camera makes |The signs read |The )")


def asks_for_caption(messages: Sequence[str]) -> bool:
    """Whether a conversation is about a caption."""
    return any(message.startswith("## Instruction") for message in messages)


def write_caption(messages: Sequence[str]) -> str:
    """The caption that the last instruction of the messages asks for."""
    text = next(message for message in reversed(messages) if message.startswith("## Instruction"))
    instruction = re.search(r"## Instruction\n(.*?)(?=\n## |\Z)", text, re.DOTALL)
    request = read_request(instruction[1] if instruction else text)
    facts = SceneFacts(read_scene(messages), request.silent_on)
    named = _statements(request, facts)
    return _rendered(request, named, facts)


def _statements(request: Request, facts: SceneFacts) -> list[tuple[str, str]]:
    """(name, text) of every part, as many as asked for and no longer than allowed."""
    tell = facts.in_chinese if request.chinese else facts.about
    named = [(name, tell(point)) for name, point in request.points]
    if not named:
        free = [facts.in_chinese("")] if request.chinese else facts.everything()
        names = request.keys or ("",) * len(free)
        named = [(name, free[place % len(free)]) for place, name in enumerate(names)]
    if request.parts and request.unit == "item":
        named = [*named, *(("more", text) for text in _FILLERS)][: max(request.parts, 1)]
    if request.layout in ("tags", "table"):
        named = [(name, _LEAD.sub("", text).rstrip(".")) for name, text in named]
    return [(name, _worded(text, request)) for name, text in named]


def _worded(text: str, request: Request) -> str:
    """Banned words out, and no more words than allowed."""
    for word in request.banned:
        kept = re.sub(rf"\s*\b{re.escape(word)}\b", "", text, flags=re.IGNORECASE).lstrip()
        text = kept[:1].upper() + kept[1:] if text[:1].isupper() else kept
    words = text.split()
    if request.max_words and len(words) > request.max_words and request.layout != "prose":
        text = " ".join(words[: request.max_words]).rstrip(",.") + ("." if text.endswith(".") else "")
    return text


def _rendered(request: Request, named: list[tuple[str, str]], facts: SceneFacts) -> str:
    named = _with_words(request, named)
    named = [(name, _cased(text, request) if request.case_of in ("", name) else text) for name, text in named]
    texts = _marked(request, [text for _, text in named])
    body = _body(request, [name for name, _ in named], texts, facts)
    gap = " " if request.layout == "prose" and request.unit != "paragraph" else "\n"
    return gap.join(part for part in (request.prefix, body, request.suffix) if part)


def _with_words(request: Request, named: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Words that must stand there and do not yet, added to the last part."""
    said = " ".join(text for _, text in named).lower()
    missing = [word for word in request.words if word.lower() not in said]
    if not missing or not named:
        return named
    name, text = named[-1]
    stop = "." if text.endswith(".") else ""
    return [*named[:-1], (name, f"{text.removesuffix('.')}, in a word: {', '.join(missing)}{stop}")]


def _cased(text: str, request: Request) -> str:
    turns = {"upper": str.upper, "lower": str.lower, "title": str.title}
    return turns[request.case](text) if request.case and request.case_of != "title" else text


def _marked(request: Request, texts: list[str]) -> list[str]:
    for word, mark in request.marks:
        place = next((i for i, text in enumerate(texts) if re.search(rf"\b{re.escape(word)}\b", text)), None)
        if place is not None:
            texts[place] = re.sub(rf"\b{re.escape(word)}\b", f"{mark}{word}{mark}", texts[place], count=1)
    return texts


def _body(request: Request, names: list[str], texts: list[str], facts: SceneFacts) -> str:
    layout = request.layout
    if layout == "object":
        if request.inner_symbol and "signs" in names:
            words = re.findall(r"\b[A-Z]{2,}\b", texts[names.index("signs")])
            texts[names.index("signs")] = f" {request.inner_symbol} ".join(words)
        keys = request.keys or tuple(name or f"point_{n}" for n, name in enumerate(names, start=1))
        return json.dumps(dict(zip(keys, texts, strict=False)), ensure_ascii=False, indent=2)
    if layout == "array":
        return json.dumps(texts, ensure_ascii=False, indent=2)
    if layout == "tags":
        return f"{request.symbol} ".join(texts)
    if layout == "bulleted":
        return "\n".join(f"{request.symbol} {text}" for text in texts)
    if layout == "numbered":
        return "\n".join(f"{mark} {text}" for mark, text in zip(_ordinals(request.symbol), texts, strict=False))
    if layout == "table":
        rows = [" | ".join(request.columns), " | ".join("---" for _ in request.columns)]
        rows += [" | ".join((name or str(n), text)) for n, (name, text) in enumerate(zip(names, texts, strict=True), 1)]
        return "\n".join(f"| {row} |" for row in rows)
    joined = "" if request.chinese else "\n\n" if request.unit == "paragraph" else " "
    if layout == "document":
        title = _cased(TITLE, request)
        return f"# {title}\n\n{' '.join(texts)}"
    return joined.join(_of_length(request, texts))


def _of_length(request: Request, texts: list[str]) -> list[str]:
    """As many sentences or paragraphs as asked for."""
    wanted = request.parts if request.unit in ("sentence", "paragraph") else None
    if wanted is None:
        return texts
    fixed = sum(bool(side) for side in (request.suffix,)) if request.unit == "sentence" else 0
    return [*texts, *_FILLERS][: max(1, wanted - fixed)]


def _ordinals(symbol: str) -> list[str]:
    """List marks from a first one: "1.", "A.", "a.", "I.", "i."."""
    head, tail = symbol[:-1], symbol[-1:]
    if head in ("I", "i"):
        return [(roman if head == "I" else roman.lower()) + tail for roman in _ROMANS]
    if len(head) == 1 and head.isalpha():
        return [chr(code) + tail for code in range(ord(head), ord("z" if head.islower() else "Z") + 1)]
    start = int(head) if head.isdecimal() else 1
    return [f"{number}{tail or '.'}" for number in range(start, start + 200)]
