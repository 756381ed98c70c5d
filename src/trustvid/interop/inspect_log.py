"""inspect_ai's eval log, JSON form, version 2: one file for each method and condition.

``inspect view`` and ``inspect_ai.log.read_eval_log`` read the files. An unscored sample has an ``error`` and no scores,
and is left out of ``completed_samples``; an answer that could not be read has the score 0 and an explanation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from trustvid.interop.parts import Estimate, Item, Part, Run, Turn, file_word, sha256, without_folders

VERSION = 2
SOLVER = "trustvid"
_STATUS = {"finished": "success", "running": "started", "failed": "error"}


def files(run: Run, parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    """(relative name, text) of every file, named as inspect names its own: <time>_<task>_<id>.json."""
    time = datetime.fromisoformat(run.record["started"]).isoformat(timespec="seconds").replace(":", "-")
    for part in parts:
        task = file_word(f"{run.benchmark}-{part.method}-{part.condition}")
        log = json.dumps(_log(run, part), indent=1, ensure_ascii=True, allow_nan=False)
        yield f"{time}_{task}_{_id(run, part)}.json", log + "\n"


def _id(run: Run, part: Part, what: str = "eval") -> str:
    """A name of 22 characters that is the same for the same run, as the same run gives the same file."""
    return sha256(f"{what}/{run.record['config_hash']}/{part.method}/{part.condition}")[:22]


def _log(run: Run, part: Part) -> dict[str, Any]:
    status, error = _STATUS[run.record["status"]], run.record["error"]
    return {
        "version": VERSION,
        "status": status,
        "eval": _spec(run, part),
        "plan": {"name": "plan", "steps": [{"solver": SOLVER, "params": {"method": part.method}}], "config": {}},
        "results": _results(part),
        "stats": {
            "started_at": run.record["started"],
            "completed_at": run.record["finished"] or "",
            "model_usage": {},
        },
        **({"error": _error(without_folders(error))} if status == "error" and error else {}),
        "samples": [_sample(run, part, item) for item in part.items],
    }


def _spec(run: Run, part: Part) -> dict[str, Any]:
    commit, _, dirty = str(run.record["commit"] or "").partition("-")
    revision = {"type": "git", "origin": "", "commit": commit, "dirty": bool(dirty)}
    return {
        "eval_id": _id(run, part),
        "run_id": _id(run, Part("", "", (), {}), "run"),
        "created": run.record["started"],
        "task": f"{run.benchmark}/{part.condition}",
        "task_id": _id(run, part, "task"),
        "task_version": 0,
        "task_args": {"split": run.split, "condition": part.condition, "method": part.method},
        "solver": SOLVER,
        "solver_args": {"method": part.method, **run.settings},
        "dataset": {
            "name": run.benchmark,
            "samples": len(part.items),
            "sample_ids": [item.id for item in part.items],
            "shuffled": False,
        },
        "model": f"trustvid/{run.policy}",
        "config": {"epochs": 1},
        **({"revision": revision} if commit else {}),
        "packages": {"trustvid": run.record["trustvid"]},
        "metadata": {"config_hash": run.record["config_hash"], "datasets": dict(run.record["datasets"])},
    }


def _results(part: Part) -> dict[str, Any]:
    return {
        "total_samples": len(part.items),
        "completed_samples": part.scored,
        "scores": [
            {
                "name": score,
                "scorer": score,
                "scored_samples": sum(score in item.scores for item in part.items),
                "unscored_samples": sum(score not in item.scores for item in part.items),
                "params": {},
                "metrics": {
                    name: {"name": name, "value": value, "params": {}}
                    for metric, found in means.items()
                    for name, value in _values(metric, found)
                },
            }
            for score, means in part.summaries.items()
        ],
    }


def _values(metric: str, found: Estimate) -> Iterator[tuple[str, float]]:
    yield metric, found.value
    if found.se is not None:
        yield f"{metric}_stderr", found.se


def _sample(run: Run, part: Part, item: Item) -> dict[str, Any]:
    model = f"trustvid/{run.policy}"
    turns = item.turns or (Turn("user", item.prompt), Turn("assistant", item.reply))
    message = {"role": "assistant", "content": item.reply, "source": "generate", "model": model}
    sample: dict[str, Any] = {
        "id": item.id,
        "epoch": 1,
        "input": item.question,
        **({"choices": list(item.options)} if item.options else {}),
        "target": item.target,
        "messages": [{"role": turn.role, "content": turn.text} for turn in turns],
        "output": {
            "model": model,
            "choices": [{"message": message, "stop_reason": "stop"}] if item.reply else [],
            "completion": item.reply,
        },
        "metadata": {"video": item.video, "task": item.task, **item.details},
        "store": {},
        "events": [],
        "model_usage": {},
        "uuid": sha256(f"{_id(run, part)}/{item.id}")[:22],
    }
    if not item.scores:
        return {**sample, "error": _error(item.reason or "unscored")}
    scores = {name: _score(item, value) for name, value in item.scores.items()}
    return {**sample, "scores": scores}


def _score(item: Item, value: float) -> dict[str, Any]:
    explained = {"explanation": item.reason} if item.reason else {}
    return {"value": value, **({"answer": item.answer} if item.answer is not None else {}), **explained}


def _error(message: str) -> dict[str, str]:
    return {"message": message, "traceback": "", "traceback_ansi": ""}
