"""relevance=policy: P(yes) of a real (tiny, random) vision-language model about real frames.

pytest tests/unit/test_relevance_policy.py -q
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from tests.unit.fakes import ArraySource
from trustvid.agent.driving import drive
from trustvid.agent.method import Method, Question, View
from trustvid.agent.pipeline import Pipeline
from trustvid.agent.prompting import Prompts
from trustvid.agent.routing import Fixed
from trustvid.agent.synthesis import Uniform as UniformSynthesis
from trustvid.config.checking import build, check
from trustvid.config.compose import compose_config
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, TrustvidError
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.scripted import ScriptedPolicy
from trustvid.reliability.confidence import Intrinsic
from trustvid.reliability.profile import Off, Profile
from trustvid.reliability.selection import PaperTopK
from trustvid.tools.cache import ToolCache
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.executor import Executor
from trustvid.tools.read_text import ReadText
from trustvid.tools.relevance import quantile
from trustvid.tools.relevance_policy import ASKED, ByPolicy
from trustvid.video.sampling import uniform_indices

torch = pytest.importorskip("torch")

QUESTION = "Is the red box left of the sign PIZZA?"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from trustvid.policy.tiny import TinyPolicy

    torch.set_num_threads(1)
    return TinyPolicy("qwen2_5_vl", str(tmp_path_factory.mktemp("models")))


@pytest.fixture(scope="module")
def city() -> ArraySource:
    from trustvid.benchmarks.boxworld.preview import render_clip

    return ArraySource(render_clip("city", 500).frames[::3], fps=10 / 3, video_id="city")


def executor() -> Executor:
    return Executor({tool.name: tool for tool in (ReadText(), DetectObjects())}, ToolCache.memory(), time_limit_s=60)


def rated(policy: Any, clip: ArraySource, indices: list[int], question: str = QUESTION, **settings: Any) -> np.ndarray:
    return ByPolicy(policy, **settings).relevance(clip, indices, question, (), executor())


class Counting:
    """A policy that counts what it is asked, and answers by the real one."""

    name = "counting"

    def __init__(self, policy: Any):
        self.policy, self.asked = policy, []

    def logprobs(self, requests, replies):
        self.asked += list(zip(requests, replies, strict=True))
        return self.policy.logprobs(requests, replies)


def test_it_is_the_probability_of_yes_among_yes_and_no(policy, city):
    indices = [0, 9, 17, 30]
    found = rated(policy, city, indices)
    for frame, value in zip(indices, found, strict=True):
        request = PolicyRequest((Message("user", ASKED.format(question=QUESTION), (frame,)),), city)
        yes, no = (np.exp(sum(policy.logprobs([request], [reply])[0])) for reply in ("yes", "no"))
        assert value == pytest.approx(yes / (yes + no), abs=1e-4)
    assert len(set(found.tolist())) == len(indices) and ((found > 0) & (found < 1)).all(), "pixels count"
    assert not np.allclose(found, rated(policy, city, indices, "Which way does the camera turn?"), atol=1e-5)
    assert found.tobytes() == rated(policy, city, indices).tobytes()


@pytest.mark.parametrize("max_rated", [1, 4, 16, 99])
def test_frames_that_are_not_rated_take_the_nearest_rating(policy, city, max_rated):
    indices = list(range(0, 40, 2))
    counting = Counting(policy)
    found = rated(counting, city, indices, max_rated=max_rated)
    places = uniform_indices(len(indices), max_rated)
    assert len(counting.asked) == 2 * len(places) == 2 * min(max_rated, len(indices)), "the cost that is stated"
    assert {request.messages[0].frames for request, _ in counting.asked} == {(indices[place],) for place in places}
    own = dict(zip(places, found[places], strict=True))
    for place, value in enumerate(found):
        assert value == own[min(places, key=lambda other: (abs(place - other), other))]


def test_ranks_bind_and_probabilities_promise_nothing(policy, city):
    indices = list(range(city.n_frames))
    by_value = rated(policy, city, indices)
    ranks = rated(policy, city, indices, scale="quantile")
    assert (ranks == quantile(np.log(by_value / (1 - by_value)))).all()
    profile = Profile(tuple(indices), np.zeros(len(indices)))

    def kept(relevance: np.ndarray, **settings: Any) -> int:
        return len(PaperTopK(k_max=len(indices), **settings).select(profile, len(indices), len(indices), relevance))

    assert 0.7 * len(indices) <= kept(ranks) < len(indices), "up to 30 % of the frames, in whole groups"
    assert 0.7 * len(indices) <= kept(by_value, theta_sim_on="rank") < len(indices), "by rank it binds on any scale"
    # A model that is sure of itself either way: θ_sim on probabilities discards all (the best four stay) or nothing.
    assert kept(np.full(len(indices), 0.29)) == 4 and kept(np.full(len(indices), 0.31)) == len(indices)


def test_a_policy_without_probabilities_is_refused_with_the_way_out(policy):
    with pytest.raises(ConfigError) as caught:
        ByPolicy(ScriptedPolicy(), max_rated=0, scale="cosine_shift")
    text = str(caught.value)
    assert len(caught.value.faults) == 3
    for part in (
        "policy scripted cannot say how likely a reply is",
        "policy=tiny_qwen2_5_vl",
        "relevance=lexical",
        "relevance.max_rated=0; expected at least 1",
        "relevance.scale='cosine_shift' is unknown to ByPolicy; known: probability, quantile",
    ):
        assert part in text, text


def test_a_policy_that_fails_is_told(policy, city):
    class Nowhere(Counting):
        def logprobs(self, requests, replies):
            raise TrustvidError("policy tiny failed: out of memory")

    with pytest.raises(TrustvidError, match="city: relevance=policy: policy tiny failed: out of memory"):
        rated(Nowhere(policy), city, [0, 1])

    class Lost(Counting):
        def logprobs(self, requests, replies):
            return [[float("nan")] for _ in requests]

    with pytest.raises(TrustvidError, match="city: relevance=policy: probabilities are not finite"):
        rated(Lost(policy), city, [0, 1])


def test_in_a_method_it_selects_and_is_asked_once_for_passes_that_share_a_view(policy, city):
    counting = Counting(policy)
    parts = {"reliability": Off(), "selection": PaperTopK(), "relevance": ByPolicy(counting, max_rated=8)}
    method = Method("tools", 4, confidence=Intrinsic(), routing=Fixed(), synthesis=UniformSynthesis(), **parts)
    pipeline, view = Pipeline(method, executor(), Prompts("full")), View(city)
    question = Question("Where is the sign PIZZA?", ("left", "right"))
    first, second = (drive(pipeline.run(question, view), ScriptedPolicy()) for _ in range(2))
    assert first == second and len(counting.asked) == 16
    profiled = list(range(city.n_frames))
    relevance = rated(policy, city, profiled, question.text, max_rated=8)
    best = sorted(profiled, key=lambda frame: (-relevance[frame], frame))[:4]
    assert first.frames == tuple(sorted(best)) and first.relevance == tuple(relevance[list(first.frames)])
    drive(pipeline.run(Question("Where is the sign PARK?", ("left", "right")), view), ScriptedPolicy())
    assert len(counting.asked) == 32, "another question is asked anew"


# ---- config --------------------------------------------------------------------------------------------------------

CHOSEN = "relevance@methods.robust_to.relevance=policy"


def composed(*overrides: str) -> dict:
    return OmegaConf.to_container(compose_config(overrides), resolve=True)


def test_it_takes_the_policy_of_the_run_or_another_one(tmp_path: Path):
    config = composed(CHOSEN, "policy=tiny_qwen3_vl", f"paths.cache={tmp_path}")
    check(config, EvaluateConfig)
    built = build(config["methods"]["robust_to"]).relevance
    assert (built.policy.name, built.max_rated, built.scale) == ("tiny_qwen3_vl", 16, "probability")
    mixed = composed(CHOSEN, "+policy@methods.robust_to.relevance.policy=tiny_qwen2_5_vl")
    check(mixed, EvaluateConfig)
    assert build(mixed["methods"]["robust_to"]).relevance.policy.name == "tiny_qwen2_5_vl"
    assert build(mixed["policy"]).name == "scripted"


@pytest.mark.parametrize(
    "chosen", [(), ("policy=openai_compatible", "policy.model=m", "policy.base_url=http://127.0.0.1:1/v1")]
)
def test_the_config_check_refuses_policies_that_only_talk(chosen):
    with pytest.raises(ConfigError, match=r"relevance=policy: policy .* cannot say how likely a reply is"):
        check(composed(CHOSEN, *chosen), EvaluateConfig)
