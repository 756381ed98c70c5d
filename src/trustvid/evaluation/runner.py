"""What a worker does with one video: every condition, every method, every question that is still to be answered.

One video is one unit of work, so its clip is opened once and tool outputs are shared by methods and questions. All
functions here take and give plain containers: they cross process borders.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trustvid.agent.assembly import build_pipelines
from trustvid.agent.driving import drive_all
from trustvid.agent.method import Question, View
from trustvid.agent.pipeline import Pipeline
from trustvid.agent.trajectory import Answer, Trajectory
from trustvid.benchmarks.sample import Sample
from trustvid.config.checking import build
from trustvid.corruption.clip import corrupt
from trustvid.errors import TrustvidError, VideoError
from trustvid.evaluation.records import CLEAN, Condition, Prediction, TierCounts
from trustvid.evaluation.scoring import mean_relative_accuracy
from trustvid.evaluation.suites import conditions_of
from trustvid.policy.base import Policy
from trustvid.tools.assess_quality import stored_measurer
from trustvid.tools.evidence import SubQuery
from trustvid.video.memo import RememberedClip
from trustvid.video.source import FrameSource

PRECOMPUTE_QUERY = SubQuery("everything the tool can tell", "spatial")


@dataclass(frozen=True)
class Worker:
    """What a worker process keeps between videos."""

    config: Mapping[str, Any]
    pipelines: Mapping[str, Pipeline]
    policy: Policy
    reader: Any
    corruptions: Mapping[str, Any]

    def view(self, clip: FrameSource, condition: str) -> View:
        """A clip under a condition, whose measures are shared through the tool cache."""
        seen = under(clip, condition, self.corruptions, self.config["seed"])
        return View(seen, stored_measurer(next(iter(self.pipelines.values())).executor))


def set_up(config: dict[str, Any]) -> Worker:
    """Build the components of a validated config in this process."""
    import cv2

    cv2.setNumThreads(1)  # one video, one core: the pool is the parallelism
    pipelines, policy = build_pipelines(config, Path(config["paths"]["cache"]) / "tools"), build(config["policy"])
    if hasattr(policy, "load"):
        policy.load()  # missing weights end the run here, instead of leaving every question unscored
    return Worker(
        config=config,
        pipelines=pipelines,
        policy=policy,
        reader=build(config["reader"]),
        corruptions={name: build(node) for name, node in config["corruption"].items()},
    )


def answer_video(worker: Worker, unit: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Answer what is still open on one video.

    Args:
        unit: ``video`` (path), ``samples`` (list of sample fields) and ``done`` (keys that have a prediction).

    Yields:
        One group for each question and condition: records {"prediction": …, "trajectory": … or None}.
    """
    samples = [_sample(record) for record in unit["samples"]]
    done = {tuple(key) for key in unit["done"]}
    try:
        clip = worker.reader.open(Path(unit["video"]))
    except VideoError as error:
        if worker.config["on_error"] == "stop":
            raise
        for prediction in unscored(samples, list(worker.pipelines), conditions_of(worker.config), done, str(error)):
            yield [{"prediction": prediction.to_json(), "trajectory": None}]
        return
    for condition in conditions_of(worker.config):
        view = worker.view(clip, condition)
        still_open = [
            [(sample, name) for name in worker.pipelines if (sample.id, name, condition) not in done]
            for sample in samples
        ]
        # As many questions at once as keep the policy busy, and no more: what is not yet stored is lost by a kill.
        at_once = max(1, getattr(worker.policy, "parallel", 1) // len(worker.pipelines))
        groups = [pairs for pairs in still_open if pairs]
        for start in range(0, len(groups), at_once):
            yield from _records(worker, groups[start : start + at_once], condition, view)


def fill_cache(worker: Worker, unit: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Run every tool on the frames that every method selects, in every condition: ``mode=precompute``.

    Tools that read the sub-query are left out, their outputs depend on the question.
    """
    clip = worker.reader.open(Path(unit["video"]))
    for condition in conditions_of(worker.config):
        view = worker.view(clip, condition)
        for pipeline in worker.pipelines.values():
            method = pipeline.method
            if method.evidence == "tools":
                profile = view.profile(method.reliability)
                frames = method.selection.select(profile, clip.n_frames, method.frames)
                for name in pipeline.tools_in_use(profile, frames):
                    if not pipeline.executor.tools[name].reads_query:
                        wanted = pipeline.frames_for(name, view, profile, frames)
                        pipeline.executor.run(name, PRECOMPUTE_QUERY, view.clip, wanted)
        yield [{"condition": condition}]


def under(clip: FrameSource, condition: str, corruptions: Mapping[str, Any], seed: int) -> FrameSource:
    """The clip under a condition, its corrupted frames kept at hand."""
    if condition == CLEAN:
        return clip
    parsed = Condition.parse(condition)
    return RememberedClip(corrupt(clip, corruptions[parsed.name], parsed.severity, parsed.coverage, seed))


def _records(
    worker: Worker, groups: Sequence[Sequence[tuple[Sample, str]]], condition: str, view: View
) -> Iterator[list[dict[str, Any]]]:
    """Records of (question, method) pairs, group by group; all of them run side by side."""
    turns = [
        worker.pipelines[method].run(Question(sample.question, sample.options, numeric=sample.kind == "numeric"), view)
        for group in groups
        for sample, method in group
    ]
    outcomes = iter(drive_all(turns, worker.policy))
    for group in groups:
        yield [_record(worker, sample, method, condition, next(outcomes)) for sample, method in group]


def _record(
    worker: Worker, sample: Sample, method: str, condition: str, outcome: Trajectory | TrustvidError
) -> dict[str, Any]:
    """The prediction (and, when asked for, the trajectory) of one method on one question."""
    if isinstance(outcome, TrustvidError):  # unreadable frames, a policy that failed: no answer, hence no score
        if worker.config["on_error"] == "stop":
            raise outcome
        unscored = Prediction.unscored(sample, method, condition, str(outcome))
        return {"prediction": unscored.to_json(), "trajectory": None}
    trajectory, saved = outcome, None
    if worker.config["save_trajectories"]:
        saved = {"sample_id": sample.id, "method": method, "condition": condition, **trajectory.to_json()}
    prediction = predict(sample, method, condition, trajectory)
    return {"prediction": prediction.to_json(), "trajectory": saved}


def predict(sample: Sample, method: str, condition: str, trajectory: Trajectory) -> Prediction:
    """Score a trajectory's answer against the truth of its question."""
    return answered(
        sample,
        method,
        condition,
        trajectory.answer,
        trajectory.messages[-1].text if trajectory.messages else "",
        tiers=TierCounts(**trajectory.tiers),
        calls=trajectory.calls,
        failures=sum(item.error is not None for item in trajectory.evidence),
        cost=round(trajectory.cost, 6),
        frames=trajectory.frames,
    )


def answered(sample: Sample, method: str, condition: str, answer: Answer, reply: str, **effort: Any) -> Prediction:
    """The scored prediction of an answer.

    Args:
        reply: what the answer was read from, or could not be.
        effort: further fields of :class:`Prediction`: tiers, calls, failures, cost, frames.
    """
    unread = f"no answer could be read in the reply {reply[-120:]!r}"
    return Prediction(
        sample_id=sample.id,
        cluster=sample.cluster,
        task=sample.task,
        method=method,
        condition=condition,
        truth=sample.answer,
        answer=answer.value if answer.status == "ok" else None,
        score=score(sample, answer),
        confidence=answer.confidence,
        confidence_source=answer.confidence_source,
        status=answer.status,
        reason=unread if answer.status == "unparsed" else None,
        **effort,
    )


def score(sample: Sample, answer: Answer) -> float:
    """1 or 0 for a letter, mean relative accuracy for a number; 0 for an answer that could not be read."""
    if answer.status != "ok" or answer.value is None:
        return 0.0
    if sample.kind == "numeric":
        return mean_relative_accuracy(float(answer.value), float(sample.answer))
    return float(answer.value == sample.answer)


def unscored(
    samples: Sequence[Sample],
    methods: Sequence[str],
    conditions: Sequence[str],
    done: set[tuple[str, str, str]],
    reason: str,
) -> Iterator[Prediction]:
    """Unscored predictions for everything that has none yet."""
    for condition in conditions:
        for sample in samples:
            for method in methods:
                if (sample.id, method, condition) not in done:
                    yield Prediction.unscored(sample, method, condition, reason)


def sample_record(sample: Sample) -> dict[str, Any]:
    """A sample as plain containers, for a unit of work."""
    return {**asdict(sample), "video": str(sample.video), "options": list(sample.options)}


def _sample(record: Mapping[str, Any]) -> Sample:
    return Sample(**{**record, "video": Path(record["video"]), "options": tuple(record["options"])})
