"""Synthesis that hands the policy what the evidence comes to: how far all of it together speaks for each option.

The geometry that joins words, boxes and motion is done here, by explicit solvers, so that a policy too small for it can
still plan, choose tools and judge; and the share of the option it chooses is a confidence that it did not state itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from trustvid.agent.synthesis import LogOdds
from trustvid.agent.trajectory import Answer
from trustvid.errors import ConfigError
from trustvid.policy.scripted.support import option_shares

Detail = Literal["full", "short"]
ConfidenceFrom = Literal["stated", "pooled"]
DETAILS: tuple[Detail, ...] = ("full", "short")
CONFIDENCES: tuple[ConfidenceFrom, ...] = ("stated", "pooled")


class Pooled(LogOdds):
    """Log-odds, and in addition the support that all evidence of a trajectory gives to each option.

    Args:
        alternatives: N, how many words a reading could have been.
        detail: what the policy is shown before the support: "full" = the whole evidence; "short" = one line a call.
        confidence: whose probability an answer has: "stated" = the policy's own; "pooled" = the support of the option
            it chose, and none where the evidence supports nothing. One run records one of them, never a mixture.

    Raises:
        ConfigError: ``detail`` or ``confidence`` is not one of these; both faults in one message.
        ValueError: ``alternatives`` is below 2.
    """

    name = "pooled"

    def __init__(self, alternatives: int = 24, detail: Detail = "full", confidence: ConfidenceFrom = "stated"):
        faults = []
        if detail not in DETAILS:
            faults.append(f"synthesis.detail={detail!r} is unknown; known: {', '.join(DETAILS)}")
        if confidence not in CONFIDENCES:
            faults.append(f"synthesis.confidence={confidence!r} is unknown; known: {', '.join(CONFIDENCES)}")
        if faults:
            raise ConfigError(faults)
        super().__init__(alternatives)
        self.detail, self.confidence = detail, confidence

    def support(self, question: str, evidence: str) -> dict[str, float] | None:
        """Probability of each option by letter, in the order of the options; they sum to 1.

        Args:
            question: the rendered blocks of question and frames.
            evidence: the rendered block of all evidence, in full.

        Returns:
            None where no solver knows the question or the evidence settles nothing: no number is made up.
        """
        return option_shares([question, evidence])

    def settle(self, answer: Answer, support: Mapping[str, float] | None) -> Answer:
        """The answer with the confidence that this synthesis is to record."""
        if self.confidence == "stated":
            return answer
        share = (support or {}).get(answer.value or "")
        return replace(answer, confidence=share, confidence_source=None if share is None else "pooled")
