"""A judge for tests and dry runs: right as often as it is told to be, and failing as often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from trustvid.errors import ConfigError
from trustvid.judge.base import Extraction, Judgement, OpenAnswer, Reading
from trustvid.llm.messages import Failure

if TYPE_CHECKING:
    from trustvid.captioning.checklist import OpenItem
    from trustvid.judge.base import JudgeTask

_FAILED = Failure("mock", "the mock judge was told to fail sometimes (fail_rate)")


class MockJudge:
    """Takes the whole response for every rule and the checklist's own right answers, by chance distorted.

    Chance derives from the task's and the item's ids, so the same items fail in every run, in any order.

    Args:
        accuracy: share of questions answered right; the others get another option.
        fail_rate: share of items that end as a failure.
        seed: another seed, other items.
    """

    name = "mock"

    def __init__(self, accuracy: float = 1.0, fail_rate: float = 0.0, seed: int = 0):
        shares = {"accuracy": accuracy, "fail_rate": fail_rate}
        faults = [f"{name}={share}; expected a share, 0 to 1" for name, share in shares.items() if not 0 <= share <= 1]
        if faults:
            raise ConfigError(faults)
        self.accuracy, self.fail_rate, self.seed = accuracy, fail_rate, seed

    def describe(self) -> dict[str, Any]:
        """See :meth:`~trustvid.judge.base.Judge.describe`."""
        return {
            "judge": self.name,
            "accuracy": self.accuracy,
            "fail_rate": self.fail_rate,
            "seed": self.seed,
            "readings": ["strict"],
        }

    def judge(self, task: JudgeTask) -> Judgement:
        """See :meth:`~trustvid.judge.base.Judge.judge`."""
        extractions = tuple(self._extract(task, item.check_id) for item in task.checklist.rule_items)
        questions = [item for group in task.checklist.open_groups for item in group.check_items]
        return Judgement(task.task_id, Reading(extractions, tuple(self._answer(task, item) for item in questions)))

    def judge_many(self, tasks: Iterable[JudgeTask]) -> Iterator[Judgement]:
        """See :meth:`~trustvid.judge.base.Judge.judge_many`."""
        return map(self.judge, tasks)

    def _extract(self, task: JudgeTask, check_id: str) -> Extraction:
        if self._chance(task, check_id, "fail") < self.fail_rate:
            return Extraction(check_id, None, "mock", _FAILED)
        return Extraction(check_id, (task.response,), "mock")

    def _answer(self, task: JudgeTask, item: OpenItem) -> OpenAnswer:
        if self._chance(task, item.check_id, "fail") < self.fail_rate:
            return OpenAnswer(item.check_id, None, "mock", failure=_FAILED)
        right = self._chance(task, item.check_id, "right") < self.accuracy
        options = (
            ["yes", "no"] if item.check_type == "attempt" else list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(item.options)])
        )
        others = [option for option in options if option != item.correct_answer]
        wrong = others[int(self._chance(task, item.check_id, "which") * len(others))] if others else item.correct_answer
        return OpenAnswer(item.check_id, item.correct_answer if right else wrong, "mock", "by chance", 3)

    def _chance(self, task: JudgeTask, check_id: str, what: str) -> float:
        """Uniform in [0, 1)."""
        from trustvid.seeding import derive_seed

        return derive_seed(self.seed, task.task_id, check_id, what) / 2**64
