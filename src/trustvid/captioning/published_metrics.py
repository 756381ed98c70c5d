"""The published metric script's numbers from a result file, its peculiarities included.

For comparison with published tables and for checking exported files. Our own metrics are in ``metrics``; on files
without gaps, repeats and unscored items both agree. Peculiar here: a missing verdict counts as failed; of instructions
with one (video, prompt_id) the last decides the overall ISR, while the others' ISRs merge them; an instruction without
any fact-free constraint satisfies them; in the scores of single instructions 0 of 0 is an ISR of 1 and a CSR of 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trustvid.captioning.outcomes import Constraint, constraints_of

ResultFile = Mapping[str, Sequence[Mapping[str, Any]]]
"""A ``*_check_result.json``: video id → instructions with ``prompt_id`` and ``check_result``."""

_DIMENSIONS = {"format": ("format",), "content": ("content",), "logical": ("logical", "conditional")}
_NAMES = {
    "isr": "ISR",
    "csr": "CSR",
    "rule_based_isr": "Rule-based ISR",
    "rule_based_csr": "Rule-based CSR",
    "open_ended_isr": "Open-ended ISR",
    "open_ended_csr": "Open-ended CSR",
    "ff_isr": "FF-ISR",
    "ff_csr": "FF-CSR",
    "fo_isr": "FO-ISR",
    "fo_csr": "FO-CSR",
}
# Which constraints a family counts, and whether one holds. A verdict that is not there has failed.
_Family = tuple[Callable[[Constraint], bool], Callable[[Constraint], bool]]
_FAMILIES: dict[str, _Family] = {
    "": (lambda c: True, lambda c: c.value is True),
    "rule_based_": (lambda c: c.family == "rule", lambda c: c.value is True),
    "open_ended_": (lambda c: c.family == "open", lambda c: c.value is True),
    "ff_": (lambda c: c.fact_free != "absent", lambda c: c.fact_free is True),
    "fo_": (lambda c: c.fact_only != "absent", lambda c: c.fact_only is True),
}


def published_fractions(results: ResultFile) -> dict[str, float]:
    """ISR and CSR, overall and by family, each 0–1: keys "isr", "csr", "rule_based_isr", …, "fo_csr"."""
    return {name: _share(passed, total) for name, (passed, total) in _tallies(results).items()}


def published_stats(results: ResultFile) -> dict[str, dict[str, Any]]:
    """The counts behind :func:`published_fractions`, under the script's own keys (overall ISR has none there)."""
    tallies = _tallies(results)
    passed, total = tallies["csr"]
    stats: dict[str, dict[str, Any]] = {"csr": {"global_constraints_total": total, "global_constraints_passed": passed}}
    for family in ("rule_based_", "open_ended_", "ff_", "fo_"):
        passed, total = tallies[f"{family}csr"]
        stats[f"{family}csr"] = {"total_constraints": total, "passed_constraints": passed}
        passed, total = tallies[f"{family}isr"]
        stats[f"{family}isr"] = {"total_prompts": total, "fully_satisfied_prompts": passed}
    dimensions = _dimension_tallies(results)
    if dimensions:
        stats["constraint_dimensions"] = {
            name: {"total": total, "passed": passed} for name, (passed, total) in dimensions.items()
        }
    return stats


def published_dimension_scores(results: ResultFile) -> dict[str, float]:
    """Scores of rule items whose id contains "format", "content", "logical" or "conditional": no official id does."""
    return {f"{name}_score": _share(*tally) for name, tally in _dimension_tallies(results).items()}


def published_video_scores(results: ResultFile) -> dict[str, dict[str, float]]:
    """The ten metrics of each video alone; its CSR alone is a mean over instructions (macro)."""
    scores = {}
    for video, rows in results.items():
        fractions = published_fractions({video: rows})
        checked = [row["check_result"] for row in rows if row.get("check_result")]
        shares = [_share(*_passed_of(constraints_of(check), "")) for check in checked]
        fractions["csr"] = sum(shares) / len(checked) if checked else 0.0
        scores[video] = {_NAMES[name]: value for name, value in fractions.items()}
    return scores


def published_prompt_scores(results: ResultFile) -> list[dict[str, Any]]:
    """The ten metrics of each instruction, as in the script's detail sheet (which shows those with a prompt_id)."""
    rows = []
    for video, items in results.items():
        for index, row in enumerate(items):
            constraints = constraints_of(row.get("check_result") or {})
            scores = {name: value for family in _FAMILIES for name, value in _prompt_family(constraints, family)}
            rows.append({"video_id": video, "index": index, "prompt_id": row.get("prompt_id"), **scores})
    return rows


def _prompt_family(constraints: Sequence[Constraint], family: str) -> Iterable[tuple[str, float]]:
    if family == "ff_":  # here, unlike above, only questions of type "attempt" count as fact-free
        kept = [[value for kind, value in c.items if kind in ("rule", "attempt")] for c in constraints]
        passed, total = sum(all(v is True for v in values) for values in kept if values), sum(map(bool, kept))
    else:
        passed, total = _passed_of(constraints, family)
    empty = 1.0 if constraints else 0.0
    yield f"{family}isr", float(passed == total) if total else empty
    yield f"{family}csr", passed / total if total else 0


def _passed_of(constraints: Sequence[Constraint], family: str) -> tuple[int, int]:
    counts, holds = _FAMILIES[family]
    values = [holds(constraint) for constraint in constraints if counts(constraint)]
    return sum(values), len(values)


def _tallies(results: ResultFile) -> dict[str, tuple[int, int]]:
    """(passed, total) of all ten metrics."""
    rows = [
        ((video, row.get("prompt_id") or ""), constraints_of(row.get("check_result") or {}))
        for video, items in results.items()
        for row in items
    ]
    last = dict(rows)
    merged: dict[tuple[str, str], list[Constraint]] = {}
    for key, constraints in rows:
        merged.setdefault(key, []).extend(constraints)
    tallies = {}
    for family in _FAMILIES:
        every = [_passed_of(constraints, family) for _, constraints in rows]
        tallies[f"{family}csr"] = sum(p for p, _ in every), sum(t for _, t in every)
        prompts = [_passed_of(constraints, family) for constraints in (merged if family else last).values()]
        kept = [(p, t) for p, t in prompts if t or family == "ff_"]
        tallies[f"{family}isr"] = sum(p == t for p, t in kept), len(kept)
    return {name: tallies[name] for name in _NAMES}


def _dimension_tallies(results: ResultFile) -> dict[str, tuple[int, int]]:
    found: dict[str, list[bool]] = {}
    for items in results.values():
        for row in items:
            for constraint in constraints_of(row.get("check_result") or {}):
                for name, words in _DIMENSIONS.items():
                    if constraint.family == "rule" and any(word in constraint.constraint_id for word in words):
                        found.setdefault(name, []).append(constraint.value is True)
    return {name: (sum(values), len(values)) for name, values in sorted(found.items())}


def _share(passed: int, total: int) -> float:
    return passed / total if total else 0.0
