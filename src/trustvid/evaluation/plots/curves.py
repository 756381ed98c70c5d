"""Figures of curves: strength of corruption, confidence against outcome, settings of several runs, training."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trustvid.errors import DataError
from trustvid.evaluation import stats
from trustvid.evaluation.plots.series import (
    Answers,
    Collected,
    Curve,
    Trust,
    calibration_bins,
    joined,
    judged_methods,
    risk_coverage,
    sources_of,
    strength_curves,
    trust_curve,
)
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
    legend_height,
    line_style,
    panels,
)
from trustvid.evaluation.records import CLEAN
from trustvid.evaluation.tables import as_number
from trustvid.evaluation.view import REFERENCE_METHODS, MetricsView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 200  # of a risk–coverage curve: more would be invisible and heavy
_SOURCE_WORDS = {"stated": "stated", "pooled": "pooled support", "option_logprobs": "option log-probabilities"}
_TERM_NAMES = {
    "reward": "total reward",
    "rewards/acc/mean": "accuracy",
    "rewards/cc/mean": "confidence calibration",
    "rewards/fmt/mean": "format",
    "rewards/subq/mean": "sub-queries (Eq. 9)",
    "rewards/min_sq/mean": "few sub-queries (Eq. 7)",
    "rewards/qual/mean": "evidence quality (Eq. 8)",
}


# -- strength of corruption --------------------------------------------------------------------------------------------


def severity_plot(views: Sequence[MetricsView]) -> Plot | None:
    """Accuracy against severity at each coverage; None where no method was seen at two severities."""
    return _strength_plot(views, "severity", "severity (0 = clean)")


def coverage_plot(views: Sequence[MetricsView]) -> Plot | None:
    """Accuracy against the share of corrupted frames at each severity; None where there are no two shares."""
    return _strength_plot(views, "coverage", "corrupted share of frames (0 = clean)")


def _strength_plot(views: Sequence[MetricsView], along: str, title: str) -> Plot | None:
    scope = next(iter(views[0].averages))
    curves = strength_curves(views, along, scope)
    if not curves:
        return None
    names = list(dict.fromkeys(curve.panel for curve in curves))
    methods = list(dict.fromkeys(name for view in views for name in view.methods))
    columns = min(2, len(names))
    rows = -(-len(names) // columns)
    width = COLUMN if columns == 1 else PAGE
    figure, axes = panels(
        rows, columns, width, 2.1 * rows + legend_height(len(methods), 3 if columns == 1 else 5), sharey=True
    )
    for panel, place in zip(names, axes, strict=False):
        _draw_strengths(place, [curve for curve in curves if curve.panel == panel], methods)
        place.set(title=panel, xlabel=title, ylabel="accuracy, %" if place in axes[::columns] else "")
    axes[0].set_ylim(bottom=0)  # when all is drawn: panels share the scale
    drop_unused(figure, axes, len(names))
    legend_below(figure, axes[0], 3 if columns == 1 else 5)
    view = views[0]
    ends = [f"{c.method} ({c.panel}) from {c.points[0].y:.1f} to {c.points[-1].y:.1f} %" for c in curves]
    label = view.averages[scope]
    return Plot(
        figure,
        f"Accuracy against {along}",
        f"Accuracy ({label}) against {along}; bars: one standard error, clustered by video. {_stamp(views)}.",
        f"Line chart of accuracy against {along}. " + "; ".join(ends) + ".",
    )


def _draw_strengths(axes: Axes, curves: Sequence[Curve], methods: Sequence[str]) -> None:
    for curve in curves:
        xs, ys, errors = zip(*curve.points, strict=True)
        style = line_style(methods.index(curve.method), curve.method in REFERENCE_METHODS)
        bars = [error or 0.0 for error in errors]
        axes.errorbar(xs, ys, bars, label=curve.method, elinewidth=0.8, capsize=0, **style)
    axes.set_xticks(sorted({point.x for curve in curves for point in curve.points}))


def _stamp(views: Sequence[MetricsView]) -> str:
    """What all runs share; of one run everything."""
    parts = views[0].stamp_parts()
    return "; ".join(part for part in parts if all(part in view.stamp_parts() for view in views))


# -- confidence against outcome ----------------------------------------------------------------------------------------


def reliability_diagram(view: MetricsView, answers: Collected) -> Plot | None:
    """Accuracy against confidence in bins of equal mass, clean and corrupted; None without confidences."""

    def draw(axes: Axes, answers: Answers, style: Mapping[str, object], name: str) -> float:
        bins = calibration_bins(answers)
        xs, ys = [PERCENT * one.confidence for one in bins], [PERCENT * one.score for one in bins]
        axes.plot(xs, ys, label=name, **{**style, "linewidth": 1.0})
        return PERCENT * stats.expected_calibration_error(*answers)

    def finish(axes: Axes) -> None:
        axes.plot((0, 100), (0, 100), color=REFERENCE_COLOUR, lw=0.8, ls="--", zorder=0)
        axes.set(xlim=(-3, 103), ylim=(-3, 103), aspect="equal", xlabel="confidence, %", ylabel="accuracy, %")

    return _confidence_plot(
        view, answers, draw, finish, "Reliability diagram", "ECE, points",
        "Accuracy against confidence in ten bins of equal mass, as ECE has them; dashed: confidence that is true.",
    )  # fmt: skip


def risk_coverage_plot(view: MetricsView, answers: Collected) -> Plot | None:
    """Error among the most confident answers against the share answered; None without confidences."""

    def draw(axes: Axes, answers: Answers, style: Mapping[str, object], name: str) -> float:
        import numpy as np

        share, risk = risk_coverage(answers)
        kept = np.unique(np.linspace(0, len(share) - 1, min(_MOST_POINTS, len(share))).round().astype(int))
        axes.plot(PERCENT * share[kept], PERCENT * risk[kept], label=name, markevery=0.25, **style)
        return PERCENT * stats.aurc(*answers)

    def finish(axes: Axes) -> None:
        axes.set(xlim=(0, 101), ylim=(0, None), xlabel="answered, % (most confident first)", ylabel="error, %")

    return _confidence_plot(
        view, answers, draw, finish, "Risk–coverage", "AURC, %",
        "Error among the most confident answers as less confident ones are left out; low and rising is good.",
    )  # fmt: skip


Draw = Callable[["Axes", Answers, Mapping[str, object], str], float]


def _confidence_plot(
    view: MetricsView,
    collected: Collected,
    draw: Draw,
    finish: Callable[[Axes], None],
    title: str,
    measure: str,
    caption: str,
) -> Plot | None:
    """A row of panels for each source of confidence, clean beside corrupted, a series for each method.

    ``draw`` draws one series and returns the number that sums it up, whose name and unit are ``measure``; ``finish``
    sets scales and titles of a panel.
    """
    methods, sources = judged_methods(view), sources_of(view)
    halves = {"clean": lambda name: name == CLEAN, "corrupted": lambda name: name != CLEAN}
    found = {
        (source, half, method): answers
        for source in sources
        for half, wanted in halves.items()
        for method in methods
        if len((answers := joined(collected, source, method, wanted)).score)
    }
    places = list(dict.fromkeys((source, half) for source, half, _ in found))
    if not places:
        return None
    columns = min(2, len(places))
    rows = -(-len(places) // columns)
    figure, axes = panels(
        rows, columns, COLUMN if columns == 1 else PAGE, 2.5 * rows + legend_height(len(methods), 6), sharey=True
    )
    for (source, half), place in zip(places, axes, strict=False):
        notes = [measure]
        for index, method in enumerate(methods):
            if (source, half, method) in found:
                number = draw(place, found[source, half, method], line_style(index), method)
                notes.append(f"{method} {number:.1f}")
        # Right of the panel, where no data are.
        place.annotate("\n".join(notes), (1.02, 1), xycoords="axes fraction", va="top", fontsize=7, linespacing=1.4)
        n = sum(len(answers.score) for key, answers in found.items() if key[:2] == (source, half))
        place.set_title(f"{half}, confidence {_SOURCE_WORDS.get(source, source)} (n={n})")
    for place in axes[: len(places)]:  # when all is drawn: panels share the scale
        finish(place)
    drop_unused(figure, axes, len(places))
    legend_below(figure, max(axes[: len(places)], key=lambda one: len(one.get_legend_handles_labels()[0])), 6)
    panels_text = "; ".join(f"{half}, confidence {source}" for source, half in places)
    return Plot(
        figure, title, f"{caption} {view.stamp_text()}.", f"{title} of {', '.join(methods)}; panels: {panels_text}."
    )


def blind_trust_plot(view: MetricsView, answers: Collected) -> Plot | None:
    """Accuracy beside mean confidence from clean video to the heaviest corruption, a panel for each method.

    Where confidence stays up while accuracy falls, trust is blind. None where no method is confident about two states.
    """
    curves = {
        (source, method): curve
        for source in sources_of(view)
        for method in judged_methods(view)
        if len(curve := trust_curve(view, answers, source, method)) >= 2
    }
    if not curves:
        return None
    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    tall = 2.5 if max(map(len, curves.values())) > 3 else 1.8  # many labels stand upright
    figure, axes = panels(rows, columns, COLUMN if columns == 1 else PAGE, tall * rows + 0.5, sharey=True)
    several = len({source for source, _ in curves}) > 1
    for place, ((source, method), curve) in zip(axes, curves.items(), strict=False):
        _draw_trust(place, curve)
        place.set_title(f"{method} ({source})" if several else method)
    for place in axes[::columns]:
        place.set_ylabel("accuracy, confidence, %")
    drop_unused(figure, axes, len(curves))
    legend_below(figure, axes[0])
    ends = [
        f"{method}: accuracy {PERCENT * c[0].accuracy:.1f} to {PERCENT * c[-1].accuracy:.1f} %, "
        f"confidence {PERCENT * c[0].confidence:.1f} to {PERCENT * c[-1].confidence:.1f} %"
        for (_, method), c in curves.items()
    ]
    return Plot(
        figure,
        "Accuracy against stated confidence",
        "Accuracy and mean confidence of the same answers, from clean video on (s severity, c coverage); shaded: the "
        f"gap between them. {view.stamp_text()}.",
        "Line charts, one a method. " + "; ".join(ends) + ".",
    )


def _draw_trust(axes: Axes, curve: Sequence[Trust]) -> None:
    """Both lines and the gap; lines are broken where another suite of corruptions begins."""
    labels = [point.label for point in curve]
    for suite in dict.fromkeys(point.suite for point in curve):
        places = [i for i, point in enumerate(curve) if point.suite == suite]
        accuracy = [PERCENT * curve[i].accuracy for i in places]
        confidence = [PERCENT * curve[i].confidence for i in places]
        named = places[0] == 0
        axes.fill_between(places, accuracy, confidence, color=COLOURS[1], alpha=0.15, lw=0)
        axes.plot(places, accuracy, color=COLOURS[0], marker="o", label="accuracy" if named else None)
        axes.plot(places, confidence, color=COLOURS[1], marker="s", ls="--", label="mean confidence" if named else None)
    axes.set_xticks(range(len(labels)), labels, rotation=90 if len(labels) > 3 else 0)
    axes.set(ylim=(0, 103), xlim=(-0.2, len(labels) - 0.8))


# -- settings of several runs ------------------------------------------------------------------------------------------

SETTING_TITLES = {
    "frames": "frames shown",
    "k": "K, frames selected",
    "max_pixels": "pixels of a frame, at most",
    "side": "side of a frame, pixels",
}


def setting_plot(
    setting: str, series: Mapping[str, Mapping[float, tuple[float, float | None]]], what: str, stamp: str
) -> Plot:
    """A metric against a numeric setting in which runs differ (frames, resolution).

    Args:
        setting: its name.
        series: by name of the series, (value, standard error or None) in percent by setting.
        what: the metric, for the axis ("accuracy", "ISR").
        stamp: what all runs share.
    """
    figure, (axes,) = panels(height=2.6)
    for index, (name, points) in enumerate(series.items()):
        xs = sorted(points)
        style = line_style(index, name in REFERENCE_METHODS)
        ys, errors = [points[x][0] for x in xs], [points[x][1] or 0.0 for x in xs]
        axes.errorbar(xs, ys, errors, label=name, elinewidth=0.8, **style)
    ticks = sorted({x for points in series.values() for x in points})
    if ticks[0] > 0 and ticks[-1] / ticks[0] >= 4:
        axes.set_xscale("log", base=2)  # settings of this kind are doubled
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
    axes.minorticks_off()
    title = SETTING_TITLES.get(setting, setting)
    axes.set(xlabel=title, ylabel=f"{what}, %")
    legend_below(figure, axes, 3)
    ends = [
        f"{n} from {p[min(p)][0]:.1f} % at {min(p):g} to {p[max(p)][0]:.1f} % at {max(p):g}" for n, p in series.items()
    ]
    return Plot(
        figure,
        f"{what} against {title}",
        f"{what[0].upper()}{what[1:]} against {title}; bars: one standard error, clustered by video. {stamp}.",
        f"Line chart of {what} against {title}. " + "; ".join(ends) + ".",
    )


# -- training ----------------------------------------------------------------------------------------------------------


def training_rows(path: Path) -> list[dict[str, float]]:
    """The numbers of a training run's ``metrics.csv``, row by row; what a row lacks is left out of it.

    Raises:
        DataError: the file cannot be read, or has no column "step".
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [{k: n for k, v in row.items() if (n := as_number(v)) is not None} for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: {error}; expected the curves of a training run") from error
    if not rows or any("step" not in row for row in rows):
        raise DataError(f"{path}: has no rows with a step; expected the curves of a training run")
    return rows


def training_plot(runs: Mapping[str, Sequence[Mapping[str, float]]], stamp: str) -> Plot | None:
    """Terms of the GRPO reward against training steps, a panel for each term, a line for each run.

    Args:
        runs: rows of :func:`training_rows` by name of the run.
        stamp: what was trained, for the caption.

    Returns:
        None when no run logged a term of the reward (a run of another stage).
    """
    terms = [term for term in _TERM_NAMES if any(term in row for rows in runs.values() for row in rows)]
    if not terms:
        return None
    columns = min(4, len(terms))
    count = -(-len(terms) // columns)
    figure, axes = panels(count, columns, PAGE, 1.55 * count + 0.5, sharex=True)
    for term, place in zip(terms, axes, strict=False):
        for index, (name, rows) in enumerate(runs.items()):
            points = [(row["step"], row[term]) for row in rows if term in row]
            if points:
                style = line_style(index)
                place.plot(*zip(*points, strict=True), label=name, **{**style, "marker": "", "linewidth": 1.0})
        place.set_title(_TERM_NAMES[term])
        place.tick_params(labelbottom=True)
    for place in axes[max(0, len(terms) - columns) : len(terms)]:
        place.set_xlabel("training step")
    axes[0].set_ylabel("mean over rollouts", color=INK)
    drop_unused(figure, axes, len(terms))
    legend_below(figure, axes[0], 4)
    first = next(iter(runs))
    ends = [
        f"{_TERM_NAMES[term]} {values[0]:.2f} to {values[-1]:.2f}"
        for term in terms
        if (values := [row[term] for row in runs[first] if term in row])
    ]
    return Plot(
        figure,
        "Reward terms",
        f"Terms of the reward, mean over the rollouts of each step, unweighted. {stamp}.",
        f"Line charts of reward terms against steps; {first}: " + "; ".join(ends) + ".",
    )
