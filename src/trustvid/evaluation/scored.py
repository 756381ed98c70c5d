"""From a run folder's predictions to its ``metrics.json``, and what scoring must know besides: ``questions.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trustvid.benchmarks.sample import Sample
from trustvid.errors import DataError, TrustvidError
from trustvid.evaluation.jsonfiles import read_json
from trustvid.evaluation.metrics import compute_metrics
from trustvid.evaluation.store import RunFolder
from trustvid.evaluation.suites import conditions_of, pool_records, pools_of, read_pools

QUESTIONS, METRICS = "questions.json", "metrics.json"
TASK_ORDER = ("LP", "CF", "PE", "AG", "RDist", "RDir", "RP", "AO")


def about_questions(
    config: Mapping[str, Any], samples: Sequence[Sample], rejected: Sequence[Any], benchmark: Any, policy: str
) -> dict[str, Any]:
    """What the scores are of: everything that scoring and tables need besides the predictions (``questions.json``).

    ``conditions`` and ``pools`` are those of a run with suites, ``offsets`` of clips beside a split's first series.

    Args:
        config: plain; of an evaluation.
        samples: what is asked.
        rejected: rows of the benchmark that cannot be asked, with ``id`` and ``reason``.
        benchmark: the component.
        policy: name of the policy.
    """
    pools = pools_of(config)
    offset = config["benchmark"].get("offset") or 0
    offsets = [offset] if isinstance(offset, int) else list(offset)
    return {
        "benchmark": benchmark.name,
        "split": config["benchmark"].get("split") or "all",
        "policy": policy,
        "k": config["frames"],
        "decode": {"reader": config["reader"].get("kind")},
        "n_expected": len(samples),
        "rejected": [{"id": row.id, "reason": row.reason} for row in rejected],
        "methods": list(config["methods"]),
        "tasks": sorted({s.task for s in samples}, key=lambda t: (TASK_ORDER.index(t) if t in TASK_ORDER else 99, t)),
        **({"conditions": conditions_of(config), "pools": pool_records(pools)} if pools else {}),
        **({"offsets": offsets} if offsets != [0] else {}),
    }


def score_run(folder: RunFolder, baseline: str, contrasts: Sequence[Sequence[str]] = (), seed: int = 0) -> None:
    """Write ``metrics.json`` from the predictions, and say how many answers are scored.

    Args:
        folder: of the run.
        baseline, contrasts, seed: see :func:`~trustvid.evaluation.metrics.compute_metrics`.

    Raises:
        DataError: there are no predictions, or not all that belongs to them.
        TrustvidError: not a single answer is scored: a table without numbers is no result.
    """
    loaded = folder.load("predictions")
    questions = folder.path / QUESTIONS
    if not loaded.records or not questions.is_file():
        raise DataError(f"{folder.path}: no complete predictions to score; run mode=infer (or mode=all) first")
    about = read_json(questions)
    layout = {name: about.pop(name) for name in ("methods", "tasks", "conditions") if name in about}
    pools = read_pools(about.pop("pools", ()))
    context = {**about, "duplicates": loaded.duplicates}
    metrics = compute_metrics(
        loaded.records, context, **layout, pools=pools, baseline=baseline, contrasts=contrasts, seed=seed
    )
    with folder.reporting() as writer:
        writer.write_json(METRICS, metrics)
    scored = sum(record.status != "unscored" for record in loaded.records)
    print(f"{scored} of {len(loaded.records)} answers scored")
    if scored == 0:
        reasons = "; ".join(f"{item['n']} × {item['reason']}" for item in metrics["context"]["unscored_reasons"])
        raise TrustvidError(f"{folder.path}: 0 of {len(loaded.records)} answers could be scored: {reasons}")
