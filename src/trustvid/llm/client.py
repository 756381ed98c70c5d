"""A chat model behind an OpenAI-compatible server: bounded, retried, cut when too slow; its failures have types."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trustvid.errors import ConfigError
from trustvid.llm.chat import Chat
from trustvid.llm.loop import PerLoop
from trustvid.llm.messages import ChatRequest, Failure, Outcome, Reply
from trustvid.llm.retrying import AttemptFailed, retry_after_s, retrying
from trustvid.llm.settings import Endpoint, Limits, Sampling

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_COMPLETIONS = "/chat/completions"
_RETRIED_STATUS = (408, 409, 425, 429)
# Failures of one request: they say nothing about the next.
_OWN_FAULT = ("refused", "http_400", "http_413", "http_422")
_LONGEST_MESSAGE = 300


class OpenAIChat(Chat):
    """Chat completions of one model.

    The key is read from the environment when the chat is built and is held nowhere else; every text that leaves this
    class has it struck out. The library's own retries are off: attempts are ``limits.max_retries + 1`` at most.

    Args:
        endpoint: the model and its server.
        sampling: how replies are drawn, unless a request says otherwise.
        limits: concurrency, time limits, retries.

    Raises:
        ConfigError: settings are wrong, or the variable with the key is not set.
    """

    def __init__(self, endpoint: Endpoint, sampling: Sampling | None = None, limits: Limits | None = None):
        self.endpoint, self.sampling, self.limits = endpoint, sampling or Sampling(), limits or Limits()
        faults = [fault for part in (self.endpoint, self.sampling, self.limits) for fault in part.faults()]
        if faults:
            raise ConfigError(faults)
        self.parallel = self.limits.concurrency
        self._key = _Key(endpoint.read_key())
        self._live = PerLoop(self._connect)

    @property
    def identity(self) -> Mapping[str, Any]:
        return {**self.endpoint.identity(), "sampling": self.sampling.to_json()}

    async def complete(self, request: ChatRequest, *, fresh: bool = False) -> Outcome:
        live = self._live.get()
        tries = _Tries()
        try:
            async with asyncio.timeout(None) as tries.total:
                return await self._with_retries(live, request, tries)
        except TimeoutError:
            seen = f"; the last attempt said: {tries.last.message}" if tries.last else ""
            message = f"no reply within {self.limits.total_timeout_s:g} s in all{seen}"
            failure = Failure(tries.last.kind if tries.last else "timeout", message, tries.sent)
        except AttemptFailed as error:
            failure = Failure(error.kind, error.message, tries.sent)
        if tries.sent:
            live.note_failure(failure)
        return failure

    async def _with_retries(self, live: _Live, request: ChatRequest, tries: _Tries) -> Reply:
        loop = asyncio.get_running_loop()
        async for attempt in retrying(self.limits, lambda: tries.total.when() or float("inf"), loop.time):
            with attempt:
                async with live.places:
                    live.raise_if_hopeless(self.limits)
                    if tries.total.when() is None:
                        # Waiting for a place is not the server's time.
                        tries.total.reschedule(loop.time() + self.limits.total_timeout_s)
                    await live.wait_until_allowed()
                    tries.sent += 1
                    try:
                        reply = await self._attempt(live, request)
                    except AttemptFailed as error:
                        tries.last = error
                        live.note_attempt(error)
                        raise
                live.note_success()
        return reply

    async def _attempt(self, live: _Live, request: ChatRequest) -> Reply:
        """One HTTP request.

        Raises:
            AttemptFailed: whatever went wrong, with its kind and whether another attempt makes sense.
        """
        import httpx2
        import openai

        try:
            async with asyncio.timeout(self.limits.timeout_s):
                # The bare response, not the library's typed object: gateways send bodies that fit no type.
                response = await live.client.post(_COMPLETIONS, cast_to=httpx2.Response, body=self._body(request))
                body, content_type = response.text, response.headers.get("content-type", "")
        except TimeoutError:
            raise AttemptFailed("timeout", f"no reply within {self.limits.timeout_s:g} s", retry=True) from None
        except openai.APIStatusError as error:
            raise self._status_failure(error) from None
        except openai.APIConnectionError as error:
            cause = self._key.struck_out(f"{error.__cause__ or error}")
            raise AttemptFailed("connection", f"no connection to {self._where}: {_line(cause)}", retry=True) from None
        return self._read(body, content_type)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        sampling = (request.sampling or self.sampling).to_json()
        if "seed" in sampling:
            from trustvid.seeding import derive_seed

            # Equal seeds would give equal replies; 31 bits, because servers take a signed integer.
            sampling["seed"] = derive_seed(sampling["seed"], request.sample) >> 33
        if request.json_mode:
            sampling["response_format"] = {"type": "json_object"}
        messages = [message.to_api() for message in request.messages]
        return {"model": self.endpoint.model, "messages": messages, **sampling, **self.endpoint.extra}

    def _status_failure(self, error: Any) -> AttemptFailed:
        status, said = error.status_code, _line(self._key.struck_out(str(error.message)))
        kind = "rate_limited" if status == 429 else f"http_{status}"
        message = f"{self._where} answered {status}: {said}"
        if status in (401, 403):
            message += f"; check the key in {self.endpoint.key_env or 'key_env (none is set)'}"
        elif status == 404:
            message += f"; check the model's name and base_url, whose root is {self.endpoint.root} (usually …/v1)"
        # A spent budget is reported as a rate limit, and no waiting helps.
        retry = (status in _RETRIED_STATUS or status >= 500) and error.code != "insufficient_quota"
        return AttemptFailed(kind, message, retry=retry, retry_after=retry_after_s(error.response.headers, time.time()))

    def _read(self, body: str, content_type: str) -> Reply:
        """The reply inside a 200 body, which gateways fill with anything."""
        try:
            record = json.loads(body)
            choice = record["choices"][0]
            said, finish = choice["message"], choice.get("finish_reason") or "stop"
            text = said.get("content")
        except (ValueError, LookupError, TypeError, AttributeError):
            shown = _line(self._key.struck_out(body))[:80]
            raise AttemptFailed(
                "bad_reply", f"{self._where} sent no chat completion ({content_type}): {shown!r}", retry=True
            ) from None
        if said.get("refusal") or finish == "content_filter":
            words = _line(self._key.struck_out(str(said.get("refusal") or text or "")))
            raise AttemptFailed("refused", f"the model refused ({finish}): {words or 'no reason given'}", retry=False)
        if not isinstance(text, str) or not text.strip():
            raise AttemptFailed("bad_reply", f"the reply has no content (finish_reason {finish})", retry=True)
        usage = record.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        return Reply(
            text,
            finish_reason=str(finish),
            model=str(record.get("model") or self.endpoint.model),
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
        )

    def _connect(self) -> _Live:
        import openai

        client = openai.AsyncOpenAI(
            base_url=self.endpoint.root,
            api_key=self._key.value or "no key",
            max_retries=0,
            timeout=None,  # asyncio.timeout cuts, name look-up and slow bodies included
            http_client=_http_client(self.limits.concurrency),
        )
        return _Live(client, asyncio.Semaphore(self.limits.concurrency))

    @property
    def _where(self) -> str:
        return f"{self.endpoint.model} at {self.endpoint.root}"


def _http_client(concurrency: int) -> Any:
    import httpx2
    import openai

    limits = httpx2.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    return openai.DefaultAsyncHttpxClient(limits=limits)


@dataclass(eq=False)
class _Tries:
    """Where one request stands."""

    total: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    sent: int = 0
    last: AttemptFailed | None = None


@dataclass(eq=False)
class _Live:
    """What the requests of one event loop share."""

    client: AsyncOpenAI
    places: asyncio.Semaphore
    allowed_at: float = 0.0
    failed_in_a_row: int = 0
    key_refused: Failure | None = None
    last_failure: Failure | None = None

    async def wait_until_allowed(self) -> None:
        """Hold back while the server has asked for a pause (Retry-After), whichever request it told."""
        while (pause := self.allowed_at - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(pause)

    def raise_if_hopeless(self, limits: Limits) -> None:
        """Raise instead of sending what cannot succeed any more."""
        if self.key_refused:
            raise AttemptFailed(self.key_refused.kind, f"not sent: {self.key_refused.message}", retry=False)
        if limits.give_up_after and self.failed_in_a_row >= limits.give_up_after and self.last_failure:
            message = f"not sent, for {self.failed_in_a_row} requests in a row failed: {self.last_failure.message}"
            raise AttemptFailed(self.last_failure.kind, message, retry=False)

    def note_attempt(self, error: AttemptFailed) -> None:
        if error.retry_after:
            self.allowed_at = max(self.allowed_at, asyncio.get_running_loop().time() + error.retry_after)
        if error.kind == "http_401":
            self.key_refused = Failure(error.kind, error.message)

    def note_success(self) -> None:
        self.failed_in_a_row = 0

    def note_failure(self, failure: Failure) -> None:
        """Count a request that failed for good, if it says something about the server rather than about itself."""
        if failure.kind not in _OWN_FAULT:
            self.failed_in_a_row += 1
            self.last_failure = failure


@dataclass(frozen=True, repr=False)
class _Key:
    """A key that does not print."""

    value: str | None

    def struck_out(self, text: str) -> str:
        """``text`` without the key."""
        return text.replace(self.value, "***") if self.value else text

    def __repr__(self) -> str:
        return "_Key(***)"


def _line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_MESSAGE]
