"""What figures and pages are made of: a run folder, read when something of it is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from trustvid.errors import DataError
from trustvid.evaluation.jsonfiles import bad_line, read_json
from trustvid.evaluation.records import Prediction
from trustvid.evaluation.store import RunFolder
from trustvid.evaluation.view import MetricsView

Kind = Literal["questions", "captions", "training"]


@dataclass(frozen=True)
class RunData:
    """A run folder.

    Attributes:
        folder: where it lies.
    """

    folder: Path

    @cached_property
    def record(self) -> dict[str, Any]:
        """``run.json``.

        Raises:
            DataError: there is none.
        """
        return RunFolder(self.folder).existing_run()

    @cached_property
    def kind(self) -> Kind:
        """What kind of run made the folder.

        Raises:
            DataError: it holds no numbers.
        """
        if (self.folder / "metrics.json").is_file():
            return "captions" if "judges" in self.metrics.get("context", {}) else "questions"
        if self.training_csv.is_file():
            return "training"
        raise DataError(
            f"{self.folder}: holds neither metrics.json nor metrics.csv; run mode=score (or mode=all) first"
        )

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """``metrics.json``."""
        return read_json(self.folder / "metrics.json")

    @cached_property
    def view(self) -> MetricsView:
        """Look-ups in the metrics of a run of questions."""
        return MetricsView(self.metrics)

    @cached_property
    def predictions(self) -> Sequence[Prediction]:
        """Every answer."""
        return RunFolder(self.folder).load("predictions").records

    @cached_property
    def config(self) -> dict[str, Any]:
        """The config that the answers were made under, interpolations resolved.

        Raises:
            DataError: there is none.
        """
        found = RunFolder(self.folder).config()
        if found is None:
            raise DataError(f"{self.folder}: keeps no config, so nothing tells how its answers were made")
        return found

    @property
    def training_csv(self) -> Path:
        """The curves of a training run."""
        return self.folder / "metrics.csv"

    @property
    def has_trajectories(self) -> bool:
        """Whether the run stored its conversations (``save_trajectories=true``)."""
        return (self.folder / "trajectories.jsonl").is_file()

    def trajectories(self) -> Iterator[dict[str, Any]]:
        """The stored conversations, one at a time (the file may be larger than memory); a cut last line is left out.

        Raises:
            DataError: a whole line is no conversation.
        """
        path = self.folder / "trajectories.jsonl"
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    yield _trajectory(line, path, number)


def readable_runs(folders: Sequence[Path]) -> tuple[list[RunData], list[str]]:
    """The runs that left numbers, and a line on each that did not (a failed job of a sweep).

    Raises:
        DataError: none left any.
    """
    runs, missing = [], []
    for folder in folders:
        try:
            run = RunData(Path(folder))
            run.kind  # noqa: B018 — asked for here, so that a run without numbers is known before work begins
            runs.append(run)
        except DataError as error:
            missing.append(str(error))
    if not runs:
        raise DataError("; ".join(missing) or "no run to report on")
    return runs, missing


def _trajectory(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise bad_line(path, number, error) from error
    if not isinstance(record, Mapping) or not {"sample_id", "method", "condition", "evidence"} <= record.keys():
        raise bad_line(path, number, "no conversation")
    return dict(record)
