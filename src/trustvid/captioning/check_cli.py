"""``python -m trustvid check``: rule verdicts for a stream of cases.

Input, one JSON object a line: ``id``, ``constraint_id``, ``parameters`` (with ``content``). Output, one object a line
in the same order: ``id``, ``verdict`` (true, false, or null when the case cannot be checked) and ``reason``. A summary
goes to standard error. A line that is no case still gets its line, so that outputs and inputs stay aligned.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NoReturn

from trustvid.captioning.rules import MODES, Mode, check
from trustvid.captioning.taxonomy import CONTENT_IDS, FORMAT_IDS
from trustvid.errors import DataError

_BOM = b"\xef\xbb\xbf"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of ``check`` to ``parser``."""
    parser.add_argument(
        "cases", metavar="CASES.jsonl", help="file of cases, one JSON object a line; - for standard input"
    )
    parser.add_argument(
        "--rules",
        choices=MODES,
        default="strict",
        help="upstream: the published checkers, faults included; strict: what a careful reader expects (default)",
    )


def run(args: argparse.Namespace) -> int:
    """Checks ``args.cases`` by ``args.rules`` and prints the verdicts; 0 whatever they are.

    Raises:
        DataError: the file cannot be opened.
    """
    tally: Counter[str] = Counter()
    try:
        with _opened(args.cases) as lines:
            for record in check_lines(lines, args.rules, tally):
                # Flushed one by one: a reader at the other end of a pipe gets each verdict when it is there.
                print(json.dumps(record), flush=True)
    except BrokenPipeError:
        # The reader has enough (head, less). Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    print(_summary(tally, args.rules), file=sys.stderr)
    return 0


def check_lines(lines: Iterable[bytes], mode: Mode, tally: Counter[str] | None = None) -> Iterator[dict[str, Any]]:
    """Verdicts of UTF-8 lines, one for each line that is not blank, in order.

    Args:
        lines: raw lines; a byte order mark before the first and any line ends are fine.
        mode: "upstream" or "strict".
        tally: when given, counts "true", "false", "unscored", "unknown" (constraint) and "malformed" (line).
    """
    tally = Counter() if tally is None else tally
    for number, line in enumerate(lines):
        line = line.removeprefix(_BOM) if number == 0 else line
        if not line.strip():
            continue
        try:
            case = _case_of(line)
        except ValueError as fault:
            tally["malformed"] += 1
            record: dict[str, Any] = {"id": None, "verdict": None, "reason": f"line {number + 1}: {fault}"}
        else:
            constraint_id = case.get("constraint_id")
            verdict = check(constraint_id, case.get("parameters"), mode)
            tally["unknown"] += constraint_id not in (*FORMAT_IDS, *CONTENT_IDS)
            record = {"id": case.get("id"), "verdict": verdict.value, "reason": verdict.reason}
        tally["unscored" if record["verdict"] is None else str(record["verdict"]).lower()] += 1
        yield record


def _case_of(line: bytes) -> dict[str, Any]:
    """The case of one line.

    Raises:
        ValueError: it is no JSON object in UTF-8.
    """
    try:
        case = json.loads(line.decode("utf-8"), parse_constant=_refuse, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("not readable: nested too deep") from None
    if not isinstance(case, dict):
        raise ValueError(f"not an object but {type(case).__name__}; a case has id, constraint_id and parameters")
    return case


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"not JSON: {name} is no JSON value")


def _finite(text: str) -> float:
    """A number that can be written again as JSON."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _opened(path: str) -> Any:
    if path == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; expected a file of cases, one JSON object a line, or -") from None


def _summary(tally: Counter[str], mode: str) -> str:
    total = tally["true"] + tally["false"] + tally["unscored"]
    causes = [
        f"{tally[name]} {label}"
        for name, label in (("unknown", "of an unknown constraint"), ("malformed", "malformed lines"))
        if tally[name]
    ]
    tail = f" ({', '.join(causes)})" if causes else ""
    return (
        f"{mode} rules, {total} cases: {tally['true']} true, {tally['false']} false, {tally['unscored']} unscored{tail}"
    )
