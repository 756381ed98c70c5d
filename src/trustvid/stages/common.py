"""What every stage does with its config: resolve it, and name the run folder that belongs to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.errors import ConfigError
from trustvid.evaluation.provenance import NOT_HASHED

if TYPE_CHECKING:
    from omegaconf import DictConfig


# What changes no trained weight: where data lie, how much is done at a time, how often something is written.
NOT_OF_TRAINING = (
    *NOT_HASHED,
    "data_dir",
    "benchmark.root",
    "benchmark.data_dir",
    "benchmark.workers",
    "tool_device",
    "micro_batch",
    "checkpoint_every",
    "trainer",
)


def plain_config(cfg: DictConfig) -> dict[str, Any]:
    """The config as plain containers, every interpolation resolved."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError([str(error).splitlines()[0]]) from error


def run_path(config: Mapping[str, Any], digest: str, stage: str) -> Path:
    """outputs/<stage>/<name>-<hash>; characters that cannot stand in a folder's name become "_"."""
    name = re.sub(r"[^\w.+-]", "_", str(config.get("name") or "unnamed"))
    return Path(str(config["paths"]["outputs"])) / stage / f"{name}-{digest}"


def overrides() -> tuple[str, ...]:
    """The words of the command line that made this job's config; none outside of Hydra."""
    from hydra.core.hydra_config import HydraConfig

    return tuple(HydraConfig.get().overrides.task) if HydraConfig.initialized() else ()
