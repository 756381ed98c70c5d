"""lmms-eval's files: its samples log (one JSON object a line) and its results file, written and, of samples, read.

The form is that of lmms-eval's evaluation tracker: ``<model>/<date>_samples_<task>.jsonl`` and
``<model>/<date>_results.json``. A "model" is policy and method, a "task" is benchmark and condition. Beside its own
keys a line holds ``trustvid``: whether it is scored, why not, and what the record says of status, confidence, cost and
frames. An unscored sample has no metric key, and counts in ``n-samples`` as original but not as effective.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from trustvid.benchmarks.files import cell, read_json_lines
from trustvid.errors import DataError
from trustvid.interop.parts import Estimate, Item, Part, Run, file_word, sha256, without_folders
from trustvid.interop.replies import Reply, failure_in

SOURCE = "the samples log of lmms-eval (--log_samples): one JSON object a line with doc and filtered_resps or resps"


def files(run: Run, parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    """(relative name, text) of every file: a samples log for each part, a results file for each method."""
    date = datetime.fromisoformat(run.record["started"]).strftime("%Y%m%d_%H%M%S")
    for method in dict.fromkeys(part.method for part in parts):
        own = [part for part in parts if part.method == method]
        folder = f"{file_word(run.policy)}__{file_word(method)}"
        for part in own:
            lines = [_sample(number, item) for number, item in enumerate(part.items)]
            text = "".join(json.dumps(line, ensure_ascii=True, allow_nan=False) + "\n" for line in lines)
            yield f"{folder}/{date}_samples_{_task(run, part)}.jsonl", text
        results = json.dumps(_results(run, method, own, date), indent=2, ensure_ascii=True, allow_nan=False)
        yield f"{folder}/{date}_results.json", results + "\n"


def _task(run: Run, part: Part) -> str:
    return f"{file_word(run.benchmark)}_{file_word(part.condition)}"


def _sample(number: int, item: Item) -> dict[str, Any]:
    doc = _doc(item)
    said = item.answer if item.answer is not None else ""
    return {
        "doc_id": number,
        "doc": doc,
        "target": item.target,
        "input": item.prompt,
        "arguments": [item.prompt],
        "resps": [[item.reply]],
        "filtered_resps": [said],
        "doc_hash": sha256(json.dumps(doc, indent=2, ensure_ascii=False)),
        "prompt_hash": sha256(item.prompt),
        "target_hash": sha256(item.target),
        **item.scores,
        "trustvid": {
            "scored": bool(item.scores),
            "reason": item.reason,
            **item.details,
        },
    }


def _doc(item: Item) -> dict[str, Any]:
    return {
        "id": item.id,
        "video": item.video,
        "task": item.task,
        "question": item.question,
        "options": list(item.options),
        "answer": item.target,
    }


def _results(run: Run, method: str, parts: Sequence[Part], date: str) -> dict[str, Any]:
    tasks = {_task(run, part): part for part in parts}
    model = f"{run.policy}/{method}"
    return {
        "results": {task: {"alias": task, **_means(part)} for task, part in tasks.items()},
        "group_subtasks": {task: [] for task in tasks},
        "configs": {
            task: {"task": task, "condition": part.condition, "test_split": run.split, "output_type": "generate_until"}
            for task, part in tasks.items()
        },
        "versions": dict.fromkeys(tasks, "Yaml"),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {task: dict.fromkeys(_metrics(part), True) for task, part in tasks.items()},
        "n-samples": {task: {"original": len(part.items), "effective": part.scored} for task, part in tasks.items()},
        "config": {
            "model": "trustvid",
            "model_args": f"model={model}",
            "settings": dict(run.settings),
            "trustvid": run.record["trustvid"],
            "config_hash": run.record["config_hash"],
        },
        "git_hash": run.record["commit"],
        "date": date,
        "task_hashes": {
            task: sha256("".join(f"sample_{n}{_doc_hash(item)}" for n, item in enumerate(part.items)))
            for task, part in tasks.items()
        },
        "model_source": "trustvid",
        "model_name": model,
        "model_name_sanitized": f"{file_word(run.policy)}__{file_word(method)}",
    }


def _doc_hash(item: Item) -> str:
    return sha256(json.dumps(_doc(item), indent=2, ensure_ascii=False))


def _metrics(part: Part) -> dict[str, Estimate]:
    return {name: found for means in part.summaries.values() for name, found in means.items()}


def _means(part: Part) -> dict[str, float | str]:
    """Keys "<metric>,<filter>"; a missing standard error is "N/A", as lmms-eval writes it."""
    means: dict[str, float | str] = {}
    for name, found in _metrics(part).items():
        means[f"{name},none"] = found.value
        means[f"{name}_stderr,none"] = "N/A" if found.se is None else found.se
    return means


# -- reading -----------------------------------------------------------------------------------------------------------

_IDS = ("id", "question_id", "Question_id", "index", "qid")
_VIDEOS = ("video", "video_id", "video_name", "videoID", "scene_name")


def read_replies(path: Path) -> list[Reply]:
    """The replies of a samples log.

    The reply is the model's text ("resps"; "filtered_resps" where lmms-eval left out the former because it is equal).
    Logs without the question's ``doc``, which newer versions leave out, are told apart by ``input`` alone.

    Raises:
        DataError: the file cannot be read, or a line is no sample.
    """
    replies = []
    for number, record in read_json_lines(path, SOURCE):
        if isinstance(record, str) or not ("resps" in record or "filtered_resps" in record):
            reason = record if isinstance(record, str) else f"has only {', '.join(sorted(record))}"
            raise DataError(f"{path}, line {number}: {reason}; expected {SOURCE}")
        doc = record.get("doc") if isinstance(record.get("doc"), dict) else {}
        text = _first_text(record.get("resps", record.get("filtered_resps")))
        options = doc.get("options") or doc.get("candidates")
        replies.append(
            Reply(
                place=f"{path.name}, line {number}",
                id=next((cell(doc[key]) for key in _IDS if doc.get(key) is not None), ""),
                question=cell(doc.get("question") or record.get("input") or ""),
                video=next((cell(doc[key]) for key in _VIDEOS if doc.get(key)), ""),
                options=tuple(map(cell, options)) if isinstance(options, list) else (),
                answer=cell(record.get("target")).strip(),
                text=without_folders(text),
                failure=failure_in(text),
            )
        )
    return replies


def _first_text(value: Any) -> str:
    """The first text in nested lists: lmms-eval writes [["B"]], ["B"] or "B" for one response."""
    while isinstance(value, list) and value:
        value = value[0]
    return cell(value) if isinstance(value, str | int | float) else ""
