"""The check command: one line out for each line in, whatever the line holds."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path

import pytest

from trustvid.captioning import check_cli
from trustvid.captioning.rules import MODES, check
from trustvid.errors import DataError

ORACLE = Path(__file__).resolve().parents[1] / "data" / "oracles" / "ifvidcap_rules.jsonl"
CARPET = {"content": ["The carpet."], "keyword": "car", "keyword_type": "include"}


def _run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    check_cli.add_arguments(parser)
    return check_cli.run(parser.parse_args(words))


def _line(id_, constraint_id="keyword", parameters=CARPET) -> bytes:
    return json.dumps({"id": id_, "constraint_id": constraint_id, "parameters": parameters}).encode()


@pytest.mark.parametrize("mode", MODES)
def test_verdicts_of_a_file_in_order_and_twice_the_same(capsys, mode):
    outputs = []
    for _ in range(2):
        assert _run(str(ORACLE), "--rules", mode) == 0
        outputs.append(capsys.readouterr())
    assert outputs[0] == outputs[1]
    records = [json.loads(line) for line in outputs[0].out.splitlines()]
    cases = [json.loads(line) for line in ORACLE.read_text(encoding="utf-8").splitlines()]
    assert [record["id"] for record in records] == [case["id"] for case in cases]
    for case, record in zip(cases, records, strict=True):
        verdict = check(case["constraint_id"], case["parameters"], mode)
        assert record == {"id": case["id"], "verdict": verdict.value, "reason": verdict.reason}
    assert f"{mode} rules, 345 cases" in outputs[0].err
    assert "of an unknown constraint" in outputs[0].err


def test_standard_input_with_byte_order_mark_and_windows_line_ends(capsys, monkeypatch):
    stream = b"\xef\xbb\xbf" + _line(1) + b"\r\n\r\n" + _line("二") + b"\r\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stream)))
    assert _run("-", "--rules", "upstream") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(record["id"], record["verdict"]) for record in records] == [(1, True), ("二", True)]


@pytest.mark.parametrize(
    "line, said",
    [
        (b"{bad", "not JSON"),
        (b"[1, 2]", "not an object"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"id": NaN}', "NaN"),
        (b'{"id": 1e999}', "too large"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
def test_a_malformed_line_keeps_its_place(line, said):
    records = list(check_cli.check_lines([_line(1), line, _line(3)], "strict"))
    assert [record["id"] for record in records] == [1, None, 3]
    assert records[1]["verdict"] is None
    assert records[1]["reason"].startswith("line 2: ")
    assert said in records[1]["reason"]


def test_a_case_without_its_parts_is_unscored_under_its_id():
    lines = [b'{"id": 7}', b'{"id": 8, "constraint_id": "keyword"}', b'{"id": 9, "constraint_id": {}, "parameters": 1}']
    records = list(check_cli.check_lines(lines, "strict"))
    assert [(record["id"], record["verdict"]) for record in records] == [(7, None), (8, None), (9, None)]


def test_lines_are_answered_as_they_come():
    def endless():
        while True:
            yield _line(1)

    answers = check_cli.check_lines(endless(), "strict")
    assert [next(answers)["verdict"] for _ in range(3)] == [False] * 3


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.jsonl: No such file"):
        _run(str(tmp_path / "none.jsonl"))
