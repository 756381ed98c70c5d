"""Questions on videos as episodes: the evaluation's own pipeline, on clips that are corrupted anew in every epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from trustvid.agent.method import Question, View
from trustvid.agent.pipeline import Pipeline
from trustvid.agent.trajectory import Trajectory
from trustvid.benchmarks.sample import Sample
from trustvid.corruption.clip import corrupt
from trustvid.errors import ConfigError, TrustvidError
from trustvid.grpo.episodes import Episode, Outcome, ToolCall
from trustvid.grpo.mstar.base import EstimateError, MStarEstimator
from trustvid.grpo.reward import inputs_of
from trustvid.seeding import derive_rng
from trustvid.tools.assess_quality import stored_measurer
from trustvid.video.memo import RememberedClip
from trustvid.video.source import FrameSource

# Conditions of clips that are kept open, with the measures of their frames.
_VIEWS = 64


@dataclass(frozen=True)
class Disturbance:
    """How clips are corrupted while a policy is trained (config group ``disturbance``).

    Each question meets one condition in each epoch. The frames of a condition are those of evaluation (they depend on
    the video, not on the epoch), so that what tools said of them is computed once.

    Attributes:
        clean: share of the questions that are left as they are.
        severities: drawn from, each 1–5; all alike.
        coverages: drawn from, shares of the frames.
        seed: of the corruptions themselves; the run's own seed draws which of them are met. So runs of other seeds meet
            the same pixels, and what tools said of these is computed once for all of them.

    Raises:
        ConfigError: with all faults.
    """

    clean: float = 0.25
    severities: Sequence[int] = (3, 5)
    coverages: Sequence[float] = (0.5, 1.0)
    seed: int = 0

    def __post_init__(self) -> None:
        faults = []
        if not 0 <= self.clean <= 1:
            faults.append(f"disturbance.clean={self.clean}; expected a share, 0 to 1")
        if not self.severities or not all(1 <= severity <= 5 for severity in self.severities):
            faults.append(f"disturbance.severities={list(self.severities)}; expected some of 1 to 5")
        if not self.coverages or not all(0 < coverage <= 1 for coverage in self.coverages):
            faults.append(f"disturbance.coverages={list(self.coverages)}; expected shares above 0, up to 1")
        if faults:
            raise ConfigError(faults)

    def draw(self, names: Sequence[str], *seed: str | int) -> tuple[str, int, float] | None:
        """Name, severity and coverage of a corruption; None = clean."""
        rng = derive_rng("disturbance", *seed)
        if not names or rng.random() < self.clean:
            return None
        name = names[int(rng.integers(len(names)))]
        severity = self.severities[int(rng.integers(len(self.severities)))]
        return name, int(severity), float(self.coverages[int(rng.integers(len(self.coverages)))])


class VideoEpisodes:
    """The questions of a benchmark's split as episodes of GRPO.

    Args:
        samples: questions with their truth.
        pipeline: the method that is trained.
        reader: opens videos.
        corruptions: by name.
        disturbance: which of them are met, and how often.
        mstar: estimates m* of the questions.
        score: of an answer ("ok" or None) to a sample, 0–1.
        seed: of the conditions.
    """

    def __init__(
        self,
        samples: Sequence[Sample],
        pipeline: Pipeline,
        reader: Any,
        corruptions: Mapping[str, Any],
        disturbance: Disturbance,
        mstar: MStarEstimator,
        score: Callable[[Sample, str | None], float],
        seed: int = 0,
    ):
        self.samples, self.pipeline, self.reader = list(samples), pipeline, reader
        self.corruptions, self.disturbance, self.mstar = corruptions, disturbance, mstar
        self.score, self.seed = score, seed
        self._view = lru_cache(maxsize=_VIEWS)(self._open)

    def __len__(self) -> int:
        return len(self.samples)

    def episode(self, index: int, epoch: int) -> Episode:
        """Question ``index`` in the condition that it has in ``epoch``.

        Raises:
            TrustvidError: its video cannot be read, or it has no m*.
        """
        sample = self.samples[index]
        return self.under(sample, self.disturbance.draw(list(self.corruptions), self.seed, sample.id, epoch))

    def under(self, sample: Sample, condition: tuple[str, int, float] | None) -> Episode:
        """A question in a condition (name, severity, coverage; None = clean)."""
        view = self._view(str(sample.video), condition)
        question = Question(sample.question, sample.options, numeric=sample.kind == "numeric")
        m_star = self._m_star(question)
        named = "clean" if condition is None else "{}-s{}-c{:g}".format(*condition)

        def judge(trajectory: Trajectory) -> Outcome:
            return self._outcome(sample, named, trajectory, m_star)

        return Episode(f"{sample.id} {named}", lambda: self.pipeline.run(question, view), judge)

    def _m_star(self, question: Question) -> int:
        try:
            return self.mstar.estimate([question])[0]
        except EstimateError as error:
            raise TrustvidError(str(error)) from error

    def _open(self, video: str, condition: tuple[str, int, float] | None) -> View:
        clip: FrameSource = self.reader.open(Path(video))
        if condition is not None:
            name, severity, coverage = condition
            clip = RememberedClip(corrupt(clip, self.corruptions[name], severity, coverage, self.disturbance.seed))
        return View(clip, stored_measurer(self.pipeline.executor))

    def _outcome(self, sample: Sample, condition: str, trajectory: Trajectory, m_star: int) -> Outcome:
        answer = trajectory.answer
        correct = self.score(sample, answer.value if answer.status == "ok" else None)
        calls = tuple(_calls(trajectory))
        record = {
            "sample_id": sample.id,
            "cluster": sample.cluster,
            "task": sample.task,
            "condition": condition,
            "truth": sample.answer,
            "answer": answer.value,
            "status": answer.status,
            "confidence": answer.confidence,
            "sub_queries": [query.type for query in trajectory.sub_queries],
            "tools": [call.tool for call in calls],
            "messages": [asdict(message) for message in trajectory.messages],
        }
        turn = 1 if self.pipeline.method.routing.asks_policy and trajectory.sub_queries else None
        return Outcome(inputs_of(trajectory, correct, m_star), calls, turn, record)


def _calls(trajectory: Trajectory) -> list[ToolCall]:
    """The calls in the order of the sub-queries; synthesis may have sorted the evidence otherwise."""
    left, calls = list(trajectory.evidence), []
    for number, query in enumerate(trajectory.sub_queries):
        item = next((one for one in left if one.sub_query == query), None)
        if item is not None:
            left.remove(item)
            key = f"{query.type}: {query.text}"
            calls.append(ToolCall(number, key, item.tool, item.confidence, item.cost))
    return calls
