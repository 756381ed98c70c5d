"""From predictions to ``metrics.json``: tidy rows with errors and bounds, paired comparisons, and their context.

Equal predictions give equal numbers in whatever order they come: samples are sorted before anything is summed.

Averages. ``task`` is a task's name, "macro" (unweighted mean over the tasks of the run, as in the paper's Table 1) or
"micro" (every question weighs the same). Conditions beside those of the predictions:

- "corrupted mean": unweighted mean over the corruptions, as in the paper's Table 2.
- "drop": clean minus corrupted mean, over the questions scored clean *and* under every corruption, so that a question
  lost in one of them cannot look like robustness. Those left out are listed in ``context["unpaired"]``.
- the names of pools ("five:s3:c0.5"), of a run with suites: unweighted mean over the pool's conditions, which differ in
  the corruption alone. Such a run has neither "corrupted mean" nor "drop": they would mix severities and coverages.

Metrics. accuracy (mean score) · over answers whose confidence came from <source> (sources are never mixed):
confidence/<source> (its mean), overconfidence/<source> (confidence minus score), brier/<source>, ece/<source>,
aurc/<source>, risk50/<source> and risk80/<source> (error among the most confident 50 and 80 %) · unparsed_rate,
abstained_rate (both count as wrong) · calls, cost and selected frames per question · tool_failure_rate per call.
Unscored answers are in none of them. ``ece``, ``aurc``, ``risk…`` and ``tool_failure_rate`` are no means over
questions, hence have no "macro"; all but the last have no standard error, and over several conditions they are the mean
of each condition's own.
Under every condition but clean there are also degradation (clean minus corrupted accuracy) and relative_robustness
(corrupted as a share of clean), "macro" and "micro", over the questions scored both clean and corrupted.

Beside the rows: "comparisons" (paired differences to the baseline, and the contrasts asked for), "runners_up" (best
minus second of every column) and "power" (what planning needs to know of each pair of methods).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from trustvid.config.schema import DEFAULT_BASELINE
from trustvid.errors import DataError
from trustvid.evaluation import stats
from trustvid.evaluation.comparisons import comparisons, paired_drop, power_rows, runners_up
from trustvid.evaluation.grid import CORRUPTED_MEAN, DROP, MACRO, MICRO, Grid, build_grid
from trustvid.evaluation.records import CLEAN, Prediction
from trustvid.evaluation.suites import pool_records

REQUIRED_CONTEXT = ("benchmark", "split", "policy")
_LISTED_IDS = 20  # sample ids written out per list; the count beside them is complete
_LISTED_REASONS = 5
RISK_COVERAGES = (50, 80)
"""Shares of the answers, in percent and most confident first, whose error is told apart (metrics risk50, risk80)."""


def compute_metrics(
    predictions: Sequence[Prediction],
    context: Mapping[str, Any],
    *,
    methods: Sequence[str] | None = None,
    conditions: Sequence[str] | None = None,
    tasks: Sequence[str] = (),
    pools: Mapping[str, Sequence[str]] | None = None,
    baseline: str = DEFAULT_BASELINE,
    contrasts: Sequence[Sequence[str]] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """All of ``metrics.json``, plain containers, values in 0–1 (cost and calls: per question).

    Args:
        predictions: one per (sample, method, condition), any order.
        context: what the numbers are of; at least ``benchmark``, ``split`` and ``policy``. Known further keys: ``k``,
            ``decode`` (mapping), ``n_expected`` (questions there should be), ``duplicates``. No paths and no times:
            equal runs give equal files.
        methods, conditions: order of the tables, and what should be there; default: what is there, sorted with the
            baseline and "clean" first.
        tasks: order of the tasks; those without a prediction are left out, others follow.
        pools: conditions by name of the pool, for a run with suites; every one must be among ``conditions``.
        baseline: the method that others are compared with; the first method when the run has no such method.
        contrasts: further pairs (a, b) of methods whose difference a − b is wanted.
        seed: of the bootstrap.

    Returns:
        ``{"rows": […], "comparisons": […], "runners_up": […], "power": […], "context": {…}}``.

    Raises:
        DataError: no predictions, two for one key, or a sample whose task or video differs between predictions, a
            pool of conditions that are not there.
        ValueError: the context lacks a required key or has one that is computed here.
    """
    grid = build_grid(predictions, methods, conditions, tasks, baseline)
    groups = _groups(grid, pools or {})
    reference = baseline if baseline in grid.methods else grid.methods[0]
    pairs = [*((name, reference) for name in grid.methods if name != reference), *map(tuple, contrasts)]
    summaries = [name for name in (CLEAN, *(pools or (CORRUPTED_MEAN,))) if name in groups]
    return {
        "rows": [row for method in range(len(grid.methods)) for row in _method_rows(grid, method, groups)],
        "comparisons": list(comparisons(grid, pairs, groups, seed)),
        "runners_up": list(runners_up(grid, groups, summaries, seed)),
        "power": list(power_rows(grid, pairs, groups, summaries)),
        "context": _context(grid, predictions, context, reference, pools or {}, contrasts),
    }


def _groups(grid: Grid, pools: Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
    """Indices of the conditions that each name stands for: every condition; then the pools, or the corrupted mean."""
    groups = {name: [index] for index, name in enumerate(grid.conditions)}
    absent = sorted({name for members in pools.values() for name in members} - set(grid.conditions))
    clashing = sorted(groups.keys() & pools.keys())
    if absent or clashing:
        raise DataError(f"the pools hold conditions {absent} that are not there, or have the names {clashing} of some")
    for pool, members in pools.items():
        groups[pool] = [grid.conditions.index(name) for name in members]
    if grid.corruptions and not pools:
        groups[CORRUPTED_MEAN] = grid.corruptions
    return groups


# -- rows --------------------------------------------------------------------------------------------------------------


def _method_rows(grid: Grid, method: int, groups: Mapping[str, list[int]]) -> Iterator[dict[str, Any]]:
    for condition, indices in groups.items():
        for scope in grid.scopes:
            for row in _scope_rows(grid, method, indices, scope):
                yield {"method": grid.methods[method], "condition": condition, "task": scope, **row}
    if CLEAN not in groups:
        return
    for condition, indices in groups.items():
        for scope in (MACRO, MICRO) if condition != CLEAN else ():
            for row in _degradation_rows(grid, method, indices, scope):
                yield {"method": grid.methods[method], "condition": condition, "task": scope, **row}
    if CORRUPTED_MEAN in groups:
        for scope in grid.scopes:
            yield {"method": grid.methods[method], "condition": DROP, "task": scope, **_drop_row(grid, method, scope)}


def _scope_rows(grid: Grid, method: int, indices: list[int], scope: str) -> Iterator[dict[str, Any]]:
    """Rows of every metric for one method, scope, and mean over the conditions ``indices``."""
    clusters, cells, n_cells = grid.cells(len(indices), scope)
    scores = grid.take(grid.scores, method, indices, scope)
    unscored = int(np.sum(grid.take(grid.present, method, indices, scope) & np.isnan(scores)))
    for name, column in grid.columns.items():
        if np.isnan(column[method]).all() and name != "accuracy":
            continue  # the method never states a confidence of this source
        values = grid.take(column, method, indices, scope)
        kept = ~np.isnan(values)
        estimate = stats.mean_of_cells(values[kept], clusters[kept], cells[kept], n_cells)
        bounds = (None, None)
        if name == "accuracy":
            here = grid.take(grid.present, method, indices, scope)
            bounds = stats.unscored_bounds(scores[here], clusters[here], cells[here], n_cells)
        yield _row(name, estimate, unscored, bounds)
    if scope != MACRO:
        yield from _averaged_rows(grid, method, indices, scope, unscored)


def _averaged_rows(grid: Grid, method: int, indices: list[int], scope: str, unscored: int) -> Iterator[dict[str, Any]]:
    """Metrics that are no means over answers: computed per condition, then averaged over ``indices``."""
    measures: tuple[tuple[str, Callable[..., float | None]], ...] = (
        ("ece", stats.expected_calibration_error),
        ("aurc", stats.aurc),
        *((f"risk{share}", partial(stats.selective_risk, coverage=share / 100)) for share in RISK_COVERAGES),
    )
    for source, confidences in grid.confidences.items():
        if np.isnan(confidences[method]).all():
            continue
        for name, measure in measures:
            values, n = [], 0
            for index in indices:
                confidence = grid.take(confidences, method, [index], scope)
                score = grid.take(grid.scores, method, [index], scope)
                kept = ~np.isnan(confidence)
                values.append(measure(confidence[kept], score[kept]))
                n += int(kept.sum())
            mean = None if None in values else float(np.mean(values))
            yield _row(f"{name}/{source}", stats.Estimate(mean, None, n, 0), unscored)
    if np.nansum(grid.calls[method]) > 0:
        calls, failures = (grid.take(array, method, indices, scope) for array in (grid.calls, grid.failures))
        clusters, _, _ = grid.cells(len(indices), scope)
        kept = ~np.isnan(calls)
        yield _row("tool_failure_rate", stats.ratio(failures[kept], calls[kept], clusters[kept]), unscored)


def _degradation_rows(grid: Grid, method: int, indices: Sequence[int], scope: str) -> Iterator[dict[str, Any]]:
    """What the conditions ``indices`` cost, over the questions scored clean and under each of them."""
    clusters, cells, n_cells = grid.cells(1, scope)
    used = [grid.conditions.index(CLEAN), *indices]
    clean, corrupted = grid.scores[method][used[0]], grid.scores[method][used[1:]].mean(axis=0)
    kept = ~np.isnan(clean - corrupted)
    lost = int(np.sum(grid.present[method][used].any(axis=0) & ~kept))
    clean, corrupted, clusters, cells = clean[kept], corrupted[kept], clusters[kept], cells[kept]
    yield _row("degradation", stats.mean_of_cells(clean - corrupted, clusters, cells, n_cells), lost)
    yield _row("relative_robustness", stats.ratio(corrupted, clean, clusters, cells, n_cells), lost)


def _drop_row(grid: Grid, method: int, scope: str) -> dict[str, Any]:
    clusters, cells, n_cells = grid.cells(1, scope)
    chosen = grid.chosen(scope)
    diffs, lost = paired_drop(grid, method)
    diffs, lost = diffs[chosen], lost[chosen]
    kept = ~np.isnan(diffs)
    return _row("accuracy", stats.mean_of_cells(diffs[kept], clusters[kept], cells[kept], n_cells), int(lost.sum()))


def _row(
    metric: str,
    estimate: stats.Estimate,
    unscored: int,
    bounds: tuple[float | None, float | None] = (None, None),
) -> dict[str, Any]:
    return {
        "metric": metric,
        "value": estimate.mean,
        "se": estimate.se,
        "n": estimate.n,
        "unscored": unscored,
        "bound_low": bounds[0],
        "bound_high": bounds[1],
    }


# -- context ---------------------------------------------------------------------------------------------------------


def _context(
    grid: Grid,
    predictions: Sequence[Prediction],
    context: Mapping[str, Any],
    reference: str,
    pools: Mapping[str, Sequence[str]],
    contrasts: Sequence[Sequence[str]],
) -> dict[str, Any]:
    per_task = np.bincount(grid.task_codes, minlength=len(grid.tasks))
    reasons = Counter(prediction.reason for prediction in predictions if prediction.status == "unscored")
    computed = {
        "methods": list(grid.methods),
        "conditions": list(grid.conditions),
        **({"pools": pool_records(pools)} if pools else {}),
        **({"contrasts": [list(pair) for pair in contrasts]} if contrasts else {}),
        "tasks": list(grid.tasks),
        "n_per_task": dict(zip(grid.tasks, per_task.tolist(), strict=True)),
        "baseline": reference,
        "macro_label": f"macro-{len(grid.tasks)}",
        "n_questions": len(grid.sample_ids),
        "n_videos": len(np.unique(grid.clusters)),
        "missing": _missing(grid),
        "unpaired": [] if pools else _unpaired(grid),
        "unscored": sum(reasons.values()),
        "unscored_reasons": [
            {"reason": reason, "n": n}
            for reason, n in sorted(reasons.items(), key=lambda item: (-item[1], item[0]))[:_LISTED_REASONS]
        ],
    }
    absent = [key for key in REQUIRED_CONTEXT if not context.get(key)]
    clashing = sorted(computed.keys() & context.keys())
    if absent or clashing:
        raise ValueError(f"context lacks {absent} or sets {clashing}, which are computed from the predictions")
    return {**context, **computed}


def _missing(grid: Grid) -> list[dict[str, Any]]:
    """Samples that another method or condition has and this one lacks: not asked yet, neither wrong nor unscored."""
    return [
        {"method": method, "condition": condition, **_listed(grid.sample_ids[~grid.present[m, c]])}
        for m, method in enumerate(grid.methods)
        for c, condition in enumerate(grid.conditions)
        if not grid.present[m, c].all()
    ]


def _unpaired(grid: Grid) -> list[dict[str, Any]]:
    """Samples that the drop of a method leaves out."""
    if CLEAN not in grid.conditions or not grid.corruptions:
        return []
    lost = ((name, paired_drop(grid, index)[1]) for index, name in enumerate(grid.methods))
    return [{"method": name, **_listed(grid.sample_ids[mask])} for name, mask in lost if mask.any()]


def _listed(ids: np.ndarray) -> dict[str, Any]:
    return {"n": len(ids), "sample_ids": ids[:_LISTED_IDS].tolist()}
