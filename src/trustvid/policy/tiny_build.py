"""Building a tiny vision-language model: tokenizer, processors and random weights, saved as the published ones are."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from transformers import (
    AddedToken,
    AutoModelForImageTextToText,
    GenerationConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLProcessor,
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
    Qwen3VLConfig,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)
from transformers.utils import logging as hf_logging

from trustvid.policy.tiny import Size
from trustvid.policy.tiny_words import spoken, training_texts

RECIPE = 1  # raised when a build would come out otherwise
_MANIFEST = "recipe.json"

# The control tokens that processors and chat template of Qwen's models need.
_END, _TURN, _TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
_VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
# Tags of replies: one token each, or letters beside them would merge across their ends. They stay in decoded text.
_TAGS = tuple(f"<{slash}{tag}>" for tag in ("think", "answer", "confidence") for slash in ("", "/"))

_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_VOCABULARY = 1536  # most tokens learnt from the texts
_USUAL = Size()
_VISION_HIDDEN, _VISION_LAYERS, _VISION_HEADS = 128, 3, 4  # beside a language model of the usual width
_SIDE = 112  # frames are resized to about this side
_INIT = 0.1  # with the usual 0.02, a model this small learns the format of replies but not to copy values into them


def ensure_model(folder: Path, family: str, seed: int, size: Size = _USUAL) -> Path:
    """The model's folder, built at first use: whole or not at all, by one process while the others wait.

    A folder of another recipe, seed, size or of other prompt texts is replaced.

    Args:
        folder: its final place.
        family: "qwen2_5_vl" or "qwen3_vl".
        seed: of the random weights.
        size: of the model.
    """
    described = {"recipe": RECIPE, "family": family, "seed": seed, "texts": _digest(training_texts())}
    manifest = json.dumps(described | ({} if size == _USUAL else {"size": size.described()}))
    if _manifest_of(folder) == manifest:
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):
        if _manifest_of(folder) == manifest:
            return folder
        for left_over in sorted(folder.parent.glob(f".{folder.name}.*.part")):  # of a killed build
            shutil.rmtree(left_over)
        part = folder.parent / f".{folder.name}.{os.getpid()}.part"
        try:
            build_model(part, family, seed, size)
            (part / _MANIFEST).write_text(manifest, encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            part.replace(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


def build_model(folder: Path, family: str, seed: int, size: Size = _USUAL) -> None:
    """Write a model of ``family`` with weights of ``seed`` into a new folder, in the transformers format."""
    tokenizer = _tokenizer(size.words, size.pieces)
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in (_END, _TURN_END, *_VISION)}
    processor = _processor(family, tokenizer)
    config = _config(family, len(tokenizer), ids, size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    network.generation_config = GenerationConfig(
        eos_token_id=[ids[_TURN_END], ids[_END]], pad_token_id=ids[_END], do_sample=False
    )
    hf_logging.disable_progress_bar()
    network.save_pretrained(folder)
    processor.save_pretrained(folder)


def _tokenizer(words: Sequence[str] = (), pieces: Sequence[str] = ()) -> Qwen2Tokenizer:
    """Byte-level BPE as Qwen's, learnt from the shipped texts; ``words`` are one token each behind a blank, ``pieces``
    wherever they stand."""
    texts = [*training_texts(), *map(spoken, words)]
    tokenizer = Qwen2Tokenizer().train_new_from_iterator(texts, vocab_size=_VOCABULARY, show_progress=False)
    tokenizer.add_tokens([AddedToken(token, special=True) for token in (_TURN, _TURN_END, *_VISION)])
    tokenizer.add_tokens([AddedToken(token, special=False) for token in _TAGS])
    whole = [f" {word}" for word in words]
    split = [word for word in whole if len(tokenizer(word, add_special_tokens=False)["input_ids"]) > 1]
    tokenizer.add_tokens([AddedToken(word, special=False, normalized=False) for word in split])
    tokenizer.add_tokens([AddedToken(piece, special=False, normalized=False) for piece in pieces])
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


def _processor(family: str, tokenizer: Qwen2Tokenizer) -> Any:
    """Tokenizer and frame processors of the family."""
    area = _SIDE * _SIDE
    if family == "qwen3_vl":
        # Its video processor bounds all frames of a clip together: up to 64 of them keep their size.
        shape = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2}
        images = Qwen2VLImageProcessor(size={"shortest_edge": area // 4, "longest_edge": area}, **shape)
        videos = Qwen3VLVideoProcessor(
            size={"shortest_edge": area // 4, "longest_edge": area * 8}, do_sample_frames=False, **shape
        )
        return Qwen3VLProcessor(images, tokenizer, videos, chat_template=_TEMPLATE)
    shape = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
    size = {"shortest_edge": area // 4, "longest_edge": area}
    images = Qwen2VLImageProcessor(size=size, **shape)
    videos = Qwen2VLVideoProcessor(size=size, do_sample_frames=False, **shape)
    return Qwen2_5_VLProcessor(images, tokenizer, videos, chat_template=_TEMPLATE)


def _config(family: str, vocabulary: int, ids: dict[str, int], size: Size) -> Any:
    """A small model of the family."""
    head = size.hidden_size // size.heads
    vision_head = max(8, _VISION_HIDDEN * size.hidden_size // (_USUAL.hidden_size * _VISION_HEADS * 8) * 8)
    text = {
        "vocab_size": vocabulary,
        "hidden_size": size.hidden_size,
        "intermediate_size": 3 * size.hidden_size,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.kv_heads,
        "max_position_embeddings": 32_768,
        "initializer_range": _INIT,
        "tie_word_embeddings": True,
        "eos_token_id": ids[_TURN_END],
        "bos_token_id": None,
        "pad_token_id": ids[_END],
        # Half of a head's size, divided among time, height and width.
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [head // 2 - 10, 5, 5]},
    }
    vision = {
        "depth": _VISION_LAYERS,
        "hidden_size": vision_head * _VISION_HEADS,
        "intermediate_size": 2 * vision_head * _VISION_HEADS,
        "num_heads": _VISION_HEADS,
        "out_hidden_size": size.hidden_size,
        "initializer_range": _INIT,
    }
    tokens = {
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "tie_word_embeddings": True,
    }
    if family == "qwen3_vl":
        text |= {"head_dim": head}
        text["rope_parameters"]["mrope_interleaved"] = True
        vision |= {"patch_size": 16, "num_position_embeddings": 256, "deepstack_visual_indexes": [0, 1]}
        return Qwen3VLConfig(text_config=text, vision_config=vision, **tokens)
    # Two positions a second, as the published weights of 7 B parameters.
    vision |= {"patch_size": 14, "tokens_per_second": 2, "window_size": 112, "fullatt_block_indexes": [1, 2]}
    return Qwen2_5_VLConfig(text_config=text, vision_config=vision, **tokens)


def _manifest_of(folder: Path) -> str | None:
    path = folder / _MANIFEST
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _digest(texts: list[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
