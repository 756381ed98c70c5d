"""The language verdict is the same in every run and in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from trustvid.captioning.rules import check

TEXTS = [
    "Hello world",
    "THIS IS AN ENGLISH SENTENCE. EVERY LETTER IS CAPITALIZED!!! AMAZING.",
    "Le chien court",
    "tango dancers in Buenos Aires",
    "视频中一辆BMW驶过路口。",
]
PROGRAM = """
import json, sys
from trustvid.captioning.rules import check
print(json.dumps([list(vars(check("language", {"content": [t], "lang_type": "en"}, "strict")).values())
                  for t in json.load(sys.stdin)]))
"""


def _verdict(text: str) -> bool | None:
    return check("language", {"content": [text], "lang_type": "en"}, "strict").value


def test_sixty_repeats_give_one_verdict():
    for text, expected in zip(TEXTS, (True, True, False), strict=False):
        assert {_verdict(text) for _ in range(60)} == {expected}


def test_two_processes_give_the_same_bytes():
    outputs = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps(TEXTS),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert [value for value, _ in json.loads(outputs[0])][:3] == [True, True, False]
