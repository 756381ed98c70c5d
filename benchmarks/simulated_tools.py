"""Simulated tools: questions in words alone, on which it can be measured in minutes whether a policy learns to route.

A question asks for one thing or two. The policy takes it apart, names a tool for each part, told how disturbed the clip
is, and reads the answer off what the tools report. Each type of question has the two candidate tools of the routing
table; which of them reads rightly depends on the dominant disturbance, mostly as Table 18 has it, but not in three
cells. So a policy can beat every fixed choice, and the table too, and how far it could get is known.

    turn 1   where sign , colour bus                              →  1 sign spatial
                                                                     2 bus attribute
    turn 2   blur 4 brightness 0 occlusion 1 dominant blur        →  1 spatial blur caption_frame
                                                                     2 attribute blur caption_frame
    turn 3   1 caption_frame left high ; centre low               →  <think> first second</think>
             2 caption_frame red low ; blue medium                   <answer> left blue</answer>

A report holds two readings: what the tool saw, and another value of a lower tier of confidence, in random order. Both
are "low" at times: then what the tool saw stands first. Numbers are made up; only the comparison of policies counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trustvid.agent.driving import Turns
from trustvid.agent.routing import CANDIDATES, TABLE_18
from trustvid.grpo.episodes import Episode, Outcome, ToolCall
from trustvid.grpo.reward import RewardInputs
from trustvid.policy.base import Message, PolicyRequest
from trustvid.seeding import derive_rng
from trustvid.training.conversations import Conversation

OBJECTS = ("sign", "bus", "lamp", "door", "box", "drone", "chair", "tower")
ASKED_BY = {"where": "spatial", "colour": "attribute", "when": "temporal", "doing": "action", "letters": "text"}
WORD_OF = {kind: word for word, kind in ASKED_BY.items()}
VALUES = {
    "spatial": ("left", "right", "above", "below", "centre", "behind"),
    "attribute": ("red", "green", "blue", "white", "black", "yellow"),
    "temporal": ("first", "last", "before", "after", "while", "then"),
    "action": ("turns", "stops", "rises", "moves", "hover", "rotates"),
    "text": ("north", "south", "east", "west", "upper", "lower"),
}
TYPES = tuple(VALUES)
DISTURBANCES = ("clean", "blur", "brightness", "occlusion")
COSTS = {"detect_objects": 0.5, "caption_frame": 0.3, "track_temporal": 0.7, "recognize_action": 0.6, "read_text": 0.25}
TOOLS = tuple(COSTS)
TIERS = ("low", "medium", "high")
WORDS = (
    *OBJECTS,
    *ASKED_BY,
    *(value for values in VALUES.values() for value in values),
    *TYPES,
    *DISTURBANCES,
    *TOOLS,
    *TIERS,
    *("second", "dominant", ",", ";", "0", "1", "2", "3", "4"),
)
"""All words of these conversations (for ``TinyPolicy(words=…)``): each one token."""

# Where the better tool is not the one of Table 18: a policy that only repeats the table does not reach the top.
AGAINST_TABLE = {
    ("attribute", "brightness"): "detect_objects",
    ("action", "occlusion"): "caption_frame",
    ("text", "occlusion"): "caption_frame",
}
_STRANGER = 0.2  # how often a tool reads rightly that is no candidate for the type


def best_tool(kind: str, disturbance: str) -> str:
    """The candidate that reads rightly more often."""
    return AGAINST_TABLE.get((kind, disturbance), TABLE_18[kind][disturbance])


def skill(kind: str, disturbance: str, tool: str) -> float:
    """How often a tool reads rightly: 0.84–0.96 for the better candidate, 0.38–0.62 for the other one."""
    if tool not in CANDIDATES[kind]:
        return _STRANGER
    draw = derive_rng("simulated tools", kind, disturbance, tool).random()
    return 0.84 + 0.12 * draw if tool == best_tool(kind, disturbance) else 0.38 + 0.24 * draw


@dataclass(frozen=True)
class Part:
    """One thing that a question asks for.

    Attributes:
        thing, kind: one of ``OBJECTS`` and ``TYPES``.
    """

    thing: str
    kind: str

    @property
    def key(self) -> str:
        """As a sub-query."""
        return f"{self.thing} {self.kind}"


@dataclass(frozen=True)
class Question:
    """A question under a disturbance.

    Attributes:
        key: its name; what tools read derives from it.
        parts: what it asks for, one thing or two of different types.
        truth: the right value of each part.
        levels: strength of each disturbance, 0–4.
        dominant: the strongest one, or "clean".
    """

    key: str
    parts: tuple[Part, ...]
    truth: tuple[str, ...]
    levels: tuple[int, ...]
    dominant: str

    @property
    def words(self) -> str:
        """As it is asked."""
        return " ,".join(f" {WORD_OF[part.kind]} {part.thing}" for part in self.parts)

    @property
    def profile(self) -> str:
        """What the policy is told of the clip."""
        levels = " ".join(f"{name} {level}" for name, level in zip(DISTURBANCES[1:], self.levels, strict=True))
        return f" {levels} dominant {self.dominant}"


@dataclass(frozen=True)
class Report:
    """What a tool says.

    Attributes:
        tool: who.
        readings: two values, each with its tier, in the order they are written.
        seen: number of the reading that the tool saw, 0 or 1.
        confidence: its own, 0–1.
    """

    tool: str
    readings: tuple[tuple[str, str], tuple[str, str]]
    seen: int
    confidence: float

    @property
    def value(self) -> str:
        """What the tool saw."""
        return self.readings[self.seen][0]

    @property
    def words(self) -> str:
        """As evidence."""
        return f"{self.tool} " + " ; ".join(" ".join(reading) for reading in self.readings)


def make_question(seed: int, number: int, dominant: Sequence[str] = DISTURBANCES) -> Question:
    """Question ``number`` of a series, its disturbance drawn from ``dominant``."""
    rng = derive_rng("simulated question", seed, number)
    kinds = rng.permutation(len(TYPES))[: 1 if rng.random() < 0.6 else 2]
    parts = tuple(Part(OBJECTS[rng.integers(len(OBJECTS))], TYPES[kind]) for kind in kinds)
    truth = tuple(VALUES[part.kind][rng.integers(6)] for part in parts)
    chosen = dominant[rng.integers(len(dominant))]
    levels = [int(level) for level in rng.integers(0, 2, 3)]
    if chosen != "clean":
        levels[DISTURBANCES.index(chosen) - 1] = int(rng.integers(2, 5))
    return Question(f"{seed}-{number}", parts, truth, tuple(levels), chosen)


def report(question: Question, part: Part, tool: str) -> Report:
    """What ``tool`` says when asked for ``part``, the same each time. What is not in the question it guesses."""
    rng = derive_rng("simulated report", question.key, part.key, tool)
    known = dict(zip(question.parts, question.truth, strict=True))
    values = VALUES[part.kind]
    truth = known.get(part, values[rng.integers(6)])
    chance = skill(part.kind, question.dominant, tool) if part in known else _STRANGER
    right = bool(rng.random() < chance)
    seen = truth if right else _other(values, truth, rng)
    confidence = float(np.clip(0.15 + 0.45 * chance + 0.3 * right + rng.normal(0, 0.1), 0.01, 1.0))
    tier = 2 if confidence >= 0.7 else 1 if confidence >= 0.3 else 0
    readings = [(seen, TIERS[tier]), (_other(values, seen, rng), TIERS[rng.integers(max(tier, 1))])]
    place = int(rng.integers(2)) if tier else 0
    if place:
        readings.reverse()
    return Report(tool, (readings[0], readings[1]), place, confidence)


def _other(values: Sequence[str], but: str, rng: np.random.Generator) -> str:
    rest = [value for value in values if value != but]
    return rest[rng.integers(len(rest))]


# -- a pass ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """What came of one pass.

    Attributes:
        parts: the decomposition; empty where it could not be read.
        reports: of the tools that the policy named; empty where they could not be read.
        answer: values in the order of the parts; None where it could not be read.
    """

    parts: tuple[Part, ...] = ()
    reports: tuple[Report, ...] = ()
    answer: tuple[str, ...] | None = None


@dataclass(frozen=True)
class NoVideo:
    """What requests without frames have for a clip: a name, from which draws derive."""

    digest: str

    def frame_key(self, index: int) -> str:
        raise LookupError(f"{self.digest} has no frames; frame {index} was asked for")


def go_through(question: Question) -> Turns[Pass]:
    """One pass: three turns of the policy, fewer where one cannot be read."""
    messages = [Message("user", question.words)]

    def request() -> PolicyRequest:
        return PolicyRequest(tuple(messages), NoVideo(question.key))  # type: ignore[arg-type]

    reply = yield request()
    parts = read_parts(reply)
    if not parts:
        return Pass()
    messages += [Message("assistant", reply), Message("user", question.profile)]
    reply = yield request()
    tools = read_tools(reply)
    if len(tools) != len(parts):
        return Pass(parts)
    reports = tuple(report(question, part, tool) for part, tool in zip(parts, tools, strict=True))
    messages += [Message("assistant", reply), Message("user", evidence_of(reports))]
    reply = yield request()
    return Pass(parts, reports, read_answer(reply))


def evidence_of(reports: Sequence[Report]) -> str:
    """The reports as the policy is shown them."""
    return "\n".join(f"{number} {one.words}" for number, one in enumerate(reports, 1))


def read_parts(reply: str) -> tuple[Part, ...]:
    """The decomposition; empty where it is none."""
    rows = [line.split(" ") for line in reply.split("\n")]
    if not all(
        len(row) == 3 and row[0] == str(place) and row[1] in OBJECTS and row[2] in TYPES
        for place, row in enumerate(rows, 1)
    ):
        return ()
    return tuple(Part(thing, kind) for _, thing, kind in rows)


def read_tools(reply: str) -> tuple[str, ...]:
    """The tools, one for each line; empty where a line is out of form."""
    rows = [line.split(" ") for line in reply.split("\n")]
    if not all(
        len(row) == 4 and row[0] == str(place) and row[1] in TYPES and row[2] in DISTURBANCES and row[3] in TOOLS
        for place, row in enumerate(rows, 1)
    ):
        return ()
    return tuple(tool for *_, tool in rows)


def read_answer(reply: str) -> tuple[str, ...] | None:
    """The values of an answer; None where it is out of form."""
    found = re.fullmatch(r"<think>( (?:first|second))+</think><answer>((?: \w+)+)</answer>", reply)
    return tuple(found[2].split()) if found else None


def outcome_of(question: Question, done: Pass) -> Outcome:
    """What the reward looks at, and the calls that the policy routed."""
    asked = dict(zip(question.parts, question.truth, strict=True))
    correct = set(done.parts) == set(asked) and done.answer == tuple(asked[part] for part in done.parts)
    calls = tuple(
        ToolCall(number, part.key, one.tool, one.confidence, COSTS[one.tool])
        for number, (part, one) in enumerate(zip(done.parts, done.reports, strict=False))
    )
    inputs = RewardInputs(
        correct=correct,
        sub_queries=len(done.parts),
        m_star=float(len(asked)),
        confidences=tuple(call.confidence for call in calls),
        costs=tuple(call.cost for call in calls),
        well_formed=done.answer is not None,
    )
    best = [
        one.tool == best_tool(part.kind, question.dominant) for part, one in zip(done.parts, done.reports, strict=False)
    ]
    record = {"decomposed": set(done.parts) == set(asked), "best": sum(best), "calls": len(best)}
    return Outcome(inputs, calls, 1 if calls else None, record)


class SimulatedTools:
    """An environment (:class:`~trustvid.grpo.episodes.Environment`) of ``size`` questions, new ones in each epoch.

    Args:
        seed: of the series.
        size: questions of an epoch.
        dominant: disturbances they are drawn from.
    """

    def __init__(self, seed: int, size: int, dominant: Sequence[str] = DISTURBANCES):
        self.seed, self.size, self.dominant = seed, size, tuple(dominant)

    def __len__(self) -> int:
        return self.size

    def question(self, index: int, epoch: int = 0) -> Question:
        """Question ``index`` of an epoch."""
        return make_question(self.seed, epoch * self.size + index, self.dominant)

    def episode(self, index: int, epoch: int) -> Episode:
        """Question ``index``, to be gone through any number of times."""
        question = self.question(index, epoch)
        return Episode(question.key, lambda: go_through(question), lambda done: outcome_of(question, done))


# -- routing rules and teachers ----------------------------------------------------------------------------------------

Rule = Callable[[Question, Part], str]


def solved(question: Question, rule: Rule) -> bool:
    """Whether the answer is right when everything but the routing is done faultlessly."""
    reports = [report(question, part, rule(question, part)) for part in question.parts]
    return all(one.value == truth for one, truth in zip(reports, question.truth, strict=True))


def table_rule(question: Question, part: Part) -> str:
    """Table 18."""
    return TABLE_18[part.kind][question.dominant]


def oracle_rule(question: Question, part: Part) -> str:
    """The better tool of each cell."""
    return best_tool(part.kind, question.dominant)


def random_rule(question: Question, part: Part) -> str:
    """One of the two candidates, as a coin falls."""
    return CANDIDATES[part.kind][derive_rng("random rule", question.key, part.key).integers(2)]


def fixed_rule(dominant: Sequence[str]) -> Rule:
    """For each type the one tool that is best over these disturbances, known from the simulation itself."""
    chosen = {
        kind: max(CANDIDATES[kind], key=lambda tool: sum(skill(kind, name, tool) for name in dominant))
        for kind in TYPES
    }
    return lambda question, part: chosen[part.kind]


def habits_of(seed: int) -> dict[tuple[str, str], str]:
    """An arbitrary favourite for each cell: the better tool in 8 of 15 disturbed and 2 of 5 clean ones."""
    rng = derive_rng("habits", seed)
    habits = {}
    for names, right in ((DISTURBANCES[1:], 8), (DISTURBANCES[:1], 2)):
        cells = [(kind, name) for kind in TYPES for name in names]
        for rank, place in enumerate(rng.permutation(len(cells))):
            kind, name = cells[place]
            (worse,) = set(CANDIDATES[kind]) - {best_tool(kind, name)}
            habits[kind, name] = best_tool(kind, name) if rank < right else worse
    return habits


def teacher_rule(seed: int, habits: bool) -> Rule:
    """How examples route: any tool in a tenth of the calls, else one of the two candidates.

    With ``habits`` the favourite of :func:`habits_of` is seven times in ten the one, otherwise both are as likely.
    """
    favourites = habits_of(seed) if habits else {}

    def rule(question: Question, part: Part) -> str:
        rng = derive_rng("teacher", seed, question.key, part.key)
        if rng.random() < 0.1:
            return TOOLS[rng.integers(len(TOOLS))]
        pair = CANDIDATES[part.kind]
        favourite = favourites.get((part.kind, question.dominant), pair[0])
        (rest,) = set(pair) - {favourite}
        return favourite if rng.random() < (0.7 if habits else 0.5) else rest

    return rule


def trajectory(question: Question, rule: Rule) -> Conversation:
    """A whole pass as an example: taken apart and answered faultlessly, routed by ``rule``."""
    tools = [rule(question, part) for part in question.parts]
    reports = [report(question, part, tool) for part, tool in zip(question.parts, tools, strict=True)]
    turns = [
        (question.words, [f"{part.thing} {part.kind}" for part in question.parts]),
        (
            question.profile,
            [f"{part.kind} {question.dominant} {tool}" for part, tool in zip(question.parts, tools, strict=True)],
        ),
    ]
    messages: list[Message] = []
    for words, lines in turns:
        reply = "\n".join(f"{number} {line}" for number, line in enumerate(lines, 1))
        messages += [Message("user", words), Message("assistant", reply)]
    return Conversation(question.key, (*messages, *_synthesis(reports)))


def synthesis(question: Question, rule: Rule) -> Conversation:
    """Evidence and answer alone: reading reports is the hardest thing to learn, and learnt soonest by itself."""
    reports = [report(question, part, rule(question, part)) for part in question.parts]
    return Conversation(question.key, _synthesis(reports))


def _synthesis(reports: Sequence[Report]) -> tuple[Message, Message]:
    places = " ".join(("first", "second")[one.seen] for one in reports)
    values = " ".join(one.value for one in reports)
    reply = f"<think> {places}</think><answer> {values}</answer>"
    return Message("user", evidence_of(reports)), Message("assistant", reply)
