"""Tiny vision-language policies: random weights built on this machine, run by the same code as the published ones.

They answer nothing sensible before training. They exist so that the whole path (processors, chat templates, batches,
generation, training) runs anywhere, without a download, and so that training has something to start from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from trustvid.errors import ConfigError
from trustvid.policy.vlm import VisionLanguagePolicy
from trustvid.policy.vlm_settings import FramesAs, Weights

TINY_FAMILIES = ("qwen2_5_vl", "qwen3_vl")
# Of a head's size, half is divided among positions along the text (the rest), in height and in width (five each).
_LEAST_HEAD = 22


@dataclass(frozen=True)
class Size:
    """How large a tiny model is and which words it knows.

    Attributes:
        hidden_size: width of the language model; the vision tower is narrower or wider in proportion.
        layers: of the language model.
        heads, kv_heads: of its attention.
        words: each becomes one token with the blank before it, and counts to the texts that the tokenizer learns from.
        pieces: each becomes one token wherever it stands, whatever is beside it: what a model this small is to copy
            looks the same after a blank, a quotation mark or an asterisk.
    """

    hidden_size: int = 192
    layers: int = 4
    heads: int = 6
    kv_heads: int = 3
    words: tuple[str, ...] = ()
    pieces: tuple[str, ...] = ()

    def described(self) -> dict[str, Any]:
        """Its settings; without ``pieces`` where there are none, so that folders of older builds keep their names."""
        settings = asdict(self)
        return settings if self.pieces else {key: value for key, value in settings.items() if key != "pieces"}

    @property
    def tag(self) -> str:
        """What tells the folders of sizes apart; empty for the usual one."""
        if self == Size():
            return ""
        return "-" + hashlib.sha256(json.dumps(self.described()).encode()).hexdigest()[:8]

    def faults(self) -> Iterator[str]:
        """What is wrong with it."""
        counts = {name: getattr(self, name) for name in ("hidden_size", "layers", "heads", "kv_heads")}
        small = [f"{name}={count}; expected at least 1" for name, count in counts.items() if count < 1]
        yield from small
        if not small:
            head, rest = divmod(self.hidden_size, self.heads)
            if rest or head % 2 or head < _LEAST_HEAD:
                yield (
                    f"hidden_size={self.hidden_size} over heads={self.heads}; expected an even number of at least "
                    f"{_LEAST_HEAD} for each head"
                )
            if self.heads % self.kv_heads:
                yield f"heads={self.heads} are no multiple of kv_heads={self.kv_heads}"
        for word in self.words:
            if not word or word != word.strip() or len(word.split()) != 1:
                yield f"words holds {word!r}; expected single words"
        for piece in self.pieces:
            if not piece or piece != piece.strip():
                yield f"pieces holds {piece!r}; expected text without blanks around it"


class TinyPolicy(VisionLanguagePolicy):
    """A model of about three million parameters (as a rule) of a published architecture, with random weights.

    The model is built at the first request, once: in the folder ``<cache>/tiny_<family>-v1``, from where it is loaded
    as any other; other sizes and seeds have folders of their own. Two builds of one seed give the same bytes.

    Args:
        family: "qwen2_5_vl" or "qwen3_vl".
        cache: folder for built models.
        weights_seed: seed of the random weights.
        hidden_size, layers, heads, kv_heads, words, pieces: see :class:`Size`.
        dtype, device, attn_implementation, max_new_tokens, do_sample, temperature, top_p, repetition_penalty, seed,
        frames_as, batch_size, init_from, name: see :class:`~trustvid.policy.vlm.VisionLanguagePolicy`.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    def __init__(
        self,
        family: Literal["qwen2_5_vl", "qwen3_vl"],
        cache: str,
        weights_seed: int = 0,
        hidden_size: int = Size.hidden_size,
        layers: int = Size.layers,
        heads: int = Size.heads,
        kv_heads: int = Size.kv_heads,
        words: Sequence[str] = (),
        pieces: Sequence[str] = (),
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
        init_from: str | None = None,
        name: str | None = None,
    ):
        size = Size(hidden_size, layers, heads, kv_heads, tuple(words), tuple(pieces))
        faults = [*size.faults()]
        if family not in TINY_FAMILIES:
            faults.append(f"family={family!r} is unknown; known: {', '.join(TINY_FAMILIES)}")
        if faults:
            raise ConfigError(faults)
        folder = f"tiny_{family}-v1{size.tag}" + (f"-seed{weights_seed}" if weights_seed else "")
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
            init_from=init_from,
            name=name or f"tiny_{family}",
        )
        self.family, self.weights_seed, self.size = family, weights_seed, size

    def _ready_weights(self) -> Weights:
        from trustvid.policy.tiny_build import ensure_model

        folder = ensure_model(Path(self.weights.model), self.family, self.weights_seed, self.size)
        return replace(self.weights, model=str(folder))
