"""What a config says about a chat model: which one, where, how it samples, how hard to try. All cheap to import."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import SplitResult, urlsplit

from trustvid.errors import ConfigError

# Fields of the request body that have their own setting.
_OWN_FIELDS = frozenset(
    {"model", "messages", "response_format", "stream", "n", "temperature", "top_p", "max_tokens", "seed", "stop"}
)
_COMPLETIONS = "/chat/completions"


@dataclass(frozen=True)
class Sampling:
    """How replies are drawn. None = not sent: the server's own default.

    Attributes:
        temperature: 0 = greedy.
        top_p: share of the probability mass that is sampled from.
        max_tokens: longest reply.
        seed: base seed; each sample index gets its own one derived from it.
        stop: texts that end a reply.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The settings that are set."""
        shape = {field_.name: getattr(self, field_.name) for field_ in fields(self)}
        shape["stop"] = list(self.stop)
        return {name: value for name, value in shape.items() if value not in (None, [])}

    def faults(self) -> Iterator[str]:
        """What is wrong with the values."""
        if self.temperature is not None and self.temperature < 0:
            yield f"temperature={self.temperature}; expected 0 or more, or null"
        if self.top_p is not None and not 0 < self.top_p <= 1:
            yield f"top_p={self.top_p}; expected a share above 0, at most 1, or null"
        if self.max_tokens is not None and self.max_tokens < 1:
            yield f"max_tokens={self.max_tokens}; expected at least 1, or null"


@dataclass(frozen=True)
class Endpoint:
    """A model behind an OpenAI-compatible server.

    Attributes:
        model: its name on the server.
        base_url: the API's root, usually ending in /v1; a trailing slash or /chat/completions is taken off.
        key_env: environment variable that holds the key; None = the server wants none.
        served_by: who serves the model, for the key of stored replies; None = the host of ``base_url``. Set it when
            the same model moves to another host (to keep its replies) or when two servers of one host serve different
            weights under one name (to keep them apart).
        extra: more fields of the request body, e.g. {"reasoning_effort": "low"}.
    """

    model: str
    base_url: str
    key_env: str | None = None
    served_by: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """``base_url`` in the one form the client takes.

        >>> Endpoint("m", "http://localhost:8000/v1/chat/completions/").root
        'http://localhost:8000/v1'
        """
        return self.base_url.rstrip("/").removesuffix(_COMPLETIONS).rstrip("/")

    def identity(self) -> dict[str, Any]:
        """What of the endpoint can change a reply: not the port or the path, which differ from run to run."""
        host = self.served_by or _host(self.base_url)
        return {"kind": "openai_compatible", "model": self.model, "served_by": host, "extra": dict(self.extra)}

    def faults(self) -> Iterator[str]:
        """What is wrong with the values. Never repeats an address, which may hold a password by mistake."""
        if not self.model:
            yield "model is empty; expected the model's name on the server"
        parts = _split(self.base_url)
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            yield "base_url is no address; expected e.g. https://api.openai.com/v1 or http://localhost:8000/v1"
        elif parts.username or parts.password:
            yield "base_url holds a user name or a password; put the key into the variable named by key_env instead"
        elif parts.query or parts.fragment:
            yield "base_url has a query (?…) or a fragment (#…); expected the bare root, e.g. http://localhost:8000/v1"
        for name in sorted(_OWN_FIELDS & set(self.extra)):
            yield f"extra.{name} has its own setting; set {name} there"

    def read_key(self) -> str | None:
        """The key from the environment.

        Raises:
            ConfigError: the variable is not set; names it.
        """
        if self.key_env is None:
            return None
        key = os.environ.get(self.key_env, "").strip()
        if not key:
            raise ConfigError(
                [
                    f"the environment variable {self.key_env} is not set, but key_env names it as the key of "
                    f"{_host(self.base_url)}; set it, or set key_env=null for a server without keys, or offline=true "
                    "to use stored replies alone"
                ]
            )
        return key


def _split(base_url: str) -> SplitResult | None:
    try:
        return urlsplit(base_url)
    except ValueError:  # an unclosed bracket of an IPv6 address
        return None


def _host(base_url: str) -> str:
    parts = _split(base_url)
    host = (parts.hostname or "") if parts else ""
    return "localhost" if host == "::1" or host.startswith("127.") else host


@dataclass(frozen=True)
class Limits:
    """How hard a client tries, and where it stops.

    Attributes:
        concurrency: requests in flight at a time.
        timeout_s: seconds for one attempt; the connection is cut when they are over.
        total_timeout_s: seconds for one request with all its attempts and waits, counted from its first attempt.
        max_retries: further attempts after the first.
        backoff_s: first wait between attempts; doubles up to a minute, unless the server says how long (Retry-After).
        give_up_after: requests in a row that may fail, none succeeding, because the server is down, before the rest
            fails unsent; None = never.
    """

    concurrency: int = 16
    timeout_s: float = 120.0
    total_timeout_s: float = 600.0
    max_retries: int = 4
    backoff_s: float = 1.0
    give_up_after: int | None = 50

    def faults(self) -> Iterator[str]:
        """What is wrong with the values."""
        if self.concurrency < 1:
            yield f"concurrency={self.concurrency}; expected at least 1"
        for name in ("timeout_s", "total_timeout_s"):
            if not getattr(self, name) > 0:
                yield f"{name}={getattr(self, name)}; expected a time in seconds above 0"
        if self.max_retries < 0:
            yield f"max_retries={self.max_retries}; expected 0 or more"
        if self.backoff_s < 0:
            yield f"backoff_s={self.backoff_s}; expected a time in seconds, 0 or more"
        if self.give_up_after is not None and self.give_up_after < 1:
            yield f"give_up_after={self.give_up_after}; expected at least 1, or null for never"
