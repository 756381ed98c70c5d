"""Hostile input: every rule ends, and says so when it had to stop.   The time limit is the test's own timeout."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from trustvid.captioning.rules import MAX_CHARACTERS, MAX_ELEMENTS, MODES, check
from trustvid.captioning.rules.json_schema import is_plainly_valid, violation

pytestmark = pytest.mark.timeout(60)

HOSTILE = ["(", "**a", "[", '{"a":', "`", "“", "* ", "1. a\n", "==a", "|-|\n", "\n", "🇩🇪", "一、", '"a" ', "</think>"]
PARAMETERS = {
    "plain_text": {},
    "json_object": {"schema": {"type": "object"}},
    "json_array": {"schema": {"type": "array"}},
    "ordered_list": {},
    "unordered_list": {"symbol": "-"},
    "table": {"col_name": ["a"]},
    "keyword": {"keyword": "a", "keyword_type": "include"},
    "markdown": {"md_type": "bold"},
    "delimiter": {"symbol": "|"},
    "prefix_suffix": {"prefix": "(", "suffix": "x"},
    "count": {"min_count": 1},
    "length": {"unit": "sentence", "min_len": 1},
    "case": {"case_type": "title"},
    "language": {"lang_type": "en"},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("constraint_id", PARAMETERS)
def test_long_hostile_text_is_decided(constraint_id, mode):
    for pattern in HOSTILE:
        text = pattern * (30_000 // len(pattern)) + "x"
        assert check(constraint_id, {"content": [text], **PARAMETERS[constraint_id]}, mode).reason


@pytest.mark.parametrize("mode", MODES)
def test_text_beyond_the_limits_is_unscored(mode):
    huge = check("case", {"content": ["a" * MAX_CHARACTERS, "b"], "case_type": "lower"}, mode)
    many = check("plain_text", {"content": ["a"] * (MAX_ELEMENTS + 1)}, mode)
    assert huge.value is None
    assert "1,000,001 characters" in huge.reason
    assert many.value is None
    assert "10,001 elements" in many.reason


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "content, schema, said",
    [
        ('{"a": "' + "a" * 40 + '!"}', {"properties": {"a": {"pattern": "^(a|a)+$"}}}, "needs more than 1 s"),
        ('{"' + "a" * 40 + '!": 1}', {"patternProperties": {"^(a|a)+$": {}}, "additionalProperties": False}, "1 s"),
        ('{"a": 1}', {"$ref": "http://127.0.0.1:9/schema.json"}, "127.0.0.1"),
        ('{"a": 1}', {"$ref": "#"}, "RecursionError"),
        ('{"a":' * 1000 + "1" + "}" * 1000, {}, "deeper than 400"),
        ('{"a": 1}', json.loads('{"not":' * 100 + "{}" + "}" * 100), "deeper than 64"),
    ],
)
def test_hostile_schemas_and_values_are_unscored(content, schema, said, mode):
    verdict = check("json_object", {"content": [content], "schema": schema}, mode)
    assert verdict.value is None
    assert said in verdict.reason


def test_a_schema_that_doubles_at_each_reference_is_stopped():
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(30)} | {"s30": {"type": "object"}}
    verdict = check("json_object", {"content": ["{}"], "schema": {"$defs": steps, "$ref": "#/$defs/s0"}}, "strict")
    assert verdict.value is None
    assert "steps" in verdict.reason


def test_the_guarded_keywords_agree_with_the_library():
    schemas = [
        {"properties": {"a": {"pattern": "^x"}}, "additionalProperties": False},
        {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
        {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False},
        {"properties": {"a": {"uniqueItems": True}}},
        {"properties": {"a": {"uniqueItems": False}}},
    ]
    values = ["x", "y", 1, [1, 1.0], [1, True], [[1], [1]], list(range(300)), [*range(300), 7.0], [{"b": 1}] * 2, None]
    for schema in schemas:
        for value in values:
            for instance in ({"a": value}, {"ab": value}, {"b": value}, {}):
                agreed = Draft202012Validator(schema).is_valid(instance)
                assert (violation(instance, schema) is None) is agreed, (schema, instance)


def test_a_plainly_valid_schema_is_valid():
    schemas = [
        {"type": "object", "properties": {"a": {"type": "string", "minLength": 1}}, "required": ["a"]},
        {"type": "array", "items": {"enum": ["a", 1]}, "minItems": 0, "uniqueItems": True},
        {"type": "objct"},
        {"minItems": "3"},
        {"minItems": True},
        {"items": [{"type": "string"}]},
        {"required": ["a", "a"]},
        {"maximum": True},
        {"properties": []},
    ]
    judged = [is_plainly_valid(schema) for schema in schemas]
    assert judged == [True, True, *[False] * 7]
    for schema, plain in zip(schemas, judged, strict=True):
        if plain:
            Draft202012Validator.check_schema(schema)
        else:
            with pytest.raises(SchemaError):
                Draft202012Validator.check_schema(schema)
