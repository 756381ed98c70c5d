"""A run over captions, read for export: responses with the verdicts on their constraints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trustvid.captioning.checklist import Checklist
from trustvid.captioning.outcomes import all_of
from trustvid.captioning.records import SCORES, Lines, TaskRecord, response_lines, task_lines
from trustvid.captioning.rules import MODES
from trustvid.captioning.scoring import ItemVerdicts, constraints_of_verdicts, verdicts_from_json
from trustvid.errors import DataError
from trustvid.evaluation.jsonfiles import read_json
from trustvid.evaluation.store import RunFolder
from trustvid.interop.parts import Estimate, Item, Part, Run, Turn, plain_details, without_folders

METRICS = {"isr": ("isr",), "csr": ("csr_micro", "csr_macro")}
"""Scores of one response, and the metrics of ``metrics.json`` that sum each up."""


def holds_captions(folder: RunFolder) -> bool:
    """Whether the run asked for captions."""
    return (folder.path / "tasks.jsonl").is_file()


def run_of(folder: RunFolder) -> Run:
    """What the run is of.

    Raises:
        DataError: it has no verdicts yet.
    """
    context = _metrics(folder)["context"]
    return Run(
        context["benchmark"], context["split"], context["policy"], folder.existing_run(), context.get("decode", {})
    )


def parts_of(folder: RunFolder) -> Iterator[Part]:
    """One part for each captioner, judge and rule mode of the run.

    Raises:
        DataError: it has no verdicts yet.
    """
    metrics = _metrics(folder)
    names = _judge_names(read_json(folder.path / "judges.json"))
    tasks, responses = task_lines(folder.path), response_lines(folder.path)
    scores = Lines(folder.path / f"{SCORES}.jsonl", lambda line: (line["captioner"], line["judge"], line["task_id"]))
    for captioner, judge in dict.fromkeys(key[:2] for key in scores):
        for mode in MODES:
            items = [
                _item(TaskRecord.from_json(tasks[key[2]]), responses.get((captioner, key[2])), scores[key], mode)
                for key in sorted(scores)
                if key[:2] == (captioner, judge)
            ]
            summaries = _summaries(metrics, captioner, names[judge], mode)
            yield Part(captioner, f"rules={mode}, judge={names[judge]}", tuple(items), summaries)


def _metrics(folder: RunFolder) -> dict[str, Any]:
    path = folder.path / "metrics.json"
    if not path.is_file() or not (folder.path / f"{SCORES}.jsonl").is_file():
        raise DataError(f"{folder.path}: no verdicts here; run mode=score (or mode=all) first")
    return read_json(path)


def _judge_names(judges: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What the run's tables call each judge: its name, or its id where several settings of one judge were used."""
    bare = [known["name"] for known in judges.values()]
    return {judge: known["name"] if bare.count(known["name"]) == 1 else judge for judge, known in judges.items()}


def _item(task: TaskRecord, response: Mapping[str, Any] | None, record: Mapping[str, Any], mode: str) -> Item:
    text = response["text"] if response else None
    reason = record["reason"]
    # Of an unscored response the checklist itself may be what cannot be read, so it is not.
    checklist = Checklist() if reason is not None else Checklist.from_json(task.checklist, task.id)
    verdicts = ItemVerdicts((), ()) if reason is not None else verdicts_from_json(record[mode])
    turns = (Turn("user", task.instruction), *((Turn("assistant", text),) if text is not None else ()))
    return Item(
        id=task.id,
        video=task.video,
        task=task.field,
        question=task.instruction,
        options=(),
        target="",
        turns=turns,
        reply=text or "",
        answer=text,
        scores=_scores([constraint.value for constraint in constraints_of_verdicts(checklist, verdicts)]),
        reason=None if reason is None else without_folders(reason),
        details=plain_details({"constraints": list(task.constraints_used), "verdicts": _verdicts(checklist, verdicts)}),
    )


def _scores(values: list[bool | None]) -> dict[str, float]:
    """ISR and CSR of one response; a share is of the constraints that were scored, and what is undecided is absent."""
    decided = [value for value in values if value is not None]
    whole = all_of(values) if values else None
    return {
        **({} if whole is None else {"isr": float(whole)}),
        **({"csr": sum(decided) / len(decided)} if decided else {}),
    }


def _verdicts(checklist: Checklist, verdicts: ItemVerdicts) -> list[dict[str, Any]]:
    questions = [item for group in checklist.open_groups for item in group.check_items]
    checked = zip((*checklist.rule_items, *questions), (*verdicts.rules, *verdicts.questions), strict=True)
    return [{"check_id": item.check_id, "holds": said.value, "reason": said.reason} for item, said in checked]


def _summaries(metrics: Mapping[str, Any], captioner: str, judge: str, mode: str) -> dict[str, dict[str, Estimate]]:
    rows = {
        row["metric"]: row
        for row in metrics["rows"]
        if (row["method"], row["judge"], row["condition"], row["task"]) == (captioner, judge, f"rules={mode}", "all")
    }
    return {
        score: {
            name: Estimate(rows[name]["value"], rows[name]["se"])
            for name in names
            if name in rows and rows[name]["value"] is not None
        }
        for score, names in METRICS.items()
    }
