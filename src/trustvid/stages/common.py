"""What every stage does with its config: resolve it, and name the run folder that belongs to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trustvid.errors import ConfigError
from trustvid.evaluation.provenance import NOT_HASHED, config_hash
from trustvid.evaluation.store import RunFolder, RunInfo

if TYPE_CHECKING:
    from omegaconf import DictConfig

T = TypeVar("T")

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


def opened(
    config: Mapping[str, Any], schema: type[T], stage: str, not_hashed: Sequence[str]
) -> tuple[T, RunFolder, RunInfo]:
    """The typed settings of a run, its folder, and what makes it this run.

    Args:
        config: plain.
        schema: dataclass of the stage's settings.
        stage: first part of the folder's path.
        not_hashed: see :func:`~trustvid.evaluation.provenance.config_hash`.

    Raises:
        ConfigError: the config cannot run; all faults together. The reason also lies in the run folder, where the
            tables of a sweep look for it.
    """
    from trustvid.config.checking import check
    from trustvid.config.sweeps import tell_sweep

    info = RunInfo(str(config.get("name")), config_hash(config, not_hashed), overrides=overrides())
    folder = RunFolder(run_path(config, info.config_hash, stage))
    tell_sweep(folder.path)
    try:
        typed = check(config, schema)
    except ConfigError:
        with folder.writing(info):
            raise
    return typed, folder, info


def run_path(config: Mapping[str, Any], digest: str, stage: str) -> Path:
    """outputs/<stage>/<name>-<hash>; characters that cannot stand in a folder's name become "_"."""
    name = re.sub(r"[^\w.+-]", "_", str(config.get("name") or "unnamed"))
    return Path(str(config["paths"]["outputs"])) / stage / f"{name}-{digest}"


def overrides() -> tuple[str, ...]:
    """The words of the command line that made this job's config; none outside of Hydra."""
    from hydra.core.hydra_config import HydraConfig

    return tuple(HydraConfig.get().overrides.task) if HydraConfig.initialized() else ()
