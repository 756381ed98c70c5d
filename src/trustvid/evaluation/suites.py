"""What a run compares its methods under: the conditions of a config, and the pools that its suites make of them.

A suite names corruptions, severities and coverages (``suites`` in conf/evaluate.yaml). Each of its severity × coverage
pairs is a pool: the corruptions of the suite at that severity and coverage, averaged without weights. Severities and
coverages are never averaged over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from trustvid.evaluation.records import CLEAN, Condition


def conditions_of(config: Mapping[str, Any]) -> list[str]:
    """Names of the conditions of a run, in the order of its work and of its tables.

    Clean, then suite by suite its corruptions × severities × coverages as the config lists them, each condition once;
    without suites every corruption at the config's ``severity`` and ``coverage``.
    """
    suites = config.get("suites") or {}
    if not suites:
        severity, coverage = config["severity"], config["coverage"]
        return [CLEAN, *(Condition(name, severity, coverage).text for name in config["corruption"])]
    named = (
        Condition(*parts).text
        for suite in suites.values()
        for parts in product(suite["corruption"], suite["severity"], suite["coverage"])
    )
    return [CLEAN, *dict.fromkeys(named)]


def pools_of(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Conditions by name of the pool ("five:s3:c0.5"), in the order of the tables; none without suites."""
    return {
        Condition(name, severity, coverage).text: [
            Condition(corruption, severity, coverage).text for corruption in suite["corruption"]
        ]
        for name, suite in (config.get("suites") or {}).items()
        for severity, coverage in product(suite["severity"], suite["coverage"])
    }


def pool_records(pools: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Pools as they stand in files, whose objects do not keep the order of their keys."""
    return [{"name": name, "conditions": list(conditions)} for name, conditions in pools.items()]


def read_pools(records: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Inverse of :func:`pool_records`."""
    return {record["name"]: list(record["conditions"]) for record in records}
