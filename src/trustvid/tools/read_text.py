"""read_text: words in a frame, from the embedded vision's proposals and the recognition model of rapidocr."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from trustvid.errors import ConfigError
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.summary import when_seen

if TYPE_CHECKING:
    import numpy as np

_MODES = ("auto", "proposals", "full")
_LISTED_WORDS = 12


class ReadText:
    """Reads signs, captions and other text. It knows no lexicon: a label is what the recogniser saw.

    Observations: kind "text", label as read (case kept), score = mean probability of the characters, box = extent of
    the crop, values {"clipped": 1.0} when that touches the frame's border (the word may go on outside).

    Args:
        mode: "proposals" reads bright plates and rows of character-like shapes; "full" runs the text detection network
            on every frame; "auto" reads plates, and runs the network only on frames with character-like shapes outside
            them. The choice looks at the frame's own pixels alone.
        min_score: readings below are dropped, 0–1.
        min_proportion: least width / height of a crop; narrower ones, words seen at an angle, are drawn out to it.
        detection_side: longest side in pixels the detection network sees.
        threads: of the recognition runtime.
    """

    name = "read_text"
    cost = 0.25  # paper Table 17
    version = "1"
    span = "frame"
    reads_query = False

    def __init__(
        self,
        mode: Literal["auto", "proposals", "full"] = "auto",
        min_score: float = 0.5,
        min_proportion: float = 1.8,
        detection_side: int = 640,
        threads: int = 1,
    ):
        faults = []
        if mode not in _MODES:
            faults.append(f"read_text.mode={mode!r}: expected one of {', '.join(_MODES)}")
        if not 0 <= min_score <= 1:
            faults.append(f"read_text.min_score={min_score!r}: expected 0–1")
        if not min_proportion > 0:
            faults.append(f"read_text.min_proportion={min_proportion!r}: expected a positive ratio")
        if detection_side < 320:
            faults.append(f"read_text.detection_side={detection_side!r}: expected at least 320 pixels")
        if threads < 1:
            faults.append(f"read_text.threads={threads!r}: expected at least 1")
        if faults:
            raise ConfigError(faults)
        self.mode = mode
        self.min_score = float(min_score)
        self.min_proportion = float(min_proportion)
        self.detection_side = int(detection_side)
        self.threads = int(threads)

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """The words of each frame of the batch."""
        from trustvid.tools.ocr import ppocr
        from trustvid.tools.vision.plates import rectify

        quads = [self._quads(image) for image in batch.images]
        crops = [
            rectify(image, quad, ppocr.CROP_HEIGHT, self.min_proportion)
            for image, found in zip(batch.images, quads, strict=True)
            for quad in found
        ]
        readings = iter(ppocr.recogniser(self.threads).read(crops) if crops else ())
        outputs = []
        for t, found in enumerate(quads):
            seen = [self._observation(batch, t, quad, *next(readings)) for quad in found]
            outputs.append([one for one in seen if one is not None])
        return outputs

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """The words by first sight, and the mean score of all readings."""
        if not observations:
            return "no text found", 0.0
        sightings: dict[str, list[Observation]] = {}
        for seen in observations:
            sightings.setdefault(seen.label, []).append(seen)
        ranked = sorted(sightings.items(), key=lambda item: (-len(item[1]), item[0]))[:_LISTED_WORDS]
        parts = [f'"{word}" ({when_seen(seen)})' for word, seen in sorted(ranked, key=lambda item: item[1][0].time)]
        if len(sightings) > len(parts):
            parts.append(f"{len(sightings) - len(parts)} more")
        return "text: " + "; ".join(parts), sum(seen.score for seen in observations) / len(observations)

    def settings(self) -> dict:
        """All constructor arguments that matter to the output, and the release the models come from."""
        from trustvid.tools.ocr.release import rapidocr_release

        return {
            "backend": "rapidocr",
            "release": rapidocr_release(),
            "mode": self.mode,
            "min_score": self.min_score,
            "min_proportion": self.min_proportion,
            "detection_side": self.detection_side,
        }

    def _quads(self, image: np.ndarray) -> list[np.ndarray]:
        """Quadrilaterals [4, 2] in pixels that are worth reading."""
        from trustvid.tools.ocr import ppocr
        from trustvid.tools.vision.plates import find_plates, overlaps
        from trustvid.tools.vision.scene_text import quad_of_box, text_lines

        if self.mode == "full":
            return ppocr.detector(self.detection_side, self.threads).find(image)
        quads = [plate.quad for plate in find_plates(image)]
        lines = [quad_of_box(box) for box in text_lines(image, quads)]
        if lines and self.mode == "auto":
            lines = ppocr.detector(self.detection_side, self.threads).find(image)
        return quads + [line for line in lines if not any(overlaps(line, quad) for quad in quads)]

    def _observation(self, batch: FrameBatch, t: int, quad: np.ndarray, text: str, score: float) -> Observation | None:
        label = " ".join(text.split())
        if not label or score < self.min_score:
            return None
        height, width = batch.images.shape[1:3]
        (x0, y0), (x1, y1) = quad.min(axis=0), quad.max(axis=0)
        clipped = x0 <= 1 or y0 <= 1 or x1 >= width - 1 or y1 >= height - 1
        box = (
            max(0.0, float(x0) / width),
            max(0.0, float(y0) / height),
            min(1.0, float(x1) / width),
            min(1.0, float(y1) / height),
        )
        return Observation(
            frame=batch.indices[t],
            time=batch.times[t],
            kind="text",
            label=label,
            score=round(float(score), 4),
            box=tuple(round(v, 5) for v in box),
            values={"clipped": 1.0} if clipped else {},
        )
