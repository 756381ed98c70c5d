"""Trajectories of a teacher, who goes through the pipeline on clips under drawn corruptions, video by video."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.config.checking import build
from trustvid.errors import TrustvidError
from trustvid.policy.base import Message, Policy
from trustvid.training.conversations import Conversation
from trustvid.training.data.base import Clips, Conditioned, Examples, Item, examples_of, held_out_fault, refuse
from trustvid.training.data.questions import READS, condition_of, named, pipeline_of, question_of, samples_of

if TYPE_CHECKING:
    from trustvid.agent.pipeline import Pipeline
    from trustvid.benchmarks.sample import Sample

TRAJECTORIES, ANSWERS = "trajectories", "answers"
PARTS = (TRAJECTORIES, ANSWERS)
_TIME_LIMIT_S = 1800.0  # of one video in all its conditions


class Teacher:
    """Trajectories of a teacher: it goes through the pipeline of the config's method, on clips under drawn corruptions.

    Args:
        policy: the teacher.
        passes: times that each question is gone through, each in a condition of its own.
        parts: "trajectories" = all turns of a pass; "answers" = its last turn alone, as a short conversation of its
            own (a small model learns to read evidence far sooner from these).
        only_correct: leave out passes whose answer is wrong.
        held_out: share of the videos that is measured on and not learned.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    reads = (*READS, "corruption", "disturbance")

    def __init__(
        self,
        policy: Policy,
        passes: int = 1,
        parts: Sequence[str] = (TRAJECTORIES,),
        only_correct: bool = False,
        held_out: float = 0.05,
    ):
        self.policy, self.passes, self.parts = policy, passes, tuple(parts)
        self.only_correct, self.held_out = only_correct, held_out
        faults = held_out_fault(held_out)
        if passes < 1:
            faults.append(f"data.passes={passes}; expected at least 1")
        if not self.parts or not set(self.parts) <= set(PARTS):
            faults.append(f"data.parts={list(parts)}; expected some of {', '.join(PARTS)}")
        refuse(faults)

    def load(self, config: Mapping[str, Any]) -> Examples:
        """The teacher's passes; those that fail are left out.

        Raises:
            DataError: the benchmark cannot be read, or no pass came to its end.
        """
        samples, clips = samples_of(config), Clips(config)
        by_id = {sample.id: sample for sample in samples}
        items, left_out = [], []
        for record in self._records(config, samples, list(clips.corruptions)):
            sample = by_id[record["sample_id"]]
            if record["error"] or (self.only_correct and record["answer"] != sample.answer):
                left_out.append(f"{sample.id}: {record['error'] or 'the answer of the teacher is wrong'}")
            else:
                items += self._items(record, sample, clips)
        return examples_of(items, self.held_out, config["seed"], left_out)

    def _records(
        self, config: Mapping[str, Any], samples: Sequence[Sample], corruptions: Sequence[str]
    ) -> list[dict[str, Any]]:
        """What came of every pass, in the order of the questions, whichever worker did it first."""
        from trustvid.evaluation.pool import Unit, UnitEvent, Work, run_units
        from trustvid.progress import Progress

        disturbance, wanted = build(config["disturbance"]), dict[str, dict[str, list[str]]]()
        for sample in samples:
            for epoch in range(self.passes):
                condition = named(disturbance.draw(corruptions, config["seed"], sample.id, epoch))
                met = wanted.setdefault(str(sample.video), {}).setdefault(condition, [])
                if sample.id not in met:  # a teacher would say the same again
                    met.append(sample.id)
        units = [Unit(video, {"video": video, "conditions": conditions}) for video, conditions in wanted.items()]
        found: dict[str, list[dict[str, Any]]] = {}
        with Progress(len(units), "teacher", unit="videos") as progress:

            def on_result(event: UnitEvent) -> None:
                if event.kind == "group":
                    found.setdefault(event.unit.name, []).extend(event.records)
                    return
                progress.advance()
                if event.kind == "failed":
                    print(f"{event.unit.name}: {event.reason}", file=sys.stderr)
                    failed = {id_ for ids in event.unit.payload["conditions"].values() for id_ in ids}
                    found.setdefault(event.unit.name, []).extend(_failed(id_, event.reason) for id_ in sorted(failed))

            workers = config.get("workers")
            count = min(len(units), os.cpu_count() or 1) if workers is None else workers
            run_units(units, Work(set_up, teach_video, dict(config)), count, _TIME_LIMIT_S, on_result)
        return [record for unit in units for record in found.get(unit.name, [])]

    def _items(self, record: Mapping[str, Any], sample: Sample, clips: Clips) -> Iterator[Item]:
        cluster, key = str(sample.video), f"{sample.id} {record['condition']}"
        messages = tuple(Message(m["role"], m["text"], tuple(m["frames"])) for m in record["messages"])
        if TRAJECTORIES in self.parts:
            clip = clips.opener(sample.video, condition_of(record["condition"]))
            yield Item(Conversation(key, messages, clip), cluster, TRAJECTORIES)
        if ANSWERS in self.parts:
            system = messages[:1] if messages[0].role == "system" else ()
            alone = (*system, Message("user", messages[-2].text), messages[-1])
            yield Item(Conversation(f"{key} answer", alone), cluster, ANSWERS)


# -- in a worker -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TeacherWorker:
    """What a worker process keeps between videos."""

    pipeline: Pipeline
    policy: Policy
    clips: Clips
    samples: Mapping[str, Sample]


def set_up(config: dict[str, Any]) -> TeacherWorker:
    """Build the components of a validated config in this process."""
    import cv2

    cv2.setNumThreads(1)
    samples = {sample.id: sample for sample in samples_of(config)}
    return TeacherWorker(pipeline_of(config), build(config["data"]["policy"]), Clips(config), samples)


def teach_video(worker: TeacherWorker, unit: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """The teacher's passes on one video.

    Args:
        unit: ``video`` (path) and ``conditions`` ({condition: ids of the questions that meet it}).

    Yields:
        For each condition a record for each question: ``sample_id``, ``condition``, ``error`` (None = it went well),
        ``answer`` and ``messages``.
    """
    for name, ids in unit["conditions"].items():
        samples = [worker.samples[id_] for id_ in ids]
        outcomes = _taught(worker, samples, condition_of(name), unit["video"])
        yield [_record(sample, name, outcome) for sample, outcome in zip(samples, outcomes, strict=True)]


def _taught(
    worker: TeacherWorker, samples: Sequence[Sample], condition: Conditioned | None, video: str
) -> Sequence[Any]:
    """Of each question the trajectory, or why there is none."""
    from trustvid.agent.driving import drive_all
    from trustvid.agent.method import View
    from trustvid.tools.assess_quality import stored_measurer

    try:
        view = View(worker.clips.open(str(Path(video)), condition), stored_measurer(worker.pipeline.executor))
    except TrustvidError as error:
        return [error] * len(samples)
    return drive_all([worker.pipeline.run(question_of(sample), view) for sample in samples], worker.policy)


def _record(sample: Sample, condition: str, outcome: Any) -> dict[str, Any]:
    if isinstance(outcome, TrustvidError):
        return _failed(sample.id, str(outcome))
    said = [{"role": m.role, "text": m.text, "frames": list(m.frames)} for m in outcome.messages]
    told = {"error": None, "answer": outcome.answer.value, "messages": said}
    return {"sample_id": sample.id, "condition": condition, **told}


def _failed(sample_id: str, reason: str) -> dict[str, Any]:
    return {"sample_id": sample_id, "condition": None, "error": reason, "answer": None, "messages": []}
