"""The routing turn of the scripted policy: a tool for each sub-query, by what a disturbance leaves intact."""

from __future__ import annotations

import re

_QUERY = re.compile(r"^(?P<number>\d+)\. (?P<kind>\w+): .* \| tools: (?P<tools>.+)$", re.MULTILINE)
_DISTURBANCE = re.compile(r"[Dd]isturbance[^:\n]*: (?P<name>\w+)")

# Where another tool than the first candidate is worth its cost: what stands in the way makes false coloured shapes,
# which words do not; flow sees the whole picture when things are smeared or hidden.
_SECOND_CHOICE = {
    ("spatial", "occlusion"): "caption_frame",
    ("temporal", "blur"): "recognize_action",
    ("temporal", "occlusion"): "recognize_action",
}


def asks_for_routing(text: str) -> bool:
    """Whether a message lists sub-queries with the tools they may go to."""
    return "## Sub-queries" in text and "| tools: " in text


def choose_tools(text: str) -> str:
    """One line "number type disturbance tool" for each sub-query of the message."""
    found = _DISTURBANCE.search(text)
    disturbance = found["name"] if found else "clean"
    lines = []
    for query in _QUERY.finditer(text):
        tools = re.findall(r"(\w+) \(cost", query["tools"])
        wanted = _SECOND_CHOICE.get((query["kind"], disturbance))
        tool = wanted if wanted in tools else (tools[0] if tools else "none")
        lines.append(f"{query['number']} {query['kind']} {disturbance} {tool}")
    return "\n".join(lines)
