"""What a clip shows, as facts a caption can be right or wrong about; read from the scene and its rendered id masks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trustvid.benchmarks.boxworld.visibility import look
from trustvid.benchmarks.boxworld.world import CITY_WORDS, COLOUR_NAMES, FPS, ROOM_WORDS, Scene

STRIDE = 2  # frames between the masks that are looked at
MIN_LEGIBLE, MIN_LOCATED = 6, 6  # frames in which a thing that captions speak of can be read and is wholly in view
CLEAR_GAP = 10  # frames between two first appearances that anybody can tell apart


@dataclass(frozen=True)
class Thing:
    """A landmark or object that the clip shows clearly.

    Attributes:
        word: its sign.
        colour: its colour name.
        first: first frame in which it can be seen.
    """

    word: str
    colour: str
    first: int


@dataclass(frozen=True)
class ClipFacts:
    """The truth about one clip.

    Attributes:
        kind: "city" (flight among towers) or "room" (pan over furniture-like boxes).
        things: what can be seen clearly, by first appearance.
        absent: sign words of this kind of scene that are nowhere in it.
        turns: the flight's turns in order ("left" or "right"); of a pan the side to which it goes on the whole.
        seconds: length of the clip.
    """

    kind: str
    things: tuple[Thing, ...]
    absent: tuple[str, ...]
    turns: tuple[str, ...]
    seconds: float

    def clear_pairs(self) -> list[tuple[Thing, Thing]]:
        """Pairs (earlier, later) whose order of appearance is plain."""
        return [(a, b) for a in self.things for b in self.things if b.first - a.first >= CLEAR_GAP]


def facts_of(scene: Scene) -> ClipFacts:
    """The facts of a scene. Things that can only just be seen are in neither ``things`` nor ``absent``."""
    sightings = look(scene, STRIDE)
    known = sightings.known(MIN_LEGIBLE, MIN_LOCATED)
    things = [
        Thing(box.word or "", box.colour or "", int(sightings.frames[np.argmax(sightings.visible[:, index])]))
        for index, box in enumerate(scene.landmarks)
        if index in known
    ]
    there = {box.word for box in scene.landmarks}
    words = CITY_WORDS if scene.kind == "city" else ROOM_WORDS
    if scene.kind == "city":
        turns = tuple(step.action for step in scene.steps if step.action != "forward")
    else:
        turns = ("right" if scene.poses[-1, 2] > scene.poses[0, 2] else "left",)
    return ClipFacts(
        kind=scene.kind,
        things=tuple(sorted(things, key=lambda thing: (thing.first, thing.word))),
        absent=tuple(word for word in words if word not in there),
        turns=turns,
        seconds=scene.n_frames / FPS,
    )


def other_colours(*colours: str) -> list[str]:
    """Colour names besides these."""
    return [name for name in COLOUR_NAMES if name not in colours]
