"""From a judge's reading to verdicts, result files, errors and agreement.

pytest tests/unit/test_captions_scoring.py -q -n 0
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trustvid.captioning.agreement import NoReference, Pair, agreement_rows, pairs_of
from trustvid.captioning.checklist import Checklist
from trustvid.captioning.error_analysis import ErrorAnalysis, error_lines
from trustvid.captioning.files import read_checklists
from trustvid.captioning.metrics import column, estimate_row
from trustvid.captioning.outcomes import Outcome, constraints_of
from trustvid.captioning.published_metrics import published_fractions
from trustvid.captioning.repetition import find_loop
from trustvid.captioning.rules import MODES
from trustvid.captioning.scoring import (
    ItemVerdicts,
    Misaligned,
    Scored,
    constraints_of_verdicts,
    result_json,
    score,
    unscored,
    verdicts_from_json,
    verdicts_json,
)
from trustvid.captioning.validation import validate_checklist
from trustvid.judge.base import Extraction, JudgeTask, OpenAnswer, Reading
from trustvid.judge.rules_only import RulesOnlyJudge
from trustvid.llm.messages import Failure

DATA = Path(__file__).resolve().parents[1] / "data" / "if_vidcap"
GOOD = {
    "clip_901/01": "goat; red barn; ladder",
    "clip_901/02": "The goat climbs a ladder to the roof.",
    "clip_902/01": '{"subject": "a baker", "place": "a small bakery"}',
    "clip_902/02": "1. Mix the dough.\n2. Let it rise.\n3. Bake it.",
}


@pytest.fixture(scope="module")
def checklists() -> dict[str, Checklist]:
    found, _ = read_checklists(DATA / "annotation" / "checklist.json")
    return {str(key): Checklist.from_json(record) for key, record in found.items()}


def read(checklist: Checklist, response: str) -> Reading:
    return RulesOnlyJudge().judge(JudgeTask("x", "", response, checklist)).strict


def one_rule(constraint_id: str, **parameters) -> Checklist:
    item = {"check_id": "rule-001", "constraint_id": constraint_id, "check_description": "the response"}
    record = {**item, "parameters": {"content": None, **parameters}}
    return Checklist.from_json({"ruled_based_check": [record], "open_ended_check": []})


def extracted(*content: str, failure: Failure | None = None) -> Reading:
    found = Extraction("rule-001", None if failure else content, "model", failure)
    return Reading((found,), ())


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_both_modes_judge_the_same_extraction_by_their_own_rules(checklists):
    carpet = one_rule("keyword", keyword="car", keyword_type="include")
    reading = extracted("The carpet is blue.")
    values = {mode: score(carpet, reading, mode).rules[0].value for mode in MODES}
    assert values == {"upstream": True, "strict": False}


def test_nothing_found_is_an_empty_text_to_the_published_rules_when_the_reading_is_not_their_own():
    """[] passes every published rule; the published judge writes [""] for "there is nothing of the kind"."""
    shout = one_rule("length", unit="word", min_len=2, max_len=4)
    assert score(shout, extracted(), "upstream", own_reading=False).rules[0].value is False
    assert score(shout, extracted(), "upstream", own_reading=True).rules[0].value is True
    assert score(shout, extracted(), "strict").rules[0].value is False


def test_a_judge_that_failed_leaves_its_item_unscored_with_the_reason(checklists):
    failure = Failure("timeout", "no reply within 2 s", 2)
    verdict = score(one_rule("case", case_type="upper"), extracted(failure=failure), "strict").rules[0]
    assert verdict.value is None and verdict.reason == "timeout: no reply within 2 s"


def test_unknown_ids_and_parameters_are_unscored_never_passed():
    for checklist in (one_rule("colour"), one_rule("length"), one_rule("table", columns=["a"])):
        for mode in MODES:
            assert score(checklist, extracted("some text"), mode).rules[0].value is None


def test_a_judgement_of_another_checklist_is_refused(checklists):
    reading = read(checklists["clip_901/01"], GOOD["clip_901/01"])
    with pytest.raises(Misaligned, match="other rule items"):
        score(checklists["clip_902/02"], reading, "strict")
    swapped = Reading(reading.extractions, reading.answers[::-1])
    with pytest.raises(Misaligned, match="other questions"):
        score(checklists["clip_901/01"], swapped, "strict")


def test_answers_are_right_or_wrong_by_the_checklist(checklists):
    checklist = checklists["clip_901/01"]
    extractions = tuple(Extraction(item.check_id, (GOOD["clip_901/01"],), "model") for item in checklist.rule_items)
    answers = (OpenAnswer("open-001", "yes", "model"), OpenAnswer("open-002", "C", "model"))
    verdicts = score(checklist, Reading(extractions, answers), "strict")
    assert [verdict.value for verdict in verdicts.questions] == [True, False]
    assert verdicts.questions[1].reason == "answered C, right is B"
    (*_, group) = constraints_of_verdicts(checklist, verdicts)
    assert (group.value, group.fact_free, group.fact_only) == (False, True, False)
    assert verdicts_from_json(json.loads(json.dumps(verdicts_json(verdicts)))) == verdicts


# -- result files ------------------------------------------------------------------------------------------------------


def test_an_exported_result_file_is_official_and_gives_our_numbers(checklists):
    results: dict[str, list] = {}
    outcomes = []
    for task_id, response in {**GOOD, "clip_901/01": "goat; barn"}.items():
        checklist, (video, _, prompt_id) = checklists[task_id], task_id.partition("/")
        reading = read(checklist, response)
        verdicts = score(checklist, reading, "strict")
        record = result_json(checklist, reading, verdicts)
        faults = [f for f in validate_checklist(record, task_id, results=True) if "result_confidence" not in f]
        assert not faults
        results.setdefault(video, []).append({"field": "f", "prompt_id": prompt_id, "check_result": record})
        outcomes.append(Outcome(video, prompt_id, "f", 9, constraints_of_verdicts(checklist, verdicts)))
    published = published_fractions(results)
    assert 0 < published["isr"] < 1
    for ours, theirs in (("csr_micro", "csr"), ("isr", "isr")):
        assert estimate_row(column(outcomes, ours))["value"] == pytest.approx(published[theirs])
        assert estimate_row(column(outcomes, ours, "fact_only"))["value"] == pytest.approx(published[f"fo_{theirs}"])


def test_items_without_a_verdict_have_no_result_and_count_as_failed_to_the_published_script(checklists):
    checklist = checklists["clip_901/01"]
    record = result_json(checklist, None, unscored(checklist, "no response"))
    assert all("result" not in item for item in record["ruled_based_check"])
    assert {c.value for c in constraints_of(record)} == {None}
    assert published_fractions({"v": [{"prompt_id": "01", "check_result": record}]})["csr"] == 0.0


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors_are_grouped_as_the_paper_groups_them(checklists):
    analysis = ErrorAnalysis()
    loop = "the dog runs to the tree and " * 12
    responses = {
        "clip_901/02": "A cute goat sleeps.",
        "clip_902/01": '{"subject": "a miller", "place": "an old mill"',
        "clip_902/02": f"1. {loop}",
    }
    for task_id, response in responses.items():
        checklist = checklists[task_id]
        reading = read(checklist, response)
        contents = [found.content for found in reading.extractions]
        analysis.add(task_id, checklist, response, score(checklist, reading, "strict"), contents)
    analysis.unjudged("no response")
    found = analysis.to_json()
    groups = {name: {kind["name"]: kind["failed"] for kind in kinds} for name, kinds in found["groups"].items()}
    assert groups["keyword"] == {"cute": 1} and groups["json"] == {"broken syntax": 1}
    assert groups["length"] == {"too long (words)": 1} and groups["loops"] == {"repetition loop": 1}
    assert found["median_overshoot"] == pytest.approx(84 / 30 - 1)
    assert found["unjudged"] == [{"reason": "no response", "n": 1}] and found["responses"] == 3
    text = "\n".join(error_lines("x", found))
    assert "12 times: the dog runs to the tree and" in text and "clip\\_902/01" in text
    assert "Words that were to be left out" in text and "Median overshoot of what was too long: 180 %" in text


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("very " * 30, 30),
        ("1. He walks. 2. He walks. 3. He walks. 4. He walks. 5. He walks. 6. He walks.", 6),
        ("她走了。" * 8, 8),
    ],
)
def test_repetition_loops_are_found(text, times):
    assert find_loop(text).times == times


@pytest.mark.parametrize(
    "text",
    ["", "Red, red, red, red.", "A man walks in. A man sits down. A man walks out.", " ".join(map(str, range(300)))],
)
def test_ordinary_repetition_is_no_loop(text):
    assert find_loop(text) is None


# -- agreement ---------------------------------------------------------------------------------------------------------


def test_agreement_counts_items_and_tells_misses_from_false_alarms():
    pairs = [
        Pair("a", "rule", "length", True, True),
        Pair("a", "rule", "length", False, False),
        Pair("b", "rule", "case", True, False),  # a violation missed
        Pair("b", "open", "include", False, True),  # a false alarm
        Pair("c", "open", "include", None, True),  # unscored
    ]
    rows = {(row["task"], row["metric"]): row for row in agreement_rows(pairs)}
    overall = rows["all", "agreement"]
    assert (overall["value"], overall["n"], overall["unscored"]) == (0.5, 4, 1)
    assert (overall["bound_low"], overall["bound_high"]) == (0.4, 0.6)
    assert rows["all", "agreement/rule_based"]["value"] == pytest.approx(2 / 3)
    assert rows["all", "detection/rule_based"]["value"] == 0.5
    assert rows["all", "false_alarms/open_ended"]["value"] == 1.0
    assert rows["type:length", "agreement"]["value"] == 1.0 and rows["type:case", "detection"]["value"] == 0.0


def test_a_reference_of_another_checklist_is_refused_and_open_items_are_left_out(checklists):
    checklist = checklists["clip_901/01"]
    verdicts = ItemVerdicts((Scored(True, ""),) * 3, (Scored(False, ""),) * 2)
    reference = checklist.to_json()
    reference["ruled_based_check"][0]["result"] = False
    assert pairs_of("v", checklist, verdicts, reference) == [Pair("v", "rule", "delimiter", True, False)]
    with pytest.raises(NoReference):
        pairs_of("v", checklists["clip_902/01"], verdicts, reference)
