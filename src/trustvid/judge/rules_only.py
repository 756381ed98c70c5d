"""The judge without a model: deterministic, offline, free. It reads structure and words, not meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from trustvid.judge.base import Extraction, Judgement, OpenAnswer, Reading
from trustvid.llm.messages import Failure

if TYPE_CHECKING:
    from trustvid.captioning.checklist import OpenItem, RuleItem
    from trustvid.judge.base import JudgeTask


class RulesOnlyJudge:
    """Extracts by structure (``judge.spans``) and answers by words (``judge.lexical``); what it cannot do it says.

    Its extractions have source "rules", its answers source "lexical". Its agreement with people is lower than a
    model's on questions; every table names the judge.

    Args:
        open_checks: "lexical" = answer questions by comparing words; "none" = leave them unscored.
    """

    name = "rules_only"

    def __init__(self, open_checks: str = "lexical"):
        if open_checks not in ("lexical", "none"):
            raise ValueError(f"open_checks={open_checks}; expected lexical or none")
        self.open_checks = open_checks

    def describe(self) -> dict[str, Any]:
        """See :meth:`~trustvid.judge.base.Judge.describe`."""
        return {"judge": self.name, "open_checks": self.open_checks, "readings": ["strict"]}

    def judge(self, task: JudgeTask) -> Judgement:
        """See :meth:`~trustvid.judge.base.Judge.judge`."""
        rules = task.checklist.rule_items
        questions = [item for group in task.checklist.open_groups for item in group.check_items]
        extractions = tuple(_extraction(item, rules, task.response) for item in rules)
        return Judgement(task.task_id, Reading(extractions, tuple(self._answer(item, task) for item in questions)))

    def judge_many(self, tasks: Iterable[JudgeTask]) -> Iterator[Judgement]:
        """See :meth:`~trustvid.judge.base.Judge.judge_many`."""
        return map(self.judge, tasks)

    def _answer(self, item: OpenItem, task: JudgeTask) -> OpenAnswer:
        from trustvid.judge import lexical

        if self.open_checks == "none":
            skipped = Failure("not_asked", "questions are left to a judge with a model (open_checks=none)")
            return OpenAnswer(item.check_id, None, "lexical", failure=skipped)
        try:
            found = lexical.answer(item, task.response)
        except lexical.Undecided as error:
            return OpenAnswer(item.check_id, None, "lexical", failure=Failure("undecided", str(error)))
        return OpenAnswer(item.check_id, found.answer, "lexical", found.explanation, found.confidence)


def _extraction(item: RuleItem, rules: tuple[RuleItem, ...], response: str) -> Extraction:
    from trustvid.judge import spans

    try:
        return Extraction(item.check_id, spans.extract(item, rules, response), "rules")
    except spans.NeedsReader as error:
        return Extraction(item.check_id, None, "rules", Failure("undecided", str(error)))
