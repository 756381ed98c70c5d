"""The PP-OCR models that the rapidocr package carries, run by onnxruntime.

rapidocr's own pipeline is not used: it enlarges every frame to 736 pixels and pads each batch to its widest crop, so
that a word's score depends on the crops it shares a batch with. Here a crop's reading depends on its own pixels alone,
which a cache per frame needs.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np

from trustvid.errors import TrustvidError

CROP_HEIGHT = 48
_WIDTH_STEP = 16
_MIN_WIDTH, _MAX_WIDTH = 32, 640
_BATCH = 16
_MIN_SIDE = 320  # smaller frames are enlarged for the detector


class Reading(NamedTuple):
    """A recognised line: its text (maybe empty) and the mean probability of its characters, 0–1."""

    text: str
    score: float


class TextRecogniser:
    """Reads single-line crops. One thread; safe to share between threads."""

    def __init__(self, threads: int = 1):
        self._session = _session("rec", threads)
        self._input = self._session.get_inputs()[0].name
        characters = self._session.get_modelmeta().custom_metadata_map["character"].splitlines()
        self._characters = ["", *characters, " "]  # class 0 is the blank of CTC

    def read(self, crops: Sequence[np.ndarray]) -> list[Reading]:
        """Readings of uint8 RGB crops [h, w, 3] of any size, in their order. Equal crops are computed once."""
        prepared = [_prepare(crop) for crop in crops]
        contents = [(crop.shape, crop.tobytes()) for crop in prepared]
        by_width: dict[int, list[int]] = {}
        first: dict[tuple, int] = {}
        for i, content in enumerate(contents):
            if first.setdefault(content, i) == i:
                by_width.setdefault(prepared[i].shape[2], []).append(i)
        readings: dict[int, Reading] = {}
        for members in by_width.values():
            for start in range(0, len(members), _BATCH):
                part = members[start : start + _BATCH]
                output = self._session.run(None, {self._input: np.stack([prepared[i] for i in part])})[0]
                readings.update(zip(part, map(self._decode, output), strict=True))
        return [readings[first[content]] for content in contents]

    def _decode(self, probabilities: np.ndarray) -> Reading:
        """Greedy CTC decoding of [steps, classes]: repeats collapse, blanks go."""
        best = probabilities.argmax(axis=1)
        kept = (best != 0) & np.concatenate([[True], best[1:] != best[:-1]])
        if not kept.any():
            return Reading("", 0.0)
        text = "".join(self._characters[k] for k in best[kept])
        return Reading(text, float(probabilities[kept, best[kept]].mean()))


class TextDetector:
    """Finds lines of text anywhere in a frame (differentiable binarisation). One thread; safe to share.

    Args:
        max_side: longer sides than this are scaled down before the network sees them; costs grow with its square.
    """

    def __init__(self, max_side: int, threads: int = 1):
        self._session = _session("det", threads)
        self._input = self._session.get_inputs()[0].name
        self._max_side = max_side

    def find(self, image: np.ndarray) -> list[np.ndarray]:
        """Quadrilaterals [4, 2] (pixels; top left, top right, bottom right, bottom left) of a uint8 RGB frame."""
        height, width = image.shape[:2]
        scale = float(np.clip(max(height, width), _MIN_SIDE, self._max_side)) / max(height, width)
        size = (_to_32(width * scale), _to_32(height * scale))
        resized = cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
        output = self._session.run(None, {self._input: _normalise(resized)[None]})[0]
        return [quad * (width / size[0], height / size[1]) for quad in quads_of_map(output[0, 0])]


def quads_of_map(
    heat: np.ndarray, threshold: float = 0.3, box_threshold: float = 0.5, unclip: float = 1.6, min_side: float = 4
) -> list[np.ndarray]:
    """Rotated boxes around the blobs of a text map [H, W] in 0–1.

    The network is trained on text shrunk by an offset; each box is grown back by ``unclip`` · area / perimeter.
    """
    mask = (heat > threshold).astype(np.uint8)
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    quads = []
    for contour in contours:
        centre, (w, h), angle = cv2.minAreaRect(contour)
        if min(w, h) < min_side / 2:
            continue
        inside = np.zeros_like(mask)
        cv2.drawContours(inside, [contour], -1, 1, cv2.FILLED)
        if cv2.mean(heat, inside)[0] < box_threshold:
            continue
        offset = 2 * unclip * (w * h) / (2 * (w + h))
        grown = (centre, (w + offset, h + offset), angle)
        if min(grown[1]) >= min_side:
            quads.append(ordered_quad(cv2.boxPoints(grown)))
    return sorted(quads, key=lambda quad: (round(float(quad[0, 1])), round(float(quad[0, 0]))))


def ordered_quad(points: np.ndarray) -> np.ndarray:
    """Four points [4, 2] as top left, top right, bottom right, bottom left, for a line that runs mostly rightwards."""
    by_x = points[np.argsort(points[:, 0], kind="stable")]
    left, right = by_x[:2], by_x[2:]
    top_left, bottom_left = left[np.argsort(left[:, 1], kind="stable")]
    top_right, bottom_right = right[np.argsort(right[:, 1], kind="stable")]
    return np.stack([top_left, top_right, bottom_right, bottom_left]).astype(np.float32)


@lru_cache(maxsize=2)
def recogniser(threads: int = 1) -> TextRecogniser:
    """The recogniser of this process."""
    return TextRecogniser(threads)


@lru_cache(maxsize=2)
def detector(max_side: int, threads: int = 1) -> TextDetector:
    """The detector of this process."""
    return TextDetector(max_side, threads)


def _prepare(crop: np.ndarray) -> np.ndarray:
    """Network input float32 [3, 48, W], W a multiple of 16: stretched a little rather than padded."""
    height, width = crop.shape[:2]
    wanted = width * CROP_HEIGHT / height
    target = int(np.clip(round(wanted / _WIDTH_STEP) * _WIDTH_STEP, _MIN_WIDTH, _MAX_WIDTH))
    if (height, width) != (CROP_HEIGHT, target):
        crop = cv2.resize(crop, (target, CROP_HEIGHT), interpolation=cv2.INTER_LINEAR)
    return _normalise(crop)


def _normalise(image: np.ndarray) -> np.ndarray:
    """uint8 RGB [h, w, 3] → float32 BGR [3, h, w] in -1…1, as the models were trained."""
    return np.ascontiguousarray(image[..., ::-1].transpose(2, 0, 1), dtype=np.float32) / 127.5 - 1.0


def _to_32(length: float) -> int:
    return max(32, round(length / 32) * 32)


def _session(kind: str, threads: int):
    """An onnxruntime session of the packaged "det" or "rec" model."""
    try:
        import onnxruntime
    except ImportError as error:
        raise TrustvidError("read_text needs onnxruntime: pip install onnxruntime rapidocr") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(model_path(kind)), options, providers=["CPUExecutionProvider"])


def model_path(kind: str) -> Path:
    """The packaged model file of ``kind`` ("det" or "rec").

    Raises:
        TrustvidError: rapidocr is not installed, or carries no such model.
    """
    spec = importlib.util.find_spec("rapidocr")
    if spec is None or spec.origin is None:
        raise TrustvidError("read_text needs the models of the rapidocr package: pip install rapidocr onnxruntime")
    folder = Path(spec.origin).parent / "models"
    found = sorted(folder.glob(f"*_{kind}_*.onnx"))
    if not found:
        there = ", ".join(sorted(path.name for path in folder.glob("*.onnx"))) or "no model"
        wanted = f"rapidocr carries no '{kind}' model in {folder} (found: {there})"
        raise TrustvidError(f"{wanted}: pip install 'rapidocr>=3.10'")
    return found[-1]
