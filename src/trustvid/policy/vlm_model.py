"""Loading a vision-language model and running batches through it. Imported at the first request, with torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, GenerationConfig
from transformers.utils import logging as hf_logging

from trustvid.errors import TrustvidError
from trustvid.policy import vlm_inputs
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.vlm_adapters import restore
from trustvid.policy.vlm_families import FAMILIES, Family
from trustvid.policy.vlm_inputs import Tensors
from trustvid.policy.vlm_session import Session, on_device
from trustvid.policy.vlm_settings import Showing, Weights
from trustvid.policy.vlm_tokens import TokenBuffer
from trustvid.weights import first_line, missing_weights

EMBEDDED = "policy=tiny_qwen2_5_vl (random weights, shows the path) or policy=scripted, which need no download"

_REMEMBERED = 1024  # messages whose tokens are kept


@dataclass(frozen=True)
class VisionLanguageModel:
    """Weights in memory with what belongs to them.

    Attributes:
        network: a transformers model for images and text, in evaluation mode.
        processor: its tokenizer, chat template and frame processors.
        family: how it takes frames.
        longest: tokens of the longest sequence, None where the model states none.
        peft: the PEFT model around ``network``, which carries adapters then; None without.
        in_use: held by whoever runs the network: tools that share it with the policy work in threads of their own.
    """

    network: Any
    processor: Any
    family: Family
    longest: int | None
    peft: Any = None
    in_use: RLock = field(default_factory=RLock, repr=False, compare=False)

    def encode(self, request: PolicyRequest, showing: Showing) -> Tensors:
        """Input tensors of one conversation, on the CPU."""
        return vlm_inputs.encode(request, self.processor, self.network, self.family, showing)

    def tokens_of(self, text: str) -> list[int]:
        """The tokens of a reply's words."""
        return self.processor.tokenizer(text, add_special_tokens=False)["input_ids"]

    def words_of(self, tokens: Sequence[int]) -> str:
        """The words of a reply's tokens, without the end of the turn."""
        ends = self.ends
        end = next((place for place, token in enumerate(tokens) if token in ends), len(tokens))
        return self.processor.tokenizer.decode(list(tokens[:end]), skip_special_tokens=True)

    def character_ends(self, tokens: Sequence[int]) -> list[int]:
        """For each token of a reply, how many characters of its words are written when it is."""
        pieces = self.processor.tokenizer.batch_decode([[token] for token in tokens], skip_special_tokens=True)
        words = self.words_of(tokens)
        if "\ufffd" not in words and "".join(pieces) == words:  # no letter of several tokens: the sum of the parts
            return list(accumulate(map(len, pieces)))
        return [len(self.words_of(tokens[: at + 1])) for at in range(len(tokens))]

    @cached_property
    def reply_prefix(self) -> str:
        """What the chat template writes between the mark of the policy's turn and its words: mostly nothing."""
        chat = [{"role": role, "content": [{"type": "text", "text": "-"}]} for role in ("user", "assistant")]
        prompt = self.processor.apply_chat_template(chat[:1], add_generation_prompt=True, tokenize=False)
        whole = self.processor.apply_chat_template(chat, tokenize=False)
        return whole[len(prompt) :].partition("-")[0] if whole.startswith(prompt) else ""

    @cached_property
    def turn_end(self) -> int:
        """The token that ends a turn in the chat template."""
        return self.following(Message("user", "-"), [-1])[0]

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end a turn."""
        ends = self.network.generation_config.eos_token_id
        return frozenset(ends if isinstance(ends, list) else [ends])

    def following(self, message: Message, after: Sequence[int]) -> list[int]:
        """The tokens between a reply and the next one: its end where it was cut, ``message``, the mark of a new turn.

        Args:
            message: what was said to the policy, without frames.
            after: tokens of the conversation up to and with the reply.
        """
        if message.frames:
            raise TrustvidError("frames in a later turn of a conversation; expected them in its first message alone")
        ids = self._from_turn_end(message.role, message.text)
        return list(ids[after[-1] == ids[0] :])

    @cached_property
    def _from_turn_end(self) -> Callable[[str, str], tuple[int, ...]]:
        """:meth:`_rendered`, remembered: the passes of a group are told the same."""
        return lru_cache(maxsize=_REMEMBERED)(self._rendered)

    def _rendered(self, role: str, text: str) -> tuple[int, ...]:
        """The tokens from the end of a reply to the mark of the next turn, a message between them."""
        chat = [
            {"role": role, "content": [{"type": "text", "text": words}]}
            for role, words in (("user", "-"), ("assistant", "-"), (role, text))
        ]
        ids = self.processor.tokenizer.apply_chat_template(
            chat,
            chat_template=self.processor.chat_template,
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            sanitize_control_tokens=True,
        )["input_ids"]
        ends = [place for place, token in enumerate(ids) if token in self.ends]
        return tuple(ids[ends[-2] :])  # from that of the reply; the last one is the message's own

    def session(self, buffers: Sequence[TokenBuffer]) -> Session:
        """Answers these conversations side by side."""
        return Session(self.network, self.processor.tokenizer.pad_token_id, self.ends, buffers)

    @torch.inference_mode()
    def logprobs(self, batch: Sequence[Tensors], replies: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probability of every token of the given replies, each after its conversation and the tokens before it."""
        longer = [vlm_inputs.extended(*pair) for pair in zip(batch, replies, strict=True)]
        inputs = on_device(self.network, vlm_inputs.joined(longer, self.processor.tokenizer.pad_token_id))
        most = max(map(len, replies))
        logits = self.network(**inputs, use_cache=False, logits_to_keep=most + 1).logits
        known = logits[:, :-1].float().log_softmax(-1)
        chosen = known.gather(2, inputs["input_ids"][:, -most:, None])[..., 0].tolist() if most else [[] for _ in batch]
        return [row[most - len(reply) :] for row, reply in zip(chosen, replies, strict=True)]


