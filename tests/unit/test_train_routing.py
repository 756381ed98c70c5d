"""benchmarks/train_routing.py: routing turns that a rule takes, and differences of several seeds.

pytest tests/unit/test_train_routing.py -n 0 -q
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.agent.prompting import Prompts
from trustvid.agent.rendering import brief_sub_queries_block
from trustvid.agent.routing import CANDIDATES
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.scripted import Teacher
from trustvid.tools.evidence import SubQuery

CLIP = ArraySource(np.zeros((4, 24, 32, 3), np.uint8), video_id="dark")
KINDS = ("text", "spatial", "temporal")


@pytest.fixture(scope="module")
def train_routing() -> Iterator[ModuleType]:
    folder = str(Path(__file__).parents[2] / "benchmarks")
    sys.path.insert(0, folder)
    yield importlib.import_module("train_routing")
    sys.path.remove(folder)


def asked(disturbance: str, question: str = "question") -> PolicyRequest:
    """A routing turn of the recipe's prompts."""
    queries = [SubQuery("words", kind) for kind in KINDS]
    listed = brief_sub_queries_block(queries, [CANDIDATES[kind] for kind in KINDS])
    text = Prompts("tiny").render("route", disturbance=disturbance, brief_sub_queries=listed, sub_queries="")
    return PolicyRequest((Message("system", "Ask."), Message("user", question), Message("user", text)), CLIP)


def test_a_rule_takes_the_routing_turn_and_leaves_all_others_to_the_policy(train_routing):
    table = train_routing.Rerouted(Teacher(), train_routing.rules()["table 18"])
    other = PolicyRequest((Message("user", "## Evidence\nnone"),), CLIP)
    first, reply, last = table.generate([asked("brightness"), other, asked("blur")])
    assert reply == Teacher().generate([other])[0]
    lines = "1 text brightness read_text", "2 spatial brightness detect_objects", "3 temporal brightness track_temporal"
    assert first.splitlines() == list(lines)
    assert [line.split()[3] for line in last.splitlines()] == ["caption_frame", "caption_frame", "recognize_action"]


def test_random_routing_hangs_on_the_question_and_takes_each_candidate_alike(train_routing):
    rule = train_routing.Rerouted(Teacher(), train_routing.rules()["random"])
    requests = [asked("blur", f"question {number}") for number in range(200)]
    replies = rule.generate(requests)
    assert rule.generate(requests[::-1]) == replies[::-1]
    for place, kind in enumerate(KINDS):
        chosen = [reply.splitlines()[place].split()[3] for reply in replies]
        assert set(chosen) == set(CANDIDATES[kind])
        assert abs(chosen.count(CANDIDATES[kind][0]) - 100) < 30  # standard deviation 7


def test_seeds_are_joined_answer_by_answer(train_routing):
    def rows(*correct: float) -> list[dict]:
        return [
            {"key": str(n), "cluster": f"video {n // 2}", "clean": n < 2, "correct": right}
            for n, right in enumerate(correct)
        ]

    runs = [rows(1, 0, 1, 1, 0, 0), rows(1, 1, 0, 1, 0, 1)]
    joined = train_routing.seeds_together(runs)
    assert [row["correct"] for row in joined] == [1, 0.5, 0.5, 1, 0, 0.5]
    assert [row["key"] for row in joined] == [row["key"] for row in runs[0]]
    assert runs[0][1]["correct"] == 0, "what is joined is left as it is"
    told = train_routing.difference("x", joined, rows(0, 0, 0, 0, 0, 0))
    assert "+50.0" in told, "the corrupted ones alone"
    with pytest.raises(ValueError):
        train_routing.seeds_together([rows(1, 0), rows(1)])
