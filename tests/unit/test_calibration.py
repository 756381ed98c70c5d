"""Calibration: logistic fits, their bounds and prior, and the files they are kept in."""

from __future__ import annotations

import json
import math
import warnings

import numpy as np
import pytest

from trustvid.errors import DataError
from trustvid.reliability import calibration
from trustvid.reliability.calibration import (
    YIELD_PRIOR,
    Calibration,
    LogisticModel,
    ToolCalibration,
    artefact,
    fit_logistic,
    load_calibration,
    observation_features,
    prior_calibration,
    read_calibrations,
    save_calibrations,
)
from trustvid.reliability.ramps import RAMPS
from trustvid.seeding import derive_rng

TOOLS = ("read_text", "detect_objects", "recognize_action", "track_temporal", "caption_frame")
CLEAN = {name: np.zeros(1) for name in RAMPS}


def draw(n: int, intercept: float, coefficients: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
    """Features in 0–1 and labels drawn from a known logistic model."""
    rng = derive_rng("calibration test", n)
    features = rng.uniform(0, 1, (n, len(coefficients)))
    model = LogisticModel(intercept, coefficients)
    right = rng.uniform(size=n) < model.predict(dict(zip(coefficients, features.T, strict=True)))
    return features, right.astype(float)


def fit_harm(features: np.ndarray, labels: np.ndarray, names: tuple[str, ...], prior: tuple[float, ...]):
    """A fit in which no coefficient may be positive."""
    k = len(names)
    return fit_logistic(
        features, labels, names=names, lower=np.full(k, -np.inf), upper=np.zeros(k), prior=prior, ridge=1e-4
    )


def test_predicts_the_logistic_function():
    model = LogisticModel(1.0, {"a": -2.0, "b": 0.5})
    found = model.predict({"a": np.array([0.0, 1.0]), "b": np.array([0.0, 2.0]), "unused": np.array([9.0, 9.0])})
    assert found == pytest.approx([1 / (1 + math.exp(-1)), 0.5])
    assert LogisticModel(0.0).predict({"a": np.zeros(3)}).tolist() == [0.5] * 3
    extreme = LogisticModel(0.0, {"a": 1e6}).predict({"a": np.array([-1.0, 1.0])})
    assert 0 < extreme[0] < extreme[1] < 1
    with pytest.raises(ValueError, match="'b'"):
        model.predict({"a": np.zeros(2)})


def test_fit_recovers_known_coefficients():
    true = {"blur1": -1.5, "dark2": -3.0, "noise1": 0.0}
    features, labels = draw(40_000, 2.0, true)
    found = fit_harm(features, labels, tuple(true), (0.0, 0.0, 0.0))
    assert found.intercept == pytest.approx(2.0, abs=0.12)
    assert found.coefficients == pytest.approx(true, abs=0.15)
    assert found == fit_harm(features, labels, tuple(true), (0.0, 0.0, 0.0)), "equal data, equal fit"


def test_bounds_bind_where_data_want_the_opposite():
    features, labels = draw(5_000, -1.0, {"helps": 2.0, "harms": -2.0})
    found = fit_harm(features, labels, ("helps", "harms"), (0.0, 0.0))
    assert found.coefficients["helps"] == 0.0
    assert found.coefficients["harms"] < -1.5


def test_a_channel_never_seen_keeps_its_prior():
    features, labels = draw(3_000, 1.0, {"seen": -2.0})
    features = np.column_stack([features, np.zeros(len(features))])
    found = fit_harm(features, labels, ("seen", "unseen"), (-1.0, -2.0))
    assert found.coefficients["unseen"] == pytest.approx(-2.0, abs=1e-3)
    assert found.coefficients["seen"] == pytest.approx(-2.0, abs=0.2), "where data speak the prior has no say"


def test_fit_stays_finite_when_every_label_is_the_same():
    found = fit_harm(np.zeros((200, 1)), np.ones(200), ("a",), (-1.0,))
    assert 0.99 < found.predict({"a": np.zeros(1)})[0] < 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros((0, 1)), "labels": np.zeros(0)}, "n ≥ 1"),
        ({"labels": np.zeros(3)}, "n ≥ 1"),
        ({"names": ("a", "b")}, "one value for each"),
        ({"features": np.full((2, 1), np.nan)}, "finite"),
        ({"labels": np.array([0.0, 2.0])}, "0–1"),
        ({"labels": np.array([0.0, np.nan])}, "0–1"),
        ({"prior": [1.0]}, "outside the bounds"),
        ({"ridge": 0.0}, "ridge"),
    ],
)
def test_fit_refuses_what_it_cannot_use(change: dict, message: str):
    arguments = {"features": np.zeros((2, 1)), "labels": np.array([0.0, 1.0]), "names": ("a",)}
    arguments |= {"lower": [-np.inf], "upper": [0.0], "prior": [0.0], "ridge": 1e-4}
    arguments |= change
    with pytest.raises(ValueError, match=message):
        fit_logistic(arguments.pop("features"), arguments.pop("labels"), **arguments)


