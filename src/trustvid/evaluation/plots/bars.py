"""Figures of bars: accuracy by task, CSR by group of constraint types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trustvid.evaluation.metrics import CORRUPTED_MEAN
from trustvid.evaluation.plots.style import (
    COLOURS,
    COLUMN,
    INK,
    PAGE,
    PERCENT,
    REFERENCE_COLOUR,
    Plot,
    drop_unused,
    legend_below,
    panels,
    place_below,
)
from trustvid.evaluation.records import CLEAN
from trustvid.evaluation.view import REFERENCE_METHODS, MetricsView

_ROW = 0.17  # inches of height that one bar takes


def task_bars(view: MetricsView) -> Plot | None:
    """Accuracy of every method on clean video, task by task, and where it falls to; None for a single task."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    tasks = list(view.context["tasks"])
    if len(tasks) < 2 or CLEAN not in view.conditions:
        return None
    summary = next((name for name in view.summaries if name != CLEAN), None)
    columns = min(4, len(tasks))
    rows = -(-len(tasks) // columns)
    height = rows * (_ROW * len(view.methods) + 0.5) + 0.45
    figure, axes = panels(rows, columns, PAGE, height, sharex=True, sharey=True)
    places = range(len(view.methods))
    for task, place in zip(tasks, axes, strict=False):
        found = [view.row(method, CLEAN, task) for method in view.methods]
        colours = [REFERENCE_COLOUR if method in REFERENCE_METHODS else COLOURS[0] for method in view.methods]
        values = [PERCENT * (row["value"] or 0.0) for row in found]
        place.barh(places, values, 0.7, color=colours, alpha=0.75)
        if summary is not None:
            fallen = [view.row(method, summary, task)["value"] for method in view.methods]
            known = [(PERCENT * value, at) for at, value in enumerate(fallen) if value is not None]
            place.plot(*zip(*known, strict=True), "D", color=COLOURS[1], ms=3.5)
        place.set_yticks(places, view.methods)
        place.set(title=f"{task} (n={found[0]['n']})", xlim=(0, 100), ylim=(len(view.methods) - 0.5, -0.5))
        place.grid(axis="y", visible=False)
    for place in axes[max(0, len(tasks) - columns) : len(tasks)]:
        place.set_xlabel("accuracy, %")
        place.tick_params(labelbottom=True)
    drop_unused(figure, axes, len(tasks))
    names = ["clean", *([_summary_name(summary, view)] if summary else [])]
    marks = [Patch(color=COLOURS[0], alpha=0.75), Line2D([], [], color=COLOURS[1], marker="D", ms=3.5, ls="")]
    place_below(figure, marks[: len(names)], names, 2)
    best = [
        f"{task}: {method} {PERCENT * value:.1f} %"
        for task in tasks
        for value, method in [max((view.row(m, CLEAN, task)["value"] or 0.0, m) for m in view.methods)]
    ]
    mark = f"; diamonds: {_summary_name(summary, view)}" if summary else ""
    return Plot(
        figure,
        "Accuracy by task",
        f"Accuracy by task on clean video (grey: yardsticks){mark}. {view.stamp_text()}.",
        f"Bars of accuracy by task. Highest on clean video, {'; '.join(best)}.",
    )


def _summary_name(key: str, view: MetricsView) -> str:
    return "mean over corruptions" if key == CORRUPTED_MEAN else view.column_name(key)


def constraint_bars(metrics: Mapping[str, Any], kind: str = "bar") -> Plot | None:
    """CSR of each captioner by group of constraint types (Fig. 5 of IF-VidCap), for the first judge and the headline's
    rules; None when the run has no such groups.

    Args:
        metrics: ``metrics.json`` of a run of captions.
        kind: "bar" (the figure's groups) or "type" (all types).
    """
    context = metrics["context"]
    judge, condition = context["judges"][0], f"rules={context['headline']}"
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in metrics["rows"]:
        if (row["judge"], row["condition"], row["metric"]) == (judge, condition, "csr_micro"):
            scope, _, name = row["task"].partition(":")
            if scope == kind:
                found.setdefault(name.replace("_", " "), {})[row["method"]] = row
    if not found:
        return None
    captioners: Sequence[str] = context["methods"]
    what = {"bar": "group of constraint types", "type": "constraint type"}[kind]
    names = list(found)
    thick = 0.8 / len(captioners)
    height = max(0.16 * len(names), _ROW * len(names) * min(len(captioners), 3) * 0.7) + 0.9
    figure, (axes,) = panels(1, 1, COLUMN, height)
    for index, captioner in enumerate(captioners):
        rows = [found[name].get(captioner) for name in names]
        known = [(at, row) for at, row in enumerate(rows) if row is not None and row["value"] is not None]
        at = [place - 0.4 + thick * (index + 0.5) for place, _ in known]
        values = [PERCENT * row["value"] for _, row in known]
        errors = [PERCENT * (row["se"] or 0.0) for _, row in known]
        colour = COLOURS[index % len(COLOURS)]
        hatch = ("", "//", "..", "xx")[index // len(COLOURS) % 4]
        bars = {"xerr": errors, "error_kw": {"elinewidth": 0.7, "ecolor": INK}, "hatch": hatch, "alpha": 0.8}
        axes.barh(at, values, thick * 0.9, color=colour, label=captioner, **bars)
    counts = [max(row["n"] for row in found[name].values()) for name in names]
    axes.set_yticks(range(len(names)), [f"{name} ({n})" for name, n in zip(names, counts, strict=True)], fontsize=7)
    axes.set(xlim=(0, 100), ylim=(len(names) - 0.5, -0.5), xlabel="satisfied constraints (CSR), %")
    axes.grid(axis="y", visible=False)
    if len(captioners) > 1:
        legend_below(figure, axes, 2)
    shown = [
        f"{name} " + ", ".join(f"{c} {PERCENT * row['value']:.0f}" for c, row in by.items() if row["value"] is not None)
        for name, by in found.items()
    ]
    return Plot(
        figure,
        f"CSR by {what}",
        f"Satisfied constraints by {what} (number of constraints); judge {judge}, "
        f"{condition.replace('=', ' ')}; bars: one standard error, clustered by video. "
        f"{caption_stamp(context)}.",
        f"Bars of CSR in percent: {'; '.join(shown)}.",
    )


def caption_stamp(context: Mapping[str, Any]) -> str:
    """What the numbers of a run of captions are of, in one line."""
    return (
        f"{context['benchmark']}, split {context['split']}, captions by {context['policy']}; "
        f"{context['n_instructions']} instructions on {context['n_videos']} videos"
    )
