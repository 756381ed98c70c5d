"""Writes BoxWorld to disk in the official formats: once, whole, and the same bytes each time.

``<root>/<split>-<videos>-<offset>-v<version>/`` holds, as UrbanVideo-Bench does, ``MCQ.parquet`` and ``videos/*.mp4``
for the city tasks; as VSI-Bench does, ``test-00000-of-00001.parquet`` and ``boxroom/*.mp4`` for the room tasks; and
``generation.json``, which says how it was made. Nothing else: no truth lies beside the videos.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trustvid.benchmarks.boxworld import Split
from trustvid.benchmarks.boxworld.generate import BoxClip, check_split, make_clip
from trustvid.benchmarks.boxworld.once import ensure_folder
from trustvid.benchmarks.boxworld.world import FPS, VERSION
from trustvid.errors import DataError
from trustvid.progress import Progress

CITY_FILE, CITY_FOLDER = "MCQ.parquet", "videos"
ROOM_FILE, ROOM_FOLDER = "test-00000-of-00001.parquet", "boxroom"
RECORD = "generation.json"
CRF = 18  # signs 10 pixels high stay readable
IDS_PER_CLIP = 10  # ids of a clip's questions start at its number times this


@dataclass(frozen=True)
class _Job:
    """One clip for a worker process."""

    split: Split
    offset: int
    number: int
    folder: Path


def ensure_boxworld(
    root: Path, split: Split, n_videos: int, offset: int = 0, *, workers: int | None = None, progress: bool = True
) -> Path:
    """The folder of a set, generated at first use.

    A second caller waits for the first. The folder appears when it is complete; what a killed run leaves behind is
    removed by the next one.

    Args:
        root: cache folder that holds all sets.
        split: "train", "dev", "val" or "test"; their seeds are disjoint.
        n_videos: clips, every other one a room; four questions each.
        offset: which of the split's disjoint series of clips, from 0.
        workers: processes; None takes one for each core, 0 works in this process.
        progress: show a progress bar on standard error.

    Raises:
        DataError: unknown split, negative offset, no videos, or a folder of that name that is something else.
    """
    check_split(split, offset)
    if n_videos < 1:
        raise DataError(f"BoxWorld needs at least one video; got n_videos={n_videos}")
    folder = Path(root) / f"{split}-{n_videos}-{offset}-v{VERSION}"
    return ensure_folder(folder, _is_complete, lambda part: _generate(part, split, n_videos, offset, workers, progress))


def _is_complete(folder: Path) -> bool:
    """Whether a finished set lies there.

    Raises:
        DataError: the folder exists and is no set of this name.
    """
    if not folder.exists():
        return False
    record = folder / RECORD
    if not all((folder / name).is_file() for name in (RECORD, CITY_FILE, ROOM_FILE)):
        raise DataError(f"{folder}: expected a generated BoxWorld set with {RECORD}; remove the folder to generate it")
    found = json.loads(record.read_text(encoding="utf-8"))
    name = f"{found.get('split')}-{found.get('videos')}-{found.get('offset')}-v{found.get('version')}"
    if name != folder.name:
        raise DataError(f"{folder}: {RECORD} describes {name}; remove the folder to generate it anew")
    return True


def _generate(part: Path, split: Split, n_videos: int, offset: int, workers: int | None, progress: bool) -> None:
    """Generates a whole set into a folder that is not there yet."""
    for name in (CITY_FOLDER, ROOM_FOLDER):
        (part / name).mkdir(parents=True)
    jobs = [_Job(split, offset, number, part) for number in range(n_videos)]
    clips: dict[int, list[dict[str, Any]]] = {}
    with Progress(n_videos, f"boxworld {split}", "clips", enabled=progress) as shown:
        for number, rows in _results(jobs, workers):
            clips[number] = rows
            shown.advance()
    rows = [row for number in sorted(clips) for row in clips[number]]
    _write_tables(part, rows)
    counts = dict(sorted(Counter(row["task"] for row in rows).items()))
    record = {
        "generator": "trustvid BoxWorld",
        "version": VERSION,
        "split": split,
        "offset": offset,
        "videos": n_videos,
        "questions": counts,
    }
    (part / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _results(jobs: Sequence[_Job], workers: int | None) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(clip number, its question rows) as clips get finished, in any order."""
    processes = min(len(jobs), (os.cpu_count() or 1) if workers is None else workers)
    if processes <= 1:
        yield from map(_make_files, jobs)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_one_thread)
    try:
        futures = [pool.submit(_make_files, job) for job in jobs]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _one_thread() -> None:
    """OpenCV in a worker uses its own core only."""
    import cv2

    cv2.setNumThreads(1)


def _make_files(job: _Job) -> tuple[int, list[dict[str, Any]]]:
    """Renders one clip into its video file and returns its questions."""
    from trustvid.benchmarks.boxworld.render import Painter
    from trustvid.video.writer import write_video

    clip = make_clip(job.split, job.offset, job.number)
    path = job.folder / (CITY_FOLDER if clip.scene.kind == "city" else ROOM_FOLDER) / f"{clip.name}.mp4"
    write_video(path, Painter(clip.scene).frames(), FPS, crf=CRF)
    return job.number, question_rows(clip, job.number)


def question_rows(clip: BoxClip, number: int) -> list[dict[str, Any]]:
    """A clip's questions as plain records: id, kind, video, task, question, options with letters, answer letter."""
    return [
        {
            "id": number * IDS_PER_CLIP + place,
            "scene": clip.scene.kind,
            "video": clip.name,
            "task": question.task,
            "type": question.kind,
            "question": question.text,
            "options": [f"{letter}. {text}" for letter, text in zip("ABCDEFGHIJ", question.options, strict=False)],
            "answer": question.letter,
        }
        for place, question in enumerate(clip.questions, start=1)
    ]


def _write_tables(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    """The two question files in the columns and spellings of the official ones."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    city = [row for row in rows if row["scene"] == "city"]
    room = [row for row in rows if row["scene"] == "room"]
    flights = {
        "Question_id": pa.array([row["id"] for row in city], pa.int64()),
        "video_id": pa.array([f"{row['video']}.mp4" for row in city], pa.string()),
        "question_category": pa.array([row["type"] for row in city], pa.string()),
        "question": pa.array([_one_string(row) for row in city], pa.string()),
        "answer": pa.array([row["answer"] for row in city], pa.string()),
    }
    pq.write_table(pa.table(flights), folder / CITY_FILE)
    pans = {
        "id": pa.array([row["id"] for row in room], pa.int64()),
        "dataset": pa.array([ROOM_FOLDER] * len(room), pa.string()),
        "scene_name": pa.array([row["video"] for row in room], pa.string()),
        "question_type": pa.array([row["type"] for row in room], pa.string()),
        "question": pa.array([row["question"] for row in room], pa.string()),
        "ground_truth": pa.array([row["answer"] for row in room], pa.string()),
        "options": pa.array([row["options"] for row in room], pa.list_(pa.string())),
    }
    pq.write_table(pa.table(pans), folder / ROOM_FILE)


def _one_string(row: dict[str, Any]) -> str:
    """Question and options in one text, as UrbanVideo-Bench spells them."""
    return f"Question: {row['question']}\nChoices:\n" + "\n".join(f"{option}  " for option in row["options"])
