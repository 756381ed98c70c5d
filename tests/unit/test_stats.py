"""Statistics against hand-computed values, formulas written out the long way, and simulation.

pytest tests/unit/test_stats.py -q -n 0
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from trustvid.evaluation import stats
from trustvid.seeding import derive_rng


def cluster_robust_ols_se(values: np.ndarray, groups: np.ndarray) -> float:
    """Standard error of the constant in OLS with covariance "cluster", as statsmodels computes it.

    bread · meat · bread with the correction G/(G-1) · (n-1)/(n-k), k = 1 regressor.
    """
    n = len(values)
    design = np.ones((n, 1))
    bread = np.linalg.inv(design.T @ design)
    residuals = values - design[:, 0] * values.mean()
    scores = design * residuals[:, None]
    sums = np.array([scores[groups == group].sum(axis=0) for group in np.unique(groups)])
    g = len(sums)
    covariance = bread @ (sums.T @ sums) @ bread * (g / (g - 1)) * ((n - 1) / (n - 1))
    return math.sqrt(covariance[0, 0])


def test_clustered_error_by_hand():
    # Mean 0.6; sums of deviations: a (0.4 + 0.4) = 0.8, b (-0.6), c (0.4 - 0.6) = -0.2, in fifths 0.16, -0.12, -0.04.
    # 3/2 · (0.16² + 0.12² + 0.04²) = 1.5 · 0.0416 = 0.0624.
    estimate = stats.mean_of_cells(np.array([1, 1, 0, 1, 0.0]), np.array(list("aabcc")))
    assert estimate == (pytest.approx(0.6), pytest.approx(math.sqrt(0.0624)), 5, 3)


def test_clustered_error_is_that_of_statsmodels():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 9, 60)
    values = rng.random(60) + groups
    assert stats.mean_of_cells(values, groups).se == pytest.approx(cluster_robust_ols_se(values, groups), rel=1e-12)


def test_one_question_per_video_gives_the_textbook_error():
    values = np.random.default_rng(1).random(40)
    estimate = stats.mean_of_cells(values, np.arange(40))
    assert estimate.se == pytest.approx(values.std(ddof=1) / math.sqrt(40), rel=1e-12)


def test_copies_of_a_question_on_its_video_add_no_certainty():
    values, clusters = np.array([1.0, 0, 1, 1, 0]), np.arange(5)
    once = stats.mean_of_cells(values, clusters)
    ten_times = stats.mean_of_cells(np.repeat(values, 10), np.repeat(clusters, 10))
    assert ten_times.se == pytest.approx(once.se)


def test_error_of_an_average_of_cells_matches_simulation():
    """Videos with an effect of their own carry questions of two tasks of very different size."""

    def draw(rng: np.random.Generator) -> stats.Estimate:
        effect = np.repeat(rng.normal(0, 0.3, 60), 5)
        values = effect + rng.normal(0, 0.2, 300)
        cells = np.tile([0, 0, 0, 0, 1], 60)
        return stats.mean_of_cells(values, np.repeat(np.arange(60), 5), cells, 2)

    draws = [draw(derive_rng("simulation", i)) for i in range(400)]
    spread = np.std([estimate.mean for estimate in draws])
    assert np.mean([estimate.se for estimate in draws]) == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize(
    ("values", "clusters", "expected"),
    [
        ([], [], (None, None, 0, 0)),
        ([1.0, 0.0], ["a", "a"], (0.5, None, 2, 1)),
        ([1.0], ["a"], (1.0, None, 1, 1)),
        ([1.0, 1.0], ["a", "b"], (1.0, 0.0, 2, 2)),
    ],
)
def test_few_values(values, clusters, expected):
    assert stats.mean_of_cells(np.array(values), np.array(clusters)) == expected


def test_an_empty_cell_has_no_mean():
    estimate = stats.mean_of_cells(np.array([1.0, 0.0]), np.array(["a", "b"]), np.array([0, 0]), 2)
    assert estimate[:2] == (None, None)


def test_ratio_by_hand_and_without_calls():
    # 3 failures of 10 calls; influences (1 - 0.3·4)/10 and (2 - 0.3·6)/10 = ∓0.02; sqrt(2 · 2 · 0.02²) = 0.04.
    assert stats.ratio(np.array([1, 2]), np.array([4, 6]), np.array(["a", "b"])) == (
        pytest.approx(0.3),
        pytest.approx(0.04),
        2,
        2,
    )
    assert stats.ratio(np.zeros(3), np.zeros(3), np.arange(3)).mean is None


def test_a_ratio_of_averages_over_cells_by_hand():
    # Cells A (2 of 4 right, of them 1 corrupted) and B (both, 1 corrupted): means 0.75 clean, 0.375 corrupted.
    clean, corrupted = np.array([1, 1, 0, 0, 1, 1.0]), np.array([1, 0, 0, 0, 1, 0.0])
    cells = np.array([0, 0, 0, 0, 1, 1])
    found = stats.ratio(corrupted, clean, np.arange(6), cells, 2)
    assert found.mean == pytest.approx(0.5)
    # Residuals (corrupted - 0.5 clean)/0.75 = ±2/3 or 0, their means in the cells 0; shares 1/8 in A and 1/4 in B.
    influence = np.array([1 / 8, -1 / 8, 0, 0, 1 / 4, -1 / 4]) * 2 / 3
    assert found.se == pytest.approx(math.sqrt(6 / 5 * np.sum(influence**2)))


def test_the_error_of_a_ratio_matches_simulation():
    def draw(rng: np.random.Generator) -> stats.Estimate:
        video = np.repeat(rng.normal(0, 0.15, 80), 4)
        clean = (rng.random(320) < np.clip(0.8 + video, 0, 1)).astype(float)
        corrupted = clean * (rng.random(320) < np.clip(0.7 + video, 0, 1))
        return stats.ratio(corrupted, clean, np.repeat(np.arange(80), 4))

    draws = [draw(derive_rng("ratio", i)) for i in range(400)]
    assert np.mean([d.se for d in draws]) == pytest.approx(np.std([d.mean for d in draws]), rel=0.1)


def test_bounds_enclose_what_the_unscored_could_have_been():
    scores = np.array([1.0, 0.0, np.nan, np.nan])
    assert stats.unscored_bounds(scores, np.arange(4)) == (0.25, 0.75)
    # Two tasks, the second entirely unscored: its mean may be anything.
    assert stats.unscored_bounds(scores, np.arange(4), np.array([0, 0, 1, 1]), 2) == (0.25, 0.75)
    assert stats.unscored_bounds(np.array([1.0, 0.0]), np.arange(2)) == (0.5, 0.5)
    assert stats.unscored_bounds(np.array([]), np.array([])) == (None, None)


# -- differences -------------------------------------------------------------------------------------------------------


def test_paired_difference_counts_shared_samples_only():
    a, b = np.array([1, 1, 0, 1, np.nan]), np.array([1, 0, 0, np.nan, np.nan])
    result = stats.paired_difference(a, b, np.arange(5), derive_rng("t"))
    assert result.diff == (pytest.approx(1 / 3), pytest.approx(1 / 3), 3, 3)
    assert result.unpaired == 1
    # Equal differences in every resample of one: the interval holds all that three videos allow.
    assert result.interval == (0.0, 1.0)


def test_bootstrap_agrees_with_all_resamples_counted_out():
    values, clusters = np.array([0.5, -0.2, 0.1, 0.4, 0.9]), np.array([0, 0, 1, 2, 2])
    sums, sizes = np.array([0.3, 0.1, 1.3]), np.array([2, 1, 2])
    means = [sums[list(draw)].sum() / sizes[list(draw)].sum() for draw in itertools.product(range(3), repeat=3)]
    low, high = stats.cluster_bootstrap(values, clusters, derive_rng("t"), resamples=20000, level=0.6)
    expected = np.quantile(means, [0.2, 0.8], method="inverted_cdf")
    assert (low, high) == (pytest.approx(expected[0]), pytest.approx(expected[1]))


def test_bootstrap_covers_as_promised():
    """Of 95 % intervals about as many hold the truth; ignoring the clusters would lose it far more often."""

    def covers(i: int) -> bool:
        rng = derive_rng("coverage", i)
        values = np.repeat(rng.normal(0, 1, 40), 4) + rng.normal(0, 0.5, 160)
        low, high = stats.cluster_bootstrap(values, np.repeat(np.arange(40), 4), rng, resamples=500)
        return low <= 0 <= high

    assert 0.90 <= np.mean([covers(i) for i in range(300)]) <= 0.98


def test_bootstrap_does_not_depend_on_order_and_needs_two_videos():
    rng = np.random.default_rng(3)
    values, clusters, cells = rng.normal(size=50), rng.integers(0, 8, 50), np.arange(50) % 2
    order = rng.permutation(50)
    one = stats.cluster_bootstrap(values, clusters, derive_rng("a"), cells, 2)
    two = stats.cluster_bootstrap(values[order], clusters[order], derive_rng("a"), cells[order], 2)
    assert one == pytest.approx(two, rel=1e-12)
    assert stats.cluster_bootstrap(values, np.zeros(50), derive_rng("a")) is None
    assert stats.cluster_bootstrap(np.array([]), np.array([]), derive_rng("a")) is None


# -- confidence --------------------------------------------------------------------------------------------------------


def test_calibration_error_by_hand():
    # Two bins of two: |(0 + 1)/2 - 0.25| = 0.25 and |1 - 0.85| = 0.15, each half of the mass.
    confidence, scores = np.array([0.9, 0.2, 0.3, 0.8]), np.array([1.0, 0, 1, 1])
    assert stats.expected_calibration_error(confidence, scores, bins=2) == pytest.approx(0.2)


def test_calibration_error_of_calibrated_and_boastful_answers():
    rng = np.random.default_rng(0)
    confidence = rng.random(20000)
    right = (rng.random(20000) < confidence).astype(float)
    assert stats.expected_calibration_error(confidence, right) < 0.02
    assert stats.expected_calibration_error(np.ones(100), np.zeros(100)) == 1.0


def test_ties_do_not_depend_on_order():
    confidence, scores = np.full(40, 0.5), np.array([1.0, 0.0] * 20)
    for order in (np.arange(40), np.argsort(scores)):
        assert stats.expected_calibration_error(confidence, scores[order]) == pytest.approx(0.0)
        assert stats.aurc(confidence, scores[order]) == pytest.approx(0.5)


def test_selective_risk_by_hand():
    # Errors by falling confidence 0, 1, 0: risks 0, 1/2, 1/3.
    assert stats.aurc(np.array([0.2, 0.9, 0.5]), np.array([1.0, 1.0, 0.0])) == pytest.approx((0 + 1 / 2 + 1 / 3) / 3)
    ranked = stats.aurc(np.array([0.9, 0.8, 0.2, 0.1]), np.array([1.0, 1, 0, 0]))
    reversed_ = stats.aurc(np.array([0.1, 0.2, 0.8, 0.9]), np.array([1.0, 1, 0, 0]))
    assert ranked < 0.25 < reversed_


def test_selective_risk_of_ties_is_the_mean_over_their_orders():
    confidence, scores = np.array([0.9, 0.5, 0.5, 0.5, 0.1]), np.array([1.0, 1, 0, 0, 1])
    risks = []
    for order in itertools.permutations([1, 2, 3]):
        errors = 1 - scores[[0, *order, 4]]
        risks.append(np.mean(np.cumsum(errors) / np.arange(1, 6)))
    assert stats.aurc(confidence, scores) == pytest.approx(np.mean(risks))


def test_brier_and_nothing_at_all():
    assert stats.brier_score(np.array([1.0, 0.5]), np.array([1.0, 0.0])) == 0.125
    empty = np.array([])
    assert stats.brier_score(empty, empty) is None
    assert stats.expected_calibration_error(empty, empty) is None
    assert stats.aurc(empty, empty) is None
    assert stats.expected_calibration_error(np.array([0.7]), np.array([1.0])) == pytest.approx(0.3)


# -- tests -------------------------------------------------------------------------------------------------------------


def test_holm():
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([0.6, 0.7]) == [1.0, 1.0]
    assert stats.holm([]) == []


def test_exact_binomial():
    # Nine or more, or one or fewer, heads of ten: 2 · (1 + 10) / 1024.
    assert stats.binomial_p(9, 10, 0.5) == pytest.approx(22 / 1024)
    assert stats.binomial_p(250, 1000, 0.25) > 0.9
    assert stats.binomial_p(0, 0, 0.5) is None


# -- against statsmodels and scipy -------------------------------------------------------------------------------------


def test_errors_of_means_averages_and_differences_are_those_of_statsmodels():
    """Cluster-robust OLS: on a constant; with a column per cell, whose mean coefficient is the average of cells."""
    import statsmodels.api as sm

    rng = derive_rng("statsmodels")
    groups, cells = rng.integers(0, 25, 300), rng.integers(0, 3, 300)
    a, b = ((rng.random(300) + 0.3 * rng.normal(size=25)[groups] > c).astype(float) for c in (0.4, 0.5))

    def robust(values: np.ndarray, design: np.ndarray, contrast: np.ndarray) -> tuple[float, float]:
        fit = sm.OLS(values, design).fit(cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False})
        test, g = fit.t_test(contrast), len(np.unique(groups))
        return float(test.effect[0]), float(test.sd.squeeze()) * math.sqrt(g / (g - 1))

    one, per_cell = np.ones((300, 1)), np.eye(3)[cells]
    for values in (a, a - b):
        assert stats.mean_of_cells(values, groups)[:2] == pytest.approx(robust(values, one, np.ones(1)))
        found = stats.mean_of_cells(values, groups, cells, 3)
        assert found[:2] == pytest.approx(robust(values, per_cell, np.full(3, 1 / 3)))


def test_paired_errors_agree_with_the_t_test_of_scipy_where_videos_have_one_question():
    from scipy.stats import ttest_rel

    rng = derive_rng("scipy")
    a, b = (rng.random((2, 50)) > 0.4).astype(float)
    found = stats.paired_difference(a, b, np.arange(50), derive_rng("t")).diff
    assert found.mean / found.se == pytest.approx(ttest_rel(a, b).statistic)


def test_holm_is_that_of_statsmodels():
    from statsmodels.stats.multitest import multipletests

    values = derive_rng("holm").random(12) ** 3
    assert stats.holm(list(values)) == pytest.approx(list(multipletests(values, method="holm")[1]))


def test_the_bootstrap_is_that_of_scipy():
    """Resampling clusters is resampling (sum, size) pairs and taking the ratio of their sums."""
    from scipy.stats import bootstrap

    rng = derive_rng("bootstrap scipy")
    clusters = rng.integers(0, 30, 150)
    values = rng.normal(0.1, 1, 150) + rng.normal(size=30)[clusters]
    labels = np.unique(clusters)
    sums, sizes = (np.array([f(values[clusters == g]) for g in labels]) for f in (np.sum, len))
    theirs = bootstrap(
        (sums, sizes), lambda s, n, axis: s.sum(axis) / n.sum(axis), paired=True, method="percentile", n_resamples=20000,
        rng=derive_rng("theirs"),
    ).confidence_interval  # fmt: skip
    ours = stats.cluster_bootstrap(values, clusters, derive_rng("ours"), resamples=20000)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.015)


# -- selective risk ----------------------------------------------------------------------------------------------------


def test_selective_risk_is_a_point_of_the_curve_whose_area_is_aurc():
    rng = derive_rng("risk")
    confidence, scores = np.round(rng.random(40), 1), (rng.random(40) < 0.6).astype(float)
    points = [stats.selective_risk(confidence, scores, k / 40) for k in range(1, 41)]
    assert np.mean(points) == pytest.approx(stats.aurc(confidence, scores))
    assert points[-1] == pytest.approx(1 - scores.mean())
    assert stats.selective_risk(np.array([]), np.array([]), 0.5) is None
    # Ten answers, 70 % of them are seven although 0.7 · 10 is a little more to a computer.
    ranked = np.arange(10.0) / 10
    assert stats.selective_risk(ranked, (ranked > 0.25).astype(float), 0.7) == 0.0
