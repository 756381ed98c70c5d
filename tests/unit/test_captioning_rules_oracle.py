"""Both readings of every rule against the oracle of the published checkers.   pytest tests/unit/test_captioning_rules_oracle.py -q"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from trustvid.captioning.rules import MODES, check

ORACLE = Path(__file__).resolve().parents[1] / "data" / "oracles" / "ifvidcap_rules.jsonl"


def _families() -> dict[str, list[dict]]:
    families = defaultdict(list)
    for line in ORACLE.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        families[case["constraint_id"]].append(case)
    return families


FAMILIES = _families()


def _expected(case: dict, mode: str) -> bool | None:
    return case.get("sensible", case["verdict"]) if mode == "strict" else case["verdict"]


def test_the_oracle_is_whole():
    assert sum(map(len, FAMILIES.values())) == 345
    assert len(FAMILIES) == 16  # the 14 rules, an unknown id, the empty id


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda name: name or "empty")
def test_every_line_of_the_oracle(family, mode):
    wrong = []
    for case in FAMILIES[family]:
        verdict = check(case["constraint_id"], case["parameters"], mode)
        if verdict.value is not _expected(case, mode):
            wrong.append((case["id"], case["tag"], verdict))
    assert wrong == []


@pytest.mark.parametrize("mode", MODES)
def test_every_verdict_has_a_one_line_reason(mode):
    for case in (case for cases in FAMILIES.values() for case in cases):
        reason = check(case["constraint_id"], case["parameters"], mode).reason
        assert reason and "\n" not in reason, case["id"]
