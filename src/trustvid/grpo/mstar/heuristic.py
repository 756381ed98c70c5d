"""m* by counting words: needs no model, and is what the release of the paper falls back on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from trustvid.grpo.mstar.base import LEAST, MOST, Asked, MStarEstimator


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


# Our selection; the lists of the release differ. A question about time needs the order of things, one about causes
# needs what led to what: each such word is one more thing to look for.
TEMPORAL = _words(
    "after afterwards again already before beforehand begin beginning begins during earlier end ending ends",
    "eventually final finally first firstly initially last lastly later meanwhile next once order previous previously",
    "second sequence simultaneously since start starting starts then third until when whenever while",
)
CAUSAL = _words(
    "because cause caused causes causing consequence consequently due effect explain hence if leads led prevent",
    "prevented purpose reason reasons result resulted resulting so therefore thus unless why would",
)
# What joins clauses, beside commas, semicolons and colons.
JOINTS = _words("and although but or that though where whereas which who whose")

LONG, LONGER = 12, 20
MOST_CLAUSES = 2


def count_words(question: str) -> int:
    """m* of a question by its words, 1…12.

    1 + different temporal words + different causal words + 1 from 12 words on + 1 more from 20 words on + joints of
    clauses, at most 2.

    >>> count_words("What colour is the car?"), count_words("Why does the man stop before the door opens?")
    (1, 3)
    """
    words = re.findall(r"[^\W_]+(?:['’][^\W_]+)?", question.lower())
    different = set(words)
    joints = len(re.findall(r"[,;:](?!\d)", question.strip().rstrip(",;:"))) + sum(word in JOINTS for word in words)
    count = 1 + len(different & TEMPORAL) + len(different & CAUSAL) + min(joints, MOST_CLAUSES)
    count += (len(words) >= LONG) + (len(words) >= LONGER)
    return min(max(count, LEAST), MOST)


class HeuristicEstimator(MStarEstimator):
    """Counts words of the question; options are not looked at.

    A preamble counts like the question itself, so that m* comes out too high where questions describe a setting first.
    """

    name = "heuristic"

    def _estimate(self, questions: Sequence[Asked]) -> list[int | str]:
        return [count_words(question.text) for question in questions]

    def describe(self) -> dict[str, Any]:
        """See :meth:`MStarEstimator.describe`."""
        return {"mstar": self.name, "range": [LEAST, MOST]}
