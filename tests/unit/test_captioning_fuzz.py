"""No input makes a rule raise, and no verdict changes on a second look.

TRUSTVID_FUZZ_EXAMPLES=100000 pytest tests/unit/test_captioning_fuzz.py -n 0 --timeout 0      (the long run)
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trustvid.captioning.rules import MODES, Verdict, check
from trustvid.captioning.taxonomy import FORMAT_IDS, rule_parameters

EXAMPLES = int(os.environ.get("TRUSTVID_FUZZ_EXAMPLES", "250"))

# Pieces that rules react to, so that random texts reach their branches.
PIECES = [
    "- ",
    "* ",
    "1. ",
    "2) ",
    "一、",
    "iv. ",
    "(",
    ")",
    "（",
    "**",
    "_",
    "`",
    "```\n",
    "==",
    "# ",
    "> ",
    "|",
    "|---|",
]
PIECES += [
    "\n",
    "\r\n",
    "\n\n",
    "  ",
    "\t",
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    '{"a": 1}',
    "[1]",
    "NaN",
    "Dr. ",
    "...",
    "…",
    "。",
]
PIECES += [
    "word ",
    "Café ",
    "don't ",
    "U.S. ",
    "3.5",
    "狗",
    "犬が",
    "Привет",
    "👨‍👩‍👧",
    "🇩🇪",
    "\u200d",
    "e\u0301",
    "\ud800",
    "\x00",
]
PIECES += ["<think>", "</think>", "<b>", "[a](b)", "![", "\\", "---\n", "===\n", "END", "http://a.b/c "]
texts = st.one_of(st.lists(st.sampled_from(PIECES), max_size=25).map("".join), st.text(max_size=60))
scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 60), st.floats(), texts)
schemas = st.recursive(
    st.sampled_from(
        [{}, True, {"type": "string"}, {"type": "objct"}, {"$ref": "#"}, {"pattern": "(a+)+b"}, {"enum": [1]}]
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner, "minItems": st.integers(0, 3)}),
        st.fixed_dictionaries({"properties": st.dictionaries(texts, inner, max_size=2), "required": st.just(["a"])}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=2)}),
    ),
    max_leaves=4,
)
odd_values = st.one_of(scalars, st.lists(scalars, max_size=3), st.dictionaries(texts, scalars, max_size=2), schemas)
contents = st.one_of(st.lists(texts, max_size=3), texts, odd_values)


@st.composite
def sensible_parameters(draw, constraint_id: str) -> dict:
    """Parameters that fit the rule, now and then with a wrong or a missing one."""
    kinds = {"string": texts, "integer": st.integers(-1, 12), "object": schemas, "strings": st.lists(texts, max_size=2)}
    parameters = {"content": draw(contents)}
    for name, parameter in rule_parameters(constraint_id).items():
        fitting = st.sampled_from(parameter.choices) if parameter.choices else kinds[parameter.kind]
        if draw(st.integers(0, 9)):
            parameters[name] = draw(fitting if draw(st.integers(0, 9)) else odd_values)
    return parameters


@st.composite
def cases(draw) -> tuple:
    constraint_id = draw(st.sampled_from(FORMAT_IDS))
    return constraint_id, draw(sensible_parameters(constraint_id))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(), st.sampled_from(MODES))
def test_rules_never_raise_and_never_waver(case, mode):
    constraint_id, parameters = case
    verdict = check(constraint_id, parameters, mode)
    assert isinstance(verdict, Verdict)
    assert verdict.value in (True, False, None)
    assert verdict.reason
    assert check(constraint_id, parameters, mode) == verdict


@settings(max_examples=max(EXAMPLES // 10, 50), deadline=None, suppress_health_check=list(HealthCheck))
@given(odd_values, odd_values, st.sampled_from(MODES))
def test_foreign_ids_and_parameters_are_unscored(constraint_id, parameters, mode):
    if constraint_id not in FORMAT_IDS:
        assert check(constraint_id, parameters, mode).value is None
