"""The teacher of small models: right plans, tools by chance or by blind habits, the best-supported answer; short turns."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.agent.driving import drive
from trustvid.agent.method import Method, Question, View
from trustvid.agent.pipeline import Pipeline
from trustvid.agent.pooling import Pooled
from trustvid.agent.prompting import Prompts
from trustvid.agent.rendering import (
    brief_question_block,
    brief_sub_queries_block,
    brief_support_block,
    question_block,
    sub_queries_block,
    support_block,
)
from trustvid.agent.replies import read_answer, read_decomposition, read_routing
from trustvid.agent.routing import CANDIDATES, TABLE_18, ByPolicy
from trustvid.benchmarks.boxworld.preview import render_clip
from trustvid.errors import ConfigError
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.scripted import ScriptedPolicy, Teacher
from trustvid.policy.scripted.teacher import COLUMNS, favourites
from trustvid.reliability.confidence import Intrinsic
from trustvid.reliability.profile import Relative
from trustvid.reliability.selection import Uniform
from trustvid.tools.cache import ToolCache
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.evidence import SubQuery
from trustvid.tools.executor import Executor
from trustvid.tools.recognize_action import RecognizeAction

SETTING = "The camera is level, 1.5 m above the floor, with a horizontal field of view of 90 degrees; it only turns on the spot."
CLIP = ArraySource(np.zeros((10, 24, 32, 3), np.uint8), video_id="dark")
QUERIES = [SubQuery("words", "text"), SubQuery("coloured things", "spatial"), SubQuery("camera motion", "temporal")]


def say(*texts: str, teacher: Teacher | None = None, sample: int = 0, frames: tuple[int, ...] = ()) -> str:
    """The teacher's reply to a conversation."""
    messages = tuple(Message("user", text, frames if place == 0 else ()) for place, text in enumerate(texts))
    return (teacher or Teacher()).generate([PolicyRequest(messages, CLIP, sample)])[0]


@pytest.mark.parametrize(
    ("question", "types"),
    [
        ("When the video ends, where is the landmark with the sign CAFE relative to you?", "text spatial temporal"),
        ("Suppose you had turned left. Towards which landmark would you have flown?", "text spatial temporal"),
        ("Your route: 1. fly. How many steps of the route have you completed when the video ends?", "temporal"),
        ("You now want to fly to the landmark with the sign BANK. What do you do first?", "text spatial temporal"),
        ("Measured on the floor, which of these objects is closest to the LAMP?", "text spatial temporal"),
        ("Imagine standing at the BED and facing the TV. Where is the LAMP?", "text spatial temporal"),
        ("You stand at the FAN. Fill in the turns. Which turns fit?", "text spatial temporal"),
        ("In which order do these objects first appear in the video: BED, TV, LAMP?", "text spatial temporal"),
        ("How does the camera move?", "temporal"),
        ("What does the sign say?", "text"),
    ],
)
def test_a_question_is_taken_apart_by_its_wording_in_full_or_in_brief(question, types):
    asked = Question(f"{SETTING} {question}", ("a", "b"))
    full, brief = question_block(asked.text, asked.letters, asked.options), brief_question_block(asked.text)
    assert len(brief) < len(full)
    for text in (full, brief):
        queries, understood = read_decomposition(say("Ask.", text), asked)
        assert understood and " ".join(query.type for query in queries) == types
        assert all(len(query.text.split()) <= 2 for query in queries), "short, so that they can be learnt"


def routing(form: str, disturbance: str = "blur", candidates=None) -> str:
    candidates = candidates or [CANDIDATES[query.type] for query in QUERIES]
    costs = {tool: 0.5 for tools in candidates for tool in tools}
    slots = {
        "sub_queries": sub_queries_block(QUERIES, candidates, costs),
        "brief_sub_queries": brief_sub_queries_block(QUERIES, candidates),
    }
    return Prompts(form).render("route", disturbance=disturbance, **slots)


