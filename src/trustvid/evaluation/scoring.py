"""Scores of single answers: mean relative accuracy, and the benchmarks' own readings of a reply for parity.

Functions named ``official_*`` reproduce what the published scripts compute, float edges and blind spots included, so
that our numbers can be laid beside published ones. Everything else in trustvid uses ``agent.parsing`` and
``mode="robust"``.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Literal

N_THRESHOLDS = 10
#: Allowed relative errors 1 - θ for θ = 0.50, 0.55, …, 0.95, exactly.
TOLERANCES = tuple(Fraction(50 - 5 * i, 100) for i in range(N_THRESHOLDS))
# The published script spaces θ by (0.95 - 0.5) / 9 in floats and sets the last one to 0.95.
_OFFICIAL_THETAS = (*(0.5 + i * ((0.95 - 0.5) / 9) for i in range(N_THRESHOLDS - 1)), 0.95)


def mean_relative_accuracy(
    prediction: float | None, truth: float, mode: Literal["robust", "official"] = "robust"
) -> float:
    """VSI-Bench's score of a number: the share of the ten tolerances (50 %, 45 %, …, 5 %) that the answer is within.

    MRA = 1/10 · Σ_θ [ |prediction - truth| / truth ≤ 1 - θ ], θ ∈ {0.50, 0.55, …, 0.95} (arXiv 2412.14171, Eq. 1; the
    paper prints <, its script computes ≤).

    Args:
        prediction: the number answered; None (nothing could be read), NaN and infinities score 0.
        truth: the right number. For 0, only a prediction of exactly 0 is right.
        mode: "robust" compares the numbers as written, in exact arithmetic (12 for 10 is 20 % off, within seven
            tolerances); "official" compares floats as the published script does (the same answer is within six).

    Returns:
        0.0, 0.1, …, 1.0.

    Raises:
        ValueError: ``truth`` is not finite, or ``mode`` is unknown.

    >>> mean_relative_accuracy(13.3, 10), mean_relative_accuracy(12, 10), mean_relative_accuracy(12, 10, "official")
    (0.4, 0.7, 0.6)
    """
    if mode not in ("robust", "official"):
        raise ValueError(f"mode={mode!r} is unknown; known: robust, official")
    if not math.isfinite(truth):
        raise ValueError(f"truth={truth!r} is not a finite number")
    if prediction is None or not math.isfinite(prediction):
        return 0.0
    if truth == 0:
        return 1.0 if prediction == 0 else 0.0
    if mode == "official":
        error = abs(prediction - truth) / truth
        return sum(error <= 1 - theta for theta in _OFFICIAL_THETAS) / N_THRESHOLDS
    # repr gives the shortest decimal that reads back as the float, which is the number as it was written.
    exact_truth = Fraction(repr(float(truth)))
    error = abs(Fraction(repr(float(prediction))) - exact_truth) / abs(exact_truth)
    return sum(error <= tolerance for tolerance in TOLERANCES) / N_THRESHOLDS


def official_choice_score(reply: str, truth: str) -> float:
    """VSI-Bench's own score of a multiple-choice reply: its first space-separated token is the letter, or it is wrong.

    >>> official_choice_score("B. left", "B"), official_choice_score("The answer is B", "B")
    (1.0, 0.0)
    """
    return float(_official_token(reply).lower() == truth.lower())


def official_numeric_score(reply: str, truth: float) -> float:
    """VSI-Bench's own score of a numeric reply: its first space-separated token as a float, by "official" MRA."""
    try:
        prediction = float(_official_token(reply))
    except ValueError:
        return 0.0
    return mean_relative_accuracy(prediction, truth, mode="official")


def _official_token(reply: str) -> str:
    return reply.split(" ")[0].rstrip(".").strip()


def official_urbanvideo_letter(reply: str) -> str | None:
    """UrbanVideo-Bench's own reading: the character after "Option:" (and brackets), else the first one, upper-cased.

    None for an empty reply (the published script stops with an error there; it also drops failed calls from the
    denominator, which trustvid never does).

    >>> official_urbanvideo_letter("Option: [C]; Reason: …"), official_urbanvideo_letter("The answer is C")
    ('C', 'T')
    """
    match = re.search(r"Option:\s*[\[\s]*(\w)", reply)
    if match:
        return match[1]
    return reply[0].upper() if reply else None
