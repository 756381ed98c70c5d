"""The choices of the strict rules beyond the oracle, and the published faults they are free of."""

from __future__ import annotations

import pytest

from trustvid.captioning.rules import check
from trustvid.captioning.rules.numerals import han, letters, roman

ANY = {"schema": {}}

# rule, parameters, texts that pass, texts that fail
CHOICES = [
    ("plain_text", {}, ["42", "null", '"The cat sleeps."', "2024. A year", "J. Smith runs.", "a | b", "1、2楼有人"], []),
    ("plain_text", {}, ["三、四个人走过", "The 5* and 4* hotels", "Above\n---\nbelow", "A: hi\nB: ho", "12:30 is lunch"], []),
    ("plain_text", {}, [], ["**bold**", "*it* is", "`x`", "> quote", "[a](http://b.c)", "a <b>c</b>", "~~no~~", "==x=="]),
    ("plain_text", {}, [], ["(1) a", "ii. b", "一、x", "1、甲", "A. First\nB. Second", "Title\n=====", " \n", "1: first"]),
    ("plain_text", {}, [], ['```json\n{"a": 1}\n```', "| a | b |\n| c | d |", "Intro\n- item"]),
    ("json_object", ANY, ['{"a":1} (see {note})', 'Use {x}: {"a":1}', '[3] {"a":1}', '{"a":"}{"}'], []),
    ("json_object", ANY, [], ['[{"a":1}]', '{"a":{"b":1},}', '{"a":Infinity}', '{{"a":1}}', '{"a":1}}', "{a: 1}", "{"]),
    ("json_array", ANY, ['["a"] [end]', '["a"], see [1]', "[1]", "[]"], ['{"a":[1]}', "[1,2] and [3,4]", '["a",]', "[a, b]"]),
    ("unordered_list", {}, ["- a\n  more of a", "- a\n  1. x\n  2. y", "• a\n• b"], ["- a\n* b", "* * *", "- a\n  * b", "---\n- a"]),
    ("unordered_list", {"symbol": "- "}, ["- a\n- b"], ["* a"]),
    ("unordered_list", {"symbol": "–"}, ["– a\n– b"], ["- a"]),
    ("ordered_list", {}, ["C. a\nD. b", "1. a\n   1. x\n   2. y\n2. b", "(1) a\n(2) b", "1. a\n    2. b"], []),
    ("ordered_list", {}, [], ["V. only", "1. a\n2) b", "1. a\n1. b", "1. \n2. b", "1. a\n   1. x\n   3. y\n2. b"]),
    ("ordered_list", {"symbol": "第一步："}, ["第一步：甲\n第二步：乙"], ["第一步：甲\n第三步：乙"]),
    ("ordered_list", {"symbol": "1."}, ["1. a\n  - x\n  - y\n2. b"], ["1) a\n2) b", "Intro\n1. a", "1. a\n2. b\n\nDone."]),
    ("ordered_list", {"symbol": "Step"}, [], ["Step 1: a"]),
    ("ordered_list", {"symbol": "1."}, ["1. He meets\n   I. Newton\n   J. Smith\n   2024. A year\n2. b"], []),
    ("table", {"col_name": ["A", "B"]}, ["A | B\n---|---", "| | A | B |\n|-|-|-|"], ["| A | B |\n|||", "| A | B |\n|---|"]),
    ("table", {"col_name": ["bcd"]}, ["| bcd |\n|---|"], ["| b_c_d |\n|---|"]),
    ("keyword", {"keyword": "red car", "keyword_type": "include"}, ["a Red\nCar"], ["infrared car", "red cars"]),
    ("keyword", {"keyword": "红", "keyword_type": "include"}, ["一辆红色的车"], ["一辆车"]),
    ("keyword", {"keyword": "café", "keyword_type": "include"}, ["the cafe\u0301."], ["the cafe."]),
    ("markdown", {"md_type": "title"}, ["```markdown\n# x\n```", "Text\n---"], ["```\n# x\n```", "#Title", "## \n"]),
    ("markdown", {"md_type": "title"}, ["A dog runs.\n==="], ["A dog runs.\n---\nA cat sits."]),
    ("markdown", {"md_type": "bold"}, ['```json\n{"a": "**b**"}\n```'], ["```python\n2 ** **b**\n```"]),
    ("markdown", {"md_type": "bold"}, ["**a**", "他说**“你好”**了"], ["** a **", "see __main__", "`**a**`", r"\*\*a\*\*"]),
    ("markdown", {"md_type": "highlight"}, ["==a b=="], ["a == b == c", "====", "`==a==`"]),
    ("markdown", {"md_type": "code"}, ["```\nx\n```", "> ```\n> x\n> ```"], ["```\nx=1", "```\n\n```", "``"]),
    ("markdown", {"md_type": "italic"}, ["***a***"], ["**a**", "a_b_c", "* x"]),
    ("prefix_suffix", {"suffix": "END"}, ["x END\n", "x END”。", "x **END**"], ["x ENDs", "x END 1"]),
    ("prefix_suffix", {"suffix": "---"}, ["text ---.", "text ----"], ["text --"]),
    ("length", {"unit": "sentence", "min_len": 1, "max_len": 1}, ["No stop", "U.S. flag", "See https://a.b/c."], ["..."]),
    ("length", {"unit": "sentence", "min_len": 2, "max_len": 2}, ["1. one\n2. two", "He ran... Then he fell", "a\n\nb"], []),
    ("length", {"unit": "word", "max_len": 0}, [""], ["a"]),
    ("length", {"unit": "word", "min_len": 3, "max_len": None}, ["a b c d"], ["a b"]),
    ("length", {"unit": "character", "min_len": 2, "max_len": 2}, ["🇩🇪 🇫🇷", "e\u0301a"], ["abc"]),
    ("count", {"min_count": 2, "max_count": 2}, ["（甲），（乙）", "(a) (b)", "(happy :)),(dog)"], ["(a),()", "a,b"]),
    ("count", {"max_count": 0}, [""], ["(a)"]),
    ("case", {"case_type": "upper"}, ["CAFÉ 42"], ["café", "abc123"]),
    ("case", {"case_type": "title"}, ["Don't Stop", "O’Neil’s Cat", "3D Printer V2"], ["The Lord of the Rings", "NASA ESA"]),
    ("language", {"lang_type": "zh"}, ["GPS信号很弱", "他用 iPhone 拍照", "距离3 km", "他说“hello”。"], ["一只dog在跑", "東京タワー"]),
    ("language", {"lang_type": "en"}, ['The sign says "出口" above.', "A man in a café"], ["El perro corre por la calle.", "a 狗 dog"]),
    ("language", {"lang_type": "fr"}, [], ["Le chien court"]),
]  # fmt: skip


