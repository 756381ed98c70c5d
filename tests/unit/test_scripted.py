"""The scripted policy against scenes whose geometry is known: tool outputs → rendered text → answer."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.agent.method import Question
from trustvid.agent.prompting import Prompts
from trustvid.agent.rendering import evidence_block, frames_block, question_block, sub_queries_block
from trustvid.agent.replies import read_routing
from trustvid.agent.routing import CANDIDATES
from trustvid.agent.synthesis import link_words, words_of
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.scripted import ScriptedPolicy
from trustvid.policy.scripted.policy import decompose
from trustvid.policy.scripted.reading import read_scene
from trustvid.policy.scripted.solvers import solver_for
from trustvid.tools.evidence import TOOL_NAMES, Evidence, Observation, SubQuery

CITY = "The camera is level, 4 m above the ground, with a horizontal field of view of 90 degrees; it flies forward at 5 m/s and turns on the spot."
ROOM = "The camera is level, 1.5 m above the floor, with a horizontal field of view of 90 degrees; it only turns on the spot."
FPS = 10


class Walk:
    """A camera path given as (label, frames, degrees per frame) with its perfect tool outputs."""

    def __init__(self, parts: list[tuple[str, int, float]], height: float, things: dict[str, tuple[str, float, float]]):
        self.height, self.things = height, things
        self.steps = [(label, rate) for label, count, rate in parts for _ in range(count)]
        self.clip = ArraySource(np.zeros((len(self.steps) + 1, 120, 160, 3), np.uint8), fps=FPS, video_id="walk")
        self.poses = [(0.0, 0.0, 0.0)]  # x, z, heading
        for label, rate in self.steps:
            x, z, heading = self.poses[-1]
            metres = 5 / FPS if label == "forward" else 0.0
            angle = math.radians(heading)
            self.poses.append((x + metres * math.sin(angle), z + metres * math.cos(angle), heading + rate))

    def evidence(self, frames: list[int]) -> list[Evidence]:
        """Perfect reads, boxes and motion at the given frames; nothing without frames."""
        if not frames:
            return []
        reads, boxes = [], []
        for frame in frames:
            for word, (colour, x, z) in self.things.items():
                box = self._project(frame, x, z)
                if box:
                    boxes.append(Observation(frame, frame / FPS, "object", f"{colour} box", 0.9, box))
                    middle = ((box[0] + box[2]) / 2 - 0.01, 0.45, (box[0] + box[2]) / 2 + 0.01, 0.5)
                    reads.append(Observation(frame, frame / FPS, "text", word, 0.95, middle))
        motion = [
            Observation(
                i,
                i / FPS,
                "motion",
                label,
                0.9,
                None,
                {"yaw_deg": rate, "expansion": 0.0, "end_frame": i + 1, "end_time": (i + 1) / FPS},
            )
            for i, (label, rate) in enumerate(self.steps)
        ]
        return [
            self._call("read_text", "text", reads, frames),
            self._call("detect_objects", "spatial", boxes, frames),
            self._call("recognize_action", "action", motion, frames),
        ]

    @staticmethod
    def _call(tool: str, kind: str, observations: list[Observation], frames: list[int]) -> Evidence:
        return Evidence(SubQuery("?", kind), tool, tuple(observations), "seen", 0.9, tuple(frames), 0.5)

    def _project(self, frame: int, x: float, z: float) -> tuple[float, float, float, float] | None:
        cx, cz, heading = self.poses[frame]
        angle = math.radians(heading)
        right = (x - cx) * math.cos(angle) - (z - cz) * math.sin(angle)
        depth = (x - cx) * math.sin(angle) + (z - cz) * math.cos(angle)
        if depth < 0.8 or abs(right) > depth:
            return None
        column, half = 0.5 + 0.5 * right / depth, 0.1 / depth
        row = 0.5 + 0.5 * self.height / depth * (160 / 120)
        return (max(0.0, column - half), 0.3, min(1.0, column + half), min(row, 1.0)) if row <= 1.2 else None


def spread(walk: Walk, count: int = 8) -> list[int]:
    """Frames spread evenly over the whole walk."""
    return [round(i) for i in np.linspace(0, walk.clip.n_frames - 1, count)]


def conversation(
    walk: Walk, question: str, options: list[str], frames: list[int], evidence: list[Evidence] | None = None
) -> PolicyRequest:
    """What the policy is shown after the tools were called; their perfect outputs unless others are given."""
    evidence = walk.evidence(frames) if evidence is None else evidence
    asked = Question(question, tuple(options))
    links = link_words(evidence, words_of(question, *options))
    first = question_block(question, asked.letters, options) + "\n\n" + frames_block(walk.clip, frames)
    messages = (Message("user", first), Message("user", evidence_block(evidence, links, walk.clip, frames)))
    return PolicyRequest(messages, walk.clip)


def ask(
    walk: Walk,
    question: str,
    options: list[str],
    frames: list[int] | None = None,
    evidence: list[Evidence] | None = None,
) -> tuple[str, float]:
    """(text of the chosen option, stated confidence)."""
    request = conversation(walk, question, options, spread(walk) if frames is None else frames, evidence)
    reply = ScriptedPolicy().generate([request])[0]
    letter = reply.partition("<answer>")[2][0]
    return options["ABCDEFG".index(letter)], float(reply.partition("<confidence>")[2].partition("<")[0])


def city_walk() -> Walk:
    """20 m ahead, a left turn, 10 m ahead: ends at (−10, 20) looking along −x."""
    things = {
        "CAFE": ("red", -25, 20),
        "BANK": ("blue", 12, 24),
        "HOTEL": ("green", -12, 32),
        "MUSEUM": ("cyan", 4, 10),
    }
    return Walk([("forward", 40, 0.0), ("turn left", 12, -7.5), ("forward", 20, 0.0)], 4.0, things)


@pytest.fixture
def flight() -> Walk:
    """The walk through the city."""
    return city_walk()


def test_landmark_position(flight):
    question = f"{CITY} When the video ends, where is the landmark with the sign CAFE relative to you?"
    answer, confidence = ask(flight, question, ["on the left", "straight ahead", "behind", "on the right"])
    assert answer == "straight ahead" and confidence > 0.8


def test_landmark_behind_after_the_turn_by_dead_reckoning(flight):
    question = f"{CITY} When the video ends, where is the landmark with the sign BANK relative to you?"
    assert ask(flight, question, ["behind", "behind on the left", "on the left", "straight ahead"])[0] == "behind"


def test_next_action(flight):
    question = f"{CITY} The video shows your flight so far. You now want to fly to the landmark with the sign HOTEL. What do you do first?"
    options = [
        "keep flying straight ahead",
        "turn left by about 90 degrees",
        "turn right by about 90 degrees",
        "turn around",
    ]
    assert ask(flight, question, options)[0] == "turn right by about 90 degrees"


def test_counterfactual_looks_down_the_road_not_taken(flight):
    question = f"{CITY} At the end of the first straight stretch you turned left. Suppose you had turned right there instead and flown straight on. Towards which landmark would you have flown?"
    assert ask(flight, question, ["CAFE", "BANK", "MUSEUM"])[0] == "BANK"


def test_progress_counts_stretches_and_turns(flight):
    question = f"{CITY} Your planned route: 1. fly forward; 2. turn left; 3. fly forward; 4. turn right. How many steps of the route have you completed when the video ends?"
    assert ask(flight, question, ["1", "2", "3", "4"])[0] == "3"


@pytest.fixture
def sweep() -> Walk:
    """A pan of 240 degrees to the right."""
    things = {
        "DESK": ("red", 0.0, 3.0),
        "SOFA": ("blue", 2.5, 1.5),
        "LAMP": ("green", 2.0, -2.0),
        "BED": ("yellow", -0.5, -3.5),
    }
    return Walk([("turn right", 80, 3.0)], 1.5, things)


def test_nearest_object(sweep):
    question = f"{ROOM} Measured between their centres on the floor, which of these objects is closest to the LAMP?"
    assert ask(sweep, question, ["DESK", "SOFA", "BED"])[0] == "BED"


def test_relative_direction(sweep):
    question = f"{ROOM} Imagine standing at the DESK and facing the BED. Where is the SOFA?"
    assert ask(sweep, question, ["left", "right", "back"])[0] == "left"
    assert ask(sweep, question, ["front-left", "front-right", "back-left", "back-right"])[0] == "front-left"


def test_route(sweep):
    question = (
        f"{ROOM} You stand at the DESK facing the SOFA. Fill in the turns of this walk to the BED: 1. go forward until the SOFA; "
        "2. [turn]; 3. go forward until the LAMP; 4. [turn]; 5. go forward until the BED. Which turns fit?"
    )
    options = ["turn left, turn right", "turn right, turn right", "turn back, turn left", "turn right, turn left"]
    assert ask(sweep, question, options)[0] == "turn right, turn right"


def test_order_of_first_appearance(sweep):
    question = f"{ROOM} In which order do these objects first appear in the video: BED, DESK, LAMP, SOFA?"
    options = ["BED, LAMP, SOFA, DESK", "DESK, SOFA, LAMP, BED", "DESK, LAMP, SOFA, BED", "SOFA, DESK, BED, LAMP"]
    assert ask(sweep, question, options)[0] == "DESK, SOFA, LAMP, BED"


def test_camera_motion_on_any_video(sweep, flight):
    options = ["it turns to the left", "it stands still", "it turns to the right", "it goes forward"]
    assert ask(sweep, "How does the camera move?", options)[0] == "it turns to the right"
    assert ask(flight, "How does the camera move?", options)[0] == "it goes forward"


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("Where are the coloured things, and how does the camera move?", ["spatial", "action"]),
        ("What does the sign say?", ["text"]),
        ("Why is the man late?", ["text", "spatial", "action"]),
        (f"{CITY} When the video ends, where is the landmark?", ["text", "spatial", "action"]),
    ],
)
def test_decomposition_asks_for_what_the_wording_needs(question, kinds):
    assert [need["type"] for need in decompose(question)] == kinds


def test_without_evidence_it_guesses_and_says_so(flight):
    question = f"{CITY} When the video ends, where is the landmark with the sign CAFE relative to you?"
    answer, confidence = ask(flight, question, ["on the left", "straight ahead", "behind", "on the right"], frames=[])
    assert confidence == 0.25
    assert answer == ask(flight, question, ["on the left", "straight ahead", "behind", "on the right"], frames=[])[0]


def test_a_word_that_was_never_read_is_not_placed(flight):
    question = f"{CITY} When the video ends, where is the landmark with the sign ZOO relative to you?"
    assert ask(flight, question, ["on the left", "straight ahead"])[1] == 0.5


def test_reading_back_what_was_rendered(flight):
    evidence = flight.evidence([0, 70])
    text = evidence_block(evidence, link_words(evidence, ("CAFE", "BANK")), flight.clip, [0, 70])
    scene = read_scene(["## Question\nQ?\nOptions:\nA. left; or right\nB. none", text])
    assert scene.question == "Q?" and scene.options == {"A": "left; or right", "B": "none"}
    assert len(scene.boxes) == len(evidence[1].observations) and len(scene.reads) == len(evidence[0].observations)
    assert scene.boxes[0].box == pytest.approx(evidence[1].observations[0].box, abs=1e-3)
    assert [round(part.yaw) for part in scene.motion] == [0, -90, 0]
    assert scene.links["CAFE"] == ("red box", 1.0)


# -- stated probability ------------------------------------------------------------------------------------------------

LANDMARK = f"{CITY} When the video ends, where is the landmark with the sign {{}} relative to you?"
SECTORS = ["straight ahead", "on the left", "on the right", "behind", "behind on the left"]


def doubted(evidence: list[Evidence]) -> list[Evidence]:
    """The same with boxes that the detector itself hardly believes in."""
    reads, boxes, motion = evidence
    return [reads, replace(boxes, observations=tuple(replace(box, score=0.1) for box in boxes.observations)), motion]


def test_one_sighting_is_less_sure_than_six_that_agree(flight):
    question, frames = LANDMARK.format("BANK"), [0, 4, 8, 12, 16, 20]
    alone, one = ask(flight, question, SECTORS, [0], doubted(flight.evidence([0])))
    together, six = ask(flight, question, SECTORS, frames, doubted(flight.evidence(frames)))
    assert alone == together == "behind"
    assert 1 / len(SECTORS) < one < six - 0.02


def test_a_sighting_that_the_detector_doubts_is_less_sure(flight):
    question = LANDMARK.format("CAFE")
    sure = ask(flight, question, SECTORS, [60])
    unsure = ask(flight, question, SECTORS, [60], doubted(flight.evidence([60])))
    assert sure[0] == unsure[0] == "straight ahead" and unsure[1] < sure[1] - 0.02


def test_sightings_that_contradict_one_another_are_not_believed(flight):
    elsewhere = Walk([("forward", 40, 0.0), ("turn left", 12, -7.5), ("forward", 20, 0.0)], 4.0, flight.things.copy())
    elsewhere.things["CAFE"] = ("red", 14, 60)
    seen, other = flight.evidence([45, 50, 60, 72]), elsewhere.evidence([0, 5, 10, 20])
    both = [
        replace(mine, observations=mine.observations + theirs.observations, frames=theirs.frames + mine.frames)
        for mine, theirs in zip(seen[:2], other[:2], strict=True)
    ]
    question = LANDMARK.format("CAFE")
    agreed = ask(flight, question, SECTORS, [45, 50, 60, 72])
    contradicted = ask(flight, question, SECTORS, [0, 5, 10, 20, 45, 50, 60, 72], [*both, seen[2]])
    assert agreed[0] == "straight ahead" and agreed[1] > 0.9
    assert contradicted[1] < agreed[1] - 0.1


def test_a_guess_states_one_out_of_n_even_when_tools_use_the_words_of_an_option(flight, sweep):
    action = f"{CITY} You now want to fly to the landmark with the sign ZOO. What do you do first?"
    turns = ["turn around", "turn left by about 90 degrees", "turn right by about 90 degrees"]
    assert ask(flight, action, turns)[1] == pytest.approx(1 / 3, abs=1e-3)
    side = f"{ROOM} Imagine standing at the DESK and facing the BED. Where is the CLOCK?"
    assert ask(sweep, side, ["front-left", "front-right", "back-left", "back-right"])[1] == 0.25


def test_a_turn_hidden_in_an_unseen_stretch_is_allowed_for(flight):
    question = f"{CITY} Your planned route: 1. fly forward; 2. turn left; 3. fly forward; 4. turn right. How many steps of the route have you completed when the video ends?"
    reads, boxes, motion = flight.evidence(spread(flight))
    gaps = replace(motion, observations=tuple(step for step in motion.observations if not 41 <= step.frame < 50))
    whole = ask(flight, question, ["1", "2", "3", "4"])
    answer, confidence = ask(flight, question, ["1", "2", "3", "4"], evidence=[reads, boxes, gaps])
    assert whole[0] == answer == "3" and whole[1] > 0.95
    assert 0.5 < confidence < whole[1]


def test_without_motion_it_is_less_sure_where_things_are_when_the_video_ends(flight):
    reads, boxes, motion = flight.evidence([60])
    known = ask(flight, LANDMARK.format("CAFE"), SECTORS, [60], [reads, boxes, motion])
    assert 1 / len(SECTORS) <= ask(flight, LANDMARK.format("CAFE"), SECTORS, [60], [reads, boxes])[1] < known[1] - 0.1


def test_options_that_hang_on_a_thing_never_seen_share_what_is_left(sweep):
    question = (
        f"{ROOM} You stand at the DESK facing the SOFA. Fill in the turns of this walk to the CLOCK: 1. go forward until the SOFA; "
        "2. [turn]; 3. go forward until the LAMP; 4. [turn]; 5. go forward until the CLOCK. Which turns fit?"
    )
    options = ["turn left, turn right", "turn right, turn right", "turn back, turn left", "turn right, turn left"]
    answer, confidence = ask(sweep, question, options)
    assert answer in ("turn right, turn right", "turn right, turn left") and 0.4 < confidence < 0.75


def test_same_messages_same_reply_whatever_was_asked_before(flight, sweep):
    first = conversation(flight, LANDMARK.format("BANK"), SECTORS, spread(flight))
    nearest = f"{ROOM} Measured between their centres on the floor, which of these objects is closest to the LAMP?"
    second = conversation(sweep, nearest, ["DESK", "SOFA", "BED"], spread(sweep))
    policy = ScriptedPolicy()
    alone = [policy.generate([first])[0], policy.generate([second])[0]]
    assert policy.generate([second, first, second]) == [alone[1], alone[0], alone[1]]
    assert ScriptedPolicy().generate([first, second]) == alone


@pytest.mark.parametrize("frames", [[4], [0, 30], [0, 10, 20, 30, 40, 50, 60, 70]])
@pytest.mark.parametrize(
    ("question", "options"),
    [
        (LANDMARK.format("MUSEUM"), SECTORS),
        (f"{CITY} Suppose you had turned right there instead.", ["CAFE", "BANK", "MUSEUM"]),
        (f"{CITY} How many steps of the route have you completed?", ["2", "3", "4", "5"]),
        (f"{ROOM} which of these objects is closest to the MUSEUM?", ["CAFE", "BANK", "HOTEL"]),
        (
            f"{ROOM} In which order do these objects first appear in the video: BANK, HOTEL, MUSEUM?",
            ["BANK, MUSEUM, HOTEL", "HOTEL, BANK, MUSEUM"],
        ),
        ("How does the camera move?", ["it goes forward", "it turns to the left"]),
    ],
)
def test_probabilities_sum_to_one_and_none_is_zero(flight, question, options, frames):
    scene = read_scene([message.text for message in conversation(flight, question, options, frames).messages])
    solver, match = solver_for(question)
    finding = solver(scene, match)
    assert set(finding.shares) == set(scene.options)
    assert sum(finding.shares.values()) == pytest.approx(1.0)
    assert min(finding.shares.values()) > 0.0 and max(finding.shares.values()) < 1.0
    assert finding.shares[finding.answer] >= 1 / len(options)


def test_tools_are_chosen_among_those_listed_by_what_the_disturbance_leaves_intact():
    queries = [SubQuery("Which words?", "text"), SubQuery("Where is what?", "spatial"), SubQuery("Then?", "temporal")]
    candidates = [CANDIDATES[query.type] for query in queries]
    costs = dict.fromkeys(TOOL_NAMES, 0.5)

    def chosen(prompts: str, disturbance: str) -> list[str | None]:
        block = sub_queries_block(queries, candidates, costs)
        text = Prompts(prompts).render("route", sub_queries=block, disturbance=disturbance)
        return read_routing(reply_to(text), candidates)

    for prompts in ("full", "compact"):
        assert chosen(prompts, "clean") == ["read_text", "detect_objects", "track_temporal"]
        assert chosen(prompts, "occlusion") == ["read_text", "caption_frame", "recognize_action"]
    nothing = sub_queries_block(queries[:1], [[]], {})
    assert reply_to(f"{nothing}\nDisturbance: blur") == "1 text blur none"


def reply_to(text: str) -> str:
    return ScriptedPolicy().generate([PolicyRequest((Message("user", text),), clip=None)])[0]
