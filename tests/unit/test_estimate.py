"""What work will cost: frames are counted as the processors count them, calls as the pipeline makes them."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from omegaconf import OmegaConf

from trustvid.benchmarks.sample import Sample
from trustvid.config.checking import build, check
from trustvid.config.compose import compose_config
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError
from trustvid.evaluation.estimate import (
    Clips,
    Cost,
    Rates,
    Showing,
    answer_cost,
    caption_cost,
    family_of,
    frame_tokens,
    judge_cost,
    line,
)
from trustvid.stages.cost import checklist_items, tell_answers, tell_judgements
from trustvid.video.writer import write_video

QWEN_BOUNDS = (50_176, 602_112)


@cache
def _composed(*overrides: str):
    return compose_config(overrides)


def composed(*overrides: str) -> dict:
    return OmegaConf.to_container(_composed(*overrides), resolve=True)


@pytest.mark.parametrize("policy", ["qwen2_5_vl_7b", "qwen3_vl_8b"])
@pytest.mark.parametrize(("height", "width", "n"), [(240, 320, 8), (720, 1280, 5), (64, 48, 2), (1280, 720, 3)])
def test_frames_have_as_many_tokens_as_the_processor_makes(policy, height, width, n):
    transformers = pytest.importorskip("transformers")
    node = composed(f"policy={policy}")["policy"]
    bounds = node["min_pixels"], node["max_pixels"]
    family = family_of(node["model"])
    count = 1 if family == "qwen2_5_vl" else n + n % 2  # Qwen3-VL bounds all frames of a clip together
    side = 14 if family == "qwen2_5_vl" else 16
    kind = transformers.Qwen2VLVideoProcessor if family == "qwen2_5_vl" else transformers.Qwen3VLVideoProcessor
    size = {"shortest_edge": bounds[0] * count, "longest_edge": bounds[1] * count}
    processor = kind(size=size, patch_size=side, merge_size=2, temporal_patch_size=2, do_sample_frames=False)
    frames = np.zeros((n + n % 2, height, width, 3), np.uint8)
    grid = processor(videos=[frames], return_tensors="pt")["video_grid_thw"][0]
    made = int(grid.prod()) // 4
    stamps = 10 * ((n + 1) // 2) if family == "qwen3_vl" else 0
    assert frame_tokens(n, Clips(width, height, 90, 9.0), Showing(family, True, bounds)) == made + stamps


def test_frames_of_other_families_and_of_no_family():
    clip = Clips(1280, 720, 90, 9.0)
    many = [frame_tokens(n, clip, Showing("qwen2_5_vl", True, QWEN_BOUNDS, 20_480 * 28**2)) for n in (52, 120)]
    assert many[0] == frame_tokens(52, clip, Showing("qwen2_5_vl", True, QWEN_BOUNDS)) and many[1] <= 20_480
    assert frame_tokens(8, clip, Showing("internvl")) == 8 * 264
    assert frame_tokens(8, clip, Showing("llava_onevision")) == 8 * 196
    assert frame_tokens(8, clip, Showing(None)) is None and frame_tokens(0, clip, Showing(None)) == 0
    assert frame_tokens(8, clip, Showing("internvl", as_video=False)) is None
    single, paired = (frame_tokens(8, clip, Showing("qwen2_5_vl", as_video, QWEN_BOUNDS)) for as_video in (False, True))
    assert paired == 4 * 36 * 20 and single == 8 * (36 * 20 + 10)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("Qwen/Qwen2.5-VL-72B-Instruct", "qwen2_5_vl"),
        ("Video-R1/Video-R1-7B", "qwen2_5_vl"),
        ("OpenGVLab/InternVL3_5-8B-HF", "internvl"),
        ("llava-hf/llava-onevision-qwen2-7b-ov-hf", "llava_onevision"),
        ("HuggingFaceTB/SmolVLM2-2.2B-Instruct", "smolvlm"),
        ("gpt-4o", None),
    ],
)
def test_families_are_known_by_the_names_of_their_models(model, family):
    assert family_of(model) == family


def test_calls_follow_the_method():
    given = {"question": 400, "frames": 8, "shown": 2000, "new": 256}
    none, frames, tools = (answer_cost(kind, False, **given) for kind in ("none", "frames", "tools"))
    assert answer_cost("chance", False, **given) == Cost()
    assert (none.calls, frames.calls, tools.calls) == (1, 1, 2)
    assert answer_cost("tools", True, **given).calls == 3
    assert frames.prompt == none.prompt + 2000 + 8 * 10 and (frames.most, tools.most) == (256, 512)
    assert tools.prompt > 2 * frames.prompt, "a server reads the frames again in the second turn"
    assert answer_cost("tools", False, **given, keeps=True).prompt < frames.prompt + 1000
    assert not answer_cost("frames", False, 400, 8, None, 256).frames_known
    assert answer_cost("none", False, 400, 8, None, None) == Cost(1, none.prompt, 150, None)
    assert answer_cost("frames", False, 400, 8, 0, 64).written == 64, "no reply is longer than it may be"


def test_captions_and_judgements():
    assert caption_cost(400, 8, 2000, True, 64).prompt - caption_cost(400, 8, 2000, False, 64).prompt == 650
    plain, after_a_thought = (caption_cost(400, 8, 2000, False, None, thinks) for thinks in (False, True))
    assert (plain.written, after_a_thought.written, plain.most) == (120, 1620, None)
    assert judge_cost(0, 400, 300, None) == Cost(0, 0, 0, None)
    cost = judge_cost(5, 400, 300, 512)
    assert (cost.calls, cost.prompt, cost.most) == (5, 5 * (400 + 100 + 75), 5 * 512)
    assert (cost + Cost(1, 2, 3, 4)).most == 2564 and (cost + Cost(1, 2, 3, None)).most is None
    checklist = {
        "ruled_based_check": [{}, {}],
        "open_ended_check": [{"check_items": [{}, {}, {}]}, {"check_content": "nothing"}],
    }
    assert checklist_items(checklist) == 5 and checklist_items(None) == 0


def test_the_line_says_what_is_known():
    cost = Cost(1200, 2_500_000, 90_000, 900_000)
    assert line("policy m", cost, Rates()).endswith("time unknown; price unknown")
    said = line("policy m", cost, Rates(50.0, [0.5, 2.0]))
    assert "1,200 calls, about 2.5 M tokens read, 90 k written (at most 900 k)" in said
    assert said.endswith("; 30 min (5.0 h); 1.43 (3.05) to pay")
    blind = line("policy m", Cost(1, 800, 100, None, frames_known=False), Rates(50.0, [0.5, 2.0]))
    assert blind.endswith("800 tokens read beside the frames, 100 written; 1 min; 0.00 to pay beside the frames")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("estimate.policy.tokens_per_s=0", "tokens_per_s=0; expected more than 0"),
        ("estimate.judge.price_per_mtok=[1]", "price_per_mtok=[1]; expected [read, written]"),
        ("estimate.judge.price_per_mtok=3", "price_per_mtok=3 has the wrong type"),
    ],
)
def test_wrong_rates_are_refused(override, message):
    with pytest.raises(ConfigError) as caught:
        check(composed(override), EvaluateConfig)
    assert message in str(caught.value)


@pytest.fixture
def sample(tmp_path) -> Sample:
    path = tmp_path / "clip.mp4"
    rng = np.random.default_rng(0)
    write_video(path, rng.integers(0, 256, (12, 96, 128, 3), dtype=np.uint8), 10)
    return Sample("1", path, "c", "AO", "What comes first?", ("a", "b"), "A")


def test_only_open_answers_of_models_are_told(sample, capsys):
    overrides = ["policy=qwen2_5_vl_7b", "methods=[chance,direct,no_evidence]", "corruption=[]"]
    config = composed(*overrides, "estimate.policy.tokens_per_s=40")
    keys = list(itertools.product(["1"], config["methods"], ["clean", "glare"]))
    assert tell_answers(config, [sample], set(), ["clean", "glare"])
    said = capsys.readouterr().out
    assert "policy Qwen2.5-VL-7B-Instruct: 4 calls" in said and "600 written (at most 16.4 k); 1 min (7 min)" in said
    assert tell_answers(config, [sample], set(keys[:3]), ["clean", "glare"])  # chance and one direct are there
    assert ": 3 calls" in capsys.readouterr().out
    assert not tell_answers(config, [sample], set(keys), ["clean", "glare"])
    assert not tell_answers(composed(*overrides[1:]), [sample], set(), ["clean"])  # scripted
    assert capsys.readouterr().out == ""


def test_a_video_that_cannot_be_read_leaves_its_frames_out(sample, tmp_path, capsys):
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    broken = Sample("2", tmp_path / "bad.mp4", "d", "AO", "What?", ("a", "b"), "A")
    config = composed("policy=qwen2_5_vl_7b", "methods=[direct]", "corruption=[]")
    assert tell_answers(config, [broken], set(), ["clean"])
    assert "tokens read beside the frames" in capsys.readouterr().out


def test_judges_without_a_model_cost_nothing(capsys):
    sizes = [(3, 200, 300)]
    for judge in ("rules_only", "mock"):
        assert not tell_judgements(composed(f"judge={judge}"), sizes)
    assert capsys.readouterr().out == ""
    assert tell_judgements(composed("judge=hf_local"), sizes)
    assert "judge Qwen/Qwen3-32B: 3 calls" in capsys.readouterr().out


def test_rates_are_built_from_the_config():
    assert build(composed("estimate.judge.price_per_mtok=[0.25,2]")["estimate"]["judge"]).price_per_mtok == [0.25, 2]
