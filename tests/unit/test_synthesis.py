"""Routing (Table 18), tiers (E.3), words on things, and the prompts."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from trustvid.agent.prompting import Prompts
from trustvid.agent.routing import CANDIDATES, TABLE_18, Fixed, Random, Table, column_of
from trustvid.agent.synthesis import Link, LogOdds, Tiered, Uniform, link_words, match_word, tier_of
from trustvid.errors import ConfigError
from trustvid.tools.evidence import TOOL_NAMES, Evidence, Observation, SubQuery

THREE = ("read_text", "detect_objects", "recognize_action")


def test_the_routing_table_is_the_papers():
    everything = TOOL_NAMES

    def route(kind, disturbance, available):
        return Table().route(SubQuery("?", kind), disturbance, available)

    assert [route("spatial", d, everything) for d in ("clean", "blur", "brightness", "occlusion")] == [
        "detect_objects",
        "caption_frame",
        "detect_objects",
        "caption_frame",
    ]
    assert route("temporal", "occlusion", everything) == "recognize_action"
    assert route("action", "blur", everything) == "caption_frame"
    assert route("text", "blur", everything) == "caption_frame"
    assert route("attribute", "occlusion", everything) == "detect_objects"


@pytest.mark.parametrize("kind", sorted(TABLE_18))
@pytest.mark.parametrize("disturbance", ["clean", "blur", "brightness", "occlusion"])
def test_with_three_tools_every_type_still_finds_one(kind, disturbance):
    assert Table().route(SubQuery("?", kind), disturbance, THREE) in THREE


def test_fixed_routing_ignores_the_disturbance_and_bad_names_are_refused():
    text = SubQuery("What is written there?", "text")
    assert Fixed().route(text, "blur", TOOL_NAMES) == "read_text"
    chosen = Fixed({"text": "caption_frame"})
    assert chosen.route(text, "clean", TOOL_NAMES) == "caption_frame"
    assert chosen.route(text, "clean", ("read_text",)) == "read_text"  # not installed
    with pytest.raises(ValueError, match="text: track_temporal, smell: read_text; expected spatial: detect_objects or"):
        Fixed({"text": "track_temporal", "smell": "read_text"})
    with pytest.raises(ValueError, match="known: clean, blur"):
        Table().route(text, "fog", TOOL_NAMES)
    assert Table().route(text, "clean", ("detect_objects",)) == "read_text", "the executor reports what is missing"


def test_our_channels_find_their_column_of_the_table():
    assert [column_of(name) for name in ("noise", "glare", "dark", "blur", "occlusion", "clean")] == [
        "blur",
        "brightness",
        "brightness",
        "blur",
        "occlusion",
        "clean",
    ]
    for kind in TABLE_18:
        assert {column_of(name) for name in ("noise", "glare", "dark")} <= TABLE_18[kind].keys()


def test_random_routing_is_drawn_anew_for_each_question_whatever_the_order():
    query = SubQuery("Where is the thing?", "spatial")
    asked = [f"question {i}" for i in range(60)]
    drawn = [Random(0).route(query, "clean", TOOL_NAMES, one) for one in asked]
    assert drawn == [Random(0).route(query, "clean", TOOL_NAMES, one) for one in reversed(asked)][::-1]
    assert set(drawn) == set(CANDIDATES["spatial"]) and 15 < drawn.count("detect_objects") < 45
    assert drawn != [Random(1).route(query, "clean", TOOL_NAMES, one) for one in asked]
    assert Random(0).route(query, "clean", ("detect_objects",)) == "detect_objects"
    assert Random(0).route(SubQuery("?", "text"), "clean", ("detect_objects",)) == "read_text", "told as missing"


@pytest.mark.parametrize(
    ("confidence", "disturbance", "tier"),
    [
        (0.7, 0.29, "high"),
        (0.7, 0.3, "medium"),
        (0.69, 0.0, "medium"),
        (0.29, 0.0, "low"),
        (0.9, 0.7, "low"),
        (0.3, 0.69, "medium"),
    ],
)
def test_tier_borders(confidence, disturbance, tier):
    assert tier_of(confidence, disturbance) == tier


def text(word: str, frame: int, x: float) -> Observation:
    return Observation(frame, frame / 10, "text", word, 0.9, (x, 0.4, x + 0.1, 0.5))


def thing(label: str, frame: int, x: float) -> Observation:
    return Observation(frame, frame / 10, "object", label, 0.9, (x - 0.05, 0.2, x + 0.2, 0.9))


def evidence(tool: str, kind: str, observations: list[Observation], confidence: float = 0.8) -> Evidence:
    return Evidence(
        SubQuery("?", kind), tool, tuple(observations), "", confidence, (0, 5), 0.5, None, confidence, (0.1, 0.1)
    )


def test_words_are_linked_to_the_things_they_stand_on():
    reads = evidence(
        "read_text", "text", [text("CAFF", 0, 0.1), text("BANK", 0, 0.6), text("CAFE", 5, 0.3), text("MENU", 5, 0.7)]
    )
    boxes = evidence(
        "detect_objects",
        "spatial",
        [thing("red box", 0, 0.1), thing("blue box", 0, 0.6), thing("red box", 5, 0.3), thing("sign", 5, 0.3)],
    )
    assert link_words([reads, boxes], ["CAFE", "BANK", "HOTEL"]) == [
        Link("BANK", "blue box", 1.0, 1.0),
        Link("CAFE", "red box", 2.0, 2.0),
    ]


def test_a_thing_carries_one_word_only():
    reads = evidence("read_text", "text", [text("CAFE", 0, 0.1), text("CAFE", 5, 0.1), text("BANK", 0, 0.1)])
    boxes = evidence("detect_objects", "spatial", [thing("red box", 0, 0.1), thing("red box", 5, 0.1)])
    assert [link.word for link in link_words([reads, boxes], ["BANK", "CAFE"])] == ["CAFE"]


def test_readings_match_words_with_dropped_letters_but_not_others():
    assert match_word("OPERA", ["OPERA", "MALL"]) == "OPERA"
    assert match_word("OPER", ["OPERA", "MALL"]) == "OPERA"
    assert match_word("PARK", ["OPERA", "MALL"]) is None
    assert match_word("-- ", ["OPERA"]) is None


def test_tiered_synthesis_sorts_and_uniform_does_not():
    good, bad = evidence("read_text", "text", [], 0.9), evidence("detect_objects", "spatial", [], 0.2)
    assert [item.tier for item in Tiered().sort([good, bad])] == ["high", "low"]
    assert [item.tier for item in Uniform().sort([good, bad])] == [None, None]


@pytest.mark.parametrize("folder", ["full", "compact"])
def test_shipped_prompts_name_the_real_letters(folder):
    prompts = Prompts(folder)
    rendered = prompts.render("synthesise", evidence="## Evidence\nnone was gathered", letters="A to G", numeric=False)
    assert "A to G" in rendered and "<answer>" in rendered
    assert "number" in prompts.render("synthesise", evidence="", letters="", numeric=True)


def test_the_tiny_prompts_say_in_a_few_words_what_a_turn_is_about():
    prompts = Prompts("tiny")
    assert prompts.render("decompose", brief_question="## Question\nWhere is the BED?").startswith("## Question\nWhere")
    routing = prompts.render("route", brief_sub_queries="## Tools\n1 text: read_text", disturbance="blur")
    assert routing == "## Tools\n1 text: read_text\nDisturbance: blur"
    told = "## Evidence\n1 read_text failed"
    assert prompts.render("synthesise", evidence=told, letters="A to G", numeric=False) == f"{told}\nAnswer A to G"
    assert prompts.render("synthesise", evidence=told, letters="", numeric=True) == f"{told}\nAnswer number"


def test_a_missing_prompt_folder_says_what_is_missing_and_what_exists(tmp_path):
    (tmp_path / "system.j2").write_text("x")
    with pytest.raises(ConfigError, match=r"decompose\.j2 .*synthesise\.j2 .*not found; shipped: compact, full, tiny"):
        Prompts(str(tmp_path))


def sure(observation: Observation, confidence: float | None) -> Observation:
    return replace(observation, confidence=confidence)


def test_log_odds_let_one_sure_reading_outvote_two_doubtful_ones():
    boxes = evidence("detect_objects", "spatial", [thing("red box", 0, 0.1), thing("blue box", 5, 0.5)])
    readings = [(text("CAFE", 0, 0.1), 0.97), (text("CAFE", 5, 0.5), 0.05), (text("CAFF", 5, 0.52), 0.06)]
    reads = evidence("read_text", "text", [sure(reading, c) for reading, c in readings])
    (link,) = LogOdds().link([reads, boxes], ["CAFE"])
    votes = [math.log(c / (1 - c)) + math.log(23) for c in (0.97, 0.05, 0.06)]
    assert (link.word, link.thing) == ("CAFE", "red box")
    assert (link.votes, link.total) == (pytest.approx(votes[0]), pytest.approx(sum(votes)))
    (plain,) = Uniform().link([reads, boxes], ["CAFE"])
    assert plain.thing == "blue box", "two votes against one"


def test_a_reading_worse_than_chance_has_no_vote_and_no_confidence_is_one_vote():
    boxes = evidence("detect_objects", "spatial", [thing("red box", 0, 0.1)])
    assert LogOdds().link([evidence("read_text", "text", [sure(text("CAFE", 0, 0.1), 0.02)]), boxes], ["CAFE"]) == []
    unknown = evidence("read_text", "text", [text("CAFE", 0, 0.1)])
    assert LogOdds().link([unknown, boxes], ["CAFE"]) == Uniform().link([unknown, boxes], ["CAFE"])
    with pytest.raises(ValueError, match="at least 2"):
        LogOdds(alternatives=1)


def test_confidences_of_single_observations_count_in_log_odds_alone():
    reads = evidence("read_text", "text", [sure(text("CAFE", 0, 0.1), 0.4)])
    assert LogOdds().sort([reads])[0].observations[0].weight == 0.4
    for synthesis in (Uniform(), Tiered()):
        assert synthesis.sort([reads])[0].observations[0].weight == 0.9, "the tool's own score"
