"""The forward pass: profile → select → decompose → route → call → synthesise → answer.

One pipeline; the methods of a comparison are presets of its parts, so they share grid, K, tools and budget. It is a
generator that stops wherever the policy has to speak: a scheduler may run many and batch their turns; ``drive`` runs
one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from trustvid.agent import rendering
from trustvid.agent.numbers import parse_confidence, parse_number
from trustvid.agent.parsing import parse_choice
from trustvid.agent.prompting import Prompts
from trustvid.agent.reply_text import parse_json_list
from trustvid.agent.synthesis import Link, link_words, words_of
from trustvid.agent.trajectory import Answer, Trajectory
from trustvid.benchmarks.sample import LETTERS
from trustvid.policy.base import Message, Policy, PolicyRequest
from trustvid.reliability.profile import Profile
from trustvid.seeding import derive_seed
from trustvid.tools.evidence import SEMANTIC_TYPES, Evidence, SemanticType, SubQuery
from trustvid.tools.executor import Executor
from trustvid.video.source import FrameSource

MAX_SUB_QUERIES = 12


class Estimator(Protocol):
    """A frame-reliability estimator (config group ``reliability``)."""

    def profile(self, clip: FrameSource) -> Profile: ...


class Selector(Protocol):
    """A frame selector (config group ``selection``)."""

    def select(self, profile: Profile, n_frames: int, k: int) -> tuple[int, ...]: ...


class ConfidenceRule(Protocol):
    """A tool-confidence rule (config group ``confidence``)."""

    def confidence(self, intrinsic: float, disturbance: Sequence[float]) -> float: ...


class Router(Protocol):
    """A tool router (config group ``routing``)."""

    def route(self, kind: SemanticType, disturbance: str, available: Sequence[str]) -> str: ...


class Synthesis(Protocol):
    """An evidence synthesis (config group ``synthesis``)."""

    def sort(self, evidence: Sequence[Evidence]) -> list[Evidence]: ...


@dataclass(frozen=True)
class Method:
    """A preset of the pipeline (config group ``methods``).

    Attributes:
        evidence: "tools" runs the whole pipeline; "none" asks the policy without any evidence; "chance" picks an
            option by a seeded draw and asks nobody.
        frames: K, frames handed to policy and tools.
    """

    evidence: str
    frames: int
    reliability: Estimator
    selection: Selector
    confidence: ConfidenceRule
    routing: Router
    synthesis: Synthesis

    def __post_init__(self) -> None:
        if self.evidence not in ("tools", "none", "chance"):
            raise ValueError(f"method.evidence={self.evidence!r}; expected tools, none or chance")
        if self.frames < 1:
            raise ValueError(f"method.frames={self.frames}; expected at least 1")


@dataclass(frozen=True)
class Question:
    """What is asked: no truth, no path, no id of the sample's file (tools and policy see nothing else)."""

    text: str
    options: tuple[str, ...] = ()
    numeric: bool = False

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters of the options."""
        return tuple(LETTERS[: len(self.options)])


@dataclass
class View:
    """One condition of a clip with what was already measured on it, so that methods and questions share profiles."""

    clip: FrameSource
    profiles: dict[int, Profile] = field(default_factory=dict)

    def profile(self, estimator: Estimator) -> Profile:
        """The profile of an estimator instance, measured once."""
        key = id(estimator)
        if key not in self.profiles:
            self.profiles[key] = estimator.profile(self.clip)
        return self.profiles[key]


Turns = Generator[PolicyRequest, str, Trajectory]


class Pipeline:
    """Answers questions by one method.

    Args:
        method: the preset.
        executor: runs the tools.
        prompts: the policy's prompts.
    """

    def __init__(self, method: Method, executor: Executor, prompts: Prompts):
        self.method, self.executor, self.prompts = method, executor, prompts

    def run(self, question: Question, view: View) -> Turns:
        """Yield a request whenever the policy has to speak, take its reply, return the trajectory.

        Raises:
            VideoError: the clip cannot be decoded (the sample is then unscored).
        """
        if self.method.evidence == "chance":
            return _chance(question)
        clip = view.clip
        conversation = [Message("system", self.prompts.render("system"))]
        asked = rendering.question_block(question.text, question.letters, question.options)
        if self.method.evidence == "none":
            conversation.append(Message("user", f"{asked}\n\n{self._synthesis_prompt(question, [], [], clip, ())}"))
            reply = yield PolicyRequest(tuple(conversation), clip)
            conversation.append(Message("assistant", reply))
            return Trajectory((), (), "unknown", (), (), True, tuple(conversation), read_answer(reply, question))

        profile = view.profile(self.method.reliability)
        frames = self.method.selection.select(profile, clip.n_frames, self.method.frames)
        first = self.prompts.render(
            "decompose",
            question=asked,
            frames=rendering.frames_block(clip, frames),
            profile=rendering.profile_block(profile, frames),
        )
        conversation.append(Message("user", first, frames))
        reply = yield PolicyRequest(tuple(conversation), clip)
        conversation.append(Message("assistant", reply))
        sub_queries, understood = read_decomposition(reply, question)

        words = words_of(question.text, *question.options)
        evidence = [self._call(query, clip, frames, profile, words) for query in sub_queries]
        evidence = self.method.synthesis.sort(evidence)
        last = self._synthesis_prompt(question, evidence, link_words(evidence, words), clip, frames)
        conversation.append(Message("user", last))
        reply = yield PolicyRequest(tuple(conversation), clip)
        conversation.append(Message("assistant", reply))
        return Trajectory(
            frames=frames,
            reliability=tuple(1.0 - d for d in profile.disturbance_of(frames)),
            dominant=profile.dominant(frames) if profile.disturbance is not None else "unknown",
            sub_queries=tuple(sub_queries),
            evidence=tuple(evidence),
            decomposition_ok=understood,
            messages=tuple(conversation),
            answer=read_answer(reply, question),
        )

    def _call(
        self, query: SubQuery, clip: FrameSource, frames: tuple[int, ...], profile: Profile, words: Sequence[str]
    ) -> Evidence:
        """Route and run one sub-query; set d and the method's confidence."""
        dominant = profile.dominant(frames)
        tool = self.method.routing.route(query.type, dominant, tuple(self.executor.tools))
        evidence = self.executor.run(tool, query, clip, frames, words)
        disturbance = profile.disturbance_of(evidence.frames)
        confidence = self.method.confidence.confidence(evidence.intrinsic, disturbance)
        return replace(evidence, disturbance=disturbance, confidence=confidence)

    def _synthesis_prompt(
        self,
        question: Question,
        evidence: Sequence[Evidence],
        links: Sequence[Link],
        clip: FrameSource,
        frames: Sequence[int],
    ) -> str:
        return self.prompts.render(
            "synthesise",
            evidence=rendering.evidence_block(evidence, links, clip, frames),
            letters=rendering.letter_range(question.letters),
            numeric=question.numeric,
        )


