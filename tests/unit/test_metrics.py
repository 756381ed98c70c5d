"""From predictions to metrics.json: averages, pairing, unscored answers, bounds.

pytest tests/unit/test_metrics.py -q -n 0
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from trustvid.errors import DataError
from trustvid.evaluation.jsonfiles import dump_json
from trustvid.evaluation.metrics import compute_metrics
from trustvid.evaluation.records import Prediction
from trustvid.evaluation.report import comparison_table

DATA = Path(__file__).parents[1] / "data" / "metrics"
CONTEXT = {"benchmark": "boxworld", "split": "val", "policy": "scripted"}
GLARE, BLUR = "glare:s3:c0.5", "motion_blur:s3:c0.5"


def prediction(i: int, score: float | None, condition: str = "clean", method: str = "blind", **changes) -> Prediction:
    unscored = score is None
    fields = {
        "sample_id": f"q{i:03}",
        "cluster": f"v{i // 2}",
        "task": "LP",
        "method": method,
        "condition": condition,
        "truth": "A",
        "answer": None if unscored else "A",
        "score": score,
        "confidence": None,
        "confidence_source": None,
        "status": "unscored" if unscored else "ok",
        "reason": "video cannot be read" if unscored else None,
    }
    return Prediction(**{**fields, **changes})


def value_of(metrics: dict, **where):
    where = {"method": "blind", "condition": "clean", "task": "micro", "metric": "accuracy"} | where
    rows = [row for row in metrics["rows"] if all(row[key] == value for key, value in where.items())]
    assert len(rows) == 1, where
    return rows[0]


def cases() -> dict:
    return json.loads((DATA / "metric_cases.json").read_text())


def test_micro_and_macro_are_both_there_and_named():
    urban = cases()["urban"]
    predictions = []
    for task in ("A", "B"):
        case = urban[task]
        predictions += [
            prediction(len(predictions) + i, float(i < case["correct"]), task=task, cluster=f"{task}{i}")
            for i in range(case["n"])
        ]
    metrics = compute_metrics(predictions, CONTEXT)
    assert value_of(metrics, task="micro")["value"] == pytest.approx(urban["micro"])
    assert value_of(metrics, task="macro")["value"] == pytest.approx(urban["macro"], abs=5e-5)
    assert value_of(metrics, task="A")["value"] == pytest.approx(0.9)
    assert metrics["context"]["macro_label"] == "macro-2"
    assert metrics["context"]["n_per_task"] == {"A": 10, "B": 90}


def test_the_drop_is_taken_over_the_same_samples():
    paired = cases()["paired"]
    predictions = [prediction(i, float(score)) for i, score in enumerate(paired["clean"])]
    corrupt = [None if score is None else float(score) for score in paired["corrupt"]]
    predictions += [prediction(i, score, GLARE) for i, score in enumerate(corrupt)]
    for given in (predictions, predictions[:-1]):  # unscored there, or not there at all
        metrics = compute_metrics(given, CONTEXT)
        drop = value_of(metrics, condition="drop")
        assert (drop["value"], drop["n"], drop["unscored"]) == (pytest.approx(1 / 3), 3, 1)
        assert value_of(metrics, condition="corrupted mean")["value"] == pytest.approx(1 / 3)
        assert value_of(metrics)["value"] == 0.75
        assert metrics["context"]["unpaired"] == [{"method": "blind", "n": 1, "sample_ids": ["q003"]}]
    assert metrics["context"]["missing"] == [{"method": "blind", "condition": GLARE, "n": 1, "sample_ids": ["q003"]}]


def test_a_question_lost_in_one_corruption_leaves_the_drop_altogether():
    scores = {"clean": [1, 1, 0], GLARE: [0, 1, None], BLUR: [1, 0, 0]}
    predictions = [
        prediction(i, None if s is None else float(s), condition)
        for condition, column in scores.items()
        for i, s in enumerate(column)
    ]
    metrics = compute_metrics(predictions, CONTEXT)
    assert value_of(metrics, condition="drop")["value"] == pytest.approx(0.5)  # (1 - ½ + 1 - ½) / 2
    assert value_of(metrics, condition="corrupted mean")["value"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert metrics["context"]["conditions"] == ["clean", GLARE, BLUR]


def test_unscored_answers_leave_the_mean_and_widen_the_bounds():
    predictions = [prediction(0, 1.0), prediction(1, 0.0), prediction(2, 1.0), prediction(3, None)]
    row = value_of(compute_metrics(predictions, CONTEXT))
    assert (row["value"], row["n"], row["unscored"]) == (pytest.approx(2 / 3), 3, 1)
    assert (row["bound_low"], row["bound_high"]) == (0.5, 0.75)
    context = compute_metrics(predictions, CONTEXT)["context"]
    assert context["unscored_reasons"] == [{"reason": "video cannot be read", "n": 1}]
    assert (context["unscored"], context["n_questions"], context["n_videos"]) == (1, 4, 2)


def test_nothing_scored_is_no_number():
    row = value_of(compute_metrics([prediction(i, None) for i in range(4)], CONTEXT))
    assert (row["value"], row["se"], row["n"], row["unscored"]) == (None, None, 0, 4)
    assert (row["bound_low"], row["bound_high"]) == (0.0, 1.0)


def test_a_task_without_a_score_leaves_the_macro_average_empty():
    predictions = [prediction(0, 1.0), prediction(1, 0.0), prediction(2, None, task="PE")]
    metrics = compute_metrics(predictions, CONTEXT)
    assert value_of(metrics, task="macro")["value"] is None
    assert value_of(metrics, task="macro")["bound_low"] == 0.25
    assert value_of(metrics, task="micro")["value"] == 0.5


def test_unparsed_and_abstained_answers_are_wrong_and_counted():
    predictions = [
        prediction(0, 1.0),
        prediction(1, 0.0, status="unparsed", answer=None, reason="no letter"),
        prediction(2, 0.0, status="abstained", answer=None),
        prediction(3, 1.0),
        prediction(4, None),
    ]
    metrics = compute_metrics(predictions, CONTEXT)
    shown = {name: value_of(metrics, metric=name)["value"] for name in ("accuracy", "unparsed_rate", "abstained_rate")}
    assert shown == {"accuracy": 0.5, "unparsed_rate": 0.25, "abstained_rate": 0.25}


def test_calls_costs_and_failures():
    predictions = [
        prediction(0, 1.0, calls=3, failures=1, cost=0.9, frames=(0, 4)),
        prediction(1, 1.0, calls=1, failures=1, cost=0.3, frames=(2, 3, 5, 8)),
        prediction(2, None),
        prediction(0, 1.0, method="chance"),
        prediction(1, 0.0, method="chance"),
    ]
    metrics = compute_metrics(predictions, CONTEXT)
    assert value_of(metrics, metric="calls")["value"] == 2.0
    assert value_of(metrics, metric="cost")["value"] == pytest.approx(0.6)
    assert value_of(metrics, metric="frames")["value"] == 3.0  # the unscored one counts nowhere
    assert value_of(metrics, metric="tool_failure_rate")["value"] == 0.5
    metrics_of_chance = {row["metric"] for row in metrics["rows"] if row["method"] == "chance"}
    assert "tool_failure_rate" not in metrics_of_chance
    assert not any("/" in name for name in metrics_of_chance)


def test_sources_of_confidence_are_never_mixed():
    predictions = [prediction(i, 1.0, confidence=0.9, confidence_source="pooled") for i in range(4)]
    predictions += [prediction(i, 0.0, confidence=1.0, confidence_source="stated") for i in range(4, 6)]
    metrics = compute_metrics(predictions, CONTEXT)
    assert value_of(metrics, metric="ece/pooled")["value"] == pytest.approx(0.1)
    assert value_of(metrics, metric="ece/stated")["value"] == pytest.approx(1.0)
    brier = value_of(metrics, metric="brier/pooled")
    assert (brier["value"], brier["n"]) == (pytest.approx(0.01), 4)
    assert value_of(metrics, metric="aurc/stated")["value"] == 1.0
    names = {row["metric"] for row in metrics["rows"]}
    assert "ece/option_logprobs" not in names
    assert {name for name in names if "/" in name} == {
        f"{metric}/{source}"
        for metric in ("confidence", "overconfidence", "ece", "brier", "aurc", "risk50", "risk80")
        for source in ("pooled", "stated")
    }


def grid(rng: np.random.Generator, methods=("chance", "blind", "robust_to")) -> list[Prediction]:
    return [
        prediction(i, float(rng.random() < 0.7), condition, method, task="LP" if i % 3 else "AO")
        for i in range(30)
        for method in methods
        for condition in ("clean", GLARE, BLUR)
    ]


def test_comparisons_are_paired_and_against_blind():
    predictions = grid(np.random.default_rng(0))
    metrics = compute_metrics(predictions, CONTEXT)
    assert metrics["context"]["baseline"] == "blind"
    assert {(c["a"], c["b"]) for c in metrics["comparisons"]} == {("chance", "blind"), ("robust_to", "blind")}
    for comparison in metrics["comparisons"]:
        where = {"condition": comparison["condition"], "task": comparison["task"]}
        by_hand = [value_of(metrics, method=m, **where)["value"] for m in (comparison["a"], "blind")]
        assert comparison["diff"] == pytest.approx(by_hand[0] - by_hand[1])
        assert comparison["ci_low"] <= comparison["diff"] <= comparison["ci_high"]
        assert comparison["clusters"] == 15
        assert comparison["n"] == (60 if comparison["condition"] == "corrupted mean" else 30)
    pooled = [c for c in metrics["comparisons"] if c["condition"] == "corrupted mean"]
    assert {c["task"] for c in pooled} == {"macro", "micro"}


def test_contrasts_compare_two_methods_of_which_neither_is_the_baseline():
    scores = {"blind": [1, 0, 0, 1], "a": [1, 1, 1, 1], "b": [1, 1, 0, 0]}
    predictions = [
        prediction(i, float(score), method=method) for method, row in scores.items() for i, score in enumerate(row)
    ]
    metrics = compute_metrics(predictions, CONTEXT, contrasts=[["a", "b"]])
    found = {(c["a"], c["b"]): c["diff"] for c in metrics["comparisons"] if c["task"] == "micro"}
    assert found == {("a", "blind"): 0.5, ("b", "blind"): 0.0, ("a", "b"): 0.5}
    assert metrics["context"]["contrasts"] == [["a", "b"]]
    table = comparison_table(metrics)
    assert [row[0] for row in table.rows][:3] == ["a", "b", "a − b"]
    assert f"{table.rows[2][2].value:+.1f}" == "+50.0"


def test_a_comparison_leaves_out_what_one_side_lacks():
    predictions = [prediction(i, 1.0) for i in range(6)]
    predictions += [prediction(i, 0.0 if i else None, method="robust_to") for i in range(6)]
    (comparison,) = [c for c in compute_metrics(predictions, CONTEXT)["comparisons"] if c["task"] == "micro"]
    assert (comparison["diff"], comparison["n"], comparison["unpaired"]) == (-1.0, 5, 1)
    assert comparison["condition"] == "clean"


def test_the_first_method_stands_in_for_blind():
    metrics = compute_metrics(grid(np.random.default_rng(0), ("b", "a")), CONTEXT, methods=["b", "a"])
    assert metrics["context"]["baseline"] == "b"


def test_equal_seeds_equal_numbers_and_another_seed_another_interval():
    predictions = grid(np.random.default_rng(0))
    one, two, three = (compute_metrics(predictions, CONTEXT, seed=seed) for seed in (0, 0, 1))
    assert one == two
    assert one["rows"] == three["rows"]
    assert one["comparisons"] != three["comparisons"]


def test_order_and_expectation_of_methods_conditions_and_tasks():
    predictions = grid(np.random.default_rng(0))
    metrics = compute_metrics(
        predictions,
        CONTEXT,
        methods=["robust_to", "chance", "blind", "anchored"],
        conditions=["clean", BLUR, GLARE],
        tasks=["LP", "PE", "AO"],
    )
    context = metrics["context"]
    assert context["methods"] == ["robust_to", "chance", "blind", "anchored"]
    assert context["conditions"] == ["clean", BLUR, GLARE]
    assert context["tasks"] == ["LP", "AO"]
    assert value_of(metrics, method="anchored")["value"] is None
    assert [entry["n"] for entry in context["missing"] if entry["method"] == "anchored"] == [30, 30, 30]
    with pytest.raises(DataError, match="chance"):
        compute_metrics(predictions, CONTEXT, methods=["blind", "robust_to"])


def test_severities_sort_by_number():
    predictions = [prediction(0, 1.0, f"glare:s{severity}:c0.5") for severity in (10, 2, 5)]
    conditions = compute_metrics(predictions, CONTEXT)["context"]["conditions"]
    assert conditions == ["glare:s2:c0.5", "glare:s5:c0.5", "glare:s10:c0.5"]
    assert not any(row["condition"] == "drop" for row in compute_metrics(predictions, CONTEXT)["rows"])


def test_faulty_input_is_refused():
    with pytest.raises(DataError, match="no predictions"):
        compute_metrics([], CONTEXT)
    with pytest.raises(DataError, match="two predictions"):
        compute_metrics([prediction(0, 1.0), prediction(0, 0.0)], CONTEXT)
    with pytest.raises(DataError, match="q000"):
        compute_metrics([prediction(0, 1.0), prediction(0, 1.0, GLARE, task="PE")], CONTEXT)
    with pytest.raises(ValueError, match="split"):
        compute_metrics([prediction(0, 1.0)], {"benchmark": "boxworld", "policy": "scripted"})
    with pytest.raises(ValueError, match="n_questions"):
        compute_metrics([prediction(0, 1.0)], {**CONTEXT, "n_questions": 3})


def test_the_file_has_the_documented_shape_and_keeps_every_order():
    metrics = compute_metrics(grid(np.random.default_rng(0)), CONTEXT, tasks=["LP", "AO"])
    read = json.loads(dump_json(metrics))
    assert set(read) == {"rows", "comparisons", "runners_up", "power", "context"}
    row = {"method", "condition", "task", "metric", "value", "se", "n", "unscored", "bound_low", "bound_high"}
    assert all(set(entry) == row for entry in read["rows"])
    comparison = {"a", "b", "condition", "metric", "diff", "ci_low", "ci_high", "n", "clusters"}
    assert all(set(entry) >= comparison for entry in read["comparisons"])
    runner_up = {"metric", "condition", "task", "best", "second", "diff", "ci_low", "ci_high", "n", "clusters"}
    assert all(set(entry) == runner_up for entry in read["runners_up"])
    power = {"a", "b", "condition", "task", "diff", "discordance", "design_effect", "n", "clusters", "conditions"}
    assert all(set(entry) == power for entry in read["power"])
    for key in ("methods", "conditions", "tasks"):
        assert read["context"][key] == metrics["context"][key]


# -- what marks, robustness and power need -----------------------------------------------------------------------------


def test_the_best_is_compared_with_the_second_of_every_column():
    """By accuracy b > a > c clean; the reference is above them all and does not compete; of the drop less is better."""
    rates = {"chance": (1, 1), "a": (0.8, 0.2), "b": (0.9, 0.1), "c": (0.5, 0.4)}
    predictions = [
        prediction(i, float(i < 20 * rate[condition != "clean"]), condition, m, cluster=f"v{i}")
        for m, rate in rates.items()
        for i in range(20)
        for condition in ("clean", GLARE)
    ]
    found = {(r["condition"], r["task"]): r for r in compute_metrics(predictions, CONTEXT)["runners_up"]}
    assert {c for c, _ in found} == {"clean", GLARE, "corrupted mean", "drop"}
    assert {t for _, t in found} == {"LP", "macro", "micro"} and (GLARE, "LP") not in found
    names = {c: (found[c, "micro"]["best"], found[c, "micro"]["second"]) for c in ("clean", GLARE, "drop")}
    assert names == {"clean": ("b", "a"), GLARE: ("c", "a"), "drop": ("c", "a")}
    drop = found["drop", "micro"]
    assert drop["diff"] == pytest.approx(0.5) and drop["ci_low"] > 0  # 60 points lost against 10: of minus the drop
    clean = found["clean", "micro"]
    assert clean["diff"] == pytest.approx(0.1) and (clean["n"], clean["clusters"]) == (20, 20)


def test_a_method_alone_has_no_second():
    assert compute_metrics([prediction(i, 1.0) for i in range(4)], CONTEXT)["runners_up"] == []


def test_power_rows_hold_the_discordance_of_the_pair():
    """Clean the two differ on 3 of 8 questions, under the two corruptions on 1 of them half of the time each."""
    a = {"clean": [1, 1, 1, 0, 0, 0, 0, 0], GLARE: [1, 0, 0, 0, 0, 0, 0, 0], BLUR: [0, 0, 0, 0, 0, 0, 0, 0]}
    b = {"clean": [0, 0, 1, 1, 0, 0, 0, 0], GLARE: [0, 0, 0, 0, 0, 0, 0, 0], BLUR: [0, 0, 0, 0, 0, 0, 0, None]}
    predictions = [
        prediction(i, None if score is None else float(score), condition, m, cluster=f"v{i}")
        for m, rows in (("a", a), ("blind", b), ("chance", b))
        for condition, row in rows.items()
        for i, score in enumerate(row)
    ]
    found = {
        (r["a"], r["b"], r["condition"], r["task"]): r
        for r in compute_metrics(predictions, CONTEXT, contrasts=[["a", "blind"]])["power"]
    }
    assert set(found) == {("a", "blind", c, "micro") for c in ("clean", "corrupted mean")}  # one task: micro is it
    clean, corrupted = found["a", "blind", "clean", "micro"], found["a", "blind", "corrupted mean", "micro"]
    assert (clean["discordance"], clean["diff"], clean["n"], clean["conditions"]) == (3 / 8, 1 / 8, 8, 1)
    assert clean["design_effect"] == pytest.approx(1.0)  # a question per video
    assert (corrupted["discordance"], corrupted["diff"], corrupted["n"], corrupted["conditions"]) == (
        pytest.approx(0.25 / 7),
        pytest.approx(0.5 / 7),
        7,
        2,
    )


def test_confidence_and_how_far_it_is_above_accuracy():
    stated = [(0.9, 1.0), (0.8, 0.0), (0.6, 1.0), (0.3, 0.0)]
    predictions = [
        prediction(i, score, confidence=c, confidence_source="stated", cluster=f"v{i}")
        for i, (c, score) in enumerate(stated)
    ]
    metrics = compute_metrics(predictions, CONTEXT)
    assert value_of(metrics, metric="confidence/stated")["value"] == pytest.approx(0.65)
    over = value_of(metrics, metric="overconfidence/stated")
    gaps = np.array([c - s for c, s in stated])
    assert (over["value"], over["se"]) == (pytest.approx(0.15), pytest.approx(gaps.std(ddof=1) / 2))
    assert value_of(metrics, metric="risk50/stated")["value"] == pytest.approx(0.5)
    assert value_of(metrics, metric="risk80/stated")["value"] == pytest.approx(0.5)  # ceil(3.2) = all four
