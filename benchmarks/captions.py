"""Timings of the caption evaluation: scoring from stored judgements, judging without a model and from stored replies.

    python benchmarks/captions.py [--instructions 1400] [--replies 350]

Instructions are those of BoxWorld captions, repeated under new video ids. Prints seconds, rates and peak memory growth,
all measured in this run on this machine.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trustvid.benchmarks.boxworld.generate import make_clip
from trustvid.benchmarks.boxworld_captions.compose import Plan, plans_of
from trustvid.benchmarks.boxworld_captions.facts import facts_of
from trustvid.benchmarks.boxworld_captions.files import planted_responses
from trustvid.captioning.checklist import Checklist
from trustvid.captioning.files import Instruction, TaskKey
from trustvid.captioning.records import (
    JUDGEMENTS,
    RESPONSES,
    TASKS,
    ResponseRecord,
    TaskRecord,
    judged_digest,
    judgement_lines,
    response_lines,
    task_lines,
)
from trustvid.captioning.rules import MODES
from trustvid.evaluation.jsonfiles import json_lines
from trustvid.judge.base import JudgeTask
from trustvid.judge.model import ModelJudge
from trustvid.judge.prompts import JudgePrompts
from trustvid.judge.replay import ReplayJudge
from trustvid.judge.rules_only import RulesOnlyJudge
from trustvid.llm.chat import Chat
from trustvid.llm.messages import ChatRequest, Outcome, Reply
from trustvid.llm.stored import remembered
from trustvid.stages.caption_scoring import CaptionerScores, Records, metrics_of, score_captioner

N_CLIPS = 12


Pool = list[tuple[Plan, list[str]]]


def tasks_of(pool: Pool, n: int) -> Iterator[tuple[TaskRecord, str]]:
    """``n`` instructions, four a video, each with a response that violates one constraint."""
    for number in range(n):
        plan, responses = pool[number % len(pool)]
        key = TaskKey(f"clip_{number // 4:05d}", f"{number % 4 + 1:02d}")
        # The video's name in the text makes every request its own.
        instruction = Instruction(key, plan.field, f"{plan.instruction} ({key.video})", plan.constraints_used)
        yield TaskRecord.of(instruction, plan.checklist()), responses[number // len(pool) % len(responses)]


def judge_task(task: TaskRecord, response: str) -> JudgeTask:
    return JudgeTask(task.id, task.instruction, response, Checklist.from_json(task.checklist))


def write_run(folder: Path, pool: Pool, n: int) -> None:
    """Tasks, responses and judgements of a run folder."""
    judge = RulesOnlyJudge()
    with (
        (folder / f"{TASKS}.jsonl").open("wb") as tasks,
        (folder / f"{RESPONSES}.jsonl").open("wb") as responses,
        (folder / f"{JUDGEMENTS}.jsonl").open("wb") as judgements,
    ):
        for task, text in tasks_of(pool, n):
            judgement = judge.judge(judge_task(task, text))
            tasks.write(json_lines([task.to_json()]))
            responses.write(json_lines([ResponseRecord("bench", task.id, text).to_json()]))
            record = {"judge": "j", "captioner": "bench", "task_id": task.id, "digest": judged_digest(task, text)}
            judgements.write(json_lines([{**record, "judgement": judgement.to_json()}]))


def score_run(folder: Path) -> None:
    """All that mode=score computes, files included."""
    records = Records(task_lines(folder), response_lines(folder), judgement_lines(folder))
    results = {mode: folder / f"{mode}_check_result.json" for mode in MODES}
    with (folder / "scores.jsonl").open("wb") as out:
        for found in score_captioner(records, "bench", "j", "strict", results, None):
            if isinstance(found, CaptionerScores):
                metrics = metrics_of({("bench", "rules_only"): found}, {}, 0, "strict")
                (folder / "metrics.json").write_text(json.dumps(metrics))
            else:
                out.write(json_lines([found]))


class Agreeable(Chat):
    """A model in no time: extracts the whole response, answers yes or A."""

    parallel = 16

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"kind": "bench", "model": "bench"}

    async def complete(self, request: ChatRequest, *, fresh: bool = False) -> Outcome:
        asked = request.messages[-1].text
        if "Check item:" in asked:
            return Reply(json.dumps({"content": []}))
        answer = "A" if "- A. " in asked else "yes"
        return Reply(json.dumps({"answer": answer, "result_explanation": "so it says", "result_confidence": 3}))


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(name: str, n: int, work: Callable[[], Any]) -> None:
    before, start = peak_mib(), time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    print(f"{name:<44} {n:>6} {seconds:>9.2f} {n / seconds:>10.0f} {peak_mib() - before:>10.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instructions", type=int, default=1400, help="instructions to score")
    parser.add_argument("--replies", type=int, default=350, help="instructions to judge from stored replies")
    arguments = parser.parse_args()
    facts = [facts_of(make_clip("val", 0, number).scene) for number in range(N_CLIPS)]
    plans = [plan for of_clip in plans_of(facts, ("benchmark", "captions")) for plan in of_clip]
    pool = [(plan, [made.text for made in planted_responses(plan, 6, start)]) for start, plan in enumerate(plans)]
    print(f"{'':<44} {'n':>6} {'seconds':>9} {'per second':>10} {'peak +MiB':>10}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        few, many = max(4, arguments.instructions // 4), arguments.instructions
        timed("first use of every rule (models load)", 48, lambda: (write_run(folder, pool, 48), score_run(folder)))
        for n in (few, many):
            timed("judge without a model, and write", n, lambda n=n: write_run(folder, pool, n))
            timed("score both modes, metrics, result files", n, lambda: score_run(folder))
        store, n = str(folder / "replies.sqlite"), arguments.replies
        judge = ModelJudge("bench", remembered(Agreeable(), store), JudgePrompts())
        timed("judge by a model that takes no time", n, lambda: run_judge(judge, pool, n))
        replay = ReplayJudge(store=store, name="bench")
        timed("judge from stored replies, both readings", n, lambda: run_judge(replay, pool, n))


def run_judge(judge: Any, pool: Pool, n: int) -> None:
    for _ in judge.judge_many(judge_task(task, text) for task, text in tasks_of(pool, n)):
        pass


if __name__ == "__main__":
    main()
