"""Tables of trust: what stated confidence is worth, and how far it can be followed. From a ``metrics.json`` alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trustvid.evaluation.grid import MICRO
from trustvid.evaluation.marking import mark_columns
from trustvid.evaluation.metrics import RISK_COVERAGES
from trustvid.evaluation.tables import Cell, Direction, Header, Table
from trustvid.evaluation.view import PERCENT, MetricsView, pool_notes

_BRIEF = ("ece", "brier", "aurc")  # without these of a source there is no table of it


def trust_tables(metrics: Mapping[str, Any]) -> dict[str, Table]:
    """Confidence, calibration and selective risk, one table per source of confidence: sources are never compared.

    A row per method, clean and corrupted below each other: Blind Trust is accuracy that falls while confidence stays.

    Returns:
        Tables by name, "trust-<source>".
    """
    view = MetricsView(metrics)
    sources = sorted({name.split("/")[1] for name in view.metrics if "/" in name})
    return {f"trust-{source}": _trust_table(view, source) for source in sources}


def _trust_table(view: MetricsView, source: str) -> Table:
    shown = _columns(source)
    methods = [
        method
        for method in view.methods
        if any(view.row(method, state, MICRO, f"{name}/{source}")["n"] for name in _BRIEF for state in view.summaries)
    ]
    rows: list[tuple[str | Cell, ...]] = []
    for state in view.summaries:
        block = [[view.cell(m, state, MICRO, name, *form) for name, (_, form, _) in shown.items()] for m in methods]
        rows += [
            (view.state_name(state), method, *cells)
            for method, cells in zip(methods, _marked(block, shown, methods), strict=True)
        ]
    return Table(
        caption=(
            f"Trust in confidence of source {source} (every question weighs the same, ± standard error clustered by "
            f"video). {view.stamp_text()}."
        ),
        headers=(Header("condition"), Header("method"), *(Header(title) for title, *_ in shown.values())),
        rows=tuple(rows),
        footnotes=(*_NOTES, *pool_notes(view)),
        rules=frozenset(range(0, len(rows), max(1, len(methods)))),
        stamp=view.stamp,
    )


_NOTES = (
    "In percent: accuracy, confidence (mean), over (confidence minus accuracy, over answers with a confidence: above 0 "
    "is overconfident), risk (error among the most confident 50 and 80 % of the answers), abstained. In 0–1: ECE "
    "(calibration error over 10 bins of equal mass), Brier (squared distance of confidence and score), AURC (mean "
    "error among the most confident answers, over all coverages).",
    "Blind Trust: accuracy falls from clean to corrupted and confidence stays, so that over grows.",
)


def _columns(source: str) -> dict[str, tuple[str, tuple[float, int], Direction | None]]:
    """(title, (scale, decimals), which is better) by metric; None marks none."""
    percent, plain = (PERCENT, 1), (1.0, 3)
    return {
        "accuracy": ("accuracy", percent, None),
        f"confidence/{source}": ("confidence", percent, None),
        f"overconfidence/{source}": ("over", percent, None),
        f"ece/{source}": ("ECE", plain, "min"),
        f"brier/{source}": ("Brier", plain, "min"),
        f"aurc/{source}": ("AURC", plain, "min"),
        **{f"risk{share}/{source}": (f"risk {share} %", percent, "min") for share in RISK_COVERAGES},
        "abstained_rate": ("abstained", percent, None),
    }


def _marked(
    block: list[list[Cell]], shown: Mapping[str, tuple[str, tuple[float, int], Direction | None]], methods: list[str]
) -> list[tuple[str | Cell, ...]]:
    """The block with the best of each column that has a better marked."""
    wanted = [better for *_, better in shown.values()]
    marked = mark_columns(block, [better or "max" for better in wanted], methods)
    return [
        tuple(new if better else old for new, old, better in zip(new_row, old_row, wanted, strict=True))
        for new_row, old_row in zip(marked, block, strict=True)
    ]
