"""What a judge's words mean: yes and no, letters, confidence, extracted texts, and the verbatim guard.

pytest tests/unit/test_judge_reading.py -q -n 0
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trustvid.judge.guard import guarded, listed, locate
from trustvid.judge.reading import (
    Answered,
    parse_object,
    read_answer,
    read_confidence,
    read_content,
    read_letter,
    read_yes_no,
)
from trustvid.llm.dialogue import Unreadable

DATA = Path(__file__).parents[1] / "data" / "judge" / "judge_replies.jsonl"
REPLIES = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
OPTIONS = ["A. Heron", "B. Goat", "C. Mole", "D. None of the above"]


@pytest.mark.parametrize("reply", REPLIES, ids=[reply["id"] for reply in REPLIES])
def test_public_replies(reply: dict) -> None:
    assert (read_yes_no(reply["raw"]) or "JUDGE_ERROR") == reply["expected"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Yes, it does not mention a dog.", "yes"),
        ("Yes it does", "yes"),
        ("No it does not", "no"),
        ("no - the dog is missing", "no"),
        ("<think>yes or no? yes…</think>\nNo", "no"),
        ("The answer is no.", "no"),
        ("Reasoning: it is there.\nVerdict: yes", "yes"),
        ('"yes"', "yes"),
        ("不对。", "no"),
        ('{"answer": "No, it is missing", "confidence": 4}', "no"),
        ("{'answer': 'yes',}", "yes"),
        ("Yes / No", None),
        ("Yes or no", None),
        ("Yes, no", None),
        ("No, but yes", None),
        ("Answer: yes\nVerdict: no", None),
        ("Nobody", None),
        ("Trueish", None),
        ("not sure", None),
        ("<think>yes", None),
        ('{"reason": "yes"}', None),
        ('{"answer": 1}', None),
        ('["yes"]', None),
    ],
)
def test_yes_and_no(text: str, expected: str | None) -> None:
    assert read_yes_no(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[
            (text, "B")
            for text in ("B", "b", "(b)", "**B**", "B.", "B. Goat", "B) goat", "Goat", "B - Goat", "option b")
        ],
        *[(text, "B") for text in ("Answer: B", "The answer is (B).", "The correct answer is B. Goat", "```\nB\n```")],
        *[(text, "B") for text in ("B. The goat is named.", "B\n\nThe goat is named.", "B: because of the goat")],
        *[(text, "D") for text in ("d", "none of the above", "D. None of the above were mentioned")],
        *[(text, None) for text in ("", "Both", "A and B", "A, B", "A. B", "A man walks", "Cannot be determined", "E")],
        *[(text, None) for text in ("B. Mole", "I think B", "A\nB", "Answer: A\nAnswer: B", "Bad", "42")],
    ],
)
def test_letters(text: str, expected: str | None) -> None:
    assert read_letter(text, OPTIONS) == expected


def test_an_option_text_may_look_like_a_letter() -> None:
    assert read_letter("A heron", ["A. Goat", "B. A heron"]) == "B"
    assert read_letter("none", ["A. one", "B. none"]) == "B"
    assert read_letter("Heron", ["A. Heron", "B. Heron"]) is None


def test_a_whole_answer_has_explanation_and_confidence() -> None:
    reply = '```json\n{"answer": "c", "result_explanation": "mole", "result_confidence": 4}\n```'
    assert read_answer(reply, "correctness", OPTIONS) == Answered("C", "mole", 4)
    assert read_answer("Yes.", "attempt", ["yes", "no"]) == Answered("yes")
    assert read_answer('{"answer": true}', "attempt", ["yes", "no"]) == Answered("yes")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"answer": "B", "result_explanation": "the go', "cut off"),
        ('{"result_confidence": 3}', "no key 'answer'"),
        ('{"answer": null}', "None"),
        ('{"answer": ["B"]}', "not clear"),
        ("Both", "one letter from A to D"),
    ],
)
def test_an_unclear_answer_says_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(Unreadable, match=said):
        read_answer(text, "correctness", OPTIONS)


def test_confidence() -> None:
    assert [read_confidence(value) for value in (1, 5, 3.0, "4", " 4/5 ")] == [1, 5, 3, 4, 4]
    assert [read_confidence(value) for value in (0, 6, 2.5, True, "9", "high", None, [3])] == [None] * 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"content": ["a", "b"]}', ["a", "b"]),
        ('Here it is:\n```json\n{"content": ["a\\nb"]}\n```', ["a\nb"]),
        ('{"content": "a"}', ["a"]),
        ('["a"]', ["a"]),
        ("<span>a\nb</span> and <span>c</span>", ["a\nb", "c"]),
        ("{'content': ['a'],}", ["a"]),
        ('{"content": []}', []),
    ],
)
def test_extracted_texts(text: str, expected: list[str]) -> None:
    assert read_content(text) == expected


@pytest.mark.parametrize("text", ["", "yes", '{"content": ["a', '{"content": [1]}', '{"text": ["a"]}', '["a"', "[[]]"])
def test_broken_extractions_are_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        read_content(text)


def test_a_cut_object_is_not_completed() -> None:
    assert parse_object('{"answer": "B", "result_explanation": "x"') is None
    assert parse_object('{"answer": "B",}').repaired and not parse_object('{"answer": "B"}').repaired


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_nothing_makes_the_readers_fall_over(text: str) -> None:
    assert read_yes_no(text) in ("yes", "no", None)
    assert read_letter(text, OPTIONS) in (*"ABCD", None)
    for read in (read_content, lambda reply: read_answer(reply, "attempt", ["yes", "no"])):
        try:
            read(text)
        except Unreadable as error:
            assert str(error)


# ---------------------------------------------------------------------------------------------------------- the guard

RESPONSE = "Title: A Walk\n\n- a red  car\n- a dog (brown)\n- a red ball"


def test_texts_come_back_as_they_stand() -> None:
    assert guarded(["a red car", "Title: A Walk - a red car"], "length", RESPONSE) == (
        "a red  car",
        "Title: A Walk\n\n- a red  car",
    )
    assert locate("blue", RESPONSE) is None and locate("  ", "word") is None


@pytest.mark.parametrize("content", [[], [""], ["", "  "], ["()"]])
def test_nothing_found_is_the_empty_list(content: list[str]) -> None:
    assert guarded(content, "length", RESPONSE) == ()


@pytest.mark.parametrize("content", [["a red cat"], ["A RED CAR"], ["a red car", "made up"], ["a red car", ""]])
def test_what_does_not_stand_there_is_refused(content: list[str]) -> None:
    with pytest.raises(Unreadable, match=r"does not stand|empty element"):
        guarded(content, "length", RESPONSE)


def test_letters_of_a_bare_string_do_not_pass() -> None:
    assert set("beta alph") <= set("alpha beta")
    with pytest.raises(Unreadable):
        guarded(["beta alph"], "keyword", "alpha beta")


def test_listings_of_count_are_guarded_thing_by_thing() -> None:
    assert guarded(["(a red car),(a dog (brown))"], "count", RESPONSE) == ("(a red car),(a dog (brown))",)
    assert guarded(["a red car", "a red ball"], "count", RESPONSE) == ("(a red car),(a red ball)",)
    assert guarded(["(red),(red)"], "count", RESPONSE) == ("(red),(red)",)
    for content in (
        ["(made up),(things)"],
        ["(a red car),(a cat)"],
        ["(dog),(dog)"],
        ["(red),(red),(red)"],
        ["a dog", "(red)"],
    ):
        with pytest.raises(Unreadable):
            guarded(content, "count", RESPONSE)


def test_listings() -> None:
    assert listed("(a),(b) ; (c)") == ["a", "b", "c"] and listed("(smile :)),(sad :()") == ["smile :)", "sad :("]
    assert listed("a, b") is None and listed("(a) and (b)") is None
