"""Frames with their truth in memory: for tuning and measuring tools without files or questions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trustvid.benchmarks.boxworld.city import build_city, draw_flight, draw_turns, plan_city
from trustvid.benchmarks.boxworld.masks import MaskPainter
from trustvid.benchmarks.boxworld.questions import PE_WINDOW
from trustvid.benchmarks.boxworld.render import Painter
from trustvid.benchmarks.boxworld.room import build_room
from trustvid.benchmarks.boxworld.truth import SeenBox, seen_landmarks
from trustvid.benchmarks.boxworld.world import MAX_FRAMES, MIN_FRAMES, Scene, SceneKind
from trustvid.seeding import derive_rng, derive_seed


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
    seen = [seen_landmarks(scene, masks.frame(index)) for index in range(scene.n_frames)]
    return Preview(frames, scene.poses, seen, scene)
