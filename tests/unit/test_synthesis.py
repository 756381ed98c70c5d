"""Routing (Table 18), tiers (E.3), words on things, and the prompts."""

from __future__ import annotations

import pytest

from trustvid.agent.prompting import Prompts
from trustvid.agent.routing import TABLE_18, Fixed, Table
from trustvid.agent.synthesis import Link, Tiered, Uniform, link_words, match_word, tier_of
from trustvid.errors import ConfigError
from trustvid.tools.evidence import TOOL_NAMES, Evidence, Observation, SubQuery

THREE = ("read_text", "detect_objects", "recognize_action")


def test_the_routing_table_is_the_papers():
    everything = TOOL_NAMES
    route = Table().route
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
    assert Table().route(kind, disturbance, THREE) in THREE


def test_fixed_routing_ignores_the_disturbance_and_bad_names_are_refused():
    assert Fixed().route("text", "blur", TOOL_NAMES) == "read_text"
    with pytest.raises(ValueError, match="known: clean, blur"):
        Table().route("text", "fog", TOOL_NAMES)
    assert Table().route("text", "clean", ("detect_objects",)) == "read_text", "the executor reports what is missing"


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


def test_a_missing_prompt_folder_says_what_is_missing_and_what_exists(tmp_path):
    (tmp_path / "system.j2").write_text("x")
    with pytest.raises(ConfigError, match=r"decompose\.j2 .*synthesise\.j2 .*not found; shipped: compact, full"):
        Prompts(str(tmp_path))
