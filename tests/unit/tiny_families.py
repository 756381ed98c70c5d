"""Tiny checkpoints of every published family, with random weights, in the layout that transformers saves and loads.

Tokenizers, processors, chat templates and networks are of the published classes. Sizes are not, and the templates are
written anew: each places media, text and ends of turns where the published one does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AddedToken, AutoModelForImageTextToText, GenerationConfig

from trustvid.policy.tiny_build import _tokenizer, build_model

SIDE = 56  # pixels of a frame's side, where a family resizes frames to a fixed size; 14 of them are a patch
TOKENS_OF_A_FRAME = 4

_TURN, _TURN_END, _PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
_END_OF_UTTERANCE = "<end_of_utterance>"
_VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}

_MEDIA_WHERE_THEY_STAND = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<IMG_CONTEXT>\n{% elif part['type'] == 'video' %}<video>\n"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_MEDIA_FIRST = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] if part['type'] == 'image' %}<image>\n{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'video' %}<video>\n{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# As released: no word of videos. The processor has a template of its own for conversations with one.
_IMAGES_ONLY = (
    "<|im_start|>{% for message in messages %}{{ message['role'] | capitalize }}: {% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% elif part['type'] == 'image' %}<image>{% endif %}"
    "{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)


def build_family(family: str, folder: Path) -> Path:
    """Write a checkpoint of the family (a model type) into a new folder.

    Raises:
        ImportError: its processor needs a package that is missing, by name.
    """
    BUILDERS[family](folder)
    return folder


def build_smolvlm_without_its_package(folder: Path) -> Path:
    """A SmolVLM checkpoint, written without the class of its processor: that one cannot be built without num2words."""
    tokenizer, images, videos = _smolvlm_parts()
    _network(_smolvlm_config(tokenizer), tokenizer, _END_OF_UTTERANCE).save_pretrained(folder)
    for part in (tokenizer, images, videos):
        part.save_pretrained(folder)
    described = {"processor_class": "SmolVLMProcessor", "image_seq_len": TOKENS_OF_A_FRAME}
    (folder / "processor_config.json").write_text(json.dumps(described), encoding="utf-8")
    return folder


def _qwen2_5_vl(folder: Path) -> None:
    build_model(folder, "qwen2_5_vl", 0)


def _qwen3_vl(folder: Path) -> None:
    build_model(folder, "qwen3_vl", 0)


def _internvl(folder: Path) -> None:
    named = {
        "start_image_token": "<img>",
        "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>",
        "video_token": "<video>",
    }
    tokenizer = _with_tokens(tuple(named.values()), _MEDIA_WHERE_THEY_STAND)
    folder.mkdir(parents=True)
    tokenizer.save_pretrained(folder)  # the processor asks the tokenizer for these tokens by name
    tokenizer = type(tokenizer).from_pretrained(folder, extra_special_tokens=named)
    config = transformers.InternVLConfig(
        text_config={"model_type": "qwen3", "head_dim": 16, **_text(tokenizer)},
        vision_config={**_VISION, "image_size": [SIDE, SIDE], "patch_size": [14, 14]},
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=TOKENS_OF_A_FRAME,
    )
    size = {"height": SIDE, "width": SIDE}
    processor = transformers.InternVLProcessor(
        transformers.GotOcr2ImageProcessor(size=size),
        tokenizer,
        transformers.InternVLVideoProcessor(size=size),
        image_seq_length=TOKENS_OF_A_FRAME,
        chat_template=_MEDIA_WHERE_THEY_STAND,
    )
    _save(folder, config, processor, _TURN_END)


def _llava_onevision(folder: Path) -> None:
    tokenizer = _with_tokens(("<image>", "<video>"), _MEDIA_FIRST)
    tiles = [[SIDE, SIDE], [SIDE, 2 * SIDE], [2 * SIDE, SIDE]]
    config = transformers.LlavaOnevisionConfig(
        text_config={"model_type": "qwen2", **_text(tokenizer)},
        vision_config={
            "model_type": "siglip_vision_model",
            "image_size": SIDE,
            "patch_size": 14,
            "vision_use_head": False,
            **_VISION,
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=tiles,
    )
    size = {"height": SIDE, "width": SIDE}
    processor = transformers.LlavaOnevisionProcessor(
        transformers.LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=tiles),
        tokenizer,
        transformers.LlavaOnevisionVideoProcessor(size=size),
        num_image_tokens=(SIDE // 14) ** 2,
        vision_feature_select_strategy="full",
        chat_template=_MEDIA_FIRST,
    )
    _save(folder, config, processor, _TURN_END)


def _smolvlm(folder: Path) -> None:
    tokenizer, images, videos = _smolvlm_parts()
    processor = transformers.SmolVLMProcessor(
        images, tokenizer, videos, image_seq_len=TOKENS_OF_A_FRAME, chat_template=_IMAGES_ONLY
    )
    _save(folder, _smolvlm_config(tokenizer), processor, _END_OF_UTTERANCE)


def _smolvlm_parts() -> tuple[Any, Any, Any]:
    """Tokenizer, image processor and video processor."""
    marks = ("<fake_token_around_image>", "<global-img>", "<image>", "<video>", _END_OF_UTTERANCE)
    tokenizer = _with_tokens(marks, _IMAGES_ONLY)
    tokenizer.bos_token = _TURN
    bounds = {"max_image_size": {"longest_edge": SIDE}}
    images = transformers.SmolVLMImageProcessor(size={"longest_edge": 2 * SIDE}, **bounds)
    videos = transformers.SmolVLMVideoProcessor(size={"longest_edge": SIDE}, **bounds, fps=1, num_frames=64)
    return tokenizer, images, videos


def _smolvlm_config(tokenizer: Any) -> Any:
    return transformers.SmolVLMConfig(
        text_config={"model_type": "llama", **_text(tokenizer)},
        vision_config={**_VISION, "image_size": SIDE, "patch_size": 14},
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )


def _with_tokens(tokens: tuple[str, ...], template: str) -> Any:
    """The tokenizer of the tiny policies with the family's own control tokens."""
    tokenizer = _tokenizer()
    tokenizer.add_tokens([AddedToken(token, special=True) for token in tokens])
    tokenizer.chat_template = template
    return tokenizer


def _text(tokenizer: Any) -> dict[str, Any]:
    """Size of the language model."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 8192,
        "initializer_range": 0.1,  # with less, replies hardly depend on what was asked
        "pad_token_id": tokenizer.convert_tokens_to_ids(_PAD),
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _network(config: Any, tokenizer: Any, end: str) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    ids = tokenizer.convert_tokens_to_ids([end, _PAD])
    network.generation_config = GenerationConfig(eos_token_id=ids[0], pad_token_id=ids[1], do_sample=False)
    return network


def _save(folder: Path, config: Any, processor: Any, end: str) -> None:
    _network(config, processor.tokenizer, end).save_pretrained(folder)
    processor.save_pretrained(folder)


BUILDERS: dict[str, Callable[[Path], None]] = {
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "internvl": _internvl,
    "llava_onevision": _llava_onevision,
    "smolvlm": _smolvlm,
}