def test_features_are_finite_whatever_is_reported():
    extreme = observation_features(
        "read_text", np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.01, 1.0]), np.array([0, 1, 0])
    )
    assert set(extreme) == {"logit_score", "log_area", "clipped", "boxless"}
    assert all(np.isfinite(values).all() for values in extreme.values())
    assert extreme["logit_score"][1] == 0.0
    assert np.all(np.diff(extreme["logit_score"]) > 0)
    assert extreme["log_area"].tolist() == pytest.approx([0.0, 0.0, math.log(100)])
    assert extreme["boxless"].tolist() == [1.0, 0.0, 0.0]
    assert set(observation_features("recognize_action", np.ones(2), np.zeros(2), np.zeros(2))) == {"logit_score"}


@pytest.mark.parametrize("channels", ["absolute", "relative"])
def test_the_shipped_calibration_is_sane(channels: str):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        held = load_calibration("boxworld", channels)
    assert held.fitted and held.channels == channels and set(held.tools) == set(TOOLS)
    for tool, models in held.tools.items():
        clean = models.yield_model.predict(CLEAN)[0]
        for name in RAMPS:
            steps = CLEAN | {name: np.linspace(0, 1, 5)}
            assert np.all(
                np.diff(models.yield_model.predict({k: np.broadcast_to(v, 5) for k, v in steps.items()})) <= 0
            )
        assert models.yield_model.predict({name: np.ones(1) for name in RAMPS})[0] < clean / 2, tool
        if models.precision_model is None:
            continue
        features = observation_features(tool, np.linspace(0.05, 0.95, 5), np.full(5, 0.01), np.zeros(5))
        precision = models.precision_model.predict({name: np.zeros(5) for name in RAMPS} | features)
        assert np.all(np.diff(precision) >= 0) and np.all((precision > 0) & (precision < 1)), tool


def some(channels: str = "absolute", tools: tuple[str, ...] = TOOLS) -> Calibration:
    models = ToolCalibration(LogisticModel(1.5, {"blur1": -0.25}), LogisticModel(0.5, {"logit_score": 1.0}))
    silent = ToolCalibration(LogisticModel(1.0), None)
    held = {tool: silent if tool == "caption_frame" else models for tool in tools}
    return Calibration(channels, ("glare", "dust"), {"benchmark": "x", "videos": 3}, True, held)


def test_files_give_back_what_they_were_given(tmp_path):
    path = tmp_path / "mine.json"
    save_calibrations(path, [some("absolute"), some("relative")])
    assert load_calibration(str(path), "absolute") == some("absolute")
    assert load_calibration(str(path), "relative") == some("relative")
    assert read_calibrations(path) == {"absolute": some("absolute"), "relative": some("relative")}


