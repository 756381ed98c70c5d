"""The room's four tasks: relative distance, relative direction, route planning, appearance order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from trustvid.benchmarks.boxworld.questions import (
    RDIR_HARD,
    RDIR_MEDIUM,
    ROOM_PREAMBLE,
    RP_LABELS,
    Question,
    make_question,
    n_options,
)
from trustvid.benchmarks.boxworld.visibility import Sightings
from trustvid.benchmarks.boxworld.world import Scene, bearing
from trustvid.seeding import Part, derive_rng

DISTANCE_MARGIN, DISTANCE_RATIO = 0.6, 1.25  # metres, and ratio, of the second closest over the closest
FACING_DISTANCE = 1.3  # metres between objects that are stood at, faced or sought, at least
ANGLE_MARGIN = 17.0  # degrees to the next class
CHOICES = 3  # random choices of objects of which a question asks for those seen most briefly
APPEARANCE_GAP = 6  # frames between the first appearances of two objects

Objects = tuple[int, ...]  # indices of the scene's objects


def room_questions(
    seed: tuple[Part, ...], scene: Scene, sightings: Sightings, known: Sequence[int], wanted: tuple[str, str]
) -> tuple[Question, ...] | None:
    """RDist, RDir, RP and AO of a clip with the ``wanted`` (RDir, RP) answers; None if its known objects do not do."""
    direction, turns = wanted
    questions = (
        _relative_distance(seed, scene, known, sightings),
        _relative_direction(seed, scene, known, sightings, direction),
        _route_planning(seed, scene, known, sightings, turns),
        _appearance_order(seed, scene, known, sightings),
    )
    return None if None in questions else questions


def turn_angle(scene: Scene, start: int, via: int, end: int) -> float | None:
    """The turn at ``via`` towards ``end`` for one who comes from ``start``: degrees, positive to the right.

    None when two of the three are too close together for a clear angle.
    """
    a, b, c = (scene.landmarks[i] for i in (start, via, end))
    if min(np.hypot(a.x - b.x, a.z - b.z), np.hypot(c.x - b.x, c.z - b.z)) < FACING_DISTANCE:
        return None
    heading = np.degrees(np.arctan2(b.x - a.x, b.z - a.z))
    return bearing(b.x, b.z, heading, c.x, c.z)


def facing_angle(scene: Scene, stand: int, face: int, sought: int) -> float | None:
    """Bearing of ``sought`` for one who stands at ``stand`` facing ``face``; None when they are too close together."""
    a, b, c = (scene.landmarks[i] for i in (stand, face, sought))
    if min(np.hypot(a.x - b.x, a.z - b.z), np.hypot(a.x - c.x, a.z - c.z)) < FACING_DISTANCE:
        return None
    heading = np.degrees(np.arctan2(b.x - a.x, b.z - a.z))
    return bearing(a.x, a.z, heading, c.x, c.z)


def side_of(angle: float | None) -> str | None:
    """ "left", "right" or "back" (135 degrees or more); None near a border."""
    if angle is None:
        return None
    size = abs(angle)
    if size >= 135.0 + ANGLE_MARGIN:
        return "back"
    if not ANGLE_MARGIN <= size <= 135.0 - ANGLE_MARGIN:
        return None
    return "right" if angle > 0 else "left"


def quadrant_of(angle: float | None) -> str | None:
    """ "front-left" … "back-right"; None near a border."""
    if angle is None or min(abs(angle), abs(abs(angle) - 90.0), 180.0 - abs(angle)) < ANGLE_MARGIN:
        return None
    return f"{'front' if abs(angle) < 90.0 else 'back'}-{'right' if angle > 0 else 'left'}"


def _words(scene: Scene) -> list[str]:
    return [box.word or "" for box in scene.landmarks]


def _briefest(rng: np.random.Generator, fitting: Sequence[Objects], sightings: Sightings) -> Objects:
    """Of a few random choices that of the objects seen for the shortest time: when to look matters most for them."""
    frames = sightings.legible_frames()
    tries = [fitting[int(i)] for i in rng.integers(len(fitting), size=CHOICES)]
    return min(tries, key=lambda objects: int(frames[list(objects)].sum()))


def _relative_distance(
    seed: tuple[Part, ...], scene: Scene, known: Sequence[int], sightings: Sightings
) -> Question | None:
    rng = derive_rng(*seed, "RDist", "objects")
    count = n_options(seed, "RDist", 3, 5)
    if len(known) < count + 1:
        return None
    draws = (tuple(known[int(i)] for i in rng.permutation(len(known))[: count + 1]) for _ in range(40))
    fitting = [objects for objects in draws if _clearly_closest(scene, objects) is not None]
    if not fitting:
        return None
    chosen = _briefest(rng, fitting, sightings)
    truth, words = _clearly_closest(scene, chosen), _words(scene)
    text = (
        f"{ROOM_PREAMBLE} Measured between their centres on the floor, "
        f"which of these objects is closest to the {words[chosen[0]]}?"
    )
    wrong = [words[i] for i in chosen[1:] if i != truth]
    return make_question(seed, "RDist", "object_rel_distance", text, words[truth or 0], wrong, count)


def _clearly_closest(scene: Scene, objects: Objects) -> int | None:
    """Which of ``objects[1:]`` is clearly the closest to ``objects[0]``; None when two are about as close."""
    origin, *others = (scene.landmarks[i] for i in objects)
    distances = [np.hypot(box.x - origin.x, box.z - origin.z) for box in others]
    closest, second = sorted(distances)[:2]
    if second - closest < DISTANCE_MARGIN or second < DISTANCE_RATIO * closest:
        return None
    return objects[1 + int(np.argmin(distances))]


def _relative_direction(
    seed: tuple[Part, ...], scene: Scene, known: Sequence[int], sightings: Sightings, wanted: str
) -> Question | None:
    labels, classify = (RDIR_MEDIUM, side_of) if wanted in RDIR_MEDIUM else (RDIR_HARD, quadrant_of)
    fitting = [
        triple for triple in itertools.permutations(known, 3) if classify(facing_angle(scene, *triple)) == wanted
    ]
    if not fitting:
        return None
    stand, face, sought = _briefest(derive_rng(*seed, "RDir", "objects"), fitting, sightings)
    words = _words(scene)
    text = (
        f"{ROOM_PREAMBLE} Imagine standing at the {words[stand]} and facing the {words[face]}. "
        f"Where is the {words[sought]}?"
    )
    kind = "object_rel_direction_medium" if labels is RDIR_MEDIUM else "object_rel_direction_hard"
    others = [label for label in labels if label != wanted]
    return make_question(seed, "RDir", kind, text, wanted, others, len(labels))


def _route_planning(
    seed: tuple[Part, ...], scene: Scene, known: Sequence[int], sightings: Sightings, wanted: str
) -> Question | None:
    first, second = wanted.split(", ")
    turn = {triple: f"turn {side_of(turn_angle(scene, *triple))}" for triple in itertools.permutations(known, 3)}
    fitting = [
        (*triple, last)
        for triple in turn
        for last in known
        if last not in triple and turn[triple] == first and turn[(*triple[1:], last)] == second
    ]
    if not fitting:
        return None
    chosen = _briefest(derive_rng(*seed, "RP", "objects"), fitting, sightings)
    a, b, c, d = (_words(scene)[i] for i in chosen)
    text = (
        f"{ROOM_PREAMBLE} You stand at the {a} facing the {b}. Fill in the turns of this walk to the {d}: "
        f"1. go forward until the {b}; 2. [turn]; 3. go forward until the {c}; 4. [turn]; "
        f"5. go forward until the {d}. Which turns fit?"
    )
    others = [label for label in RP_LABELS if label != wanted]
    return make_question(seed, "RP", "route_planning", text, wanted, others, 4)


def _appearance_order(
    seed: tuple[Part, ...], scene: Scene, known: Sequence[int], sightings: Sightings
) -> Question | None:
    first = {i: int(sightings.frames[np.argmax(sightings.visible[:, i])]) for i in known}
    fitting = []
    for group in itertools.combinations(sorted(known, key=lambda i: (first[i], i)), 4):
        if min(first[b] - first[a] for a, b in itertools.pairwise(group)) >= APPEARANCE_GAP:
            fitting.append(group)
    if not fitting:
        return None
    rng = derive_rng(*seed, "AO", "objects")
    group = _briefest(rng, fitting, sightings)
    words = [_words(scene)[i] for i in group]
    named = [words[int(i)] for i in rng.permutation(4)]
    truth = ", ".join(words)
    others = [order for order in (", ".join(p) for p in itertools.permutations(sorted(words))) if order != truth]
    text = f"{ROOM_PREAMBLE} In which order do these objects first appear in the video: {', '.join(named)}?"
    return make_question(seed, "AO", "obj_appearance_order", text, truth, others, n_options(seed, "AO", 4, 5))
