"""From somebody else's replies to a run folder of ours: the same questions, parser, scores and tables.

Every question of the benchmark gets a prediction: a question without a usable row is unscored with the reason, so
that a file with gaps shows its bounds instead of a mean over what it happens to hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trustvid.agent.method import Question
from trustvid.agent.replies import read_answer
from trustvid.benchmarks.digest import questions_digest
from trustvid.benchmarks.sample import Sample
from trustvid.benchmarks.splits import choose
from trustvid.config.checking import build
from trustvid.errors import DataError
from trustvid.evaluation.metrics import compute_metrics
from trustvid.evaluation.provenance import config_hash
from trustvid.evaluation.records import CLEAN, Condition, Prediction
from trustvid.evaluation.runner import answered
from trustvid.evaluation.store import RunFolder, RunInfo
from trustvid.interop import lmms_eval, vlmevalkit
from trustvid.interop.matching import Matched, match
from trustvid.interop.replies import Reply

FORMATS: dict[str, Callable[[Path], list[Reply]]] = {
    "vlmevalkit": vlmevalkit.read_replies,
    "lmms_eval": lmms_eval.read_replies,
}
_NOT_HASHED = ("benchmark.data_dir", "benchmark.root", "benchmark.workers", "benchmark.video_root", "benchmark.file")


@dataclass(frozen=True)
class Source:
    """One file: whose replies it holds, under which condition the videos were shown.

    Raises:
        ValueError: the condition is not written as conditions are.
    """

    path: Path
    method: str
    condition: str = CLEAN

    def __post_init__(self) -> None:
        Condition.parse(self.condition)


@dataclass(frozen=True)
class Imported:
    """What became of it: the folder, and by (method, condition) which rows found their question."""

    folder: RunFolder
    matched: Mapping[tuple[str, str], Matched]


def import_run(
    sources: Sequence[Source], form: str, config: Mapping[str, Any], outputs: Path, name: str, words: Sequence[str] = ()
) -> Imported:
    """Read, match, score and store.

    Args:
        sources: the files; several of one method and condition are parts of one set of replies.
        form: key of :data:`FORMATS`.
        config: a resolved evaluate config; its ``benchmark``, ``limit`` and ``seed`` are used.
        outputs: the run folder is ``<outputs>/evaluate/<name>-<hash>``, the hash over questions, files and parser.
        name: first part of the folder's name.
        words: what the command said, for the labels of tables over several runs.

    Raises:
        DataError: a file or the benchmark cannot be read, no row has a question, or the folder holds another run.
    """
    samples, rejected, benchmark = _questions(config)
    replies: dict[tuple[str, str], list[Reply]] = {}
    for source in sources:
        replies.setdefault((source.method, source.condition), []).extend(FORMATS[form](source.path))
    matched = {key: match(rows, samples) for key, rows in replies.items()}
    if not any(found.replies for found in matched.values()):
        reasons = [f"{row.place}: {row.reason}" for found in matched.values() for row in found.refused[:3]]
        raise DataError(f"no row has a question of {benchmark}: " + ("; ".join(reasons) or "the files have no rows"))
    digests = {f"file {source.path.name}": _file_digest(source.path) for source in sources}
    asked = questions_digest(samples)
    identity = {"import": form, "benchmark": config["benchmark"], "questions": asked}
    files = [[source.method, source.condition, digests[f"file {source.path.name}"]] for source in sources]
    digest = config_hash({**identity, "files": files}, _NOT_HASHED)
    folder = RunFolder(outputs / "evaluate" / f"{name}-{digest}")
    info = RunInfo(name, digest, {benchmark: asked, **digests}, overrides=tuple(words))
    predictions = [p for key, found in matched.items() for p in predictions_of(samples, found, *key)]
    questions = {
        "benchmark": benchmark,
        "split": config["benchmark"].get("split") or "all",
        "policy": f"imported from {form}",
        "decode": {},
        "n_expected": len(samples),
        "rejected": [{"id": row.id, "reason": row.reason} for row in rejected],
        "methods": list(dict.fromkeys(method for method, _ in matched)),
        "tasks": list(dict.fromkeys(sample.task for sample in samples)),
    }
    context = {key: value for key, value in questions.items() if key not in ("methods", "tasks")}
    metrics = compute_metrics(predictions, context, methods=questions["methods"], tasks=questions["tasks"])
    with folder.writing(info, fresh=True) as writer:
        # Which questions, and nothing else: policy and decoding were somebody else's.
        chosen = ("benchmark",) if config["limit"] is None else ("benchmark", "limit", "seed")
        writer.write_yaml(".hydra/config.yaml", {key: config[key] for key in chosen})
        writer.append("predictions", predictions)
        writer.write_json("questions.json", questions)
        writer.write_json("imported.json", _account(sources, form, digests, matched))
        writer.write_json("metrics.json", metrics)
    return Imported(folder, matched)


def predictions_of(samples: Sequence[Sample], found: Matched, method: str, condition: str) -> list[Prediction]:
    """A prediction for every question: scored from its reply, or unscored with the reason."""
    predictions = []
    for sample in samples:
        reply = found.replies.get(sample.id)
        if reply is None or reply.failure is not None:
            reason = "no usable row in the imported files" if reply is None else f"{reply.place}: {reply.failure}"
            predictions.append(Prediction.unscored(sample, method, condition, reason))
            continue
        answer = read_answer(reply.text, Question(sample.question, sample.options, sample.kind == "numeric"))
        predictions.append(answered(sample, method, condition, answer, reply.text))
    return predictions


def _questions(config: Mapping[str, Any]) -> tuple[list[Sample], list[Any], str]:
    benchmark = build(config["benchmark"])
    samples, rejected = benchmark.samples()
    return choose(samples, config["limit"], config["seed"]), rejected, benchmark.name


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _account(
    sources: Sequence[Source], form: str, digests: Mapping[str, str], matched: Mapping[tuple[str, str], Matched]
) -> dict[str, Any]:
    """``imported.json``: which files, and what became of their rows."""
    return {
        "form": form,
        "files": [
            {
                "name": source.path.name,
                "sha256": digests[f"file {source.path.name}"],
                "method": source.method,
                "condition": source.condition,
            }
            for source in sources
        ],
        "matched": [
            {"method": method, "condition": condition, "replies": len(found.replies), "refused": len(found.refused)}
            for (method, condition), found in matched.items()
        ],
        "refused": [
            {"method": method, "condition": condition, **row._asdict()}
            for (method, condition), found in matched.items()
            for row in found.refused
        ],
    }
