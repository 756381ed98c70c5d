"""Evidence synthesis: pooling what the tools saw, and sorting it into tiers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache

from trustvid.tools.evidence import Evidence, Observation, Tier

HIGH_CONFIDENCE, HIGH_DISTURBANCE = 0.7, 0.3  # HIGH: c ≥ 0.7 and d < 0.3 (paper E.3, Table 16)
LOW_CONFIDENCE, LOW_DISTURBANCE = 0.3, 0.7  # LOW: c < 0.3 or d ≥ 0.7
MATCH = 0.7  # least similarity of a reading to a word of the question to count as that word


@dataclass(frozen=True)
class Link:
    """A word of the question that is written on a thing: ``votes`` of ``total`` readings of the word say so."""

    word: str
    thing: str
    votes: float
    total: float


def tier_of(confidence: float, mean_disturbance: float) -> Tier:
    """The three tiers of E.3, from c of a call and the mean d of its source frames."""
    if confidence < LOW_CONFIDENCE or mean_disturbance >= LOW_DISTURBANCE:
        return "low"
    if confidence >= HIGH_CONFIDENCE and mean_disturbance < HIGH_DISTURBANCE:
        return "high"
    return "medium"


class Uniform:
    """No tiers: all evidence counts the same, confidence is not shown. The synthesis of ``blind``."""

    name = "uniform"

    def sort(self, evidence: Sequence[Evidence]) -> list[Evidence]:
        """The evidence as it came, without confidences of single observations: they do not count here."""
        return [_without_confidences(item) for item in evidence]

    def link(self, evidence: Sequence[Evidence], words: Sequence[str]) -> list[Link]:
        """Which word is written on which thing; every reading has one vote."""
        return link_words(evidence, words)


class Tiered:
    """The paper's three tiers (E.3), one per tool call."""

    name = "tiered"

    def sort(self, evidence: Sequence[Evidence]) -> list[Evidence]:
        """The evidence with its tiers. A failed call has confidence 0 and so is low."""
        sorted_evidence = []
        for item in evidence:
            mean_d = sum(item.disturbance) / len(item.disturbance) if item.disturbance else 0.0
            sorted_evidence.append(replace(_without_confidences(item), tier=tier_of(item.confidence, mean_d)))
        return sorted_evidence

    def link(self, evidence: Sequence[Evidence], words: Sequence[str]) -> list[Link]:
        """Which word is written on which thing; every reading has one vote."""
        return link_words(evidence, words)


class LogOdds:
    """No tiers: every observation counts by its confidence, votes are pooled as log-odds.

    A reading that is right with probability c speaks for its word by max(0, logit c + ln(N − 1)): what a right one
    among N possible words is worth over a chance one. Observations without a confidence have one vote each, so that a
    method which knows nothing of reliability pools like ``uniform``.

    Args:
        alternatives: N, how many words a reading could have been.
    """

    name = "log_odds"

    def __init__(self, alternatives: int = 24):
        if alternatives < 2:
            raise ValueError(f"synthesis.alternatives={alternatives}; expected at least 2")
        self.alternatives = alternatives

    def sort(self, evidence: Sequence[Evidence]) -> list[Evidence]:
        """The evidence as it came."""
        return list(evidence)

    def link(self, evidence: Sequence[Evidence], words: Sequence[str]) -> list[Link]:
        """Which word is written on which thing, by the weight of the readings that say so."""
        return link_words(evidence, words, self._vote)

    def _vote(self, reading: Observation) -> float:
        if reading.confidence is None:
            return 1.0
        c = min(max(reading.confidence, 0.01), 0.97)
        return max(0.0, math.log(c / (1 - c)) + math.log(self.alternatives - 1))


def _without_confidences(item: Evidence) -> Evidence:
    if all(seen.confidence is None for seen in item.observations):
        return item
    return replace(item, observations=tuple(replace(seen, confidence=None) for seen in item.observations))


def words_of(*texts: str) -> tuple[str, ...]:
    """The distinct words of question and options, upper case, two letters or more, in order of appearance.

    >>> words_of("Where is the CAFE?", "left")
    ('WHERE', 'IS', 'THE', 'CAFE', 'LEFT')
    """
    found = (word.upper() for text in texts for word in re.findall(r"[^\W\d_]{2,}", text))
    return tuple(dict.fromkeys(found))


def match_word(reading: str, words: Sequence[str]) -> str | None:
    """The word that a reading most likely is, or None: OCR drops and swaps letters ("CAFF" is CAFE)."""
    text = re.sub(r"[\W_]", "", reading.upper())
    if not text:
        return None
    scored = [(_similarity(text, word), word) for word in words]
    best = max(scored, default=(0.0, ""), key=lambda pair: pair[0])
    return best[1] if best[0] >= MATCH else None


@lru_cache(maxsize=65_536)  # the same readings come back in every question on a clip
def _similarity(text: str, word: str) -> float:
    return SequenceMatcher(None, text, word).ratio()


def link_words(
    evidence: Sequence[Evidence], words: Sequence[str], vote: Callable[[Observation], float] = lambda reading: 1.0
) -> list[Link]:
    """Which word is written on which thing: a vote for each reading that lies on a detected box of the same frame.

    One-to-one: a thing carries one word and a word stands on one thing; pairs are taken by falling sum of votes (then
    by name). Readings outside every box, and words that are not in the question, take no part.

    Args:
        vote: what a reading counts, ≥ 0.
    """
    objects: dict[int, list[Observation]] = {}
    for item in evidence:
        for observation in item.observations:
            if observation.kind == "object" and observation.box and observation.label != "sign":
                objects.setdefault(observation.frame, []).append(observation)
    votes: dict[tuple[str, str], float] = {}
    totals: dict[str, float] = {}
    for item in evidence:
        for reading in item.observations:
            word = match_word(reading.label, words) if reading.kind == "text" else None
            thing = _thing_under(reading, objects.get(reading.frame, ())) if word else None
            if word and thing:
                votes[word, thing] = votes.get((word, thing), 0.0) + vote(reading)
                totals[word] = totals.get(word, 0.0) + vote(reading)
    links: list[Link] = []
    for (word, thing), count in sorted(votes.items(), key=lambda entry: (-entry[1], entry[0])):
        if count > 0 and all(word != link.word and thing != link.thing for link in links):
            links.append(Link(word, thing, count, totals[word]))
    return sorted(links, key=lambda link: link.word)


def _thing_under(reading: Observation, objects: Sequence[Observation]) -> str | None:
    """Label of the smallest box that holds the centre of the reading's box."""
    if reading.box is None:
        return None
    x, y = (reading.box[0] + reading.box[2]) / 2, (reading.box[1] + reading.box[3]) / 2
    holding = [o for o in objects if o.box[0] <= x <= o.box[2] and o.box[1] <= y <= o.box[3]]
    if not holding:
        return None
    return min(holding, key=lambda o: ((o.box[2] - o.box[0]) * (o.box[3] - o.box[1]), o.label)).label
