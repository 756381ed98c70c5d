"""The forward pass: profile → select → decompose → route → call → synthesise → answer.

One pipeline; the methods of a comparison are presets of its parts, so they share grid, K, tools and budget. It is a
generator that stops wherever the policy has to speak: a scheduler may run many and batch their turns; ``drive`` runs
one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from trustvid.agent import frame_tools, rendering
from trustvid.agent.method import Method, Question, View
from trustvid.agent.prompting import Prompts
from trustvid.agent.replies import read_answer, read_decomposition, read_routing
from trustvid.agent.routing import CANDIDATES, column_of
from trustvid.agent.synthesis import words_of
from trustvid.agent.trajectory import Answer, FrameCall, Trajectory
from trustvid.errors import ConfigError, TrustvidError
from trustvid.policy.base import Message, Policy, PolicyError, PolicyRequest
from trustvid.reliability.confidence import Call
from trustvid.reliability.profile import Profile
from trustvid.seeding import derive_seed
from trustvid.tools.evidence import SEMANTIC_TYPES, Evidence, Observation, SubQuery
from trustvid.tools.executor import Executor

REFINE_BELOW = 0.4  # θ_refine: a call less sure than this is repeated once (released code)

Turns = Generator[PolicyRequest, str, Trajectory]


@dataclass
class _Pass:
    """What one pass works on and has done so far."""

    question: Question
    view: View
    profile: Profile
    relevance: np.ndarray
    frames: tuple[int, ...]
    words: tuple[str, ...]
    frame_calls: list[FrameCall] = field(default_factory=list)


class Pipeline:
    """Answers questions by one method.

    Args:
        method: the preset.
        executor: runs the tools.
        prompts: the policy's prompts.

    Raises:
        ConfigError: the method has a turn that the prompts do not know.
    """

    def __init__(self, method: Method, executor: Executor, prompts: Prompts):
        turns = [("route", method.routing.asks_policy), ("direct", method.evidence == "frames")]
        absent = [role for role, needed in turns if needed and role not in prompts]
        if absent:
            raise ConfigError(
                [f"prompts: {prompts.folder}/{role}.j2 is missing, a turn of this method" for role in absent]
            )
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
        if self.method.evidence != "tools":
            conversation.append(self._only_question(question, view))
            reply = yield PolicyRequest(tuple(conversation), clip)
            frames = conversation[-1].frames
            conversation.append(Message("assistant", reply))
            return Trajectory(frames, (), "unknown", (), (), True, tuple(conversation), read_answer(reply, question))

        work = self._begin(question, view)
        conversation.append(Message("user", self._decomposition_prompt(work), work.frames))
        reply = yield PolicyRequest(tuple(conversation), clip)
        conversation.append(Message("assistant", reply))
        sub_queries, understood = read_decomposition(reply, question)

        tools, routed = self._route(sub_queries, work), True
        if self.method.routing.asks_policy:
            conversation.append(Message("user", self._routing_prompt(sub_queries, work)))
            reply = yield PolicyRequest(tuple(conversation), clip)
            conversation.append(Message("assistant", reply))
            chosen = read_routing(reply, [self._candidates(query) for query in sub_queries])
            routed = None not in chosen
            tools = [mine or fallback for mine, fallback in zip(chosen, tools, strict=True)]

        evidence = [self._call(query, tool, work) for query, tool in zip(sub_queries, tools, strict=True)]
        evidence = self.method.synthesis.sort(evidence)
        links = self.method.synthesis.link(evidence, work.words)
        block = rendering.evidence_block(evidence, links, clip, work.frames)
        conversation.append(Message("user", self._synthesis_prompt(question, block)))
        reply = yield PolicyRequest(tuple(conversation), clip)
        conversation.append(Message("assistant", reply))
        measured = work.profile.disturbance is not None
        return Trajectory(
            frames=work.frames,
            reliability=work.profile.reliability_of(work.frames) if measured else (),
            dominant=work.profile.dominant(work.frames) if measured else "unknown",
            sub_queries=tuple(sub_queries),
            evidence=tuple(evidence),
            decomposition_ok=understood,
            messages=tuple(conversation),
            answer=read_answer(reply, question),
            frame_calls=tuple(work.frame_calls),
            routing_ok=routed,
        )

    # -- frames ----------------------------------------------------------------------------------------------------

    def _begin(self, question: Question, view: View) -> _Pass:
        """Profile the clip and select frames."""
        profile, relevance, frames = self._select(question, view)
        work = _Pass(question, view, profile, relevance, frames, words_of(question.text, *question.options))
        if profile.disturbance is not None:
            work.frame_calls += [frame_tools.assessed(profile), frame_tools.selected(profile, frames)]
        return work

    def _select(self, question: Question, view: View) -> tuple[Profile, np.ndarray, tuple[int, ...]]:
        """The profile, the relevance of its frames to the question, and the selected frames."""
        profile = view.profile(self.method.reliability)
        words = words_of(question.text, *question.options)
        relevance = self.method.relevance.relevance(view.clip, profile.indices, question.text, words, self.executor)
        frames = self.method.selection.select(profile, view.clip.n_frames, self.method.frames, relevance)
        return profile, relevance, frames

    def frames_for(
        self,
        tool: str,
        view: View,
        profile: Profile,
        selected: tuple[int, ...],
        relevance: np.ndarray | None = None,
    ) -> tuple[int, ...]:
        """Source indices handed to a tool: the selected ones, unless the method or the tool's kind says otherwise.

        ``relevance``: of the profiled frames to the question; None where there is no question.
        """
        n_frames, k = view.clip.n_frames, self.method.frames
        known = self.executor.tools.get(tool)
        if known is not None and known.span == "pair":
            return self.method.selection.around(selected, n_frames, k)
        if self.method.per_tool_frames and tool in profile.yields:
            own = replace(profile, disturbance=1.0 - profile.yields[tool], yields={})
            return self.method.selection.select(own, n_frames, k, relevance)
        return selected

    def tools_in_use(self, profile: Profile, selected: tuple[int, ...]) -> list[str]:
        """Installed tools that sub-queries may be sent to on these frames: what is worth computing in advance."""
        if self.method.routing.asks_policy:
            wanted = {tool for tools in CANDIDATES.values() for tool in tools}
        else:
            column, available = column_of(profile.dominant(selected)), tuple(self.executor.tools)
            queries = [SubQuery("", kind) for kind in SEMANTIC_TYPES]
            wanted = {self.method.routing.route(query, column, available) for query in queries}
        return [name for name in self.executor.tools if name in wanted]

    # -- calls -----------------------------------------------------------------------------------------------------

    def _candidates(self, query: SubQuery) -> list[str]:
        return [tool for tool in CANDIDATES[query.type] if tool in self.executor.tools]

    def _route(self, queries: Sequence[SubQuery], work: _Pass) -> list[str]:
        """The tool for each sub-query by the method's own rule."""
        dominant = work.profile.dominant(work.frames)
        available = tuple(self.executor.tools)
        return [self.method.routing.route(query, column_of(dominant), available) for query in queries]

    def _call(self, query: SubQuery, tool: str, work: _Pass) -> Evidence:
        """One call; where it is unsure, the method refines, and the pool is not empty, once more on pool frames."""
        frames = self.frames_for(tool, work.view, work.profile, work.frames, work.relevance)
        first = self._judged(self.executor.run(tool, query, work.view.clip, frames, work.words), work.profile)
        if not self.method.refine or first.confidence >= REFINE_BELOW:
            return first
        more = frame_tools.retrieved(work.profile, frames)
        if more is None:
            return first
        work.frame_calls.append(more)
        second = self._judged(self.executor.run(tool, query, work.view.clip, more.frames, work.words), work.profile)
        kept, other = (second, first) if second.confidence > first.confidence else (first, second)
        note = "" if kept.result == other.result else f"another look, less sure, said: {other.result}"
        return replace(kept, calls=2, cost=first.cost + second.cost, note=note)

    def _judged(self, evidence: Evidence, profile: Profile) -> Evidence:
        """The evidence with d of its frames and the confidences of the method's rule."""
        disturbance = profile.disturbance_of(evidence.frames)
        tool = self.executor.tools.get(evidence.tool)
        backend = str(tool.settings().get("backend", "")) if tool else ""
        judged = self.method.confidence.judge(_as_call(evidence, backend, profile, disturbance))
        observations = evidence.observations
        if judged.observations is not None:
            observations = tuple(
                replace(seen, confidence=round(c, 4)) for seen, c in zip(observations, judged.observations, strict=True)
            )
        return replace(evidence, observations=observations, disturbance=disturbance, confidence=judged.call)

    # -- prompts ---------------------------------------------------------------------------------------------------

    def _only_question(self, question: Question, view: View) -> Message:
        """The question for a policy that gets no tool results: with the selected frames, or with nothing at all."""
        if self.method.evidence == "none":
            nothing = self._synthesis_prompt(question, "## Evidence\nnone was gathered")
            return Message("user", f"{_asked(question)}\n\n{nothing}")
        frames = self._select(question, view)[-1]
        text = self.prompts.render(
            "direct",
            question=_asked(question),
            frames=rendering.frames_block(view.clip, frames),
            letters=rendering.letter_range(question.letters),
            numeric=question.numeric,
        )
        return Message("user", text, frames)

    def _decomposition_prompt(self, work: _Pass) -> str:
        return self.prompts.render(
            "decompose",
            question=_asked(work.question),
            frames=rendering.frames_block(work.view.clip, work.frames),
            profile=rendering.profile_block(work.profile, work.frames),
        )

    def _routing_prompt(self, queries: Sequence[SubQuery], work: _Pass) -> str:
        costs = {name: tool.cost for name, tool in self.executor.tools.items()}
        dominant = column_of(work.profile.dominant(work.frames))
        return self.prompts.render(
            "route",
            sub_queries=rendering.sub_queries_block(queries, [self._candidates(q) for q in queries], costs),
            disturbance=dominant,
        )

    def _synthesis_prompt(self, question: Question, evidence: str) -> str:
        return self.prompts.render(
            "synthesise",
            evidence=evidence,
            letters=rendering.letter_range(question.letters),
            numeric=question.numeric,
        )


