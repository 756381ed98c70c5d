"""Which tool was called for which demand under which disturbance, and what came of it, from stored conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trustvid.evaluation.plots.style import COLOURS, INK, PAGE, PERCENT, REFERENCE_COLOUR, Plot, panels, place_below

Place = tuple[str, str]  # semantic type of the sub-query, dominant disturbance of the selected frames
Key = tuple[str, str, str]  # sample_id, method, condition
_TYPES = ("spatial", "temporal", "attribute", "action", "text")
_TOOLS = ("read_text", "detect_objects", "recognize_action", "track_temporal", "caption_frame")


@dataclass
class Cell:
    """What happened in one place.

    Attributes:
        calls: by tool; a call that was repeated counts once.
        failures: calls that failed.
        scores: of the answers that the calls served; unscored ones are not in it.
    """

    calls: Counter[str] = field(default_factory=Counter)
    failures: int = 0
    scores: list[float] = field(default_factory=list)

    @property
    def n(self) -> int:
        """Calls."""
        return sum(self.calls.values())


def count_routes(
    trajectories: Iterable[Mapping[str, Any]], scores: Mapping[Key, float]
) -> dict[str, dict[Place, Cell]]:
    """By method, what was called where.

    Args:
        trajectories: records of ``trajectories.jsonl``; of an answer that was tried again the first counts.
        scores: of the scored answers.
    """
    methods: dict[str, dict[Place, Cell]] = {}
    seen: set[Key] = set()
    for record in trajectories:
        key = record["sample_id"], record["method"], record["condition"]
        if key in seen:
            continue
        seen.add(key)
        for call in record["evidence"]:
            place = call["sub_query"]["type"], record["dominant"]
            cell = methods.setdefault(record["method"], {}).setdefault(place, Cell())
            cell.calls[call["tool"]] += 1
            cell.failures += call["error"] is not None
            if key in scores:
                cell.scores.append(scores[key])
    return methods


def routing_plot(method: str, cells: Mapping[Place, Cell], stamp: str) -> Plot:
    """Semantic type against dominant disturbance: in each cell the tools' shares of the calls, the share of right
    answers that they served, and the calls that failed.

    Args:
        method: whose routing it is.
        cells: of :func:`count_routes`, at least one.
        stamp: benchmark, split and policy.
    """
    from matplotlib.patches import Patch, Rectangle

    types = _ordered({kind for kind, _ in cells}, _TYPES)
    causes = _ordered({cause for _, cause in cells}, ("clean",))
    tools = _ordered({tool for cell in cells.values() for tool in cell.calls}, _TOOLS)
    colours = {tool: (*COLOURS, REFERENCE_COLOUR)[i % (len(COLOURS) + 1)] for i, tool in enumerate(tools)}
    figure, (axes,) = panels(1, 1, PAGE, 0.62 * len(types) + 0.95)
    for row, kind in enumerate(types):
        for column, cause in enumerate(causes):
            cell = cells.get((kind, cause))
            if cell is None:
                axes.text(column + 0.5, row + 0.5, "none", ha="center", va="center", fontsize=7, alpha=0.6)
                continue
            left = column + 0.04
            for tool in tools:
                width = 0.92 * cell.calls[tool] / cell.n
                axes.add_patch(Rectangle((left, row + 0.12), 0.985 * width, 0.34, fc=colours[tool], lw=0))
                left += width
            axes.text(column + 0.5, row + 0.68, _cell_text(cell), ha="center", va="center", fontsize=6.5)
    axes.set(xlim=(0, len(causes)), ylim=(len(types), 0), xlabel="dominant disturbance of the selected frames")
    axes.set_xticks([i + 0.5 for i in range(len(causes))], causes)
    axes.set_yticks([i + 0.5 for i in range(len(types))], types)
    axes.set_ylabel("type of the sub-query")
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for edge in range(1, len(types)):
        axes.axhline(edge, color=INK, lw=0.4, alpha=0.3)
    place_below(figure, [Patch(color=colours[tool]) for tool in tools], tools, 5)
    main = [f"{kind} under {cause}: {cell.calls.most_common(1)[0][0]}" for (kind, cause), cell in sorted(cells.items())]
    return Plot(
        figure,
        f"Routing of {method}",
        f"{method}: tools called for each type of sub-query under each dominant disturbance (bar: shares of the n "
        f"calls), the accuracy of the answers they served, and failed calls where there were any. {stamp}.",
        f"Grid of tool shares. Most called, {'; '.join(main)}.",
    )


def _cell_text(cell: Cell) -> str:
    right = f"{PERCENT * sum(cell.scores) / len(cell.scores):.0f} % right" if cell.scores else "unscored"
    failed = f", {PERCENT * cell.failures / cell.n:.0f} % failed" if cell.failures else ""
    return f"n={cell.n}, {right}{failed}"


def _ordered(found: Iterable[str], known: Iterable[str]) -> list[str]:
    """Known names in their order, then the others by name."""
    found = set(found)
    first = [name for name in known if name in found]
    return first + sorted(found - set(first))
