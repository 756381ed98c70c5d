"""Clips with questions from (split, offset, number), without a single coloured pixel.

Every clip is a fresh draw of scenes until one allows all four tasks with the wanted answers; what a scene shows is read
from its rendered id masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trustvid.benchmarks.boxworld import SPLITS, Split
from trustvid.benchmarks.boxworld.city import build_city, draw_flight, draw_turns, plan_city
from trustvid.benchmarks.boxworld.questions import (
    AG_LABELS,
    LP_LABELS,
    PE_WINDOW,
    RDIR_HARD,
    RDIR_MEDIUM,
    RP_LABELS,
    Question,
    target,
)
from trustvid.benchmarks.boxworld.questions_city import city_questions
from trustvid.benchmarks.boxworld.questions_room import room_questions
from trustvid.benchmarks.boxworld.room import build_room
from trustvid.benchmarks.boxworld.visibility import look
from trustvid.benchmarks.boxworld.world import MAX_FRAMES, MIN_FRAMES, VERSION, Scene
from trustvid.errors import DataError
from trustvid.seeding import Part, derive_rng, derive_seed

MIN_LEGIBLE, MIN_LOCATED = 6, 6  # frames of the clip in which an asked landmark can be read and measured
# Frames between the masks that decide what a clip shows; the coarse look throws most useless cities away.
COARSE_STRIDE, CITY_STRIDE, ROOM_STRIDE = 9, 3, 2
# Draws of a scene for one pair of wanted answers (a few pairs contradict the flight), and pairs tried.
ATTEMPTS, PAIRS = 32, 50


@dataclass(frozen=True)
class BoxClip:
    """A clip to be: ``name`` is the stem of its video file, unique over splits and offsets."""

    name: str
    scene: Scene
    questions: tuple[Question, ...]


def generate_questions(split: Split, n_videos: int, offset: int = 0) -> Iterator[BoxClip]:
    """Scenes and questions of ``n_videos`` clips, cities and rooms in turn; nothing is rendered in colour."""
    check_split(split, offset)
    return (make_clip(split, offset, number) for number in range(n_videos))


def check_split(split: str, offset: int) -> None:
    """Refuses what is no split.

    Raises:
        DataError: an unknown split or a negative offset.
    """
    if split not in SPLITS:
        raise DataError(f"BoxWorld has no split {split!r}; known are {', '.join(SPLITS)}")
    if offset < 0:
        raise DataError(f"BoxWorld offset {offset} is negative; offsets count from 0")


def make_clip(split: Split, offset: int, number: int) -> BoxClip:
    """The ``number``-th clip of a split, whatever the others: even numbers are cities, odd ones rooms."""
    maker = _make_city if number % 2 == 0 else _make_room
    seed = ("boxworld", VERSION, split, offset, number)
    for attempt in range(ATTEMPTS * PAIRS):
        made = maker(seed, number // 2, attempt)
        if made is not None:
            scene, questions = made
            # Splits and offsets share the second number of the name, so that no two clips have the same.
            variant = offset * len(SPLITS) + SPLITS.index(split)
            name = f"BoxCity_{number}_{variant}" if scene.kind == "city" else f"room_{number}_{variant}"
            return BoxClip(name, scene, questions)
    raise DataError(f"no scene in {ATTEMPTS * PAIRS} draws allows the questions of clip {seed}")


def _wanted(labels: Sequence[str], seed: tuple[Part, ...], task: str, index: int, attempt: int) -> str:
    """The answer class to look for: the clip's place in a shuffled block; a fresh draw where that proved impossible."""
    if attempt < ATTEMPTS:
        return target(labels, (*seed[:-1], "targets", task), index)
    return labels[int(derive_rng(*seed, "retarget", task, attempt // ATTEMPTS).integers(len(labels)))]


def draw_length(seed: tuple[Part, ...]) -> int:
    """Number of frames of a clip."""
    return int(derive_rng(*seed, "length").integers(MIN_FRAMES, MAX_FRAMES + 1))


def _make_city(seed: tuple[Part, ...], index: int, attempt: int) -> tuple[Scene, tuple[Question, ...]] | None:
    """One draw of a city; None when its landmarks do not allow the wanted questions."""
    position = _wanted(LP_LABELS, seed, "LP", index, attempt)
    action = _wanted(AG_LABELS, seed, "AG", index, attempt)
    # Steps, length and turns belong to the clip, not to the draw: picked with the scene, one might tell of another.
    n_steps = int(target([str(n) for n in PE_WINDOW], (*seed[:-1], "targets", "PE"), index))
    n_frames, turns = draw_length(seed), draw_turns(derive_rng(*seed, "turns"))
    rng = derive_rng(*seed, "plan", attempt)
    sectors = (LP_LABELS.index(position), AG_LABELS.index(action))
    plan = plan_city(rng, draw_flight(rng, n_frames, turns, n_steps), sectors)
    if city_questions(seed, plan, range(len(plan.landmarks)), (position, action)) is None:
        return None  # not even if every landmark could be read
    scene = build_city(derive_seed(*seed, "look", attempt), plan, derive_rng(*seed, "houses", attempt))
    known = look(scene, COARSE_STRIDE).known(1, 1)
    if city_questions(seed, plan, known, (position, action)) is None:
        return None
    known = look(scene, CITY_STRIDE).known(MIN_LEGIBLE, MIN_LOCATED)
    questions = city_questions(seed, plan, known, (position, action))
    return None if questions is None else (scene, questions)


def _make_room(seed: tuple[Part, ...], index: int, attempt: int) -> tuple[Scene, tuple[Question, ...]] | None:
    """One draw of a room; None when its objects do not allow the wanted questions."""
    half, parity = divmod(index, 2)
    labels, level = ((RDIR_MEDIUM, "medium"), (RDIR_HARD, "hard"))[parity]
    direction = _wanted(labels, seed, f"RDir-{level}", half, attempt)
    turns = _wanted(RP_LABELS, seed, "RP", index, attempt)
    scene = build_room(derive_seed(*seed, "look", attempt), derive_rng(*seed, "room", attempt), draw_length(seed))
    sightings = look(scene, ROOM_STRIDE)
    known = sightings.known(MIN_LEGIBLE, MIN_LOCATED)
    questions = room_questions(seed, scene, sightings, known, (direction, turns))
    return None if questions is None else (scene, questions)
