"""A vLLM server as training uses it: adapters are exchanged, replies come as tokens with their log-probabilities.

What vLLM does, and this client builds on (its sources as of 2026; 0.10.2 is the first version that has all of it):

* ``return_token_ids: true`` in a chat request brings ``choices[0].token_ids`` (the end of the turn included) and
  ``prompt_token_ids``; ``logprobs: true`` brings ``choices[0].logprobs.content[i].logprob``, one for each token.
* Whether log-probabilities are those of the distribution that was drawn from is a setting of the server
  (``--logprobs-mode``), not of a request. The default, ``raw_logprobs``, is without temperature;
  ``processed_logprobs`` is with temperature and every restriction (top_p, allowed tokens).
* Settings that a request leaves out come from the model's generation_config (top_k, repetition penalty, …), which the
  network in training knows nothing of: all of them are sent.
* ``/v1/load_lora_adapter`` and ``/v1/unload_lora_adapter`` exist only where the server was started with
  ``VLLM_ALLOW_RUNTIME_LORA_UPDATING=True``.
* Keys and values of prompts are cached under the *name* of an adapter, so that one loaded anew under its old name goes
  on from what its predecessor read (vLLM issue 42125): other weights need another name.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trustvid.errors import TrustvidError
from trustvid.llm import loop
from trustvid.llm.client import OpenAIChat
from trustvid.llm.messages import ChatRequest
from trustvid.llm.retrying import AttemptFailed, retrying

_LOAD, _UNLOAD = "/load_lora_adapter", "/unload_lora_adapter"
# For Endpoint.extra: tokens and their log-probabilities, and nothing of what a generation_config would decide.
TOKENS_AS_DRAWN = {
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "logprobs": True,
    "return_token_ids": True,
}


def server_command(model: str) -> str:
    """How the server is started."""
    return (
        f"VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve {model} --enable-lora --max-lora-rank 64 "
        "--logprobs-mode processed_logprobs"
    )


@dataclass(frozen=True)
class Drawn:
    """A reply as the server drew it.

    Attributes:
        tokens: its tokens, at least one; that which ended the turn is the last.
        logprobs: of each token, natural logarithm.
        finish_reason: "stop" = the policy ended its turn, "length" = it was cut.
        prompt: the tokens that the server put before it; None where it does not say.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish_reason: str
    prompt: tuple[int, ...] | None


@dataclass(frozen=True)
class TokenRequest(ChatRequest):
    """A chat request with more fields of the body."""

    extra: Mapping[str, Any] = field(default_factory=dict)


class VllmServer(OpenAIChat):
    """A vLLM server with an adapter that can be exchanged. Its outcomes are :class:`Drawn` or failures.

    Attributes:
        adapter: name of the adapter that answers; None = none is known to be loaded.
    """

    adapter: str | None = None

    def exchange(self, name: str, folder: Path, before: str | None) -> None:
        """Put the adapter that lies in ``folder`` in the place of ``before``. Tried again as the limits say.

        Raises:
            TrustvidError: the server has not loaded it. No adapter answers then.
        """
        self.adapter = None
        try:
            # The new name too: an attempt whose answer was lost, or an interrupted run, may have loaded it.
            loop.run(self._exchange([old for old in dict.fromkeys((before, name)) if old], name, folder))
        except AttemptFailed as error:
            raise TrustvidError(f"the adapter {folder} cannot be loaded into vLLM: {error.message}") from None
        self.adapter = name

    async def _exchange(self, unloaded: Sequence[str], name: str, folder: Path) -> None:
        live, clock = self._live.get(), asyncio.get_running_loop().time
        deadline = clock() + self.limits.total_timeout_s
        async for attempt in retrying(self.limits, lambda: deadline, clock):
            with attempt:
                for old in unloaded:
                    await self._post(live.client, _UNLOAD, {"lora_name": old})
                await self._post(live.client, _LOAD, {"lora_name": name, "lora_path": str(folder)})

    async def _post(self, client: Any, path: str, body: Mapping[str, str]) -> None:
        import httpx2
        import openai

        try:
            async with asyncio.timeout(self.limits.timeout_s):
                await client.post(path, cast_to=httpx2.Response, body=body)
        except TimeoutError:
            raise AttemptFailed("timeout", f"no answer within {self.limits.timeout_s:g} s", retry=True) from None
        except openai.APIStatusError as error:
            # An adapter that is not there, or was evicted, cannot be unloaded; whether all is well, loading will show.
            if path == _LOAD:
                raise self._load_failure(error) from None
        except openai.APIConnectionError:
            raise AttemptFailed("connection", f"no connection to {self._where}", retry=True) from None

    def _load_failure(self, error: Any) -> AttemptFailed:
        failure = self._status_failure(error)
        if error.status_code not in (404, 405):
            return failure
        if isinstance(error.body, Mapping) and "message" in error.body:  # of the adapter, not of the address
            said = f"{self._where} does not find it; expected rollout.adapter_dir in a folder that the server reads too"
        else:
            command = server_command(self.endpoint.model)
            said = f"{self.endpoint.root} has no {_LOAD}; expected a server started with: {command}"
        return AttemptFailed(failure.kind, said, retry=False)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        extra = request.extra if isinstance(request, TokenRequest) else {}
        return {**super()._body(request), "model": self.adapter, **extra}

    def _read(self, body: str, content_type: str) -> Drawn:
        try:
            record = json.loads(body)
            choice = record["choices"][0]
            tokens, prompt = choice.get("token_ids"), record.get("prompt_token_ids")
            known = (choice.get("logprobs") or {}).get("content") or ()
            logprobs = tuple(float(one["logprob"]) for one in known)
        except (ValueError, LookupError, TypeError, AttributeError):
            shown = self._key.struck_out(body)[:80]
            raise AttemptFailed(
                "bad_reply", f"{self._where} sent no chat completion ({content_type}): {shown!r}", retry=True
            ) from None
        if not tokens:
            raise AttemptFailed(
                "no_tokens",
                f"{self._where} sent no token_ids; expected vLLM 0.10.2 or newer, which knows return_token_ids",
                retry=False,
            )
        if len(logprobs) != len(tokens) or not all(map(math.isfinite, logprobs)):
            raise AttemptFailed(
                "no_logprobs",
                f"{self._where} sent {len(logprobs)} log-probabilities for {len(tokens)} tokens; expected a finite one "
                "for each, as logprobs: true asks for",
                retry=False,
            )
        finish = str(choice.get("finish_reason"))
        return Drawn(tuple(tokens), logprobs, finish, None if prompt is None else tuple(prompt))
