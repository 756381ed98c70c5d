"""Predictions laid out over methods, conditions and samples, so that pairing by sample is alignment of arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trustvid.config.schema import DEFAULT_BASELINE
from trustvid.errors import DataError
from trustvid.evaluation.records import CLEAN, CONFIDENCE_SOURCES, Condition, Prediction

MACRO, MICRO = "macro", "micro"
CORRUPTED_MEAN, DROP = "corrupted mean", "drop"


@dataclass(frozen=True)
class Grid:
    """Predictions as arrays over M methods, C conditions and S samples (sorted by id).

    Attributes:
        methods, conditions, tasks: names, in the order of the tables.
        sample_ids: [S].
        clusters: [S] int codes of the videos, by sorted name.
        task_codes: [S] index into ``tasks``.
        present: [M, C, S] bool, a prediction is there.
        scores: [M, C, S] float 0–1, NaN where absent or unscored.
        columns: [M, C, S] float by metric name, NaN likewise; every metric that is a mean over answers.
        confidences: [M, C, S] float by source, NaN where there is none or the answer is unscored.
        calls, failures: [M, C, S] float, NaN where absent or unscored.
    """

    methods: tuple[str, ...]
    conditions: tuple[str, ...]
    tasks: tuple[str, ...]
    sample_ids: np.ndarray
    clusters: np.ndarray
    task_codes: np.ndarray
    present: np.ndarray
    scores: np.ndarray
    columns: dict[str, np.ndarray]
    confidences: dict[str, np.ndarray]
    calls: np.ndarray
    failures: np.ndarray

    @property
    def scopes(self) -> tuple[str, ...]:
        """What a mean can be over: each task, then both averages."""
        return (*self.tasks, MACRO, MICRO)

    @property
    def corruptions(self) -> list[int]:
        """Indices of the conditions other than clean."""
        return [index for index, name in enumerate(self.conditions) if name != CLEAN]

    def chosen(self, scope: str) -> np.ndarray:
        """[S] bool: the samples of a scope."""
        if scope in (MACRO, MICRO):
            return np.ones(len(self.task_codes), dtype=bool)
        return self.task_codes == self.tasks.index(scope)

    def take(self, array: np.ndarray, method: int, conditions: Sequence[int], scope: str) -> np.ndarray:
        """The part of an array [M, C, S] that a scope sees under some conditions, flat [len(conditions)·S_scope]."""
        return array[method][list(conditions)][:, self.chosen(scope)].reshape(-1)

    def cells(self, n_conditions: int, scope: str) -> tuple[np.ndarray, np.ndarray, int]:
        """(clusters, cells, number of cells) of what :meth:`take` gives.

        A cell per condition, and for "macro" per condition and task: means over conditions and tasks are unweighted.
        """
        chosen = self.chosen(scope)
        inner = self.task_codes[chosen] if scope == MACRO else np.zeros(int(chosen.sum()), dtype=np.intp)
        n_inner = len(self.tasks) if scope == MACRO else 1
        cells = (np.arange(n_conditions)[:, None] * n_inner + inner[None, :]).reshape(-1)
        return np.tile(self.clusters[chosen], n_conditions), cells, n_conditions * n_inner


def build_grid(
    predictions: Sequence[Prediction],
    methods: Sequence[str] | None = None,
    conditions: Sequence[str] | None = None,
    tasks: Sequence[str] = (),
    baseline: str = DEFAULT_BASELINE,
) -> Grid:
    """Lay out ``predictions``; arguments and errors as in :func:`trustvid.evaluation.metrics.compute_metrics`."""
    if not predictions:
        raise DataError("no predictions: there is nothing to score; run mode=infer first")
    found_methods = sorted({prediction.method for prediction in predictions}, key=lambda name: (name != baseline, name))
    found_conditions = sorted({prediction.condition for prediction in predictions}, key=_condition_order)
    methods = _expected(methods, found_methods, "methods")
    conditions = _expected(conditions, found_conditions, "conditions")
    samples = _samples(predictions)
    ids = sorted(samples)
    found_tasks = {task for _, task in samples.values()}
    tasks = (*(task for task in tasks if task in found_tasks), *sorted(found_tasks - set(tasks)))
    layout = _Layout((len(methods), len(conditions), len(ids)), _places(predictions, methods, conditions, ids))
    return Grid(
        methods=methods,
        conditions=conditions,
        tasks=tasks,
        sample_ids=np.array(ids),
        clusters=np.unique([samples[name][0] for name in ids], return_inverse=True)[1],
        task_codes=np.array([tasks.index(samples[name][1]) for name in ids], dtype=np.intp),
        **_arrays(predictions, layout),
    )


@dataclass(frozen=True)
class _Layout:
    """Where each of N predictions goes: ``places`` [N] are flat indices into an array of ``shape`` [M, C, S]."""

    shape: tuple[int, int, int]
    places: np.ndarray

    def spread(self, values: np.ndarray, fill: float | bool = np.nan) -> np.ndarray:
        """[N] values as [M, C, S], ``fill`` where there is no prediction."""
        array = np.full(self.shape, fill)
        array.reshape(-1)[self.places] = values
        return array


def _arrays(predictions: Sequence[Prediction], layout: _Layout) -> dict:
    scored = np.array([prediction.status != "unscored" for prediction in predictions])
    sources = np.array([prediction.confidence_source or "" for prediction in predictions])

    def column(name: str, keep: np.ndarray = scored) -> np.ndarray:
        values = np.array([getattr(prediction, name) for prediction in predictions], dtype=np.float64)  # None: NaN
        return layout.spread(np.where(keep, values, np.nan))

    def share_of(status: str) -> np.ndarray:
        hits = np.array([prediction.status == status for prediction in predictions], dtype=np.float64)
        return layout.spread(np.where(scored, hits, np.nan))

    scores, calls = column("score"), column("calls")
    confidences = {source: column("confidence", scored & (sources == source)) for source in CONFIDENCE_SOURCES}
    return {
        "present": layout.spread(np.ones(len(predictions), dtype=bool), fill=False),
        "scores": scores,
        "columns": {
            "accuracy": scores,
            **{f"brier/{source}": (values - scores) ** 2 for source, values in confidences.items()},
            **{f"confidence/{source}": values for source, values in confidences.items()},
            **{f"overconfidence/{source}": values - scores for source, values in confidences.items()},
            "unparsed_rate": share_of("unparsed"),
            "abstained_rate": share_of("abstained"),
            "calls": calls,
            "cost": column("cost"),
            "frames": layout.spread(np.where(scored, [float(len(p.frames)) for p in predictions], np.nan)),
        },
        "confidences": confidences,
        "calls": calls,
        "failures": column("failures"),
    }


def _expected(asked: Sequence[str] | None, found: Sequence[str], what: str) -> tuple[str, ...]:
    if asked is None:
        return tuple(found)
    unknown = [name for name in found if name not in asked]
    if unknown:
        raise DataError(f"the predictions hold {what} {unknown} beside the expected {list(asked)}")
    return tuple(asked)


def _condition_order(text: str) -> tuple[bool, str, int, float]:
    condition = Condition.parse(text)
    return text != CLEAN, condition.name, condition.severity or 0, condition.coverage or 0.0


def _samples(predictions: Sequence[Prediction]) -> dict[str, tuple[str, str]]:
    """(cluster, task) of each sample id."""
    samples: dict[str, tuple[str, str]] = {}
    for prediction in predictions:
        here = (prediction.cluster, prediction.task)
        known = samples.setdefault(prediction.sample_id, here)
        if known != here:
            raise DataError(
                f"sample {prediction.sample_id!r} has (video, task) {known} in one prediction, {here} in another"
            )
    return samples


def _places(
    predictions: Sequence[Prediction], methods: Sequence[str], conditions: Sequence[str], ids: Sequence[str]
) -> np.ndarray:
    """[N] flat index of each prediction in an array [M, C, S]."""
    method_codes, condition_codes, id_codes = (
        {name: index for index, name in enumerate(names)} for names in (methods, conditions, ids)
    )
    codes = [
        (method_codes[prediction.method], condition_codes[prediction.condition], id_codes[prediction.sample_id])
        for prediction in predictions
    ]
    places = np.ravel_multi_index(np.array(codes).T, (len(methods), len(conditions), len(ids)))
    if len(np.unique(places)) < len(places):
        twice = next(key for key, count in Counter(prediction.key for prediction in predictions).items() if count > 1)
        raise DataError(f"two predictions for (sample, method, condition) = {twice}; loading a run folder drops such")
    return places
