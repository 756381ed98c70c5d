"""read_text by a vision-language policy: which words it sees in each frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trustvid.errors import ConfigError
from trustvid.policy.base import Policy
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.read_text import ReadText
from trustvid.tools.vlm.asking import FrameAsker, json_of, policy_faults

QUESTION = (
    "Which text can be read in this picture: signs, labels, captions, house numbers? Copy it letter by letter, and "
    "leave out whatever you would have to guess. Reply with a JSON list and nothing else: one string for each sign or "
    'line of text, as in ["CAFE", "PLATFORM 2"], or [] where no text can be read.'
)


class VlmReadText:
    """Reads text by asking a vision-language policy about each frame, as the paper's release does.

    Observations: kind "text", label as read (case kept, whitespace joined), no box. Score: where the policy tells
    log-probabilities, the geometric mean of those of all tokens of the frame's reply (its brackets and quotes among
    them), which stands for the mean confidence of the characters; else 1.0, as nothing is known of a single reading.

    c_intrinsic: with log-probabilities the mean score, as of the other backends (paper, Table 17); without, as in the
    paper's release, the share of frames in which there is text.

    A reply that is not a JSON list of strings fails the whole call: no text is made of it.

    Args:
        policy: a vision-language policy; the same weights as the run's policy are in memory once.
        min_score: readings below are dropped, 0–1.

    Raises:
        ConfigError: settings are wrong, or the policy cannot see; all faults at once.
    """

    name = "read_text"
    cost = 0.25  # paper Table 17
    version = "1"
    span = "frame"
    reads_query = False

    def __init__(self, policy: Policy, min_score: float = 0.0):
        faults = list(policy_faults(self.name, policy, "tools/read_text=rapidocr, which needs none"))
        if not 0 <= min_score <= 1:
            faults.append(f"{self.name}.min_score={min_score!r}: expected 0–1")
        if faults:
            raise ConfigError(faults)
        self.policy, self.min_score = policy, float(min_score)
        self._asker = FrameAsker(self.name, policy, QUESTION, "a JSON list of strings")

    summarise = ReadText.summarise

    @property
    def load(self) -> Callable[[], Any]:
        """The policy's own; AttributeError for one without weights in this process."""
        return self.policy.load

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """The readings of each frame of the batch, in the order of the reply."""
        outputs = []
        found = self._asker.ask(batch.images, texts_of)
        for (texts, probability), index, time in zip(found, batch.indices, batch.times, strict=True):
            score = 1.0 if probability is None else round(probability, 4)
            kept = texts if score >= self.min_score else []
            outputs.append([Observation(index, time, "text", text, score) for text in kept])
        return outputs

    def summarise_of(self, observations: Sequence[Observation], looked_at: int) -> tuple[str, float]:
        """The words by first sight; the mean score, or the share of the ``looked_at`` frames that have text."""
        result, intrinsic = self.summarise(observations)
        if not self._asker.scores:
            intrinsic = len({seen.frame for seen in observations}) / looked_at
        return result, intrinsic

    def settings(self) -> dict:
        """All constructor arguments that matter to the output, those of the policy among them."""
        return {"backend": "vlm", "policy": self._asker.settings(), "min_score": self.min_score}


def texts_of(reply: str) -> list[str]:
    """The distinct texts of a reply, whitespace joined.

    Raises:
        ValueError: it is not a JSON list of strings.

    >>> texts_of('["PLATFORM  2", "CAFE", "CAFE", ""]')
    ['PLATFORM 2', 'CAFE']
    """
    entries = json_of(reply)
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise ValueError("no list of strings")
    return list(dict.fromkeys(text for entry in entries if (text := " ".join(entry.split()))))
