"""Tiny vision-language policies: built on this machine, saved, loaded and run as the published ones are."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.errors import ConfigError
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.tiny import TINY_FAMILIES, Size, TinyPolicy


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.set_num_threads(1)
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def clip() -> ArraySource:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 60, 90, 3), dtype=np.uint8)
    return ArraySource(pixels, fps=5)


def ask(clip: ArraySource, text: str, frames: tuple[int, ...] = ()) -> PolicyRequest:
    return PolicyRequest((Message("system", "You answer."), Message("user", text, frames)), clip)


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_it_builds_saves_reloads_and_generates(family, cache, clip):
    policy = TinyPolicy(family, str(cache), max_new_tokens=8)
    reply = policy.generate([ask(clip, "Where is the red car?", (0, 3, 6, 9))])
    again = TinyPolicy(family, str(cache), max_new_tokens=8)  # loads what the first one has built
    assert again.generate([ask(clip, "Where is the red car?", (0, 3, 6, 9))]) == reply != [""]
    network = policy.loaded.network
    assert network.config.model_type == family
    assert 1e6 < network.num_parameters() < 4.5e6
    assert policy.name == f"tiny_{family}" and policy.loaded.processor.tokenizer.padding_side == "left"
    folder = cache / f"tiny_{family}-v1"
    assert {"model.safetensors", "tokenizer.json", "config.json", "processor_config.json"} <= set(digests(folder))


@pytest.mark.parametrize("family", TINY_FAMILIES)
def test_two_builds_give_the_same_bytes_and_another_seed_other_weights(family, cache, tmp_path):
    import torch

    from trustvid.policy.tiny_build import build_model, ensure_model

    first = digests(ensure_model(cache / f"tiny_{family}-v1", family, 0))
    torch.manual_seed(99)  # what a caller has drawn before has no say
    build_model(tmp_path / "again", family, 0)
    assert first == digests(tmp_path / "again") | {"recipe.json": first["recipe.json"]}
    build_model(tmp_path / "other", family, 1)
    other = digests(tmp_path / "other")
    assert {name for name in other if other[name] != first[name]} == {"model.safetensors"}


def test_a_seed_has_a_folder_of_its_own(cache):
    assert TinyPolicy("qwen3_vl", str(cache), weights_seed=3).weights.model.endswith("tiny_qwen3_vl-v1-seed3")


def test_a_broken_or_outdated_folder_is_replaced(cache, tmp_path):
    from trustvid.policy.tiny_build import ensure_model

    folder = tmp_path / "tiny_qwen2_5_vl-v1"
    left_over = tmp_path / ".tiny_qwen2_5_vl-v1.123.part"
    for path in (folder, left_over):
        path.mkdir()
        (path / "model.safetensors").write_bytes(b"half")
    ensure_model(folder, "qwen2_5_vl", 0)
    whole = digests(folder)
    assert whole == digests(ensure_model(cache / "tiny_qwen2_5_vl-v1", "qwen2_5_vl", 0)) and not left_over.exists()
    manifest = json.loads((folder / "recipe.json").read_text())
    (folder / "recipe.json").write_text(json.dumps(manifest | {"texts": "others"}))
    (folder / "tokenizer.json").write_text("{}")
    assert digests(ensure_model(folder, "qwen2_5_vl", 0)) == whole


def _build(folder: str) -> None:
    from trustvid.policy.tiny_build import ensure_model

    ensure_model(Path(folder), "qwen2_5_vl", 0)


def test_processes_that_start_together_build_once(tmp_path, cache):
    from trustvid.policy.tiny_build import ensure_model

    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_build, args=(str(tmp_path / "tiny_qwen2_5_vl-v1"),)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert digests(tmp_path / "tiny_qwen2_5_vl-v1") == digests(
        ensure_model(cache / "tiny_qwen2_5_vl-v1", "qwen2_5_vl", 0)
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [".tiny_qwen2_5_vl-v1.lock", "tiny_qwen2_5_vl-v1"]


def test_the_tokenizer_keeps_every_text_and_has_a_token_for_each_tag(cache):
    tokenizer = TinyPolicy("qwen2_5_vl", str(cache)).loaded.processor.tokenizer
    for text in ("<think>12.40 s, “déjà vu” 你好 🙂\n</think><answer>B</answer>", " read_text  detect_objects\t0.85"):
        assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text
    for tag in ("<think>", "</think>", "<answer>", "</answer>", "<confidence>", "</confidence>"):
        assert len(tokenizer(f"x{tag}y", add_special_tokens=False)["input_ids"]) == 3
    for word in (" read_text", " glare", " red", " evidence"):
        assert len(tokenizer(word, add_special_tokens=False)["input_ids"]) <= 3, word
    assert len(tokenizer("<|im_start|><|video_pad|><|im_end|>", add_special_tokens=False)["input_ids"]) == 3


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match="family='llama' is unknown; known: qwen2_5_vl, qwen3_vl"):
        TinyPolicy("llama", "none")
    with pytest.raises(ConfigError) as caught:
        TinyPolicy("qwen3_vl", "none", dtype="int3", max_new_tokens=0, batch_size=0)
    assert len(caught.value.faults) == 3


def test_another_size_has_its_words_as_tokens_and_a_folder_of_its_own(cache, clip):
    small = {"hidden_size": 96, "layers": 2, "heads": 4, "kv_heads": 2, "words": ["caption_frame", "zeppelin", "4"]}
    policy = TinyPolicy("qwen2_5_vl", str(cache), max_new_tokens=4, **small)
    network, tokenizer = policy.loaded.network, policy.loaded.processor.tokenizer
    assert network.num_parameters() < 1e6 and network.config.text_config.num_hidden_layers == 2
    assert policy.generate([ask(clip, "Where is the red car?", (0, 3, 6))]) != [""]
    for word in small["words"]:
        assert len(tokenizer(f" {word}", add_special_tokens=False)["input_ids"]) == 1, word
    text = "1 spatial caption_frame, a zeppelin 4.5 ahead"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    folders = {TinyPolicy("qwen2_5_vl", "c", **(small | {"words": words})).weights.model for words in ([], ["car"])}
    folders |= {TinyPolicy("qwen2_5_vl", "c").weights.model, policy.weights.model}
    assert len(folders) == 4


def test_pieces_are_one_token_whatever_stands_beside_them(cache):
    plain, pieces = Size(96, 2, 4, 2), ("MARKET", "colour", "**", "红")
    known, spelled = (_tokens(cache, Size(96, 2, 4, 2, pieces=some)) for some in (pieces, ()))
    text = "| colour | **MARKET** |\n\"MARKET\": 'colour'ed 写着MARKET的东西是红色的。SUPERMARKETS"
    for piece in pieces:
        whole = known(piece, add_special_tokens=False)["input_ids"]
        assert len(whole) == 1 and known(text)["input_ids"].count(whole[0]) == text.count(piece), piece
    assert known.decode(known(text)["input_ids"], skip_special_tokens=True) == text
    assert len(known(text)["input_ids"]) < len(spelled(text)["input_ids"])
    assert Size(96, 2, 4, 2, pieces=pieces).tag != plain.tag


def _tokens(cache: Path, size: Size) -> Any:
    return TinyPolicy("qwen2_5_vl", str(cache), **asdict(size)).loaded.processor.tokenizer


def test_a_size_without_pieces_keeps_the_folder_of_before_there_were_any():
    assert Size().tag == ""
    assert Size(96, 3, 4, 2, ("read_text", "blur")).tag == "-" + _digest(
        {"hidden_size": 96, "layers": 3, "heads": 4, "kv_heads": 2, "words": ["read_text", "blur"]}
    )


def _digest(settings: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:8]


def test_sizes_that_cannot_be_are_refused_all_at_once():
    with pytest.raises(ConfigError) as caught:
        TinyPolicy("llama", "none", hidden_size=100, heads=6, kv_heads=4, words=["two words"], pieces=[" car"])
    said = "; ".join(caught.value.faults)
    for part in (
        "hidden_size=100 over heads=6",
        "heads=6 are no multiple of kv_heads=4",
        "'two words'",
        "pieces holds ' car'",
        "family='llama'",
    ):
        assert part in said
    with pytest.raises(ConfigError, match="layers=0; expected at least 1"):
        TinyPolicy("qwen3_vl", "none", layers=0)
