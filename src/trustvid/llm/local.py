"""A chat model inside this process: a transformers chat model by hub id, folder or GGUF file, answering in batches."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from trustvid.errors import ConfigError
from trustvid.llm.chat import Chat
from trustvid.llm.local_model import LocalModel
from trustvid.llm.loop import PerLoop
from trustvid.llm.messages import ChatRequest, Failure, Outcome, Reply
from trustvid.llm.settings import Sampling

_DEFAULT_MAX_TOKENS = 256
# How long to wait for more requests before a batch starts that is not full.
_GATHER_S = 0.02


class LocalChat(Chat):
    """Chat with a model in this process. Weights load at the first request, once.

    Greedy unless the sampling says otherwise; a sampled reply is drawn with a seed from the request, alone in its
    batch. Rounding inside a batch can, rarely, turn a near-tie between two tokens: ``batch_size=1`` rules that out.

    Raises:
        ConfigError: settings are wrong, or the package that holds the weights is not installed.
    """

    def __init__(self, model: LocalModel, sampling: Sampling | None = None):
        self.model, self.sampling = model, sampling or Sampling()
        faults = [*model.faults(), *self.sampling.faults()]
        if faults:
            raise ConfigError(faults)
        self.parallel = 2 * model.batch_size
        self._batches = PerLoop(_Batches)
        self._one_at_a_time = threading.Lock()

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        return {
            "kind": "hf_local",
            "model": self.model.model,
            "weights": self._weights_digest(),
            "device": self._device,
            "dtype": self.model.dtype,
            "batch_size": self.model.batch_size,
            "sampling": self.sampling.to_json(),
        }

    async def complete(self, request: ChatRequest, *, fresh: bool = False) -> Outcome:
        batches = self._batches.get()
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        batches.waiting.append((request, answer))
        if batches.worker is None or batches.worker.done():
            batches.worker = asyncio.ensure_future(self._work(batches))
        return await answer

    async def _work(self, batches: _Batches) -> None:
        while batches.waiting:
            if len(batches.waiting) < self.model.batch_size:
                await asyncio.sleep(_GATHER_S)
            batch = [batches.waiting.pop(0) for _ in range(min(self.model.batch_size, len(batches.waiting)))]
            requests = [request for request, _ in batch]
            try:
                outcomes = await asyncio.to_thread(self._answer, requests)
            except Exception as error:  # handed to whoever waits, who cannot be reached otherwise
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for (_, answer), outcome in zip(batch, outcomes, strict=True):
                if not answer.done():
                    answer.set_result(outcome)

    def _answer(self, requests: Sequence[ChatRequest]) -> list[Outcome]:
        """Replies to a batch, in order."""
        with self._one_at_a_time:
            outcomes: list[Outcome | list[int]] = [self._prompt(request) for request in requests]
            # Greedy requests of one setting are generated together; a sampled one has a seed, and a batch, of its own.
            groups: dict[tuple[Sampling, int | None], list[int]] = {}
            for place, request in enumerate(requests):
                sampling = request.sampling or self.sampling
                if isinstance(outcomes[place], list):
                    groups.setdefault((sampling, place if sampling.temperature else None), []).append(place)
            for (sampling, alone), places in groups.items():
                seed = None if alone is None else _seed(sampling, requests[alone])
                replies = self._generate([outcomes[place] for place in places], sampling, seed)
                for place, reply in zip(places, replies, strict=True):
                    outcomes[place] = _begun(requests[place], reply)
            return outcomes

    def _prompt(self, request: ChatRequest) -> list[int] | Failure:
        """The tokens of a conversation, or why it cannot be continued."""
        if any(not isinstance(part, str) for message in request.messages for part in message.parts):
            return Failure("bad_request", f"{self.model.model} runs as a text model here; expected messages of text")
        tokenizer, model = self._loaded
        chat = [{"role": message.role, "content": message.text} for message in request.messages]
        begun = chat[-1]["role"] == "assistant"
        text = tokenizer.apply_chat_template(
            chat, add_generation_prompt=not begun, continue_final_message=begun, tokenize=False
        )
        tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
        longest = (request.sampling or self.sampling).max_tokens or _DEFAULT_MAX_TOKENS
        room = getattr(model.config, "max_position_embeddings", None)
        if room and len(tokens) > room - longest:
            reason = f"the prompt has {len(tokens):,} tokens; the model takes {room - longest:,} beside its reply"
            return Failure("too_long", reason)
        return tokens

    def _generate(self, prompts: Sequence[list[int]], sampling: Sampling, seed: int | None) -> list[Outcome]:
        import torch

        tokenizer, model = self._loaded
        padded = tokenizer.pad({"input_ids": list(prompts)}, padding=True, return_tensors="pt").to(model.device)
        with torch.random.fork_rng(enabled=seed is not None), torch.inference_mode():
            if seed is not None:
                torch.manual_seed(seed)
            tokens = model.generate(
                **padded,
                **_draw(sampling),
                max_new_tokens=sampling.max_tokens or _DEFAULT_MAX_TOKENS,
                pad_token_id=tokenizer.pad_token_id,
                **({"stop_strings": list(sampling.stop), "tokenizer": tokenizer} if sampling.stop else {}),
            )
        width = padded["input_ids"].shape[1]
        return [self._reply(row[width:].tolist(), len(prompt)) for row, prompt in zip(tokens, prompts, strict=True)]

    def _reply(self, tokens: list[int], prompt_tokens: int) -> Outcome:
        tokenizer, model = self._loaded
        ends = model.generation_config.eos_token_id
        ends = {*ends} if isinstance(ends, list) else {ends}
        end = next((place for place, token in enumerate(tokens) if token in ends), None)
        said = tokens if end is None else tokens[:end]
        text = tokenizer.decode(said, skip_special_tokens=True)
        if not text.strip():
            return Failure("bad_reply", "the reply has no content", attempts=1)
        cut = end is None and not any(text.endswith(stop) for stop in self.sampling.stop)
        return Reply(text, "length" if cut else "stop", self.model.model, prompt_tokens, len(said))

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        """Tokenizer and model."""
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        where, options = self._source
        dtype = self.model.dtype
        if dtype == "auto" and self.model.file:
            dtype = "float32"
        try:
            tokenizer = AutoTokenizer.from_pretrained(where, **options)
            model = AutoModelForCausalLM.from_pretrained(
                where, dtype=dtype if dtype == "auto" else getattr(torch, dtype), **options
            )
        except (OSError, ValueError, ImportError, AttributeError) as error:
            raise ConfigError(
                [
                    f"model={self.model.model} cannot be loaded ({str(error).splitlines()[0][:200]}); expected a "
                    "transformers chat model (for .gguf files: pip install gguf), or use judge=rules_only"
                ]
            ) from error
        if not tokenizer.chat_template:
            raise ConfigError([f"model={self.model.model} has no chat template; expected an instruction-tuned model"])
        tokenizer.padding_side = "left"
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer, model.to(self._device).eval()

    @property
    def _source(self) -> tuple[str, dict[str, Any]]:
        """First argument and options of ``from_pretrained``."""
        if self.model.file:
            return str(self.model.file.parent), {"gguf_file": self.model.file.name, "local_files_only": True}
        return self.model.model, {"revision": self.model.revision or "main", "local_files_only": self.model.offline}

    @cached_property
    def _device(self) -> str:
        if self.model.device != "auto":
            return self.model.device
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    def _weights_digest(self) -> str:
        """What tells these weights from others of the same name: a digest of the files, or the hub's commit."""
        folder = Path(self.model.model)
        if self.model.file or folder.is_dir():
            files = [self.model.file] if self.model.file else sorted(p for p in folder.rglob("*") if p.is_file())
            digest = hashlib.sha256()
            for path in files:
                digest.update(path.name.encode() + b"\0")
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
            return digest.hexdigest()[:16]
        from transformers import AutoConfig

        where, options = self._source
        try:
            commit = AutoConfig.from_pretrained(where, **options)._commit_hash
        except (OSError, ValueError) as error:
            raise ConfigError(
                [f"model={where} cannot be found ({str(error).splitlines()[0][:200]}); expected a hub id or a folder"]
            ) from error
        return str(commit or self.model.revision or "main")


@dataclass(eq=False)
class _Batches:
    """Requests that wait for the model, and the task that works them off."""

    waiting: list[tuple[ChatRequest, asyncio.Future[Outcome]]] = field(default_factory=list)
    worker: asyncio.Future[None] | None = None


def _draw(sampling: Sampling) -> dict[str, Any]:
    """Arguments of ``generate`` that say how tokens are drawn."""
    if not sampling.temperature:
        # None, not absent: the model's own generation settings would be read for them.
        return {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    return {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p or 1.0, "top_k": 0}


def _seed(sampling: Sampling, request: ChatRequest) -> int:
    from trustvid.llm.messages import canonical_json
    from trustvid.seeding import derive_seed

    return derive_seed(sampling.seed or 0, canonical_json(request.to_json())) >> 1


def _begun(request: ChatRequest, outcome: Outcome) -> Outcome:
    """The outcome with the words that the reply was made to begin with."""
    last = request.messages[-1]
    if last.role != "assistant" or isinstance(outcome, Failure):
        return outcome
    return replace(outcome, text=last.text + outcome.text)
