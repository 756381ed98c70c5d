"""The check of a machine: at tiny size it takes the same way everywhere, and the large model has the published shape."""

from __future__ import annotations

import importlib.util
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
    for row in ("device ", "dtype            float32", "load ", "peak memory "):
        assert row in said
    assert re.search(r"^4 frames +direct +anchored$", said, re.MULTILINE)
    direct, anchored = re.search(r"^prompt tokens +([\d,]+) +([\d,]+)$", said, re.MULTILINE).groups()
    assert 100 < int(direct.replace(",", "")) < int(anchored.replace(",", ""))
    for batch in (1, 8):
        speeds = re.search(rf"^tokens/s batch {batch} +([\d.]+) +([\d.]+)$", said, re.MULTILINE)
        assert speeds and all(float(speed) > 0 for speed in speeds.groups()), said
    difference = float(re.search(r"differ by at most ([\d.e+-]+)$", said, re.MULTILINE)[1])
    assert difference < 1e-3  # float32


def test_the_large_model_has_the_published_shape():
    from transformers import AutoModelForImageTextToText, Qwen2_5_VLConfig

    spec = importlib.util.spec_from_file_location("gpu_check", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    sys.modules["gpu_check"] = script
    spec.loader.exec_module(script)
    with torch.device("meta"):  # no memory
        network = AutoModelForImageTextToText.from_config(script.config_7b(Qwen2_5_VLConfig()), dtype=torch.bfloat16)
    assert network.num_parameters() == 8_292_166_656  # of Qwen2.5-VL-7B-Instruct on the hub
    assert network.config.text_config.rope_parameters["mrope_section"] == [16, 24, 24]
