"""The reward of a trajectory: Eqs. 5–10 of the paper (arXiv 2606.26904) in plain numbers, and its weighting."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trustvid.errors import ConfigError

if TYPE_CHECKING:
    from trustvid.agent.trajectory import Trajectory

TERMS = ("acc", "subq", "cc", "fmt")
"""The weighted terms: R_acc, R_subq, R_cc^total, R_fmt."""


@dataclass(frozen=True)
class RewardInputs:
    """What the reward looks at.

    Attributes:
        correct: whether the answer is right; for numeric answers their score, 0–1 (VSI-Bench's MRA).
        sub_queries: m, how many sub-queries the question was taken apart into.
        m_star: m*, how many it needs.
        confidences: c_j of the tool calls, each 0–1; 0 for a call that failed.
        costs: cost of the same calls (Table 17).
        well_formed: whether every turn of the policy could be read and the last one has the form it was asked for.

    Raises:
        ValueError: a value is out of range, or confidences and costs differ in number.
    """

    correct: bool | float
    sub_queries: int
    m_star: float
    confidences: tuple[float, ...]
    costs: tuple[float, ...]
    well_formed: bool

    def __post_init__(self) -> None:
        faults = []
        if not 0 <= self.correct <= 1:
            faults.append(f"correct={self.correct}; expected true, false or a score 0 to 1")
        if self.sub_queries < 0:
            faults.append(f"sub_queries={self.sub_queries}; expected 0 or more")
        if not (self.m_star >= 0 and math.isfinite(self.m_star)):
            faults.append(f"m_star={self.m_star}; expected 0 or more")
        if len(self.confidences) != len(self.costs):
            faults.append(f"{len(self.confidences)} confidences, {len(self.costs)} costs; expected one each per call")
        if not all(0 <= c <= 1 for c in self.confidences):
            faults.append(f"confidences={self.confidences}; expected each 0 to 1")
        if not all(math.isfinite(cost) and cost >= 0 for cost in self.costs):
            faults.append(f"costs={self.costs}; expected each 0 or more")
        if faults:
            raise ValueError("reward: " + "; ".join(faults))


def inputs_of(trajectory: Trajectory, correct: bool | float, m_star: float) -> RewardInputs:
    """What the reward looks at in a trajectory.

    Calls are the evidence, in whatever order; one that was refined has the cost of both its calls. Looking after frames
    (profile, selection) is not the policy's choice and is left out. A decomposition that could not be read counts as
    the one sub-query that was asked instead, and as a fault of form.

    Args:
        trajectory: one pass of the pipeline.
        correct: whether its answer is right, or the score of a numeric answer, 0–1.
        m_star: estimate for its question.
    """
    well_formed = (
        trajectory.decomposition_ok
        and trajectory.routing_ok
        and trajectory.answer.status != "unparsed"
        and bool(trajectory.messages)
        and in_form(trajectory.messages[-1].text)
    )
    return RewardInputs(
        correct=correct,
        sub_queries=len(trajectory.sub_queries),
        m_star=m_star,
        confidences=tuple(item.confidence for item in trajectory.evidence),
        costs=tuple(item.cost for item in trajectory.evidence),
        well_formed=well_formed,
    )


_INSIDE = r"(?:(?!</?(?:think|answer|confidence)>).)*"
_FORM = re.compile(
    rf"\s*<think>{_INSIDE}</think>\s*<answer>{_INSIDE}</answer>\s*(?:<confidence>{_INSIDE}</confidence>\s*)?", re.DOTALL
)


def in_form(reply: str) -> bool:
    """Whether an answer is one thought and one answer, in this order, and if wanted a confidence; nothing else.

    Two answers are out of form although the last of them can be read, and so is an answer without its tags.

    >>> in_form("<think>x</think> <answer>A</answer>"), in_form("<answer>A</answer><answer>B</answer>"), in_form("A")
    (True, False, False)
    """
    return _FORM.fullmatch(reply) is not None


def accuracy(correct: bool | float) -> float:
    """R_acc of Eq. 10: +1 or -1. A numeric answer with score s has 2·s - 1, our reading: the paper has options only."""
    return 2.0 * float(correct) - 1.0


def confidence_cost(confidence: float, cost: float, cost_weight: float = 0.5) -> float:
    """Eq. 5: R_cc = c_j - λ·cost(T_j)."""
    return confidence - cost_weight * cost


def mean_confidence_cost(confidences: Sequence[float], costs: Sequence[float], cost_weight: float = 0.5) -> float:
    """Eq. 6: R_cc^total, the mean of Eq. 5 over the calls; 0 without calls."""
    return _mean([confidence_cost(c, cost, cost_weight) for c, cost in zip(confidences, costs, strict=True)])


def few_sub_queries(m: int, m_star: float, alpha: float = 0.2) -> float:
    """Eq. 7: R_min-sq = exp(-α·max(0, m - m*)); 1 up to m*, then falling."""
    return math.exp(-alpha * max(0.0, m - m_star))


def evidence_quality(m: int, m_star: float, mean_confidence: float, beta: float = 1.0) -> float:
    """Eq. 8: R_qual = (1 - exp(-β·m / max(m*, 1))) · mean confidence."""
    return (1.0 - math.exp(-beta * m / max(m_star, 1.0))) * mean_confidence


class Reward:
    """The reward R = w_acc·R_acc + w_subq·R_subq + w_cc·R_cc^total + w_fmt·R_fmt (Eq. 10; config group ``reward``).

    Args:
        w_acc, w_subq, w_cc, w_fmt: weights, 0 or more; 0 leaves a term out of the sum, not out of the log.
        alpha: α of Eq. 7, how fast superfluous sub-queries are punished.
        beta: β of Eq. 8.
        cost_weight: λ of Eq. 5.
        halve_subq: take half of the sum of Eqs. 7 and 8 in Eq. 9, as a draft of the paper did.

    Raises:
        ConfigError: with all faults.
    """

    def __init__(
        self,
        w_acc: float = 1.0,
        w_subq: float = 1 / 3,
        w_cc: float = 1 / 3,
        w_fmt: float = 1 / 3,
        alpha: float = 0.2,
        beta: float = 1.0,
        cost_weight: float = 0.5,
        halve_subq: bool = False,
    ):
        self.weights = {"acc": w_acc, "subq": w_subq, "cc": w_cc, "fmt": w_fmt}
        self.alpha, self.beta, self.cost_weight, self.halve_subq = alpha, beta, cost_weight, halve_subq
        named = {f"w_{name}": weight for name, weight in self.weights.items()}
        named |= {"alpha": alpha, "beta": beta, "cost_weight": cost_weight}
        faults = [f"reward.{name}={value}; expected 0 or more" for name, value in named.items() if not value >= 0]
        if not any(self.weights.values()):
            faults.append("reward: all weights are 0, so that nothing is learned; expected one above 0")
        if faults:
            raise ConfigError(faults)

    def terms(self, inputs: RewardInputs) -> dict[str, float]:
        """The raw terms, without weights: those of ``TERMS``, and "min_sq" and "qual", of which "subq" is made.

        Ranges: acc -1…1, subq 0…2, min_sq 0…1, qual 0…1, cc at least -λ · (largest cost) and at most 1, fmt 0 or 1.
        """
        m, m_star = inputs.sub_queries, inputs.m_star
        min_sq = few_sub_queries(m, m_star, self.alpha)
        qual = evidence_quality(m, m_star, _mean(inputs.confidences), self.beta)
        return {
            "acc": accuracy(inputs.correct),
            "subq": (min_sq + qual) * (0.5 if self.halve_subq else 1.0),  # Eq. 9
            "cc": mean_confidence_cost(inputs.confidences, inputs.costs, self.cost_weight),
            "fmt": float(inputs.well_formed),
            "min_sq": min_sq,
            "qual": qual,
        }

    def total(self, terms: Mapping[str, float]) -> float:
        """Eq. 10: the weighted sum of the terms."""
        return sum(weight * terms[name] for name, weight in self.weights.items())

    def metrics(self, batch: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """What a step logs of its trajectories' terms, by TRL's names.

        ``reward`` is the mean of what was trained on, weights included, ``reward_std`` its deviation (n - 1, 0 for one
        trajectory); ``rewards/<term>/mean`` are raw, those of weight 0 included. Empty for an empty batch.
        """
        if not batch:
            return {}
        totals = [self.total(terms) for terms in batch]
        mean = _mean(totals)
        deviation = math.sqrt(sum((total - mean) ** 2 for total in totals) / max(len(totals) - 1, 1))
        raw = {f"rewards/{name}/mean": _mean([terms[name] for terms in batch]) for name in batch[0]}
        return {"reward": mean, "reward_std": deviation, **raw}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
