"""BoxWorld as a benchmark: generates its files when they are missing, then reads them as if they were the real ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
        offset: which of the split's disjoint series of clips, from 0; or a list of them, ``n_videos`` clips of each.
            Ids of questions then begin with the offset ("2-11"), since every series numbers its own.
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
        offset: int | Sequence[int] = 0,
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
        offsets = (offset,) if isinstance(offset, int) else tuple(offset)
        if not offsets or len(set(offsets)) < len(offsets) or not all(map(_is_offset, offsets)):
            faults.append(f"benchmark.offset={offset}; expected 0, 1, 2, … or a list of different ones")
        if tasks is not None and (unknown := [task for task in tasks if task not in known] or not tasks):
            what = ", ".join(map(repr, unknown)) if isinstance(unknown, list) else "an empty list"
            faults.append(f"benchmark.tasks: {what} unknown; known: {', '.join(known)}, null (all)")
        if faults:
            raise ConfigError(faults)
        self.name, self.root = name, Path(root).expanduser()
        self._split, self._n_videos, self._offsets, self._workers = split, n_videos, offsets, workers
        self._tasks = known if tasks is None else tuple(tasks)
        self._loaders: list[tuple[int, QuestionFile]] | None = None

    def folder(self, offset: int) -> Path:
        """The folder of one of the set's series; generates it if it is missing."""
        from trustvid.benchmarks.boxworld.files import ensure_boxworld

        return ensure_boxworld(self.root, self._split, self._n_videos, offset, workers=self._workers)

    def samples(self) -> tuple[list[Sample], list[Rejected]]:
        """All questions, per offset first of the city, then of the room, and the rows that cannot be used (none,
        normally).

        Raises:
            DataError: the files cannot be generated or read.
        """
        samples: list[Sample] = []
        rejected: list[Rejected] = []
        for offset, loader in self._files():
            good, bad = loader.samples()
            samples += [replace(sample, id=self._id(offset, sample.id)) for sample in good]
            rejected += [replace(row, id=self._id(offset, row.id)) for row in bad]
        return samples, rejected

    def expected_counts(self) -> dict[str, int]:
        """Questions by task: one for each clip of its kind."""
        rooms = self._n_videos // 2
        counts = {task: rooms if task in ROOM_TASKS else self._n_videos - rooms for task in self._tasks}
        return {task: count * len(self._offsets) for task, count in counts.items()}

    def report(self) -> LoadReport:
        """What the two question files of each offset held, together; ``file`` is the folder that all lie in."""
        from trustvid.benchmarks.base import LoadReport

        parts = [(offset, loader.report()) for offset, loader in self._files()]
        return LoadReport(
            benchmark=self.name,
            file=self.folder(self._offsets[0]) if len(self._offsets) == 1 else self.root,
            found=dict(sum((Counter(part.found) for _, part in parts), Counter())),
            expected=self.expected_counts(),
            rejected=tuple(
                replace(row, id=self._id(offset, row.id)) for offset, part in parts for row in part.rejected
            ),
            split=self._split,
            selected=sum(part.selected for _, part in parts),
        )

    def _id(self, offset: int, name: str) -> str:
        """A question's id in this set: the file's own, unless several files could have it."""
        return name if len(self._offsets) == 1 else f"{offset}-{name}"

    def _files(self) -> list[tuple[int, QuestionFile]]:
        """The loaders of the question files that the wanted tasks need, with the offset they belong to."""
        if self._loaders is None:
            self._loaders = [(offset, loader) for offset in self._offsets for loader in self._loaders_of(offset)]
        return self._loaders

    def _loaders_of(self, offset: int) -> Iterator[QuestionFile]:
        from trustvid.benchmarks.urbanvideo import UrbanVideo
        from trustvid.benchmarks.vsi_bench import VSIBench

        folder = self.folder(offset)
        city = [task for task in self._tasks if task in CITY_TASKS]
        room = [task for task in self._tasks if task in ROOM_TASKS]
        if city:
            yield UrbanVideo(folder, tasks=city, name=self.name, expected={})
        if room:
            yield VSIBench(folder, tasks=room, name=self.name, expected={})


def _is_offset(value: object) -> bool:
    return type(value) is int and value >= 0
