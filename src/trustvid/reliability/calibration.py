"""How often a tool is right, given what disturbs a frame: logistic models, their fit, and the files they are kept in.

Two questions have two models. *Yield* is asked before a tool looks: will it report correctly what is there to see?
Selection needs it, since a disturbed frame mostly makes a tool silent rather than wrong. *Precision* is asked after: is
this report right? A reading that came out clear on a bad frame is as good as any other.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trustvid.errors import DataError
from trustvid.reliability.ramps import RAMPS

SCHEMA = "trustvid-calibration-1"
SHIPPED = Path(__file__).parent / "calibrations"
CHANNEL_KINDS = ("absolute", "relative")
# Pulls of a yield's coefficients where data say nothing: a disturbance never met in a fit is held to harm, the second
# ramp (what is strong) more than the first.
YIELD_PRIOR = {"1": -1.0, "2": -2.0}
MAX_LOGIT = 12.0  # no probability nearer to 0 or 1 than 6e-6: no amount of data of ours could support it

_TOOLS = ("read_text", "detect_objects", "recognize_action", "track_temporal", "caption_frame")
_PRIOR_INTERCEPT = 2.0
_AREA_UNIT = 0.01  # log_area is 0 for a box of a hundredth of the frame
_LEAST_AREA = 1e-5
_SCORE_RANGE = (0.02, 0.995)


@dataclass(frozen=True)
class LogisticModel:
    """P = 1 / (1 + exp(−(intercept + Σ coefficient · feature))).

    Attributes:
        intercept: log-odds where every feature is 0.
        coefficients: log-odds per unit, by name of the feature; all features not named here count 0.
    """

    intercept: float
    coefficients: dict[str, float] = field(default_factory=dict)

    def predict(self, features: Mapping[str, np.ndarray]) -> np.ndarray:
        """Probabilities in (0, 1), float64 [n].

        Args:
            features: by name, [n] each; at least those of ``coefficients``, and at least one (it says n).

        Raises:
            ValueError: a feature is missing.
        """
        missing = [name for name in self.coefficients if name not in features]
        if missing or not features:
            raise ValueError(f"lacks the features {missing}; given: {', '.join(features) or 'none'}")
        logit = np.full(np.shape(next(iter(features.values()))), self.intercept, dtype=np.float64)
        for name, coefficient in self.coefficients.items():
            logit = logit + coefficient * np.asarray(features[name], dtype=np.float64)
        return 1.0 / (1.0 + np.exp(-np.clip(logit, -MAX_LOGIT, MAX_LOGIT)))


@dataclass(frozen=True)
class ToolCalibration:
    """Both models of one tool.

    Attributes:
        yield_model: P(the tool reports a visible target correctly); its features are ramps of the channels.
        precision_model: P(a report is right); features are ramps and :func:`observation_features`. None where the fit
            saw too few reports to tell.
    """

    yield_model: LogisticModel
    precision_model: LogisticModel | None


@dataclass(frozen=True)
class Calibration:
    """What one artefact says under one kind of channels.

    Attributes:
        channels: "absolute" or "relative": how the ramps were made that the models expect.
        suite: names of the corruptions in the fit; others are met with the prior.
        data: where it comes from: benchmark, split, videos, numbers of cases, …
        fitted: False for the prior, which no data have touched.
        tools: by name; every tool of the package is in it (those the artefact lacks with the prior).
    """

    channels: str
    suite: tuple[str, ...]
    data: dict[str, Any]
    fitted: bool
    tools: dict[str, ToolCalibration]

    @property
    def backends(self) -> dict[str, str]:
        """Which backend of each tool the fit saw, by tool; what it does not say may be any."""
        return dict(self.data.get("backends", {}))


def observation_features(tool: str, score: np.ndarray, area: np.ndarray, clipped: np.ndarray) -> dict[str, np.ndarray]:
    """What a report itself tells of its own rightness: features of the precision models, all finite.

    Args:
        tool: who reports.
        score: [n] the tool's confidence in each report, 0–1.
        area: [n] share of the frame that its box covers, 0–1; 0 for a report without a box (motion).
        clipped: [n] whether the frame's border cuts the thing off (0 or 1).

    Returns:
        ``logit_score``: log-odds of the score, within 0.02–0.995; and, of tools whose reports can have boxes,
        ``log_area``: ln(area / 0.01), 0 without a box; ``clipped``; ``boxless``: 1 without a box.
    """
    score = np.clip(np.asarray(score, dtype=np.float64), *_SCORE_RANGE)
    features = {"logit_score": np.log(score / (1.0 - score))}
    if tool == "recognize_action":
        return features
    area = np.asarray(area, dtype=np.float64)
    boxless = area <= 0
    features["log_area"] = np.where(boxless, 0.0, np.log(np.maximum(area, _LEAST_AREA) / _AREA_UNIT))
    return features | {"clipped": np.asarray(clipped, dtype=np.float64), "boxless": boxless.astype(np.float64)}


# -- fit ---------------------------------------------------------------------------------------------------------------


def fit_logistic(
    features: np.ndarray,
    labels: np.ndarray,
    *,
    names: Sequence[str],
    lower: np.ndarray | Sequence[float],
    upper: np.ndarray | Sequence[float],
    prior: np.ndarray | Sequence[float],
    ridge: float = 1e-4,
) -> LogisticModel:
    """Bounded logistic regression with a ridge towards a prior, by L-BFGS-B from the prior.

    Minimises (mean log loss) + ridge · Σ (coefficient − prior)². The intercept is free within ±12. A coefficient on
    which the data say nothing (a constant feature of 0) ends at its prior.

    Args:
        features: [n, k] finite.
        labels: [n] 0 or 1 (or shares between).
        names: k names of the features.
        lower, upper: [k] bounds of the coefficients; ±inf for none.
        prior: [k] within the bounds.
        ridge: weight of the prior, > 0.

    Raises:
        ValueError: no data, shapes that do not fit, values that are not finite, or a prior outside the bounds.
    """
    from scipy.optimize import minimize

    features, labels = np.asarray(features, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    lower, upper, prior = (np.asarray(values, dtype=np.float64) for values in (lower, upper, prior))
    _check_fit(features, labels, names, lower, upper, prior, ridge)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logit, away = weights[0] + features @ weights[1:], weights[1:] - prior
        # log(1 + e^z) − y·z is the log loss of both labels, without overflow.
        value = np.mean(np.logaddexp(0.0, logit) - labels * logit) + ridge * away @ away
        residual = 1.0 / (1.0 + np.exp(-np.clip(logit, -500.0, 500.0))) - labels
        return value, np.concatenate([[residual.mean()], features.T @ residual / len(labels) + 2 * ridge * away])

    share = np.clip(labels.mean(), 1e-3, 1 - 1e-3)
    start = np.concatenate([[math.log(share / (1 - share))], prior])
    bounds = [(-MAX_LOGIT, MAX_LOGIT), *zip(lower, upper, strict=True)]
    options = {"maxiter": 2000, "ftol": 1e-13, "gtol": 1e-8}
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    coefficients = {name: round(float(value), 4) + 0.0 for name, value in zip(names, found[1:], strict=True)}
    return LogisticModel(round(float(found[0]), 4), coefficients)


def _check_fit(
    features: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    lower: np.ndarray,
    upper: np.ndarray,
    prior: np.ndarray,
    ridge: float,
) -> None:
    if features.ndim != 2 or len(features) == 0 or labels.shape != features.shape[:1]:
        raise ValueError(f"features {features.shape} and labels {labels.shape}; expected [n, k] and [n] with n ≥ 1")
    if not lower.shape == upper.shape == prior.shape == features.shape[1:] == (len(names),):
        raise ValueError(f"names, lower, upper and prior need one value for each of the {features.shape[1]} features")
    if not (np.isfinite(features).all() and ((labels >= 0) & (labels <= 1)).all()):
        raise ValueError("features must be finite and labels lie in 0–1")
    if not ((lower <= prior) & (prior <= upper)).all():
        raise ValueError("the prior lies outside the bounds")
    if not ridge > 0:
        raise ValueError(f"ridge={ridge!r}: expected a positive weight")


def prior_calibration(channels: str, tools: Sequence[str] = _TOOLS) -> Calibration:
    """The calibration that knows no data: every ramp harms, and a report is as good as the tool says it is."""
    ramps = {name: YIELD_PRIOR[name[-1]] for name in RAMPS}
    models = ToolCalibration(LogisticModel(_PRIOR_INTERCEPT, ramps), LogisticModel(0.0, {"logit_score": 1.0}))
    return Calibration(channels, (), {"source": "prior, no data"}, False, dict.fromkeys(tools, models))


# -- files -------------------------------------------------------------------------------------------------------------


def load_calibration(name_or_path: str, channels: Literal["absolute", "relative"] | str) -> Calibration:
    """A calibration of the package by name ("boxworld"), or one in a JSON file by path ("runs/a/calibration.json").

    An artefact that lacks this kind of channels gives the prior, labelled ``fitted=False``; one that lacks a tool gives
    the prior for that tool. Either warns once in a process.

    Raises:
        DataError: no such name or file, or the file is no calibration (the message names the field).
        ValueError: unknown kind of channels.
    """
    if channels not in CHANNEL_KINDS:
        raise ValueError(f"channels={channels!r} is unknown; known: {', '.join(CHANNEL_KINDS)}")
    held = read_calibrations(calibration_file(name_or_path))
    if channels not in held:
        _warn_once(f"calibration {name_or_path}: holds {', '.join(held)} channels, not {channels}; using the prior")
        return prior_calibration(channels)
    found = held[channels]
    absent = [tool for tool in _TOOLS if tool not in found.tools]
    if absent:
        _warn_once(f"calibration {name_or_path}: knows nothing of {', '.join(absent)}; using the prior for these")
    tools = prior_calibration(channels, absent).tools | found.tools
    return Calibration(found.channels, found.suite, found.data, found.fitted, tools)


def calibration_file(name_or_path: str) -> Path:
    """Where a calibration lies: one of the package by name, or the path itself.

    Raises:
        DataError: the package has none of that name.
    """
    path = Path(name_or_path)
    if path.suffix == ".json" or len(path.parts) > 1:
        return path
    shipped = SHIPPED / f"{name_or_path}.json"
    if not shipped.is_file():
        known = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.json")))
        raise DataError(f"calibration {name_or_path!r} is unknown; known: {known}; or the path of a .json file")
    return shipped


def save_calibrations(path: Path | str, calibrations: Sequence[Calibration]) -> None:
    """Write one artefact; see :func:`artefact`."""
    Path(path).write_text(json.dumps(artefact(calibrations), indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


def artefact(calibrations: Sequence[Calibration]) -> dict[str, Any]:
    """Calibrations of one fit, at most one for each kind of channels, as the object of a calibration file.

    Raises:
        ValueError: none, two of one kind, or of different suites or data.
    """
    kinds = [one.channels for one in calibrations]
    if not calibrations or len(set(kinds)) < len(kinds):
        raise ValueError(f"one calibration for each kind of channels makes an artefact; got {kinds}")
    first = calibrations[0]
    if any((one.suite, one.data) != (first.suite, first.data) for one in calibrations):
        raise ValueError("calibrations of different suites or data cannot share an artefact")
    channels = {
        one.channels: {
            tool: {"yield": asdict(models.yield_model), "precision": _optional(models.precision_model)}
            for tool, models in one.tools.items()
        }
        for one in calibrations
    }
    return {"schema": SCHEMA, "suite": list(first.suite), "data": first.data, "channels": channels}


def read_calibrations(path: Path) -> dict[str, Calibration]:
    """Everything a calibration file holds, by kind of channels.

    Raises:
        DataError: the file cannot be read or a field is not what it should be.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: {error}; expected a calibration as mode=calibrate writes it") from error
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise DataError(f"{path}: schema: expected an object with {SCHEMA!r}")
    suite = record.get("suite")
    if not (isinstance(suite, list) and all(isinstance(name, str) for name in suite)):
        raise DataError(f"{path}: suite: expected a list of names of corruptions")
    data = _mapping(record, "data", path, "data")
    kinds = _mapping(record, "channels", path, "channels")
    unknown = [kind for kind in kinds if kind not in CHANNEL_KINDS]
    if unknown or not kinds:
        raise DataError(f"{path}: channels: has {', '.join(kinds) or 'none'}; known: {', '.join(CHANNEL_KINDS)}")
    calibrations = {}
    for kind in kinds:
        where = f"channels.{kind}"
        tools = _mapping(kinds, kind, path, where)
        models = {
            tool: _tool(_mapping(tools, tool, path, f"{where}.{tool}"), path, f"{where}.{tool}") for tool in tools
        }
        calibrations[kind] = Calibration(kind, tuple(suite), data, True, models)
    return calibrations


