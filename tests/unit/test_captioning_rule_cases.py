"""Public failures of rule checkers (section D of the cases), mapped to our rules and their counting helpers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trustvid.captioning.rules import check
from trustvid.captioning.rules.strict.counting import count_characters, count_sentences, count_words
from trustvid.captioning.rules.strict.lists import list_items
from trustvid.captioning.rules.strict.markdown import markup_of
from trustvid.captioning.rules.strict.structure import parse_table
from trustvid.captioning.rules.strict.text import count_keyword, split_parts

CASES = Path(__file__).resolve().parents[1] / "data" / "text" / "rule_cases.jsonl"
# The oracle allows words around JSON (json_object-011) and wins over the case that forbids them.
OVERRULED = {"rule-011": True}


def _rule(constraint_id: str, rename: dict[str, str] | None = None, **fixed) -> Callable[[str, dict], bool | None]:
    def verdict(text: str, params: dict) -> bool | None:
        named = {(rename or {}).get(name, name): value for name, value in params.items()}
        return check(constraint_id, {"content": [text], **fixed, **named}, "strict").value

    return verdict


def _within(number: int, params: dict) -> bool:
    return params["min"] <= number <= params["max"]


def _table(text: str, params: dict) -> bool:
    table = parse_table(text)
    sizes = {"columns": len(table.header), "rows": len(table.rows)} if table else {}
    return table is not None and all(sizes[name] == wanted for name, wanted in params.items())


def _list_count(text: str, params: dict) -> bool:
    return sum(item.marker.head == params["symbol"] for item in list_items(text)) == params["n"]


def _markdown(text: str, params: dict) -> bool:
    kinds = [{"title": "headings"}.get(piece.kind, piece.kind) for piece in markup_of(text)]
    return all(kinds.count(kind) == wanted for kind, wanted in params.items())


VERDICTS: dict[str, Callable[[str, dict], bool | None]] = {
    "json_object": _rule("json_object", schema={}),
    "json_schema": _rule("json_object"),
    "table": _table,
    "unordered_list": _rule("unordered_list"),
    "ordered_list": _rule("ordered_list"),
    "list_count": _list_count,
    "ordered_count": lambda text, params: len(list_items(text)) == params["n"],
    "word_count": lambda text, params: _within(count_words(text), params),
    "char_count": lambda text, params: _within(count_characters(text, punctuation=params["punct"]), params),
    "sentence_count": lambda text, params: count_sentences(text) == params["n"],
    "keyword_include": lambda text, params: all(count_keyword(text, word) for word in params["words"]),
    "keyword_exclude": lambda text, params: not any(count_keyword(text, word) for word in params["words"]),
    "keyword_count": lambda text, params: count_keyword(text, params["word"]) == params["n"],
    "prefix_suffix": _rule("prefix_suffix"),
    "delimiter": lambda text, params: len(split_parts(text, params["symbol"])) == params["n"],
    "case": _rule("case", {"mode": "case_type"}),
    "language": _rule("language", {"lang": "lang_type"}),
    "markdown": _markdown,
    "no_such_rule_xyz": _rule("no_such_rule_xyz"),
}


def _cases() -> list[dict]:
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["id"])
def test_public_failures_of_rule_checkers(case):
    expected = OVERRULED.get(case["id"], None if case["expected"] == "ERROR" else case["expected"])
    assert VERDICTS[case["constraint"]](case["response"], case["params"]) is expected, case["why"]


def test_thinking_is_not_part_of_the_reply():
    text = "<think>long text, with, commas</think>\nok"
    no_comma = {"content": [text], "keyword": ",", "keyword_type": "exclude"}
    assert check("keyword", no_comma, "strict").value is True
    assert check("keyword", no_comma, "upstream").value is False


def test_an_unknown_rule_is_reported_and_never_passes():
    for mode in ("upstream", "strict"):
        verdict = check("no_such_rule_xyz", {"content": []}, mode)
        assert verdict.value is None
        assert "no_such_rule_xyz" in verdict.reason
