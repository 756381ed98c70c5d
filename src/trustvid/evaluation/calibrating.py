"""From cases to a calibration, and how good a calibration is: fit, check, hold-out of a corruption.

Pure functions over the records of :func:`trustvid.evaluation.calibrating_cases.collect_video`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trustvid.evaluation.records import CLEAN, Condition
from trustvid.evaluation.stats import brier_score, expected_calibration_error
from trustvid.reliability.calibration import (
    YIELD_PRIOR,
    Calibration,
    LogisticModel,
    ToolCalibration,
    fit_logistic,
    observation_features,
)
from trustvid.reliability.channels import PaperChannels, min_max
from trustvid.reliability.ramps import RAMPS, absolute_ramps, relative_ramps

RIDGE = 1e-4
MIN_REPORTS = 50  # fewer cannot tell how often a tool is right
RAMPS_OF = {"absolute": absolute_ramps, "relative": relative_ramps}


@dataclass(frozen=True)
class Cases:
    """Cases of one tool, n rows.

    Attributes:
        right: [n] 0 or 1.
        ramps: kind of channels → [n, 10].
        features: [n] each (:func:`observation_features`); empty for targets.
        score: [n] the tool's own confidence in a report; 0 for targets.
        disturbance: [n] the paper's d of the frame (Eq. 2).
        corruption: [n] name, "clean" for the clean condition.
        severity: [n], 0 for clean.
        touched: [n] bool, whether the frame was corrupted.
        video: [n] name.
        key: [n] (video, condition, task, frame, target) of yields: the same case for every tool.
    """

    right: np.ndarray
    ramps: dict[str, np.ndarray]
    features: dict[str, np.ndarray]
    score: np.ndarray
    disturbance: np.ndarray
    corruption: np.ndarray
    severity: np.ndarray
    touched: np.ndarray
    video: np.ndarray
    key: list[tuple]

    def inputs(self, kind: str) -> dict[str, np.ndarray]:
        """All features under a kind of channels, by name."""
        return dict(zip(RAMPS, self.ramps[kind].T, strict=True)) | self.features

    def where(self, keep: np.ndarray) -> Cases:
        """The rows that ``keep`` [n] bool marks."""
        arrays = ("right", "score", "disturbance", "corruption", "severity", "touched", "video")
        return Cases(
            **{name: getattr(self, name)[keep] for name in arrays},
            ramps={kind: values[keep] for kind, values in self.ramps.items()},
            features={name: values[keep] for name, values in self.features.items()},
            key=[key for key, kept in zip(self.key, keep, strict=True) if kept],
        )


@dataclass(frozen=True)
class ToolCases:
    """Everything known of one tool.

    Attributes:
        yields: targets it had to report.
        named: the things among them once more, right if they are only named near their place: for routing alone.
        reports: what it reported.
    """

    yields: Cases
    named: Cases
    reports: Cases


def assemble(records: Sequence[Mapping[str, Any]]) -> dict[str, ToolCases]:
    """Cases by tool. A frame has the channels of the nearest measured one, a step the worse of its two frames."""
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for record in records:
        condition = Condition.parse(record["condition"])
        about = {"video": record["video"], "corruption": condition.name, "severity": condition.severity or 0}
        indices, measures = np.asarray(record["indices"]), np.asarray(record["measures"])
        of_frame = {kind: make(measures) for kind, make in RAMPS_OF.items()}
        of_frame["disturbance"] = np.mean([min_max(values) for values in paper_raw(record).values()], axis=0)
        for part, parse in (("yields", _yield_row), ("reports", _report_row)):
            for case in record[part]:
                row = parse(case)
                ends = [int(np.abs(indices - row[end]).argmin()) for end in ("frame", "end")]
                row |= {name: np.maximum(*values[ends]) for name, values in of_frame.items()}
                row["key"] = (record["video"], record["condition"], *row["key"])
                place = "named" if part == "yields" and row["task"] == "colour" else part
                rows.setdefault(row["tool"], {"yields": [], "named": [], "reports": []})[place].append(row | about)
    return {
        tool: ToolCases(**{part: _cases(tool, found, part == "reports") for part, found in parts.items()})
        for tool, parts in rows.items()
    }


def paper_raw(record: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """[n] raw channels of the paper by name: the first of the measures."""
    return dict(zip(PaperChannels._fields, np.asarray(record["measures"]).T, strict=False))


def _yield_row(case: Sequence[Any]) -> dict[str, Any]:
    tool, task, key, frame, end, touched, right = case
    row = {"tool": tool, "task": task, "frame": frame, "end": end, "touched": touched, "right": right}
    return row | {"score": 0.0, "key": (task, frame, key)}


def _report_row(case: Sequence[Any]) -> dict[str, Any]:
    tool, task, frame, end, touched, score, area, clipped, right = case
    row = {"tool": tool, "task": task, "frame": frame, "end": end, "touched": touched, "right": right}
    return row | {"score": score, "area": area, "clipped": clipped, "key": (task, frame)}


def _cases(tool: str, rows: Sequence[Mapping[str, Any]], reports: bool) -> Cases:
    def column(name: str, kind: type = float) -> np.ndarray:
        return np.array([row[name] for row in rows], dtype=kind)

    score = column("score")
    return Cases(
        right=column("right"),
        ramps={kind: np.array([row[kind] for row in rows]).reshape(len(rows), len(RAMPS)) for kind in RAMPS_OF},
        features=observation_features(tool, score, column("area"), column("clipped")) if reports else {},
        score=score,
        disturbance=column("disturbance"),
        corruption=column("corruption", str),
        severity=column("severity", int),
        touched=column("touched", bool),
        video=column("video", str),
        key=[row["key"] for row in rows],
    )


# -- fit ---------------------------------------------------------------------------------------------------------------


def fit_calibration(
    cases: Mapping[str, ToolCases], channels: str, suite: Sequence[str], data: Mapping[str, Any]
) -> Calibration:
    """Both models of every tool that had anything to report."""
    tools = {
        tool: ToolCalibration(fit_yield(of.yields, channels), fit_precision(of.reports, channels))
        for tool, of in cases.items()
        if len(of.yields.right)
    }
    return Calibration(channels, tuple(suite), dict(data), True, tools)


def fit_yield(cases: Cases, channels: str) -> LogisticModel:
    """P(a target is reported | channels): every ramp can only harm, and harms where nothing else is known."""
    count = len(RAMPS)
    return fit_logistic(
        cases.ramps[channels],
        cases.right,
        names=RAMPS,
        lower=np.full(count, -np.inf),
        upper=np.zeros(count),
        prior=[YIELD_PRIOR[name[-1]] for name in RAMPS],
        ridge=RIDGE,
    )


def fit_precision(cases: Cases, channels: str) -> LogisticModel | None:
    """P(a report is right | channels, the report itself); None for fewer than 50 reports.

    Ramps and clipping can only make it less likely, score and size only more.
    """
    if len(cases.right) < MIN_REPORTS:
        return None
    features = cases.inputs(channels)
    bounds = {"logit_score": (0.0, np.inf), "log_area": (0.0, np.inf), "boxless": (-np.inf, np.inf)}
    limits = np.array([bounds.get(name, (-np.inf, 0.0)) for name in features])
    return fit_logistic(
        np.stack(list(features.values()), axis=1),
        cases.right,
        names=list(features),
        lower=limits[:, 0],
        upper=limits[:, 1],
        prior=np.zeros(len(features)),
        ridge=RIDGE,
    )


# -- check -------------------------------------------------------------------------------------------------------------


def ranking_auc(confidence: np.ndarray, right: np.ndarray) -> float | None:
    """P(a right case has the higher confidence than a wrong one), ties count half; None without both."""
    from scipy.stats import rankdata

    positive = right > 0.5
    n, p = len(right), int(positive.sum())
    if p in (0, n):
        return None
    return float((rankdata(confidence)[positive].sum() - p * (p + 1) / 2) / (p * (n - p)))


def quality(confidence: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """ECE (10 bins of equal mass), Brier score and AUC of confidences [n]; None each where there are no cases."""
    return {
        "n": len(right),
        "ece": expected_calibration_error(confidence, right),
        "brier": brier_score(confidence, right),
        "auc": ranking_auc(confidence, right),
    }


def check_precision(cases: Mapping[str, ToolCases], calibrations: Sequence[Calibration]) -> list[dict[str, Any]]:
    """Confidence of reports against their rightness: the tool's own, the paper's product with 1 − d, calibrated.

    Over all cases and over those on touched frames alone; a tool without a fitted precision keeps its own word.
    """
    rows = []
    for tool, of in cases.items():
        for scope, keep in _scopes(of.reports):
            some = of.reports.where(keep)
            confidences = {"native": some.score, "native × (1 − d)": some.score * (1.0 - some.disturbance)}
            for calibration in calibrations:
                model = calibration.tools[tool].precision_model if tool in calibration.tools else None
                if model is not None:
                    confidences[calibration.channels] = model.predict(some.inputs(calibration.channels))
            rows += [
                {"tool": tool, "scope": scope, "confidence": name, "right": _mean(some.right)}
                | quality(values, some.right)
                for name, values in confidences.items()
            ]
    return rows


def check_yields(
    cases: Mapping[str, ToolCases], calibrations: Sequence[Calibration], hold_out: bool
) -> list[dict[str, Any]]:
    """Predicted yield against what came: the paper's 1 − d, calibrated, and (``hold_out``) calibrated on the others.

    The last is the mean over corruptions of the AUC on one of them, clean frames included, when it was left out of the
    fit.
    """
    rows = []
    for tool, of in cases.items():
        if not len(of.yields.right):
            continue
        some = of.yields
        rows.append({"tool": tool, "reliability": "1 − d"} | quality(1.0 - some.disturbance, some.right))
        for calibration in calibrations:
            if tool not in calibration.tools:
                continue
            predicted = calibration.tools[tool].yield_model.predict(some.inputs(calibration.channels))
            row = {"tool": tool, "reliability": calibration.channels} | quality(predicted, some.right)
            if hold_out:
                row["auc_held_out"] = _held_out_auc(some, calibration.channels)
            rows.append(row)
    return [{"right": _mean(cases[row["tool"]].yields.right)} | row for row in rows]


def _held_out_auc(cases: Cases, channels: str) -> float | None:
    found = []
    for name in sorted(set(cases.corruption) - {CLEAN}):
        rest, out = cases.where(cases.corruption != name), cases.where(cases.corruption == name)
        if len(set(rest.corruption)) < 2:
            continue  # nothing but clean frames to learn from
        found.append(ranking_auc(fit_yield(rest, channels).predict(out.inputs(channels)), out.right))
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def right_by_condition(cases: Mapping[str, ToolCases]) -> list[dict[str, Any]]:
    """Yield and precision of every tool in each of its tasks: on clean videos, and on the touched frames of each
    corruption and severity."""
    rows = []
    for tool, of in cases.items():
        tasks = {part: np.array([key[2] for key in getattr(of, part).key]) for part in ("yields", "reports")}
        found = {(str(c), int(s)) for c, s in zip(of.yields.corruption, of.yields.severity, strict=True)}
        for task in dict.fromkeys(tasks["yields"].tolist()):
            for corruption, severity in sorted(found, key=lambda item: (item[0] != CLEAN, item)):
                row: dict[str, Any] = {"tool": tool, "task": task, "corruption": corruption, "severity": severity}
                for name, part in (("yield", "yields"), ("precision", "reports")):
                    some: Cases = getattr(of, part)
                    keep = (some.corruption == corruption) & (some.severity == severity) & (tasks[part] == task)
                    keep &= some.touched | (corruption == CLEAN)
                    row |= {name: _mean(some.right[keep]), f"n_{name}": int(keep.sum())}
                rows.append(row)
    return rows


def _scopes(cases: Cases) -> list[tuple[str, np.ndarray]]:
    return [("all", np.ones(len(cases.right), dtype=bool)), ("touched", cases.touched)]


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
