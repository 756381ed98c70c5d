"""Questions that a difference needs: against statsmodels, against simulation, and turned round.

pytest tests/unit/test_power.py -q -n 0
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from trustvid.evaluation import power
from trustvid.evaluation.metrics import compute_metrics
from trustvid.evaluation.power import detectable_difference, pair_spread, questions_needed
from trustvid.evaluation.power_tables import REAL_TASKS, power_table, too_few_notes
from trustvid.evaluation.records import Prediction
from trustvid.evaluation.tables import Cell, Table
from trustvid.evaluation.view import MetricsView
from trustvid.seeding import derive_rng


@pytest.mark.parametrize("difference", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("discordance", [0.1, 0.3, 0.5])
def test_questions_are_those_of_statsmodels(difference, discordance):
    from statsmodels.stats.power import normal_sample_size_one_tail

    theirs = normal_sample_size_one_tail(
        difference, 0.8, 0.025, std_null=math.sqrt(discordance), std_alternative=math.sqrt(discordance - difference**2)
    )
    assert questions_needed(difference, discordance) == math.ceil(theirs)
    assert questions_needed(difference, discordance, 1.7) == math.ceil(1.7 * theirs)


def found_share(n: int, difference: float, discordance: float, per_video: int = 1) -> float:
    """How often McNemar's test finds a true difference: answers of a video are all the same question over again."""
    rng = derive_rng("power", n, per_video)
    chances = [(discordance + difference) / 2, (discordance - difference) / 2, 1 - discordance]
    wins, losses, _ = rng.multinomial(n // per_video, chances, size=20000).T * per_video
    # Known to be clustered, the variance of the sum is per_video times that of independent questions.
    z = (wins - losses) / np.sqrt(np.maximum(wins + losses, 1) * per_video)
    return float(np.mean(np.abs(z) > 1.959964))


@pytest.mark.parametrize(("difference", "discordance", "per_video"), [(0.05, 0.3, 1), (0.1, 0.2, 1), (0.08, 0.3, 4)])
def test_so_many_questions_find_the_difference_four_times_of_five(difference, discordance, per_video):
    n = questions_needed(difference, discordance, design_effect=per_video)
    assert found_share(n, difference, discordance, per_video) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("n", [10, 54, 132, 432, 5000])
@pytest.mark.parametrize(
    ("discordance", "effect", "conditions"), [(0.4, 1, 1), (0.3, 1.8, 1), (0.02, 1, 1), (0.02, 1, 5)]
)
def test_the_smallest_difference_needs_just_these_questions(n, discordance, effect, conditions):
    seen = detectable_difference(n, discordance, effect, conditions)
    assert 0 < seen <= 1
    assert questions_needed(seen, discordance, effect, conditions) == pytest.approx(n, abs=1)


def test_the_smallest_real_tasks_cannot_show_a_few_points():
    """132 and 194 questions, a third of which one of two methods alone gets right: 13 and 11 points at least."""
    shown = {n: detectable_difference(n, 0.3) for n in REAL_TASKS.values()}
    assert shown == {132: pytest.approx(0.132, abs=5e-4), 194: pytest.approx(0.110, abs=5e-4)}


def test_little_spread_is_no_licence():
    """Methods that hardly ever differ in a small sample may still: a difference of 5 points differs on 5 % at least."""
    assert questions_needed(0.05, 0.0) == questions_needed(0.05, 0.05) == questions_needed(0.05, 0.01)
    assert questions_needed(0.05, 0.0, conditions=5) == questions_needed(0.05, 0.01, conditions=5)
    assert questions_needed(0.05, 0.3, design_effect=0.4) == questions_needed(0.05, 0.3)
    assert detectable_difference(54, 0.0) is None
    assert detectable_difference(3, 0.2) is None and detectable_difference(0, 0.2) is None


def test_arguments_are_checked():
    for wrong in ({"difference": 0.0}, {"difference": 1.5}, {"discordance": -0.1}, {"power": 1.0}, {"conditions": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            questions_needed(**{"difference": 0.05, "discordance": 0.3, **wrong})


def test_spread_of_a_pair_by_hand():
    diffs, clusters = np.array([1, 1, 0, 0, -1, 0.0]), np.array([0, 0, 1, 1, 2, 2])
    found = pair_spread(diffs, clusters)
    assert (found.diff, found.discordance, found.n, found.clusters) == (pytest.approx(1 / 6), 0.5, 6, 3)
    sums = np.array([10, -2, -8]) / 36  # deviations by video, in sixths of the mean
    clustered, simple = 3 / 2 * np.sum(sums**2), diffs.var(ddof=1) / 6
    assert found.design_effect == pytest.approx(clustered / simple)
    assert pair_spread(np.zeros(4), np.arange(4)) == (0.0, 0.0, None, 4, 4)
    assert pair_spread(np.array([]), np.array([])) == (None, None, None, 0, 0)


def test_copies_of_a_question_are_seen_through():
    """Four copies of every question on its video: four times the questions, the same power."""
    rng = derive_rng("copies")
    diffs = rng.choice([-1.0, 0.0, 1.0], 60, p=[0.1, 0.7, 0.2])
    once = pair_spread(diffs, np.arange(60))
    copied = pair_spread(np.repeat(diffs, 4), np.repeat(np.arange(60), 4))
    assert once.design_effect == pytest.approx(1.0) and copied.design_effect == pytest.approx(4.0, rel=0.02)
    seen = [detectable_difference(s.n, s.discordance, s.design_effect) for s in (once, copied)]
    assert seen[1] == pytest.approx(seen[0], rel=0.01)


def test_the_defaults_are_the_usual_ones():
    assert (power.POWER, power.ALPHA) == (0.8, 0.05)


# -- the table and the warning -----------------------------------------------------------------------------------------


def run_of(scores: dict[str, list[int]], tasks: tuple[str, ...] = ("LP", "CF")) -> dict:
    """Metrics of clean answers, a question per video, tasks by turns."""
    records = [
        Prediction(
            f"q{i:03}", f"v{i}", tasks[i % len(tasks)], method, "clean", "A", "A", float(score), None, None, "ok"
        )
        for method, row in scores.items()
        for i, score in enumerate(row)
    ]
    return compute_metrics(records, {"benchmark": "boxworld", "split": "val", "policy": "scripted"}, tasks=tasks)


def cells_of(table: Table, row: int = 0) -> dict[str, Cell]:
    names = [f"{header.name} {header.note}".strip() for header in table.headers]
    return {name: entry for name, entry in zip(names, table.rows[row], strict=True) if isinstance(entry, Cell)}


def test_the_table_tells_what_is_needed_and_what_is_seen():
    """40 questions, 20 of each task: of LP the new method wins 6, of CF it wins 1 and loses 1; chance does not count."""
    old = [0] * 40
    new = [1 if i in (0, 2, 4, 6, 8, 10, 1) else 0 for i in range(40)]
    old[3] = 1
    metrics = run_of({"chance": old, "blind": old, "new": new})
    table = power_table(metrics)
    assert [row[:2] for row in table.rows] == [("new − blind", "clean")]
    shown = cells_of(table)
    assert shown["difference"].number == "+15.0" and shown["discordance"].value == pytest.approx(8 / 40)
    assert shown["questions for 5 points"].value == questions_needed(0.05, 0.2)
    assert (shown["n"].value, shown["sees"].value) == (40, pytest.approx(100 * detectable_difference(40, 0.2)))
    assert shown["LP sees n=20"].value == pytest.approx(100 * detectable_difference(20, 0.3))
    assert shown["CF sees n=20"].value == pytest.approx(100 * detectable_difference(20, 0.1))
    planning = next(note for note in table.footnotes if note.startswith("Planning"))
    for n in REAL_TASKS.values():
        assert f"({n} questions) {100 * detectable_difference(n, 0.2):.1f}" in planning


def test_a_difference_that_is_too_small_for_its_questions_is_named():
    """Of LP all 30 questions are won (seen), of CF 3 of 30 (needs far more); overall is seen."""
    new = [1 if i % 2 == 0 or i < 6 else 0 for i in range(60)]
    (note,) = too_few_notes(MetricsView(run_of({"blind": [0] * 60, "new": new})))
    assert note.startswith("Too few questions: 1 of 3 differences")
    assert f"CF +10.0 (n=30: {100 * detectable_difference(30, 0.1):.1f} or more can be seen)" in note
    assert too_few_notes(MetricsView(run_of({"blind": [0] * 60, "new": [1] * 60}))) == []
    assert too_few_notes(MetricsView(run_of({"blind": [0] * 60, "new": [0] * 60}))) == []


def test_a_run_of_references_has_no_table_of_power():
    assert power_table(run_of({"blind": [0, 1], "chance": [1, 0]})) is None
    assert power_table(run_of({"blind": [0, 1]})) is None


def test_a_run_of_one_task_has_no_columns_of_tasks():
    table = power_table(run_of({"blind": [0] * 20, "new": [1, 0] * 10}, ("LP",)))
    assert [header.name for header in table.headers][-1] == "sees" and len(table.rows) == 1
