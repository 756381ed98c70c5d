"""The routing turn of the scripted policies: which tools are on offer, and a choice by what a disturbance spares."""

from __future__ import annotations

import re
from typing import NamedTuple

_QUERY = re.compile(r"^(?P<number>\d+)\. (?P<kind>\w+): .* \| tools: (?P<tools>.+)$", re.MULTILINE)
_BRIEF_QUERY = re.compile(r"^(?P<number>\d+) (?P<kind>\w+): (?P<tools>[\w ]+)$", re.MULTILINE)
_DISTURBANCE = re.compile(r"[Dd]isturbance[^:\n]*: (?P<name>\w+)")

# Where another tool than the first candidate is worth its cost: what stands in the way makes false coloured shapes,
# which words do not; flow sees the whole picture when things are smeared or hidden.
_SECOND_CHOICE = {
    ("spatial", "occlusion"): "caption_frame",
    ("temporal", "blur"): "recognize_action",
    ("temporal", "occlusion"): "recognize_action",
}


class Offer(NamedTuple):
    """A sub-query as listed in a routing turn: its number, its semantic type, the tools it may go to."""

    number: int
    kind: str
    tools: tuple[str, ...]


def asks_for_routing(text: str) -> bool:
    """Whether a message lists sub-queries with the tools they may go to."""
    return ("## Sub-queries" in text and "| tools: " in text) or text.startswith("## Tools\n")


def offers(text: str) -> list[Offer]:
    """The sub-queries of a routing turn in their order, as full or brief prompts list them."""
    if text.startswith("## Tools\n"):
        found = [(query, query["tools"].split()) for query in _BRIEF_QUERY.finditer(text)]
    else:
        found = [(query, re.findall(r"(\w+) \(cost", query["tools"])) for query in _QUERY.finditer(text)]
    return [
        Offer(int(query["number"]), query["kind"], tuple(tool for tool in tools if tool != "none"))
        for query, tools in found
    ]


def disturbance_of(text: str) -> str:
    """The strongest disturbance as the turn states it; "clean" where it states none."""
    found = _DISTURBANCE.search(text)
    return found["name"] if found else "clean"


def entry(offer: Offer, disturbance: str, tool: str) -> str:
    """The line "number type disturbance tool" that sends a sub-query to a tool."""
    return f"{offer.number} {offer.kind} {disturbance} {tool}"


def choose_tools(text: str) -> str:
    """One line "number type disturbance tool" for each sub-query of the message."""
    disturbance = disturbance_of(text)
    lines = []
    for offer in offers(text):
        wanted = _SECOND_CHOICE.get((offer.kind, disturbance))
        tool = wanted if wanted in offer.tools else (offer.tools[0] if offer.tools else "none")
        lines.append(entry(offer, disturbance, tool))
    return "\n".join(lines)
