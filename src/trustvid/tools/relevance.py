"""Relevance of frames to a question, sim(φ(f), ψ(q)) of Eq. 3: what a selection may weigh besides reliability.

Estimators (config group ``relevance``) share one method, ``relevance(clip, indices, question, words, executor)``, which
gives one value in [0, 1] for each frame. Those that ask tools do so through the executor's tool cache, so that all
questions and methods share what was seen; they keep no executor, cache or clip themselves.

What a model says becomes relevance by a scale. It decides whether θ_sim = .30 of Eq. 3 means anything:

- "quantile", rank within the clip: discards the least relevant 30 % of the profiled frames (19 of 64), whatever the
  model's values are: fewer only where frames tie, but also where no frame, or every frame, is about the question.
- "cosine_shift", (cos + 1) / 2: never discards, see :func:`cosine_shift`.
- "probability", what the model itself calls its probability: discards none, some or all, by the clip and the question;
  where all are discarded, selection keeps the best ``k_min`` of them. No share is promised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

import numpy as np

from trustvid.errors import ConfigError, TrustvidError
from trustvid.reliability.selection import quantile
from trustvid.tools.evidence import TOOL_NAMES, Observation, SubQuery
from trustvid.tools.executor import Executor
from trustvid.tools.pretrained.phrases import object_phrases
from trustvid.video.source import FrameSource

SAME_WORD = 0.7  # least similarity of a reading to a word of the question to count as that word: OCR drops letters
INHERITED = 0.5  # share of a sighting that frames around it get; readings score 0.5 or more, so that they stay ahead


def cosine_shift(cosine: np.ndarray) -> np.ndarray:
    """(cos + 1) / 2, as in the paper's release. A threshold of .30 on it means cos ≥ −.4, and cosines of image and text
    lie near .2 (CLIP) or .1 (SigLIP 2): it never discards a frame, and hardly orders them. For comparison with the
    paper, and for a selection that sets its threshold by rank (``theta_sim_on: rank``).

    Args:
        cosine: [n] in [-1, 1].
    """
    return np.clip((cosine + 1.0) / 2.0, 0.0, 1.0)


class NoRelevance:
    """No relevance: every frame matters the same, whatever is asked. Selection is then by reliability alone."""

    name = "none"

    def relevance(
        self, clip: FrameSource, indices: Sequence[int], question: str, words: Sequence[str], executor: Executor
    ) -> np.ndarray:
        """Ones, [len(indices)]; looks at nothing."""
        return np.ones(len(indices))


class Lexical:
    """Words of question and options that cheap tools read or recognise in a frame. No model of its own.

    A frame's overlap is the mean over these words of (tool's score of the word in it) × (1 − share of the clip's frames
    that show the word): what is in every frame tells none apart. A word may well be in a frame in which it was not
    read, and likeliest near one in which it was: frames get half of what is seen around them, less with distance.
    Values are ranks (:func:`quantile`), so frames far from every sighting, which are all alike, are not discarded as
    long as they are more than θ_sim of the clip; and a question with none of its words in sight leaves all at 1.

    Args:
        tools: names of the tools that look, at every profiled frame; each must be installed.
        reach_s: standard deviation in seconds of the Gaussian by which a sighting counts for frames around it.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    name = "lexical"

    def __init__(self, tools: Sequence[str] = ("read_text", "detect_objects"), reach_s: float = 1.0):
        unknown = [name for name in tools if name not in TOOL_NAMES]
        faults = [f"relevance.tools holds {name!r}; known: {', '.join(TOOL_NAMES)}" for name in unknown]
        if not tools:
            faults.append("relevance.tools=[] leaves nothing that looks; expected one tool or more")
        if not reach_s > 0:
            faults.append(f"relevance.reach_s={reach_s!r}; expected seconds above 0")
        if faults:
            raise ConfigError(faults)
        self.tools, self.reach_s = tuple(tools), float(reach_s)

    def relevance(
        self, clip: FrameSource, indices: Sequence[int], question: str, words: Sequence[str], executor: Executor
    ) -> np.ndarray:
        """Rank of each frame by its overlap with the question, [len(indices)] in [0, 1].

        Raises:
            VideoError: the clip cannot be decoded.
            TrustvidError: a tool is not installed, failed, or was not done in time.
        """
        terms = terms_of(question, words)
        strength = np.zeros((len(terms), len(indices)))
        if terms:
            place = {int(index): at for at, index in enumerate(indices)}
            meant: dict[str, list[int]] = {}
            for seen in self._observations(clip, indices, question, words, executor):
                if seen.label not in meant:
                    meant[seen.label] = sorted({at for word in _words_in(seen.label) for at in _same(word, terms)})
                column = strength[:, place[seen.frame]]
                column[meant[seen.label]] = np.maximum(column[meant[seen.label]], seen.score)
        rarity = 1.0 - (strength > 0).mean(axis=1, keepdims=True)
        overlap = (rarity * strength).sum(axis=0) / max(len(terms), 1)
        return quantile(_spread(overlap, clip.timestamps[list(indices)], self.reach_s))

    def _observations(
        self, clip: FrameSource, indices: Sequence[int], question: str, words: Sequence[str], executor: Executor
    ) -> Iterator[Observation]:
        for tool in self.tools:
            evidence = executor.run(tool, SubQuery(question, "spatial"), clip, indices, words)
            if evidence.error:
                raise TrustvidError(f"{clip.video_id}: relevance=lexical: {evidence.error.message}")
            yield from evidence.observations


def terms_of(question: str, words: Sequence[str]) -> tuple[str, ...]:
    """The words of question and options that name things or what is written on them, lower case, in order.

    >>> terms_of("Where is the red box, seen from the CAFE?", ("WHERE", "CAFE", "LEFT", "BANK"))
    ('red', 'box', 'cafe', 'bank')
    """
    phrases = object_phrases(question, words, limit=len(question) + len(words))
    return tuple(dict.fromkeys(word for phrase in phrases for word in phrase.split()))


def _words_in(label: str) -> list[str]:
    """The words of a label, and all of it as one word: readers tear words apart."""
    words = ["".join(filter(str.isalpha, word)) for word in label.lower().split()]
    return [word for word in dict.fromkeys([*words, "".join(words)]) if word]


def _same(word: str, terms: Sequence[str]) -> list[int]:
    """Place of the term that a seen word most likely is; empty when it is none."""
    likeness = [SequenceMatcher(None, word, term).ratio() for term in terms]
    best = int(np.argmax(likeness))
    return [best] if likeness[best] >= SAME_WORD else []


def _spread(overlap: np.ndarray, times: np.ndarray, reach_s: float) -> np.ndarray:
    """[n] the overlap of each frame, or what it inherits of the best around it where that is more; in hundredths, for
    less is no evidence that would set frames apart."""
    distance = (times[:, None] - times[None, :]) / reach_s
    inherited = INHERITED * (overlap[None, :] * np.exp(-0.5 * distance**2)).max(axis=1)
    return np.round(np.maximum(overlap, inherited), 2)
