"""What a config says about a vision-language model: its weights, how it is shown frames, how replies are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

DTYPES = ("auto", "float32", "bfloat16", "float16")

Quantization = Literal["int8", "int4"]
FramesAs = Literal["video", "images"]


@dataclass(frozen=True)
class Weights:
    """Which weights, and how they run.

    Attributes:
        model: a hub id ("Qwen/Qwen2.5-VL-7B-Instruct") or a folder in the transformers format.
        revision: commit or tag of a hub id; None = the newest.
        dtype: "float32", "bfloat16", "float16"; "auto" = as stored.
        device: "cpu", "cuda", "cuda:1", …; "auto" = a GPU where there is one. Not read with a device_map.
        device_map: "auto" spreads the layers over all GPUs (package accelerate); None = everything on ``device``.
        attn_implementation: "sdpa", "flash_attention_2", "eager"; None = the model's own choice.
        quantization: "int8" or "int4" while loading (package bitsandbytes); None = as stored.
        offline: hub ids are taken from the local cache only.
        init_from: what train.py made of this model: a folder with an adapter, or a checkpoint; None = as published.
    """

    model: str
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    device_map: str | None = None
    attn_implementation: str | None = None
    quantization: Quantization | None = None
    offline: bool = False
    init_from: str | None = None

    def faults(self) -> Iterator[str]:
        """What is wrong with the values."""
        if not self.model:
            yield "model is empty; expected a hub id or a folder"
        if self.dtype not in DTYPES:
            yield f"dtype={self.dtype!r} is unknown; known: {', '.join(DTYPES)}"
        if self.quantization not in (None, "int8", "int4"):
            yield f"quantization={self.quantization!r} is unknown; known: null, int8, int4"
        if self.device_map is not None and self.device != "auto":
            yield f"device={self.device} and device_map={self.device_map} exclude each other; expected one of them"

    @property
    def is_folder(self) -> bool:
        """Whether ``model`` means a folder of this machine: one that is there, or a name no hub id can have."""
        return Path(self.model).is_dir() or self.model.startswith((".", "/", "~")) or self.model.count("/") != 1


@dataclass(frozen=True)
class Decoding:
    """How replies are drawn.

    Attributes:
        max_new_tokens: longest reply.
        do_sample: draw tokens at random; False = always the likeliest one, and temperature and top_p are not read.
        temperature: divides the logits before a draw.
        top_p: a draw is among the likeliest tokens that together reach this probability.
        repetition_penalty: divides positive and multiplies negative logits of tokens that the conversation or the reply
            already holds (Keskar et al. 2019); 1 = off.
        seed: part of the seed of every draw; the rest is the conversation itself.
    """

    max_new_tokens: int = 1024
    do_sample: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0

    def faults(self) -> Iterator[str]:
        """What is wrong with the values."""
        if self.max_new_tokens < 1:
            yield f"max_new_tokens={self.max_new_tokens}; expected at least 1"
        if not self.temperature > 0:
            yield f"temperature={self.temperature}; expected more than 0 (do_sample=false takes the likeliest token)"
        if not 0 < self.top_p <= 1:
            yield f"top_p={self.top_p}; expected a share above 0, at most 1"
        if not self.repetition_penalty > 0:
            yield f"repetition_penalty={self.repetition_penalty}; expected more than 0 (1 = off)"


@dataclass(frozen=True)
class Showing:
    """How frames are shown to the model.

    Attributes:
        frames_as: "video" = as one video with the frames' own times; "images" = one by one, each after its time (where
            the family's chat template puts all frames first: before one line of their times).
        min_pixels, max_pixels: bounds of one frame's area after resizing; None = the model's own.
        total_pixels: bound of the area of all frames of a video together, as qwen-vl-utils has it: frames become
            smaller where there are many of them; None = no bound.
    """

    frames_as: FramesAs = "video"
    min_pixels: int | None = None
    max_pixels: int | None = None
    total_pixels: int | None = None

    def largest(self, frames: int) -> int:
        """Largest area of each of so many frames of one video; two frames share one set of tokens."""
        if self.total_pixels is None:
            return self.max_pixels
        return max(min(self.max_pixels, 2 * self.total_pixels // frames), int(1.05 * self.min_pixels))

    def faults(self) -> Iterator[str]:
        """What is wrong with the values."""
        if self.frames_as not in ("video", "images"):
            yield f"frames_as={self.frames_as!r} is unknown; known: video, images"
        low, high = self.min_pixels, self.max_pixels
        if (low is None) != (high is None):
            yield f"min_pixels={low}, max_pixels={high}; expected both or neither"
        elif low is not None and not 0 < low <= high:
            yield f"min_pixels={low}, max_pixels={high}; expected 0 < min_pixels ≤ max_pixels"
        if self.total_pixels is not None and (low is None or self.total_pixels < 1):
            yield f"total_pixels={self.total_pixels}; expected 1 or more beside min_pixels and max_pixels, or null"
