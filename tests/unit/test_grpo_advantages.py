"""Advantages: groups, scaling, trajectories without a score, and credit by turn.

pytest tests/unit/test_grpo_advantages.py -q -n 0
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from trustvid.grpo.advantages import CallCredit, group_advantages, spread, turn_credit
from trustvid.grpo.settings import SCALES

CASES = json.loads((Path(__file__).parents[1] / "data" / "metrics" / "grpo_cases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["same_reward", "single_completion"])
def test_groups_that_teach_nothing_have_zeros(name, scale):
    rewards = np.array(CASES[name]["rewards"], dtype=float)
    found = group_advantages(rewards.ravel(), rewards.shape[1], scale)
    assert found.values.tolist() == [0.0] * rewards.size == np.ravel(CASES[name]["expected"]).tolist()
    assert found.frac_reward_zero_std == 1.0


@pytest.mark.parametrize("scale", SCALES)
def test_rewards_equal_up_to_rounding_are_equal(scale):
    found = group_advantages([0.1 + 0.2, 0.3, 0.3, 0.3, 1.0, 0.0, 0.5, 0.25], 4, scale)
    assert found.values[:4].tolist() == [0.0] * 4 and found.frac_reward_zero_std == 0.5
    assert found.values[4:].sum() == pytest.approx(0) and found.values[4] > 0 > found.values[5]


def test_each_scale_divides_by_its_own_deviation():
    rewards = np.array([1.0, 0.0, 0.0, 0.0, 5.0, 3.0, 3.0, 3.0])
    centred = rewards - rewards.reshape(2, 4).mean(axis=1).repeat(4)
    own = rewards.reshape(2, 4).std(axis=1, ddof=1).repeat(4)
    expected = {"group": centred / (own + 1e-4), "batch": centred / (rewards.std(ddof=1) + 1e-4), "none": centred}
    for scale, values in expected.items():
        assert np.allclose(group_advantages(rewards, 4, scale).values, values), scale


@pytest.mark.parametrize("scale", SCALES)
def test_advantages_follow_their_rewards_and_forget_an_offset(scale):
    rng = np.random.default_rng(3)
    rewards = rng.normal(size=(5, 6))
    found = group_advantages(rewards.ravel(), 6, scale).values.reshape(5, 6)
    order = rng.permutation(6)
    again = group_advantages((rewards[:, order] + 7.0).ravel(), 6, scale).values.reshape(5, 6)
    assert np.allclose(found[:, order], again)
    assert np.allclose(found.sum(axis=1), 0) and (np.argsort(found) == np.argsort(rewards)).all()


@pytest.mark.parametrize("scale", SCALES)
def test_a_trajectory_without_a_score_counts_in_nothing(scale):
    nan = np.nan
    found = group_advantages([1.0, 0.0, nan, 0.5, nan, nan, nan, nan, 2.0, nan, nan, nan], 4, scale)
    alone = group_advantages([1.0, 0.0, 0.5], 3, "group")
    assert found.values[2] == 0 and not found.values[4:].any() and np.isfinite(found.values).all()
    if scale == "group":
        assert np.allclose(found.values[[0, 1, 3]], alone.values)
    assert found.frac_reward_zero_std == 0.5, "the group without any score is neither"


def test_what_is_no_batch_of_groups_is_refused():
    for rewards, size in (([1.0] * 6, 4), ([1.0, np.inf], 2), ([[1.0]], 1), ([1.0], 0)):
        with pytest.raises(ValueError, match=r"whole groups|infinite"):
            group_advantages(rewards, size)
    with pytest.raises(ValueError, match="known: group, batch, none"):
        group_advantages([1.0], 1, "std")


# -- credit by turn --------------------------------------------------------------------------------------------------


def call(key: str, value: float, start: int | None = None) -> CallCredit:
    return CallCredit(key, value, None if start is None else (start, start + 2))


REWARDS = [2.0, 0.0, 1.0, -1.0]
ACCURACY = [1.0, -1.0, 1.0, -1.0]
CALLS = [
    [call("a", 0.8, 0), call("b", 0.1, 4)],
    [call("a", 0.2, 1)],
    [call("a", 0.5, 0)],
    [call("a", 0.5, 0), call("b", 0.5, 3)],
]


def test_a_call_answers_for_the_outcome_and_for_itself():
    credit = turn_credit(REWARDS, ACCURACY, CALLS, 2, kappa=3.0, scale_rewards="none")
    # Group 0: centred accuracy ±1; "a" has mean .5; "b" is alone, so that it has nothing to be compared with.
    assert np.allclose(credit.calls[0], [1 + 3 * 0.3, 1.0]) and np.allclose(credit.calls[1], [-1 - 3 * 0.3])
    # Group 1 has the same sub-query, and is not compared with group 0.
    assert np.allclose(credit.calls[2], [1.0]) and np.allclose(credit.calls[3], [-1.0, -1.0])
    assert np.allclose(credit.other, [1, -1, 1, -1])


def test_calls_and_other_tokens_are_scaled_alike():
    plain = turn_credit(REWARDS, ACCURACY, CALLS, 2, scale_rewards="none")
    scaled = turn_credit(REWARDS, ACCURACY, CALLS, 2, scale_rewards="batch")
    divisor = np.std(REWARDS, ddof=1) + 1e-4
    assert np.allclose(scaled.other, plain.other / divisor)
    for mine, theirs in zip(scaled.calls, plain.calls, strict=True):
        assert np.allclose(mine, np.array(theirs) / divisor)
    equal = turn_credit([1.0] * 4, ACCURACY, CALLS, 2, scale_rewards="batch")
    assert np.allclose(np.concatenate(equal.calls), np.concatenate(plain.calls)), "nothing to divide by"
    assert not equal.other.any() and equal.frac_reward_zero_std == 1.0


def test_without_kappa_only_the_outcome_counts():
    credit = turn_credit(REWARDS, ACCURACY, CALLS, 2, kappa=0.0, scale_rewards="none")
    assert [set(mine) for mine in credit.calls] == [{1.0}, {-1.0}, {1.0}, {-1.0}]


def test_calls_of_trajectories_without_a_score_count_in_no_mean():
    rewards = [2.0, np.nan, 0.0]
    calls = [[call("a", 0.8)], [call("a", 9.0)], [call("a", 0.4)]]
    credit = turn_credit(rewards, [1.0, 1.0, -1.0], calls, 3, kappa=1.0, scale_rewards="none")
    assert np.allclose([mine[0] for mine in credit.calls], [1.2, 0.0, -1.2]) and credit.other[1] == 0


def test_credit_is_spread_over_the_tokens_that_chose():
    credit = turn_credit(REWARDS, ACCURACY, CALLS, 2, kappa=3.0, scale_rewards="none")
    tokens = spread(credit, CALLS, 7)
    assert np.allclose(tokens[0], [1.9, 1.9, 1, 1, 1, 1, 1]) and np.allclose(tokens[1], [-1, -1.9, -1.9, *[-1] * 4])
    unchosen = [[CallCredit(c.sub_query_key, c.value) for c in mine] for mine in CALLS]
    assert np.array_equal(spread(credit, unchosen, 7), np.repeat(credit.other[:, None], 7, axis=1))
    with pytest.raises(ValueError, match="trajectory 0: tokens 4 to 6"):
        spread(credit, CALLS, 5)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="not group"):
        turn_credit(REWARDS, ACCURACY, CALLS, 2, scale_rewards="group")
    with pytest.raises(ValueError, match="4 rewards, 3 accuracies"):
        turn_credit(REWARDS, ACCURACY[:3], CALLS, 2)
