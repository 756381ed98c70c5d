"""The forward pass: profile → select → decompose → route → call → synthesise → answer.

One pipeline; the methods of a comparison are presets of its parts, so they share grid, K, tools and budget. It is a
generator that stops wherever the policy has to speak: a scheduler may run many and batch their turns (see
:mod:`~trustvid.agent.driving`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from trustvid.agent import frame_tools, rendering
from trustvid.agent.driving import Turns
from trustvid.agent.method import Method, Question, View
from trustvid.agent.pooling import Pooled
from trustvid.agent.prompting import Prompts
from trustvid.agent.replies import read_answer, read_decomposition, read_routing
from trustvid.agent.routing import CANDIDATES, column_of
from trustvid.agent.synthesis import words_of
from trustvid.agent.trajectory import Answer, FrameCall, Trajectory
from trustvid.errors import ConfigError
from trustvid.policy.base import Message, PolicyRequest
from trustvid.reliability.confidence import Call
from trustvid.reliability.profile import Profile
from trustvid.seeding import derive_seed
from trustvid.tools.evidence import SEMANTIC_TYPES, Evidence, Observation, SubQuery
from trustvid.tools.executor import Executor
from trustvid.tools.relevance import NoRelevance

REFINE_BELOW = 0.4  # θ_refine: a call less sure than this is repeated once (released code)


@dataclass
class _Pass:
    """What one pass works on and has done so far."""

    question: Question
    view: View
    profile: Profile
    relevance: np.ndarray | None
    frames: tuple[int, ...]
    words: tuple[str, ...]
    frame_calls: list[FrameCall] = field(default_factory=list)

    def identity(self) -> str:
        """What is asked, of which video, and what was done to the frames: the same in whatever order passes run."""
        done = {self.view.clip.frame_key(index) for index in self.frames}
        return "\n".join((self.question.text, *self.question.options, self.view.clip.video_id, *sorted(done)))


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

    def run(self, question: Question, view: View) -> Turns[Trajectory]:
        """Yield a request whenever the policy has to speak, take its reply, return the trajectory.

        Raises:
            VideoError: the clip cannot be decoded (the sample is then unscored).
        """
        if self.method.evidence == "chance":
            return _chance(question)
        clip = view.clip
        conversation = [Message("system", self.prompts.render("system"))]
        if self.method.evidence != "tools":
            message, relevance = self._only_question(question, view)
            conversation.append(message)
            reply = yield PolicyRequest(tuple(conversation), clip)
            conversation.append(Message("assistant", reply))
            answer, said = read_answer(reply, question), tuple(conversation)
            return Trajectory(message.frames, (), "unknown", (), (), True, said, answer, relevance=relevance)

        work = self._begin(question, view)
        shown = work.frames if self.method.decompose_with_frames else ()
        conversation.append(Message("user", self._decomposition_prompt(work), shown))
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
        block, support = self._evidence_text(evidence, work)
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
            answer=self._settled(read_answer(reply, question), support),
            frame_calls=tuple(work.frame_calls),
            routing_ok=routed,
            relevance=frame_tools.relevance_of(work.profile, work.relevance, work.frames),
        )

    # -- frames ----------------------------------------------------------------------------------------------------

    def _begin(self, question: Question, view: View) -> _Pass:
        """Profile the clip and select frames."""
        profile, relevance, frames = self._select(question, view)
        work = _Pass(question, view, profile, relevance, frames, words_of(question.text, *question.options))
        if profile.disturbance is not None:
            work.frame_calls += [frame_tools.assessed(profile), frame_tools.selected(profile, frames, relevance)]
        return work

    def _select(self, question: Question, view: View) -> tuple[Profile, np.ndarray | None, tuple[int, ...]]:
        """The profile, the relevance of its frames to the question (None where no model is asked), the selection."""
        profile, relevance = view.profile(self.method.reliability), None
        if not isinstance(self.method.relevance, NoRelevance):
            relevance = view.relevance(self.method.relevance, profile.indices, question, self.executor)
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

        ``relevance``: of the profiled frames to the question; None where there is no question, or no model of it.
        """
        n_frames, k = view.clip.n_frames, self.method.frames
        known = self.executor.tools.get(tool)
        if known is not None and known.span != "frame":
            return self.method.selection.around(selected, n_frames, k)
        if self.method.per_tool_frames and tool in profile.yields:
            own = replace(profile, disturbance=1.0 - profile.yields[tool], yields={})
            return self.method.selection.select(own, n_frames, k, relevance)
        return selected

    def tools_in_use(self, profile: Profile, selected: tuple[int, ...]) -> list[str]:
        """Installed tools that sub-queries may be sent to on these frames: what is worth computing in advance."""
        if self.method.routing.varies:
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
        column, available = column_of(work.profile.dominant(work.frames)), tuple(self.executor.tools)
        asked = work.identity() if self.method.routing.varies else ""
        return [self.method.routing.route(query, column, available, asked) for query in queries]

    def _call(self, query: SubQuery, tool: str, work: _Pass) -> Evidence:
        """One call; where it is unsure, the method refines, and the pool is not empty, once more on pool frames."""
        frames = self.frames_for(tool, work.view, work.profile, work.frames, work.relevance)
        first = self._judged(work.view.call(self.executor, tool, query, frames, work.words), work.profile)
        if not self.method.refine or first.confidence >= REFINE_BELOW:
            return first
        more = frame_tools.retrieved(work.profile, frames, work.relevance)
        if more is None:
            return first
        work.frame_calls.append(more)
        second = self._judged(work.view.call(self.executor, tool, query, more.frames, work.words), work.profile)
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

    def _only_question(self, question: Question, view: View) -> tuple[Message, tuple[float, ...]]:
        """The question for a policy that gets no tool results: with the selected frames, or with nothing at all.

        Beside it the relevance of its frames, empty without a model of it.
        """
        if self.method.evidence == "none":
            nothing = self._synthesis_prompt(question, "## Evidence\nnone was gathered")
            return Message("user", f"{_asked(question)}\n\n{nothing}"), ()
        profile, relevance, frames = self._select(question, view)
        text = self.prompts.render(
            "direct",
            question=_asked(question),
            frames=rendering.frames_block(view.clip, frames),
            letters=rendering.letter_range(question.letters),
            numeric=question.numeric,
        )
        return Message("user", text, frames), frame_tools.relevance_of(profile, relevance, frames)

    def _decomposition_prompt(self, work: _Pass) -> str:
        return self.prompts.render(
            "decompose",
            question=_asked(work.question),
            brief_question=rendering.brief_question_block(work.question.text),
            frames=rendering.frames_block(work.view.clip, work.frames),
            profile=rendering.profile_block(work.profile, work.frames),
        )

    def _routing_prompt(self, queries: Sequence[SubQuery], work: _Pass) -> str:
        costs = {name: tool.cost for name, tool in self.executor.tools.items()}
        candidates = [self._candidates(query) for query in queries]
        dominant = column_of(work.profile.dominant(work.frames))
        return self.prompts.render(
            "route",
            sub_queries=rendering.sub_queries_block(queries, candidates, costs),
            brief_sub_queries=rendering.brief_sub_queries_block(queries, candidates),
            disturbance=dominant,
        )

    def _evidence_text(self, evidence: Sequence[Evidence], work: _Pass) -> tuple[str, dict[str, float] | None]:
        """What the policy is told of the evidence; and the support of each option, where the synthesis pools it."""
        synthesis = self.method.synthesis
        links = synthesis.link(evidence, work.words)
        block = rendering.evidence_block(evidence, links, work.view.clip, work.frames)
        if not isinstance(synthesis, Pooled):
            return block, None
        asked = f"{_asked(work.question)}\n\n{rendering.frames_block(work.view.clip, work.frames)}"
        support = synthesis.support(asked, block)
        if synthesis.detail == "short":
            return f"{rendering.brief_evidence_block(evidence)}\n{rendering.brief_support_block(support)}", support
        return f"{block}\n{rendering.support_block(support)}", support

    def _settled(self, answer: Answer, support: dict[str, float] | None) -> Answer:
        """The answer with the confidence that the synthesis records: the policy's own, unless it says otherwise."""
        synthesis = self.method.synthesis
        return synthesis.settle(answer, support) if isinstance(synthesis, Pooled) else answer

    def _synthesis_prompt(self, question: Question, evidence: str) -> str:
        return self.prompts.render(
            "synthesise",
            evidence=evidence,
            letters=rendering.letter_range(question.letters),
            numeric=question.numeric,
        )


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
