"""How far the evidence of a conversation speaks for each option: what the scripted policy believes, as numbers.

A pooled posterior: all observations of all tools go through the solver of the question together, and the share of
draws in which an option wins (see ``draws``) is its probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from trustvid.policy.scripted.reading import Scene, read_scene
from trustvid.policy.scripted.solvers import Finding, solver_for

SETTLED = 0.005  # shares that differ by less than this look all the same when told in hundredths: nothing is settled


def option_shares(texts: Sequence[str]) -> dict[str, float] | None:
    """Probability of each option of a conversation's question, by the evidence in it.

    Args:
        texts: of the messages, or of the blocks that hold the question with its options, the frames and the evidence.

    Returns:
        Letter → probability, in (0, 1), in the order of the options; they sum to 1. None where no solver knows the
        question, where the evidence does not reach, and where it leaves all options as likely as one another.
    """
    shares = _shares(tuple(texts))
    return None if shares is None else dict(shares)


@lru_cache(maxsize=1024)
def _shares(texts: tuple[str, ...]) -> dict[str, float] | None:
    """Kept: of the passes over one question many gather the same evidence."""
    scene = read_scene(texts)
    finding = solve(scene)
    if finding is None:
        return None
    shares = believed(scene, finding)
    return shares if max(shares.values()) - min(shares.values()) >= SETTLED else None


def solve(scene: Scene) -> Finding | None:
    """What the solver of the question makes of the evidence; None without a solver, options, or enough evidence."""
    known = solver_for(scene.question)
    return known[0](scene, known[1]) if known and scene.options and scene.has_evidence else None


def believed(scene: Scene, finding: Finding) -> dict[str, float]:
    """The probabilities of a finding by letter, in the order of the options, as far as they are to be believed."""
    trust = tier_discount(scene)
    n = len(scene.options)
    return {letter: float(trust * finding.shares[letter] + (1 - trust) / n) for letter in scene.options}


def tier_discount(scene: Scene) -> float:
    """How far the probabilities are believed, rather than a guess: as the worst tier among the tools says.

    Every solver joins all tools, so the worst one bounds the answer. A probability of a share of draws already holds
    what single observations are worth; tiers speak of whole calls. Without tiers nothing is discounted.
    """
    worth = {"high": 1.0, "medium": 0.9, "low": 0.6, "": 1.0}
    return min((worth[tier] for tier in scene.tiers.values()), default=1.0)
