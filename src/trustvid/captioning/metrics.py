"""CSR and ISR of captioners: from checked responses to the tidy rows of ``metrics.json``.

- ``csr_micro``: share of satisfied constraints over all instructions together; the published tables' number.
- ``csr_macro``: mean over instructions of the share each satisfies; the paper's formula.
- ``isr``: share of instructions with every constraint satisfied.

Each overall and by family (``csr_micro/rule_based``, …): rule_based (format), open_ended (content), fact_free (rules,
and questions that the response alone answers), fact_only (questions about the video's content, alone). As published,
an instruction without a constraint of the family is left out of that family's ISR, except fact_free, where it counts
as satisfied.

``task`` says over what: "all"; "type:length" (one constraint id, "untyped" groups as one), "bar:JSON" (a bar of the
paper's Fig. 5); "field:For Retrieval"; "constraints:4–5" (by the checklist's size) and "words:20–39" (by the
instruction's length), the bins of its Fig. 4.

The headline is over what was scored. ``bound_low`` and ``bound_high`` are what it would be if every unscored constraint
had failed, or held: an unscored response is in no headline but always in the bounds. Standard errors cluster by video.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trustvid.captioning.outcomes import UNTYPED, Constraint, Outcome, Value, all_of
from trustvid.captioning.taxonomy import CONTENT_IDS, FIGURE_GROUPS, FORMAT_IDS, figure_group_of
from trustvid.evaluation import stats
from trustvid.seeding import derive_rng

ALL = "all"
FAMILIES: dict[str, Callable[[Constraint], Any]] = {
    "": lambda constraint: constraint.value,
    "rule_based": lambda constraint: constraint.value if constraint.family == "rule" else "absent",
    "open_ended": lambda constraint: constraint.value if constraint.family == "open" else "absent",
    "fact_free": lambda constraint: constraint.fact_free,
    "fact_only": lambda constraint: constraint.fact_only,
}
"""By name, the verdict on a constraint within the family, "absent" when it has no part in it."""

METRICS = ("isr", "csr_micro", "csr_macro")
CONSTRAINT_BINS = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, None))
WORD_BINS = ((0, 19), (20, 39), (40, 59), (60, 79), (80, None))


def metric_name(metric: str, family: str) -> str:
    """
    >>> metric_name("isr", ""), metric_name("csr_micro", "rule_based")
    ('isr', 'csr_micro/rule_based')
    """
    return f"{metric}/{family}" if family else metric


@dataclass(frozen=True)
class Column:
    """One number per unit (constraint or instruction), the units sorted.

    Attributes:
        keys: [n] name of each unit, aligned between captioners.
        values: [n] 0–1, NaN where unscored.
        low, high: [n] what the value would be if what is unscored had failed, or held.
        clusters: [n] video of each unit.
        unscored: constraints or instructions without a verdict.
    """

    keys: tuple[str, ...]
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    clusters: np.ndarray
    unscored: int


class _Unit(NamedTuple):
    key: str
    value: float  # NaN where unscored
    low: float
    high: float
    unscored: int


def column(outcomes: Iterable[Outcome], metric: str, family: str = "") -> Column:
    """What a metric is the mean of."""
    keep_empty = family == "fact_free"
    found = [(unit, o.video) for o in outcomes for unit in _units(o, metric, FAMILIES[family], keep_empty)]
    found.sort(key=lambda pair: pair[0].key)
    units = [unit for unit, _ in found]
    return Column(
        keys=tuple(unit.key for unit in units),
        values=np.array([unit.value for unit in units], dtype=np.float64),
        low=np.array([unit.low for unit in units], dtype=np.float64),
        high=np.array([unit.high for unit in units], dtype=np.float64),
        clusters=np.array([video for _, video in found], dtype=str),
        unscored=sum(unit.unscored for unit in units),
    )


def _units(outcome: Outcome, metric: str, verdict: Callable[[Constraint], Any], keep_empty: bool) -> Iterator[_Unit]:
    """What one instruction adds to a metric."""
    verdicts: list[Value] = [found for c in outcome.constraints if (found := verdict(c)) != "absent"]
    if metric == "csr_micro":
        for place, value in enumerate(verdicts):
            yield _decided(f"{outcome.task_id}#{place:03d}", value)
    elif metric == "isr" and (verdicts or keep_empty):
        yield _decided(outcome.task_id, all_of(verdicts))
    elif metric == "csr_macro" and verdicts:
        missing, passed, total = verdicts.count(None), verdicts.count(True), len(verdicts)
        share = passed / (total - missing) if missing < total else np.nan
        yield _Unit(outcome.task_id, share, passed / total, (passed + missing) / total, missing)


def _decided(key: str, value: Value) -> _Unit:
    number = np.nan if value is None else float(value)
    return _Unit(key, number, float(value is True), float(value is not False), int(value is None))


def estimate_row(found: Column) -> dict[str, Any]:
    """value, se, n, unscored, bound_low, bound_high of a column."""
    scored = ~np.isnan(found.values)
    estimate = stats.mean_of_cells(found.values[scored], found.clusters[scored])
    low, high = (float(bound.mean()) if len(bound) else None for bound in (found.low, found.high))
    return {
        "value": estimate.mean,
        "se": estimate.se,
        "n": estimate.n,
        "unscored": found.unscored,
        "bound_low": low,
        "bound_high": high,
    }


# -- scopes ------------------------------------------------------------------------------------------------------------


def metric_rows(outcomes: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    """All rows of one captioner under one judge and rule mode: ``task``, ``metric`` and the estimate."""
    for family in FAMILIES:
        for metric in METRICS:
            yield _row(ALL, metric, family, outcomes)
    for scope, kept in by_type(outcomes):
        yield _row(scope, "csr_micro", "", kept)
    for scope, kept in (*by_field(outcomes), *by_constraints(outcomes), *by_words(outcomes)):
        for family in ("", "rule_based", "open_ended"):
            for metric in METRICS:
                yield _row(scope, metric, family, kept)


def _row(scope: str, metric: str, family: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {"task": scope, "metric": metric_name(metric, family), **estimate_row(column(outcomes, metric, family))}


Scopes = Iterator[tuple[str, list[Outcome]]]


def by_type(outcomes: Sequence[Outcome]) -> Scopes:
    """One scope for each constraint id that occurs and for each bar of Fig. 5, holding only those constraints."""
    present = {constraint.constraint_id for outcome in outcomes for constraint in outcome.constraints}
    known = (*FORMAT_IDS, *CONTENT_IDS, UNTYPED)
    for name in (*(name for name in known if name in present), *sorted(present - set(known))):
        yield f"type:{name}", _only(outcomes, lambda c, name=name: c.constraint_id == name)
    bars = {figure_group_of(name) for name in present}
    for bar in FIGURE_GROUPS:
        if bar in bars:
            yield f"bar:{bar}", _only(outcomes, lambda c, bar=bar: figure_group_of(c.constraint_id) == bar)


def _only(outcomes: Sequence[Outcome], wanted: Callable[[Constraint], bool]) -> list[Outcome]:
    return [
        Outcome(o.video, o.prompt_id, o.field, o.n_words, tuple(filter(wanted, o.constraints)), o.reason)
        for o in outcomes
    ]


def by_field(outcomes: Sequence[Outcome]) -> Scopes:
    """One scope for each application field."""
    for name in sorted({outcome.field for outcome in outcomes if outcome.field}):
        yield f"field:{name}", [outcome for outcome in outcomes if outcome.field == name]


def by_constraints(outcomes: Sequence[Outcome]) -> Scopes:
    """One scope for each bin of the number of constraints."""
    return _binned(outcomes, "constraints", CONSTRAINT_BINS, lambda outcome: len(outcome.constraints))


def by_words(outcomes: Sequence[Outcome]) -> Scopes:
    """One scope for each bin of the instruction's length."""
    return _binned(outcomes, "words", WORD_BINS, lambda outcome: outcome.n_words)


