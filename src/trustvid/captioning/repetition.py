"""Finds repetition loops: a phrase that follows itself again and again, as models do that cannot stop."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

MAX_PERIOD = 80  # words of the longest phrase that is looked for
# A loop repeats its phrase often and covers many words: short phrases more often, long ones at least three times.
_ENOUGH = ((4, 12), (3, 36))
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]+", re.UNICODE)


class Loop(NamedTuple):
    """A phrase and how often it stands there in a row."""

    phrase: str
    times: int


def find_loop(text: str) -> Loop | None:
    """The loop that covers most words of a text, None when there is none. Numbers (of list items, say) are ignored.

    >>> find_loop("He runs. " * 9)
    Loop(phrase='he runs', times=9)
    >>> find_loop("He runs, she walks, and then both of them sit down on a bench by the lake.")
    """
    words = _WORD.findall(text.casefold())
    codes = np.unique(words, return_inverse=True)[1] if words else np.zeros(0, dtype=np.intp)
    best: tuple[int, int, int] | None = None  # words covered, -period, start
    for period in range(1, min(MAX_PERIOD, len(codes) // 3) + 1):
        start, length = _longest_run(codes[period:] == codes[:-period])
        covered = length + period
        if any(covered >= times * period and covered >= least for times, least in _ENOUGH):
            best = max(best or (0, 0, 0), (covered, -period, start))
    if best is None:
        return None
    covered, period, start = best[0], -best[1], best[2]
    return Loop(" ".join(words[start : start + period]), covered // period)


def _longest_run(same: np.ndarray) -> tuple[int, int]:
    """(start, length) of the longest run of True; (0, 0) when there is none."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    if not len(edges):
        return 0, 0
    starts, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - starts))
    return int(starts[longest]), int(ends[longest] - starts[longest])
