"""GRPO learns to route: the real modules and their real training steps, on simulated tools.

    pytest tests/unit/test_learn_routing.py -n 0 -m long -s      (5 to 6 minutes of one core)

The simulation itself is checked too: that the numbers a policy is compared with are what they are called.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from trustvid.agent.driving import drive_with
from trustvid.agent.routing import CANDIDATES, TABLE_18
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.vlm_settings import Decoding

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[Path]:
    """The folder of benchmarks, importable."""
    folder = Path(__file__).parents[2] / "benchmarks"
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def simulated(benchmarks: Path) -> ModuleType:
    return importlib.import_module("simulated_tools")


def perfect(simulated: ModuleType, rule):
    """Answers every request as the example of its question does."""

    def ask(places, requests: list[PolicyRequest]) -> list[str]:
        replies = []
        for request in requests:
            seed, number = map(int, request.clip.digest.split("-"))
            example = simulated.trajectory(simulated.make_question(seed, number), rule)
            assert example.messages[: len(request.messages)] == request.messages
            replies.append(example.messages[len(request.messages)].text)
        return replies

    return ask


def test_examples_are_passes_of_the_environment_and_solved_where_the_rule_says_so(simulated):
    environment = simulated.SimulatedTools(4, 60)
    rule = simulated.teacher_rule(0, habits=False)
    episodes = [environment.episode(index, 1) for index in range(60)]
    done = drive_with([episode.start() for episode in episodes], perfect(simulated, rule))
    outcomes = [episode.judge(one) for episode, one in zip(episodes, done, strict=True)]
    assert all(one.inputs.well_formed and one.record["decomposed"] and one.routing_turn == 1 for one in outcomes)
    solved = [simulated.solved(environment.question(index, 1), rule) for index in range(60)]
    assert [bool(one.inputs.correct) for one in outcomes] == solved and 10 < sum(solved) < 50
    assert {len(one.calls) for one in outcomes} == {1, 2}


def test_replies_out_of_form_end_a_pass_without_a_score_for_form(simulated):
    (episode,) = [simulated.SimulatedTools(4, 60).episode(index, 0) for index in (3,)]
    for replies in (
        ["what?"],
        ["1 sign spatial", "1 spatial blur camera"],
        ["1 sign spatial", "1 spatial blur read_text", "left"],
    ):
        said = iter(replies)
        (done,) = drive_with([episode.start()], lambda places, requests, said=said: [next(said)])
        outcome = episode.judge(done)
        assert not outcome.inputs.well_formed and not outcome.inputs.correct, replies


def test_the_simulation_has_room_above_every_fixed_choice(simulated):
    disturbed = simulated.DISTURBANCES[1:]
    questions = [simulated.make_question(11, number, disturbed) for number in range(3000)]
    rules = [simulated.random_rule, simulated.fixed_rule(disturbed), simulated.table_rule, simulated.oracle_rule]
    chance, fixed, table, best = (np.mean([simulated.solved(one, rule) for one in questions]) for rule in rules)
    assert chance + 0.06 < fixed < table - 0.01 and table + 0.06 < best < 0.93
    for kind in simulated.TYPES:
        assert all(simulated.best_tool(kind, name) in CANDIDATES[kind] for name in simulated.DISTURBANCES)
    cells = [(kind, name) for kind in simulated.TYPES for name in simulated.DISTURBANCES]
    assert sum(simulated.best_tool(*cell) != TABLE_18[cell[0]][cell[1]] for cell in cells) == 3
    favourites = simulated.habits_of(0)
    assert sum(favourites[cell] == simulated.best_tool(*cell) for cell in cells) == 10


def test_all_words_are_one_token_each(simulated, benchmarks, tmp_path):
    tokenizer = importlib.import_module("learn_routing").policy_of(tmp_path, 0).load().processor.tokenizer
    for word in simulated.WORDS:
        assert len(tokenizer(f" {word}", add_special_tokens=False)["input_ids"]) == 1, word
    example = simulated.trajectory(simulated.make_question(0, 0), simulated.table_rule)
    for message in example.messages:
        ids = tokenizer(message.text, add_special_tokens=False)["input_ids"]
        assert tokenizer.decode(ids) == message.text


def test_a_question_that_is_asked_twice_in_a_step_keeps_all_its_turns(simulated, benchmarks, tmp_path):
    policy, short = importlib.import_module("learn_routing").policy_of(tmp_path, 0), Decoding(max_new_tokens=4)
    request = PolicyRequest((Message("user", " where sign"),), simulated.NoVideo("3-1"))
    said = [turn.text for turn in policy.converse([request, request], short)]
    more = [(*request.messages, Message("assistant", reply), Message("user", " blur")) for reply in said]
    turns = policy.converse([PolicyRequest(messages, request.clip) for messages in more], short)
    assert [len(turn.buffer.complete) for turn in turns] == [2, 2]
    assert [sum(turn.buffer.loss_mask) for turn in turns] == [8, 8]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_grpo_beats_the_policy_it_began_with_and_every_fixed_choice(benchmarks, tmp_path):
    torch.set_num_threads(1)
    learning = importlib.import_module("learn_routing")
    result, _ = learning.experiment(tmp_path, seed=0, steps=140)
    print(result)
    for baseline in ("sft", "best fixed per type"):
        gain, half = result["grpo minus"][baseline]
        assert gain - half > 0, (baseline, result)
