"""Statistics of scored answers, as pure functions of arrays.

Two things hold throughout. Questions on one video are not independent, so errors cluster by video; and an average may
be one of *cells* (tasks, conditions, or their pairs), each of which weighs the same however many questions it holds.
The n values of an array come with ``clusters`` [n] (any hashable labels of one type) and ``cells`` [n] (int codes,
0…n_cells-1). No values, or an empty cell, give None: a number that does not exist is never a 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000
BINS = 10


class Estimate(NamedTuple):
    """A mean with its clustered standard error.

    Attributes:
        mean: None when there are no values, or a cell is empty.
        se: None when there is no mean, or fewer than two clusters to learn the spread from.
        n: values that went in.
        clusters: distinct clusters among them.
    """

    mean: float | None
    se: float | None
    n: int
    clusters: int


def clustered_se(influence: np.ndarray, clusters: np.ndarray) -> float | None:
    """Standard error of an estimate from each value's share in its deviation.

    With u_g the sum of ``influence`` over cluster g, and G clusters: sqrt(G/(G-1) · Σ_g u_g²), the sandwich estimator
    with the usual small-sample factor (Liang and Zeger 1986; Cameron and Miller 2015, section II). For a plain mean
    the influence of x_i is (x_i - mean)/n, and one value per cluster gives back s/√n. Equal values have error 0: five
    right answers of five say nothing of the sixth.

    Args:
        influence: [n] float.
        clusters: [n] labels.

    Returns:
        The standard error in the unit of the estimate; None for fewer than two clusters.
    """
    labels, codes = np.unique(clusters, return_inverse=True)
    groups = len(labels)
    if groups < 2:
        return None
    sums = np.bincount(codes, weights=influence, minlength=groups)
    return float(np.sqrt(groups / (groups - 1) * np.sum(sums**2)))


def mean_of_cells(
    values: np.ndarray, clusters: np.ndarray, cells: np.ndarray | None = None, n_cells: int = 1
) -> Estimate:
    """Unweighted mean over cells of the mean in each cell; one cell is the plain mean.

    Args:
        values: [n] float, finite.
        clusters: [n] labels.
        cells: [n] int in 0…n_cells-1; None puts all into one cell.
        n_cells: cells there have to be.
    """
    values = np.asarray(values, dtype=np.float64)
    cells = np.zeros(len(values), dtype=np.intp) if cells is None else np.asarray(cells)
    n, groups = len(values), len(np.unique(clusters))
    counts = np.bincount(cells, minlength=n_cells)
    if n == 0 or not counts.all():
        return Estimate(None, None, n, groups)
    means = np.bincount(cells, weights=values, minlength=n_cells) / counts
    influence = (values - means[cells]) / (counts[cells] * n_cells)
    return Estimate(float(means.mean()), clustered_se(influence, clusters), n, groups)


def ratio(
    numerators: np.ndarray,
    denominators: np.ndarray,
    clusters: np.ndarray,
    cells: np.ndarray | None = None,
    n_cells: int = 1,
) -> Estimate:
    """Mean of the numerators over that of the denominators, with the clustered error of a ratio (delta method).

    Failures per call, say, or corrupted accuracy as a share of clean. Both means are those of :func:`mean_of_cells`;
    with one cell the ratio is Σ numerators / Σ denominators.

    Args:
        numerators, denominators: [n] float; denominators ≥ 0.
        clusters, cells, n_cells: as in :func:`mean_of_cells`.
    """
    over = np.asarray(denominators, dtype=np.float64)
    above, below = (mean_of_cells(values, clusters, cells, n_cells) for values in (numerators, over))
    if not below.mean:
        return Estimate(None, None, below.n, below.clusters)
    value = above.mean / below.mean
    # The influence of a value on the ratio is its influence on the mean of these.
    residuals = (np.asarray(numerators, dtype=np.float64) - value * over) / below.mean
    spread = mean_of_cells(residuals, clusters, cells, n_cells)
    return Estimate(value, spread.se, below.n, below.clusters)


def unscored_bounds(
    scores: np.ndarray, clusters: np.ndarray, cells: np.ndarray | None = None, n_cells: int = 1
) -> tuple[float | None, float | None]:
    """The mean of :func:`mean_of_cells` if every unscored answer were wrong, and if every one were right.

    Args:
        scores: [n] float in 0–1, NaN where unscored.
        clusters, cells, n_cells: as there.

    Returns:
        (low, high), equal when nothing is unscored; (None, None) when a cell is empty.
    """
    missing = np.isnan(scores)
    low = mean_of_cells(np.where(missing, 0.0, scores), clusters, cells, n_cells)
    high = mean_of_cells(np.where(missing, 1.0, scores), clusters, cells, n_cells)
    return low.mean, high.mean


def cluster_bootstrap(
    values: np.ndarray,
    clusters: np.ndarray,
    rng: np.random.Generator,
    cells: np.ndarray | None = None,
    n_cells: int = 1,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Percentile interval of :func:`mean_of_cells` when whole clusters are drawn with replacement.

    For a paired comparison ``values`` are the differences a - b over shared questions, so that both methods are always
    drawn together. A cell without a value in a resample is left out of that resample's mean.

    Args:
        values: [n] float, finite.
        clusters, cells, n_cells: as in :func:`mean_of_cells`.
        rng: source of the resamples; sorted labels make the result independent of the order of the values.
        resamples: draws R.
        level: coverage of the interval, 0–1.

    Returns:
        (low, high), or None when there is no mean or fewer than two clusters.
    """
    values = np.asarray(values, dtype=np.float64)
    cells = np.zeros(len(values), dtype=np.intp) if cells is None else np.asarray(cells)
    labels, codes = np.unique(clusters, return_inverse=True)
    groups = len(labels)
    if groups < 2 or not np.bincount(cells, minlength=n_cells).all():
        return None
    flat = codes * n_cells + cells
    sums = np.bincount(flat, weights=values, minlength=groups * n_cells).reshape(groups, n_cells)
    sizes = np.bincount(flat, minlength=groups * n_cells).reshape(groups, n_cells).astype(np.float64)
    draws = rng.multinomial(groups, np.full(groups, 1.0 / groups), size=resamples)  # [R, G] times each cluster is drawn
    draws = draws.astype(np.float64)  # BLAS has no integer product
    drawn_sums, drawn_sizes = draws @ sums, draws @ sizes  # [R, n_cells]
    filled = drawn_sizes > 0
    means = np.divide(drawn_sums, drawn_sizes, out=np.zeros(filled.shape), where=filled)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(means.sum(axis=1) / filled.sum(axis=1), [tail, 1.0 - tail])
    return float(low), float(high)


