"""Checklists: the official shape round-trips, and every fault is found at once with its position."""

from __future__ import annotations

import copy

import pytest

from trustvid.captioning.checklist import Checklist, validate_checklist
from trustvid.errors import DataError

SOUND = {
    "ruled_based_check": [
        {
            "check_id": "rule-001",
            "constraint_id": "delimiter",
            "check_description": "three tags split by ';'",
            "parameters": {"content": None, "symbol": ";"},
        },
        {
            "check_id": "rule-002",
            "constraint_id": "count",
            "check_description": "three tags",
            "parameters": {"content": None, "min_count": 3, "max_count": 3},
        },
    ],
    "open_ended_check": [
        {
            "check_content": "tags name things in the video",
            "check_items": [
                {
                    "check_id": "open-001",
                    "check_type": "attempt",
                    "question": "Are tags given?",
                    "options": ["yes", "no"],
                    "correct_answer": "yes",
                },
                {
                    "check_id": "open-002",
                    "check_type": "correctness",
                    "question": "Which animal is tagged?",
                    "options": ["A. Heron", "B. Goat"],
                    "correct_answer": "B",
                },
            ],
        }
    ],
}


def _rule(constraint_id: str, parameters: dict, check_id: str = "rule-001", said: str = "") -> dict:
    parameters = {"content": None, **parameters}
    return {"check_id": check_id, "constraint_id": constraint_id, "check_description": said, "parameters": parameters}


def _checklist(*rules: dict) -> dict:
    return {"ruled_based_check": list(rules), "open_ended_check": []}


def _with_results() -> dict:
    filled = copy.deepcopy(SOUND)
    for item in filled["ruled_based_check"]:
        item["parameters"]["content"] = ["(goat),(barn),(ladder)"]
        item["result"] = True
    for item in filled["open_ended_check"][0]["check_items"]:
        item |= {"answer": item["correct_answer"], "result_explanation": "seen", "result_confidence": 5, "result": True}
    return filled


def test_the_official_shape_round_trips():
    assert Checklist.from_json(SOUND).to_json() == SOUND
    assert Checklist.from_json(_with_results()).to_json() == _with_results()
    typed = copy.deepcopy(SOUND)
    typed["open_ended_check"][0]["constraint_id"] = "entities_attributes"
    assert Checklist.from_json(typed).open_groups[0].constraint_id == "entities_attributes"
    assert Checklist.from_json(typed).to_json() == typed


def test_sound_checklists_have_no_faults():
    assert validate_checklist(SOUND, "clip/01", prompt="Give three tags split by ';'.") == []
    assert validate_checklist(_with_results(), "clip/01", results=True) == []


def test_unreadable_checklists_name_every_place():
    broken = copy.deepcopy(SOUND)
    del broken["ruled_based_check"][1]["parameters"]
    broken["open_ended_check"][0]["check_items"][0]["options"] = "yes"
    broken["open_ended_check"].append("not a group")
    with pytest.raises(DataError) as caught:
        Checklist.from_json(broken, "clip_900/01")
    message = str(caught.value)
    assert "clip_900/01.ruled_based_check[1]: the key 'parameters' is missing" in message
    assert "clip_900/01.open_ended_check[0].check_items[0].options" in message
    assert "clip_900/01.open_ended_check[1]" in message
    assert validate_checklist([], "x") == ["x: [] is no object"]


@pytest.mark.parametrize(
    "rule, said",
    [
        (_rule("colour", {}), "'colour' is unknown"),
        (_rule("length", {}), "'unit' is missing"),
        (_rule("length", {"unit": "token"}), "'token' is none of"),
        (_rule("length", {"unit": "word", "min_len": True}), "True is no integer"),
        (_rule("length", {"unit": "word", "min_len": 5, "max_len": 4}), "nothing can pass"),
        (_rule("unordered_list", {"symbool": "-"}), "takes no such parameter"),
        (_rule("table", {"col_name": ["a", 1]}), "no list of strings"),
        (_rule("plain_text", {"content": ["x"]}), "is not null"),
        (_rule("ordered_list", {"symbol": "1)"}), "'1)' is none of"),
    ],
)
def test_faults_of_rule_items(rule, said):
    faults = validate_checklist(_checklist(rule), "c")
    assert len(faults) == 1
    assert faults[0].startswith("c.ruled_based_check[0].")
    assert said in faults[0]


def test_null_parameters_and_open_ranges_are_sound():
    rules = [
        _rule("length", {"unit": "word", "min_len": 5, "max_len": -1}, "rule-001"),
        _rule("count", {"min_count": 2, "max_count": None}, "rule-002"),
        _rule("prefix_suffix", {"prefix": None}, "rule-003"),
        _rule("json_object", {"schema": None}, "rule-004"),
    ]
    assert validate_checklist(_checklist(*rules), "c") == []


def test_all_faults_of_questions_and_results_at_once():
    broken = _with_results()
    first, second = broken["open_ended_check"][0]["check_items"]
    first |= {"options": ["no", "yes"], "result_confidence": True}
    second |= {"correct_answer": "E", "answer": "Yes", "result_explanation": None}
    broken["ruled_based_check"][0]["result"] = None
    broken["ruled_based_check"][1]["parameters"]["content"] = None
    assert len(validate_checklist(broken, "c", results=True)) == 7


@pytest.mark.parametrize(
    "rules, prompt, said",
    [
        ([_rule("count", {"min_count": 3, "max_count": 3}, said="exactly 2 events")], None, "exactly 2, the parameters exactly 3"),
        ([_rule("length", {"unit": "word", "max_len": 336})], "Use at most 400 words.", "0 to 400"),
        ([_rule("length", {"unit": "sentence", "min_len": 2, "max_len": 2})], "Write 3-4 short sentences in 40 words.", "3 to 4"),
        ([_rule("prefix_suffix", {"prefix": "Scene:"})], "Begin with 'Look! ' and go on.", "'Look! '"),
        ([_rule("plain_text", {}), _rule("case", {"case_type": "upper"})], None, "used 2 times"),
    ],
)  # fmt: skip
def test_lint_finds_contradictions(rules, prompt, said):
    faults = validate_checklist(_checklist(*rules), "c", prompt=prompt)
    assert len(faults) == 1
    assert faults[0].startswith("lint: c.ruled_based_check")
    assert said in faults[0]


@pytest.mark.parametrize(
    "rule, prompt",
    [
        (_rule("count", {"min_count": 2, "max_count": 2}, said="list two events"), None),
        (_rule("count", {"min_count": 1, "max_count": 1}, said="one emotion for each of 3 people"), None),
        (_rule("length", {"unit": "word", "max_len": 29}, said="fewer than 30 words"), None),
        (_rule("length", {"unit": "word", "max_len": 30}), "Describe it in 30 words or less, in 2 sentences."),
        (_rule("length", {"unit": "word", "min_len": 30, "max_len": 40}), "Two paragraphs of 30–40 words each."),
        (_rule("prefix_suffix", {"prefix": "Look! "}), "Start with 'Look! '. Don't end abruptly; it's short."),
        (_rule("prefix_suffix", {"suffix": "END"}), "Start the man's story with 'Now' and finish with \"END\"."),
    ],
)
def test_lint_is_silent_where_text_and_parameters_agree(rule, prompt):
    assert validate_checklist(_checklist(rule), "c", prompt=prompt) == []
