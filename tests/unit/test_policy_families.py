"""Every published vision-language policy of conf/policy, by its own config, on a tiny checkpoint of its family.

The checkpoints are saved in the transformers format and loaded by the code that the published weights take, with no
network. What is particular to a family (its processor, its chat template, its way to tell times) shows here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from tests.unit.fakes import ArraySource
from trustvid.config.checking import build
from trustvid.config.compose import CONF, compose_config, group_options
from trustvid.errors import TrustvidError
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.vlm import VisionLanguagePolicy
from trustvid.policy.vlm_families import FAMILIES

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.disable_socket

# Config → the model type in the config.json of its weights.
OPTIONS = {
    "internvl3_5_8b": "internvl",
    "llava_onevision_7b": "llava_onevision",
    "qwen2_5_vl_3b": "qwen2_5_vl",
    "qwen2_5_vl_7b": "qwen2_5_vl",
    "qwen2_5_vl_72b": "qwen2_5_vl",
    "qwen3_vl_8b": "qwen3_vl",
    "smolvlm2": "smolvlm",
    "video_r1_7b": "qwen2_5_vl",
}
# What stands in the prompt where a frame is, as often as its pixels make tokens.
PLACEHOLDERS = {
    "internvl": "<IMG_CONTEXT>",
    "llava_onevision": "<video>",
    "qwen2_5_vl": "<|video_pad|>",
    "qwen3_vl": "<|video_pad|>",
    "smolvlm": "<image>",
}
NEW_TOKENS = 8


@lru_cache
def node_of(option: str) -> dict[str, Any]:
    """The policy's part of the config of ``evaluate.py policy=<option>``."""
    return OmegaConf.to_container(compose_config([f"policy={option}"]), resolve=True)["policy"]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a family's checkpoint, built at first use."""
    from tests.unit.tiny_families import build_family

    torch.set_num_threads(1)

    @lru_cache
    def folder_of(family: str) -> Path:
        if family == "smolvlm":
            pytest.importorskip("num2words", reason="the processor of SmolVLM needs the package num2words")
        return build_family(family, tmp_path_factory.mktemp("families") / family)

    return folder_of


# Sizes of one model whose settings are the same but for these.
SAME = {"qwen2_5_vl_3b": "qwen2_5_vl_7b", "qwen2_5_vl_72b": "qwen2_5_vl_7b"}
OF_SIZE = {"model", "device_map", "batch_size"}


@pytest.fixture(scope="module", params=sorted(OPTIONS.keys() - SAME.keys()))
def policy(request: pytest.FixtureRequest, checkpoint: Callable[[str], Path]) -> Iterator[VisionLanguagePolicy]:
    """The policy of a config: all its values, but for the weights, their place and the length of replies."""
    yield variant(request.param, checkpoint(OPTIONS[request.param]))


def variant(option: str, folder: Path, **changes: Any) -> VisionLanguagePolicy:
    here = {"model": str(folder), "device": "cpu", "device_map": None, "name": option, "max_new_tokens": NEW_TOKENS}
    return build({**node_of(option), **here, **changes})


def alone(policy: VisionLanguagePolicy, **changes: Any) -> VisionLanguagePolicy:
    """The same policy with one conversation at a time; the weights in memory are shared."""
    other = variant(policy.name, Path(policy.weights.model), batch_size=1, **changes)
    vars(other)["loaded"] = policy.loaded
    return other


def make_clip(seed: int = 0, height: int = 56, width: int = 84, times: Sequence[float] | None = None) -> ArraySource:
    pixels = np.random.default_rng(seed).integers(0, 256, (12, height, width, 3), dtype=np.uint8)
    clip = ArraySource(pixels, fps=2, video_id=f"clip{seed}")
    if times is not None:
        clip.timestamps = np.asarray(times, dtype=np.float64)
    return clip


CLIP = make_clip()
UNEVEN = make_clip(2, times=[0.0, 0.5, 4.0, 4.6, 9.25, 9.75, 30.0, 31.0, 40.0, 41.0, 65.0, 66.0])


def ask(text: str, frames: Sequence[int] = (), clip: ArraySource = CLIP) -> PolicyRequest:
    return PolicyRequest((Message("system", "You answer."), Message("user", text, tuple(frames))), clip)


def two_turns(first: Sequence[int], second: Sequence[int]) -> PolicyRequest:
    turns = (
        Message("system", "You answer."),
        Message("user", "What is it?", tuple(first)),
        Message("assistant", "<think>a sign</think>"),
        Message("user", "And now?", tuple(second)),
    )
    return PolicyRequest(turns, CLIP)


