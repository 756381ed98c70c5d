"""``python train.py``: hand the config to the stage that it names."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig


def run(cfg: DictConfig) -> Path:
    """Run the stage ``cfg.stage`` (an option of conf/stage, a module of this package) and return its run folder."""
    return importlib.import_module(f"trustvid.stages.{cfg.stage}").run(cfg)
