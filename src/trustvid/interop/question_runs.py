"""A run over questions, read for export: its predictions joined with the questions and the conversations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trustvid.benchmarks.digest import questions_digest
from trustvid.benchmarks.sample import Sample
from trustvid.benchmarks.splits import choose
from trustvid.captioning.records import Lines
from trustvid.config.checking import build_stored
from trustvid.errors import DataError
from trustvid.evaluation.grid import MACRO, MICRO
from trustvid.evaluation.jsonfiles import read_json
from trustvid.evaluation.records import Prediction
from trustvid.evaluation.store import RunFolder
from trustvid.interop.parts import Estimate, Item, Part, Run, Turn, plain_details, without_folders

"""Only classes below this are built from a run's stored config: the folder may come from somebody else."""

_IN_ITEM = ("sample_id", "cluster", "task", "truth", "answer", "score", "reason")


def run_of(folder: RunFolder) -> Run:
    """What the run is of.

    Raises:
        DataError: it has no numbers yet.
    """
    context = _metrics(folder)["context"]
    settings = {"frames": context.get("k"), **context.get("decode", {})}
    return Run(context["benchmark"], context["split"], context["policy"], folder.existing_run(), settings)


def parts_of(folder: RunFolder, questions: Mapping[str, Sample] | None) -> Iterator[Part]:
    """One part for each method and condition of the run, in the order of its tables.

    Args:
        folder: a run with ``predictions.jsonl`` and ``metrics.json``.
        questions: by id, as :func:`questions_of` gives them; None exports ids and answers without texts.

    Raises:
        DataError: there are no numbers, they are not of these predictions, or a prediction's question is not among
            ``questions``.
    """
    metrics = _metrics(folder)
    predictions = sorted(folder.load("predictions").records, key=lambda one: one.sample_id)
    conversations = Lines(
        folder.path / "trajectories.jsonl",
        lambda record: (record["sample_id"], record["method"], record["condition"]),
    )
    for method in metrics["context"]["methods"]:
        for condition in metrics["context"]["conditions"]:
            chosen = [one for one in predictions if (one.method, one.condition) == (method, condition)]
            if chosen:
                items = tuple(_item(one, questions, conversations.get(one.key)) for one in chosen)
                yield Part(method, condition, items, _summaries(metrics, method, condition, chosen))


def questions_of(folder: RunFolder) -> dict[str, Sample]:
    """The questions of a run by id, read anew from its benchmark and checked against the digest in ``run.json``.

    Raises:
        DataError: the run keeps no config, its benchmark cannot be read, or has other questions now.
    """
    config = folder.config()
    if config is None:
        raise DataError(f"{folder.path}: nothing tells which questions were asked; export without their texts")
    benchmark = build_stored(config["benchmark"], folder.path, "trustvid.benchmarks.")
    samples = choose(benchmark.samples()[0], config.get("limit"), config.get("seed", 0))
    stored, now = folder.existing_run()["datasets"].get(benchmark.name), questions_digest(samples)
    if stored != now:
        raise DataError(
            f"{folder.path}: was made on other questions of {benchmark.name} than there are now "
            f"(digest {stored} in run.json, {now} read); export without their texts, or restore the data"
        )
    return {sample.id: sample for sample in samples}


def _metrics(folder: RunFolder) -> dict[str, Any]:
    path: Path = folder.path / "metrics.json"
    if not path.is_file():
        raise DataError(f"{path}: is missing; run mode=score (or mode=all) first")
    return read_json(path)


def _item(one: Prediction, questions: Mapping[str, Sample] | None, record: Mapping[str, Any] | None) -> Item:
    if questions is not None and one.sample_id not in questions:
        raise DataError(f"prediction {one.sample_id!r} of {one.method} answers no question of the benchmark")
    sample = questions[one.sample_id] if questions is not None else None
    turns = tuple(Turn(m["role"], without_folders(m["text"])) for m in record["messages"]) if record else ()
    said = [turn.text for turn in turns if turn.role == "assistant"]
    details = {key: value for key, value in asdict(one).items() if key not in _IN_ITEM}
    return Item(
        id=one.sample_id,
        video=one.cluster,
        task=one.task,
        question=sample.question if sample else "",
        options=sample.options if sample else (),
        target=one.truth,
        turns=turns,
        reply=said[-1] if said else one.answer or "",
        answer=one.answer,
        scores={} if one.score is None else {"accuracy": one.score},
        reason=None if one.reason is None else without_folders(one.reason),
        details=plain_details(details),
    )


def _summaries(
    metrics: Mapping[str, Any], method: str, condition: str, predictions: Sequence[Prediction]
) -> dict[str, dict[str, Estimate]]:
    names = {MICRO: "accuracy", MACRO: "accuracy_macro"}
    rows = {
        row["task"]: row
        for row in metrics["rows"]
        if (row["method"], row["condition"], row["metric"]) == (method, condition, "accuracy")
    }
    scored = sum(one.score is not None for one in predictions)
    counted = (rows[MICRO]["n"], rows[MICRO]["unscored"])
    if counted != (scored, len(predictions) - scored):
        raise DataError(
            f"metrics.json counts {counted[0]} scored and {counted[1]} unscored answers of {method} under {condition}, "
            f"predictions.jsonl {scored} and {len(predictions) - scored}; run mode=score first"
        )
    found = {
        name: Estimate(rows[scope]["value"], rows[scope]["se"])
        for scope, name in names.items()
        if scope in rows and rows[scope]["value"] is not None
    }
    return {"accuracy": found}
