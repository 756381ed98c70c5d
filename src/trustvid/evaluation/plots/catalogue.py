"""Which figures the data of some runs allow, and why not the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from trustvid.errors import DataError
from trustvid.evaluation.grid import MICRO
from trustvid.evaluation.plots import bars, curves, routing
from trustvid.evaluation.plots.inputs import RunData
from trustvid.evaluation.plots.series import collect_answers
from trustvid.evaluation.plots.style import Plot, styled
from trustvid.evaluation.records import CLEAN
from trustvid.evaluation.tables import as_number
from trustvid.evaluation.view import MetricsView

_STRENGTHS = ("severity", "coverage")
_CAPTION_METRICS = {"isr": "ISR", "csr_micro": "CSR"}
Points = dict[float, tuple[float, float | None]]


@dataclass
class Catalogue:
    """Figures by name, and a line on each that could not be drawn: "name: reason"."""

    plots: dict[str, Plot] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def add(self, name: str, plot: Plot | None, otherwise: str) -> None:
        """Take the figure, or note why there is none."""
        if plot is None:
            self.left_out.append(f"{name}: {otherwise}")
        else:
            self.plots[name] = plot


def plots_of(runs: Sequence[RunData]) -> Catalogue:
    """All figures of one run, or of several together (what they differ in, then, is the horizontal axis).

    Args:
        runs: of one kind: questions, captions or training.

    Raises:
        DataError: a folder holds no numbers, or the runs are of several kinds.
    """
    kinds = sorted({run.kind for run in runs})
    if len(kinds) != 1:
        raise DataError(f"figures of {len(runs)} runs of the kinds {kinds}; expected runs of one kind")
    found = Catalogue()
    with styled():
        if kinds[0] == "training":
            _training(found, runs)
        elif len(runs) > 1:
            _settings(found, runs)
            if kinds[0] == "questions":
                _strengths(found, [run.view for run in runs])
        elif kinds[0] == "captions":
            _captions(found, runs[0])
        else:
            _questions(found, runs[0])
    return found


def _questions(found: Catalogue, run: RunData) -> None:
    view, answers = run.view, collect_answers(run.predictions)
    _strengths(found, [view])
    no_confidence = "no method but yardsticks states a confidence"
    found.add("blind-trust", curves.blind_trust_plot(view, answers), f"{no_confidence} under two conditions")
    found.add("reliability-diagram", curves.reliability_diagram(view, answers), no_confidence)
    found.add("risk-coverage", curves.risk_coverage_plot(view, answers), no_confidence)
    found.add("tasks", bars.task_bars(view), "the run has a single task, or no clean video")
    if not run.has_trajectories:
        found.add("routing", None, "the run stored no conversations (save_trajectories=true does)")
        return
    scores = {one.key: one.score for one in run.predictions if one.score is not None}
    routes = routing.count_routes(run.trajectories(), scores)
    for method in (name for name in view.methods if name in routes):
        found.add(f"routing-{method}", routing.routing_plot(method, routes[method], view.stamp_text()), "")
    if not routes:
        found.add("routing", None, "no method calls tools")


def _captions(found: Catalogue, run: RunData) -> None:
    from trustvid.captioning.figures import BINS, bins_plot
    from trustvid.captioning.report import CaptionView

    found.add("constraints", bars.constraint_bars(run.metrics), "no constraint is of a known group")
    found.add("constraint-types", bars.constraint_bars(run.metrics, "type"), "no constraint has a type")
    for kind, (name, *_) in BINS.items():
        found.add(name, bins_plot(CaptionView(run.metrics), kind), f"all instructions are in one bin of {kind}")


def _strengths(found: Catalogue, views: Sequence[MetricsView]) -> None:
    others = {tuple(part for part in view.stamp_parts() if not part.startswith(_STRENGTHS)) for view in views}
    if len(others) > 1:
        for name in _STRENGTHS:
            found.add(name, None, "the runs differ in more than severity and coverage")
        return
    found.add("severity", curves.severity_plot(views), "no two severities at one coverage")
    found.add("coverage", curves.coverage_plot(views), "no two coverages at one severity")


def _training(found: Catalogue, runs: Sequence[RunData]) -> None:
    rows = {run.folder.name: curves.training_rows(run.training_csv) for run in runs}
    stamp = "; ".join(f"{run.folder.name}: {' '.join(run.record['overrides']) or 'no overrides'}" for run in runs)
    found.add("rewards", curves.training_plot(rows, stamp), "no run logged a term of a reward; stage=grpo does")


# -- a setting in which several runs differ ----------------------------------------------------------------------------


def _settings(found: Catalogue, runs: Sequence[RunData]) -> None:
    """Curves over the one number in which the runs differ, seeds aside."""
    setting, values = differing_setting([run.record["overrides"] for run in runs])
    if setting is None:
        found.add("setting", None, "the runs do not differ in exactly one number, seeds aside")
    elif setting not in _STRENGTHS:
        stamp = _shared_stamp(runs)
        name = setting.rpartition(".")[2]
        for key, what, series in _series(runs, values):
            found.add(f"{name}-{key}", curves.setting_plot(name, series, what, stamp) if series else None, "no numbers")


def differing_setting(overrides: Sequence[Sequence[str]]) -> tuple[str | None, list[float]]:
    """The one setting whose number differs between runs, seeds aside, and each run's number; (None, []) without.

    >>> differing_setting([["frames=8", "seed=0"], ["frames=16", "seed=1"]])
    ('frames', [8.0, 16.0])
    """
    words = [dict(word.lstrip("+").split("=", 1) for word in run if "=" in word) for run in overrides]
    names = sorted({name for run in words for name in run} - {"seed"})
    differing = [name for name in names if len({run.get(name) for run in words}) > 1]
    if len(differing) != 1:
        return None, []
    values = [as_number(run.get(differing[0])) for run in words]
    return (None, []) if None in values else (differing[0], values)


def _series(runs: Sequence[RunData], values: Sequence[float]) -> Iterator[tuple[str, str, Mapping[str, Points]]]:
    """(key, name of the metric, points in percent by series) of the metrics that runs of this kind have."""
    if runs[0].kind == "captions":
        for metric, what in _CAPTION_METRICS.items():
            yield metric.partition("_")[0], what, _collected(_caption_rows(runs, values, metric))
        return
    for state in runs[0].view.summaries:
        key = "clean" if state == CLEAN else state.replace(" ", "-").replace(":", "-")
        rows = (
            (method, value, run.view.row(method, state, next(iter(run.view.averages), MICRO)))
            for run, value in zip(runs, values, strict=True)
            for method in run.view.methods
        )
        yield key, f"accuracy ({runs[0].view.column_name(state)})", _collected(rows)


def _caption_rows(
    runs: Sequence[RunData], values: Sequence[float], metric: str
) -> Iterator[tuple[str, float, Mapping]]:
    for run, value in zip(runs, values, strict=True):
        context = run.metrics["context"]
        wanted = (context["judges"][0], f"rules={context['headline']}", "all", metric)
        for row in run.metrics["rows"]:
            if (row["judge"], row["condition"], row["task"], row["metric"]) == wanted:
                yield row["method"], value, row


def _collected(rows: Iterator[tuple[str, float, Mapping]]) -> dict[str, Points]:
    """Points by series; of several runs in one place (seeds) the mean, without an error that would be of one only."""
    places: dict[str, dict[float, list[Mapping]]] = {}
    for name, value, row in rows:
        if row["value"] is not None:
            places.setdefault(name, {}).setdefault(value, []).append(row)
    return {
        name: {
            value: (
                100.0 * sum(row["value"] for row in found) / len(found),
                100.0 * found[0]["se"] if len(found) == 1 and found[0]["se"] is not None else None,
            )
            for value, found in by_value.items()
        }
        for name, by_value in places.items()
    }


def _shared_stamp(runs: Sequence[RunData]) -> str:
    if runs[0].kind == "questions":
        views = [run.view for run in runs]
        return "; ".join(part for part in views[0].stamp_parts() if all(part in view.stamp_parts() for view in views))
    context = runs[0].metrics["context"]
    return f"{context['benchmark']}, split {context['split']}; {context['n_instructions']} instructions"
