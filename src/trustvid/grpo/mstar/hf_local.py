"""m* from a frozen chat model in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trustvid.errors import ConfigError
from trustvid.grpo.mstar.chat import ChatEstimator, rounds_faults
from trustvid.grpo.mstar.prompts import MStarPrompts
from trustvid.llm.local_model import LocalModel
from trustvid.llm.settings import Sampling

if TYPE_CHECKING:
    from trustvid.llm.chat import Chat


class HFLocalEstimator(ChatEstimator):
    """Asks a transformers chat model, greedily; it reads text alone. Weights load at the first question.

    Args:
        model, revision, device, dtype, batch_size, offline: see :class:`~trustvid.llm.local_model.LocalModel`.
        store: SQLite file of the replies; None = they last as long as the process.
        prompts: "full", "compact", or a folder.
        max_tokens: longest reply; models that think first need more.
        rounds: replies to try for a question.
        name: how logs call it; None = the model.

    Raises:
        ConfigError: with all faults.
    """

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        batch_size: int = 8,
        offline: bool = False,
        store: str | None = None,
        prompts: str = "full",
        max_tokens: int = 16,
        rounds: int = 2,
        name: str | None = None,
    ):
        self._model = LocalModel(model, revision, device, dtype, batch_size, offline)
        self._sampling = Sampling(temperature=0.0, max_tokens=max_tokens)
        self._store = store
        faults = [*self._model.faults(), *self._sampling.faults(), *rounds_faults(rounds)]
        if faults:
            raise ConfigError(faults)
        super().__init__(MStarPrompts(prompts), rounds)
        self.name = name or model.removeprefix("package:").rpartition("/")[2]

    def _build(self) -> Chat:
        from trustvid.llm.local import LocalChat
        from trustvid.llm.stored import remembered

        return remembered(LocalChat(self._model, self._sampling), self._store)
