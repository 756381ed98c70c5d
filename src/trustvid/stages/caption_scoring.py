"""From the records of a run folder to verdicts, metrics, agreement, errors and official result files.

One pass over the tasks for each captioner and judge; verdicts go to ``scores.jsonl`` and the result files as they come,
and only their counts are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trustvid.captioning.agreement import NoReference, Pair, agreement_rows, pairs_of
from trustvid.captioning.checklist import Checklist
from trustvid.captioning.error_analysis import ErrorAnalysis
from trustvid.captioning.files import EntryWriter, TaskKey, entry_of
from trustvid.captioning.metrics import comparisons, metric_rows
from trustvid.captioning.outcomes import Outcome
from trustvid.captioning.records import Lines, TaskRecord, judged_digest
from trustvid.captioning.rules import MODES, Mode
from trustvid.captioning.scoring import (
    ItemVerdicts,
    Misaligned,
    constraints_of_verdicts,
    result_json,
    score,
    unscored,
    verdicts_json,
)
from trustvid.errors import DataError
from trustvid.judge.base import Judgement, Reading

Results = Mapping[TaskKey, Mapping[str, Any]]


@dataclass(frozen=True)
class Records:
    """The record files of a run folder."""

    tasks: Lines
    responses: Lines
    judgements: Lines


@dataclass
class CaptionerScores:
    """What is kept of one captioner under one judge.

    Attributes:
        outcomes: by rule mode.
        errors: of the headline mode.
        pairs: beside the reference, by rule mode; empty without a reference.
        reasons: why responses could not be scored, with their number.
        unknown: rule items whose constraint id is in no taxonomy.
    """

    outcomes: dict[Mode, list[Outcome]] = field(default_factory=lambda: {mode: [] for mode in MODES})
    errors: ErrorAnalysis = field(default_factory=ErrorAnalysis)
    pairs: dict[Mode, list[Pair]] = field(default_factory=lambda: {mode: [] for mode in MODES})
    reasons: dict[str, int] = field(default_factory=dict)
    unknown: int = 0


@dataclass(frozen=True)
class _Judged:
    """One response with its verdicts, or with the reason why there are none."""

    task: TaskRecord
    checklist: Checklist
    text: str
    readings: Mapping[Mode, Reading | None]
    verdicts: Mapping[Mode, ItemVerdicts]
    reason: str | None


def score_captioner(
    records: Records,
    captioner: str,
    judge: str,
    headline: Mode,
    results: Mapping[Mode, Path],
    reference: Results | None,
) -> Iterator[dict[str, Any] | CaptionerScores]:
    """Verdicts on all responses of one captioner.

    Yields:
        A record for ``scores.jsonl`` for each response; at the end the :class:`CaptionerScores`.

    Args:
        records: of the run folder.
        captioner, judge: names in the records.
        headline: mode of the error analysis.
        results: where the official result file of each mode goes.
        reference: results to compare with.
    """
    kept = CaptionerScores()
    with EntryWriter(results["upstream"]) as upstream, EntryWriter(results["strict"]) as strict:
        writers: dict[Mode, EntryWriter] = {"upstream": upstream, "strict": strict}
        for task in _by_video(records.tasks):
            judged = _judged(records, task, captioner, judge)
            _keep(kept, judged, headline, reference)
            for mode, writer in writers.items():
                result = result_json(judged.checklist, judged.readings[mode], judged.verdicts[mode])
                writer.add(task.video, entry_of(task.as_instruction(), "check_result", result))
            verdicts = {mode: verdicts_json(judged.verdicts[mode]) for mode in MODES}
            yield {"captioner": captioner, "judge": judge, "task_id": task.id, "reason": judged.reason, **verdicts}
    yield kept


def _by_video(tasks: Lines) -> Iterator[TaskRecord]:
    """All tasks, those of one video together, videos by first occurrence."""
    order: dict[str, list[str]] = {}
    for task_id in tasks:
        order.setdefault(task_id.rpartition("/")[0], []).append(task_id)
    return (TaskRecord.from_json(tasks[task_id]) for ids in order.values() for task_id in ids)


def _judged(records: Records, task: TaskRecord, captioner: str, judge: str) -> _Judged:
    checklist, reason = _checklist(task)
    response = records.responses.get((captioner, task.id))
    text = response["text"] if response else None
    record = records.judgements.get((judge, captioner, task.id))
    if reason is None and response is None:
        reason = "no response was recorded"
    if reason is None and text is None:
        reason = response["reason"]
    if reason is None and record is None:
        reason = "not judged yet"
    if reason is None and record["digest"] != judged_digest(task, text):
        reason = "the judgement is of another response or checklist"
    if reason is None:
        try:
            return _with_verdicts(task, checklist, text, Judgement.from_json(record["judgement"]))
        except Misaligned as error:
            reason = str(error)
    nothing = unscored(checklist, reason)
    return _Judged(task, checklist, text or "", dict.fromkeys(MODES), dict.fromkeys(MODES, nothing), reason)


def _checklist(task: TaskRecord) -> tuple[Checklist, str | None]:
    if task.checklist is None:
        return Checklist(), "no checklist"
    try:
        return Checklist.from_json(task.checklist, task.id), None
    except DataError as error:
        return Checklist(), str(error).replace("\n", " ")


def _with_verdicts(task: TaskRecord, checklist: Checklist, text: str, judgement: Judgement) -> _Judged:
    readings = {"strict": judgement.strict, "upstream": judgement.upstream or judgement.strict}
    verdicts = {
        mode: score(checklist, readings[mode], mode, own_reading=judgement.upstream is not None) for mode in MODES
    }
    return _Judged(task, checklist, text, readings, verdicts, None)


def _keep(kept: CaptionerScores, judged: _Judged, headline: Mode, reference: Results | None) -> None:
    task = judged.task
    for mode in MODES:
        constraints = constraints_of_verdicts(judged.checklist, judged.verdicts[mode])
        n_words = len(task.instruction.split())
        kept.outcomes[mode].append(Outcome(task.video, task.prompt_id, task.field, n_words, constraints, judged.reason))
    known = reference.get(TaskKey(task.video, task.prompt_id)) if reference else None
    if judged.reason is not None:
        kept.reasons[judged.reason] = kept.reasons.get(judged.reason, 0) + 1
        kept.errors.unjudged(judged.reason)
        return
    reading = judged.readings[headline]
    contents = [found.content for found in reading.extractions] if reading else []
    kept.errors.add(task.id, judged.checklist, judged.text, judged.verdicts[headline], contents)
    kept.unknown += sum("unknown constraint_id" in verdict.reason for verdict in judged.verdicts["strict"].rules)
    for mode in MODES if known else ():
        try:
            kept.pairs[mode] += pairs_of(task.video, judged.checklist, judged.verdicts[mode], known)
        except NoReference as error:
            kept.reasons[f"reference: {error}"] = kept.reasons.get(f"reference: {error}", 0) + 1
            return


def metrics_of(
    scored: Mapping[tuple[str, str], CaptionerScores], context: Mapping[str, Any], seed: int, headline: Mode
) -> dict[str, Any]:
    """All of ``metrics.json``; values 0–1.

    Args:
        scored: by (captioner, judge), captioners in table order.
        context: what the numbers are of.
        seed: of the bootstrap.
        headline: the rule mode that the tables show.

    Returns:
        ``rows`` = [{method, judge, condition, task, metric, value, se, n, unscored, bound_low, bound_high}] where
        method is the captioner and condition "rules=strict" or "rules=upstream"; ``comparisons``; ``agreement`` (rows
        like the first, method "all"); ``context``.
    """
    judges = list(dict.fromkeys(judge for _, judge in scored))
    rows, compared, agreed = [], [], []
    for mode in MODES:
        for judge in judges:
            names = {"judge": judge, "condition": f"rules={mode}"}
            of_judge = {captioner: kept for (captioner, by), kept in scored.items() if by == judge}
            for captioner, kept in of_judge.items():
                rows += [{"method": captioner, **names, **row} for row in metric_rows(kept.outcomes[mode])]
            outcomes = {captioner: kept.outcomes[mode] for captioner, kept in of_judge.items()}
            compared += [{**names, **row} for row in comparisons(outcomes, seed, judge, mode)]
            pairs = [pair for kept in of_judge.values() for pair in kept.pairs[mode]]
            agreed += [{"method": "all", **names, **row} for row in agreement_rows(pairs)] if pairs else []
    return {
        "rows": rows,
        "comparisons": compared,
        "agreement": agreed,
        "context": {**context, **_counts(scored, judges), "headline": headline},
    }


def _counts(scored: Mapping[tuple[str, str], CaptionerScores], judges: Sequence[str]) -> dict[str, Any]:
    first = next(iter(scored.values()))
    outcomes = first.outcomes["strict"]
    unjudged = [
        {"captioner": captioner, "judge": judge, "reason": reason, "n": n}
        for (captioner, judge), kept in scored.items()
        for reason, n in sorted(kept.reasons.items(), key=lambda item: (-item[1], item[0]))
    ]
    return {
        "methods": list(dict.fromkeys(captioner for captioner, _ in scored)),
        "judges": list(judges),
        "conditions": [f"rules={mode}" for mode in MODES],
        "n_instructions": len(outcomes),
        "n_videos": len({outcome.video for outcome in outcomes}),
        "n_constraints": sum(len(outcome.constraints) for outcome in outcomes),
        "unjudged": unjudged,
        "unknown_constraints": sum(kept.unknown for kept in scored.values()),
    }
