"""Rollouts from a vLLM server: the LoRA adapter in training is loaded into it anew before every step."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from trustvid.errors import ConfigError, TrustvidError
from trustvid.grpo.rollout import Sampling as TurnSampling
from trustvid.grpo.rollout import turn_of
from trustvid.grpo.vllm_server import TOKENS_AS_DRAWN, Drawn, TokenRequest, VllmServer, server_command
from trustvid.llm.messages import ChatMessage, Failure
from trustvid.llm.settings import Endpoint, Limits, Sampling
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.openai_compatible import Pictures
from trustvid.policy.vlm import Turn, identity, key_of, reason_of
from trustvid.seeding import derive_seed

if TYPE_CHECKING:
    from trustvid.policy.vlm import VisionLanguagePolicy
    from trustvid.policy.vlm_inputs import Tensors
    from trustvid.policy.vlm_tokens import TokenBuffer

_CERTAIN = 1e-4  # a log-probability above minus this is 0 up to rounding


class VllmEngine:
    """Samples from a vLLM server that is given the adapter after every step. Only an adapter can be exchanged there:
    ``adapter=lora``, in one training process.

    Conversations are kept as tokens here: the prompt by this process's own encoder, replies as the server's token ids.
    Frames are sent as lossless pictures where the encoder puts them, so ``policy.frames_as`` is "images". The server
    renders every turn anew from its words and may divide earlier replies into other tokens than it drew; prompts that
    differ are counted.

    An adapter's name on the server is a digest of its weights. A server that was restarted, or was given nothing,
    refuses a name it does not know, so that no other weights ever answer in the policy's place.

    Args:
        base_url: the API's root, usually ending in /v1.
        model: the base model's name on the server.
        adapter_dir: folder for the adapter, which this process writes and the server reads under the same path. None =
            whoever builds the run sets the attribute before training begins.
        adapter_name: adapters are called so on the server, with a digest of their weights behind it.
        temperature, max_new_tokens: one for all turns, or one for each (the last holds for all later ones).
        top_p: 1. With less the server's log-probabilities would count the tokens that are left, the trainer's all.
        concurrency: requests in flight at a time; the server makes its batches of them.
        timeout_s: seconds for one attempt at a request.
        max_retries: further attempts after the first, at a turn or at loading an adapter.
        backoff_s: first wait between attempts; it doubles.
        key_env: environment variable that holds the server's key; None = it wants none.

    Attributes:
        processed: whether the server's log-probabilities are those of the distribution drawn from; None = not known
            yet. (At temperature 1 it makes no difference; at others a server where it is false is refused.)
        compared_prompts, mismatched_prompts: turns since the last exchange of the adapter whose prompt the server told,
            and those of them in which it was not the buffer's.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    name = "vllm"
    is_remote = True

    def __init__(
        self,
        base_url: str,
        model: str,
        adapter_dir: str | None = None,
        adapter_name: str = "trustvid",
        temperature: float | Sequence[float] = 1.0,
        max_new_tokens: int | Sequence[int] = 256,
        top_p: float = 1.0,
        concurrency: int = 64,
        timeout_s: float = 600.0,
        max_retries: int = 4,
        backoff_s: float = 1.0,
        key_env: str | None = None,
    ):
        endpoint = Endpoint(model, base_url, key_env, extra=TOKENS_AS_DRAWN)
        total = timeout_s * (max_retries + 1)
        limits = Limits(concurrency, timeout_s, total, max_retries, backoff_s, give_up_after=None)
        faults = [f"rollout: {fault}" for part in (endpoint, limits) for fault in part.faults()]
        if top_p != 1.0:
            faults.append(f"rollout.top_p={top_p}; expected 1.0 with a server (the trainer counts all tokens)")
        if not re.fullmatch(r"[A-Za-z0-9_]+", adapter_name):
            faults.append(f"rollout.adapter_name={adapter_name!r}; expected letters, digits and underscores")
        try:
            self.sampling = TurnSampling(temperature, max_new_tokens)
        except ConfigError as error:
            faults += error.faults
        if faults:
            raise ConfigError(faults)
        self.server = VllmServer(endpoint, limits=limits)
        self.adapter_dir, self.adapter_name = adapter_dir, adapter_name
        self.policy: VisionLanguagePolicy | None = None
        self.processed: bool | None = None
        self.compared_prompts = self.mismatched_prompts = 0
        self._folder: Path | None = None
        self._waiting: dict[tuple, list[TokenBuffer]] = {}  # conversations that may go on
        self._shown: dict[tuple, ChatMessage] = {}  # messages as they are sent: the samples of a group share theirs

    def connect(self, policy: VisionLanguagePolicy) -> None:
        """Speak for this policy.

        Raises:
            ConfigError: it is shown frames in a way that a request cannot carry.
        """
        if policy.showing.frames_as != "images":
            raise ConfigError(
                [f"policy.frames_as={policy.showing.frames_as}: rollout=vllm sends single pictures; expected images"]
            )
        self.policy = policy

    def temperature(self, turn: int) -> float:
        """Temperature of the policy's turn ``turn``, from 0."""
        return self.sampling.decoding(turn, 0).temperature

    # -- the adapter ---------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """``sampling/prompt_mismatch``: share of prompts since the last exchange that the server split otherwise."""
        return {"sampling/prompt_mismatch": self.mismatched_prompts / max(1, self.compared_prompts)}

    def updated(self, trainable: Any, step: int) -> None:
        """Give the server the weights as they are now: before the first step, and after each.

        Raises:
            ConfigError: what is trained is no adapter, or in several processes, or no folder is set.
            TrustvidError: the server does not take the adapter, or does not answer as it must. Nothing can be sampled
                then: what was loaded before is no longer the policy.
        """
        self.server.adapter, loaded = None, self.server.adapter
        self._waiting.clear()
        self._shown.clear()
        self.compared_prompts = self.mismatched_prompts = 0
        _refuse_other_than_an_adapter(trainable, self.adapter_dir)
        name, folder = export(trainable, Path(self.adapter_dir).absolute(), self.adapter_name)
        self.server.exchange(name, folder, loaded)
        if self._folder not in (None, folder):
            shutil.rmtree(self._folder)
        self._folder = folder
        if self.processed is None:
            self.processed = self._logprobs_are_processed()

    def _logprobs_are_processed(self) -> bool:
        """Ask for a reply of the one token that is allowed: certain after all restrictions, unlikely before them."""
        token = self.policy.loaded.tokens_of("a")[0]
        said = (ChatMessage.of("user", "-"),)
        sampling, extra = Sampling(1.0, 1.0, 1), {"allowed_token_ids": [token]}
        (outcome,) = self.server.complete_many([TokenRequest(said, sampling=sampling, extra=extra)])
        if isinstance(outcome, Failure):
            raise TrustvidError(f"vLLM does not answer as training needs it ({outcome.kind}): {outcome.message}")
        processed = outcome.logprobs[0] > -_CERTAIN
        heated = any(self.temperature(turn) != 1.0 for turn in range(self.sampling.turns))
        if heated and not processed:
            raise TrustvidError(
                "vLLM sends log-probabilities without temperature, and rollout.temperature is not 1; expected a server "
                f"started with: {server_command(self.server.endpoint.model)}"
            )
        return processed

    # -- turns ---------------------------------------------------------------------------------------------------------

    def ask(self, requests: Sequence[PolicyRequest], seed: int) -> list[Turn | TrustvidError]:
        """The next turn of each conversation, or why there is none.

        Draws are seeded by ``seed``, the conversation and the number of the sample. (How alike the replies of two runs
        are is the server's affair: sums in its batches round as they come.)

        Raises:
            TrustvidError: no adapter is loaded (:meth:`updated` was not called, or failed).
        """
        if self.server.adapter is None or self.processed is None:
            raise TrustvidError("no adapter is loaded into vLLM; expected updated() before the first turn is asked for")
        turns: list[Any] = [None] * len(requests)
        asked: list[tuple[int, TokenBuffer]] = []
        encoded: dict[tuple, Tensors] = {}

        def rendered() -> Iterator[TokenRequest]:  # taken one by one: the server works while the next is encoded
            for place, request in enumerate(requests):
                try:
                    buffer, chat = self._buffer(request, encoded), self._chat_request(request, seed)
                except Exception as error:  # unreadable frames, or whatever a processor objects to
                    turns[place] = TrustvidError(reason_of(error))
                    continue
                asked.append((place, buffer))
                yield chat

        outcomes = list(self.server.complete_stream(rendered()))
        for (place, buffer), outcome in zip(asked, outcomes, strict=True):
            turns[place] = self._turn(requests[place], buffer, outcome)
        return turns

    def _turn(self, request: PolicyRequest, buffer: TokenBuffer, outcome: Drawn | Failure) -> Turn | TrustvidError:
        model = self.policy.loaded
        if isinstance(outcome, Failure):
            return TrustvidError(f"the policy gave no reply ({outcome.kind}): {outcome.message}")
        ended = outcome.tokens[-1] in model.ends
        if outcome.finish_reason not in ("stop", "length") or (outcome.finish_reason == "stop") != ended:
            return TrustvidError(
                f"vLLM's reply ended ({outcome.finish_reason}) with token {outcome.tokens[-1]}; expected one of "
                f"{sorted(model.ends)} after stop, or another after length: it must serve the model that is trained"
            )
        if outcome.prompt is not None:
            self.compared_prompts += 1
            self.mismatched_prompts += not same_prompt(buffer.ids, outcome.prompt, _placeholders(buffer.tensors))
        buffer.write(outcome.tokens, outcome.logprobs, complete=ended)
        turn = Turn(model.words_of(outcome.tokens), buffer)
        said = (*request.messages, Message("assistant", turn.text))
        self._waiting.setdefault(key_of(replace(request, messages=said)), []).append(buffer)
        return turn

    def _buffer(self, request: PolicyRequest, encoded: dict[tuple, Tensors]) -> TokenBuffer:
        """The conversation's tokens: those of its last turn and what was said since, or all of it anew."""
        from trustvid.policy.vlm_tokens import TokenBuffer

        *earlier, last = request.messages
        waiting = self._waiting.get(key_of(replace(request, messages=tuple(earlier))))
        if waiting and not last.frames:
            buffer = waiting.pop(0)
            buffer.show(self.policy.loaded.following(last, buffer.ids))
            return buffer
        alike = replace(request, sample=0)
        if (key := key_of(alike)) not in encoded:
            encoded[key] = self.policy.loaded.encode(alike, self.policy.showing)
        return TokenBuffer(encoded[key])

    def _chat_request(self, request: PolicyRequest, seed: int) -> TokenRequest:
        decoding = self.sampling.decoding(turn_of(request), seed)
        drawn = derive_seed("policy", seed, *identity(request))
        extra: dict[str, Any] = {"stop_token_ids": sorted(self.policy.loaded.ends)}
        showing = self.policy.showing
        pictures = {"min_pixels": showing.min_pixels, "max_pixels": showing.max_pixels} if showing.max_pixels else {}
        if settings := {**self.policy.loaded.family.images, **pictures}:
            extra["mm_processor_kwargs"] = settings
        return TokenRequest(
            tuple(self._sent(message, request) for message in request.messages),
            sampling=Sampling(decoding.temperature, 1.0, decoding.max_new_tokens, drawn),
            extra=extra,
        )

    def _sent(self, message: Message, request: PolicyRequest) -> ChatMessage:
        """A message as the encoder renders it, its pictures as lossless files."""
        from trustvid.policy.vlm_inputs import chat_of

        alone = replace(request, messages=(message,), sample=0)
        if (key := key_of(alone)) not in self._shown:
            files = Pictures(longest_side=None, image_format="png")
            (said,), _ = chat_of(alone, self.policy.loaded.family, "images")
            parts = [
                files.encode(part["image"]) if part["type"] == "image" else part["text"] for part in said["content"]
            ]
            self._shown[key] = ChatMessage.of(message.role, *parts)
        return self._shown[key]


