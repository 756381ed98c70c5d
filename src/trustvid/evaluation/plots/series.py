"""The numbers behind the curves, as pure functions: levels of corruption, calibration bins, risk against coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trustvid.evaluation.metrics import CORRUPTED_MEAN
from trustvid.evaluation.records import CLEAN, Condition, Prediction
from trustvid.evaluation.stats import BINS, mean_within_ties
from trustvid.evaluation.view import REFERENCE_METHODS, MetricsView


class Level(NamedTuple):
    """A strength of corruption, and the conditions that are averaged for it.

    Attributes:
        suite: name of the suite; "" where a run has none.
        severity, coverage: of all the conditions.
        key: the row of ``metrics.json`` that holds the mean.
        conditions: what it is the unweighted mean of.
    """

    suite: str
    severity: int
    coverage: float
    key: str
    conditions: tuple[str, ...]


def levels(view: MetricsView) -> list[Level]:
    """The strengths that a run has a mean for, weakest first: its pools, or the mean over its corruptions when they
    are all of one strength."""
    if view.pools:
        named = [(Condition.parse(pool), pool, tuple(members)) for pool, members in view.pools.items()]
        found = [Level(c.name, c.severity, c.coverage, key, members) for c, key, members in named]
        return sorted(found, key=lambda level: (level.suite, level.severity, level.coverage))
    strengths = {Condition.parse(name)[1:] for name in view.corruptions}
    if len(strengths) != 1 or None in next(iter(strengths)):
        return []
    severity, coverage = strengths.pop()
    return [Level("", severity, coverage, CORRUPTED_MEAN, tuple(view.corruptions))]


class Point(NamedTuple):
    """A point of a curve: where, how much, and one standard error (None where it is unknown)."""

    x: float
    y: float
    error: float | None


@dataclass(frozen=True)
class Curve:
    """A method's curve in one panel.

    Attributes:
        panel: what the panel holds fixed ("five, coverage 0.5").
        method: whose it is.
        points: rising in x, at least two.
    """

    panel: str
    method: str
    points: tuple[Point, ...]


def strength_curves(views: Sequence[MetricsView], along: str, task: str, metric: str = "accuracy") -> list[Curve]:
    """Curves of a metric, in percent, along "severity" or "coverage", clean video at 0; the other is held fixed.

    Levels of several runs are put together; where two runs have the same level, their values are averaged and the
    error, which would be of one run only, is left out. Curves with a single level beside clean are left out.

    Args:
        views: runs that differ in severity, coverage or seed only.
        along: "severity" or "coverage".
        task: scope of the rows ("macro", "micro").
        metric: of the rows.
    """
    places: dict[tuple[str, float, str], dict[float, list[tuple[float, float | None]]]] = {}
    for view in views:
        for level in levels(view):
            x, fixed = (level.severity, level.coverage) if along == "severity" else (level.coverage, level.severity)
            for method in view.methods:
                for where, key in ((0.0, CLEAN), (float(x), level.key)):
                    row = view.row(method, key, task, metric)
                    if row["value"] is not None and (key != CLEAN or CLEAN in view.conditions):
                        place = places.setdefault((level.suite, float(fixed), method), {}).setdefault(where, [])
                        if (row["value"], row["se"]) not in place:  # clean video, seen once for each level
                            place.append((row["value"], row["se"]))
    other = "coverage" if along == "severity" else "severity"
    curves = []
    for (suite, fixed, method), found in places.items():
        if len(found.keys() - {0.0}) >= 2:
            panel = ", ".join(part for part in (suite, f"{other} {fixed:g}") if part)
            curves.append(Curve(panel, method, tuple(_mean_point(x, found[x]) for x in sorted(found))))
    return curves


def _mean_point(x: float, values: Sequence[tuple[float, float | None]]) -> Point:
    mean = 100.0 * float(np.mean([value for value, _ in values]))
    error = values[0][1] if len(values) == 1 else None
    return Point(x, mean, None if error is None else 100.0 * error)


# -- confidence against outcome ----------------------------------------------------------------------------------------


class Answers(NamedTuple):
    """Answers with a confidence: confidence [n] and score [n], both 0–1."""

    confidence: np.ndarray
    score: np.ndarray


Collected = Mapping[tuple[str, str, str], Answers]  # by source of the confidence, method, condition


def collect_answers(predictions: Iterable[Prediction]) -> Collected:
    """The scored answers that have a confidence."""
    found: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for one in predictions:
        if one.confidence is not None and one.score is not None:
            key = one.confidence_source, one.method, one.condition
            found.setdefault(key, []).append((one.confidence, one.score))
    return {key: Answers(*np.array(pairs, dtype=np.float64).T) for key, pairs in found.items()}


def joined(answers: Collected, source: str, method: str, wanted: Callable[[str], bool]) -> Answers:
    """The answers of a method under all conditions wanted; arrays of length 0 where there are none."""
    parts = [part for key, part in answers.items() if key[:2] == (source, method) and wanted(key[2])]
    return (
        Answers(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
        if parts
        else Answers(*np.empty((2, 0)))
    )


class Bin(NamedTuple):
    """Answers of similar confidence: means of both, and how many."""

    confidence: float
    score: float
    n: int


def calibration_bins(answers: Answers, bins: int = BINS) -> list[Bin]:
    """Bins of equal mass, as :func:`trustvid.evaluation.stats.expected_calibration_error` makes them: Σ n/N · |score −
    confidence| over the bins is the ECE. Answers of equal confidence share their mean score.
    """
    confidence, score = answers
    if not len(confidence):
        return []
    order = np.argsort(confidence, kind="stable")
    parts = np.array_split(order, min(bins, len(order)))
    shared = mean_within_ties(confidence, score)
    return [Bin(float(confidence[part].mean()), float(shared[part].mean()), len(part)) for part in parts]


def risk_coverage(answers: Answers) -> tuple[np.ndarray, np.ndarray]:
    """(share answered [n], error among them [n]), both 0–1, as the least confident answers are left out.

    The mean of the second is the AURC of :func:`trustvid.evaluation.stats.aurc`; ties have their expected value.
    """
    confidence, score = answers
    order = np.argsort(-confidence, kind="stable")
    errors = (1.0 - mean_within_ties(confidence, score))[order]
    counts = np.arange(1, len(errors) + 1)
    return counts / max(len(errors), 1), np.cumsum(errors) / counts


def judged_methods(view: MetricsView) -> list[str]:
    """The methods whose confidence is worth a curve: all but yardsticks."""
    return [name for name in view.methods if name not in REFERENCE_METHODS]


def sources_of(view: MetricsView) -> list[str]:
    """Where confidences of a run came from ("stated", "pooled", …), sorted."""
    return sorted(name.partition("/")[2] for name in view.metrics if name.startswith("brier/"))


class Trust(NamedTuple):
    """Accuracy and mean confidence of a method at one strength, 0–1. Clean video belongs to the first suite."""

    suite: str
    label: str
    accuracy: float
    confidence: float
    n: int


def trust_curve(view: MetricsView, answers: Collected, source: str, method: str) -> list[Trust]:
    """Accuracy beside mean confidence on clean video and at every strength, over answers with a confidence.

    Each value is the unweighted mean over the conditions of its level, as in the tables. A run whose corruptions are
    of several strengths without suites has a point for each condition instead.
    """
    found = levels(view)
    several = len({level.suite for level in found}) > 1
    first = found[0].suite if found else ""
    states = [(first, CLEAN, (CLEAN,))] if CLEAN in view.conditions else []
    for suite, severity, coverage, _, conditions in found:
        label = f"s{severity} c{coverage:g}"
        states.append((suite, f"{suite} {label}" if several else label, conditions))
    if not found:
        states += [("", view.column_name(name), (name,)) for name in view.corruptions]
    curve = []
    for suite, label, conditions in states:
        parts = [answers[source, method, name] for name in conditions if (source, method, name) in answers]
        if parts:
            accuracy, confidence = (
                float(np.mean([getattr(p, k).mean() for p in parts])) for k in ("score", "confidence")
            )
            curve.append(Trust(suite, label, accuracy, confidence, sum(len(part.score) for part in parts)))
    return curve
