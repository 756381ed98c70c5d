"""CSR and ISR: every number of the oracle, micro and macro, unscored items with bounds, clustered errors, pairs.

pytest tests/unit/test_caption_metrics.py -q -n 0
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from trustvid.captioning import published_metrics as published
from trustvid.captioning.metrics import (
    FAMILIES,
    METRICS,
    by_constraints,
    by_type,
    by_words,
    column,
    comparisons,
    estimate_row,
    metric_name,
    metric_rows,
)
from trustvid.captioning.outcomes import UNTYPED, Constraint, Outcome, all_of, constraints_of

DATA = Path(__file__).resolve().parents[1] / "data" / "if_vidcap"
ORACLE = json.loads((DATA / "metrics_oracle.json").read_text(encoding="utf-8"))
MODELS = sorted(ORACLE["models"])


def rule(value: bool | None, constraint_id: str = "length") -> Constraint:
    return Constraint("rule", constraint_id, (("rule", value),))


def group(*values: bool | None, kinds: str = "aaaa", constraint_id: str = UNTYPED) -> Constraint:
    names = {"a": "attempt", "c": "correctness"}
    return Constraint("open", constraint_id, tuple((names[k], v) for k, v in zip(kinds, values, strict=False)))


def outcome(video: str, *constraints: Constraint, prompt_id: str = "01", words: int = 30) -> Outcome:
    return Outcome(video, prompt_id, "For Retrieval", words, constraints)


def value(outcomes: list[Outcome], metric: str, family: str = "") -> dict:
    return estimate_row(column(outcomes, metric, family))


def outcomes_of(model: str) -> list[Outcome]:
    return [
        Outcome(video, row.get("prompt_id") or "", row["field"], 10, constraints_of(row["check_result"]))
        for video, rows in ORACLE["models"][model]["check_result"].items()
        for row in rows
    ]


# -- the oracle --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("number_of", "key"),
    [
        (published.published_fractions, "upstream_fractions"),
        (published.published_stats, "upstream_stats"),
        (published.published_dimension_scores, "upstream_dimension_scores"),
        (published.published_video_scores, "upstream_video_scores"),
        (published.published_prompt_scores, "upstream_prompt_scores"),
    ],
)
def test_the_published_script_is_met_number_for_number(model, number_of, key):
    found = ORACLE["models"][model]
    assert number_of(found["check_result"]) == found[key]


@pytest.mark.parametrize("model", MODELS)
def test_micro_and_macro_are_both_there_and_differ_as_in_the_oracle(model):
    """A verdict that the file lacks is unscored to us and failed to the published script: that is our lower bound."""
    found, outcomes = ORACLE["models"][model], outcomes_of(model)
    assert value(outcomes, "csr_micro")["bound_low"] == pytest.approx(found["micro_csr_check"])
    assert value(outcomes, "csr_macro")["bound_low"] == pytest.approx(found["paper_formula_macro_csr"])
    assert value(outcomes, "isr")["value"] == pytest.approx(found["paper_formula_isr_all_rows"])
    pairs = [[sum(c.value is True for c in o.constraints), len(o.constraints)] for o in outcomes if o.constraints]
    assert pairs == found["per_instruction_passed_total"]


def test_without_gaps_and_repeats_every_metric_equals_the_published_one():
    outcomes, fractions = outcomes_of("model_b"), ORACLE["models"]["model_b"]["upstream_fractions"]
    short = {"": "", "rule_based": "rule_based_", "open_ended": "open_ended_", "fact_free": "ff_", "fact_only": "fo_"}
    for family, prefix in short.items():
        assert value(outcomes, "csr_micro", family)["value"] == pytest.approx(fractions[f"{prefix}csr"])
        assert value(outcomes, "isr", family)["value"] == pytest.approx(fractions[f"{prefix}isr"])


def test_micro_and_macro_of_unequal_instructions():
    """A 9 of 10, B 10 of 90: pooled 0.19, averaged 0.5056."""
    outcomes = [
        outcome("a", *[rule(i < 9) for i in range(10)]),
        outcome("b", *[rule(i < 10) for i in range(90)]),
    ]
    assert value(outcomes, "csr_micro")["value"] == pytest.approx(0.19)
    assert round(value(outcomes, "csr_macro")["value"], 4) == 0.5056


# -- unscored ----------------------------------------------------------------------------------------------------------


def test_unknown_verdicts_stay_unknown_only_while_the_others_do_not_decide():
    assert all_of([True, None]) is None and all_of([None, False]) is False and all_of([True, True]) is True
    assert group(True, None).value is None and group(False, None).value is False
    assert group().value is False, "a group without questions never passes"


def test_an_unscored_constraint_is_in_the_bounds_and_not_in_the_headline():
    outcomes = [outcome("a", rule(True), rule(None), rule(False)), outcome("b", rule(True))]
    micro = value(outcomes, "csr_micro")
    assert (micro["value"], micro["n"], micro["unscored"]) == (pytest.approx(2 / 3), 3, 1)
    assert (micro["bound_low"], micro["bound_high"]) == (pytest.approx(2 / 4), pytest.approx(3 / 4))
    macro = value(outcomes, "csr_macro")
    assert macro["value"] == pytest.approx((1 / 2 + 1) / 2)
    assert (macro["bound_low"], macro["bound_high"]) == (pytest.approx((1 / 3 + 1) / 2), pytest.approx((2 / 3 + 1) / 2))
    isr = value(outcomes, "isr")  # the failed constraint decides a, whatever the unscored one is
    assert (isr["value"], isr["n"], isr["unscored"], isr["bound_low"]) == (0.5, 2, 0, 0.5)


def test_a_response_of_which_nothing_could_be_scored_counts_nowhere_but_in_the_bounds():
    outcomes = [outcome("a", rule(None), group(None)), outcome("b", rule(True))]
    for metric in METRICS:
        row = value(outcomes, metric)
        assert row["value"] == 1.0 and row["n"] == 1 and row["bound_low"] < 1.0 and row["bound_high"] == 1.0
    nothing = value([outcome("a", rule(None))], "csr_micro")
    assert nothing["value"] is None and (nothing["bound_low"], nothing["bound_high"]) == (0.0, 1.0)


def test_the_headline_lies_between_its_bounds_whatever_is_unscored():
    rng = np.random.default_rng(0)
    verdicts = np.array([True, False, None], dtype=object)
    for _ in range(40):
        outcomes = [
            outcome(f"v{i // 2}", *[rule(verdicts[k]) for k in rng.integers(0, 3, 4)], prompt_id=str(i))
            for i in range(8)
        ]
        for metric in METRICS:
            row = value(outcomes, metric)
            if row["value"] is not None:
                assert row["bound_low"] - 1e-12 <= row["value"] <= row["bound_high"] + 1e-12


# -- families and scopes -----------------------------------------------------------------------------------------------


def test_families_take_the_constraints_they_are_about():
    one = [outcome("a", rule(True), group(True, False, kinds="ac"), group(True, kinds="a"), group(False, kinds="c"))]
    shares = {family: value(one, "csr_micro", family)["value"] for family in FAMILIES}
    assert shares == {
        "": 0.5,
        "rule_based": 1.0,
        "open_ended": pytest.approx(1 / 3),
        "fact_free": 1.0,
        "fact_only": 0.0,
    }
    lacking = [outcome("a", group(True, kinds="c")), outcome("b", rule(True))]
    assert value(lacking, "isr", "rule_based")["n"] == 1, "instructions without a rule are left out"
    assert value(lacking, "isr", "fact_free")["n"] == 2, "as published, nothing to check counts as satisfied"


def test_scopes_by_type_size_and_length():
    outcomes = [
        outcome("a", rule(True, "length"), rule(False, "json_array"), group(True, constraint_id="include"), words=19),
        outcome("b", rule(False, "length"), rule(True, "json_object"), group(False), words=20),
    ]
    rows = {(row["task"], row["metric"]): row["value"] for row in metric_rows(outcomes)}
    assert rows["type:length", "csr_micro"] == 0.5 and rows["type:include", "csr_micro"] == 1.0
    assert rows[f"type:{UNTYPED}", "csr_micro"] == 0.0, "groups of official files have no type"
    assert rows["bar:JSON", "csr_micro"] == 0.5, "object and array share a bar"
    assert {name for name, _ in by_words(outcomes)} == {"words:0–19", "words:20–39"}
    assert {name for name, _ in by_constraints(outcomes)} == {"constraints:2–3"}
    assert next(scope for scope, _ in by_type(outcomes)) == "type:json_object", "in the order of the taxonomy"
    assert rows["field:For Retrieval", "isr"] == 0.0


# -- errors and pairs --------------------------------------------------------------------------------------------------


def test_standard_errors_cluster_by_video():
    """Two instructions that agree on each video are worth one, not two."""
    videos = [outcome(f"v{i}", rule(i % 3 == 0)) for i in range(12)]
    doubled = [*videos, *(outcome(f"v{i}", rule(i % 3 == 0), prompt_id="02") for i in range(12))]
    assert value(doubled, "isr")["se"] == pytest.approx(value(videos, "isr")["se"])
    x = np.array([i % 3 == 0 for i in range(12)], dtype=float)
    assert value(videos, "isr")["se"] == pytest.approx(x.std(ddof=1) / math.sqrt(12))


def test_differences_are_over_what_both_captioners_have_scored():
    a = [
        outcome("x", rule(True), rule(True)),
        outcome("y", rule(True), rule(None)),
        outcome("z", rule(True), rule(False)),
    ]
    b = [
        outcome("x", rule(True), rule(False)),
        outcome("y", rule(False), rule(True)),
        outcome("z", rule(None), rule(False)),
    ]
    rows = {row["metric"]: row for row in comparisons({"base": b, "ours": a}, 0)}
    micro = rows["csr_micro"]
    assert (micro["a"], micro["b"]) == ("ours", "base")
    assert (micro["n"], micro["unpaired"], micro["diff"]) == (4, 2, pytest.approx((0 + 1 + 1 + 0) / 4))
    assert micro["ci_low"] <= micro["diff"] <= micro["ci_high"]
    again = {row["metric"]: row for row in comparisons({"base": b[::-1], "ours": a[::-1]}, 0)}
    assert again[metric_name("csr_micro", "rule_based")] == rows["csr_micro/rule_based"], "order does not matter"
