"""Tool routing: which tool answers a sub-query, given its semantic type and the dominant disturbance."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from trustvid.seeding import derive_rng
from trustvid.tools.evidence import SEMANTIC_TYPES, SemanticType, SubQuery

# Table 18 of the paper: type → tool by dominant disturbance; then the type's candidates in the order of the paper.
TABLE_18: dict[SemanticType, dict[str, str]] = {
    "spatial": {
        "clean": "detect_objects",
        "blur": "caption_frame",
        "brightness": "detect_objects",
        "occlusion": "caption_frame",
    },
    "attribute": {
        "clean": "caption_frame",
        "blur": "caption_frame",
        "brightness": "caption_frame",
        "occlusion": "detect_objects",
    },
    "temporal": {
        "clean": "track_temporal",
        "blur": "recognize_action",
        "brightness": "track_temporal",
        "occlusion": "recognize_action",
    },
    "action": {
        "clean": "recognize_action",
        "blur": "caption_frame",
        "brightness": "recognize_action",
        "occlusion": "recognize_action",
    },
    "text": {"clean": "read_text", "blur": "caption_frame", "brightness": "read_text", "occlusion": "read_text"},
}
CANDIDATES: dict[SemanticType, tuple[str, ...]] = {
    "spatial": ("detect_objects", "caption_frame"),
    "attribute": ("caption_frame", "detect_objects"),
    "temporal": ("track_temporal", "recognize_action"),
    "action": ("recognize_action", "caption_frame"),
    "text": ("read_text", "caption_frame"),
}


# The table knows three disturbances; ours are finer. Noise, like blur, takes small detail and leaves large shapes.
_COLUMNS = {"noise": "blur", "glare": "brightness", "dark": "brightness"}


def column_of(disturbance: str) -> str:
    """The column of Table 18 for a dominant disturbance: one of ours, or already a column."""
    return _COLUMNS.get(disturbance, disturbance)


def choose_tool(kind: SemanticType, disturbance: str, available: Collection[str]) -> str:
    """The tool of Table 18, or the type's other candidate when that one is not installed.

    With neither installed it is the table's tool all the same: the executor then makes the gap a failed call, which is
    evidence and is counted.

    Raises:
        ValueError: unknown type or disturbance.
    """
    if kind not in TABLE_18:
        raise ValueError(f"sub-query type {kind!r} is unknown; expected one of {', '.join(SEMANTIC_TYPES)}")
    if disturbance not in TABLE_18[kind]:
        raise ValueError(f"disturbance {disturbance!r} is not in the routing table; known: {', '.join(TABLE_18[kind])}")
    wanted = TABLE_18[kind][disturbance]
    return next((tool for tool in (wanted, *CANDIDATES[kind]) if tool in available), wanted)


class Table:
    """Table 18: by semantic type and dominant disturbance of the selected frames."""

    name = "table"
    asks_policy = False
    varies = False

    def route(self, query: SubQuery, disturbance: str, available: Collection[str], asked: str = "") -> str:
        """Name of the tool for one sub-query; ``disturbance`` is a column of Table 18."""
        return choose_tool(query.type, disturbance, available)


class Fixed:
    """By semantic type alone: routing that ignores disturbance.

    Args:
        tools: semantic type → tool, each one of its candidates; types that are not named, and None, go by the "clean"
            column of Table 18.

    Raises:
        ValueError: a type is unknown or a tool is none of its candidates; all of it in one message.
    """

    name = "fixed"
    asks_policy = False
    varies = False

    def __init__(self, tools: Mapping[str, str] | None = None):
        self.tools = dict(tools or {})
        wrong = [f"{kind}: {tool}" for kind, tool in self.tools.items() if tool not in CANDIDATES.get(kind, ())]
        if wrong:
            known = "; ".join(f"{kind}: {' or '.join(tools)}" for kind, tools in CANDIDATES.items())
            raise ValueError(f"routing.tools holds {', '.join(wrong)}; expected {known}")

    def route(self, query: SubQuery, disturbance: str, available: Collection[str], asked: str = "") -> str:
        """Name of the tool for one sub-query; ``disturbance`` is ignored."""
        wanted = self.tools.get(query.type)
        return wanted if wanted in available else choose_tool(query.type, "clean", available)


class Random:
    """A seeded draw among the candidates of the type: what routing is worth is measured against it.

    Args:
        seed: combined with the sub-query, the disturbance, the question and its frames, never with order.
    """

    name = "random"
    asks_policy = False
    varies = True

    def __init__(self, seed: int = 0):
        self.seed = seed

    def route(self, query: SubQuery, disturbance: str, available: Collection[str], asked: str = "") -> str:
        """Name of the tool for one sub-query."""
        installed = [tool for tool in CANDIDATES[query.type] if tool in available]
        if not installed:
            return choose_tool(query.type, disturbance, available)
        draw = derive_rng(self.seed, "routing", query.text, query.type, disturbance, asked)
        return installed[int(draw.integers(len(installed)))]


class ByPolicy(Table):
    """The policy chooses among the candidates, told the disturbance and the costs; Table 18 where it cannot be read."""

    name = "policy"
    asks_policy = True
    varies = True
