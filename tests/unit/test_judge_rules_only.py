"""The judge without a model: which part of a response a description speaks of, and answers by words.

pytest tests/unit/test_judge_rules_only.py -q -n 0
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trustvid.captioning.checklist import Checklist, RuleItem
from trustvid.captioning.rules import check
from trustvid.judge.base import JudgeTask
from trustvid.judge.rules_only import RulesOnlyJudge
from trustvid.judge.spans import NeedsReader, extract

LIST = (
    "Here is what happens:\n\n1. A **red** car stops.\n2. A man waves.\n   He smiles.\n3. The car leaves.\n\nThe end."
)
BULLETS = "Signs:\n- BANK is red\n- CAFE is blue\n---"
TABLE = "The table:\n| Sign | Colour |\n|---|---|\n| BANK | red |\n| CAFE | deep blue |\nDone."
PROSE = "# A Walk\n\nThe drone flies. It turns left.\n\nThen it stops at the **BANK** sign."
JSON = '{"title": "A Walk", "events": [{"what": "turn left", "where": "BANK"}, {"what": "stop", "where": "CAFE"}]}'
TAGS = "red bank; blue cafe; left turn"


def item(constraint_id: str, description: str, **parameters: Any) -> RuleItem:
    return RuleItem("rule-001", constraint_id, description, {"content": None, **parameters})


def content(response: str, constraint_id: str, description: str, *others: RuleItem, **parameters: Any) -> list[str]:
    one = item(constraint_id, description, **parameters)
    return list(extract(one, (one, *others), response))


SEMICOLON = item("delimiter", "tags separated by ';'", symbol=";")


@pytest.mark.parametrize(
    ("response", "constraint_id", "description", "expected"),
    [
        # the whole
        (PROSE, "length", "The description has at most 50 words.", [PROSE]),
        (PROSE, "keyword", "Mention the word BANK.", [PROSE]),
        (JSON, "json_object", "Answer in JSON.", [JSON]),
        (PROSE, "length", "Write two to four sentences.", [PROSE]),
        # units
        (PROSE, "length", "Each sentence has at most 8 words.", None),
        (PROSE, "length", "every paragraph under 20 words", ["A Walk", *PROSE.split("\n\n")[1:]]),
        (PROSE, "keyword", "the last sentence names the sign", ["Then it stops at the **BANK** sign."]),
        (PROSE, "length", "The second paragraph has two sentences.", ["The drone flies. It turns left."]),
        (PROSE, "length", "the fifth paragraph has two sentences", []),
        (PROSE, "case", "The title is in title case.", ["A Walk"]),
        (PROSE, "markdown", "The title is a Markdown heading.", ["# A Walk"]),
        (PROSE, "length", "the body has at most 20 words", [PROSE[len("# A Walk\n\n") :]]),
        # lists
        (LIST, "ordered_list", "a numbered list", [LIST.split("\n\n")[1]]),
        (LIST, "length", "Each item has at most 6 words.", None),
        (LIST, "length", "the first step has at most 6 words", ["A **red** car stops."]),
        (LIST, "length", "each event in at most 8 words", None),
        (BULLETS, "unordered_list", "a bulleted list with '-'", ["- BANK is red\n- CAFE is blue\n---"]),
        (BULLETS, "case", "every bullet point in lower case", ["BANK is red", "CAFE is blue\n---"]),
        ("no list here", "unordered_list", "a bulleted list", ["no list here"]),
        # tables
        (TABLE, "table", "a table of signs", ["\n".join(TABLE.split("\n")[1:5])]),
        (TABLE, "case", "The entries of the 'Colour' column are in lower case.", ["red", "deep blue"]),
        (TABLE, "length", "every cell has at most 2 words", ["BANK", "red", "CAFE", "deep blue"]),
        # JSON
        (JSON, "length", "The value of 'what' has at most 3 words.", ["turn left", "stop"]),
        (JSON, "length", "the `title` field has at most 5 words", ["A Walk"]),
        (JSON, "case", "every value starts with a capital", ["A Walk", "turn left", "BANK", "stop", "CAFE"]),
        (JSON, "case", "keys are in lower case", ["A Walk", "turn left", "BANK", "stop", "CAFE"]),
        (JSON, "language", "in English", ["A Walk", "turn left", "BANK", "stop", "CAFE"]),
        (JSON, "case", "the title is in title case", ["A Walk"]),
        (JSON, "length", "each event has at most 4 words", None),
    ],
)
def test_scopes(response: str, constraint_id: str, description: str, expected: list[str] | None) -> None:
    several = {
        "Each sentence has at most 8 words.": [
            "The drone flies.",
            "It turns left.",
            "Then it stops at the **BANK** sign.",
        ],
        "Each item has at most 6 words.": ["A **red** car stops.", "A man waves.\n   He smiles.", "The car leaves."],
        "each event in at most 8 words": ["A **red** car stops.", "A man waves.\n   He smiles.", "The car leaves."],
        "each event has at most 4 words": ["turn left", "BANK", "stop", "CAFE"],
    }
    assert content(response, constraint_id, description) == (several[description] if expected is None else expected)


def test_a_sibling_delimiter_says_what_a_tag_is() -> None:
    tags = ["red bank", "blue cafe", "left turn"]
    assert content(TAGS, "length", "each tag has two words", SEMICOLON) == tags
    assert content(TAGS, "count", "three tags", SEMICOLON) == ["(red bank),(blue cafe),(left turn)"]
    assert content("red bank, blue cafe", "length", "each tag has two words", SEMICOLON) == ["red bank, blue cafe"]


def test_sibling_ends_are_no_part_of_a_list() -> None:
    frame = item("prefix_suffix", "frame", prefix="Signs:", suffix="---")
    assert content(BULLETS, "unordered_list", "a list", frame) == ["- BANK is red\n- CAFE is blue"]


def test_a_wrong_ending_is_an_ending_and_no_part_of_the_list() -> None:
    frame = item("prefix_suffix", "ends with 'Over and out.'", prefix=None, suffix="Over and out.")
    assert content("- one\n- two\nOver and done.", "unordered_list", "a list", frame) == ["- one\n- two"]
    text = "One.\n\nTwo.\n\nOver and done."
    assert content(text, "length", "exactly 2 paragraphs", frame, unit="paragraph") == ["One.\n\nTwo."]


def test_values_of_broken_json_are_still_found() -> None:
    broken = '{"what": "turn left", "where": "BANK"'
    assert content(broken, "case", "the value of 'where' is in upper case") == ["BANK"]
    assert content(broken, "json_object", "a JSON object") == [broken]


def test_odd_numbers_are_still_items() -> None:
    assert content("I. one\nI. two", "count", "two list items") == ["(one),(two)"]
    assert content("I. one\nIII. two", "length", "each item is short") == ["one", "two"]


def test_a_line_without_its_bullet_stays_in_the_list() -> None:
    text = "- one\ntwo\n- three\nfour"
    (block,) = content(text, "unordered_list", "a bulleted list")
    assert block == text and check("unordered_list", {"content": [block]}, "strict").value is False


@pytest.mark.parametrize(
    ("response", "description", "expected"),
    [
        (LIST, "exactly three steps", "(A **red** car stops.),(A man waves.\n   He smiles.),(The car leaves.)"),
        (PROSE, "two paragraphs", "(# A Walk),(The drone flies. It turns left.),(Then it stops at the **BANK** sign.)"),
        (PROSE, "one heading", "(# A Walk)"),
        (TABLE, "two rows", "(| BANK | red |),(| CAFE | deep blue |)"),
        (TABLE, "two colours", "(red),(blue)"),
        (BULLETS, "name two signs", "(BANK),(CAFE)"),
        (JSON, "two events", '({"what": "turn left", "where": "BANK"}),({"what": "stop", "where": "CAFE"})'),
        ("Red, red and RED, then blue.", "two colors", "(Red),(blue)"),
        ("nothing of it", "two colours", None),
    ],
)
def test_counts(response: str, description: str, expected: str | None) -> None:
    assert content(response, "count", description) == ([expected] if expected else [])


def test_what_needs_a_reader_is_a_typed_failure() -> None:
    with pytest.raises(NeedsReader, match="reader of meaning"):
        content(PROSE, "count", "three adjectives")
    checklist = Checklist((item("count", "three adjectives"), item("length", "short", unit="word")))
    strict = RulesOnlyJudge().judge(JudgeTask("t", "i", PROSE, checklist)).strict
    assert strict.extractions[0].failure.kind == "undecided" and strict.extractions[0].content is None
    assert strict.extractions[1].content == (PROSE,) and strict.extractions[1].source == "rules"


def test_thinking_is_no_part_of_a_response() -> None:
    assert content("<think>1. hm</think>The end.", "length", "short") == ["The end."]


def test_an_empty_response_has_nothing() -> None:
    for constraint_id in ("length", "count", "json_object", "table", "plain_text"):
        assert content("  \n", constraint_id, "three tags") == []


DESCRIPTIONS = [
    "each item",
    "the title",
    "each sentence",
    "three tags",
    "the last paragraph",
    "the 'what' field",
    "all",
]
KINDS = ["length", "case", "ordered_list", "table", "json_array", "count", "markdown", "language", "keyword"]


@given(st.text(alphabet='ab1.-|#*{}[]":,\n (红', max_size=120), st.sampled_from(KINDS), st.sampled_from(DESCRIPTIONS))
@settings(max_examples=300, deadline=None)
def test_no_text_makes_it_fall_over(response: str, constraint_id: str, description: str) -> None:
    try:
        found = content(response, constraint_id, description, SEMICOLON)
    except NeedsReader:
        return
    assert all(isinstance(text, str) and text.strip() for text in found)


# ---------------------------------------------------------------------------------------------------------- questions

CITY = "The drone passes the red BANK on the left. Then the blue CAFE comes up. It turns left, not right."


def answered(question: str, options: list[str], response: str = CITY, right: str = "A") -> tuple[str | None, str]:
    kind = "attempt" if options == ["yes", "no"] else "correctness"
    group = {
        "check_content": "x",
        "check_items": [
            {
                "check_id": "open-001",
                "check_type": kind,
                "question": question,
                "options": options,
                "correct_answer": right,
            }
        ],
    }
    checklist = Checklist.from_json({"ruled_based_check": [], "open_ended_check": [group]})
    answer = RulesOnlyJudge().judge(JudgeTask("t", "i", response, checklist)).strict.answers[0]
    assert answer.source == "lexical" and (answer.answer is None) == (answer.failure is not None)
    return answer.answer, answer.failure.kind if answer.failure else answer.explanation


COLOUR = ["A. red", "B. blue", "C. green", "D. None of the above"]


@pytest.mark.parametrize(
    ("question", "options", "expected"),
    [
        ("Does the response describe the BANK?", ["yes", "no"], "yes"),
        ("Does the response mention a hotel?", ["yes", "no"], "no"),
        ("Is any colour mentioned?", ["yes", "no"], "yes"),
        ("Does the response avoid mentioning colours?", ["yes", "no"], "no"),
        ("Does the response avoid mentioning people?", ["yes", "no"], "yes"),
        ("What colour is the landmark with the sign CAFE?", COLOUR, "B"),
        ("What colour is the landmark with the sign BANK?", COLOUR, "A"),
        ("What colour is the HOTEL?", ["A. pink", "B. green", "C. Not mentioned"], "C"),
        ("Where does it turn?", ["A. to the left", "B. to the right", "C. None of these"], "A"),
        ("Which order?", ["A. CAFE, BANK", "B. BANK, CAFE"], "B"),
    ],
)
def test_questions_by_words(question: str, options: list[str], expected: str) -> None:
    assert answered(question, options)[0] == expected


VOICES = ["A. a narrator outside the scene", "B. a guide who addresses you", "C. the one who films, as I"]


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("I hover above the street.", "C"),
        ("You can see the street.", "B"),
        ("I. Somebody hovers.\nII. A BANK is there.", "A"),
    ],
)
def test_who_speaks_is_read_off_the_pronouns(response: str, expected: str) -> None:
    assert answered("Who speaks in the response?", VOICES, response)[0] == expected


def test_a_kind_and_a_name_must_meet_in_one_sentence() -> None:
    assert answered("Is a colour given for the BANK?", ["yes", "no"])[0] == "yes"
    far = "A BANK is there. The CAFE is blue."
    assert answered("Is a colour given for the BANK?", ["yes", "no"], far)[0] == "no"
    assert answered("What colour is the BANK?", COLOUR, far)[0] == "D"


def test_signs_are_not_ordinary_words() -> None:
    options = ["A. BOX", "B. BENCH", "C. None of the above"]
    assert answered("Which of these does the response mention?", options, "A room of boxes with a BED.")[0] == "C"
    assert answered("Which of these does the response mention?", options, "Next to the BOX stands a BED.")[0] == "A"


def test_a_response_in_another_script_is_undecided_unless_its_words_are_found() -> None:
    chinese = "那里有VASE。摄像机大概拿在人手里。"
    assert answered("Does the response mention the VASE?", ["yes", "no"], chinese)[0] == "yes"
    assert answered("Does the response mention the BANK?", ["yes", "no"], chinese) == (None, "undecided")
    assert answered("What carries the camera?", ["A. a drone", "B. None of the above"], chinese) == (None, "undecided")


def test_a_tie_is_undecided() -> None:
    assert answered("What is there?", ["A. the bank", "B. the cafe"]) == (None, "undecided")
    assert answered("What is there?", ["A. a hotel", "B. a church"]) == (None, "undecided")


def test_questions_can_be_left_to_others() -> None:
    checklist = Checklist.from_json(
        {
            "ruled_based_check": [],
            "open_ended_check": [
                {
                    "check_content": "x",
                    "check_items": [
                        {
                            "check_id": "open-001",
                            "check_type": "attempt",
                            "question": "?",
                            "options": ["yes", "no"],
                            "correct_answer": "yes",
                        }
                    ],
                }
            ],
        }
    )
    judgement = RulesOnlyJudge(open_checks="none").judge(JudgeTask("t", "i", CITY, checklist))
    assert judgement.strict.answers[0].failure.kind == "not_asked"
