"""BoxWorld captions as a benchmark: makes its files when they are missing, then reads them as the official ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from trustvid.benchmarks.boxworld import SPLITS
from trustvid.benchmarks.if_vidcap import IFVidCap
from trustvid.errors import ConfigError


class BoxWorldCaptions(IFVidCap):
    """Four instructions a clip (and round) over all 27 constraint types, with checklists from the truth of the scene.

    Args:
        root: cache folder; the files of this set are made below it when they are missing.
        split: "train", "dev", "val" or "test": disjoint seeds.
        n_videos: clips; with a dozen or more every constraint type occurs.
        offset: which of the split's disjoint series of clips, from 0.
        rounds: of four instructions about each clip; the first round is the same however many follow. More than one is
            for training: words cost nothing beside a clip.
        fields: application fields to keep; None keeps all four.
        workers: processes that render; None takes one for each core.
        name: name in tables and records.

    Raises:
        ConfigError: an argument has an unknown value; all faults in one message.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        split: str = "val",
        n_videos: int = 12,
        offset: int = 0,
        rounds: int = 1,
        fields: Sequence[str] | None = None,
        workers: int | None = None,
        name: str = "boxworld_captions",
    ):
        faults = []
        if split not in SPLITS:
            faults.append(f"benchmark.split={split!r} is unknown; known: {', '.join(SPLITS)}")
        if n_videos < 1:
            faults.append(f"benchmark.n_videos={n_videos} gives no clip; expected 1 or more")
        if offset < 0:
            faults.append(f"benchmark.offset={offset} is negative; offsets count from 0")
        if rounds < 1:
            faults.append(f"benchmark.rounds={rounds} gives no instruction; expected 1 or more")
        if faults:
            raise ConfigError(faults)
        super().__init__(root, fields=fields, name=name)
        self._split, self._n_videos, self._offset, self._rounds = split, n_videos, offset, rounds
        self._workers = workers

    @cached_property
    def folder(self) -> Path:
        """The set's folder; makes it if it is missing."""
        from trustvid.benchmarks.boxworld_captions.files import ensure_boxworld_captions

        return ensure_boxworld_captions(
            self.root, self._split, self._n_videos, self._offset, self._rounds, workers=self._workers
        )

    def known_responses(self) -> Path:
        """Right responses, and ones with a planted violation to the instructions of the first round."""
        return self.folder / "response"