@pytest.mark.parametrize("constraint_id, parameters, passing, failing", CHOICES)
def test_documented_choices(constraint_id, parameters, passing, failing):
    for texts, expected in ((passing, True), (failing, False)):
        for text in texts:
            verdict = check(constraint_id, {"content": [text], **parameters}, "strict")
            assert verdict.value is expected, (text, verdict.reason)


def test_malformed_parameters_are_unscored_and_named():
    bad = [
        ("length", {"content": ["a"], "unit": "word", "min_length": 3}, "min_length"),
        ("length", {"content": ["a"]}, "unit"),
        ("json_object", {"content": ["{}"], "schema": None}, "schema"),
        ("table", {"content": ["a"], "col_name": "Name"}, "col_name"),
        ("plain_text", {"content": None}, "content"),
        ("count", {"content": ["(a)"], "min_count": True}, "min_count"),
        ("ordered_list", {"content": ["1. a"], "symbol": 1}, "symbol"),
    ]
    for constraint_id, parameters, named in bad:
        verdict = check(constraint_id, parameters, "strict")
        assert verdict.value is None
        assert named in verdict.reason


def test_content_types_have_no_rule():
    verdict = check("summary", {"content": ["x"]}, "strict")
    assert verdict.value is None
    assert "questions" in verdict.reason


def test_the_reason_names_the_element_that_fails():
    verdict = check("length", {"content": ["a b", "a b c"], "unit": "word", "max_len": 2}, "strict")
    assert (verdict.value, verdict.reason) == (False, "element 2: 3 words, asked for 0 to 2")


def test_nothing_extracted_fails_every_rule():
    for constraint_id, parameters in (
        ("count", {"max_count": 3}),
        ("keyword", {"keyword": "a", "keyword_type": "exclude"}),
    ):
        assert check(constraint_id, {"content": [], **parameters}, "strict").value is False
        assert check(constraint_id, {"content": [], **parameters}, "upstream").value is True


def test_ordinals():
    assert [han(text) for text in ("十", "十一", "二十", "九十九", "一百零二")] == [10, 11, 20, 99, 102]
    assert [roman(text) for text in ("XXI", "iv", "IIII", "Iv", "")] == [21, 4, None, None, None]
    assert [letters(text) for text in ("a", "Z", "AA", "abc", "é")] == [1, 26, 27, None, None]
