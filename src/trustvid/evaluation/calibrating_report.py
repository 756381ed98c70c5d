"""Tables of ``mode=calibrate``: confidences before and after, yields, P(right) by disturbance, routing headroom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trustvid.evaluation.calibrating_routing import ROUTES
from trustvid.evaluation.records import CLEAN
from trustvid.evaluation.tables import Cell, Header, Table

SHOWN_SEVERITIES = (3, 5)
_SCORES = ("ece", "brier", "auc")


def calibration_tables(metrics: Mapping[str, Any]) -> list[Table]:
    """All tables from the contents of ``calibration_metrics.json``."""
    about = metrics["about"]
    stamp = f"{about['benchmark']}, split {about['split']}, {about['videos']} videos, labels by {about['labels']}"
    severities = [s for s in SHOWN_SEVERITIES if s in about["severities"]] or about["severities"]
    return [
        _precision_table(metrics["precision"], f"{stamp}; calibration: {about['calibration']}"),
        _yield_table(metrics["yields"], stamp),
        *(_right_table(metrics["right"], severity, stamp) for severity in severities),
        *([_routing_table(metrics["routing"], stamp)] if metrics["routing"] else []),
    ]


def _precision_table(rows: Sequence[Mapping[str, Any]], stamp: str) -> Table:
    """One block for each tool and scope, one row for each kind of confidence."""
    body: list[tuple[str | Cell, ...]] = []
    rules = set()
    for tool, scope in dict.fromkeys((row["tool"], row["scope"]) for row in rows):
        block = [row for row in rows if (row["tool"], row["scope"]) == (tool, scope)]
        rules.add(len(body))
        start: tuple[str | Cell, ...] = (
            tool,
            scope,
            Cell(block[0]["n"], decimals=0),
            Cell(block[0]["right"], decimals=3),
        )
        for row in block:
            body.append((*start, row["confidence"], *(Cell(row[score], decimals=3) for score in _SCORES)))
            start = ("", "", "", "")
    names = ("tool", "frames", "reports", "right", "confidence", "ECE", "Brier", "AUC")
    return Table(
        f"Is a report right? Confidence against rightness. {stamp}.",
        tuple(Header(name) for name in names),
        tuple(body),
        (
            "ECE over ten bins of equal mass; AUC is the chance that a right report has more confidence than a wrong "
            "one. absolute and relative: calibrated under these channels. touched: corrupted frames only.",
        ),
        rules=frozenset(rules),
    )


def _yield_table(rows: Sequence[Mapping[str, Any]], stamp: str) -> Table:
    held_out = any("auc_held_out" in row for row in rows)
    body = []
    for row in rows:
        scores = [Cell(row[score], decimals=3) for score in _SCORES]
        extra = [Cell(row.get("auc_held_out"), decimals=3)] if held_out else []
        start = (row["tool"], row["reliability"], Cell(row["n"], decimals=0), Cell(row["right"], decimals=3))
        body.append((*start, *scores, *extra))
    headers = [Header("tool"), Header("predicted by"), Header("targets"), Header("reported"), Header("ECE")]
    headers += [Header("Brier"), Header("AUC"), *([Header("AUC, unseen corruption")] if held_out else [])]
    notes = ("Unseen corruption: mean over the corruptions of the AUC on one that the fit did not see.",)
    caption = f"Is what is there reported? Frame reliability against what came. {stamp}."
    return Table(caption, tuple(headers), tuple(body), notes if held_out else ())


def _right_table(rows: Sequence[Mapping[str, Any]], severity: int, stamp: str) -> Table:
    corruptions = list(dict.fromkeys(row["corruption"] for row in rows if row["severity"] in (0, severity)))
    shown = [row for row in rows if row["severity"] == severity or row["corruption"] == CLEAN]
    by_place = {(row["tool"], row["task"], row["corruption"]): row for row in shown}
    body = []
    for tool, task in dict.fromkeys((row["tool"], row["task"]) for row in rows):
        for part in ("yield", "precision"):
            found = [by_place.get((tool, task, corruption), {}) for corruption in corruptions]
            cells = [Cell(row.get(part), n=row.get(f"n_{part}"), decimals=2) for row in found]
            body.append((tool, task, "of targets" if part == "yield" else "of reports", *cells))
    return Table(
        f"Share that is right, on clean videos and on frames corrupted at severity {severity}. {stamp}.",
        (Header("tool"), Header("task"), Header("share"), *(Header(name) for name in corruptions)),
        tuple(body),
        ("Of targets: reported correctly among what is plainly there. Of reports: right among what was reported.",),
    )


def _routing_table(rows: Sequence[Mapping[str, Any]], stamp: str) -> Table:
    body = []
    for row in rows:
        pairs = zip(row["alone"], row["candidates"], strict=True)
        alone = [Cell(share, decimals=3, note=f"({tool})") for share, tool in pairs]
        shares = [Cell(row[route], decimals=3) for route in ROUTES]
        headroom = Cell(row["headroom"], decimals=3, signed=True)
        body.append((row["type"], row["scope"], Cell(row["n"], decimals=0), *alone, *shares, headroom))
    headers = ("type", "frames", "targets", "first", "second", "Table 18", "fixed", "by yield", "oracle", "headroom")
    return Table(
        f"Routing: P(right) of each semantic type. {stamp}.",
        tuple(Header(name) for name in headers),
        tuple(body),
        (
            "By yield: target by target, the candidate with the higher calibrated yield (relative channels). The "
            "oracle picks a candidate that is right, if any is; headroom = oracle − Table 18.",
        ),
    )
