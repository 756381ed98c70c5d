"""A judge that only remembers: the stored replies of an earlier run, scored again for free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trustvid.errors import ConfigError
from trustvid.judge.base import LazyJudge
from trustvid.judge.openai_compatible import judge_faults
from trustvid.judge.prompts import JudgePrompts

if TYPE_CHECKING:
    from trustvid.judge.base import Judge


class ReplayJudge(LazyJudge):
    """Answers as the judge of an earlier run did, failures included, and asks nobody.

    A request that was never made ends as a failure of kind "not_stored". Prompts, rounds and ``json_mode`` must be
    those of the earlier run, for they are part of what was asked.

    Args:
        store: SQLite file of the replies; it is not written to.
        model: whose replies, when the store holds several models'; None = the only one.
        prompts, json_mode, rounds, upstream: as in the earlier run.
        begin_replies: true for the replies of a judge that ran in the process (hf_local).
        name: how tables call it; None = the model.

    Raises:
        ConfigError: with all faults. A store that is missing or holds other models is found at the first use.
    """

    def __init__(
        self,
        store: str,
        model: str | None = None,
        prompts: str = "full",
        json_mode: bool = True,
        begin_replies: bool = False,
        rounds: int = 5,
        upstream: bool = True,
        name: str | None = None,
    ):
        super().__init__()
        self.name = name or model or "replay"
        self._store, self._model, self._rounds, self._upstream = store, model, rounds, upstream
        faults = judge_faults(rounds, store, offline=True)
        if faults:
            raise ConfigError(faults)
        self._prompts = JudgePrompts(prompts, json_mode, begin_replies)

    def _build(self) -> Judge:
        from trustvid.judge.model import ModelJudge
        from trustvid.llm.store import RequestStore
        from trustvid.llm.stored import Replay, StoredChat

        store = RequestStore(self._store, read_only=True)
        chat = StoredChat(Replay(store, self._model), store, offline=True)
        return ModelJudge(self.name, chat, self._prompts, self._rounds, self._upstream)
