"""Which published model a tool runs, and how. Cheap to import and to build: no weights, no frameworks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DTYPES = ("auto", "float32", "bfloat16", "float16")
_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Checkpoint:
    """Weights of a published model.

    Attributes:
        model: a hub id ("google/owlv2-base-patch16-ensemble"), or a folder in the transformers format.
        revision: commit or tag of a hub id; None = the newest. Not read for folders.
        device: "cpu", "cuda", "cuda:1", "mps"; "auto" = a GPU where there is one.
        dtype: "float32", "bfloat16", "float16"; "auto" = as stored.
        offline: hub ids are taken from the local cache only.
    """

    model: str
    revision: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    offline: bool = False

    def faults(self, tool: str) -> Iterator[str]:
        """What is wrong with the values; ``tool`` names whose they are."""
        if not self.model:
            yield f"{tool}.model is empty; expected a hub id or a folder"
        if not _DEVICE.fullmatch(self.device):
            yield f"{tool}.device={self.device!r} is unknown; known: auto, cpu, cuda, cuda:N, mps"
        if self.dtype not in DTYPES:
            yield f"{tool}.dtype={self.dtype!r} is unknown; known: {', '.join(DTYPES)}"

    @property
    def is_folder(self) -> bool:
        """Whether ``model`` means a folder of this machine: one that is there, or a name no hub id can have."""
        return Path(self.model).is_dir() or self.model.startswith((".", "/", "~")) or self.model.count("/") != 1

    def settings(self) -> dict:
        """What of it can change a tool's output, for cache keys.

        Weights are told apart by what is in them: a folder by a digest of its files, a hub id by its commit (None as
        long as it is not on this machine). Device and batch size are left out: they change no more than rounding, and
        outputs computed on a GPU then serve a machine without one.
        """
        return {
            "model": Path(self.model).name if self.is_folder else self.model,
            "revision": None if self.is_folder else self.revision,
            "weights": contents_digest(Path(self.model)) if self.is_folder else _commit(self.model, self.revision),
            "dtype": self.dtype,
            "transformers": _transformers_release(),
        }


def contents_digest(place: Path) -> str | None:
    """A digest of all files of a folder, or of a single file; None where there is none."""
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    if not files:
        return None
    stats = [path.stat() for path in files]
    return _digest(tuple((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in zip(files, stats, strict=True)))


@lru_cache(maxsize=16)
def _digest(files: tuple[tuple[str, int, int], ...]) -> str:
    """Digest of names and contents. Size and time of change are there so that a changed file is read again."""
    digest = hashlib.sha256()
    for path, _, _ in files:
        digest.update(Path(path).name.encode() + b"\0")
        with Path(path).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _commit(model: str, revision: str | None) -> str | None:
    """The commit that a hub id stands for in the local cache; None where it is not there."""
    if revision and _COMMIT.fullmatch(revision):
        return revision
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(model, "config.json", revision=revision or "main")
    return Path(found).parent.name if isinstance(found, str) else None


@lru_cache(maxsize=1)
def _transformers_release() -> str:
    """Its version, part of how images are prepared; or "missing" (a call then fails with the command to install it)."""
    try:
        return version("transformers")
    except PackageNotFoundError:
        return "missing"
