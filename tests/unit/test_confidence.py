"""Tool confidence: the tool's word, Eq. 4, and calibrated precision."""

from __future__ import annotations

import numpy as np
import pytest

from trustvid.reliability.confidence import Calibrated, Call, Intrinsic, PaperConfidence
from trustvid.reliability.ramps import RAMPS


def call(
    tool="read_text", scores=(0.9, 0.6), ramps=None, disturbance=(0.1, 0.5, 0.2), intrinsic=0.8, backend=None
) -> Call:
    backend = backend or ("rapidocr" if tool == "read_text" else "embedded")
    n = len(scores)
    table = None if ramps is None else np.tile(np.asarray(ramps, dtype=float), (n, 1))
    return Call(tool, backend, intrinsic, tuple(disturbance), np.array(scores), np.full(n, 0.01), np.zeros(n), table)


CLEAN, DARK = np.zeros(len(RAMPS)), np.array([name.startswith("dark") for name in RAMPS], dtype=float)


def test_eq4_pools_the_worst_third_and_its_ablation_all():
    assert Intrinsic().judge(call()) == (0.8, None)
    assert PaperConfidence().judge(call()).call == pytest.approx(0.8 * 0.5)
    assert PaperConfidence("mean").judge(call()).call == pytest.approx(0.8 * (1 - 0.8 / 3))
    assert PaperConfidence("mean").judge(call(disturbance=())).call == 0.8, "nothing is known of reliability"
    with pytest.raises(ValueError, match="known: worst_k, mean"):
        PaperConfidence("median")


@pytest.mark.parametrize("tool", ["read_text", "detect_objects", "recognize_action"])
def test_calibrated_confidence_rises_with_the_tools_score_and_falls_with_harm(tool):
    clean, dark = (Calibrated().judge(call(tool, ramps=ramps)) for ramps in (CLEAN, DARK))
    sure, doubtful = clean.observations
    assert 0 < doubtful <= sure < 1
    assert all(bad <= good for bad, good in zip(dark.observations, clean.observations, strict=True))
    assert clean.call == pytest.approx((sure + doubtful) / 2)


def test_without_channels_or_without_a_model_the_tools_word_stands():
    assert Calibrated().judge(call()) == (0.8, None)
    assert Calibrated().judge(call("unheard_of", ramps=CLEAN)) == (0.8, None)


def test_a_fit_on_one_backend_says_nothing_of_another():
    assert Calibrated().judge(call("detect_objects", ramps=CLEAN)).observations is not None
    assert Calibrated().judge(call("detect_objects", ramps=CLEAN, backend="grounding_dino")) == (0.8, None)


def test_a_call_that_saw_nothing_is_worth_nothing():
    empty = Call("read_text", "rapidocr", 0.0, (0.1,), np.array([]), np.array([]), np.array([]), CLEAN[None])
    assert Calibrated().judge(empty) == (0.0, ())


def test_unknown_channels_are_refused():
    with pytest.raises(ValueError, match="known: relative, absolute"):
        Calibrated(channels="paper")
