"""A CSV file of metrics that survives a kill and goes on with the run."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import Logger

from trustvid.evaluation.jsonfiles import replace_file

_EVERY_S = 10.0


class CsvLogger(Logger):
    """One row for each step, "step" first; what is not known of a step stays empty.

    Args:
        path: the file; what an earlier part of the run wrote is kept up to ``step``.
        step: the next step; later rows are dropped, they are made again.
    """

    def __init__(self, path: Path, step: int = 0):
        super().__init__()
        self.path, self._rows = path, dict[int, dict[str, str]]()
        self._written = time.monotonic()
        if step and path.is_file():
            with path.open(encoding="utf-8", newline="") as lines:
                for row in csv.DictReader(lines):
                    known = {name: value for name, value in row.items() if value and name != "step"}
                    self._rows[int(row["step"])] = known
            self._rows = {at: row for at, row in self._rows.items() if at < step}

    name = "csv"
    version = ""

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Nothing: the run folder holds the config."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add to the row of a step."""
        values = {name: f"{float(value):.9g}" for name, value in metrics.items() if name != "epoch"}
        self._rows.setdefault(step or 0, {}).update(values)

    def save(self) -> None:
        """Write the file where it is long ago that it was written."""
        if time.monotonic() - self._written >= _EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Write the file."""
        self._written = time.monotonic()
        columns = sorted({name for row in self._rows.values() for name in row})
        text = io.StringIO()
        table = csv.DictWriter(text, ["step", *columns], restval="", lineterminator="\n")
        table.writeheader()
        table.writerows({"step": at, **row} for at, row in sorted(self._rows.items()))
        replace_file(self.path, text.getvalue())

    def finalize(self, status: str) -> None:
        """Write the file, however the run ended."""
        self.flush()