def drive(turns: Turns, policy: Policy) -> Trajectory:
    """Run one trajectory to its end, one policy turn at a time.

    Raises:
        TrustvidError: what the pipeline or the policy raised.
    """
    (outcome,) = drive_all([turns], policy)
    if isinstance(outcome, TrustvidError):
        raise outcome
    return outcome


def drive_all(trajectories: Sequence[Turns], policy: Policy) -> list[Trajectory | TrustvidError]:
    """Run trajectories side by side: in each round, all that wait for the policy are asked in one list.

    Returns:
        For each, in order, the trajectory, or why there is none; one that fails does not touch the others.
    """
    outcomes: list[Trajectory | TrustvidError] = [TrustvidError("not started")] * len(trajectories)
    waiting: dict[int, PolicyRequest] = {}

    def go_on(place: int, reply: str | None) -> None:
        try:
            waiting[place] = trajectories[place].send(reply)
        except StopIteration as stop:
            outcomes[place] = stop.value
        except TrustvidError as error:
            outcomes[place] = error

    for place in range(len(trajectories)):
        go_on(place, None)
    while waiting:
        places, requests = list(waiting), list(waiting.values())
        waiting.clear()
        for place, reply in zip(places, _replies(policy, requests), strict=True):
            if isinstance(reply, TrustvidError):
                trajectories[place].close()
                outcomes[place] = reply
            else:
                go_on(place, reply)
    return outcomes


