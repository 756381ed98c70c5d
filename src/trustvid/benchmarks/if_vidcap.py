"""IF-VidCap: instructions with checklists about videos, from the official files or the table form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trustvid.errors import ConfigError, DataError

if TYPE_CHECKING:
    from trustvid.captioning.files import Instruction, Problem, TaskKey

SOURCE = "the folder 'annotation' of the IF-VidCap release (prompt.json, checklist.json, video_meta_info.json)"
_CHECKLISTS = ("file", "skeleton")


@dataclass(frozen=True)
class CaptionTask:
    """One instruction about one video.

    Attributes:
        instruction: what is asked, with its key.
        checklist: the official checklist object; None when there is none, then responses cannot be scored.
        video: the video's path; or, as text, why there is none.
    """

    instruction: Instruction
    checklist: dict[str, Any] | None
    video: Path | str

    @property
    def id(self) -> str:
        """ "clip_001/02"."""
        return str(self.instruction.key)

    @property
    def cluster(self) -> str:
        """The video's id: instructions on one video are not independent."""
        return self.instruction.key.video


class IFVidCap:
    """The benchmark on disk.

    Args:
        root: folder that holds ``annotation/`` (or the annotation files themselves) and the videos. No video path may
            lead out of it. Videos are needed to write captions, not to judge those that exist.
        rows: a table (.parquet or .jsonl with the columns video, instruction, checklist) instead of the annotation
            files; relative to ``root``.
        checklists: "file" reads ``checklist.json``; "skeleton" makes bare ones from ``constraints_used``, to try the
            path without that file.
        fields: application fields to keep; None keeps all.
        name: name in tables and records.

    Raises:
        ConfigError: an argument has an unknown value.
    """

    #: Tells the evaluation stage that captions are asked for.
    captions = True

    def __init__(
        self,
        root: str | Path | None,
        *,
        rows: str | None = None,
        checklists: Literal["file", "skeleton"] = "file",
        fields: Sequence[str] | None = None,
        name: str = "if_vidcap",
    ):
        faults = []
        if root is None:
            faults.append(
                "benchmark.root is not set; give the folder of the data set (benchmark.root=…, or data_dir=…)"
            )
        if checklists not in _CHECKLISTS:
            faults.append(f"benchmark.checklists={checklists!r} is unknown; known: {', '.join(_CHECKLISTS)}")
        if fields is not None and not fields:
            faults.append("benchmark.fields=[] leaves no instruction; null keeps all fields")
        if faults:
            raise ConfigError(faults)
        # On every table, so that trying the path can never pass for a result.
        self.name = f"{name} (bare checklists)" if checklists == "skeleton" else name
        self.root = Path(root or ".").expanduser()
        self._rows, self._checklists, self._fields = rows, checklists, None if fields is None else set(fields)

    @property
    def folder(self) -> Path:
        """Where the files are; subclasses may make them first."""
        return self.root

    @property
    def annotation(self) -> Path:
        """The folder of the annotation files."""
        inside = self.folder / "annotation"
        return inside if inside.is_dir() else self.folder

    def tasks(self) -> tuple[list[CaptionTask], list[Problem]]:
        """Instructions in file order, and what cannot be used.

        Raises:
            DataError: a file is missing or unreadable, or no instruction is left.
        """
        tasks, problems = self._loaded
        return list(tasks), list(problems)

    def known_responses(self) -> Path | None:
        """Folder of responses whose truth is known (``response/`` beside ``truth/``), None where there are none."""
        return None

    def meta(self) -> dict[str, Any]:
        """Contents of ``video_meta_info.json``; empty where there is no such file."""
        from trustvid.captioning.files import VIDEOS, read_object

        path = self.annotation / VIDEOS
        return read_object(path, "video_meta_info.json") if path.is_file() else {}

    @cached_property
    def _loaded(self) -> tuple[list[CaptionTask], list[Problem]]:
        instructions, checklists, paths, problems = self._table() if self._rows else self._annotations()
        wanted = [one for one in instructions if self._fields is None or one.field in self._fields]
        if not wanted:
            known = ", ".join(sorted({one.field for one in instructions})) or "none"
            raise DataError(f"{self.folder}: no instruction is left; fields there: {known}; expected {SOURCE}")
        videos = {key.video: self._video(key.video, paths) for key in dict.fromkeys(one.key for one in wanted)}
        return [CaptionTask(one, checklists.get(one.key), videos[one.key.video]) for one in wanted], problems

    def _annotations(self) -> tuple[list[Instruction], dict[TaskKey, dict], dict[str, str], list[Problem]]:
        from trustvid.captioning.files import CHECKLISTS, PROMPTS, Problem, read_checklists, read_prompts
        from trustvid.captioning.skeleton import skeleton

        if not (self.annotation / PROMPTS).is_file():
            raise DataError(f"{self.annotation / PROMPTS}: no such file; expected {SOURCE}")
        instructions, problems = read_prompts(self.annotation / PROMPTS)
        if self._checklists == "skeleton":
            checklists = {one.key: skeleton(one.constraints_used) for one in instructions}
        elif (self.annotation / CHECKLISTS).is_file():
            checklists, more = read_checklists(self.annotation / CHECKLISTS)
            problems += more
        else:
            raise DataError(
                f"{self.annotation / CHECKLISTS}: no such file, so nothing can be scored; expected {SOURCE}, or try "
                "the path with benchmark.checklists=skeleton"
            )
        problems += [Problem(str(one.key), "no checklist") for one in instructions if one.key not in checklists]
        return instructions, checklists, {}, problems

    def _table(self) -> tuple[list[Instruction], dict[TaskKey, dict], dict[str, str], list[Problem]]:
        from trustvid.captioning.table_rows import read_rows

        return read_rows(self.folder / str(self._rows))

    def _video(self, video: str, paths: dict[str, str]) -> Path | str:
        """The video's file: where the table or the meta file say, else at the places the release uses."""
        from trustvid.benchmarks.base import find_video

        entry = self._meta.get(video)
        stated = [paths.get(video), entry.get("processed_path") if isinstance(entry, dict) else None]
        part, _, number = video.rpartition("_")
        usual = [f"videos/{part}/{number}.mp4", f"video/preprocessed/{part}/{number}.mp4", f"videos/{video}.mp4"]
        found: Path | str = "no video named"
        for candidate in (*(path for path in stated if isinstance(path, str)), *usual):
            found = find_video(self.folder, candidate)
            if isinstance(found, Path):
                return found
        return f"{video}: {found} (looked for {', '.join(usual)})"

    @cached_property
    def _meta(self) -> dict[str, Any]:
        return self.meta()
