"""The scripted caption writer: what it understands of an instruction, and that it tells only what it was shown.

pytest tests/unit/test_captions_writer.py -q -n 0
"""

from __future__ import annotations

import json

import pytest

from trustvid.policy.scripted.caption_request import read_request
from trustvid.policy.scripted.captions import asks_for_caption, write_caption

EVIDENCE = """## Evidence
[1] read_text: Which words are written in the picture, and where?
  looked at frames 0 10
  result: text: "CAFE" (2 frames)
  frame 0 (0.00 s): "CAFE" at [0.100 0.400 0.200 0.450] 0.99
  frame 10 (1.00 s): "BANK" at [0.600 0.400 0.700 0.450] 0.98
[2] detect_objects: Which coloured things are there, and where in the picture?
  looked at frames 0 10
  result: objects: red box
  frame 0 (0.00 s): red box at [0.050 0.300 0.250 0.700] 1.00
  frame 10 (1.00 s): blue box at [0.550 0.300 0.750 0.700] 1.00
[3] recognize_action: How does the camera move and turn?
  looked at 90 frames from 0 to 89
  result: camera: forward; turn left
  from 0.00 to 4.00 s: forward, yaw +0.0 degrees, score 0.90
  from 4.00 to 5.00 s: turn left, yaw -90.0 degrees, score 0.95
### Words on things
"BANK" is written on the blue box (2.00 of 2.00)
"CAFE" is written on the red box (2.00 of 2.00)"""
FRAMES = "## Frames\n320x240 pixels, 90 frames, 9.00 s. Frames shown: 0 (0.00 s); 10 (1.00 s)"


def write(instruction: str, evidence: str = EVIDENCE) -> str:
    return write_caption(["You describe videos.", f"## Instruction\n{instruction}\n\n{FRAMES}\n\n{evidence}"])


def test_a_caption_is_told_from_a_question():
    assert asks_for_caption(["system", "## Instruction\nDescribe."])
    assert not asks_for_caption(["system", "## Question\nWhere is the CAFE?"])


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("Return a JSON object with the keys 'a' and 'b'.", {"layout": "object", "keys": ("a", "b")}),
        ("Write an unordered list with '*'.", {"layout": "bulleted", "symbol": "*"}),
        (
            "Use an ordered list starting with 'A.' of exactly 3 items.",
            {"layout": "numbered", "symbol": "A.", "parts": 3},
        ),
        ("Make a table with the columns 'What' and 'Where'.", {"layout": "table", "columns": ("What", "Where")}),
        ("Give five tags separated by ';', each at most 2 words.", {"layout": "tags", "symbol": ";", "max_words": 2}),
        ("Write exactly 3 sentences.", {"layout": "prose", "parts": 3, "unit": "sentence"}),
        ("Do not use the word 'very'. Use the word 'calm'.", {"banned": ("very",), "words": ("calm",)}),
        (
            "Begin with 'Report:'. End with 'Over'. Write in Chinese.",
            {"prefix": "Report:", "suffix": "Over", "chinese": True},
        ),
    ],
)
def test_forms_are_read_from_instructions(instruction, expected):
    request = read_request(instruction)
    assert {name: getattr(request, name) for name in expected} == expected


def test_it_writes_what_the_evidence_says_in_the_form_asked_for():
    points = "in this order: 'colour': give the colour of the tower with the sign CAFE; 'order': compare which of BANK and CAFE appears first"
    text = write(f"Describe the video as a JSON object with exactly the keys 'colour' and 'order', {points}.")
    assert json.loads(text) == {"colour": "The CAFE is red.", "order": "The CAFE appears before the BANK."}
    listed = write(
        "Write an ordered list that starts with 'i.', in this order: (1) infer what carries the camera; (2) tell which way the flight first turns. Do not use the word 'probably'."
    )
    assert listed == "i. A drone carries the camera.\nii. After the opening stretch it turns left."


def test_it_does_not_mention_what_it_must_not_and_claims_nothing_without_evidence():
    assert "BANK" not in write("Describe the video. Do not mention the BANK.")
    blank = write(
        "In this order: (1) give the colour of the tower with the sign GYM; (2) tell what comes into view last.",
        "## Evidence\nnone was gathered",
    )
    assert blank == "The tools report nothing about this. The tools report nothing about this."


def test_it_says_the_same_each_time():
    instruction = "Describe the video in 20 to 30 words. End with 'ahoy'."
    assert write(instruction) == write(instruction) and write(instruction).endswith("ahoy")
