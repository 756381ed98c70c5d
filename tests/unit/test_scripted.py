"""The scripted policy against scenes whose geometry is known: tool outputs → rendered text → answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.agent.pipeline import Question
from trustvid.agent.rendering import evidence_block, frames_block, question_block
from trustvid.agent.synthesis import link_words, words_of
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.scripted import ScriptedPolicy
from trustvid.policy.scripted.policy import decompose
from trustvid.policy.scripted.reading import read_scene
from trustvid.tools.evidence import Evidence, Observation, SubQuery

CITY = "The camera is level, 4 m above the ground, with a horizontal field of view of 90 degrees; it flies forward at 5 m/s and turns on the spot."
ROOM = "The camera is level, 1.5 m above the floor, with a horizontal field of view of 90 degrees; it only turns on the spot."
FPS = 10


class Walk:
    """A camera path given as (label, frames, degrees per frame) with its perfect tool outputs."""

    def __init__(self, parts: list[tuple[str, int, float]], height: float, things: dict[str, tuple[str, float, float]]):
        self.height, self.things = height, things
        self.steps = [(label, rate) for label, count, rate in parts for _ in range(count)]
        self.clip = ArraySource(np.zeros((len(self.steps) + 1, 24, 32, 3), np.uint8), fps=FPS, video_id="walk")
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
        row = 0.5 + 0.5 * self.height / depth * (32 / 24)
        return (max(0.0, column - half), 0.3, min(1.0, column + half), min(row, 1.0)) if row <= 1.2 else None


def ask(walk: Walk, question: str, options: list[str], frames: list[int] | None = None) -> tuple[str, float]:
    """(text of the chosen option, stated confidence)."""
    grid = frames if frames is not None else [round(i) for i in np.linspace(0, walk.clip.n_frames - 1, 8)]
    asked = Question(question, tuple(options))
    evidence = walk.evidence(grid)
    links = link_words(evidence, words_of(question, *options))
    first = question_block(question, asked.letters, options) + "\n\n" + frames_block(walk.clip, grid)
    messages = (Message("user", first), Message("user", evidence_block(evidence, links, walk.clip, grid)))
    reply = ScriptedPolicy().generate([PolicyRequest(messages, walk.clip)])[0]
    letter = reply.partition("<answer>")[2][0]
    return options["ABCDEFG".index(letter)], float(reply.partition("<confidence>")[2].partition("<")[0])


@pytest.fixture
def flight() -> Walk:
    """20 m ahead, a left turn, 10 m ahead: ends at (−10, 20) looking along −x."""
    things = {
        "CAFE": ("red", -25, 20),
        "BANK": ("blue", 12, 24),
        "HOTEL": ("green", -12, 32),
        "MUSEUM": ("cyan", 4, 10),
    }
    return Walk([("forward", 40, 0.0), ("turn left", 12, -7.5), ("forward", 20, 0.0)], 4.0, things)


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
