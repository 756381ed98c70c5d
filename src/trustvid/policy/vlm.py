"""Vision-language models of transformers as policies. Cheap to import and to build: torch and weights come later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trustvid.errors import ConfigError, TrustvidError
from trustvid.policy.base import PolicyError, PolicyRequest
from trustvid.policy.vlm_settings import Decoding, FramesAs, Quantization, Showing, Weights
from trustvid.seeding import derive_rng

if TYPE_CHECKING:
    from trustvid.policy.vlm_inputs import Tensors
    from trustvid.policy.vlm_model import VisionLanguageModel

# Conversations encoded at a time, in batches: among them those of like shape and length are put together.
_WINDOW = 4


class VisionLanguagePolicy:
    """A vision-language model in this process, by hub id or folder. Weights load at the first request, once.

    Each message's frames stand before its text. Shown as a video they are not sampled again, and the model is told
    when each of them was: by the means of its family (see :mod:`~trustvid.policy.vlm_families`).

    A reply depends on its conversation, the pixels of its frames and the settings alone: draws are seeded by these,
    not by order, and what else is in a batch does not count. One reservation: arithmetic inside a batch may round
    otherwise than alone, which can turn a tie between two tokens; ``batch_size=1`` rules that out.

    Args:
        model, revision, dtype, device, device_map, attn_implementation, quantization, offline: see
            :class:`~trustvid.policy.vlm_settings.Weights`.
        max_new_tokens, do_sample, temperature, top_p, repetition_penalty, seed: see
            :class:`~trustvid.policy.vlm_settings.Decoding`.
        frames_as, min_pixels, max_pixels: see :class:`~trustvid.policy.vlm_settings.Showing`.
        batch_size: conversations that are answered together.
        name: how tables call the policy; None = the model's name.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        device_map: str | None = None,
        attn_implementation: str | None = None,
        quantization: Quantization | None = None,
        offline: bool = False,
        max_new_tokens: int = 1024,
        do_sample: bool = False,
        temperature: float = 1.0,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        frames_as: FramesAs = "video",
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        batch_size: int = 8,
        name: str | None = None,
    ):
        self.weights = Weights(model, revision, dtype, device, device_map, attn_implementation, quantization, offline)
        self.decoding = Decoding(max_new_tokens, do_sample, temperature, top_p, repetition_penalty, seed)
        self.showing = Showing(frames_as, min_pixels, max_pixels)
        faults = [*self.weights.faults(), *self.decoding.faults(), *self.showing.faults()]
        if batch_size < 1:
            faults.append(f"batch_size={batch_size}; expected at least 1")
        if faults:
            raise ConfigError(faults)
        self.batch_size = self.parallel = batch_size
        self.name = name or model.rstrip("/").rpartition("/")[2]
        self._unloadable: TrustvidError | None = None

    def load(self) -> VisionLanguageModel:
        """The model, in memory from the first call on.

        Raises:
            TrustvidError: it cannot be loaded; the message has the way out.
        """
        return self.loaded

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        """One reply for each conversation, in order; cut where it reaches ``max_new_tokens``.

        Raises:
            TrustvidError: the weights cannot be loaded.
            PolicyError: the model failed on a conversation, alone in its batch; the other replies are in it.
        """

        def answer(places: Sequence[int], batch: Sequence[Tensors]) -> list[str]:
            return self.loaded.generate(batch, self.decoding, self._draws([requests[place] for place in places]))

        return self._in_batches(requests, [self.decoding.max_new_tokens] * len(requests), answer)

    def logprobs(self, requests: Sequence[PolicyRequest], replies: Sequence[str]) -> list[list[float]]:
        """Log-probability of every token of given replies, by the model as it is: no temperature, no penalty.

        Args:
            requests: n conversations.
            replies: n replies, each to its conversation. What ends a turn is not among the tokens.

        Returns:
            For each reply one value ≤ 0 (natural logarithm) for each of its tokens.

        Raises:
            TrustvidError, PolicyError: as :meth:`generate`.
            ValueError: the two differ in number.
        """
        if len(requests) != len(replies):
            raise ValueError(f"{len(requests)} requests and {len(replies)} replies; expected one reply for each")
        tokens = [self.loaded.tokens_of(reply) for reply in replies]

        def score(places: Sequence[int], batch: Sequence[Tensors]) -> list[list[float]]:
            return self.loaded.logprobs(batch, [tokens[place] for place in places])

        return self._in_batches(requests, list(map(len, tokens)), score)

    @cached_property
    def loaded(self) -> VisionLanguageModel:
        """The model, loaded when first asked for.

        Raises:
            TrustvidError: it cannot be loaded. It is not tried again: every question would wait for it.
        """
        if self._unloadable is not None:
            raise self._unloadable
        from trustvid.policy.vlm_model import load

        try:
            return load(self._ready_weights(), self.name)
        except TrustvidError as error:
            self._unloadable = error
            raise

    def _ready_weights(self) -> Weights:
        """The weights as they are to be loaded; subclasses make them here."""
        return self.weights

    def _draws(self, requests: Sequence[PolicyRequest]) -> np.ndarray | None:
        """Numbers in [0, 1) for the tokens of each reply, float64 [b, most tokens]; None where nothing is drawn."""
        if not self.decoding.do_sample:
            return None
        rngs = [derive_rng("policy", self.decoding.seed, *_identity(request)) for request in requests]
        return np.stack([rng.random(self.decoding.max_new_tokens) for rng in rngs])

    def _in_batches(
        self,
        requests: Sequence[PolicyRequest],
        lengths: Sequence[int],
        work: Callable[[Sequence[int], Sequence[Tensors]], list[Any]],
    ) -> list[Any]:
        """``work(places, tensors)`` on batches of the requests, whose replies may have ``lengths`` tokens.

        A batch that fails is done again one by one, so that one conversation does not take others with it.
        """
        _ = self.loaded  # what cannot be loaded is not the fault of a conversation
        results: list[Any] = [None] * len(requests)
        reasons: dict[int, str] = {}
        for start in range(0, len(requests), _WINDOW * self.batch_size):
            encoded: dict[int, Tensors] = {}
            for place in range(start, min(start + _WINDOW * self.batch_size, len(requests))):
                try:
                    encoded[place] = self._encoded(requests[place], lengths[place])
                except Exception as error:  # unreadable frames, or whatever a processor objects to
                    reasons[place] = _reason(error)
            waiting = _batches(encoded, self.batch_size)
            while waiting:
                places = waiting.pop(0)
                try:
                    done = work(places, [encoded[place] for place in places])
                except Exception as error:  # out of memory, or whatever a model objects to
                    if len(places) > 1:
                        waiting[:0] = [[place] for place in places]
                    else:
                        reasons[places[0]] = _reason(error)
                else:
                    for place, result in zip(places, done, strict=True):
                        results[place] = result
        if reasons:
            count = f"{len(reasons)} of {len(requests)} requests: " if len(requests) > 1 else ""
            first = reasons[min(reasons)]
            raise PolicyError(f"policy {self.name} failed: {count}{first}", results, dict(sorted(reasons.items())))
        return results

    def _encoded(self, request: PolicyRequest, length: int) -> Tensors:
        """Input tensors of a conversation that leaves room for ``length`` more tokens."""
        tensors = self.loaded.encode(request, self.showing)
        tokens, longest = tensors["input_ids"].shape[1], self.loaded.longest
        if longest is not None and tokens + length > longest:
            raise TrustvidError(
                f"the conversation has {tokens:,} tokens and its reply may have {length:,}; the model takes "
                f"{longest:,} together: show fewer frames, or lower max_pixels or max_new_tokens"
            )
        return tensors


def _identity(request: PolicyRequest) -> Iterator[str | int]:
    """What tells conversations apart: words, frames, and what was done to their pixels."""
    yield request.clip.digest
    for message in request.messages:
        yield from (message.role, message.text, len(message.frames), *message.frames)
        yield from map(request.clip.frame_key, message.frames)


def _batches(encoded: Mapping[int, Tensors], size: int) -> list[list[int]]:
    """Places in groups of up to ``size`` that can be one batch; the longest together, so that little is padded."""
    from trustvid.policy.vlm_inputs import shape_key

    alike: dict[tuple, list[int]] = {}
    for place in sorted(encoded, key=lambda place: -encoded[place]["input_ids"].shape[1]):
        alike.setdefault(shape_key(encoded[place]), []).append(place)
    return [places[start : start + size] for places in alike.values() for start in range(0, len(places), size)]


def _reason(error: Exception) -> str:
    """What happened, in one line."""
    said = (str(error).strip().splitlines() or [""])[0][:300]
    return said if isinstance(error, TrustvidError) else f"{type(error).__name__}: {said}"
