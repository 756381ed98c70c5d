"""m* from a frozen model behind an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.errors import ConfigError
from trustvid.grpo.mstar.chat import ChatEstimator, rounds_faults
from trustvid.grpo.mstar.prompts import MStarPrompts
from trustvid.llm.settings import Endpoint, Limits, Sampling

if TYPE_CHECKING:
    from trustvid.llm.chat import Chat


class OpenAICompatibleEstimator(ChatEstimator):
    """Asks a served chat model. Every reply is stored; a rerun asks for what failed and for nothing else.

    Args:
        model: its name on the server.
        base_url: the API's root, usually ending in /v1.
        key_env: environment variable that holds the key; None = the server wants none.
        served_by: who serves the model, for the key of stored replies; None = the host of ``base_url``.
        store: SQLite file of the replies; None = they last as long as the process.
        offline: answer from the store alone.
        prompts: "full", "compact", or a folder.
        temperature, top_p, max_tokens, seed: sampling; None = not sent.
        extra: more fields of the request body.
        rounds: replies to try for a question whose reply cannot be read.
        concurrency, timeout_s, total_timeout_s, max_retries, backoff_s, give_up_after: see
            :class:`~trustvid.llm.settings.Limits`.
        name: how logs call it; None = the model.

    Raises:
        ConfigError: with all faults; also when the variable with the key is not set, unless ``offline``.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "http://127.0.0.1:8000/v1",
        key_env: str | None = None,
        served_by: str | None = None,
        store: str | None = None,
        offline: bool = False,
        prompts: str = "full",
        temperature: float | None = 0.0,
        top_p: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        extra: Mapping[str, Any] | None = None,
        rounds: int = 3,
        concurrency: int = 16,
        timeout_s: float = 120.0,
        total_timeout_s: float = 600.0,
        max_retries: int = 4,
        backoff_s: float = 1.0,
        give_up_after: int | None = 50,
        name: str | None = None,
    ):
        # Nobody is asked offline, so no key is needed.
        self._endpoint = Endpoint(model, base_url, None if offline else key_env, served_by, dict(extra or {}))
        self._sampling = Sampling(temperature, top_p, max_tokens, seed)
        self._limits = Limits(concurrency, timeout_s, total_timeout_s, max_retries, backoff_s, give_up_after)
        self._store, self._offline = store, offline
        parts = (self._endpoint, self._sampling, self._limits)
        faults = [fault for part in parts for fault in part.faults()] + rounds_faults(rounds)
        if offline and (store is None or not Path(store).is_file()):
            faults.append("offline=true needs the stored replies of an earlier run; name them (mstar.store=…)")
        try:
            self._endpoint.read_key()
        except ConfigError as error:
            faults += error.faults
        if faults:
            raise ConfigError(faults)
        super().__init__(MStarPrompts(prompts), rounds)
        self.name = name or model

    def _build(self) -> Chat:
        from trustvid.llm.client import OpenAIChat
        from trustvid.llm.stored import remembered

        return remembered(OpenAIChat(self._endpoint, self._sampling, self._limits), self._store, self._offline)
