"""Vision-language models of transformers as policies. Cheap to import and to build: torch and weights come later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trustvid.errors import ConfigError, TrustvidError
from trustvid.policy.base import Message, PolicyError, PolicyRequest
from trustvid.policy.vlm_settings import Decoding, FramesAs, Quantization, Showing, Weights
from trustvid.seeding import derive_rng

if TYPE_CHECKING:
    from trustvid.policy.vlm_inputs import Tensors
    from trustvid.policy.vlm_model import VisionLanguageModel
    from trustvid.policy.vlm_session import Session
    from trustvid.policy.vlm_tokens import TokenBuffer

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
        model, revision, dtype, device, device_map, attn_implementation, quantization, offline, init_from: see
            :class:`~trustvid.policy.vlm_settings.Weights`.
        max_new_tokens, do_sample, temperature, top_p, repetition_penalty, seed: see
            :class:`~trustvid.policy.vlm_settings.Decoding`.
        frames_as, min_pixels, max_pixels, total_pixels: see :class:`~trustvid.policy.vlm_settings.Showing`.
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
        total_pixels: int | None = None,
        batch_size: int = 8,
        init_from: str | None = None,
        name: str | None = None,
    ):
        self.weights = Weights(
            model, revision, dtype, device, device_map, attn_implementation, quantization, offline, init_from
        )
        self.decoding = Decoding(max_new_tokens, do_sample, temperature, top_p, repetition_penalty, seed)
        self.showing = Showing(frames_as, min_pixels, max_pixels, total_pixels)
        faults = [*self.weights.faults(), *self.decoding.faults(), *self.showing.faults()]
        if batch_size < 1:
            faults.append(f"batch_size={batch_size}; expected at least 1")
        if faults:
            raise ConfigError(faults)
        self.batch_size = self.parallel = batch_size
        self.name = name or model.rstrip("/").rpartition("/")[2]
        self._unloadable: TrustvidError | None = None
        self._live: dict[tuple, list[_Live]] = {}  # conversations of the last call, which may go on

    def load(self) -> VisionLanguageModel:
        """The model, in memory from the first call on.

        Raises:
            TrustvidError: it cannot be loaded; the message has the way out.
        """
        return self.loaded

    def load_own(self) -> VisionLanguageModel:
        """The model anew, shared with nobody, so that its weights may be changed; used from now on.

        Raises:
            TrustvidError: it cannot be loaded.
        """
        from trustvid.policy.vlm_model import load

        self._live.clear()
        self.loaded = load(self._ready_weights(), self.name)
        return self.loaded

    def use(self, network: Any) -> None:
        """Speak with this network, of the same architecture and tokens, from now on."""
        self._live.clear()
        self.loaded = replace(self.loaded, network=network)

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        """One reply for each conversation, in order; cut where it reaches ``max_new_tokens``.

        Raises:
            TrustvidError: the weights cannot be loaded.
            PolicyError: the model failed on a conversation, alone in its batch; the other replies are in it.
        """
        try:
            return [turn.text for turn in self.converse(requests)]
        except PolicyError as error:
            replies = [turn and turn.text for turn in error.replies]
            raise PolicyError(str(error), replies, error.reasons) from error

    def converse(self, requests: Sequence[PolicyRequest], decoding: Decoding | None = None) -> list[Turn]:
        """As :meth:`generate`, with the tokens of each conversation.

        A request that continues a conversation of the call before goes on from what the model has read of it.

        Args:
            requests: n conversations.
            decoding: how these replies are drawn; None = as the policy's settings say.

        Raises:
            TrustvidError, PolicyError: as :meth:`generate`; the error's replies are turns.
        """
        with self.loaded.in_use:
            return self._converse(requests, decoding or self.decoding)

    def _converse(self, requests: Sequence[PolicyRequest], decoding: Decoding) -> list[Turn]:
        from trustvid.policy.vlm_tokens import TokenBuffer

        model = self.loaded
        before, self._live = self._live, {}
        turns: list[Any] = [None] * len(requests)
        reasons: dict[int, str] = {}

        def answer(places: Sequence[int], buffers: Sequence[TokenBuffer], session: Session | None = None) -> None:
            session = session or model.session(buffers)
            session.reply(decoding, self._draws([requests[place] for place in places], decoding))
            for row, (place, buffer) in enumerate(zip(places, buffers, strict=True)):
                turns[place] = Turn(model.words_of(buffer.last_reply), buffer)
                request = requests[place]
                said = (*request.messages, Message("assistant", turns[place].text))
                self._live.setdefault(key_of(replace(request, messages=said)), []).append(_Live(session, row))

        going_on = self._going_on(requests, before, reasons, decoding.max_new_tokens)
        for session, rows in going_on:
            buffers = [session.buffers[row] for row in rows.values()]
            session.keep(list(rows.values()))
            _each([(list(rows), buffers)], lambda places, held, s=session: answer(places, held, s), answer, reasons)
        known = {place for _, rows in going_on for place in rows} | set(reasons)
        fresh = [place for place in range(len(requests)) if place not in known]
        for encoded in self._encoded_windows(requests, fresh, reasons, dict.fromkeys(fresh, decoding.max_new_tokens)):
            batches = [
                (places, [TokenBuffer(encoded[place]) for place in places])
                for places in _batches(encoded, self.batch_size)
            ]
            _each(batches, answer, answer, reasons)
        return self._all(turns, reasons)

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
        results: list[Any] = [None] * len(requests)
        reasons: dict[int, str] = {}

        def score(places: Sequence[int], batch: Sequence[Tensors]) -> None:
            with self.loaded.in_use:
                scored = self.loaded.logprobs(batch, [tokens[place] for place in places])
            for place, values in zip(places, scored, strict=True):
                results[place] = values

        lengths = dict(enumerate(map(len, tokens)))
        for encoded in self._encoded_windows(requests, list(lengths), reasons, lengths):
            batches = [(places, [encoded[p] for p in places]) for places in _batches(encoded, self.batch_size)]
            _each(batches, score, score, reasons)
        return self._all(results, reasons)

    @cached_property
    def loaded(self) -> VisionLanguageModel:
        """The model, loaded when first asked for.

        Raises:
            TrustvidError: it cannot be loaded. It is not tried again: every question would wait for it.
        """
        if self._unloadable is not None:
            raise self._unloadable
        from trustvid.policy.vlm_model import load_shared

        try:
            return load_shared(self._ready_weights(), self.name)
        except TrustvidError as error:
            self._unloadable = error
            raise

    def _ready_weights(self) -> Weights:
        """The weights as they are to be loaded; subclasses make them here."""
        return self.weights

    def _draws(self, requests: Sequence[PolicyRequest], decoding: Decoding) -> np.ndarray | None:
        """Numbers in [0, 1) for the tokens of each reply, float64 [b, most tokens]; None where nothing is drawn."""
        if not decoding.do_sample:
            return None
        rngs = [derive_rng("policy", decoding.seed, *identity(request)) for request in requests]
        return np.stack([rng.random(decoding.max_new_tokens) for rng in rngs])

    def _going_on(
        self,
        requests: Sequence[PolicyRequest],
        before: dict[tuple, list[_Live]],
        reasons: dict[int, str],
        length: int,
    ) -> list[tuple[Session, dict[int, int]]]:
        """Sessions of the call before that go on: each with {place of a request: its row}, the new words shown."""
        found: dict[int, tuple[Session, dict[int, int]]] = {}
        for place, request in enumerate(requests):
            *earlier, last = request.messages
            alike = before.get(key_of(replace(request, messages=tuple(earlier))))  # several: asked twice in one list
            if not alike or last.frames:
                continue
            live = alike.pop(0)
            buffer = live.session.buffers[live.row]
            more = self.loaded.following(last, buffer.ids)
            if (reason := self._too_long(len(buffer) + len(more), length)) is not None:
                reasons[place] = reason
                continue
            buffer.show(more)
            found.setdefault(id(live.session), (live.session, {}))[1][place] = live.row
        return list(found.values())

    def _encoded_windows(
        self,
        requests: Sequence[PolicyRequest],
        places: Sequence[int],
        reasons: dict[int, str],
        lengths: Mapping[int, int],
    ) -> Iterator[dict[int, Tensors]]:
        """Input tensors of the requests at ``places``, some batches at a time; requests of one conversation share them.

        ``lengths``: tokens that must have room behind each.
        """
        for start in range(0, len(places), _WINDOW * self.batch_size):
            encoded: dict[int, Tensors] = {}
            shared: dict[tuple, Tensors] = {}
            for place in places[start : start + _WINDOW * self.batch_size]:
                request = replace(requests[place], sample=0)
                try:
                    if (key := key_of(request)) not in shared:
                        shared[key] = self.loaded.encode(request, self.showing)
                except Exception as error:  # unreadable frames, or whatever a processor objects to
                    reasons[place] = reason_of(error)
                    continue
                tokens = shared[key]["input_ids"].shape[1]
                if (reason := self._too_long(tokens, lengths[place])) is not None:
                    reasons[place] = reason
                else:
                    encoded[place] = shared[key]
            yield encoded

    def _too_long(self, tokens: int, length: int) -> str | None:
        """Why a conversation of so many tokens has no room for ``length`` more; None where it has."""
        longest = self.loaded.longest
        if longest is None or tokens + length <= longest:
            return None
        return (
            f"the conversation has {tokens:,} tokens and its reply may have {length:,}; the model takes "
            f"{longest:,} together: show fewer frames, or lower max_pixels or max_new_tokens"
        )

    def _all(self, results: list[Any], reasons: Mapping[int, str]) -> list[Any]:
        """The results, or the error that says which of them are missing and why."""
        if not reasons:
            return results
        count = f"{len(reasons)} of {len(results)} requests: " if len(results) > 1 else ""
        first = reasons[min(reasons)]
        raise PolicyError(f"policy {self.name} failed: {count}{first}", results, dict(sorted(reasons.items())))


@dataclass(frozen=True)
class Turn:
    """A reply and the conversation that ends with it.

    Attributes:
        text: the reply's words.
        buffer: all tokens, those of the reply last. It grows when the conversation goes on.
    """

    text: str
    buffer: TokenBuffer


@dataclass(frozen=True)
class _Live:
    """Where a conversation that may go on is: a row of a session."""

    session: Session
    row: int


def _each(
    batches: Sequence[tuple[Sequence[int], Sequence[Any]]],
    work: Callable[[Sequence[int], Sequence[Any]], None],
    alone: Callable[[Sequence[int], Sequence[Any]], None],
    reasons: dict[int, str],
) -> None:
    """``work(places, items)`` on each batch. One that fails is done again by ``alone``, item by item, so that one
    conversation does not take others with it; why an item fails alone goes into ``reasons``."""
    for places, items in batches:
        try:
            work(places, items)
        except Exception:  # out of memory, or whatever a model objects to
            for place, item in zip(places, items, strict=True):
                try:
                    alone([place], [item])
                except Exception as error:
                    reasons[place] = reason_of(error)


def key_of(request: PolicyRequest) -> tuple:
    """Equal for requests of one conversation."""
    return tuple(identity(request))


def identity(request: PolicyRequest) -> Iterator[str | int]:
    """What tells conversations apart: words, frames, what was done to their pixels, and the number of the sample."""
    yield request.clip.digest
    if request.sample:
        yield request.sample
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


def reason_of(error: Exception) -> str:
    """What happened, in one line."""
    said = (str(error).strip().splitlines() or [""])[0][:300]
    return said if isinstance(error, TrustvidError) else f"{type(error).__name__}: {said}"