def mixed() -> list[PolicyRequest]:
    """Conversations of unlike length, frame count and picture size, with and without frames, of one and two turns."""
    return [
        ask("Where is the red car?", (0, 3, 6, 9)),
        ask("No frames at all, but a longer question than the others have: which tool is asked for?"),
        two_turns((0, 4), (8, 9)),
        ask("And the blue one, is it left of the house or right of it?", (1, 2, 3, 4)),
        ask("Odd.", (1, 2, 3)),
        ask("One.", (7,)),
        ask("Tall.", (0, 11), make_clip(1, 112, 56)),
    ]


def prompt_of(policy: VisionLanguagePolicy, request: PolicyRequest) -> str:
    tensors = policy.loaded.encode(request, policy.showing)
    return policy.loaded.processor.tokenizer.decode(tensors["input_ids"][0])


def family_of(policy: VisionLanguagePolicy) -> str:
    return policy.loaded.network.config.model_type


def tokens_of_video(family: str, frames: int, size: tuple[int, int] | None) -> int:
    """Placeholders of a video, for a picture of ``size`` patches (families that keep the picture's shape)."""
    if family in ("qwen2_5_vl", "qwen3_vl"):
        return -(-frames // 2) * (size[0] // 2) * (size[1] // 2)  # two frames share a set, 2 × 2 patches a token
    return 4 * frames + (family == "llava_onevision")  # one ends the video


# -- configs -------------------------------------------------------------------------------------------------------


def test_every_published_policy_is_tested_here():
    published = {
        option
        for option in group_options("policy")
        if "VisionLanguagePolicy" in (CONF / "policy" / f"{option}.yaml").read_text(encoding="utf-8")
    }
    assert published == set(OPTIONS)
    assert set(OPTIONS.values()) == set(FAMILIES) - {"qwen3_vl_moe"}  # no config of its own


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_a_config_names_weights_of_the_hub(option):
    made = build(node_of(option))
    assert re.fullmatch(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", made.weights.model) and not made.weights.is_folder
    bounded = made.showing.max_pixels is not None
    assert bounded == (FAMILIES[OPTIONS[option]].area is not None), "bounds that the family does not read, or none"


@pytest.mark.parametrize(("option", "other"), SAME.items())
def test_sizes_of_one_model_have_the_same_settings(option, other):
    mine, theirs = node_of(option), node_of(other)
    assert {key for key in mine if mine[key] != theirs[key]} <= OF_SIZE and mine["model"] != theirs["model"]


# -- one and two turns ---------------------------------------------------------------------------------------------


def test_it_loads_what_transformers_saved(policy):
    assert family_of(policy) == OPTIONS[policy.name]
    assert policy.loaded.network.dtype == torch.float32 and policy.loaded.longest in (8192, 32_768)
    assert policy.loaded.processor.tokenizer.padding_side == "left"


def test_frames_of_both_turns_stand_before_their_words(policy):
    request = two_turns((0, 4), (8, 9))
    tensors = policy.loaded.encode(request, policy.showing)
    grids = tensors.get("video_grid_thw")
    size = tuple(grids[0, 1:].tolist()) if grids is not None else None
    family, said = family_of(policy), prompt_of(policy, request)
    first, rest = said.split("What is it?")
    between, second = rest.split("<think>a sign</think>")
    shown, end = second.split("And now?")
    counts = [part.count(PLACEHOLDERS[family]) for part in (first, between, shown, end)]
    assert counts == [tokens_of_video(family, 2, size), 0, tokens_of_video(family, 2, size), 0]
    assert said.index("You answer.") < said.index(PLACEHOLDERS[family])
    (reply,) = policy.generate([request])
    assert reply and policy.generate([request]) == [reply]


def test_the_second_turn_depends_on_the_frames_of_the_first(policy):
    reply = ["<think>the sign is red</think>"]
    (seen,) = policy.logprobs([two_turns((0, 4), (8, 9))], reply)
    (other,) = policy.logprobs([two_turns((1, 5), (8, 9))], reply)
    assert max(abs(a - b) for a, b in zip(seen, other, strict=True)) > 1e-4


@pytest.mark.parametrize("frames", [(7,), (1, 2, 3), (0, 2, 4, 6, 8), (5, 5, 5)])
def test_odd_frame_counts_are_shown_whole(policy, frames):
    request = ask("What?", frames)
    tensors = policy.loaded.encode(request, policy.showing)
    grids = tensors.get("video_grid_thw")
    size = tuple(grids[0, 1:].tolist()) if grids is not None else None
    family = family_of(policy)
    assert prompt_of(policy, request).count(PLACEHOLDERS[family]) == tokens_of_video(family, len(frames), size)
    if family == "internvl":
        assert len(tensors["pixel_values"]) == len(frames)
    elif size is None:
        assert tensors["pixel_values" if family == "smolvlm" else "pixel_values_videos"].shape[1] == len(frames)
    assert policy.generate([request])[0]


def test_the_model_learns_when_frames_are(policy):
    request = ask("When?", (0, 2, 6, 10), UNEVEN)
    said, family = prompt_of(policy, request), family_of(policy)
    if family == "qwen2_5_vl":
        tensors = policy.loaded.encode(request, policy.showing)
        temporal = tensors["position_ids"][1, 0, tensors["mm_token_type_ids"][0] == 2]
        assert (
            int(temporal.max() - temporal.min()) == (47.5 - 2.0) * 2
        )  # pairs at 2 s and 47.5 s, two positions a second
    elif family == "qwen3_vl":
        assert said.index("<2.0 seconds>") < said.index("<47.5 seconds>")
    elif family == "smolvlm":
        places = [said.index(f"Frame from {time}:") for time in ("00:00", "00:04", "00:30", "01:05")]
        assert places == sorted(places) and "series of four frames from a 0:01:05" in said
    else:
        note = "Times of these frames: 0.00 s, 4.00 s, 30.00 s, 65.00 s.\n"
        assert said.rindex(PLACEHOLDERS[family]) < said.index(note) < said.index("When?")


# -- batches -------------------------------------------------------------------------------------------------------


def test_a_batch_gives_what_each_conversation_gives_alone(policy):
    requests = mixed()
    expected = [alone(policy).generate([request])[0] for request in requests]
    assert policy.generate(requests) == expected and policy.generate(requests[::-1]) == expected[::-1]
    assert len(set(expected)) > 3


def test_draws_belong_to_the_conversation(policy):
    hot = {"do_sample": True, "temperature": 1.5, "top_p": 0.95}
    requests = mixed()[:4]
    together = variant(policy.name, Path(policy.weights.model), **hot)
    vars(together)["loaded"] = policy.loaded
    assert together.generate(requests) == alone(policy, **hot).generate(requests) != policy.generate(requests)


def test_frames_one_by_one_are_one_tile_each_and_have_their_times(policy):
    one_by_one = alone(policy, frames_as="images")
    request = ask("When?", (0, 2, 6), UNEVEN)
    said, family = prompt_of(one_by_one, request), family_of(policy)
    mark = {"qwen2_5_vl": "<|image_pad|>", "qwen3_vl": "<|image_pad|>", "internvl": "<IMG_CONTEXT>"}.get(
        family, "<image>"
    )
    found = list(re.finditer(f"(?:{re.escape(mark)})+", said))
    runs, lengths = [run.start() for run in found], {len(run[0]) // len(mark) for run in found}
    assert len(runs) == 3 and said.index("When?") > runs[-1]
    assert family.startswith("qwen") or lengths == ({17} if family == "llava_onevision" else {4})  # 17: and a row's end
    if FAMILIES[family].media_first:
        assert runs[-1] < said.index("Times of these frames: 0.00 s, 4.00 s, 30.00 s.\n") < said.index("When?")
    else:
        for time, after, before in zip(("0.00 s: ", "4.00 s: ", "30.00 s: "), [0, *runs], runs, strict=False):
            assert after <= said.index(time) < before
    requests = mixed()[:4]
    together = variant(policy.name, Path(policy.weights.model), frames_as="images")
    vars(together)["loaded"] = policy.loaded
    assert together.generate(requests) == one_by_one.generate(requests)


# -- log-probabilities ---------------------------------------------------------------------------------------------


def test_logprobs_are_those_of_a_plain_forward_pass(policy):
    from trustvid.policy.vlm_inputs import extended

    requests = mixed()
    replies = ["<think>red</think><answer>A</answer>", "no", "", "a longer reply: 1 2", "x", "yes", "top left"]
    found = policy.logprobs(requests, replies)
    model = policy.loaded
    for request, reply, ours in zip(requests, replies, found, strict=True):
        tokens = model.tokens_of(reply)
        inputs = extended(model.encode(request, policy.showing), tokens)
        with torch.no_grad():
            known = model.network(**inputs).logits.float().log_softmax(-1)[0]
        start = inputs["input_ids"].shape[1] - len(tokens)
        plain = [known[start + place - 1, token].item() for place, token in enumerate(tokens)]
        assert ours == pytest.approx(plain, abs=5e-4) and len(ours) == len(tokens)
        assert all(value <= 0 for value in ours)


# -- a package that is missing -------------------------------------------------------------------------------------


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    from transformers.models.smolvlm import processing_smolvlm

    from tests.unit.tiny_families import build_smolvlm_without_its_package

    monkeypatch.setattr(processing_smolvlm, "num2words", None)  # as it is where the package is not installed
    policy = variant("smolvlm2", build_smolvlm_without_its_package(tmp_path / "smolvlm"))
    with pytest.raises(TrustvidError, match=r"needs a package that is missing: .*num2words.*pip install num2words"):
        policy.generate([ask("What?")])
