"""What detectors share that look for things by name: phrases in, labelled boxes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from trustvid.errors import ConfigError
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.pretrained.checkpoint import Checkpoint
from trustvid.tools.pretrained.models import Architecture, Loaded, load
from trustvid.tools.pretrained.phrases import object_phrases
from trustvid.tools.vision.boxes import Box, as_shares, cut_sides

# What is looked for where neither sub-query nor words name a thing.
ANYTHING = ("object",)
_LEAST_PX = 1.0  # side of a box within the frame


class OpenVocabulary(ABC):
    """detect_objects by a model that is told what to look for.

    Observations: kind "object", label = one of :func:`object_phrases` of the sub-query and the words ("object" where
    these name nothing), score = the model's for that phrase, values as of the embedded detector (``clipped``, …).

    Args:
        checkpoint: the weights.
        min_score: boxes below are dropped, 0–1.
        max_objects: best boxes kept in a frame.
        max_overlap: of two boxes of one label that overlap more (intersection over union), the better one is kept.
        max_phrases: things that are looked for at once.
        batch_size: frames that go through the network together.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    name = "detect_objects"
    cost = 0.50  # paper Table 17
    version = "2"
    span = "frame"
    reads_query = True
    backend: str
    architecture: Architecture

    def __init__(
        self,
        checkpoint: Checkpoint,
        min_score: float,
        max_objects: int,
        max_overlap: float,
        max_phrases: int,
        batch_size: int,
    ):
        faults = list(checkpoint.faults(self.name))
        for name, share in (("min_score", min_score), ("max_overlap", max_overlap)):
            if not 0 <= share <= 1:
                faults.append(f"{self.name}.{name}={share!r}: expected 0–1")
        for name, count in (("max_objects", max_objects), ("max_phrases", max_phrases), ("batch_size", batch_size)):
            if count < 1:
                faults.append(f"{self.name}.{name}={count!r}: expected at least 1")
        if faults:
            raise ConfigError(faults)
        self.checkpoint = checkpoint
        self.min_score, self.max_overlap = float(min_score), float(max_overlap)
        self.max_objects, self.max_phrases, self.batch_size = int(max_objects), int(max_phrases), int(batch_size)

    # Sentence and c_intrinsic (the mean score of the boxes kept) are the same whichever backend found them.
    summarise = DetectObjects.summarise

    def load(self) -> Loaded:
        """The model, in memory from the first call on.

        Raises:
            TrustvidError: it cannot be loaded; the message has the way out.
        """
        return load(self.checkpoint, self.architecture)

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """The boxes of each frame of the batch, best first."""
        phrases = object_phrases(query.text, words, self.max_phrases) or ANYTHING
        model = self.load()
        outputs = []
        for start in range(0, len(batch.images), self.batch_size):
            images = list(batch.images[start : start + self.batch_size])
            with model.in_use():
                scores, boxes = self._look(model, images, phrases)
            for t, (rows, corners) in enumerate(zip(scores, boxes, strict=True), start):
                outputs.append(self._observations(batch, t, phrases, rows, corners))
        return outputs

    def settings(self) -> dict:
        """All constructor arguments that matter to the output, and which weights they are."""
        return {
            "backend": self.backend,
            **self.checkpoint.settings(),
            "min_score": self.min_score,
            "max_objects": self.max_objects,
            "max_overlap": self.max_overlap,
            "max_phrases": self.max_phrases,
        }

    @abstractmethod
    def _look(
        self, model: Loaded, images: Sequence[np.ndarray], phrases: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Candidates of images of one size.

        Returns:
            scores float [T, q, phrases], 0–1; corners (x0, y0, x1, y1) float [T, q, 4] in pixels, some outside.
        """

    def _observations(
        self, batch: FrameBatch, t: int, phrases: Sequence[str], scores: np.ndarray, corners: np.ndarray
    ) -> list[Observation]:
        height, width = batch.images.shape[1:3]
        inside = np.clip(corners, 0, [width, height, width, height])
        found = [
            (phrases[best], round(float(row[best]), 4), tuple(round(float(v), 2) for v in box))
            for row, box in zip(scores, inside, strict=True)
            for best in (int(row.argmax()),)
            if row[best] >= self.min_score and min(box[2] - box[0], box[3] - box[1]) >= _LEAST_PX
        ]
        found.sort(key=lambda item: (-item[1], item[0], item[2]))
        return [
            Observation(
                batch.indices[t],
                batch.times[t],
                "object",
                label,
                score,
                as_shares(box, width, height),
                cut_sides(box, width, height),
            )
            for label, score, box in distinct(found, self.max_overlap)[: self.max_objects]
        ]


def distinct(found: Sequence[tuple[str, float, Box]], max_overlap: float) -> list[tuple[str, float, Box]]:
    """(label, score, box), best first, without those that overlap a better one of their label by more than a share."""
    from trustvid.tools.vision.colour import overlap_share

    kept: list[tuple[str, float, Box]] = []
    for label, score, box in found:
        if all(label != other or overlap_share(box, better) <= max_overlap for other, _, better in kept):
            kept.append((label, score, box))
    return kept


def corners_of(boxes: np.ndarray, width: float, height: float) -> np.ndarray:
    """Boxes (middle x, middle y, width, height) as shares [..., 4] as corners (x0, y0, x1, y1) in pixels."""
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    return np.concatenate([middle - half, middle + half], axis=-1) * np.array([width, height, width, height])
