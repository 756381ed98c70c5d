"""Scores of single answers.   pytest tests/unit/test_scoring.py -n 0 -q"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustvid.agent.numbers import parse_number
from trustvid.evaluation.scoring import (
    mean_relative_accuracy,
    official_choice_score,
    official_numeric_score,
    official_urbanvideo_letter,
)

TEXT = Path(__file__).parents[1] / "data" / "text"
NUMERIC = [json.loads(line) for line in (TEXT / "vsi_numeric.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", NUMERIC, ids=[case["id"] for case in NUMERIC])
def test_recorded_replies(case):
    number = parse_number(case["reply"])
    assert number == case["robust_value"]
    assert mean_relative_accuracy(number, case["gt"]) == case["expected_mra"]
    assert official_numeric_score(case["reply"], case["gt"]) == case["official_script_mra"]


@pytest.mark.parametrize(
    ("prediction", "truth", "robust", "official"),
    [
        (10, 10, 1.0, 1.0),
        (13.3, 10, 0.4, 0.4),
        (12.2, 10, 0.6, 0.6),
        (8.8, 10, 0.8, 0.8),
        (15.1, 10, 0.0, 0.0),
        (0, 4, 0.0, 0.0),
        (-4, 4, 0.0, 0.0),
        (12, 10, 0.7, 0.6),  # 20 % off: within the tolerance of 20 %, but not in floats
        (15, 10, 0.1, 0.1),
        (4.2, 4.0, 1.0, 1.0),
        (0, 0, 1.0, 1.0),
        (0.1, 0, 0.0, 0.0),
        (None, 4, 0.0, 0.0),
        (math.nan, 4, 0.0, 0.0),
        (math.inf, 4, 0.0, 0.0),
        (-5, -4, 0.6, None),
    ],
)
def test_mean_relative_accuracy(prediction, truth, robust, official):
    assert mean_relative_accuracy(prediction, truth) == robust
    if official is not None:
        assert mean_relative_accuracy(prediction, truth, mode="official") == official


def test_numpy_numbers():
    assert mean_relative_accuracy(np.float32(12), np.int64(10)) == 0.7


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_official_mode_is_the_published_computation(prediction, truth):
    thetas = np.linspace(0.5, 0.95, int((0.95 - 0.5) / 0.05 + 2))
    assert len(thetas) == 10
    published = (abs(prediction - truth) / truth <= 1 - thetas).mean()
    assert mean_relative_accuracy(prediction, truth, mode="official") == published


@given(st.integers(1, 10**6), st.integers(0, 100))
def test_robust_mode_counts_tolerances_exactly(truth, percent):
    expected = sum(percent <= tolerance for tolerance in range(5, 51, 5)) / 10
    assert mean_relative_accuracy(truth * (100 + percent) / 100, truth) == expected
    assert mean_relative_accuracy(truth * (100 - percent) / 100, truth) == expected


@pytest.mark.parametrize("truth", [math.nan, math.inf])
def test_a_truth_must_be_a_number(truth):
    with pytest.raises(ValueError, match="not a finite number"):
        mean_relative_accuracy(1, truth)


def test_unknown_mode():
    with pytest.raises(ValueError, match="known: robust, official"):
        mean_relative_accuracy(1, 1, mode="exact")


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("B", 1.0),
        ("b.", 1.0),
        ("B. left", 1.0),
        ("The answer is B", 0.0),
        ("B) left", 0.0),
        ("B\nbecause", 0.0),
        ("", 0.0),
    ],
)
def test_official_choice_score(reply, score):
    assert official_choice_score(reply, "B") == score


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("Option: [C]; Reason: A is behind.", "C"),
        ("Option: C", "C"),
        ("Option:[ [d]", "d"),
        ("The answer is C", "T"),
        ("c", "C"),
        ("option: C", "O"),
        ("", None),
    ],
)
def test_official_urbanvideo_letter(reply, letter):
    assert official_urbanvideo_letter(reply) == letter
