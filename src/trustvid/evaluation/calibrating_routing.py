"""What routing could gain: P(right) of each semantic type when a tool is chosen by rule, and when by an oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trustvid.agent.routing import CANDIDATES, choose_tool
from trustvid.evaluation.calibrating import ToolCases, paper_raw
from trustvid.reliability.calibration import Calibration
from trustvid.reliability.profile import Profile
from trustvid.tools.evidence import SemanticType

# What the tools of a semantic type are compared by: tasks that its candidates share.
TASK_OF_TYPE: dict[SemanticType, str] = {
    "spatial": "thing",
    "attribute": "colour",
    "temporal": "motion",
    "action": "motion",
    "text": "word",
}
ROUTES = ("table", "fixed", "yield", "oracle")


class _Outcome(NamedTuple):
    """What became of one target in one tool: right (0 or 1), predicted yield, whether its frame was corrupted."""

    right: float
    predicted: float
    touched: bool


def routing_headroom(
    records: Sequence[Mapping[str, Any]], cases: Mapping[str, ToolCases], calibration: Calibration
) -> list[dict[str, Any]]:
    """P(right) by semantic type and route, over all targets and over those on touched frames.

    Routes: "table" (Table 18 by the dominant disturbance of the frames looked at), "fixed" (by type alone), "yield"
    (target by target, the candidate with the higher calibrated yield) and "oracle" (target by target, a candidate that
    is right, if any is). No choice between the two candidates can beat the oracle: headroom = oracle − table is all
    that better routing could gain. Needs labels that are the same for every tool: truth.

    Args:
        records: of the worker.
        cases: the same, assembled.
        calibration: predicts the yields.
    """
    dominant = {(record["video"], record["condition"]): _dominant(record) for record in records}
    outcomes = {tool: _outcomes(of, calibration, tool) for tool, of in cases.items()}
    rows = []
    for kind, task in TASK_OF_TYPE.items():
        both = [outcomes.get(tool, {}) for tool in CANDIDATES[kind]]
        keys = [key for key in both[0] or both[1] if key[2] == task]
        if not keys:
            continue
        right = np.array([[of_tool[key].right if key in of_tool else 0.0 for of_tool in both] for key in keys])
        predicted = np.array([[of_tool[key].predicted if key in of_tool else 0.0 for of_tool in both] for key in keys])
        chosen = {
            "table": [CANDIDATES[kind].index(choose_tool(kind, dominant[key[:2]], cases)) for key in keys],
            "fixed": [CANDIDATES[kind].index(choose_tool(kind, "clean", cases))] * len(keys),
            "yield": predicted.argmax(axis=1),
            "oracle": right.argmax(axis=1),
        }
        by_route = {route: right[np.arange(len(keys)), places] for route, places in chosen.items()}
        touched = np.array([(both[0] or both[1])[key].touched for key in keys])
        for scope, keep in (("all", np.ones(len(keys), dtype=bool)), ("touched", touched)):
            if keep.any():
                row = {"type": kind, "scope": scope, "n": int(keep.sum()), "candidates": list(CANDIDATES[kind])}
                row |= {route: float(values[keep].mean()) for route, values in by_route.items()}
                row["alone"] = [float(value) for value in right[keep].mean(axis=0)]
                rows.append(row | {"headroom": row["oracle"] - row["table"]})
    return rows


def _outcomes(cases: ToolCases, calibration: Calibration, tool: str) -> dict[tuple, _Outcome]:
    """Outcome by the target's key; a tool without a calibrated yield is predicted to report nothing."""
    found: dict[tuple, _Outcome] = {}
    for some in (cases.yields, cases.named):
        models = calibration.tools.get(tool)
        predicted = models.yield_model.predict(some.inputs(calibration.channels)) if models else np.zeros(len(some.key))
        rows = zip(some.right.tolist(), predicted.tolist(), some.touched.tolist(), strict=True)
        found.update(zip(some.key, map(_Outcome._make, rows), strict=True))
    return found


def _dominant(record: Mapping[str, Any]) -> str:
    """The dominant disturbance of the frames looked at, as the paper's pipeline tells it to the router."""
    indices = tuple(record["indices"])
    return Profile(indices, np.zeros(len(indices)), paper_raw(record)).dominant(record["frames"])
