"""Prompt files: a folder with system.j2, decompose.j2 and synthesise.j2 (sandboxed Jinja, strict slots)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from trustvid.errors import ConfigError

SHIPPED = Path(__file__).parent / "prompts"
ROLES = ("system", "decompose", "synthesise")


class Prompts:
    """The prompts of the policy.

    Args:
        folder: "full" or "compact" (shipped), or the path of a folder with the three files.

    Slots: ``question``, ``frames``, ``profile`` (decompose); ``evidence``, ``letters`` ("A to E", empty when the
    question has no options), ``numeric`` (synthesise).

    Raises:
        ConfigError: the folder or a file of it is missing.
    """

    def __init__(self, folder: str = "full"):
        self.folder = SHIPPED / folder if (SHIPPED / folder).is_dir() else Path(folder)
        missing = [role for role in ROLES if not (self.folder / f"{role}.j2").is_file()]
        if missing:
            shipped = ", ".join(sorted(path.name for path in SHIPPED.iterdir() if path.is_dir()))
            files = ", ".join(f"{role}.j2" for role in missing)
            raise ConfigError(
                [f"prompts.folder={folder}: {files} not found; shipped folders: {shipped}, or give a path"]
            )
        self._texts = {role: (self.folder / f"{role}.j2").read_text(encoding="utf-8") for role in ROLES}
        self._templates: dict = {}

    @property
    def digest(self) -> str:
        """Short hash of the three files, for the run record."""
        return hashlib.sha256("\0".join(self._texts[role] for role in ROLES).encode()).hexdigest()[:12]

    def render(self, role: str, **slots: object) -> str:
        """The prompt of ``role`` with its slots filled."""
        if role not in self._templates:
            from jinja2 import StrictUndefined
            from jinja2.sandbox import SandboxedEnvironment

            environment = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False, trim_blocks=False)
            self._templates[role] = environment.from_string(self._texts[role])
        return self._templates[role].render(**slots).strip()
