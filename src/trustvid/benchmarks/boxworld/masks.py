"""Renders what is where: an id for every pixel, from the same geometry as the colours, with no colour in it.

Ids: ``GREY`` for buildings; ``BODY + i`` for landmark i; ``PLATE + 4·i + side``
for its sign plates; ``FAR + k`` for all else above the horizon (sky, skyline, walls) between the azimuths 10·k and
10·(k+1) degrees; ``GROUND`` for all else below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np

from trustvid.benchmarks.boxworld.geometry import (
    SUBPIXEL_BITS,
    TOP,
    Camera,
    Faces,
    View,
    plate_rectangle,
    project_rectangle,
    to_fixed,
)
from trustvid.benchmarks.boxworld.world import CX, FOCAL, HEIGHT, WIDTH, Scene

GROUND, GREY, BODY, PLATE, FAR = 1, 2, 10, 30, 100
SECTOR = 10  # degrees of azimuth per id of the far ring


class Label(NamedTuple):
    """Whose id it is: the sign word and the colour name."""

    word: str
    colour: str


def id_table(scene: Scene) -> dict[int, Label]:
    """The landmark of every id that belongs to one."""
    table = {}
    for index, box in enumerate(scene.landmarks):
        for value in (BODY + index, *range(PLATE + 4 * index, PLATE + 4 * index + 4)):
            table[value] = Label(box.word or "", box.colour or "")
    return table


class MaskPainter:
    """Renders id masks of one scene."""

    def __init__(self, scene: Scene):
        self._scene = scene
        self._grey = len(scene.buildings)
        self._faces = Faces((*scene.buildings, *scene.landmarks))
        self._columns = np.degrees(np.arctan((np.arange(WIDTH) - CX) / FOCAL))

    def frame(self, index: int) -> np.ndarray:
        """Ids uint8 [240, 320] of one frame."""
        return self.frame_with_views(index)[0]

    def frames(self) -> Iterator[np.ndarray]:
        """Ids of all frames in order."""
        return (self.frame(index) for index in range(self._scene.n_frames))

    def frame_with_views(self, index: int) -> tuple[np.ndarray, list[View]]:
        """Ids of one frame and the faces that were painted for it."""
        x, z, yaw = (float(value) for value in self._scene.poses[index])
        views = self._faces.views(Camera(x, z, yaw, self._scene.camera_height))
        ids = np.full((HEIGHT, WIDTH), GROUND, np.uint8)
        ids[: HEIGHT // 2] = FAR + ((self._columns + yaw) % 360.0 // SECTOR).astype(np.uint8)
        for view in views:
            landmark = view.box - self._grey
            cv2.fillConvexPoly(ids, view.fixed, BODY + landmark if landmark >= 0 else GREY, shift=SUBPIXEL_BITS)
            if landmark >= 0 and view.side != TOP:
                plate = plate_polygon(self._scene, landmark, view.side, view.homography)
                if plate is not None:
                    cv2.fillConvexPoly(ids, to_fixed(plate), PLATE + 4 * landmark + view.side, shift=SUBPIXEL_BITS)
        return ids, views


def plate_polygon(scene: Scene, landmark: int, side: int, homography: np.ndarray) -> np.ndarray | None:
    """Outline [N, 2] of the sign plate of a side, from the homography of the side's unit square."""
    return project_rectangle(homography, *plate_rectangle(scene.landmarks[landmark], side))
