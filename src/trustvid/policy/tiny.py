"""Tiny vision-language policies: random weights built on this machine, run by the same code as the published ones.

They answer nothing sensible before training. They exist so that the whole path (processors, chat templates, batches,
generation, training) runs anywhere, without a download, and so that training has something to start from.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from trustvid.errors import ConfigError
from trustvid.policy.vlm import VisionLanguagePolicy
from trustvid.policy.vlm_settings import FramesAs, Weights

TINY_FAMILIES = ("qwen2_5_vl", "qwen3_vl")


class TinyPolicy(VisionLanguagePolicy):
    """A model of about three million parameters of a published architecture, with random weights.

    The model is built at the first request, once: in the folder ``<cache>/tiny_<family>-v1``, from where it is loaded
    as any other. Two builds of one seed give the same bytes.

    Args:
        family: "qwen2_5_vl" or "qwen3_vl".
        cache: folder for built models.
        weights_seed: seed of the random weights.
        dtype, device, attn_implementation, max_new_tokens, do_sample, temperature, top_p, repetition_penalty, seed,
        frames_as, batch_size, name: see :class:`~trustvid.policy.vlm.VisionLanguagePolicy`.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    def __init__(
        self,
        family: Literal["qwen2_5_vl", "qwen3_vl"],
        cache: str,
        weights_seed: int = 0,
        dtype: str = "float32",
        device: str = "cpu",
        attn_implementation: str | None = None,
        max_new_tokens: int = 256,
        do_sample: bool = False,
        temperature: float = 1.0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        frames_as: FramesAs = "video",
        batch_size: int = 8,
        name: str | None = None,
    ):
        if family not in TINY_FAMILIES:
            raise ConfigError([f"family={family!r} is unknown; known: {', '.join(TINY_FAMILIES)}"])
        folder = f"tiny_{family}-v1" if weights_seed == 0 else f"tiny_{family}-v1-seed{weights_seed}"
        super().__init__(
            str((Path(cache) / folder).absolute()),
            dtype=dtype,
            device=device,
            attn_implementation=attn_implementation,
            offline=True,
            max_new_tokens=max_new_tokens,
            do_sample=do_sample,
            temperature=temperature,
            top_p=top_p,
            repetition_penalty=repetition_penalty,
            seed=seed,
            frames_as=frames_as,
            batch_size=batch_size,
            name=name or f"tiny_{family}",
        )
        self.family, self.weights_seed = family, weights_seed

    def _ready_weights(self) -> Weights:
        from trustvid.policy.tiny_build import ensure_model

        folder = ensure_model(Path(self.weights.model), self.family, self.weights_seed)
        return replace(self.weights, model=str(folder))
