"""The estimator contract: questions in, a number of sub-queries for each out, or why there is none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from trustvid.errors import TrustvidError

LEAST, MOST = 1, 12
"""Range of m*: the release of the paper clips to it."""


class Asked(Protocol):
    """A question as estimators see it: its words and its options, no video and no truth."""

    @property
    def text(self) -> str: ...

    @property
    def options(self) -> tuple[str, ...]: ...


class EstimateError(TrustvidError):
    """There is no m* for some of the questions. They cannot be rewarded: leave them out, and count them.

    Attributes:
        estimates: one for each question in order, None where there is none.
        reasons: place of a question without one → why.
    """

    def __init__(self, message: str, estimates: Sequence[int | None], reasons: Mapping[int, str]):
        super().__init__(message)
        self.estimates, self.reasons = tuple(estimates), dict(reasons)

    def __reduce__(self) -> tuple:
        return type(self), (str(self), self.estimates, self.reasons)


class MStarEstimator(ABC):
    """Estimates m*, each question once: what is known is remembered as long as the process lives.

    Attributes:
        name: how logs call it.
        asks_policy: whether it asks the policy that is being trained, which must be given to it first (``bind``).
        remembers: whether an estimate stands once it is made; False where the estimator changes while it is in use.
    """

    name: str = ""
    asks_policy: bool = False
    remembers: bool = True

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...]], int] = {}

    def estimate(self, questions: Sequence[Asked]) -> list[int]:
        """m* of each question, in order, each in 1…12. Equal questions are asked once.

        Raises:
            EstimateError: some questions have none (a reply could not be read, a server failed); it has the others'.
            TrustvidError: nothing can be estimated at all (weights are missing, a setting is wrong).
        """
        keys = [(question.text, tuple(question.options)) for question in questions]
        known = self._known if self.remembers else {}
        by_key = dict(zip(keys, questions, strict=True))
        unknown = [key for key in dict.fromkeys(keys) if key not in known]
        failed: dict[tuple[str, tuple[str, ...]], str] = {}
        if unknown:
            outcomes = self._estimate([by_key[key] for key in unknown])
            for key, outcome in zip(unknown, outcomes, strict=True):
                if isinstance(outcome, str):
                    failed[key] = outcome
                else:
                    known[key] = min(max(outcome, LEAST), MOST)
        if failed:
            reasons = {place: failed[key] for place, key in enumerate(keys) if key in failed}
            some = f"{len(reasons)} of {len(keys)} questions have no m*; the first: {next(iter(reasons.values()))}"
            raise EstimateError(f"mstar {self.name}: {some}", [known.get(key) for key in keys], reasons)
        return [known[key] for key in keys]

    @abstractmethod
    def _estimate(self, questions: Sequence[Asked]) -> list[int | str]:
        """For each question its number, before clipping, or why there is none."""

    def describe(self) -> dict[str, Any]:
        """For the run record: plain JSON, no secrets."""
        return {"mstar": self.name}
