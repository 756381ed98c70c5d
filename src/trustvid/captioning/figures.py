"""Figures of a caption evaluation that only captions have: pure functions from ``metrics.json`` to plots.

IF-VidCap's Fig. 4 a and b (harder instructions) and Fig. 5 (constraint types, beside published models). Fig. 4 c and d
are curves over the runs of a sweep, which :mod:`trustvid.evaluation.plots` draws for any setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trustvid.captioning.report import PERCENT, CaptionView, header_of
from trustvid.captioning.taxonomy import CONTENT_IDS, FIGURE_GROUPS, figure_group_of
from trustvid.evaluation.plots.style import PAGE, REFERENCE_COLOUR, Plot, legend_below, line_style, panels
from trustvid.evaluation.published_tables import PublishedTable

BINS = {
    "constraints": ("by-constraints", "Following instructions by number of constraints", "constraints"),
    "words": ("by-words", "Following instructions by their length", "words of the instruction"),
}
"""By kind of scope: name of the figure, title, and what the bins are of."""

_SHOWN = ("isr", "csr_micro")
_CONTENT_GROUPS = frozenset(figure_group_of(name) for name in CONTENT_IDS)


def bins_plot(view: CaptionView, kind: str) -> Plot | None:
    """ISR and CSR against bins of instructions, one line for each captioner (Fig. 4 a and b); None for a single bin.

    Args:
        view: the run.
        kind: "constraints" or "words".
    """
    scopes = view.scopes(kind)
    if len(scopes) < 2:
        return None
    _, title, axis = BINS[kind]
    judge, condition = view.judges[0], view.conditions[0]
    figure, axes = panels(1, 2, PAGE, 2.5)
    told = []
    for place, metric in zip(axes, _SHOWN, strict=True):
        name = header_of(metric).name
        for index, captioner in enumerate(view.captioners):
            rows = [view.row(captioner, judge, condition, scope, metric) for scope in scopes]
            at = [x for x, row in enumerate(rows) if row["value"] is not None]
            values = [PERCENT * rows[x]["value"] for x in at]
            errors = [PERCENT * (rows[x]["se"] or 0.0) for x in at]
            place.errorbar(at, values, errors, label=captioner, capsize=2, elinewidth=0.7, **line_style(index))
            told += [f"{captioner}, {name} from {values[0]:.0f} to {values[-1]:.0f}"] if values else []
        counts = [max(view.row(c, judge, condition, scope, metric)["n"] for c in view.captioners) for scope in scopes]
        labels = [f"{scope.partition(':')[2]}\nn={n}" for scope, n in zip(scopes, counts, strict=True)]
        place.set_xticks(range(len(scopes)), labels)
        place.set(xlabel=axis, ylabel=f"{name}, %", ylim=(0, 105), xlim=(-0.3, len(scopes) - 0.7))
        place.grid(axis="x", visible=False)
    if len(view.captioners) > 1:
        legend_below(figure, axes[0])
    return Plot(
        figure,
        title,
        f"{title}. n: instructions (ISR), constraints (CSR); bars: one standard error, clustered by video. "
        f"{_judged(view)}",
        f"Lines over {axis} in bins {', '.join(scope.partition(':')[2] for scope in scopes)}: {'; '.join(told)}.",
    )


def types_plot(view: CaptionView, published: PublishedTable) -> Plot | None:
    """CSR by group of constraint types, format and content groups apart, published models as grey dashes (Fig. 5); None
    where no constraint is of a known group.

    Args:
        view: the run.
        published: a table with the groups as its columns.
    """
    scopes = set(view.scopes("bar"))
    groups = [name for name in FIGURE_GROUPS if f"bar:{name}" in scopes]
    if not groups:
        return None
    parts = [[g for g in groups if (g in _CONTENT_GROUPS) is content] for content in (False, True)]
    parts = [part for part in parts if part]
    figure, axes = panels(1, len(parts), PAGE, 3.1, sharey=True, width_ratios=[len(part) for part in parts])
    for place, part in zip(axes, parts, strict=True):
        for row in published.rows:
            values = [row.values[group] for group in part]
            place.plot(range(len(part)), values, "_", color=REFERENCE_COLOUR, ms=9, alpha=0.5)
        _group_marks(view, place, part)
        place.set_xticks(range(len(part)), part, rotation=55, ha="right", rotation_mode="anchor")
        place.set(title="content" if part[0] in _CONTENT_GROUPS else "format", ylim=(0, 105))
        place.grid(axis="x", visible=False)
    axes[0].set_ylabel("CSR, %")
    if len(view.captioners) > 1:
        legend_below(figure, axes[0])
    best = ", ".join(f"{group} {_best(view, group)}" for group in groups)
    return Plot(
        figure,
        "CSR by group of constraint types",
        "Satisfied constraints by group of constraint types, pooled over instructions; bars: one standard error, "
        f"clustered by video. {_judged(view)} Grey dashes: {len(published.rows)} models of {published.source}, "
        f"{published.title}.",
        f"Marks at the share of satisfied constraints; highest of each group in percent: {best}.",
    )


def _group_marks(view: CaptionView, place: Any, groups: Sequence[str]) -> None:
    """Each captioner's values, side by side within a group."""
    apart = min(0.2, 0.7 / len(view.captioners))
    for index, captioner in enumerate(view.captioners):
        rows = [_group_row(view, captioner, group) for group in groups]
        known = [(x, row) for x, row in enumerate(rows) if row["value"] is not None]
        place.errorbar(
            [x + apart * (index - (len(view.captioners) - 1) / 2) for x, _ in known],
            [PERCENT * row["value"] for _, row in known],
            [PERCENT * (row["se"] or 0.0) for _, row in known],
            **{**line_style(index), "linestyle": "none"},
            elinewidth=0.8,
            label=captioner,
        )


def _group_row(view: CaptionView, captioner: str, group: str) -> Mapping[str, Any]:
    return view.row(captioner, view.judges[0], view.conditions[0], f"bar:{group}", "csr_micro")


def _best(view: CaptionView, group: str) -> str:
    values = [row["value"] for c in view.captioners if (row := _group_row(view, c, group))["value"] is not None]
    return f"{PERCENT * max(values):.0f}" if values else "unscored"


def _judged(view: CaptionView) -> str:
    return f"Judge {view.judges[0]}, {view.conditions[0].replace('=', ' ')}. {view.stamp_text()}."
