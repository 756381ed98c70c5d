"""Frames with their truth in memory: for tuning and measuring tools without files or questions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trustvid.benchmarks.boxworld.city import build_city, draw_flight, draw_turns, plan_city
from trustvid.benchmarks.boxworld.masks import BODY, PLATE, MaskPainter
from trustvid.benchmarks.boxworld.questions import PE_WINDOW
from trustvid.benchmarks.boxworld.render import Painter
from trustvid.benchmarks.boxworld.room import build_room
from trustvid.benchmarks.boxworld.world import HEIGHT, MAX_FRAMES, MIN_FRAMES, WIDTH, Scene, SceneKind
from trustvid.seeding import derive_rng, derive_seed

Extent = tuple[float, float, float, float]


class SeenBox(NamedTuple):
    """A landmark in a frame: its word and colour, box (x0, y0, x1, y1 as shares 0–1) and pixels of its visible part,
    and the box and pixels of its largest visible sign plate (None and 0 when it shows none)."""

    word: str
    colour: str
    box: Extent
    pixels: int
    plate: Extent | None
    plate_pixels: int


class Preview(NamedTuple):
    """frames uint8 [T, 240, 320, 3], poses [T, 3] (x, z metres, yaw degrees), the visible landmarks of each frame."""

    frames: np.ndarray
    poses: np.ndarray
    seen: list[list[SeenBox]]
    scene: Scene


def render_clip(kind: SceneKind, seed: int) -> Preview:
    """A random clip with its truth; seeds are unrelated to those of the benchmark's splits."""
    rng = derive_rng("boxworld-preview", kind, seed)
    scene_seed = derive_seed("boxworld-preview-look", kind, seed)
    n_frames = int(rng.integers(MIN_FRAMES, MAX_FRAMES + 1))
    if kind == "city":
        flight = draw_flight(rng, n_frames, draw_turns(rng), int(rng.choice(PE_WINDOW)))
        scene = build_city(scene_seed, plan_city(rng, flight), rng)
    else:
        scene = build_room(scene_seed, rng, n_frames)
    painter, masks = Painter(scene), MaskPainter(scene)
    frames = np.stack(list(painter.frames()))
    seen = [_seen(scene, masks.frame(index)) for index in range(scene.n_frames)]
    return Preview(frames, scene.poses, seen, scene)


def _seen(scene: Scene, ids: np.ndarray) -> list[SeenBox]:
    """The landmarks in a mask."""
    found = []
    for index, box in enumerate(scene.landmarks):
        plates = [PLATE + 4 * index + side for side in range(4)]
        counts = [int((ids == value).sum()) for value in plates]
        whole = np.isin(ids, [BODY + index, *plates])
        if not whole.any():
            continue
        best = int(np.argmax(counts))
        plate = _extent(ids == plates[best]) if counts[best] else None
        found.append(SeenBox(box.word or "", box.colour or "", _extent(whole), int(whole.sum()), plate, counts[best]))
    return found


def _extent(mask: np.ndarray) -> Extent:
    """(x0, y0, x1, y1) as shares of width and height."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return (
        float(columns[0] / WIDTH),
        float(rows[0] / HEIGHT),
        float((columns[-1] + 1) / WIDTH),
        float((rows[-1] + 1) / HEIGHT),
    )
