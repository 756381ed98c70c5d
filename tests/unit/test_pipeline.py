"""The pipeline around its parts: decomposition, failures as evidence, what the policy is shown, the flat methods."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.agent.pipeline import Method, Pipeline, Question, View, drive, read_answer, read_decomposition
from trustvid.agent.prompting import Prompts
from trustvid.agent.routing import Fixed, Table
from trustvid.agent.synthesis import Tiered, Uniform
from trustvid.agent.trajectory import Trajectory
from trustvid.reliability.confidence import Intrinsic, PaperConfidence
from trustvid.reliability.profile import Off, Paper
from trustvid.reliability.selection import PaperTopK
from trustvid.reliability.selection import Uniform as UniformGrid
from trustvid.tools.evidence import Observation, SubQuery
from trustvid.tools.executor import Executor


class Reader:
    """A tool that reads one word in every frame, or fails."""

    name, cost, version, span, reads_query = "read_text", 0.25, "1", "frame", False

    def __init__(self, fails: bool = False):
        self.fails = fails

    def observe(self, batch, query, words):
        if self.fails:
            raise RuntimeError("no light")
        return [
            [Observation(i, t, "text", "CAFE", 0.8, (0.1, 0.1, 0.2, 0.2))]
            for i, t in zip(batch.indices, batch.times, strict=True)
        ]

    def summarise(self, observations):
        return ("CAFE everywhere", 0.8) if observations else ("no text found", 0.0)

    def settings(self):
        return {}


class Talker:
    """A policy that says what it was told to say and keeps what it was shown."""

    name = "talker"

    def __init__(self, *replies: str):
        self.replies, self.requests = list(replies), []

    def generate(self, requests):
        self.requests += requests
        return [self.replies.pop(0) for _ in requests]


ASK = json.dumps([{"sub_query": "Which word is on the sign?", "type": "text"}])
QUESTION = Question("What does the sign say?", ("CAFE", "BANK", "ZOO"))


def clip() -> ArraySource:
    rng = np.random.default_rng(1)
    return ArraySource(rng.integers(0, 256, (30, 24, 32, 3), dtype=np.uint8), fps=10, video_id="c")


def paper(executor: Executor, **changes) -> Pipeline:
    parts = {
        "reliability": Paper(),
        "selection": PaperTopK(),
        "confidence": PaperConfidence(),
        "routing": Table(),
        "synthesis": Tiered(),
    }
    return Pipeline(Method("tools", 8, **(parts | changes)), executor, Prompts("full"))


def executor(tool=None, **settings) -> Executor:
    tool = tool or Reader()
    return Executor({tool.name: tool}, cache=None, time_limit_s=5.0, **settings)


def test_a_pass_records_everything_and_survives_json():
    talker = Talker(ASK, "<think>clear</think><answer>A</answer><confidence>0.9</confidence>")
    trajectory = drive(paper(executor()).run(QUESTION, View(clip())), talker)
    assert trajectory.answer.value == "A" and trajectory.answer.confidence == 0.9
    assert trajectory.answer.confidence_source == "stated" and trajectory.decomposition_ok
    (evidence,) = trajectory.evidence
    assert evidence.frames == trajectory.frames and len(evidence.disturbance) == len(evidence.frames)
    assert 0 < evidence.confidence < evidence.intrinsic == 0.8, "Eq. 4 lowers c by the worst frames"
    assert trajectory.tiers == {evidence.tier: 1} | {t: 0 for t in ("high", "medium", "low") if t != evidence.tier}
    assert Trajectory.from_json(json.loads(json.dumps(trajectory.to_json()))) == trajectory


def test_the_policy_sees_frames_reliability_options_and_whole_results():
    talker = Talker(ASK, "<answer>A</answer>")
    trajectory = drive(paper(executor()).run(QUESTION, View(clip())), talker)
    first, last = talker.requests
    assert first.messages[1].frames == trajectory.frames, "decomposition sees the frames"
    text = first.messages[1].text
    assert "frame reliability" in text and "dominant:" in text and "C. ZOO" in text
    synthesis = last.messages[-1].text
    assert "A to C" in synthesis and "### Tier" in synthesis and "mean d" in synthesis
    assert all(f"frame {index} " in synthesis for index in trajectory.frames), "no result is cut off"
    assert [m.role for m in last.messages] == ["system", "user", "assistant", "user"], "earlier turns stay as they were"


def test_a_failing_tool_is_evidence_not_an_exception():
    talker = Talker(ASK, "I cannot tell.")
    trajectory = drive(paper(executor(Reader(fails=True))).run(QUESTION, View(clip())), talker)
    (evidence,) = trajectory.evidence
    assert evidence.error.kind == "exception" and "no light" in evidence.error.message
    assert evidence.confidence == 0.0 and evidence.tier == "low" and trajectory.answer.status == "abstained"
    assert "failed (exception)" in talker.requests[-1].messages[-1].text


def test_an_unreadable_decomposition_asks_the_question_itself_and_says_so():
    talker = Talker("Let me think about it.", "<answer>A</answer>")
    blind = paper(
        executor(),
        reliability=Off(),
        selection=UniformGrid(),
        confidence=Intrinsic(),
        synthesis=Uniform(),
        routing=Fixed(),
    )
    trajectory = drive(blind.run(QUESTION, View(clip())), talker)
    assert not trajectory.decomposition_ok and trajectory.evidence[0].error.kind == "unavailable"
    queries, understood = read_decomposition("Let me think about it.", QUESTION)
    assert queries == [SubQuery(QUESTION.text, "spatial")] and not understood


def test_decomposition_keeps_known_types_and_at_most_twelve():
    entries = [{"sub_query": f"q{i}", "type": "text"} for i in range(15)] + [
        {"sub_query": "x", "type": "smell"},
        {"type": "text"},
    ]
    queries, understood = read_decomposition("Sure:\n```json\n" + json.dumps(entries) + "\n```", QUESTION)
    assert len(queries) == 12 and understood and all(query.type == "text" for query in queries)


def test_without_evidence_the_policy_is_asked_once_and_no_tool_runs():
    talker = Talker("<answer>B</answer>")
    method = Method("none", 8, Off(), UniformGrid(), Intrinsic(), Fixed(), Uniform())
    trajectory = drive(
        Pipeline(method, executor(Reader(fails=True)), Prompts("compact")).run(QUESTION, View(clip())), talker
    )
    assert trajectory.answer.value == "B" and trajectory.evidence == () and len(talker.requests) == 1
    assert "none was gathered" in talker.requests[0].messages[-1].text


def test_chance_draws_the_same_option_each_time_and_all_of_them_in_turn():
    method = Method("chance", 8, Off(), UniformGrid(), Intrinsic(), Fixed(), Uniform())
    pipeline = Pipeline(method, executor(), Prompts("full"))
    draws = [
        drive(pipeline.run(Question(f"Question {i}?", ("a", "b", "c")), View(clip())), Talker()).answer
        for i in range(300)
    ]
    again = drive(pipeline.run(Question("Question 0?", ("a", "b", "c")), View(clip())), Talker()).answer
    assert draws[0] == again and draws[0].confidence == pytest.approx(1 / 3)
    assert all(70 < sum(draw.value == letter for draw in draws) < 130 for letter in "ABC")


@pytest.mark.parametrize(
    ("reply", "value", "status"),
    [
        ("<answer>E</answer>", None, "unparsed"),
        ("B", "B", "ok"),
        ("", None, "unparsed"),
        ("I don't know", None, "abstained"),
    ],
)
def test_answers_that_cannot_be_read_are_no_guesses(reply, value, status):
    answer = read_answer(reply, QUESTION)
    assert (answer.value, answer.status) == (value, status)


def test_numeric_and_free_answers():
    assert read_answer("<answer>8.8 meters</answer>", Question("How far?", numeric=True)).value == "8.8"
    assert read_answer("<answer>A red box.</answer>", Question("What?")).value == "A red box."


def test_a_method_refuses_what_it_does_not_know():
    with pytest.raises(ValueError, match="expected tools, none or chance"):
        Method("guess", 8, Off(), UniformGrid(), Intrinsic(), Fixed(), Uniform())
