"""Where the curves of a run go (config group ``logger``). Cheap to import and build; Lightning comes with the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightning.pytorch.loggers import Logger

TENSORBOARD = "tensorboard"


class Csv:
    """``metrics.csv`` in the run folder: a row for each logged step, a column for each metric."""

    file = "metrics.csv"

    def open(self, folder: Path, step: int) -> Logger:
        """The logger of a run that begins, or goes on, at ``step``; rows from there on are written anew."""
        from trustvid.training.csv_logger import CsvLogger

        return CsvLogger(folder / self.file, step)


class TensorBoard:
    """``tensorboard/`` in the run folder."""

    file = None

    def open(self, folder: Path, step: int) -> Logger:
        """As of :class:`Csv`."""
        from lightning.pytorch.loggers import TensorBoardLogger

        purge = {"purge_step": step} if step else {}
        return TensorBoardLogger(folder, name=TENSORBOARD, version="", default_hp_metric=False, **purge)
