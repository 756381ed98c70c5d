"""Prompt files: a folder of sandboxed Jinja templates with strict slots, or plain text files taken as they are."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from trustvid.errors import ConfigError


class PromptFolder:
    """Prompts by role.

    Each role is a file ``<role>.j2`` (a template; a slot that is not given is an error) or ``<role>.txt`` (taken
    literally, braces and all), in that order of preference. A template may hold several turns of a conversation, each
    after a line ``{# user #}`` or ``{# assistant #}``: examples, and at the end the words that a reply is to begin
    with. Such lines inside a slot's value are plain text.

    Args:
        folder: the name of a folder below ``shipped``, or any path.
        shipped: folder of the prompts that come with the program.
        required: roles that the folder must have.
        optional: roles that it may have.
        aliases: other file names by role, tried last: official prompt files keep their names.
        setting: how the config calls ``folder``, for messages.

    Raises:
        ConfigError: the folder or one of its required files is missing.
    """

    def __init__(
        self,
        folder: str,
        shipped: Path,
        required: Sequence[str],
        optional: Sequence[str] = (),
        aliases: Mapping[str, str] | None = None,
        setting: str = "prompts",
    ):
        self.folder = shipped / folder if (shipped / folder).is_dir() else Path(folder)
        names = {role: (f"{role}.j2", f"{role}.txt", *_given((aliases or {}).get(role))) for role in required}
        names |= {role: (f"{role}.j2", f"{role}.txt") for role in optional}
        self._files = {
            role: path
            for role, candidates in names.items()
            if (path := next((p for name in candidates if (p := self.folder / name).is_file()), None))
        }
        missing = [" or ".join(names[role]) for role in required if role not in self._files]
        if missing:
            known = ", ".join(sorted(path.name for path in shipped.iterdir() if path.is_dir()))
            raise ConfigError([f"{setting}={folder}: {'; '.join(missing)} not found; shipped: {known}, or give a path"])
        self._texts = {role: path.read_text(encoding="utf-8-sig") for role, path in sorted(self._files.items())}

    def __contains__(self, role: str) -> bool:
        return role in self._texts

    @property
    def digest(self) -> str:
        """Short hash of all the files, for the run record."""
        return self.digest_of(*self._texts)

    def digest_of(self, *roles: str) -> str:
        """Short hash of some roles' files: a change of one prompt leaves the stored replies to the others valid."""
        texts = "\0".join(self._texts[role] for role in roles if role in self._texts)
        return hashlib.sha256(texts.encode()).hexdigest()[:12]

    def render(self, role: str, **slots: Any) -> str:
        """The prompt of ``role`` with its slots filled, its turns (if it has several) one after the other."""
        return "\n".join(text for _, text in self.turns(role, **slots))

    def turns(self, role: str, **slots: Any) -> list[tuple[str, str]]:
        """The turns of ``role`` ("user" or "assistant", text) with their slots filled; one user turn as a rule."""
        if self._files[role].suffix != ".j2":
            return [("user", self._texts[role].strip())]
        return [(speaker, template.render(**slots).strip()) for speaker, template in self._templates[role]]

    @cached_property
    def _templates(self) -> dict[str, list[tuple[str, Any]]]:
        from jinja2 import StrictUndefined
        from jinja2.sandbox import SandboxedEnvironment

        environment = SandboxedEnvironment(undefined=StrictUndefined, autoescape=False, trim_blocks=False)
        return {
            role: [(speaker, environment.from_string(part)) for speaker, part in _split_turns(text)]
            for role, text in self._texts.items()
            if self._files[role].suffix == ".j2"
        }


_TURN = re.compile(r"^\{# (user|assistant) #\}[ \t]*\n", re.MULTILINE)


def _split_turns(text: str) -> list[tuple[str, str]]:
    first, *rest = _TURN.split(text)
    turns = list(zip(rest[::2], rest[1::2], strict=True))
    return [("user", first), *turns] if first.strip() or not turns else turns


def _given(name: str | None) -> tuple[str, ...]:
    return (name,) if name else ()