def _tool(record: Mapping[str, Any], path: Path, where: str) -> ToolCalibration:
    if "precision" not in record:
        raise DataError(f"{path}: {where}.precision: missing; expected a model or null")
    precision = None if record["precision"] is None else _model(record, "precision", path, where)
    return ToolCalibration(_model(record, "yield", path, where), precision)


def _model(record: Mapping[str, Any], name: str, path: Path, where: str) -> LogisticModel:
    where = f"{where}.{name}"
    model = _mapping(record, name, path, where)
    coefficients = _mapping(model, "coefficients", path, f"{where}.coefficients")
    numbers = {f"{where}.intercept": model.get("intercept")}
    numbers |= {f"{where}.coefficients.{feature}": value for feature, value in coefficients.items()}
    for field_name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise DataError(f"{path}: {field_name}: {value!r}; expected a finite number")
    return LogisticModel(float(model["intercept"]), {name: float(value) for name, value in coefficients.items()})


def _mapping(record: Mapping[str, Any], name: str, path: Path, where: str) -> dict[str, Any]:
    value = record.get(name)
    if not isinstance(value, dict):
        raise DataError(f"{path}: {where}: {value!r}; expected an object")
    return value


def _optional(model: LogisticModel | None) -> dict[str, Any] | None:
    return None if model is None else asdict(model)


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=3)