def export(trainable: Any, parent: Path, name: str) -> tuple[str, Path]:
    """Write the adapter into a folder of its own, which appears as a whole.

    Returns:
        What the adapter is called, ``<name>-<digest of its weights>``, and its folder, ``parent / that``.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".writing-", dir=parent) as scratch:
        written = Path(scratch) / "adapter"
        trainable.export(written)
        with (written / "adapter_model.safetensors").open("rb") as file:
            called = f"{name}-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
        folder = parent / called
        if not folder.exists():  # else it holds these very weights
            written.rename(folder)
    return called, folder


def same_prompt(ours: Sequence[int], theirs: Sequence[int], placeholders: Iterable[int]) -> bool:
    """Whether two prompts are of the same tokens. Theirs may have one placeholder for each picture, as before its size
    is known; any other number of them means that the picture is shown in another size.

    >>> same_prompt([1, 9, 9, 9, 2], [1, 9, 2], {9}), same_prompt([1, 9, 9, 9, 2], [1, 9, 9, 2], {9})
    (True, False)
    """
    media, short = set(placeholders), []
    for token, run in groupby(ours):
        short += [token] if token in media else list(run)
    return list(theirs) in (list(ours), short)


def _placeholders(tensors: Tensors) -> set[int]:
    """Tokens that stand for pieces of pictures."""
    if "mm_token_type_ids" not in tensors:
        return set()
    return set(tensors["input_ids"][tensors["mm_token_type_ids"] > 0].tolist())


def _refuse_other_than_an_adapter(trainable: Any, adapter_dir: str | None) -> None:
    from torch import distributed

    faults = []
    if trainable.kind != "lora":
        faults.append(f"adapter={trainable.kind}: rollout=vllm exchanges adapters alone; expected adapter=lora")
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        faults.append("rollout=vllm with several training processes; expected one, or rollout=hf")
    if adapter_dir is None:
        faults.append("rollout.adapter_dir is not set; expected a folder that the vLLM server reads too")
    if faults:
        raise ConfigError(faults)
