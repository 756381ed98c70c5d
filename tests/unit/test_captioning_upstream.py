"""The published checkers' semantics beyond the oracle's lines: each fault with a trigger."""

from __future__ import annotations

import pytest

from trustvid.captioning.rules import check

LETTERS = [chr(code) for code in range(ord("A"), ord("Z") + 1)]
ROMANS = [tens + units for tens in ("", "X") for units in ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")]
ROMANS.append("XXI")


def _numbered(ordinals: list[str], separator: str = ".") -> str:
    return "\n".join(f"{ordinal}{separator} x" for ordinal in ordinals)


CASES = [
    ("plain_text", {}, ["ii. b", "(1) a", "一、x", "# h", "**b**", '```json\n{"a":1}\n```', "> q", "1.5 m", "-"], []),
    ("plain_text", {}, [], ["42", "null", "NaN", '"The cat sleeps."', "2024. A year", "X) a", " 三、 x", "|\t|", "+ a"]),
    ("json_object", {"schema": {}}, ['[{"a":1}]', '{"a":NaN}', '```\n{"a":1}\n```'], ['{"a":1} {b}', "} {", "{'a':1}"]),
    ("json_array", {"schema": {}}, ['{"l":[1]}', "[NaN]"], ["[1] [2]", "] ["]),
    ("unordered_list", {}, ["- a\n* b", "* * *", "+ a\n• b"], ["- a\nb", "-", "", "---\n- a"]),
    ("unordered_list", {"symbol": "- "}, ["-  a"], ["- a"]),
    ("ordered_list", {}, ["3. a\n4. b", "1: a\n2: b", "V. a\nW. b", "I. a\nII. b", "  1. a\n    2. b"], []),
    ("ordered_list", {}, [], ["1、 a\n2、 b", "1. a\n2) b", "y. a\nz. b", "(1) a", "1.", "1. a\nb"]),
    ("ordered_list", {"symbol": "I."}, [_numbered(ROMANS[:20])], [_numbered(ROMANS), _numbered(LETTERS[8:10])]),
    ("ordered_list", {"symbol": "C."}, [_numbered(LETTERS[2:25])], [_numbered(LETTERS[2:])]),
    ("ordered_list", {"symbol": "1."}, ["01. a\n02. b", "１. a"], ["1.a", "1) a", "1 . a"]),
    ("table", {"col_name": ["a", "b"]}, ["|a|b|\n|||", "|a|b|\n|-|\nprose"], ["x\n|a|b|\n|-|-|", "|A|b|\n|-|-|", "|a|b|"]),
    ("table", {"col_name": ["bcd"]}, ["|b_c_d|\n|-|"], []),
    ("keyword", {"keyword": "car", "keyword_type": "include"}, ["carpet", "CAR"], ["c ar"]),
    ("markdown", {"md_type": "title"}, ["#\ntext", "a\n###### b"], [" # a", "a\n===", "#a", "####### a"]),
    ("markdown", {"md_type": "bold"}, ["__init__", "2 ** 3 ** 4", "****a****"], ["****", "**a\nb**"]),
    ("markdown", {"md_type": "italic"}, ["**b**", "a_b_c", "2 * 3 * 4", "* item *"], ["* a", "**"]),
    ("markdown", {"md_type": "highlight"}, ["==a==", "`a`", "```"], ["====", "==a"]),
    ("markdown", {"md_type": "code"}, ["``````", "```\nx", "`a`", "```\na\n```"], ["~~~\nx\n~~~", "``", "    x"]),
    ("prefix_suffix", {"suffix": "END"}, ["END", "a END!?。", "END**"], ["END\n", "END ", "END…", "END”", "End"]),
    ("prefix_suffix", {"suffix": "(end)"}, ["(end)"], ["(end)!"]),
    ("delimiter", {"symbol": "|"}, ["a||b", "a|b|c"], ["|a|", "|", "a"]),
    ("length", {"unit": "word", "min_len": 2, "max_len": 2}, ["don't", "U.S.", "1. two words", "狗 dog"], ["3D v2", "他用 iPhone"]),
    ("length", {"unit": "sentence", "min_len": 0, "max_len": 0}, ["many. full. stops."], []),
    ("length", {"unit": "sentence", "min_len": 3, "max_len": 3}, ["Dr. X. Y.", "at www.a.com."], ["a… b… c…"]),
    ("length", {"unit": "character", "min_len": 3, "max_len": 3}, ["a\nb", "a\u3000b", "a b c", "- abc"], ["a b"]),
    ("length", {"unit": "paragraph", "min_len": 1, "max_len": 1}, ["a\r\n\r\nb", "a\n \nb"], ["a\n\nb"]),
    ("count", {"min_count": 3, "max_count": 3}, ["(a (b) and (c)),(d)", "()()()"], ["（a），（b），（c）", "(a)(b"]),
    ("case", {"case_type": "title"}, ["A Cat", "The NASA Cat", ""], ["A", "NASA", "The Cat's Hat", "Lord of Rings"]),
    ("case", {"case_type": "upper"}, ["café", "abc123", "一只dog跑"], ["a"]),
    ("language", {"lang_type": "en"}, ["Le chien", "Привет a"], ["a 狗", "42", "Привет"]),
    ("language", {"lang_type": "zh"}, ["犬が走る"], ["GPS 狗", "いぬ", "㐀"]),
    ("language", {"lang_type": "fr"}, [], ["Le chien"]),
]  # fmt: skip


@pytest.mark.parametrize("constraint_id, parameters, passing, failing", CASES)
def test_published_semantics(constraint_id, parameters, passing, failing):
    for texts, expected in ((passing, True), (failing, False)):
        for text in texts:
            assert check(constraint_id, {"content": [text], **parameters}, "upstream").value is expected, text


@pytest.mark.parametrize(
    "constraint_id, parameters",
    [
        ("length", {"content": ["a"], "unit": "word", "max_len": None}),
        ("unordered_list", {"content": ["- a"], "symbool": "-"}),
        ("json_object", {"content": ["{}"], "schema": {"type": "objct"}}),
        ("json_object", {"content": ["{}"], "schema": None}),
        ("keyword", {"content": ["a"], "keyword": "a"}),
        ("prefix_suffix", {"content": [5]}),
        ("delimiter", {"content": ["a"], "symbol": None}),
        ("table", {"content": ["|a|\n|-|"], "col_name": [1]}),
        ("case", {"case_type": "upper"}),
        ("case", None),
        (None, {}),
        (["case"], {}),
    ],
)
def test_what_makes_the_published_checkers_fail_is_unscored(constraint_id, parameters):
    verdict = check(constraint_id, parameters, "upstream")
    assert verdict.value is None
    assert verdict.reason


def test_an_empty_list_passes_before_its_parameters_are_looked_at():
    assert check("length", {"content": [], "no_such": 1}, "upstream").value is True


def test_elements_are_checked_in_turn_until_one_fails():
    assert check("plain_text", {"content": ["- a", 5]}, "upstream").value is False
    assert check("plain_text", {"content": ["a", 5]}, "upstream").value is None


def test_an_unknown_mode_is_the_callers_mistake():
    with pytest.raises(ValueError, match="upstream, strict"):
        check("plain_text", {"content": ["a"]}, "lenient")  # type: ignore[arg-type]