def drive(turns: Turns, policy: Policy) -> Trajectory:
    """Run one pipeline to its end with a policy."""
    try:
        request = next(turns)
        while True:
            request = turns.send(policy.generate([request])[0])
    except StopIteration as stop:
        return stop.value


def read_decomposition(reply: str, question: Question) -> tuple[list[SubQuery], bool]:
    """Sub-queries of a decomposition reply, at most 12, and whether it could be read.

    An unreadable reply makes the question itself one spatial sub-query.

    Entries without a known type or without words are left out; a list with none left counts as unreadable.
    """
    entries = parse_json_list(reply) or []
    queries = [
        SubQuery(str(entry["sub_query"]).strip(), entry["type"])
        for entry in entries
        if isinstance(entry, dict) and entry.get("type") in SEMANTIC_TYPES and str(entry.get("sub_query") or "").strip()
    ]
    if not queries:
        return [SubQuery(question.text, "spatial")], False
    return queries[:MAX_SUB_QUERIES], True


def read_answer(reply: str, question: Question) -> Answer:
    """The policy's last turn as an answer; what cannot be read is "unparsed", never a guess."""
    confidence = parse_confidence(reply)
    source = "stated" if confidence is not None else None
    if question.options:
        choice = parse_choice(reply, question.options)
        status = choice.status if choice.status in ("ok", "abstained") else "unparsed"
        return Answer(choice.letter, status, confidence, source)
    if question.numeric:
        number = parse_number(reply)
        return Answer(
            None if number is None else repr(number), "unparsed" if number is None else "ok", confidence, source
        )
    text = reply.rpartition("<answer>")[2].partition("</answer>")[0].strip()
    return Answer(text or None, "ok" if text else "unparsed", confidence, source)


def _chance(question: Question) -> Trajectory:
    """A seeded draw among the options: same question, same draw."""
    options = question.options
    value = question.letters[derive_seed("chance", question.text, *options) % len(options)] if options else None
    answer = Answer(value, "ok" if value else "unparsed", 1 / len(options) if options else None, "stated")
    return Trajectory((), (), "unknown", (), (), True, (), answer)
