"""A judge model behind an OpenAI-compatible server (a hosted API, vLLM, SGLang, a gateway)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trustvid.errors import ConfigError
from trustvid.judge.base import LazyJudge
from trustvid.judge.prompts import JudgePrompts
from trustvid.llm.settings import Endpoint, Limits, Sampling

if TYPE_CHECKING:
    from trustvid.judge.base import Judge


class OpenAICompatibleJudge(LazyJudge):
    """Judges with a served chat model. Every reply is stored; a rerun asks for what failed and for nothing else.

    Args:
        model: its name on the server.
        base_url: the API's root, usually ending in /v1.
        key_env: environment variable that holds the key; None = the server wants none.
        served_by: who serves the model, for the key of stored replies; None = the host of ``base_url``.
        store: SQLite file of the replies; None = they last as long as the process.
        offline: answer from the store alone.
        prompts: "full", "compact", or a folder (the published prompt files' folder for an exact comparison).
        json_mode: ask the server for JSON objects; off for servers that refuse it.
        temperature, top_p, max_tokens, seed: sampling; None = not sent.
        extra: more fields of the request body.
        rounds: replies to try for an item whose reply cannot be used.
        upstream: also compute what the published pipeline would have read.
        concurrency, timeout_s, total_timeout_s, max_retries, backoff_s, give_up_after: see
            :class:`~trustvid.llm.settings.Limits`.
        name: how tables call it; None = the model.

    Raises:
        ConfigError: with all faults; also when the variable with the key is not set, unless ``offline``.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "https://api.openai.com/v1",
        key_env: str | None = "OPENAI_API_KEY",
        served_by: str | None = None,
        store: str | None = None,
        offline: bool = False,
        prompts: str = "full",
        json_mode: bool = True,
        temperature: float | None = None,
        top_p: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        extra: Mapping[str, Any] | None = None,
        rounds: int = 5,
        upstream: bool = True,
        concurrency: int = 16,
        timeout_s: float = 120.0,
        total_timeout_s: float = 600.0,
        max_retries: int = 4,
        backoff_s: float = 1.0,
        give_up_after: int | None = 50,
        name: str | None = None,
    ):
        super().__init__()
        self.name = name or model
        # Nobody is asked offline, so no key is needed.
        self._endpoint = Endpoint(model, base_url, None if offline else key_env, served_by, dict(extra or {}))
        self._sampling = Sampling(temperature, top_p, max_tokens, seed)
        self._limits = Limits(concurrency, timeout_s, total_timeout_s, max_retries, backoff_s, give_up_after)
        self._store, self._offline, self._rounds, self._upstream = store, offline, rounds, upstream
        parts = (self._endpoint, self._sampling, self._limits)
        faults = [fault for part in parts for fault in part.faults()] + list(judge_faults(rounds, store, offline))
        if faults:
            raise ConfigError(faults)
        self._endpoint.read_key()
        self._prompts = JudgePrompts(prompts, json_mode)

    def _build(self) -> Judge:
        from trustvid.judge.model import ModelJudge
        from trustvid.llm.client import OpenAIChat
        from trustvid.llm.stored import remembered

        chat = remembered(OpenAIChat(self._endpoint, self._sampling, self._limits), self._store, self._offline)
        return ModelJudge(self.name, chat, self._prompts, self._rounds, self._upstream)


def judge_faults(rounds: int, store: str | None, offline: bool) -> list[str]:
    """What is wrong with the settings that all judges with a model share."""
    faults = []
    if rounds < 1:
        faults.append(f"rounds={rounds}; expected at least 1")
    if offline and store is None:
        faults.append("offline=true needs the stored replies of an earlier run; name them (judge.store=…)")
    return faults
