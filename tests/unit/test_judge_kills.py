"""A thousand judge calls with mixed faults, killed twice: every item ends once, and a replay repeats it all.

pytest tests/unit/test_judge_kills.py -q -n 0
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.loopback import serving
from trustvid.captioning.checklist import Checklist
from trustvid.judge.base import JudgeTask
from trustvid.judge.openai_compatible import OpenAICompatibleJudge
from trustvid.judge.replay import ReplayJudge
from trustvid.llm.store import RequestStore

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

ROOT = Path(__file__).parents[2]
TASKS = 250
SETTINGS = {"rounds": 2, "max_retries": 1, "backoff_s": 0.01, "timeout_s": 5.0, "upstream": False, "concurrency": 8}
RUN = """
import json, sys
from tests.unit.test_judge_kills import SETTINGS, tasks
from trustvid.judge.openai_compatible import OpenAICompatibleJudge
judge = OpenAICompatibleJudge("mixed", sys.argv[1], None, store=sys.argv[2], **SETTINGS)
for judgement in judge.judge_many(tasks()):
    print(json.dumps(judgement.to_json()), flush=True)
"""
# What happens to an item, by a number that derives from its text: most go well, some after a retry, some never.
FAULTS = {0: "as 500-forever", 1: "as html-200", 2: "as drop", 3: "as content-null", 4: "{", 5: "as refusing"}
FIRST_TIME = {6: "as 500-forever", 7: "as drop", 8: '{"content": ["made up"], "answer": "maybe"}'}


def tasks() -> list[JudgeTask]:
    def one(number: int) -> JudgeTask:
        rules = [
            {
                "check_id": f"rule-{place:03}",
                "constraint_id": "length",
                "check_description": f"part {place}",
                "parameters": {"content": None},
            }
            for place in (1, 2)
        ]
        questions = [
            {
                "check_id": f"open-{place:03}",
                "check_type": "attempt",
                "question": f"Is it so ({place})?",
                "options": ["yes", "no"],
                "correct_answer": "yes",
            }
            for place in (1, 2)
        ]
        groups = [{"check_content": "x", "check_items": questions}]
        checklist = Checklist.from_json({"ruled_based_check": rules, "open_ended_check": groups})
        return JudgeTask(f"clip_{number:03}/01", "Tell.", f"goat number {number}", checklist)

    return [one(number) for number in range(TASKS)]


def behave(seen: Counter[str], body: dict) -> str:
    asked = body["messages"][1]["content"]
    fate = hashlib.sha256(asked.encode()).digest()[0] % 40
    seen[asked] += 1
    if fate in FAULTS:
        return FAULTS[fate]
    if fate in FIRST_TIME and seen[asked] == 1:
        return FIRST_TIME[fate]
    return '{"content": ["goat"], "answer": "yes", "result_confidence": 4}'


def run(url: str, store: Path, lines: int | None) -> list[str]:
    """Judge in a process of its own; killed after some lines of output, or run to its end."""
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, url, str(store)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    if lines is None:
        said = process.communicate(timeout=240)[0].splitlines()
        assert process.returncode == 0
        return said
    said = [process.stdout.readline() for _ in range(lines)]
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return said


@pytest.mark.slow
def test_a_run_that_is_killed_twice_ends_like_one_that_is_not(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    with serving(lambda body: behave(seen, body)) as server:
        run(server.url, tmp_path / "killed", 60)
        run(server.url, tmp_path / "killed", 150)
        killed = [json.loads(line) for line in run(server.url, tmp_path / "killed", None)]
        times = Counter(seen.values())
        seen.clear()
        whole = [json.loads(line) for line in run(server.url, tmp_path / "whole", None)]
    items = [item for judgement in killed for part in judgement["strict"].values() for item in part]
    assert len(items) == 4 * TASKS and [j["task_id"] for j in killed] == [task.task_id for task in tasks()]
    scored = [item for item in items if item["failure"] is None]
    kinds = Counter(item["failure"]["kind"] for item in items if item["failure"])
    assert len(scored) + sum(kinds.values()) == 4 * TASKS
    assert set(kinds) == {"http_500", "bad_reply", "connection", "unreadable", "refused"}, kinds
    assert verdicts(killed) == verdicts(whole)
    # Asked once, or again because it failed, or because one of two kills cut eight requests in flight.
    assert times[1] >= 0.7 * 4 * TASKS, times
    # The server is off: the store alone repeats the run, byte for byte.
    replay = ReplayJudge(str(tmp_path / "killed"), rounds=SETTINGS["rounds"], upstream=False)
    assert [judgement.to_json() for judgement in replay.judge_many(tasks())] == killed
    assert RequestStore(tmp_path / "killed", read_only=True).counts()["failures"] > 0


def verdicts(judgements: list[dict]) -> list:
    """What a run decided, without the number of attempts, which a kill may change."""
    return [
        [
            (item["check_id"], item.get("content"), item.get("answer"), (item["failure"] or {}).get("kind"))
            for item in part
        ]
        for judgement in judgements
        for part in judgement["strict"].values()
    ]


def test_nothing_good_is_asked_again_after_a_run(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    few = tasks()[:40]
    with serving(lambda body: behave(seen, body)) as server:
        for _ in range(2):
            judge = OpenAICompatibleJudge("mixed", server.url, None, store=str(tmp_path / "s"), **SETTINGS)
            judgements = list(judge.judge_many(few))
            asked = dict(seen)
            seen.clear()
    items = [item for judgement in judgements for item in (*judgement.strict.extractions, *judgement.strict.answers)]
    assert len(asked) == sum(item.failure is not None for item in items)