def test_an_artefact_is_of_one_fit():
    with pytest.raises(ValueError, match="each kind"):
        artefact([some("absolute"), some("absolute")])
    with pytest.raises(ValueError, match="each kind"):
        artefact([])
    other = Calibration("relative", ("fog",), {}, True, {})
    with pytest.raises(ValueError, match="share"):
        artefact([some("absolute"), other])


def test_the_prior_stands_in_labelled_and_warns_once(tmp_path):
    calibration._warn_once.cache_clear()
    path = tmp_path / "mine.json"
    save_calibrations(path, [some("absolute", tools=("read_text",))])
    with pytest.warns(RuntimeWarning, match="not relative"):
        found = load_calibration(str(path), "relative")
    assert found == prior_calibration("relative")
    assert not found.fitted and set(found.tools) == set(TOOLS)
    with pytest.warns(RuntimeWarning, match="nothing of detect_objects"):
        found = load_calibration(str(path), "absolute")
    assert found.fitted and found.tools["read_text"] == some().tools["read_text"]
    assert found.tools["detect_objects"] == prior_calibration("absolute").tools["detect_objects"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_calibration(str(path), "relative")
        load_calibration(str(path), "absolute")


def test_the_prior_holds_every_ramp_to_harm_and_trusts_the_tool():
    models = prior_calibration("absolute").tools["read_text"]
    assert {name: models.yield_model.coefficients[name] for name in RAMPS} == {n: YIELD_PRIOR[n[-1]] for n in RAMPS}
    features = observation_features("read_text", np.array([0.3, 0.9]), np.full(2, 0.02), np.zeros(2))
    assert models.precision_model.predict(features) == pytest.approx([0.3, 0.9])


def test_names_and_kinds_that_do_not_exist():
    with pytest.raises(DataError, match=r"'boxwrld' is unknown; known: .*boxworld"):
        load_calibration("boxwrld", "absolute")
    with pytest.raises(DataError, match=r"gone\.json"):
        load_calibration("gone.json", "absolute")
    with pytest.raises(ValueError, match="absolute, relative"):
        load_calibration("boxworld", "clip")


def broken(change) -> dict:
    record = json.loads(json.dumps(artefact([some()])))
    change(record)
    return record


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("schema"), "schema"),
        (lambda r: r.update(schema="other"), "schema"),
        (lambda r: r.update(suite="glare"), "suite"),
        (lambda r: r.update(data=[]), "data"),
        (lambda r: r.update(channels={}), "channels"),
        (lambda r: r["channels"].update(other={}), "channels: has absolute, other"),
        (lambda r: r["channels"]["absolute"].update(read_text=3), "channels.absolute.read_text"),
        (lambda r: r["channels"]["absolute"]["read_text"].pop("yield"), "read_text.yield"),
        (lambda r: r["channels"]["absolute"]["read_text"].pop("precision"), "read_text.precision"),
        (lambda r: r["channels"]["absolute"]["read_text"]["yield"].pop("intercept"), "yield.intercept"),
        (lambda r: r["channels"]["absolute"]["read_text"]["yield"].update(intercept=True), "yield.intercept"),
        (lambda r: r["channels"]["absolute"]["read_text"]["yield"].update(coefficients=1), "yield.coefficients"),
        (
            lambda r: r["channels"]["absolute"]["read_text"]["yield"]["coefficients"].update(blur1=float("nan")),
            "yield.coefficients.blur1",
        ),
    ],
)
def test_errors_name_the_file_and_the_field(tmp_path, change, message: str):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(broken(change)), encoding="utf-8")
    with pytest.raises(DataError, match=message) as raised:
        load_calibration(str(path), "absolute")
    assert str(path) in str(raised.value)


def test_a_file_that_is_no_json(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"bad\.json"):
        load_calibration(str(path), "absolute")
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(DataError, match="schema"):
        load_calibration(str(path), "absolute")
