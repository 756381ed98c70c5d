"""Reading replies.   pytest tests/unit/test_parsing.py -n 0 -q"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trustvid.agent.numbers import parse_confidence, parse_number
from trustvid.agent.parsing import parse_choice
from trustvid.agent.reply_text import parse_json_list
from trustvid.benchmarks.sample import LETTERS

TEXT = Path(__file__).parents[1] / "data" / "text"
RECORDED = [json.loads(line) for line in (TEXT / "mcq_replies.jsonl").read_text().splitlines()]
OPTIONS = ["Turn left", "Turn right", "Go up", "Land on the roof"]
TEN = [f"choice number {i}" for i in range(10)]


@pytest.mark.parametrize("case", RECORDED, ids=[case["id"] for case in RECORDED])
def test_recorded_replies(case):
    assert parse_choice(case["reply"], list(case["options"].values())).letter == case["expected"], case["why"]


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        ("H", "invalid"),
        ("<answer>F</answer>", "invalid"),
        ("Answer: Z", "invalid"),
        ("I don't know", "abstained"),
        ("None of the above", "abstained"),
        ("<answer>I cannot tell</answer>", "abstained"),
        ("Answer: unknown", "abstained"),
        ('{"answer": null}', "unparsed"),
        ("", "unparsed"),
        ("   \n", "unparsed"),
        ("B and D", "unparsed"),
        ("<answer></answer>", "unparsed"),
        ("A man crosses the road.", "unparsed"),
        ("<think>The answer is B", "unparsed"),
        ("<think>The answer is B</think>", "unparsed"),
        ("Option B is wrong. Option D is wrong.", "unparsed"),
    ],
)
def test_no_answer_has_a_reason(reply, status):
    choice = parse_choice(reply, OPTIONS)
    assert (choice.letter, choice.status) == (None, status)


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        # letters, bracketed, marked, full-width
        ("B", "B"), ("b", "B"), ("[B]", "B"), ("**B**", "B"), ("`B`", "B"), ("(B)", "B"), ("B)", "B"), ("\\(B\\)", "B"),
        ("（Ｂ）", "B"), ("Ｂ．", "B"), ("D - Land on the roof", "D"), ("C (Go up)", "C"), ("B: yes", "B"),
        ("C because it rises", "C"), ("C. Out of the tunnel, then on.", "C"), ("A. False, it is elsewhere", None), ("C, because it rises", "C"), ("B, D", None), ("e.g. left", None),
        # tags
        ("<answer>A</answer> wait <answer>B</answer>", "B"), ("Answer: A <answer>(C)</answer>", "C"),
        ("<answer>D</answer>\nAnswer: A", "D"), ("<answer>Turn right</answer>", "B"), ("<answer>B. Turn right</answer>", "B"),
        ("<ANSWER>\n b \n</ANSWER>", "B"), ("<answer>B", "B"), ("<answer>The answer is C.</answer>", "C"),
        ("<answer>A/B/C/D</answer>", None), ("<answer>B, D</answer>", None), ("＜answer＞B＜/answer＞", "B"),
        ("B <confidence>0.9</confidence>", "B"), ("<answer>C</answer><confidence>0.83</confidence>", "C"),
        # thoughts
        ("<think>A? No, the answer is B.</think>C", "C"), ("<think>the answer is A <answer>B</answer>", "B"),
        ("the answer is A</think><answer>D</answer>", "D"), ("the answer is A</think>D", "D"),
        ("<answer>C</answer><think>or is the answer A", "C"), ("<think>a<think>b</think>answer: A</think> Answer: B", "B"),
        ("<think><answer>A</answer></think>B", "B"),
        # stated
        ("The answer is A because the road bends.", "A"), ("The answer is a red car.", None), ("Answer: A man", None),
        ("the answer's B", "B"), ("Answer → B", "B"), ("Answer B", "B"), ("My answer is A", "A"), ("answer: go up", "C"),
        ("**Answer:** (C) Go up", "C"), ("### Answer\nB", "B"), ("Answer:\n\n**B. Turn right**", "B"),
        ("Final Answer: Option B", "B"), ("Answer: I think B", "B"), ("The correct answer is B: Turn right", "B"),
        ("Option: [C]; Reason: A is behind me", "C"), ("I would go with option C.", "C"), ("I choose (b).", "B"),
        ("I pick d", "D"), ("So it is (C).", "C"), ("Therefore, the correct option is **B**.", "B"), ("Thus, B", "B"),
        ("Option D is correct.", "D"), ("(B) is the correct answer.", "B"), ("A is correct.", "A"), ("a is correct", None),
        ("Only option C fits.", "C"), ("答案是B", "B"), ("正确答案为 A。", "A"), ("选C", "C"), ("选A因为", "A"), ("Answer: Bévue", None),
        # self-correction: the last one
        ("The answer is A. Wait, actually B is correct.", "B"), ("B is right about the tower, but the answer is C", "C"),
        ("\\boxed{A} no, \\boxed{\\text{C}}", "C"), ("Answer: A\n\\boxed{B}", "B"),
        # rejected, hypothetical, doubted, several
        ("The answer is not B.", None), ("The answer isn't A, it's C.", "C"), ("I would not choose B.", None),
        ("If the answer is A, then we fly left.", None), ("I don't know, maybe option B", None),
        ("I am not sure but the answer is B", "B"), ("The answer is (A) Turn left, not (B) Turn right.", "A"),
        ("It could be B or C", None), ("Answer: B or C", None), ("The answer is between B and D.", None),
        ("Answer: B, C is wrong.", "B"), ("Option A shows a car. Option B shows a dog.", None),
        ("A. No. B. No. C. No. D. Yes.", None), ("A. Turn left is wrong.\nB. Turn right is right", None),
        ("Neither A nor B. It must be D.", "D"), ("Answer: Turn left or turn right", None),
        # lists of the options
        ("A. Turn left\nB. Turn right\nC. Go up\nD. Land on the roof", None), ("Choice: A. Turn left\n B. Turn right", None),
        ("Choice: A. Turn left\n B. Turn right\n C. Go up\nThe answer is C.", "C"), ("A\nB\nC", None),
        ("B. Turn right\n\nExplanation:\nA. would be wrong", "B"), ("Reasoning.\n\nB. Turn right", "B"), ("Reasoning.\n\nB", "B"),
        # JSON
        ('```json\n{"reason": "the answer is A", "answer": "(C)"}\n```', "C"), ('{"answer": "Go up"}', "C"),
        ('{"answer": ["B", "C"]}', None), ('{"Answer": ["B"]}', "B"), ("{'answer': 'B'}", "B"),
        # option text
        ("land on the ROOF.", "D"), ("The drone should turn right.", "B"), ("The drone should not turn right.", None),
        ("You turn left, then turn right.", None), ("I turn right.\nThen it ends. Many things are seen here.", None),
    ],
)  # fmt: skip
def test_replies(reply, letter):
    choice = parse_choice(reply, OPTIONS)
    assert choice.letter == letter
    assert (choice.status == "ok") == (letter is not None)


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("I", "I"), ("Answer: I", "I"), ("The answer is I.", "I"), ("(i)", "I"), ("J", "J"), ("I. choice number 8", "I"),
        ("I think so", None), ("I'm lost", None), ("I, for one, like it", None), ("The answer is I guess", None),
    ],
)  # fmt: skip
def test_the_pronoun_is_no_option(reply, letter):
    assert parse_choice(reply, TEN).letter == letter


def test_how_an_answer_was_read():
    replies = {
        "tag": "<answer>B</answer>",
        "json": '{"answer": "B"}',
        "boxed": "\\boxed{B}",
        "stated": "Answer: B",
        "leading": "B. I see it",
        "bare": "B",
        "text": "turn right",
        "mention": "Only option B fits.",
    }
    assert {how: parse_choice(reply, OPTIONS) for how, reply in replies.items()} == {
        how: ("B", how, "ok") for how in replies
    }


def test_longer_options_hide_the_shorter_ones_inside_them():
    options = ["on the left", "ahead on the left", "behind"]
    assert parse_choice("It is ahead on the left.", options).letter == "B"
    assert parse_choice("Answer: ahead on the left", options).letter == "B"
    assert parse_choice("It is on the left.", options).letter == "A"


def test_options_that_are_numbers_or_signs():
    assert parse_choice("There are 3 steps.", ["1", "3", "13"]).letter == "B"
    assert parse_choice("Answer: 13", ["1", "3", "13"]).letter == "C"
    assert parse_choice("-5 degrees", ["5 degrees", "-5 degrees"]).letter == "B"


def test_equal_options_cannot_be_told_by_text():
    assert parse_choice("left", ["left", "Left.", "right"]).letter is None


def test_an_option_may_read_none_of_the_above():
    assert parse_choice("None of the above", [*OPTIONS, "None of the above"]).letter == "E"


def test_number_of_options():
    assert parse_choice("A", []).status == "unparsed"
    with pytest.raises(ValueError, match="11 options"):
        parse_choice("A", ["x"] * 11)


# -- properties ----------------------------------------------------------------------------------------------

VOCABULARY = """A B C D I J a b answer Answer: is the The not option correct because and or , . : ( ) [ ] ** <think> </think>
<answer> </answer> <confidence> {"answer": "B"} \\boxed{A} Ｃ （Ｄ） 12 3.5 -4 five % confidence wrong I don't know so it's choose
left Turn"""
WORDS = st.lists(st.sampled_from([*VOCABULARY.split(), "\n"]), max_size=25).map(" ".join)
REPLIES = st.one_of(WORDS, st.text(max_size=200))
OPTION_LISTS = st.lists(st.text(max_size=20), min_size=1, max_size=10)


@settings(max_examples=400, deadline=None)
@given(REPLIES, OPTION_LISTS)
def test_any_text_gives_a_valid_choice(reply, options):
    choice = parse_choice(reply, options)
    assert (choice.status == "ok") == (choice.letter is not None)
    assert choice.letter is None or choice.letter in LETTERS[: len(options)]


@settings(max_examples=300, deadline=None)
@given(WORDS, OPTION_LISTS, st.sampled_from(["", " ", "\n", "\t \n  "]), st.sampled_from(["", " ", "\n\n", "  \t"]))
def test_whitespace_changes_nothing(reply, options, before, after):
    expected = parse_choice(reply, options)
    assert parse_choice(before + reply + after, options) == expected
    assert parse_choice(reply.replace(" ", "  "), options) == expected


@settings(max_examples=300, deadline=None)
@given(OPTION_LISTS, st.data())
def test_a_plain_letter_is_always_read(options, data):
    index = data.draw(st.integers(0, len(options) - 1))
    letter = LETTERS[index]
    for reply in (letter, f"({letter})", f"{letter}.", f"<answer>{letter}</answer>", f"{letter}. {options[index]}"):
        assert parse_choice(reply, options).letter == letter, reply


@settings(max_examples=400, deadline=None)
@given(REPLIES)
def test_no_text_breaks_the_other_readers(reply):
    number, confidence, entries = parse_number(reply), parse_confidence(reply), parse_json_list(reply)
    assert number is None or abs(number) < float("inf")
    assert confidence is None or 0 <= confidence <= 1
    assert entries is None or all(isinstance(entry, dict) for entry in entries)


@pytest.mark.parametrize(
    "piece",
    ["answer is ", "<think>", "<answer>", "(", "[", "{", '{"answer":', "A. ", "choice: A\n", "1,", "1 / ", "twenty ", "\n", "*_`"],
)  # fmt: skip
@pytest.mark.timeout(60)
def test_hostile_replies_do_not_hang(piece):
    """A reader that takes quadratic time would run for minutes here."""
    text = piece * 20_000
    assert parse_choice(text, OPTIONS).status in ("ok", "unparsed", "invalid", "abstained")
    parse_number(text), parse_confidence(text), parse_json_list(text)


# -- numbers, confidences, lists -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        ("8.8 meters", 8.8), ("4.", 4), ("-4", -4), ("−4", -4), ("+2", 2), (".5", 0.5), ("2.5e0", 2.5), ("1e-2 m", 0.01),
        ("1,250.5 m", 1250.5), ("1,000,000", 1e6), ("1.250,5", 1250.5), ("3,5 m", 3.5), ("1/2", 0.5), ("~20", 20),
        ("12cm", 12), ("$20$", 20), ("10-12 m", 10), ("2.5 m (8 ft)", 2.5), ("1/0", None), ("1e999", None),
        ("4th floor", None), ("3D view", None), ("scene0011 has 4", 4), ("B52", None), ("", None), ("I cannot tell", None),
        ("five", 5), ("Twenty-five chairs", 25), ("two and a half", 2.5), ("three point one five", 3.15), ("a dozen", 12),
        ("one hundred", 100), ("two hundred and ten", 210), ("two thousand three hundred", 2300), ("zero", 0),
        ("No one is here", None), ("one of them", None), ("There is one chair", 1), ("three chairs and 2 tables", 3),
        ("5 chairs near 2 tables. The answer is 7.", 7), ("Answer: 3. I saw 5.", 3), ("Answer: 3\nNo. Answer: 4", 4),
        ("To answer this: hard", None), ("I count 1, 2, 3. Total: three", 3), ("<think>9</think>4", 4), ("<think>9", None),
        ("<answer>20 m²</answer>", 20), ("7 <answer>none</answer>", None), ('{"n": 1, "answer": 7.5}', 7.5), ("\\boxed{12}", 12),
    ],
)  # fmt: skip
def test_numbers(reply, number):
    assert parse_number(reply) == number


@pytest.mark.parametrize(
    ("reply", "confidence"),
    [
        ("<confidence>0.83</confidence>", 0.83), ("<confidence>0.2</confidence><confidence>0.9</confidence>", 0.9),
        ("<confidence>85</confidence>", 0.85), ("<confidence> 83 % </confidence>", 0.83), ("<confidence>0,7</confidence>", 0.7),
        ("<confidence>1</confidence>", 1), ("<confidence>0</confidence>", 0), ("<confidence>1%</confidence>", 0.01),
        ("<confidence>.5", 0.5), ("<confidence>8/10</confidence>", 0.8), ("<confidence>high</confidence>", None),
        ("<confidence>150%</confidence>", None), ("<confidence>-0.5</confidence>", None), ("<confidence></confidence>", None),
        ("83%", 0.83), ("0.83", 0.83), ("Answer: B. Confidence: 80%", 0.8), ("I am 90% sure.", 0.9), ("Confidence: 0.7", 0.7),
        ("confidence level of 0.6", 0.6), ("50% of the frames are dark.", None), ("B", None), ("", None),
        ("<think>confidence: 0.1</think>B", None), ("<think>x</think><answer>B</answer><confidence>0.4</confidence>", 0.4),
    ],
)  # fmt: skip
def test_confidences(reply, confidence):
    assert parse_confidence(reply) == (None if confidence is None else pytest.approx(confidence))


ENTRY = {"sub_query": "Where is CAFE, [left]?", "type": "text"}


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps([ENTRY]),
        f"Here you are:\n```json\n{json.dumps([ENTRY], indent=2)}\n```\nDone [1].",
        f"As shown in [1], {json.dumps([ENTRY])}",
        json.dumps({"sub_queries": [ENTRY]}),
        json.dumps(ENTRY),
        json.dumps([ENTRY])[:-1] + ",]",
        json.dumps([ENTRY])[:-1] + ', {"sub_query": "and th',
        f'<think>[{{"no": 1}}]</think>{json.dumps([ENTRY])}',
        f"[] then {json.dumps([ENTRY])}",
    ],
)
def test_json_lists(reply):
    assert parse_json_list(reply) == [ENTRY]


def test_json_lines_and_nothing():
    assert parse_json_list('{"a": 1}\n{"b": 2}') == [{"a": 1}, {"b": 2}]
    assert parse_json_list('[{"a": "x,]"}, {"b": "y, }"}]') == [{"a": "x,]"}, {"b": "y, }"}]
    assert parse_json_list("[]") == []
    assert parse_json_list('[1, 2] "text" none') is None
    assert parse_json_list("__import__('os')") is None
