"""What is really to be seen in a clip: for calibration and for measuring tools, never for tools, agent or policy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trustvid.benchmarks.boxworld import SPLITS, Split
from trustvid.benchmarks.boxworld.generate import check_split, make_clip
from trustvid.benchmarks.boxworld.masks import BODY, PLATE, MaskPainter
from trustvid.benchmarks.boxworld.world import HEIGHT, WIDTH, Scene
from trustvid.errors import DataError

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


class Motion(NamedTuple):
    """What the camera did between two frames: rotation in degrees, positive to the right, and metres flown."""

    yaw_deg: float
    metres: float


class ClipTruth:
    """The truth of one clip of a split.

    Attributes:
        name: stem of its video file.
        scene: all that is in it.
        words: sign words of its landmarks.
    """

    def __init__(self, name: str, scene: Scene):
        self.name, self.scene = name, scene
        self.words = tuple(box.word or "" for box in scene.landmarks)
        self._masks = MaskPainter(scene)

    def seen(self, frame: int) -> list[SeenBox]:
        """The landmarks of which at least a pixel is visible in a frame."""
        return seen_landmarks(self.scene, self._masks.frame(frame))

    def motion(self, first: int, last: int) -> Motion:
        """The camera's motion from frame ``first`` to frame ``last``."""
        before, after = self.scene.poses[first], self.scene.poses[last]
        return Motion(float(after[2] - before[2]), float(np.hypot(*(after[:2] - before[:2]))))


def clip_truth(split: Split, offset: int, number: int) -> ClipTruth:
    """The truth of the ``number``-th clip of a split, whatever the others.

    Raises:
        DataError: unknown split, or a negative offset or number.
    """
    check_split(split, offset)
    if number < 0:
        raise DataError(f"BoxWorld clip {number} is negative; clips count from 0")
    clip = make_clip(split, offset, number)
    return ClipTruth(clip.name, clip.scene)


def truth_of_video(split: Split, name: str) -> ClipTruth:
    """The truth of a clip by the stem of its video file ("BoxCity_4_1", "room_7_1"), whatever its offset.

    Raises:
        DataError: no clip of this split has the name.
    """
    _, number, variant = name.split("_") if name.count("_") == 2 else ("", "", "")
    truth = None
    if number.isdecimal() and variant.isdecimal():
        truth = clip_truth(split, int(variant) // len(SPLITS), int(number))
    if truth is None or truth.name != name:
        raise DataError(f"{name!r} is no clip of BoxWorld split {split}: its truth is not known")
    return truth


def seen_landmarks(scene: Scene, ids: np.ndarray) -> list[SeenBox]:
    """The landmarks of which at least a pixel is visible in an id mask, uint8 [240, 320] (see ``masks``)."""
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
