"""caption_frame, embedded: a factual sentence from what is written in the frames, and what it is written on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trustvid.errors import ConfigError
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.vision.boxes import as_shares, cut_sides

if TYPE_CHECKING:
    import numpy as np

_TOLD_THINGS = 8  # in the sentence
_SAME_THING = 0.5  # IoU of two boxes of one label, found from two of its words
# Horizontal thirds of the frame, by the centre of the box.
_LEFT_END, _RIGHT_START = 1 / 3, 2 / 3


class CaptionFrame:
    """Tells what stands in the frames: words, and the coloured things that carry them.

    The text detection network looks at the whole frame, brightened and smoothed as it needs; the thing under a word is
    grown outwards from the word, from a colour estimate of its own. So it works in weak and cast colours and never
    reports coloured things that carry no word (blobs in front of the lens, say), and it says nothing where words cannot
    be read (motion blur): the opposite of detect_objects, which needs vivid colours and no words.

    Observations: kind "text", label as read, score = mean probability of its characters, box = extent of the word;
    kind "object", label "<colour> box" (the eight colours of detect_objects), score = that of the reading × share of
    coloured surroundings that agree on the colour, box = extent of the whole thing. Values of both: ``clipped`` and
    ``clipped_left``, ``_top``, ``_right``, ``_bottom`` (1.0) where the frame's border cuts the box off.

    Args:
        min_score: readings below are dropped, 0–1.
        min_characters: shorter readings are dropped; single characters are mostly windows and the like.
        min_proportion: least width / height of a crop; narrower ones, words seen at an angle, are drawn out to it.
        detection_side: longest side in pixels the detection network sees.
        threads: of the recognition runtime.
    """

    name = "caption_frame"
    cost = 0.30  # paper Table 17
    version = "1"
    span = "frame"
    reads_query = False

    def __init__(
        self,
        min_score: float = 0.6,
        min_characters: int = 2,
        min_proportion: float = 1.8,
        detection_side: int = 640,
        threads: int = 1,
    ):
        faults = []
        if not 0 <= min_score <= 1:
            faults.append(f"caption_frame.min_score={min_score!r}: expected 0–1")
        if min_characters < 1:
            faults.append(f"caption_frame.min_characters={min_characters!r}: expected at least 1")
        if not min_proportion > 0:
            faults.append(f"caption_frame.min_proportion={min_proportion!r}: expected a positive ratio")
        if detection_side < 320:
            faults.append(f"caption_frame.detection_side={detection_side!r}: expected at least 320 pixels")
        if threads < 1:
            faults.append(f"caption_frame.threads={threads!r}: expected at least 1")
        if faults:
            raise ConfigError(faults)
        self.min_score = float(min_score)
        self.min_characters = int(min_characters)
        self.min_proportion = float(min_proportion)
        self.detection_side = int(detection_side)
        self.threads = int(threads)

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """The things and the words of each frame of the batch; crops of all frames are recognised together."""
        from trustvid.tools.ocr import ppocr
        from trustvid.tools.vision.denoise import lit
        from trustvid.tools.vision.plates import rectify

        pictures = [lit(image) for image in batch.images]
        finder = ppocr.detector(self.detection_side, self.threads)
        quads = [finder.find(picture) for picture in pictures]
        crops = [
            rectify(picture, quad, ppocr.CROP_HEIGHT, self.min_proportion)
            for picture, found in zip(pictures, quads, strict=True)
            for quad in found
        ]
        readings = iter(ppocr.recogniser(self.threads).read(crops) if crops else ())
        outputs = []
        for t, found in enumerate(quads):
            words_here = [(quad, " ".join(text.split()), score) for quad in found for text, score in (next(readings),)]
            kept = [word for word in words_here if word[2] >= self.min_score and len(word[1]) >= self.min_characters]
            outputs.append(_observations(batch, t, kept))
        return outputs

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """Things with their words, where and when; c_intrinsic is the mean score of all that the sentence rests on."""
        if not observations:
            return "nothing that can be described", 0.0
        groups: dict[tuple[str, str], list[Observation]] = {}
        for thing, word in _carried(observations):
            one = thing or word
            name = thing.label if thing else ""
            groups.setdefault((name, word.label if word else ""), []).append(one)
        ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))[:_TOLD_THINGS]
        told = sorted(ranked, key=lambda item: (item[1][0].time, item[0]))
        parts = [_phrase(thing, word, seen) for (thing, word), seen in told]
        if len(groups) > len(parts):
            parts.append(f"{len(groups) - len(parts)} more")
        return "; ".join(parts), sum(seen.score for seen in observations) / len(observations)

    def settings(self) -> dict:
        """All constructor arguments that matter to the output, and the release the models come from."""
        from trustvid.tools.ocr.release import rapidocr_release

        return {
            "backend": "embedded",
            "release": rapidocr_release(),
            "min_score": self.min_score,
            "min_characters": self.min_characters,
            "min_proportion": self.min_proportion,
            "detection_side": self.detection_side,
        }


def _observations(batch: FrameBatch, t: int, found: Sequence[tuple[np.ndarray, str, float]]) -> list[Observation]:
    """The words (quad [4, 2] in pixels, text, score) of frame ``t`` and the things under them, best things first."""
    from trustvid.tools.vision.colour import overlap_share
    from trustvid.tools.vision.surface import SurfaceFinder

    if not found:
        return []
    image = batch.images[t]
    height, width = image.shape[:2]

    def observation(kind: str, label: str, score: float, box: tuple) -> Observation:
        shares, cut = as_shares(box, width, height), cut_sides(box, width, height)
        return Observation(batch.indices[t], batch.times[t], kind, label, round(float(score), 4), shares, cut)

    surfaces = SurfaceFinder(image)
    texts, things = [], []
    for quad, text, score in found:
        extent = tuple(float(v) for v in (*quad.min(axis=0), *quad.max(axis=0)))
        texts.append(observation("text", text, score, extent))
        surface = surfaces.find(quad)
        if surface is not None:
            things.append(observation("object", f"{surface.colour} box", score * surface.agreement, surface.box))
    things.sort(key=lambda thing: (-thing.score, thing.label, thing.box))
    distinct: list[Observation] = []
    for thing in things:
        if all(thing.label != o.label or overlap_share(thing.box, o.box) < _SAME_THING for o in distinct):
            distinct.append(thing)
    return distinct + texts


def _carried(observations: Sequence[Observation]) -> list[tuple[Observation | None, Observation | None]]:
    """(thing, word on it) of each frame; a word on nothing has no thing, a thing whose word went has no word."""
    by_frame: dict[int, list[Observation]] = {}
    for seen in observations:
        by_frame.setdefault(seen.frame, []).append(seen)
    pairs: list[tuple[Observation | None, Observation | None]] = []
    for _, seen in sorted(by_frame.items()):
        things = [one for one in seen if one.kind == "object"]
        bare = list(things)
        for word in (one for one in seen if one.kind == "text"):
            x, y = (word.box[0] + word.box[2]) / 2, (word.box[1] + word.box[3]) / 2
            holding = [o for o in things if o.box[0] <= x <= o.box[2] and o.box[1] <= y <= o.box[3]]
            thing = min(holding, key=_size, default=None)
            pairs.append((thing, word))
            bare = [one for one in bare if one is not thing]
        pairs += [(thing, None) for thing in bare]
    return pairs


def _size(seen: Observation) -> float:
    x0, y0, x1, y1 = seen.box
    return (x1 - x0) * (y1 - y0)


def _phrase(thing: str, word: str, seen: Sequence[Observation]) -> str:
    """ "a red box with the sign CAFE on the left (0.4–1.2 s)"."""
    if thing:
        article = "an" if thing[0] in "aeiou" else "a"
        what = f"{article} {thing}" + (f" with the sign {word}" if word else "")
    else:
        what = f"the word {word}"
    times = [one.time for one in seen]
    span = f"{times[0]:.1f} s" if min(times) == max(times) else f"{min(times):.1f}–{max(times):.1f} s"
    places = list(dict.fromkeys(_place(one) for one in sorted(seen, key=lambda one: one.time)))
    where = places[0] if len(places) == 1 else f"{places[0]}, then {places[-1]}"
    return f"{what} {where} ({span})"


def _place(seen: Observation) -> str:
    middle = (seen.box[0] + seen.box[2]) / 2
    return "on the left" if middle < _LEFT_END else "on the right" if middle > _RIGHT_START else "in the middle"
