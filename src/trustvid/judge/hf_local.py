"""A judge model in this process: any transformers chat model, by hub id, folder or GGUF file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trustvid.errors import ConfigError
from trustvid.judge.base import LazyJudge
from trustvid.judge.openai_compatible import judge_faults
from trustvid.judge.prompts import JudgePrompts

if TYPE_CHECKING:
    from trustvid.judge.base import Judge


class HFLocalJudge(LazyJudge):
    """Judges with weights that load at the first use. Replies are stored like those of a server.

    Args:
        model: hub id, folder, .gguf file, or "package:NAME" (the .gguf file of an installed Python package).
        revision: commit or tag of a hub id; None = the newest.
        device: "auto", "cpu", "cuda", …
        dtype: "auto", "float32", "bfloat16", …
        batch_size: requests generated together.
        store: SQLite file of the replies; None = they last as long as the process.
        offline: hub ids from the local cache only.
        prompts: "full", "compact", or a folder. Small models need the compact ones.
        temperature, top_p, max_tokens, seed: sampling; temperature None or 0 = greedy.
        rounds: replies to try for an item whose reply cannot be used.
        upstream: also compute what the published pipeline would have read (it needs replies in JSON).
        name: how tables call it; None = the model.

    Raises:
        ConfigError: with all faults, missing packages included.
    """

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        batch_size: int = 8,
        store: str | None = None,
        offline: bool = False,
        prompts: str = "full",
        temperature: float | None = None,
        top_p: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        rounds: int = 3,
        upstream: bool = False,
        name: str | None = None,
    ):
        super().__init__()
        from trustvid.llm.local_model import LocalModel
        from trustvid.llm.settings import Sampling

        self.name = name or model.removeprefix("package:").rpartition("/")[2]
        self._model = LocalModel(model, revision, device, dtype, batch_size, offline)
        self._sampling = Sampling(temperature, top_p, max_tokens, seed)
        self._store, self._rounds, self._upstream = store, rounds, upstream
        faults = [*self._model.faults(), *self._sampling.faults(), *judge_faults(rounds, store, offline=False)]
        if faults:
            raise ConfigError(faults)
        self._prompts = JudgePrompts(prompts, json_mode=False, begin_replies=True)

    def _build(self) -> Judge:
        from trustvid.judge.model import ModelJudge
        from trustvid.llm.local import LocalChat
        from trustvid.llm.stored import remembered

        chat = remembered(LocalChat(self._model, self._sampling), self._store)
        return ModelJudge(self.name, chat, self._prompts, self._rounds, self._upstream)
