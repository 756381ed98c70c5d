"""Methods compared question by question: with the baseline, the best with the second, and what a difference needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trustvid.evaluation import stats
from trustvid.evaluation.grid import CORRUPTED_MEAN, DROP, MACRO, MICRO, Grid
from trustvid.evaluation.power import pair_spread
from trustvid.evaluation.records import CLEAN
from trustvid.seeding import derive_rng

REFERENCE_METHODS = ("chance", "no_evidence", "oracle_mask")
"""Yardsticks: shown in every table, never marked as its best."""

Groups = Mapping[str, Sequence[int]]  # conditions (their indices) that each name of a table's column stands for


def comparisons(grid: Grid, pairs: Sequence[tuple[str, str]], groups: Groups, seed: int) -> Iterator[dict[str, Any]]:
    """a minus b for each pair of methods: accuracy per condition and over each group of them, paired by sample."""
    for name, other in pairs:
        for condition, indices in groups.items():
            for scope in (MACRO, MICRO):
                a, b = (grid.take(grid.scores, grid.methods.index(m), indices, scope) for m in (name, other))
                paired = _paired(grid, a, b, (name, other, condition, scope), len(indices), seed)
                low, high = paired.interval or (None, None)
                yield {
                    "a": name,
                    "b": other,
                    "condition": condition,
                    "task": scope,
                    "metric": "accuracy",
                    "diff": paired.diff.mean,
                    "se": paired.diff.se,
                    "ci_low": low,
                    "ci_high": high,
                    "n": paired.diff.n,
                    "clusters": paired.diff.clusters,
                    "unpaired": paired.unpaired,
                }


def runners_up(grid: Grid, groups: Groups, summaries: Sequence[str], seed: int) -> Iterator[dict[str, Any]]:
    """Best minus second of every column of the tables, paired by sample: whether the second is really behind.

    Reference methods do not compete. Both averages of each group of conditions are looked at, every task under the
    ``summaries`` alone, and the drop (of which less is better) where there is one.
    """
    competitors = [name for name in grid.methods if name not in REFERENCE_METHODS]
    for condition, indices in groups.items():
        for scope in grid.scopes if condition in summaries else (MACRO, MICRO):
            values = {m: grid.take(grid.scores, grid.methods.index(m), indices, scope) for m in competitors}
            yield from _runner_up(grid, values, (condition, scope), len(indices), seed)
    if CORRUPTED_MEAN in groups and CLEAN in groups:
        for scope in (MACRO, MICRO):
            values = {m: -paired_drop(grid, grid.methods.index(m))[0] for m in competitors}
            yield from _runner_up(grid, values, (DROP, scope), 1, seed)


def _runner_up(
    grid: Grid, values: Mapping[str, np.ndarray], place: tuple[str, str], n_conditions: int, seed: int
) -> Iterator[dict[str, Any]]:
    """The row of one column; none where fewer than two compete. ``values``: more is better, NaN where there is none."""
    clusters, cells, n_cells = grid.cells(n_conditions, place[1])
    means = {}
    for name, scores in values.items():
        kept = ~np.isnan(scores)
        mean = stats.mean_of_cells(scores[kept], clusters[kept], cells[kept], n_cells).mean
        if mean is not None:
            means[name] = mean
    if len(means) < 2:
        return
    best, second = sorted(means, key=lambda name: -means[name])[:2]
    paired = _paired(grid, values[best], values[second], (best, second, *place), n_conditions, seed)
    low, high = paired.interval or (None, None)
    yield {
        "metric": "accuracy",
        "condition": place[0],
        "task": place[1],
        "best": best,
        "second": second,
        "diff": paired.diff.mean,
        "ci_low": low,
        "ci_high": high,
        "n": paired.diff.n,
        "clusters": paired.diff.clusters,
    }


def _paired(
    grid: Grid, a: np.ndarray, b: np.ndarray, names: tuple[str, str, str, str], n_conditions: int, seed: int
) -> stats.PairedDifference:
    clusters, cells, n_cells = grid.cells(n_conditions, names[3])
    return stats.paired_difference(a, b, clusters, derive_rng(seed, "bootstrap", *names), cells, n_cells)


def power_rows(
    grid: Grid, pairs: Sequence[tuple[str, str]], groups: Groups, summaries: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """What :mod:`~trustvid.evaluation.power` needs of each pair without a reference method: overall and per task.

    A question under several conditions counts once, by its mean difference; one without a score under one of
    them is left out.
    """
    wanted = [pair for pair in dict.fromkeys(pairs) if not {*pair} & {*REFERENCE_METHODS}]
    for name, other in wanted:
        a, b = (grid.scores[grid.methods.index(method)] for method in (name, other))
        for condition in summaries:
            diffs = (a - b)[list(groups[condition])].mean(axis=0)
            for scope in (MICRO, *grid.tasks) if len(grid.tasks) > 1 else (MICRO,):
                kept = grid.chosen(scope) & ~np.isnan(diffs)
                spread = pair_spread(diffs[kept], grid.clusters[kept])
                place = {"a": name, "b": other, "condition": condition, "task": scope}
                yield {**place, **spread._asdict(), "conditions": len(groups[condition])}


def paired_drop(grid: Grid, method: int) -> tuple[np.ndarray, np.ndarray]:
    """[S] clean score minus mean corrupted score, NaN unless all are scored; [S] bool, the sample is lost by that."""
    scores = grid.scores[method]
    diffs = scores[grid.conditions.index(CLEAN)] - scores[grid.corruptions].mean(axis=0)
    return diffs, grid.present[method].any(axis=0) & np.isnan(diffs)
