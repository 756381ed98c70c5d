"""The pipeline around its parts: decomposition, failures as evidence, what the policy is shown, the flat methods."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.agent.driving import drive, drive_all
from trustvid.agent.method import Method, Question, View
from trustvid.agent.pipeline import Pipeline
from trustvid.agent.prompting import Prompts
from trustvid.agent.replies import read_answer, read_decomposition, read_routing
from trustvid.agent.routing import ByPolicy, Fixed, Table
from trustvid.agent.synthesis import LogOdds, Tiered, Uniform
from trustvid.agent.trajectory import Trajectory
from trustvid.errors import ConfigError, TrustvidError
from trustvid.policy.base import PolicyError
from trustvid.policy.scripted import ScriptedPolicy
from trustvid.reliability.confidence import Calibrated, Intrinsic, PaperConfidence
from trustvid.reliability.profile import Off, Paper, Profile, Relative
from trustvid.reliability.selection import Anchored, PaperTopK
from trustvid.reliability.selection import Uniform as UniformGrid
from trustvid.tools.assess_quality import AssessQuality, stored_measurer
from trustvid.tools.cache import ToolCache
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


def test_text_only_decomposition_says_the_same_and_shows_no_frame():
    talkers = {shows: Talker(ASK, "<answer>A</answer>") for shows in (True, False)}
    seen, told = (
        drive(
            Pipeline(Method("tools", 8, **ANCHORED, decompose_with_frames=shows), executor(), Prompts("full")).run(
                QUESTION, View(clip())
            ),
            talker,
        )
        for shows, talker in talkers.items()
    )
    assert [message.frames for message in seen.messages] == [(), seen.frames, (), (), ()] and len(seen.frames) == 8
    assert [message.frames for message in told.messages] == [()] * 5
    assert [message.text for message in told.messages] == [message.text for message in seen.messages]
    assert (told.frames, told.evidence, told.cost) == (seen.frames, seen.evidence, seen.cost), "tools look as before"
    assert f"Frames shown: {told.frames[0]} (" in told.messages[1].text, "it is told which frames there are"


@pytest.mark.parametrize(("span", "on_the_grid"), [("frame", False), ("pair", True), ("window", True)])
def test_tools_that_see_motion_look_around_the_grid_of_anchored(span, on_the_grid):
    reader = Reader()
    reader.span = span
    anchored = Pipeline(Method("tools", 4, **ANCHORED), executor(reader), Prompts("full"))
    reliability = np.where(np.isin(np.arange(30), (0, 10, 19, 29)), 0.0, 1.0)
    profile = Profile(tuple(range(30)), 1.0 - reliability)
    selected = anchored.method.selection.select(profile, 30, 4)
    grid = UniformGrid().select(profile, 30, 4)
    assert selected != grid, "frames of the grid are bad: Anchored moves"
    assert anchored.frames_for("read_text", View(clip()), profile, selected) == (grid if on_the_grid else selected)


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
    with pytest.raises(ValueError, match="expected tools, frames, none or chance"):
        Method("guess", 8, Off(), UniformGrid(), Intrinsic(), Fixed(), Uniform())
    with pytest.raises(ValueError, match=r"frames=16; its selection keeps 4 to 12"):
        Method("tools", 16, Paper(), PaperTopK(), PaperConfidence(), Table(), Tiered())
    with pytest.raises(ValueError, match=r"confidence.channels=absolute does not fit reliability, .* relative"):
        Method("tools", 8, Relative(), Anchored(), Calibrated(channels="absolute"), Fixed(), LogOdds())


BLIND = {
    "reliability": Off(),
    "selection": UniformGrid(),
    "confidence": Intrinsic(),
    "routing": Fixed(),
    "synthesis": Uniform(),
}
ANCHORED = {
    "reliability": Relative(),
    "selection": Anchored(),
    "confidence": Calibrated(),
    "routing": Fixed(),
    "synthesis": LogOdds(),
}


def test_anchored_without_reliability_is_exactly_blind():
    replies = (ASK, "<answer>A</answer>")
    flat, blind = (
        drive(paper(executor(), **parts).run(QUESTION, View(clip())), Talker(*replies))
        for parts in (ANCHORED | {"reliability": Off()}, BLIND)
    )
    assert flat == blind


def test_anchored_judges_every_observation_and_is_told_what_was_done_about_frames():
    talker = Talker(ASK, "<answer>A</answer>")
    trajectory = drive(paper(executor(), **ANCHORED).run(QUESTION, View(clip())), talker)
    (evidence,) = trajectory.evidence
    given = [seen.confidence for seen in evidence.observations]
    assert all(0 < c < 1 for c in given) and evidence.confidence == pytest.approx(np.mean(given), abs=1e-3)
    assert f"{given[0]:.2f}" in talker.requests[-1].messages[-1].text, "the policy sees the confidence, not the score"
    assert [call.tool for call in trajectory.frame_calls] == ["assess_quality", "select_frames"]
    assert trajectory.cost == pytest.approx(0.25 + 0.10 + 0.15)
    assert Trajectory.from_json(json.loads(json.dumps(trajectory.to_json()))) == trajectory


class Doubtful(Reader):
    """Unsure of what it reads in the first frames, sure later."""

    def observe(self, batch, query, words):
        return [
            [Observation(i, t, "text", "CAFE" if i % 2 else "BANK", 0.9 if i in (5, 9) else 0.3, (0.1, 0.1, 0.2, 0.2))]
            for i, t in zip(batch.indices, batch.times, strict=True)
        ]

    def summarise(self, observations):
        best = max(observations, key=lambda seen: seen.score)
        return best.label, sum(seen.score for seen in observations) / len(observations)


def test_a_doubtful_call_is_repeated_once_on_frames_of_the_pool_and_the_surer_look_is_kept():
    parts = BLIND | {"selection": UniformGrid()}
    talker = Talker(ASK, "<answer>A</answer>")
    refining = Pipeline(Method("tools", 3, **parts, refine=True), executor(Doubtful()), Prompts("full"))
    trajectory = drive(refining.run(QUESTION, View(clip())), talker)
    (evidence,) = trajectory.evidence
    (retrieved,) = trajectory.frame_calls
    assert trajectory.frames == (0, 14, 29) and retrieved.tool == "retrieve_frames"
    assert len(retrieved.frames) == 4 and not set(retrieved.frames) & set(trajectory.frames)
    assert evidence.calls == 2 == trajectory.calls and evidence.cost == pytest.approx(0.5)
    assert trajectory.cost == pytest.approx(0.5 + 0.2)
    once = Pipeline(Method("tools", 3, **parts), executor(Doubtful()), Prompts("full"))
    first = drive(once.run(QUESTION, View(clip())), Talker(ASK, "<answer>A</answer>"))
    assert first.calls == 1 and first.frame_calls == ()
    assert evidence.confidence >= first.evidence[0].confidence
    if evidence.result != first.evidence[0].result:
        assert "another look, less sure, said" in talker.requests[-1].messages[-1].text


def test_a_sure_call_is_not_repeated():
    sure = Pipeline(Method("tools", 3, **BLIND, refine=True), executor(), Prompts("full"))
    assert drive(sure.run(QUESTION, View(clip())), Talker(ASK, "<answer>A</answer>")).calls == 1


def test_the_policy_routes_among_the_candidates_and_the_table_steps_in():
    two = json.dumps([{"sub_query": "Which word?", "type": "text"}, {"sub_query": "Where?", "type": "spatial"}])
    other = Reader()
    other.name = "caption_frame"
    tools = Executor({"read_text": Reader(), "caption_frame": other}, cache=None, time_limit_s=5.0)
    pipeline = paper(tools, routing=ByPolicy())
    talker = Talker(two, "1 text blur caption_frame\n2 spatial blur read_text", "<answer>A</answer>")
    trajectory = drive(pipeline.run(QUESTION, View(clip())), talker)
    asked = talker.requests[1].messages[-1].text
    assert "1. text: Which word? | tools: read_text (cost 0.25), caption_frame (cost 0.25)" in asked
    assert [item.tool for item in trajectory.evidence] == ["caption_frame", "caption_frame"]
    assert not trajectory.routing_ok, "read_text is no candidate for a spatial demand"
    with pytest.raises(ConfigError, match=r"route\.j2 is missing"):
        Pipeline(pipeline.method, tools, OldPrompts())
    direct = Method("frames", 8, **BLIND)
    with pytest.raises(ConfigError, match=r"direct\.j2 is missing"):
        Pipeline(direct, tools, OldPrompts())


@pytest.mark.parametrize("prompts", ["full", "compact"])
def test_direct_shows_the_frames_and_asks_no_tool(prompts):
    talker = Talker("<think>seen</think><answer>B</answer><confidence>0.7</confidence>")
    pipeline = Pipeline(Method("frames", 8, **BLIND), executor(Reader(fails=True)), Prompts(prompts))
    trajectory = drive(pipeline.run(QUESTION, View(clip())), talker)
    (request,) = talker.requests
    shown = request.messages[-1]
    assert shown.frames == trajectory.frames == UniformGrid().select(Off().profile(clip()), 30, 8)
    assert "A to C" in shown.text and "C. ZOO" in shown.text and "0 (0.00 s)" in shown.text
    assert trajectory.answer.value == "B" and trajectory.calls == 0 and trajectory.cost == 0
    guess = drive(pipeline.run(QUESTION, View(clip())), ScriptedPolicy()).answer
    assert guess.status == "ok" and guess.confidence == pytest.approx(1 / 3, abs=0.001), "it cannot see"


class OldPrompts:
    """A folder of prompts from before there was a routing turn."""

    folder = "old"

    def __contains__(self, role):
        return role not in ("route", "direct")


def test_routing_replies_are_read_line_by_line():
    candidates = [("read_text", "caption_frame"), ("detect_objects", "caption_frame"), ("read_text",)]
    reply = (
        "<think>1 text caption_frame?</think>Sure:\n1. text blur read_text\n2) spatial, blur -> caption_frame\n9 x y"
    )
    assert read_routing(reply, candidates) == ["read_text", "caption_frame", None]
    assert read_routing("1 text read_text\n1 text caption_frame", candidates)[0] == "read_text", "the first line counts"
    assert read_routing("", candidates) == [None, None, None]


def test_measures_are_stored_like_any_tool_output(tmp_path):
    tools = Executor({"assess_quality": AssessQuality()}, ToolCache(tmp_path), time_limit_s=5.0)
    source = clip()
    view = View(source, stored_measurer(tools))
    first = view.profile(Relative())
    source.frames = None  # a second profile decodes nothing
    again = View(source, stored_measurer(tools)).profile(Relative())
    assert again.ramps.tobytes() == first.ramps.tobytes() == Relative().profile(clip()).ramps.tobytes()


def test_each_tool_can_have_frames_of_its_own():
    n = 30
    bad_for_reading = np.where(np.arange(n) % 2 == 0, 0.05, 0.9)
    profile = Profile(
        tuple(range(n)),
        np.zeros(n),
        {},
        np.zeros((n, 10)),
        {"read_text": bad_for_reading, "detect_objects": np.ones(n)},
    )
    own = Pipeline(Method("tools", 4, **ANCHORED, per_tool_frames=True), executor(), Prompts("full"))
    common = Pipeline(Method("tools", 4, **ANCHORED), executor(), Prompts("full"))
    view = View(clip())
    assert own.frames_for("read_text", view, profile, (0, 10, 20, 29)) != (0, 10, 20, 29)
    assert all(f % 2 for f in own.frames_for("read_text", view, profile, (0, 10, 20, 29)))
    assert common.frames_for("read_text", view, profile, (0, 10, 20, 29)) == (0, 10, 20, 29)


class Crowd:
    """A policy that answers lists, keeps their sizes, and fails on questions with a word in them."""

    name = "crowd"

    def __init__(self, tells: bool, bad: str = "never"):
        self.tells, self.bad, self.sizes = tells, bad, []

    def generate(self, requests):
        self.sizes.append(len(requests))
        failed = {i: f"no {self.bad}" for i, r in enumerate(requests) if self.bad in r.messages[1].text}
        replies = [None if i in failed else self.reply(r) for i, r in enumerate(requests)]
        if failed and self.tells:
            raise PolicyError("some failed", replies, failed)
        if failed:
            raise TrustvidError("something failed")
        return replies

    @staticmethod
    def reply(request):
        return ASK if "## Evidence" not in request.messages[-1].text else "<answer>A</answer>"


def test_trajectories_run_side_by_side_and_one_that_fails_leaves_the_others_alone():
    questions = [Question(f"Question {i}, {word}?", ("a", "b")) for i, word in enumerate(("good", "bad", "good"))]
    method = Method("tools", 4, **BLIND)
    pipeline = Pipeline(method, executor(), Prompts("full"))
    alone = [drive(pipeline.run(question, View(clip())), Crowd(True)) for question in questions]
    policy = Crowd(tells=True)
    assert drive_all([pipeline.run(question, View(clip())) for question in questions], policy) == alone
    assert policy.sizes == [3, 3], "two rounds of three"
    for tells, sizes, reason in ((True, [3, 2], "no bad"), (False, [3, 1, 1, 1, 2], "something failed")):
        policy = Crowd(tells, "bad")
        first, second, third = drive_all([pipeline.run(question, View(clip())) for question in questions], policy)
        assert (first, third) == (alone[0], alone[2]) and str(second) == reason
        assert policy.sizes == sizes
    with pytest.raises(TrustvidError, match="no bad"):
        drive(pipeline.run(questions[1], View(clip())), Crowd(True, "bad"))


class Counting(Reader):
    """Counts how often it is asked."""

    def __init__(self, fails: bool = False):
        super().__init__(fails)
        self.asked = 0

    def observe(self, batch, query, words):
        self.asked += 1
        return super().observe(batch, query, words)


@pytest.mark.parametrize("fails", [False, True])
def test_passes_over_one_view_share_their_calls_and_a_failed_one_is_made_again(fails):
    tool, view = Counting(fails), View(clip())
    pipeline = paper(executor(tool))
    passes = [drive(pipeline.run(QUESTION, view), Talker(ASK, "<answer>A</answer>")) for _ in range(3)]
    assert all(one.evidence == passes[0].evidence for one in passes) and bool(passes[0].evidence[0].error) == fails
    once = tool.asked
    drive(pipeline.run(QUESTION, View(clip())), Talker(ASK, "<answer>A</answer>"))
    assert tool.asked == (once + once // 3 if fails else 2 * once)
