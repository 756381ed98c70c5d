"""The reward: the paper's equations, their bounds, the variants, what is logged, and real trajectories.

pytest tests/unit/test_grpo_reward.py -q -n 0
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.unit.test_pipeline import ASK, QUESTION, Talker, clip, executor, paper
from trustvid.agent.driving import drive
from trustvid.agent.method import View
from trustvid.agent.routing import ByPolicy
from trustvid.config.checking import build
from trustvid.errors import ConfigError
from trustvid.grpo.reward import (
    Reward,
    RewardInputs,
    accuracy,
    confidence_cost,
    evidence_quality,
    few_sub_queries,
    in_form,
    inputs_of,
    mean_confidence_cost,
)

ROOT = Path(__file__).parents[2]
CASES = json.loads((ROOT / "tests" / "data" / "metrics" / "grpo_cases.json").read_text(encoding="utf-8"))
COSTS = {"detect": 0.5, "caption": 0.3, "track": 0.7, "action": 0.6, "text": 0.25}  # Table 17


def variant(name: str, **changes) -> Reward:
    return build({**OmegaConf.to_container(OmegaConf.load(ROOT / "conf" / "reward" / f"{name}.yaml")), **changes})


def inputs(correct=True, m=1, m_star=1.0, confidences=(1.0,), costs=(0.25,), well_formed=True) -> RewardInputs:
    return RewardInputs(correct, m, m_star, tuple(confidences), tuple(costs), well_formed)


# -- equations -------------------------------------------------------------------------------------------------------


def test_eq_5_charges_half_the_cost():
    charged = {name: -confidence_cost(0.0, cost) for name, cost in COSTS.items()}
    assert charged == {"detect": 0.25, "caption": 0.15, "track": 0.35, "action": 0.3, "text": 0.125}
    every = [confidence_cost(c, cost) for c in (0.0, 1.0) for cost in COSTS.values()]
    assert (min(every), max(every)) == (-0.35, 0.875)


def test_eq_6_is_a_mean_and_nothing_without_calls():
    assert mean_confidence_cost([1.0, 0.0], [0.25, 0.7]) == pytest.approx((0.875 - 0.35) / 2)
    assert mean_confidence_cost([], []) == 0.0


def test_eq_7_punishes_only_what_is_too_much():
    assert [few_sub_queries(m, 3) for m in (0, 1, 3)] == [1.0] * 3
    assert few_sub_queries(5, 3) == pytest.approx(math.exp(-0.4)) and few_sub_queries(4, 3, alpha=0) == 1.0


def test_eq_8_saturates_and_needs_confidence():
    assert evidence_quality(2, 2, 1.0) == pytest.approx(1 - math.exp(-1))
    assert evidence_quality(1, 0, 1.0) == evidence_quality(1, 1, 1.0), "m* below 1 counts as 1"
    assert evidence_quality(0, 1, 1.0) == 0.0 == evidence_quality(3, 1, 0.0)


def test_eqs_9_and_10_at_the_best():
    reward = variant("paper")
    terms = reward.terms(inputs())
    assert terms["subq"] == pytest.approx(1.632, abs=1e-3)
    assert reward.total(terms) == pytest.approx(1 + (1.632 + 0.875 + 1) / 3, abs=1e-3)
    wrong = reward.total(reward.terms(inputs(correct=False)))
    assert wrong == pytest.approx(0.169, abs=1e-3), "perfect auxiliaries outweigh a wrong answer"


def test_one_sub_query_too_many_pays_only_for_one_and_with_confidence():
    reward = variant("paper")

    def gain(m_star: int, confidence: float) -> float:
        few, many = (
            reward.terms(inputs(m=m, m_star=m_star, confidences=[confidence] * m, costs=[0.25] * m))["subq"]
            for m in (m_star, m_star + 1)
        )
        return many - few

    assert few_sub_queries(1, 1) - few_sub_queries(2, 1) == pytest.approx(0.181, abs=1e-3)
    assert evidence_quality(2, 1, 1.0) - evidence_quality(1, 1, 1.0) == pytest.approx(0.233, abs=1e-3)
    assert gain(1, 0.79) > 0 > gain(1, 0.77)
    assert all(gain(m_star, 1.0) < 0 for m_star in range(2, 13))


def test_every_term_stays_in_its_range():
    for m in range(6):
        for m_star in (0.0, 1.0, 3.0):
            for c in (0.0, 0.5, 1.0):
                terms = Reward().terms(inputs(m == 2, m, m_star, [c] * m, [0.7] * m, m == 3))
                assert -1 <= terms["acc"] <= 1 and 0 <= terms["subq"] <= 2 and -0.35 <= terms["cc"] <= 1
                assert terms["subq"] == terms["min_sq"] + terms["qual"] and terms["fmt"] in (0.0, 1.0)


def test_a_numeric_answer_counts_by_its_score():
    assert [accuracy(score) for score in (False, 0.0, 0.4, 0.5, True)] == pytest.approx([-1, -1, -0.2, 0, 1])


# -- variants and log ------------------------------------------------------------------------------------------------


def test_the_variants_weigh_as_published():
    terms = {"acc": 1.0, "subq": 1.2, "cc": 0.5, "fmt": 1.0}
    expected = {"paper": 1 + 2.7 / 3, "june_weights": 1 + 0.3 * 2.7, "may_draft": 1.49, "accuracy_only": 1.0}
    expected |= {"without_subq": 1 + 1.5 / 3, "without_cc": 1 + 2.2 / 3, "without_fmt": 1 + 1.7 / 3}
    assert {name: variant(name).total(terms) for name in expected} == pytest.approx(expected)
    assert {path.stem for path in (ROOT / "conf" / "reward").glob("*.yaml")} == set(expected)
    assert variant("may_draft").terms(inputs())["subq"] == variant("paper").terms(inputs())["subq"] / 2


def test_a_term_is_ablated_by_its_weight():
    full, without = variant("paper"), variant("paper", w_cc=0.0)
    terms = full.terms(inputs())
    assert full.total(terms) - without.total(terms) == pytest.approx(terms["cc"] / 3)


def test_the_logged_reward_is_the_weighted_one_and_raw_terms_are_logged_apart():
    case = CASES["weights"]
    reward = Reward(w_acc=case["weights"][0], w_subq=0.0, w_cc=0.0, w_fmt=case["weights"][1])
    raw = zip(case["per_func"]["acc"], case["per_func"]["fmt"], strict=True)
    logged = reward.metrics([{"acc": acc, "subq": 0.0, "cc": 0.0, "fmt": fmt} for acc, fmt in raw])
    assert logged["reward"] == pytest.approx(case["expected_logged_reward"]) != case["wrong"]
    assert logged["rewards/acc/mean"] == 1 and logged["rewards/fmt/mean"] == 0 and logged["reward_std"] == 0
    silent = Reward(w_fmt=0.0)
    logged = silent.metrics([silent.terms(inputs()), silent.terms(inputs(correct=False, well_formed=False))])
    assert logged["rewards/fmt/mean"] == 0.5 and logged["reward_std"] == pytest.approx(2 / math.sqrt(2))
    assert silent.metrics([]) == {}


def test_all_faults_come_together():
    with pytest.raises(ConfigError) as caught:
        Reward(w_acc=0.0, w_subq=-1.0, w_cc=math.nan, alpha=-0.1)
    assert len(caught.value.faults) == 3
    with pytest.raises(ConfigError, match="all weights are 0"):
        Reward(0.0, 0.0, 0.0, 0.0)
    with pytest.raises(ValueError, match=r"correct=2.*sub_queries=-1.*m_star=nan.*2 confidences.*each 0 to 1.*costs"):
        RewardInputs(2, -1, math.nan, (0.5, 1.5), (-1.0,), True)


# -- trajectories ----------------------------------------------------------------------------------------------------

GOOD = "<think>clear</think><answer>A</answer>"


def passed(*replies: str, **parts):
    return drive(paper(executor(), **parts).run(QUESTION, View(clip())), Talker(*replies))


def test_a_trajectory_gives_its_calls_and_its_form():
    trajectory = passed(ASK, GOOD + "<confidence>0.9</confidence>\n")
    found = inputs_of(trajectory, correct=True, m_star=2)
    (evidence,) = trajectory.evidence
    assert found == RewardInputs(True, 1, 2, (evidence.confidence,), (0.25,), True)
    assert 0 < evidence.confidence < 1 and trajectory.frame_calls, "looking after frames is left out"


@pytest.mark.parametrize(
    "replies",
    [
        ("no list", GOOD),
        (ASK, "A"),
        (ASK, "<think>x</think><answer>Z</answer>"),
        (ASK, "<think>x</think><answer>B</answer><answer>A</answer>"),
        (ASK, "<answer>A</answer><think>x</think>"),
    ],
)
def test_whatever_cannot_be_read_or_is_out_of_form_costs_the_form(replies):
    found = inputs_of(passed(*replies), correct=False, m_star=1)
    assert not found.well_formed and found.sub_queries == 1 and Reward().terms(found)["fmt"] == 0


def test_an_unreadable_route_costs_the_form_too():
    for reply, formed in (("1 text blur read_text", True), ("whatever", False)):
        assert inputs_of(passed(ASK, reply, GOOD, routing=ByPolicy()), True, 1).well_formed is formed


def test_a_trajectory_without_tools_has_no_calls():
    trajectory = dataclasses.replace(passed(ASK, GOOD), sub_queries=(), evidence=())
    terms = Reward().terms(inputs_of(trajectory, False, 3))
    assert (terms["min_sq"], terms["qual"], terms["cc"]) == (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("reply", "formed"),
    [
        ("<think>x</think>\n<answer>A</answer>\n", True),
        ("<think></think><answer>A</answer> <confidence>0.5</confidence>", True),
        ("<think>x</think><answer>A</answer><answer>A</answer>", False),
        ("<think>x<think>y</think><answer>A</answer>", False),
        ("<think>x</think> So A. <answer>A</answer>", False),
        ("<think>x</think><answer>A", False),
        ("<answer>A</answer>", False),
        ("", False),
    ],
)
def test_the_form_of_an_answer(reply, formed):
    assert in_form(reply) is formed
