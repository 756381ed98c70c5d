"""The check of a machine: at tiny size it takes the same way everywhere, and the large model has the published shape."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu_check.py"


def test_it_measures_the_tiny_model_on_any_machine():
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(SCRIPT), "--size", "tiny", "--threads", "1"]
    result = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=240)
    assert result.returncode == 0, result.stderr
    said = result.stdout
    for row in ("device ", "dtype            float32", "load ", "clip "):
        assert row in said
    assert re.search(r"^4 frames +direct +anchored$", said, re.MULTILINE)
    for batch in (1, 8):
        prompts = re.search(rf"^prompt tokens batch {batch} +([\d,]+) +([\d,]+)$", said, re.MULTILINE)
        direct, anchored = (int(count.replace(",", "")) for count in prompts.groups())
        assert 100 < direct < anchored
        for row in ("tokens/s", "peak GB"):
            found = re.search(rf"^{row} batch {batch} +([\d.]+) +([\d.]+)$", said, re.MULTILINE)
            assert found and all(float(value) > 0 for value in found.groups()), said
    difference = float(re.search(r"differ by at most ([\d.e+-]+)$", said, re.MULTILINE)[1])
    assert difference < 1e-3  # float32


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = module
    spec.loader.exec_module(module)
    return module


def test_nothing_is_begun_when_the_minutes_are_over(script, capsys):
    policies = dict.fromkeys(script.BATCHES)
    bench = script.Bench("cpu", None, policies, {}, None, 32, ends=0.0)
    assert all(measure(bench) for measure in script.MEASUREMENTS)
    said = capsys.readouterr().out
    assert re.search(r"^tokens/s batch 8 +no time +no time$", said, re.MULTILINE) and "alone   no time" in said


def test_a_batch_that_found_no_room_is_told_from_one_that_did(script, monkeypatch, capsys):
    """Answers are those of the policy; here only what ``ask`` begins is counted."""
    policy = script.TimedPolicy("tiny", max_new_tokens=4)
    model = script.CountedModel(None, None, None, None)

    def ask(pipeline, view, policy, number):
        policy.spent = script.Spent(tokens=10, seconds=2.0, prompt=300)
        model.begun.extend([8, 1, 1] if number == 8 else [1])

    monkeypatch.setattr(script, "ask", ask)
    methods = dict.fromkeys(script.METHODS)
    bench = script.Bench("cpu", model, dict.fromkeys(script.BATCHES, policy), methods, None, 4, ends=math.inf)
    assert script.answering(bench)
    said = capsys.readouterr().out
    assert re.search(r"^tokens/s batch 1 +5\.0 +5\.0$", said, re.MULTILINE)
    assert re.search(r"^tokens/s batch 8 +no room +no room$", said, re.MULTILINE)


def test_the_large_model_has_the_published_shape(script):
    from transformers import AutoModelForImageTextToText, Qwen2_5_VLConfig

    with torch.device("meta"):  # no memory
        network = AutoModelForImageTextToText.from_config(script.config_7b(Qwen2_5_VLConfig()), dtype=torch.bfloat16)
    assert network.num_parameters() == 8_292_166_656  # of Qwen2.5-VL-7B-Instruct on the hub
    assert network.config.text_config.rope_parameters["mrope_section"] == [16, 24, 24]
