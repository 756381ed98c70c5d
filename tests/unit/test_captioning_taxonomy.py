"""The taxonomy is the paper's: 27 types, their ids and the bars of Fig. 5."""

from __future__ import annotations

from collections import Counter

import pytest

from trustvid.captioning.rules import strict, upstream
from trustvid.captioning.taxonomy import (
    CONSTRAINT_TYPES,
    CONTENT_IDS,
    FIGURE_GROUPS,
    FORMAT_IDS,
    figure_group_of,
    rule_parameters,
    types_of,
)


def test_twenty_seven_types_in_five_families():
    assert len({type_.key for type_ in CONSTRAINT_TYPES}) == 27
    assert Counter(type_.group for type_ in CONSTRAINT_TYPES) == {"format": 14, "content": 13}
    families = Counter(type_.family for type_ in CONSTRAINT_TYPES)
    assert families == {"structural": 7, "stylistic": 7, "element": 5, "abstraction": 3, "framing": 5}


def test_merged_content_types_share_an_id():
    assert (len(FORMAT_IDS), len(CONTENT_IDS)) == (14, 10)
    assert [type_.key for type_ in types_of("entities_attributes")] == ["entity", "attribute"]
    assert types_of("if_else") == ()


def test_every_type_has_its_bar():
    assert len(FIGURE_GROUPS) == 22
    assert {type_.figure_group for type_ in CONSTRAINT_TYPES} == set(FIGURE_GROUPS)
    assert figure_group_of("unordered_list") == figure_group_of("ordered_list") == "List"
    assert figure_group_of("no_such") is None


def test_every_format_id_has_both_rules():
    assert set(strict.RULES) == set(upstream.RULES) == set(FORMAT_IDS)


def test_parameters_have_the_published_defaults():
    length = rule_parameters("length")
    assert (length["min_len"].default, length["max_len"].default, length["unit"].required) == (0, -1, True)
    with pytest.raises(KeyError, match="plain_text"):
        rule_parameters("summary")