def _binned(
    outcomes: Sequence[Outcome],
    name: str,
    bins: Sequence[tuple[int, int | None]],
    size: Callable[[Outcome], int],
) -> Scopes:
    for low, high in bins:
        kept = [o for o in outcomes if low <= size(o) and (high is None or size(o) <= high)]
        if kept:
            yield f"{name}:{low}–{high}" if high is not None else f"{name}:{low}+", kept


# -- comparisons -------------------------------------------------------------------------------------------------------


def comparisons(by_captioner: Mapping[str, Sequence[Outcome]], seed: int, *names: str) -> Iterator[dict[str, Any]]:
    """Every captioner minus the first, and the best minus the runner-up where the first is neither, over the
    constraints or instructions that both have scored.

    Args:
        by_captioner: outcomes of each; the first is what the others are compared with.
        seed: of the bootstrap.
        names: what tells this comparison from others (judge, rules), for the bootstrap's own seed.
    """
    baseline, *others = by_captioner
    for family in FAMILIES if others else ():
        for metric in METRICS:
            columns = {name: column(outcomes, metric, family) for name, outcomes in by_captioner.items()}
            for a, b in [*((name, baseline) for name in others), *_leaders(columns, baseline)]:
                rng = derive_rng("captions", seed, *names, a, b, metric, family)
                found = _paired(columns[a], columns[b], rng)
                low, high = found.interval or (None, None)
                yield {
                    "a": a,
                    "b": b,
                    "task": ALL,
                    "metric": metric_name(metric, family),
                    "diff": found.diff.mean,
                    "se": found.diff.se,
                    "ci_low": low,
                    "ci_high": high,
                    "n": found.diff.n,
                    "clusters": found.diff.clusters,
                    "unpaired": found.unpaired,
                }


def _leaders(columns: Mapping[str, Column], baseline: str) -> list[tuple[str, str]]:
    """The pair with the highest means, unless the baseline is one of it: that pair is compared anyway."""
    means = {name: np.nanmean(found.values) for name, found in columns.items() if not np.isnan(found.values).all()}
    ranked = sorted(means, key=lambda name: -means[name])[:2]
    return [(ranked[0], ranked[1])] if len(ranked) == 2 and baseline not in ranked else []


def _paired(a: Column, b: Column, rng: np.random.Generator) -> stats.PairedDifference:
    keys = sorted(set(a.keys) | set(b.keys))
    place = {key: index for index, key in enumerate(keys)}
    clusters = np.empty(len(keys), dtype=object)
    aligned = []
    for found in (a, b):
        places = [place[key] for key in found.keys]
        values = np.full(len(keys), np.nan)
        values[places] = found.values
        clusters[places] = found.clusters
        aligned.append(values)
    return stats.paired_difference(*aligned, clusters.astype(str), rng)