@pytest.mark.parametrize("form", ["tiny", "compact", "full"])
def test_every_tool_on_offer_is_as_likely_as_the_others(form):
    candidates = [CANDIDATES[query.type] for query in QUERIES]
    text, counts = routing(form), Counter()
    for number in range(400):
        chosen = read_routing(say(f"question {number}", text), candidates)
        assert None not in chosen
        counts[tuple(chosen)] += 1
    assert len(counts) == 8, "independent of one another"
    assert all(25 <= count <= 80 for count in counts.values()), counts  # 50 expected, standard deviation 6.6


def test_a_choice_hangs_on_the_conversation_and_on_the_number_of_the_draw_alone():
    text = routing("tiny")
    lines = say("question", text).splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["1", "text", "blur"],
        ["2", "spatial", "blur"],
        ["3", "temporal", "blur"],
    ]
    asked = [f"question {number}" for number in range(30)]
    first = [say(one, text) for one in asked]
    assert [say(one, text) for one in reversed(asked)] == first[::-1]
    for others in (
        [say(one, text, teacher=Teacher(draw=1)) for one in asked],
        [say(one, text, sample=1) for one in asked],
        [say(one, text, frames=(0, 5)) for one in asked],
        [say(one, routing("tiny", "clean")).replace("clean", "blur") for one in asked],
    ):
        assert 10 < sum(a != b for a, b in zip(first, others, strict=True)) <= 30  # 26 expected
    with pytest.raises(ConfigError, match="draw=-1"):
        Teacher(draw=-1)


def test_habits_prefer_each_tool_under_as_many_disturbances_as_the_others():
    assert set(COLUMNS) == set(TABLE_18["text"])
    seen = Counter()
    for draw in range(200):
        for kind, tools in CANDIDATES.items():
            preferred = favourites(draw, kind, len(tools))
            assert set(preferred) == set(COLUMNS)
            assert Counter(preferred.values()) == {0: 2, 1: 2}
            seen[kind, *(preferred[column] for column in COLUMNS)] += 1
    assert len(seen) == 5 * 6, "every balanced habit of every type is some teacher's"
    assert all(15 <= count <= 55 for count in seen.values())  # 33 expected, standard deviation 5.3
    assert Counter(favourites(3, "text", 3).values()).keys() == {0, 1, 2}
    assert set(favourites(3, "text", 1).values()) == {0}


@pytest.mark.parametrize("form", ["tiny", "full"])
def test_a_teacher_with_habits_takes_its_favourite_in_seven_of_ten(form):
    candidates = [CANDIDATES[query.type] for query in QUERIES]
    teacher = Teacher(draw=2, habit=0.4)
    for disturbance in COLUMNS:
        text, hits = routing(form, disturbance), np.zeros(3)
        for number in range(150):
            chosen = read_routing(say(f"question {number}", text, teacher=teacher), candidates)
            hits += [
                tool == tools[favourites(2, query.type, 2)[disturbance]]
                for tool, tools, query in zip(chosen, candidates, QUERIES, strict=True)
            ]
        assert np.all(np.abs(hits / 150 - 0.7) < 0.13), (disturbance, hits)  # standard deviation 0.037


def test_habits_can_be_absolute_or_absent_and_follow_the_draw():
    text, asked = routing("tiny"), [f"question {number}" for number in range(40)]
    assert len({say(one, text, teacher=Teacher(habit=1.0)) for one in asked}) == 1
    assert len({say("question", text, teacher=Teacher(draw, 1.0)) for draw in range(80)}) == 8
    even = [say(one, text, teacher=Teacher(5)) for one in asked]
    assert [say(one, text, teacher=Teacher(5, habit=0.0)) for one in asked] == even
    only_one_left = routing("tiny", "blur", [["caption_frame"], ["detect_objects"], []])
    reply = say("question", only_one_left, teacher=Teacher(habit=1.0))
    assert [line.split()[3] for line in reply.splitlines()] == ["caption_frame", "detect_objects", "none"]
    with pytest.raises(ValueError, match=r"no habit for disturbance 'fog'.*clean, blur"):
        say("question", routing("tiny", "fog"), teacher=Teacher(habit=0.4))
    for habit in (-0.1, 1.5, float("nan")):
        with pytest.raises(ConfigError, match=rf"draw=-1.*\n?.*habit={habit}"):
            Teacher(draw=-1, habit=habit)