_LOADED: dict[Weights, VisionLanguageModel] = {}
_LOADING = Lock()


def load_shared(weights: Weights, name: str) -> VisionLanguageModel:
    """As :func:`load`, once in a process for equal weights: policy and tools that run one model share it."""
    with _LOADING:
        if weights not in _LOADED:
            _LOADED[weights] = load(weights, name)
        return _LOADED[weights]


def load(weights: Weights, name: str) -> VisionLanguageModel:
    """Read weights and processor, and say on stderr what they take.

    Raises:
        TrustvidError: they are not on this machine and cannot be fetched (with the download command), a package is
            missing, or the model is of no known family.
    """
    trained = Path(weights.init_from or "").expanduser().absolute()
    if weights.init_from and (trained / "config.json").is_file():  # all of a trained model, in place of the published
        weights = replace(weights, model=str(trained), init_from=None)
    if weights.is_folder and not (Path(weights.model) / "config.json").is_file():
        raise TrustvidError(missing_weights(weights, "there is no config.json", EMBEDDED))
    options = {"local_files_only": weights.offline}
    if not weights.is_folder:
        options["revision"] = weights.revision or "main"
    try:
        kind = AutoConfig.from_pretrained(weights.model, **options).model_type
        if kind not in FAMILIES:
            raise TrustvidError(
                f"model={weights.model} is a {kind} model; expected one of {', '.join(FAMILIES)}, or a server of it"
            )
        hf_logging.disable_progress_bar()
        processor = _processor(weights.model, tuple(options.items()))
        network = AutoModelForImageTextToText.from_pretrained(
            weights.model, dtype=_dtype(weights.dtype), **_placement(weights), **options
        )
        if not weights.device_map and not weights.quantization:
            network = network.to(_device(weights.device))
    except TrustvidError:
        raise
    except ImportError as error:
        raise TrustvidError(f"model={weights.model} needs a package that is missing: {first_line(error)}") from error
    except OSError as error:
        raise TrustvidError(missing_weights(weights, first_line(error), EMBEDDED)) from error
    except Exception as error:  # too little memory, a broken file, settings that do not fit: whatever transformers says
        raise TrustvidError(
            f"model={weights.model} cannot be loaded: {first_line(error)}; or use {EMBEDDED}"
        ) from error
    peft = None if weights.init_from is None else restore(network, weights.init_from)
    network.eval()
    # Of the decoding that is stored with the weights only the ends of a turn are kept: a run states its own.
    network.generation_config = GenerationConfig(
        eos_token_id=network.generation_config.eos_token_id, pad_token_id=processor.tokenizer.pad_token_id
    )
    longest = getattr(network.config.get_text_config(), "max_position_embeddings", None)
    print(f"policy {name}: {_takes(network)}", file=sys.stderr, flush=True)
    return VisionLanguageModel(network, processor, FAMILIES[kind], longest, peft)


@lru_cache(maxsize=4)
def _processor(model: str, options: tuple[tuple[str, Any], ...]) -> Any:
    """The processor of a model, read once in a process."""
    processor = AutoProcessor.from_pretrained(model, **dict(options))
    video = getattr(processor, "video_processor", None)
    if hasattr(video, "cap_pixels_per_frame"):
        video.cap_pixels_per_frame = False  # the bounds are those of the config; unset, it warns and means the same
    processor.tokenizer.padding_side = "left"  # for whoever pads with it; tokenizers lose this when they are saved
    if processor.tokenizer.pad_token_id is None:
        processor.tokenizer.pad_token = processor.tokenizer.eos_token
    return processor


def _dtype(name: str) -> Any:
    return name if name == "auto" else getattr(torch, name)


def _device(name: str) -> str:
    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def _placement(weights: Weights) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` that say where layers go and how they are kept."""
    placed: dict[str, Any] = {}
    if weights.attn_implementation:
        placed["attn_implementation"] = weights.attn_implementation
    if weights.device_map:
        placed["device_map"] = weights.device_map
    if weights.quantization:
        from transformers import BitsAndBytesConfig

        int4 = weights.quantization == "int4"
        placed["quantization_config"] = BitsAndBytesConfig(
            load_in_8bit=not int4, load_in_4bit=int4, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
        )
        placed.setdefault("device_map", {"": _device(weights.device)})
    return placed


def _takes(network: Any) -> str:
    """Size of the weights and memory of the process, in words."""
    size = network.get_memory_footprint()
    millions, kind = network.num_parameters() / 1e6, str(network.dtype).removeprefix("torch.")
    said = f"{millions:,.1f} M parameters, {size / 1e6:,.0f} MB of {kind} on {network.device}"
    if network.device.type == "cuda":
        return f"{said}, {torch.cuda.memory_allocated(network.device) / 1e6:,.0f} MB allocated there"
    statm = Path("/proc/self/statm")  # Linux
    if not statm.exists():
        return said
    resident = int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return f"{said}, {resident / 1e6:,.0f} MB resident in this process"