def _replies(policy: Policy, requests: Sequence[PolicyRequest]) -> list[str | TrustvidError]:
    """One reply or error for each request. Where an error does not say whose it is, each is asked alone."""
    try:
        return list(policy.generate(requests))
    except PolicyError as error:
        if error.replies:
            message = str(error)
            return [
                TrustvidError(error.reasons.get(place, message)) if reply is None else reply
                for place, reply in enumerate(error.replies)
            ]
        alone: TrustvidError = error
    except TrustvidError as error:
        alone = error
    return [alone] if len(requests) == 1 else [one for each in requests for one in _replies(policy, [each])]


def _as_call(evidence: Evidence, backend: str, profile: Profile, disturbance: tuple[float, ...]) -> Call:
    """The numbers of a call that a confidence rule may look at."""
    seen = evidence.observations
    ramps = None
    if profile.ramps is not None and seen:
        ends = [int(one.values.get("end_frame", one.frame)) for one in seen]
        ramps = np.maximum(profile.ramps_at([one.frame for one in seen]), profile.ramps_at(ends))
    return Call(
        tool=evidence.tool,
        backend=backend,
        intrinsic=evidence.intrinsic,
        disturbance=disturbance,
        scores=np.array([one.score for one in seen]),
        areas=np.array([_area(one) for one in seen]),
        clipped=np.array([one.values.get("clipped", 0.0) for one in seen]),
        ramps=ramps if seen else profile.ramps,
    )


def _area(seen: Observation) -> float:
    return (seen.box[2] - seen.box[0]) * (seen.box[3] - seen.box[1]) if seen.box else 0.0


def _asked(question: Question) -> str:
    return rendering.question_block(question.text, question.letters, question.options)


def _chance(question: Question) -> Trajectory:
    """A seeded draw among the options: same question, same draw."""
    options = question.options
    value = question.letters[derive_seed("chance", question.text, *options) % len(options)] if options else None
    answer = Answer(value, "ok" if value else "unparsed", 1 / len(options) if options else None, "stated")
    return Trajectory((), (), "unknown", (), (), True, (), answer)
