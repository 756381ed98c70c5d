"""m* from a frozen planner that is shipped: how many sub-queries its rules make of a question."""

from __future__ import annotations

from collections.abc import Sequence

from trustvid.grpo.mstar.base import Asked, MStarEstimator
from trustvid.policy.scripted.teacher import needs


class PlannerEstimator(MStarEstimator):
    """As many as the teacher policy would ask. It knows the wording of the embedded benchmark.

    The heuristic counts words, and the embedded benchmark's questions have long preambles: it says 7 or 8 where 3
    sub-queries are all there is to ask, and Eq. 7 would then punish nothing.
    """

    name = "planner"

    def _estimate(self, questions: Sequence[Asked]) -> list[int | str]:
        return [len(needs(question.text)) for question in questions]
