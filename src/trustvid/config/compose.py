"""Composing a config outside of the command line: notebooks, tests, libraries. Hydra is never initialised on import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

CONF = Path(__file__).resolve().parents[3] / "conf"


def compose_config(
    overrides: Sequence[str] = (), name: str = "evaluate", config_dir: Path | str | None = None
) -> DictConfig:
    """The config that ``python <name>.py <overrides>`` would run with.

    Args:
        overrides: as on the command line, e.g. ``["benchmark=urbanvideo", "frames=16"]``.
        name: root config, "evaluate".
        config_dir: another conf folder than the checkout's.
    """
    from hydra import compose, initialize_config_dir

    folder = Path(config_dir or CONF).resolve()
    with initialize_config_dir(str(folder), version_base="1.3"):
        return compose(name, overrides=list(overrides))


def group_options(group: str, config_dir: Path | str | None = None) -> list[str]:
    """Names of a group's options, sorted: ``group_options("corruption")``."""
    folder = Path(config_dir or CONF) / group
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml"))
