"""Captions by vision-language policies: the published frames, the published thinking, and a whole run of a tiny one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from omegaconf import OmegaConf

from trustvid.config.checking import build, check
from trustvid.config.compose import compose_config, group_options
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError
from trustvid.evaluation.caption_protocol import UNCLOSED, CaptionProtocol, split_thought
from trustvid.policy.base import PolicyError, PolicyRequest
from trustvid.stages import evaluate

ROOT = Path(__file__).resolve().parents[2]


@cache
def _composed(*overrides: str):
    return compose_config(overrides)


def composed(*overrides: str) -> dict:
    return OmegaConf.to_container(_composed(*overrides), resolve=True)


# -- what is published for a policy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "fps", "placing", "thinking", "decoding"),
    [
        ("qwen3_vl_8b", 2.0, "ends", "none", (0.1, 0.001, 1.05, 4096)),
        ("qwen2_5_vl_72b", 2.0, "ends", "none", (0.1, 0.001, 1.05, 4096)),
        ("internvl3_5_8b", 1.0, "centres", "none", (0.1, 0.001, 1.05, 2048)),
        ("internvl3_5_8b_thinking", 1.0, "centres", "prompted", (0.6, 0.001, 1.05, 8192)),
        ("qwen3_vl_8b_thinking", 2.0, "ends", "opened", (1.0, 0.95, 1.0, 40960)),
        ("scripted", None, "ends", "none", (None,) * 4),
        ("smolvlm2", None, "ends", "none", (1.0, 1.0, 1.0, 1024)),
    ],
)
def test_a_policy_brings_what_is_published_for_it(policy, fps, placing, thinking, decoding):
    config = composed("benchmark=if_vidcap", "data_dir=/data", f"policy={policy}", "evidence=none")
    check(config, EvaluateConfig)
    protocol = build(config["captioning"])
    assert (protocol.fps, protocol.placing, protocol.thinking) == (fps, placing, thinking)
    names = ("temperature", "top_p", "repetition_penalty", "max_new_tokens")
    assert tuple(config["policy"].get(name) for name in names) == decoding


def test_every_preset_belongs_to_a_policy_and_is_replaced_from_the_command_line():
    assert set(group_options("captioning")) <= set(group_options("policy"))
    config = composed("policy=qwen3_vl_8b", "captioning.fps=null", "frames=32")
    assert build(config["captioning"]).count(900, 30.0, config["frames"]) == 32
    assert build(composed("policy=tiny_qwen2_5_vl", "captioning=internvl3_5_8b")["captioning"]).placing == "centres"


def test_questions_do_not_read_the_settings_of_captions():
    from trustvid.evaluation.provenance import config_hash
    from trustvid.stages.evaluate import NOT_IN_HASH, unread_settings

    one, other = composed("captioning.fps=1"), composed("captioning.fps=2", "estimate.policy.tokens_per_s=9")
    hashes = {config_hash(config, (*NOT_IN_HASH, *unread_settings(config))) for config in (one, other)}
    assert len(hashes) == 1


def clip(n_frames: int, fps: float) -> SimpleNamespace:
    return SimpleNamespace(n_frames=n_frames, fps=fps)


@pytest.mark.parametrize(("n_frames", "fps"), [(10, 5.0), (33, 10.0), (102, 5.0), (300, 5.0), (900, 30.0), (1, 5.0)])
def test_frames_are_those_of_the_published_scripts(n_frames, fps):
    qwen = build(composed("captioning=qwen2_5_vl_7b")["captioning"])
    wanted = min(max(n_frames / fps * 2.0, 4), 768, n_frames)  # qwen-vl-utils
    expected = np.round(np.linspace(0, n_frames - 1, max(1, int(wanted) // 2 * 2))).astype(int)
    assert list(qwen.frames(clip(n_frames, fps), 8)) == expected.tolist()

    intern = build(composed("captioning=internvl3_5_8b")["captioning"])
    segments = max(1, int(n_frames / fps))
    length = (n_frames - 1) / segments  # the example of its model card
    expected = [int(length / 2 + np.round(length * place)) for place in range(segments)]
    assert list(intern.frames(clip(n_frames, fps), 8)) == expected


def test_wrong_settings_come_together():
    with pytest.raises(ConfigError) as caught:
        CaptionProtocol(fps=0, placing="middle", thinking="opened", thinking_prompt="Think.", least=9, most=8)
    assert len(caught.value.faults) == 4


# -- thinking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "opened", "thought", "caption"),
    [
        ("A car.", False, None, "A car."),
        ("<think>\nred\n</think>\n\nA car.\n", False, "red", "A car.\n"),
        ("red, so</think>A car.", True, "red, so", "A car."),
        ("red, so</think>A car.", False, "red, so", "A car."),
        ("red, so", True, "red, so", None),
        ("<think>red, so", False, "red, so", None),
        ("<think>a</think>A car.<think>no, a bus", False, "aA car.no, a bus", None),
        ("<think>a</think>b</think>A car.", False, "a</think>b", "A car."),
        ("<think>red</think>", False, "red", ""),
        ("", True, "", None),
    ],
)
def test_a_thought_is_no_part_of_the_caption(reply, opened, thought, caption):
    assert split_thought(reply, opened) == (thought, caption)


def test_a_prompt_for_thinking_is_the_system_message():
    protocol = build(composed("policy=internvl3_5_8b_thinking")["captioning"])
    system, user = protocol.messages("Obey.", "Write a haiku.", (0, 5))
    assert (system.role, user.role, user.frames) == ("system", "user", (0, 5))
    assert "<think> and </think>" in system.text and user.text == "Obey.\n\nWrite a haiku."
    plain, _ = CaptionProtocol().messages("Obey.", "Write a haiku.", (0, 5))
    assert plain.text == "Obey."


class Canned:
    """Says what models say around thoughts, one after the other; ``parallel`` conversations at a time."""

    SAID = ("<think>a tower</think>\nA tower stands.", "<think>a tower, and", "<think>a tower</think>", "A tower.")

    def __init__(self, parallel: int = 4, fails: bool = False):
        self.name, self.parallel, self.fails = "canned", parallel, fails
        self.asked: list[int] = []

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        self.asked.append(len(requests))
        replies = [self.SAID[place % 4] for place in range(len(requests))]
        if self.fails:
            raise PolicyError("1 of them failed", [None, *replies[1:]], {0: "the server was away"})
        return replies


def responses_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "responses.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory) -> Path:
    """Generated clips, once for all tests here."""
    return tmp_path_factory.mktemp("cache")


def run_canned(tmp_path: Path, cache_dir: Path, *overrides: str, **settings) -> Path:
    paths = [f"paths.cache={cache_dir}", f"paths.outputs={tmp_path}/outputs"]
    small = ["benchmark=boxworld_captions", "benchmark.n_videos=1", "workers=0", "evidence=none", "frames=4"]
    cfg = compose_config([*small, *paths, *overrides])
    OmegaConf.set_struct(cfg, False)
    cfg.policy = {"_target_": "tests.unit.test_captions_vlm.Canned", **settings}
    return evaluate.run(cfg)


def test_thoughts_are_kept_apart_and_unclosed_ones_are_never_judged(tmp_path, cache_dir):
    folder = run_canned(tmp_path, cache_dir)
    closed, unclosed, empty, plain = responses_of(folder)
    assert (closed["text"], closed["thinking"], closed["reason"]) == ("A tower stands.", "a tower", None)
    assert (unclosed["text"], unclosed["thinking"], unclosed["reason"]) == (None, "a tower, and", UNCLOSED)
    assert (empty["text"], empty["thinking"], empty["reason"]) == (None, "a tower", "the response is empty")
    assert (plain["text"], plain["thinking"]) == ("A tower.", None)
    judged = [json.loads(line)["task_id"] for line in (folder / "judgements.jsonl").read_text().splitlines()]
    assert judged == [closed["task_id"], plain["task_id"]]
    reasons = {
        one["reason"]: one["n"] for one in json.loads((folder / "metrics.json").read_text())["context"]["unjudged"]
    }
    assert reasons == {UNCLOSED: 1, "the response is empty": 1}


def test_where_the_template_opens_the_thought_a_reply_without_its_end_is_unclosed(tmp_path, cache_dir):
    folder = run_canned(tmp_path, cache_dir, "captioning=qwen3_vl_8b_thinking", "mode=infer")
    assert [record["reason"] for record in responses_of(folder)] == [None, UNCLOSED, "the response is empty", UNCLOSED]
    decode = json.loads((folder / "about.json").read_text())["decode"]
    assert (decode["frames"], decode["thinking"]) == ("2 a second", "opened")


def test_a_failed_request_takes_no_other_with_it(tmp_path, cache_dir):
    first, second, third, fourth = responses_of(run_canned(tmp_path, cache_dir, "mode=infer", fails=True))
    assert (first["text"], first["reason"]) == (None, "the server was away")
    assert second["reason"] == UNCLOSED and third["thinking"] == "a tower" and fourth["text"] == "A tower."


def test_a_tiny_model_captions_offline_from_the_command_line(tmp_path, cache_dir, capsys):
    quiet = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRUSTVID_CACHE": str(cache_dir)}
    command = [sys.executable, str(ROOT / "evaluate.py"), "benchmark=boxworld_captions", "benchmark.n_videos=1"]
    command += ["policy=tiny_qwen2_5_vl", "captioning=qwen2_5_vl_7b", "policy.max_new_tokens=16", "evidence=none"]
    result = subprocess.run(command, cwd=tmp_path, env=quiet, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-1000:] + result.stderr[-3000:]
    assert "estimate: policy tiny_qwen2_5_vl: 4 calls" in result.stdout and "(at most 64)" in result.stdout
    assert "tiny_qwen2_5_vl, judged by rules_only: 4 of 4 instructions scored" in result.stdout
    (folder,) = (tmp_path / "outputs" / "evaluate").iterdir()
    records = responses_of(folder)
    assert len({record["text"] for record in records}) == 4 and all(record["thinking"] is None for record in records)
    paths = [f"paths.cache={cache_dir}", f"paths.outputs={tmp_path}/outputs"]
    assert evaluate.run(compose_config([*command[2:], *paths, "mode=estimate"])).resolve() == folder.resolve()
    assert "estimate: no call of a model is open" in capsys.readouterr().out
