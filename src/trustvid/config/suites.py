"""The check of ``suites``: named groups of conditions that one run holds and whose results are pooled.

What they mean for a run (its conditions, its pools) lies in ``trustvid.evaluation.suites``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

KEYS = ("corruption", "severity", "coverage")
RESERVED = ("clean", "drop", "mean")  # what the tables already call something else
_NAME = re.compile(r"[A-Za-z]\w*")  # no ":", which separates the parts of a pool's name


def suite_faults(suites: Mapping[str, Any], corruptions: Sequence[str]) -> Iterator[str]:
    """What is wrong with the suites of a config, suite by suite and key by key.

    Args:
        suites: {name: {"corruption": [names], "severity": [1–5], "coverage": [shares in (0, 1]]}}.
        corruptions: names in the composed ``corruption`` group.
    """
    checks: dict[str, tuple[Callable[[Any], bool], str]] = {
        "corruption": (lambda value: value in corruptions, f"known: {_words(corruptions)} (the group corruption)"),
        "severity": (_is_severity, "expected whole numbers from 1 to 5"),
        "coverage": (_is_coverage, "expected shares of the frames above 0, at most 1, of at most six digits"),
    }
    for name, suite in suites.items():
        path = f"suites.{name}"
        if not _NAME.fullmatch(str(name)) or name in (*corruptions, *RESERVED):
            yield (
                f"{path}: {name!r} cannot name a suite; expected letters, digits and _, and neither a corruption nor "
                f"one of {_words(RESERVED)}"
            )
        if not isinstance(suite, Mapping):
            yield f"{path}={suite!r} has the wrong type; expected {_words(KEYS)}, a list each"
            continue
        for key in suite:
            if key not in KEYS:
                yield f"{path}.{key} is unknown; known: {_words(KEYS)}"
        for key, (fits, expected) in checks.items():
            yield from _list_faults(f"{path}.{key}", suite.get(key), fits, expected)


def _list_faults(path: str, values: Any, fits: Callable[[Any], bool], expected: str) -> Iterator[str]:
    if values is None:
        yield f"{path} is missing; expected a list"
    elif not isinstance(values, list | tuple) or not values:
        yield f"{path}={values!r}; expected a list with one value or more"
    else:
        bad = [value for value in values if not fits(value)]
        if bad:
            yield f"{path} holds {_words(bad)}; {expected}"
        elif len({str(value) for value in map(_plain, values)}) < len(values):
            yield f"{path}={list(values)} names a value twice"


def _plain(value: Any) -> Any:
    """1 and 1.0 are one coverage."""
    return f"{value:g}" if isinstance(value, float | int) else value


def _is_severity(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 5


def _is_coverage(value: Any) -> bool:
    """A share that the name of a condition can hold: "c0.25", neither "c1e-05" nor one that is cut off."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        return False
    return "e" not in f"{value:g}" and float(f"{value:g}") == value


def _words(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values)) or "none"