class PairedDifference(NamedTuple):
    """How much higher a is than b over the samples both have.

    Attributes:
        diff: mean difference a - b (:class:`Estimate`).
        interval: 95 % bootstrap interval, or None.
        unpaired: samples that only one of the two has.
    """

    diff: Estimate
    interval: tuple[float, float] | None
    unpaired: int


def paired_difference(
    a: np.ndarray,
    b: np.ndarray,
    clusters: np.ndarray,
    rng: np.random.Generator,
    cells: np.ndarray | None = None,
    n_cells: int = 1,
) -> PairedDifference:
    """Difference of two methods (or conditions) over shared samples, clustered error and bootstrap interval.

    Args:
        a, b: [n] float, aligned by sample; NaN where one has no score.
        clusters, cells, n_cells: as in :func:`mean_of_cells`.
        rng: source of the bootstrap.
    """
    cells = np.zeros(len(a), dtype=np.intp) if cells is None else np.asarray(cells)
    shared = ~(np.isnan(a) | np.isnan(b))
    unpaired = int(np.sum(np.isnan(a) != np.isnan(b)))
    diffs, kept_clusters, kept_cells = (a - b)[shared], np.asarray(clusters)[shared], cells[shared]
    return PairedDifference(
        mean_of_cells(diffs, kept_clusters, kept_cells, n_cells),
        cluster_bootstrap(diffs, kept_clusters, rng, kept_cells, n_cells),
        unpaired,
    )


