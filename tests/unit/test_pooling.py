"""Pooled support: what the evidence comes to for each option, what the policy is told of it, whose confidence counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.fakes import ArraySource
from tests.unit.test_scripted import CITY, LANDMARK, SECTORS, Walk, city_walk, conversation, spread
from trustvid.agent.driving import drive
from trustvid.agent.method import Method, Question, View
from trustvid.agent.pipeline import Pipeline
from trustvid.agent.pooling import Pooled
from trustvid.agent.prompting import Prompts
from trustvid.agent.rendering import brief_evidence_block, brief_support_block, evidence_block, support_block
from trustvid.agent.replies import read_answer
from trustvid.agent.routing import ByPolicy
from trustvid.agent.synthesis import LogOdds
from trustvid.agent.trajectory import Answer, Trajectory
from trustvid.benchmarks.boxworld.preview import render_clip
from trustvid.errors import ConfigError
from trustvid.policy.scripted import ScriptedPolicy, Teacher
from trustvid.policy.scripted.support import option_shares
from trustvid.reliability.confidence import Intrinsic
from trustvid.reliability.profile import Relative
from trustvid.reliability.selection import Uniform
from trustvid.tools.evidence import Evidence, SubQuery, ToolFailure
from trustvid.tools.executor import Executor
from trustvid.tools.recognize_action import RecognizeAction


@pytest.fixture
def flight() -> Walk:
    """The walk through the city."""
    return city_walk()


def blocks(walk: Walk, question: str, options: list[str], frames: list[int] | None = None) -> tuple[str, str]:
    """The rendered question (with its frames) and the rendered evidence of a walk."""
    messages = conversation(walk, question, options, spread(walk) if frames is None else frames).messages
    return messages[0].text, messages[1].text


QUESTIONS = [
    (LANDMARK.format("CAFE"), SECTORS),
    (f"{CITY} Suppose you had turned right there instead.", ["CAFE", "BANK", "MUSEUM"]),
    (f"{CITY} How many steps of the route have you completed?", ["2", "3", "4", "5"]),
]


@pytest.mark.parametrize(("question", "options"), QUESTIONS)
def test_support_is_what_the_scripted_policy_believes(flight, question, options):
    support = Pooled().support(*blocks(flight, question, options))
    assert list(support) == list("ABCDEFGH"[: len(options)]), "in the order of the options"
    assert sum(support.values()) == pytest.approx(1.0) and all(type(share) is float for share in support.values())
    reply = ScriptedPolicy().generate([conversation(flight, question, options, spread(flight))])[0]
    answer = read_answer(reply, Question(question, tuple(options)))
    assert answer.value == max(support, key=support.get)
    assert answer.confidence == pytest.approx(support[answer.value], abs=5e-4)


def test_support_goes_with_the_option_wherever_it_stands(flight):
    question, options = LANDMARK.format("CAFE"), ["on the left", "straight ahead", "behind"]
    told = [Pooled().support(*blocks(flight, question, order)) for order in (options, options[::-1])]
    assert list(told[0].values()) == pytest.approx(list(told[1].values())[::-1])
    assert told[0]["B"] > 0.9 and told[1]["B"] > 0.9


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("Who is the tallest?", ["CAFE", "BANK"]),
        (LANDMARK.format("ZOO"), SECTORS),
        ("How does the camera move?", ["forward it goes", "it goes forward"]),
        ("How does the camera move?", ["it jumps", "it sings"]),
        (f"{CITY} How many steps of the route have you completed?", []),
    ],
    ids=["no solver", "a thing never seen", "all options alike", "no option fits", "no options"],
)
def test_what_is_not_settled_has_no_support(flight, question, options):
    assert Pooled().support(*blocks(flight, question, options)) is None


def test_without_evidence_there_is_no_support_and_low_tiers_lower_it(flight):
    question = LANDMARK.format("CAFE")
    asked, told = blocks(flight, question, SECTORS)
    assert option_shares([asked]) is None and option_shares([asked, "## Evidence\nnone was gathered"]) is None
    low = told.replace("## Evidence\n", "## Evidence\n### Tier low\n")
    best = max(option_shares([asked, told]).values())
    assert max(option_shares([asked, low]).values()) == pytest.approx(0.6 * best + 0.4 / len(SECTORS))


def test_a_full_account_is_the_evidence_and_the_support_beneath(flight):
    asked, told = blocks(flight, LANDMARK.format("CAFE"), SECTORS)
    shown = f"{told}\n{support_block(option_shares([asked, told]))}"
    assert option_shares([asked, shown]) == option_shares([asked, told]), "the section is not read as evidence"


@pytest.mark.parametrize("place", [0, 1])
def test_motion_that_two_calls_saw_is_not_twice_the_motion(flight, place):
    question = LANDMARK.format("CAFE")
    frames = spread(flight)
    reads, boxes, motion = flight.evidence(frames)
    wobbly = [
        replace(step, label="turn right", score=0.3, values=step.values | {"yaw_deg": 3.0})
        for step in motion.observations
    ]
    worse = replace(motion, tool="track_temporal", observations=tuple(wobbly))
    both = [motion, motion]
    both.insert(2 * place, worse)
    asked, told = (m.text for m in conversation(flight, question, SECTORS, frames, [reads, boxes, *both]).messages)
    assert option_shares([asked, told]) == Pooled().support(*blocks(flight, question, SECTORS))


def test_support_is_told_in_two_digits_that_never_reach_one():
    assert support_block({"A": 0.004, "B": 0.996}) == "### Pooled support\nA 0.00, B 0.99"
    assert brief_support_block({"A": 0.096, "B": 0.2, "C": 0.704}) == "### Pooled support\nA10 B20 C70"
    assert support_block(None) == brief_support_block(None) == "### Pooled support\nnone"


def test_a_brief_account_has_one_line_for_each_call(flight):
    reads, boxes, motion = flight.evidence([0, 8])
    failed = Evidence(SubQuery("?", "text"), "caption_frame", (), "", 0.0, (), 0.3, ToolFailure("timeout", "late"))
    told = brief_evidence_block([reads, replace(boxes, confidence=0.085), failed, replace(motion, tier="low")])
    assert told.splitlines() == [
        "## Evidence",
        f"1 read_text c{100 * reads.confidence:02.0f} n{len(reads.observations)}",
        f"2 detect_objects c08 n{len(boxes.observations)}",
        "3 caption_frame failed",
        f"4 recognize_action low n{len(motion.observations)}",
    ]
    assert brief_evidence_block([]) == "## Evidence\nnone was gathered"


def test_confidence_is_stated_or_pooled_never_both():
    stated, support = Answer("B", "ok", 0.4, "stated"), {"A": 0.2, "B": 0.8}
    assert Pooled().settle(stated, support) == stated
    pooled = Pooled(confidence="pooled")
    assert pooled.settle(stated, support) == Answer("B", "ok", 0.8, "pooled")
    nothing = Answer("B", "ok", None, None)
    assert pooled.settle(stated, None) == nothing, "the stated one does not stand in for it"
    assert pooled.settle(Answer(None, "unparsed", 0.4, "stated"), support).confidence_source is None


def test_unknown_settings_are_refused_together():
    with pytest.raises(ConfigError, match="known: full, short") as caught:
        Pooled(detail="long", confidence="felt")
    assert len(caught.value.faults) == 2 and "known: stated, pooled" in str(caught.value)
    with pytest.raises(ValueError, match="at least 2"):
        Pooled(alternatives=1)


# -- in the pipeline, on rendered pixels -------------------------------------------------------------------------------

STEPS = "Your planned route: 1. fly forward; 2. turn; 3. fly forward; 4. turn; 5. fly forward. How many steps of the route have you completed when the video ends?"


@pytest.fixture(scope="module")
def film() -> View:
    """A flight through the city, as pixels."""
    return View(ArraySource(render_clip("city", 3).frames, fps=10, video_id="film"))


@pytest.fixture(scope="module")
def executor() -> Executor:
    from trustvid.tools.cache import ToolCache

    return Executor({"recognize_action": RecognizeAction()}, ToolCache.memory(), time_limit_s=60.0)


def passed(film: View, executor: Executor, synthesis, question: str, prompts: str = "tiny") -> Trajectory:
    method = Method("tools", 8, Relative(), Uniform(), Intrinsic(), ByPolicy(), synthesis)
    asked = Question(question, ("2", "3", "4", "5"))
    return drive(Pipeline(method, executor, Prompts(prompts)).run(asked, film), Teacher())


def test_the_policy_is_shown_the_support_after_all_evidence_or_after_one_line_a_call(film, executor):
    question = f"{CITY} {STEPS}"
    plain, full, short = (passed(film, executor, s, question) for s in (LogOdds(), Pooled(), Pooled(detail="short")))
    evidence = evidence_block(full.evidence, [], film.clip, full.frames)
    told = plain.messages[-2].text
    assert told.startswith(evidence) and "Pooled support" not in told
    assert full.messages[-2].text.startswith(f"{evidence}\n### Pooled support\nA 0.")
    (call,) = short.evidence
    line = f"1 recognize_action c{100 * call.confidence:02.0f} n{len(call.observations)}"
    assert short.messages[-2].text.startswith(f"## Evidence\n{line}\n### Pooled support\nA")
    assert full.answer.value == short.answer.value and short.answer.confidence is None


def test_the_answer_has_the_support_of_the_option_chosen_only_if_the_method_says_so(film, executor):
    question = f"{CITY} {STEPS}"
    trajectory = passed(film, executor, Pooled(confidence="pooled"), question, "full")
    told = trajectory.messages[-2].text
    share = float(told.partition(f"{trajectory.answer.value} 0.")[2][:2]) / 100
    assert trajectory.answer.confidence_source == "pooled"
    assert trajectory.answer.confidence == pytest.approx(share, abs=0.006)
    assert Trajectory.from_json(trajectory.to_json()) == trajectory
    unknown = passed(film, executor, Pooled(detail="short", confidence="pooled"), "How does the camera feel? Guess.")
    assert "### Pooled support\nnone" in unknown.messages[-2].text
    assert unknown.answer == Answer("A", "ok", None, None)
