"""What to say about published weights that cannot be read: the same words wherever they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Published(Protocol):
    """Weights as settings name them: a hub id (with a revision, None = the newest), or a folder's path."""

    @property
    def model(self) -> str: ...

    @property
    def revision(self) -> str | None: ...

    @property
    def is_folder(self) -> bool: ...


def missing_weights(weights: Published, reason: str, instead: str) -> str:
    """What to do about weights that are not there: how to get them, where they go, what needs none.

    Args:
        weights: which.
        reason: what went wrong, in a few words.
        instead: choices that need no weights.
    """
    model, revision = weights.model, weights.revision
    if weights.is_folder:
        return (
            f"model={model}: no complete model in this folder ({reason}); expected config.json, *.safetensors and the "
            f"processor's files, or use {instead}"
        )
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE) / f"models--{model.replace('/', '--')}"
    chosen = f" --revision {revision}" if revision else ""
    return (
        f"model={model} is not on this machine ({reason}); get it with\n"
        f"    hf download {model}{chosen}\n"
        f"which fills {folder}, or set model to a folder that holds it, or use {instead}"
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
