"""detect_objects, embedded: signs and coloured things as labelled boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trustvid.errors import ConfigError
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.summary import when_seen
from trustvid.tools.vision.boxes import Box, as_shares, cut_sides

if TYPE_CHECKING:
    import numpy as np

    from trustvid.tools.vision.colour import Region

_LISTED_LABELS = 12


class DetectObjects:
    """Coloured things ("red box", "yellow ball") and signs ("sign").

    A label is one of eight colours (red, orange, yellow, green, cyan, blue, purple, pink) and a shape: "ball" for an
    ellipse, "box" for anything else, so that a thing keeps its label when something hides a part of it. The lower edge
    of a box is where the coloured surface ends.

    Observations: kind "object", score = vividness × solidity × size, values ``clipped`` and ``clipped_left``, ``_top``,
    ``_right``, ``_bottom`` (1.0) where the frame's border cuts the thing off.

    Args:
        min_score: boxes below are dropped, 0–1.
        max_objects: best boxes kept in a frame.
        min_saturation: HSV saturation from which a pixel counts as coloured, 0–1.
        min_chroma: least max(R, G, B) - min(R, G, B) of such a pixel, 0–255.
        min_area: least coloured pixels of a thing in a frame of 320×240; grows with the frame.
        signs: whether to look for bright plates with dark strokes.
    """

    name = "detect_objects"
    cost = 0.50  # paper Table 17
    version = "1"
    span = "frame"
    reads_query = False

    def __init__(
        self,
        min_score: float = 0.2,
        max_objects: int = 12,
        min_saturation: float = 0.34,
        min_chroma: float = 38.0,
        min_area: float = 20.0,
        signs: bool = True,
    ):
        faults = []
        for name, value in (("min_score", min_score), ("min_saturation", min_saturation)):
            if not 0 <= value <= 1:
                faults.append(f"detect_objects.{name}={value!r}: expected 0–1")
        if max_objects < 1:
            faults.append(f"detect_objects.max_objects={max_objects!r}: expected at least 1")
        if not 0 <= min_chroma <= 255:
            faults.append(f"detect_objects.min_chroma={min_chroma!r}: expected 0–255")
        if not min_area > 0:
            faults.append(f"detect_objects.min_area={min_area!r}: expected a positive number of pixels")
        if faults:
            raise ConfigError(faults)
        self.min_score = float(min_score)
        self.max_objects = int(max_objects)
        self.min_saturation = float(min_saturation)
        self.min_chroma = float(min_chroma)
        self.min_area = float(min_area)
        self.signs = bool(signs)

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """The boxes of each frame of the batch, best first."""
        outputs = []
        for image, index, time in zip(batch.images, batch.indices, batch.times, strict=True):
            height, width = image.shape[:2]
            found = [
                (label, score, box)
                for label, score, box in (*self._coloured(image), *self._signs(image))
                if score >= self.min_score
            ]
            found.sort(key=lambda item: (-item[1], item[0], item[2]))
            outputs.append(
                [
                    Observation(index, time, "object", label, round(score, 4), as_shares(box, width, height), cut)
                    for label, score, box in found[: self.max_objects]
                    for cut in (cut_sides(box, width, height),)
                ]
            )
        return outputs

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """How many of what in how many frames, and the mean score of the boxes."""
        if not observations:
            return "no object found", 0.0
        by_label: dict[str, list[Observation]] = {}
        for seen in observations:
            by_label.setdefault(seen.label, []).append(seen)
        ranked = sorted(by_label.items(), key=lambda item: (-len({seen.frame for seen in item[1]}), item[0]))
        parts = [f"{label} ({when_seen(seen)})" for label, seen in ranked[:_LISTED_LABELS]]
        if len(ranked) > len(parts):
            parts.append(f"{len(ranked) - len(parts)} more kinds")
        return "objects: " + "; ".join(parts), sum(seen.score for seen in observations) / len(observations)

    def settings(self) -> dict:
        """All constructor arguments."""
        return {
            "backend": "embedded",
            "min_score": self.min_score,
            "max_objects": self.max_objects,
            "min_saturation": self.min_saturation,
            "min_chroma": self.min_chroma,
            "min_area": self.min_area,
            "signs": self.signs,
        }

    def _coloured(self, image: np.ndarray) -> list[tuple[str, float, Box]]:
        from trustvid.tools.vision.colour import ColourSettings, coloured_regions

        settings = ColourSettings(self.min_saturation, self.min_chroma, self.min_area)
        return [
            (f"{region.colour} {_shape(region)}", _score(region, image.shape[0] * image.shape[1]), region.box)
            for region in coloured_regions(image, settings)
        ]

    def _signs(self, image: np.ndarray) -> list[tuple[str, float, Box]]:
        if not self.signs:
            return []
        from trustvid.tools.vision.plates import QUICK_LEVELS, find_plates

        return [("sign", plate.score, plate.box) for plate in find_plates(image, QUICK_LEVELS)]


def _shape(region: Region) -> str:
    return "ball" if region.roundness >= 0.88 and region.solidity >= 0.85 else "box"


def _score(region: Region, pixels: int) -> float:
    """Vividness × solidity × size: 1 for a saturated, closed patch of a hundredth of the frame or more."""
    vivid = min(1.0, region.purity / 0.6)
    size = min(1.0, (100 * region.area / pixels) ** 0.5)
    return vivid * region.solidity * (0.4 + 0.6 * size)
