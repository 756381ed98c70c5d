"""What a clip really shows of its landmarks, frame by frame, from the id masks."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from trustvid.benchmarks.boxworld.geometry import TOP, View
from trustvid.benchmarks.boxworld.masks import BODY, PLATE, MaskPainter, plate_polygon
from trustvid.benchmarks.boxworld.world import COLOUR_NAMES, CY, HEIGHT, WIDTH, Scene

# OCR reads a sign of this size in nearly every clean frame (half of those with 200 pixels, or 4 for each letter).
MIN_PLATE_PIXELS = 300
MIN_LETTER_WIDTH = 5.0  # pixels of plate width per letter
MIN_PLATE_SHARE = 0.93  # of the plate that must be in view
MIN_BOX_WIDTH = 25  # pixels
MIN_FOOT_ROWS = 22  # rows of a box's foot below the horizon: the city's 29 m, the room's 11 m
MIN_PIXELS = 40  # of a landmark that counts as visible


@dataclass(frozen=True)
class Sightings:
    """Truth of visibility in the frames looked at; N frames, L landmarks.

    Attributes:
        frames: [N] indices.
        visible: bool [N, L], at least ``MIN_PIXELS`` of it can be seen.
        located: bool [N, L], its whole width and its foot are in view: its ground position can be measured.
        legible: bool [N, L], one of its plates can be read.
        stride: step between the frames.
    """

    frames: np.ndarray
    visible: np.ndarray
    located: np.ndarray
    legible: np.ndarray
    stride: int

    def legible_frames(self) -> np.ndarray:
        """Frames [L] of the clip in which each landmark can be read (estimated from those looked at)."""
        return self.legible.sum(0) * self.stride

    def known(self, min_legible: int, min_located: int) -> list[int]:
        """Landmarks legible and located in at least so many frames, those first that can be read the shortest time."""
        legible, located = self.legible_frames(), self.located.sum(0) * self.stride
        fitting = (legible >= min_legible) & (located >= min_located)
        return [int(i) for i in np.argsort(legible, kind="stable") if fitting[i]]


def look(scene: Scene, stride: int) -> Sightings:
    """Renders the id masks of every ``stride``-th frame and measures what they show."""
    painter = MaskPainter(scene)
    frames = np.arange(0, scene.n_frames, stride)
    shape = (len(frames), len(scene.landmarks))
    visible, located, legible = (np.zeros(shape, bool) for _ in range(3))
    n, grey = len(scene.landmarks), len(scene.buildings)
    for row, frame in enumerate(frames):
        ids, views = painter.frame_with_views(int(frame))
        counts = cv2.calcHist([ids], [0], None, [256], [0, 256]).ravel().astype(int)
        plates = counts[PLATE : PLATE + 4 * n].reshape(n, 4)
        visible[row] = counts[BODY : BODY + n] + plates.sum(1) >= MIN_PIXELS
        outlines: dict[int, list[np.ndarray]] = {}
        for view in views:
            landmark = view.box - grey
            if landmark < 0 or not visible[row, landmark]:
                continue
            outlines.setdefault(landmark, []).append(view.polygon)
            if view.side != TOP and plates[landmark, view.side] >= MIN_PLATE_PIXELS:
                pixels = int(plates[landmark, view.side])
                legible[row, landmark] |= _legible(scene, view, landmark, pixels)
        for landmark, polygons in outlines.items():
            located[row, landmark] = _located(np.concatenate(polygons), ids, landmark)
    return Sightings(frames, visible, located, legible, stride)


def _located(outline: np.ndarray, ids: np.ndarray, landmark: int) -> bool:
    """Whether a landmark's whole width and its foot are in view; ``outline`` [N, 2] are its corners in pixels."""
    (left, top), (right, foot) = outline.min(0), outline.max(0)
    if left < 0 or right > WIDTH - 1 or right - left < MIN_BOX_WIDTH or foot > HEIGHT - 2:
        return False
    if foot < CY + MIN_FOOT_ROWS:
        return False
    # Its own pixels must reach both ends and the foot; a house or another landmark in front would cut them off.
    area = ids[max(0, int(top)) : int(foot) + 1, int(left) : int(right) + 2]
    mask = _OWNER[area] == landmark
    columns, rows = np.flatnonzero(mask.any(0)), np.flatnonzero(mask.any(1))
    return bool(
        len(rows) and columns[0] <= 2 and columns[-1] >= right - left - 2 and rows[-1] + max(0, int(top)) >= foot - 1.5
    )


def _owner_table() -> np.ndarray:
    """Landmark index of each id, 255 for the rest."""
    table = np.full(256, 255, np.uint8)
    for landmark in range(len(COLOUR_NAMES)):
        table[[BODY + landmark, *range(PLATE + 4 * landmark, PLATE + 4 * landmark + 4)]] = landmark
    return table


_OWNER = _owner_table()


def _legible(scene: Scene, view: View, landmark: int, pixels: int) -> bool:
    """Whether a plate with so many visible pixels shows all of itself and letters wide enough to read."""
    polygon = plate_polygon(scene, landmark, view.side, view.homography)
    if polygon is None or len(polygon) != 4:
        return False
    if pixels < MIN_PLATE_SHARE * cv2.contourArea(polygon.astype(np.float32)):
        return False
    word = scene.landmarks[landmark].word or ""
    return float(np.ptp(polygon[:, 0])) >= MIN_LETTER_WIDTH * len(word)
