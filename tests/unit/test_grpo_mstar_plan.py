"""m* from the trained policy's own plan.

pytest tests/unit/test_grpo_mstar_plan.py -q -n 0
"""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from trustvid.agent.method import Question
from trustvid.config.checking import build
from trustvid.config.compose import CONF
from trustvid.errors import ConfigError
from trustvid.grpo.mstar.base import EstimateError
from trustvid.grpo.mstar.policy_plan import PolicyPlanEstimator

RED = Question("Is it red?", ("yes", "no"))


class Planning:
    """A policy that lists one sub-query more each time, as one does whose reward rises with it."""

    name = "planning"

    def __init__(self, *replies: str):
        self.replies, self.requests = list(replies), []

    def generate(self, requests):
        self.requests += requests
        return [self.replies.pop(0) if self.replies else plan(len(self.requests)) for _ in requests]


def plan(length: int) -> str:
    return "[" + ", ".join(f'{{"sub_query": "thing {i}", "type": "spatial"}}' for i in range(length)) + "]"


def test_the_trained_policy_is_asked_anew_each_time_and_its_list_is_counted():
    estimator = build(OmegaConf.to_container(OmegaConf.load(CONF / "mstar" / "policy_plan.yaml")))
    policy = Planning()
    estimator.bind(policy)
    assert [estimator.estimate([RED]) for _ in range(3)] == [[1], [2], [3]]
    assert estimator.asks_policy and "ablation" in estimator.describe()["asked"]
    (system, user) = policy.requests[0].messages
    assert system.role == "system" and "List needs" in user.text and "red" in user.text.lower() and not user.frames


def test_a_reply_that_is_no_list_gives_no_estimate():
    estimator, policy = PolicyPlanEstimator("full"), Planning("three", plan(2))
    estimator.bind(policy)
    with pytest.raises(EstimateError, match="'three' is no list of sub-queries") as caught:
        estimator.estimate([RED, Question("Why?")])
    assert caught.value.estimates == (None, 2)
    text = policy.requests[0].messages[1].text
    assert "none shown" in text and "not measured" in text and "A. yes" in text


def test_without_a_policy_and_without_prompts_it_refuses():
    with pytest.raises(ConfigError, match="none was given"):
        PolicyPlanEstimator("tiny").estimate([RED])
    with pytest.raises(ConfigError, match="tiny"):
        PolicyPlanEstimator("nowhere")
