"""BoxWorld as a benchmark: generates its files when they are missing, then reads them as if they were the real ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trustvid.benchmarks.boxworld import CITY_TASKS, ROOM_TASKS, SPLITS
from trustvid.benchmarks.sample import Rejected, Sample
from trustvid.errors import ConfigError

if TYPE_CHECKING:
    from trustvid.benchmarks.base import LoadReport, QuestionFile


class BoxWorld:
    """The embedded benchmark, through the loaders of UrbanVideo-Bench (city tasks) and VSI-Bench (room tasks).

    Args:
        split: "train", "dev", "val" or "test": disjoint seeds. Fit and choose on train and dev, claim on test.
        n_videos: clips, every other one a room; each has four questions.
        offset: which of the split's disjoint series of clips, from 0.
        root: cache folder; the files of this set are generated below it when they are missing.
        tasks: short task names to keep; None keeps all eight.
        workers: processes that generate; None takes one for each core.
        name: name in tables and records.

    Raises:
        ConfigError: an argument has an unknown value; all faults in one message.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        split: str = "val",
        n_videos: int = 20,
        offset: int = 0,
        tasks: Sequence[str] | None = None,
        workers: int | None = None,
        name: str = "boxworld",
    ):
        faults = []
        known = (*CITY_TASKS, *ROOM_TASKS)
        if split not in SPLITS:
            faults.append(f"benchmark.split={split!r} is unknown; known: {', '.join(SPLITS)}")
        if n_videos < 2:
            faults.append(f"benchmark.n_videos={n_videos} gives no city or no room; expected 2 or more")
        if offset < 0:
            faults.append(f"benchmark.offset={offset} is negative; offsets count from 0")
        if tasks is not None and (unknown := [task for task in tasks if task not in known] or not tasks):
            what = ", ".join(map(repr, unknown)) if isinstance(unknown, list) else "an empty list"
            faults.append(f"benchmark.tasks: {what} unknown; known: {', '.join(known)}, null (all)")
        if faults:
            raise ConfigError(faults)
        self.name, self.root = name, Path(root).expanduser()
        self._split, self._n_videos, self._offset, self._workers = split, n_videos, offset, workers
        self._tasks = known if tasks is None else tuple(tasks)
        self._loaders: list[QuestionFile] | None = None

    @property
    def folder(self) -> Path:
        """The set's folder; generates it if it is missing."""
        from trustvid.benchmarks.boxworld.files import ensure_boxworld

        return ensure_boxworld(self.root, self._split, self._n_videos, self._offset, workers=self._workers)

    def samples(self) -> tuple[list[Sample], list[Rejected]]:
        """All questions, first of the city, then of the room, and the rows that cannot be used (none, normally).

        Raises:
            DataError: the files cannot be generated or read.
        """
        samples: list[Sample] = []
        rejected: list[Rejected] = []
        for loader in self._files():
            good, bad = loader.samples()
            samples += good
            rejected += bad
        return samples, rejected

    def expected_counts(self) -> dict[str, int]:
        """Questions by task: one for each clip of its kind."""
        rooms = self._n_videos // 2
        return {task: rooms if task in ROOM_TASKS else self._n_videos - rooms for task in self._tasks}

    def report(self) -> LoadReport:
        """What the two question files held."""
        from trustvid.benchmarks.base import LoadReport

        parts = [loader.report() for loader in self._files()]
        return LoadReport(
            benchmark=self.name,
            file=self.folder,
            found={task: count for part in parts for task, count in part.found.items()},
            expected=self.expected_counts(),
            rejected=tuple(row for part in parts for row in part.rejected),
            split=self._split,
            selected=sum(part.selected for part in parts),
        )

    def _files(self) -> list[QuestionFile]:
        """The loaders of the question files that the wanted tasks need."""
        if self._loaders is None:
            from trustvid.benchmarks.urbanvideo import UrbanVideo
            from trustvid.benchmarks.vsi_bench import VSIBench

            folder = self.folder
            city = [task for task in self._tasks if task in CITY_TASKS]
            room = [task for task in self._tasks if task in ROOM_TASKS]
            loaders: list[QuestionFile] = []
            if city:
                loaders.append(UrbanVideo(folder, tasks=city, name=self.name, expected={}))
            if room:
                loaders.append(VSIBench(folder, tasks=room, name=self.name, expected={}))
            self._loaders = loaders
        return self._loaders
