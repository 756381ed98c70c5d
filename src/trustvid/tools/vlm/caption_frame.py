"""caption_frame by a vision-language policy: one sentence about each frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trustvid.errors import ConfigError
from trustvid.policy.base import Policy
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.pretrained.blip import Blip
from trustvid.tools.vlm.asking import FrameAsker, json_of, policy_faults

QUESTION = (
    "What can be seen in this picture? Say in one or two plain sentences which things there are, what they look like "
    "and where they are; no guesses about what is hidden, blurred or outside. Reply with a JSON object and nothing "
    'else: {"caption": "…"}, or {"caption": null} where nothing can be made out.'
)
_FULL_LENGTH = 200  # characters of a caption that the paper's older release takes for fully confident


class VlmCaptionFrame:
    """Describes frames by asking a vision-language policy about each, as the paper does (Appendix B.1).

    Observations: kind "caption" (about the whole frame, no box), label = the sentences. Score: where the policy tells
    log-probabilities, the geometric mean of those of all tokens of the reply (its brackets and quotes among them); else
    min(characters / 200, 1), which the paper's older release takes: it says how much is told, not how sure it is.

    c_intrinsic is the mean score in both cases.

    A reply that is no JSON object with a caption fails the whole call: no caption is made of it.

    Args:
        policy: a vision-language policy; the same weights as the run's policy are in memory once.
        min_score: captions below are dropped, 0–1.

    Raises:
        ConfigError: settings are wrong, or the policy cannot see; all faults at once.
    """

    name = "caption_frame"
    cost = 0.30  # paper Table 17
    version = "1"
    span = "frame"
    reads_query = False

    def __init__(self, policy: Policy, min_score: float = 0.0):
        faults = list(policy_faults(self.name, policy, "tools/caption_frame=embedded, which needs none"))
        if not 0 <= min_score <= 1:
            faults.append(f"{self.name}.min_score={min_score!r}: expected 0–1")
        if faults:
            raise ConfigError(faults)
        self.policy, self.min_score = policy, float(min_score)
        self._asker = FrameAsker(self.name, policy, QUESTION, 'a JSON object {"caption": "…"}')

    # Sentence and c_intrinsic (the mean score) are the same whichever model wrote the captions.
    summarise = Blip.summarise

    @property
    def load(self) -> Callable[[], Any]:
        """The policy's own; AttributeError for one without weights in this process."""
        return self.policy.load

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """The caption of each frame of the batch."""
        outputs = []
        found = self._asker.ask(batch.images, caption_of)
        for (caption, probability), index, time in zip(found, batch.indices, batch.times, strict=True):
            score = round(min(len(caption) / _FULL_LENGTH, 1.0) if probability is None else probability, 4)
            told = bool(caption) and score >= self.min_score
            outputs.append([Observation(index, time, "caption", caption, score)] if told else [])
        return outputs

    def settings(self) -> dict:
        """All constructor arguments that matter to the output, those of the policy among them."""
        return {"backend": "vlm", "policy": self._asker.settings(), "min_score": self.min_score}


def caption_of(reply: str) -> str:
    """The caption of a reply, whitespace joined; "" where it says that nothing can be made out.

    Raises:
        ValueError: it is no JSON object with a caption alone.

    >>> caption_of('{"caption": "A red  car."}'), caption_of('{"caption": null}')
    ('A red car.', '')
    """
    entry = json_of(reply)
    if not isinstance(entry, dict) or set(entry) != {"caption"}:
        raise ValueError("no object with a caption alone")
    caption = entry["caption"]
    if caption is not None and not isinstance(caption, str):
        raise ValueError("a caption that is no text")
    return " ".join((caption or "").split())
