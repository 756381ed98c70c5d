"""The captions that a page lists: chosen by their ids, with every check item, its verdict and the reason."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from trustvid.captioning.records import SCORES, Lines, response_lines, task_lines
from trustvid.evaluation.page.samples import MOST_TEXT
from trustvid.evaluation.plots.inputs import RunData

_VERDICTS = {True: "right", False: "wrong", None: "unscored"}


def caption_samples(run: RunData, most: int) -> tuple[list[dict[str, Any]], list[str]]:
    """What the page lists of a run of captions, as plain containers, and notes.

    Args:
        run: of captions.
        most: instructions; each is shown with all its responses.

    Returns:
        Entries by task: {"id", "task" (application field), "video", "question" (the instruction), "answers": one for
        each captioner and judge, with "checks"}. An answer is right when every constraint is satisfied.
    """
    tasks, responses = task_lines(run.folder), response_lines(run.folder)
    scores = Lines(
        run.folder / f"{SCORES}.jsonl", lambda record: (record["task_id"], record["captioner"], record["judge"])
    )
    mode = run.metrics["context"]["headline"]
    kept = set(sorted(tasks, key=lambda name: hashlib.sha256(name.encode()).hexdigest())[:most])
    entries = {
        name: {
            "id": name,
            "condition": "",
            "task": tasks[name]["field"],
            "video": tasks[name]["video"],
            "question": tasks[name]["instruction"],
            "answers": [],
        }
        for name in tasks
        if name in kept
    }
    judges = _short({judge for _, _, judge in scores})
    for name, captioner, judge in scores:
        if name in kept:
            response = responses.get((captioner, name))
            record = scores[name, captioner, judge]
            entries[name]["answers"].append(_answer(tasks[name], response, record, judges[judge], mode))
    return list(entries.values()), [f"Verdicts by the {mode} rules; an instruction is followed when every check holds."]


def _short(judges: Collection[str]) -> dict[str, str]:
    """Names of judges by their ids, as the tables have them; the id where several settings of one judged."""
    bare = {judge: judge.rpartition("-")[0] for judge in judges}
    return {judge: name if list(bare.values()).count(name) == 1 else judge for judge, name in bare.items()}


def _answer(
    task: Mapping[str, Any], response: Mapping[str, Any] | None, record: Mapping[str, Any], judge: str, mode: str
) -> dict[str, Any]:
    checks = list(_checks(task["checklist"] or {}, record[mode]))
    found = {check["verdict"] for check in checks}
    if record["reason"] is not None or not checks:
        verdict = "unscored"
    else:
        verdict = next(name for name in ("wrong", "unscored", "right") if name in found)
    return {
        "method": f"{record['captioner']}, judged by {judge}",
        "verdict": verdict,
        "reason": record["reason"],
        "text": _cut(response["text"]) if response and response["text"] is not None else None,
        "thinking": _cut(response["thinking"]) if response and response["thinking"] else None,
        "checks": checks,
    }


def _checks(checklist: Mapping[str, Any], verdicts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Check items in the checklist's order with their verdicts, which have the same order (captioning.scoring)."""
    rules = checklist.get("ruled_based_check", ())
    for item, (holds, why) in zip(rules, verdicts["rules"], strict=False):
        yield _check("rule", item["constraint_id"], item["check_description"], holds, why)
    groups = checklist.get("open_ended_check", ())
    questions = [(group, item) for group in groups for item in group["check_items"]]
    for (group, item), (holds, why) in zip(questions, verdicts["questions"], strict=False):
        options = f" ({'; '.join(item['options'])})" if item["check_type"] != "attempt" else ""
        kind = str(group.get("constraint_id") or group["check_content"])
        yield _check(item["check_type"], kind, f"{item['question']}{options}", holds, why)


def _check(kind: str, constraint: str, text: str, holds: bool | None, why: str) -> dict[str, Any]:
    name = constraint.replace("_", " ")
    return {"kind": kind, "constraint": name, "text": text, "verdict": _VERDICTS[holds], "reason": why}


def _cut(text: str) -> str:
    rest = len(text) - MOST_TEXT
    return text if rest <= 0 else f"{text[:MOST_TEXT]}… [{rest} characters more in responses.jsonl]"
