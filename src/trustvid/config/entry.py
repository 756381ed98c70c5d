"""What the Hydra entry points share: readable errors, and a check of names that Hydra itself leaves without a hint."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from trustvid.config.compose import group_options
from trustvid.errors import TrustvidError

PLUGINS = {
    "hydra/launcher=joblib": "hydra-joblib-launcher",
    "hydra/launcher=submitit_local": "hydra-submitit-launcher",
    "hydra/launcher=submitit_slurm": "hydra-submitit-launcher",
    "hydra/launcher=slurm": "hydra-submitit-launcher",
    "hydra/sweeper=optuna": "hydra-optuna-sweeper",
}
"""Packages of launchers and sweepers, by the words that choose them."""


def compact_errors(job: Callable) -> Callable:
    """Let Hydra print our own errors as one message without a traceback, and end with a non-zero exit code."""

    @functools.wraps(job)
    def wrapped(*args: object, **kwargs: object) -> object:
        from hydra.errors import CompactHydraException

        try:
            return job(*args, **kwargs)
        except TrustvidError as error:
            raise CompactHydraException(str(error)) from error

    return wrapped


def unknown_options(overrides: Sequence[str], config_dir: Path) -> list[str]:
    """Faults of list-valued choices, ``methods=[blind,nope]``: Hydra names the file it misses, not what exists."""
    faults = []
    for override in overrides:
        match = re.fullmatch(r"([\w/]+)=\[([\w,/ ]*)\]", override)
        if not match or not (config_dir / match[1]).is_dir():
            continue
        known = group_options(match[1], config_dir)
        wanted = [name.strip() for name in match[2].split(",") if name.strip()]
        faults += [
            f"{match[1]}={name} does not exist; known: {', '.join(known)}" for name in wanted if name not in known
        ]
    return faults


def comma_hints(overrides: Sequence[str]) -> list[str]:
    """``frames=8,16`` without -m: Hydra reads one string or fails; the way out is said here."""
    if any(argument in ("-m", "--multirun") for argument in overrides):
        return []
    plain = (re.fullmatch(r"([\w./]+)=([^\[\]{}()'\"]*,[^\[\]{}()'\"]*)", override) for override in overrides)
    return [
        f"{m[1]}={m[2]} holds several values: add -m to run each, or write {m[1]}=[{m[2]}] for a list"
        for m in plain
        if m
    ]


def missing_plugins(overrides: Sequence[str]) -> list[str]:
    """Launchers and sweepers that are packages of their own: Hydra says that there is none, not where it is."""
    faults = []
    for override in overrides:
        package = PLUGINS.get(override)
        if package is None:
            continue
        try:
            version(package)
        except PackageNotFoundError:
            faults.append(f"{override} needs a package of its own: pip install {package}")
    return faults


def _share_schemas() -> None:
    """Let Hydra use its one store of schemas instead of a copy for each config group that ``--help`` lists.

    It copies all that it looks groups up in, some three hundred times, so that the list of folders may be changed. The
    store is not changed then, and with a few launchers installed its copies took most of the three seconds.
    """
    from hydra.core.config_store import ConfigStore

    ConfigStore.__deepcopy__ = lambda store, memo: store


def check_command_line(config_dir: Path) -> None:
    """Stop with one message when the command line names options that do not exist or sweeps without -m."""
    _share_schemas()
    words = sys.argv[1:]
    faults = unknown_options(words, config_dir) + comma_hints(words) + missing_plugins(words)
    if faults:
        sys.exit("\n".join(faults))
