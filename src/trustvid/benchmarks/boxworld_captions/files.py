"""Writes BoxWorld captions to disk in the official form, once and whole.

``<root>/captions-<split>-<videos>-<offset>-v<version>/`` (with several rounds, ``…-x<rounds>``) holds ``annotation/``
(prompt.json, checklist.json, video_meta_info.json), ``videos/clip/NNN.mp4`` (the clips of the BoxWorld set of the same
split), ``response/`` with responses of known truth, and ``truth/`` with their true results in the form of result files.
A captioner is given videos and instructions only.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trustvid.benchmarks.boxworld.files import CITY_FOLDER, ROOM_FOLDER, ensure_boxworld
from trustvid.benchmarks.boxworld.generate import BoxClip, Split, make_clip
from trustvid.benchmarks.boxworld.once import ensure_folder
from trustvid.benchmarks.boxworld.world import FPS, HEIGHT, VERSION, WIDTH
from trustvid.benchmarks.boxworld_captions.compose import Composed, Plan, plans_of
from trustvid.benchmarks.boxworld_captions.facts import facts_of
from trustvid.captioning.files import (
    CHECKLISTS,
    PROMPTS,
    RESPONSES_END,
    RESULTS_END,
    VIDEOS,
    Instruction,
    TaskKey,
    entry_of,
    prompt_entry,
    write_entries,
)
from trustvid.errors import DataError
from trustvid.progress import Progress

CAPTIONS_VERSION = 1  # bump when the same scene gives other instructions, checklists or responses
RECORD = "generation.json"
RIGHT, PLANTED = "right", "planted_{}"
PLANTED_SETS = 6


def ensure_boxworld_captions(
    root: Path,
    split: Split,
    n_videos: int,
    offset: int = 0,
    rounds: int = 1,
    *,
    workers: int | None = None,
    progress: bool = True,
) -> Path:
    """The folder of a set, made at first use.

    A second caller waits for the first. The folder appears when it is complete; what a killed run leaves behind is
    removed by the next one.

    Args:
        root: cache folder that holds all sets.
        split, n_videos, offset: as of :func:`~trustvid.benchmarks.boxworld.files.ensure_boxworld`; four instructions
            a clip. From a dozen clips on, a set has all 27 constraint types.
        rounds: of four instructions about each clip. Those after the first come with right responses alone.
        workers: processes that render; None takes one for each core.
        progress: show progress on standard error.

    Raises:
        DataError: as of ``ensure_boxworld``, or a folder of that name is something else.
    """
    folder = Path(root) / f"captions-{split}-{n_videos}-{offset}-v{VERSION}.{CAPTIONS_VERSION}"
    if rounds > 1:
        folder = folder.with_name(f"{folder.name}-x{rounds}")

    def make(part: Path) -> None:
        videos = ensure_boxworld(root, split, n_videos, offset, workers=workers, progress=progress)
        _make(part, videos, split, n_videos, offset, rounds, progress)

    return ensure_folder(folder, _is_complete, make)


def _is_complete(folder: Path) -> bool:
    if not folder.exists():
        return False
    if not (folder / RECORD).is_file():
        raise DataError(f"{folder}: expected a set of BoxWorld captions with {RECORD}; remove the folder to make it")
    return True


def _make(part: Path, videos: Path, split: Split, n_videos: int, offset: int, rounds: int, progress: bool) -> None:
    for name in ("annotation", "videos/clip", "response", "truth"):
        (part / name).mkdir(parents=True)
    clips, facts = [], []
    with Progress(n_videos, f"boxworld captions {split}", unit="clips", enabled=progress) as bar:
        for number in range(n_videos):
            clip = make_clip(split, offset, number)
            clips.append(clip)
            facts.append(facts_of(clip.scene))
            bar.advance()
    seed = ("captions", VERSION, CAPTIONS_VERSION, split, offset)
    try:
        in_rounds = [plans_of(facts, (*seed, *([number] if number else []))) for number in range(rounds)]
    except ValueError as error:
        raise DataError(f"BoxWorld captions {split}-{n_videos}-{offset}: {error}") from error
    meta = {_video(number): _place_video(part, videos, clip, number) for number, clip in enumerate(clips)}
    (part / "annotation" / VIDEOS).write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
    tasks = list(_tasks([[plan for plans in of_clip for plan in plans] for of_clip in zip(*in_rounds, strict=True)]))
    write_entries(part / "annotation" / PROMPTS, ((one.key.video, prompt_entry(one)) for one, _ in tasks))
    write_entries(
        part / "annotation" / CHECKLISTS,
        ((one.key.video, entry_of(one, "checklist", plan.checklist())) for one, plan in tasks),
    )
    _write_responses(part, RIGHT, tasks, [plan.right() for _, plan in tasks])
    first = list(_tasks(in_rounds[0]))
    planted = [planted_responses(plan, PLANTED_SETS, start) for start, (_, plan) in enumerate(first)]
    for k in range(PLANTED_SETS):
        _write_responses(part, PLANTED.format(k + 1), first, [found[k] for found in planted])
    record = {"generator": "trustvid BoxWorld captions", "version": f"{VERSION}.{CAPTIONS_VERSION}", "split": split}
    record |= {"offset": offset, "videos": n_videos, "instructions": len(tasks)}
    (part / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _video(number: int) -> str:
    return f"clip_{number + 1:03d}"


def _tasks(plans: Sequence[Sequence[Plan]]) -> Iterator[tuple[Instruction, Plan]]:
    for number, of_clip in enumerate(plans):
        for place, plan in enumerate(of_clip, start=1):
            key = TaskKey(_video(number), f"{place:02d}")
            yield Instruction(key, plan.field, plan.instruction, plan.constraints_used), plan


def _place_video(part: Path, videos: Path, clip: BoxClip, number: int) -> dict[str, Any]:
    """Puts a clip where the official files look for it and returns its entry of the meta file."""
    source = videos / (CITY_FOLDER if clip.scene.kind == "city" else ROOM_FOLDER) / f"{clip.name}.mp4"
    relative = f"videos/clip/{number + 1:03d}.mp4"
    try:
        os.link(source, part / relative)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, part / relative)
    size = source.stat().st_size
    seconds = clip.scene.n_frames / FPS
    return {
        "duration": f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}",
        "resolution": f"{WIDTH}x{HEIGHT}",
        "bitrate": f"{round(8 * size / seconds / 1000)} kbps",
        "original_fps": FPS,
        "processed_fps": FPS,
        "original_size_mb": round(size / 2**20, 2),
        "processed_size_mb": round(size / 2**20, 2),
        "original_path": relative,
        "processed_path": relative,
        "status": "generated",
    }


def planted_responses(plan: Plan, n: int, start: int = 0) -> list[Composed]:
    """``n`` responses that violate one constraint each: constraints in turn from ``start``, then in another way."""
    variants = [list(plan.violations(place)) for place in range(len(plan.type_keys))]
    rounds = max(map(len, variants), default=0)
    found = [choices[turn] for turn in range(rounds) for choices in variants if turn < len(choices)]
    if not found:
        raise DataError(f"no constraint of this instruction can be violated alone: {plan.instruction}")
    return [found[(start + k) % len(found)] for k in range(n)]


def _write_responses(
    part: Path, name: str, tasks: Sequence[tuple[Instruction, Plan]], composed: Sequence[Composed]
) -> None:
    write_entries(
        part / "response" / f"{name}{RESPONSES_END}",
        ((one.key.video, entry_of(one, "response", made.text)) for (one, _), made in zip(tasks, composed, strict=True)),
    )
    write_entries(
        part / "truth" / f"{name}{RESULTS_END}",
        (
            (one.key.video, {**entry_of(one, "check_result", true_result(plan, made)), "violated": made.violated})
            for (one, plan), made in zip(tasks, composed, strict=True)
        ),
    )


def true_result(plan: Plan, made: Composed) -> dict[str, Any]:
    """The result object of a perfect judge."""
    record = plan.checklist()
    for item, content, holds in zip(record["ruled_based_check"], made.truth.contents, made.truth.rules, strict=True):
        item["parameters"]["content"] = list(content)
        item["result"] = holds
    answers = iter(made.truth.answers)
    for group in record["open_ended_check"]:
        for item in group["check_items"]:
            answer = next(answers)
            item.update(answer=answer, result_explanation="known from how the response was made")
            item.update(result_confidence=5, result=answer == item["correct_answer"])
    return record