def test_following_habits_is_worth_what_chance_is_whatever_the_tools_are_good_for():
    """The claim on which a start from habits rests: over draws, as right as a random candidate."""
    rng = np.random.default_rng(0)
    worth = rng.random((len(CANDIDATES), len(COLUMNS), 2))
    often = rng.dirichlet(np.ones(len(COLUMNS)))
    told = [
        sum(
            often[c] * worth[k, c, favourites(draw, kind, 2)[column]]
            for k, kind in enumerate(CANDIDATES)
            for c, column in enumerate(COLUMNS)
        )
        for draw in range(2000)
    ]
    chance = (worth.mean(axis=2) @ often).sum()
    assert abs(np.mean(told) - chance) < 4 * np.std(told) / 2000**0.5


def test_only_installed_tools_are_chosen():
    one_left = [["caption_frame"], ["detect_objects"], []]
    for form in ("tiny", "full"):
        text = routing(form, "occlusion", one_left)
        reply = say("question", text)
        assert read_routing(reply, one_left) == ["caption_frame", "detect_objects", None]
        assert reply.splitlines()[2] == "3 temporal occlusion none"
        scripted = ScriptedPolicy().generate([PolicyRequest((Message("user", text),), CLIP)])[0]
        assert scripted.splitlines()[2] == "3 temporal occlusion none" and "detect_objects" in scripted


@pytest.mark.parametrize("block", [support_block, brief_support_block])
def test_it_answers_the_best_supported_option_wherever_it_stands(block):
    question = Question("?", ("a", "b", "c", "d"))
    for place, best in enumerate("ABCD"):
        shares = dict.fromkeys("ABCD", 0.09) | {best: 0.73}
        reply = say(f"## Evidence\n1 read_text c80 n3\n{block(shares)}\nAnswer A to D")
        assert reply == f"<think>{best}73</think><answer>{best}</answer>"
        answer = read_answer(reply, question)
        assert (answer.value, answer.status, answer.confidence) == ("ABCD"[place], "ok", None)


def test_where_nothing_is_supported_it_says_so_and_takes_the_first_option():
    for text in ("## Evidence\n1 read_text failed\n### Pooled support\nnone\nAnswer A to D", "## Evidence\nnone"):
        assert say(text) == "<think>none</think><answer>A</answer>"


def test_a_whole_trajectory_on_pixels_stays_within_350_tokens():
    from trustvid.policy.tiny_build import _tokenizer

    tools = {tool.name: tool for tool in (DetectObjects(), RecognizeAction())}
    executor = Executor(tools, ToolCache.memory(), time_limit_s=60.0)
    method = Method("tools", 8, Relative(), Uniform(), Intrinsic(), ByPolicy(), Pooled(detail="short"))
    pipeline = Pipeline(method, executor, Prompts("tiny"))
    view = View(ArraySource(render_clip("room", 1).frames[:40], fps=10, video_id="room"))
    order = ", ".join(("COUCH", "SHELF", "CLOCK", "TABLE"))
    question = Question(f"{SETTING} In which order do these objects first appear in the video: {order}?", (order,) * 5)
    trajectory = drive(pipeline.run(question, view), Teacher())
    assert trajectory.decomposition_ok and len(trajectory.sub_queries) == 3
    assert [item.error is None for item in trajectory.evidence] == [False, True, True], "no reader is installed"
    assert not trajectory.routing_ok and trajectory.answer.status == "ok"
    tokenizer = _tokenizer()
    turns = [{"role": message.role, "content": message.text} for message in trajectory.messages]
    ids = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=True)["input_ids"]
    assert 200 < len(ids) <= 350
    decomposition = json.loads(trajectory.messages[2].text)
    assert [need["type"] for need in decomposition] == ["text", "spatial", "temporal"]