# -- confidence against outcome ----------------------------------------------------------------------------------------


def mean_within_ties(confidence: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Each value [n] replaced by the mean over all of equal confidence, so that the order among ties cannot matter."""
    _, codes, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    return (np.bincount(codes, weights=values) / counts)[codes]


def expected_calibration_error(confidence: np.ndarray, scores: np.ndarray, bins: int = BINS) -> float | None:
    """ECE over bins of equal mass: Σ_b (n_b/n) · |mean score - mean confidence| (Naeini et al. 2015).

    Answers are ordered by confidence and cut into ``bins`` parts whose sizes differ by one at most (fewer answers than
    bins: one answer each). Tied answers share their mean score, whichever bins they fall into.

    Args:
        confidence: [n] float in 0–1.
        scores: [n] float in 0–1.

    Returns:
        0–1; None for n = 0.
    """
    n = len(confidence)
    if n == 0:
        return None
    order = np.argsort(confidence, kind="stable")
    gaps = (mean_within_ties(confidence, scores) - confidence)[order]
    return float(sum(abs(part.sum()) for part in np.array_split(gaps, min(bins, n))) / n)


def brier_score(confidence: np.ndarray, scores: np.ndarray) -> float | None:
    """Mean squared distance of confidence [n] and score [n], 0–1 (Brier 1950); None for n = 0."""
    return float(np.mean((confidence - scores) ** 2)) if len(confidence) else None


def aurc(confidence: np.ndarray, scores: np.ndarray) -> float | None:
    """Area under the risk-coverage curve: the mean over k of the error among the k most confident answers.

    (Geifman et al. 2019.) Ties give the expected value over their orders.

    Args:
        confidence: [n] float in 0–1.
        scores: [n] float in 0–1.

    Returns:
        0–1, low when confidence ranks right answers first; None for n = 0.
    """
    n = len(confidence)
    if n == 0:
        return None
    order = np.argsort(-confidence, kind="stable")
    errors = (1.0 - mean_within_ties(confidence, scores))[order]
    return float(np.mean(np.cumsum(errors) / np.arange(1, n + 1)))


def selective_risk(confidence: np.ndarray, scores: np.ndarray, coverage: float) -> float | None:
    """Mean error among the most confident share of the answers: one point of the risk-coverage curve.

    (El-Yaniv and Wiener 2010.) Of n answers ceil(coverage · n) are kept. Ties give the expected value over their
    orders.

    Args:
        confidence: [n] float in 0–1.
        scores: [n] float in 0–1.
        coverage: share that is kept, above 0 to 1.

    Returns:
        0–1; None for n = 0.
    """
    n = len(confidence)
    if n == 0:
        return None
    order = np.argsort(-confidence, kind="stable")
    kept = int(np.ceil(coverage * n - 1e-9))  # 0.7 · 10 is a little above 7 to a computer
    return float(np.mean((1.0 - mean_within_ties(confidence, scores))[order][:kept]))


# -- tests -------------------------------------------------------------------------------------------------------------


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for testing all of them together, in the order given (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def binomial_p(successes: int, n: int, probability: float) -> float | None:
    """Exact two-sided p-value of ``successes`` out of ``n`` when each has ``probability``; None for n = 0.

    With questions of different option counts, their mean chance as ``probability`` errs on the careful side: a sum of
    unequal chances varies less than the binomial of their mean.
    """
    if n == 0:
        return None
    from scipy.stats import binomtest

    return float(binomtest(successes, n, probability).pvalue)
