"""What a method saw of a video: pictures of the frames it used, and its profile, made again from the run's config."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trustvid.benchmarks.sample import Sample
from trustvid.config.checking import build_stored
from trustvid.errors import TrustvidError
from trustvid.evaluation.runner import under
from trustvid.video.sampling import uniform_indices
from trustvid.video.source import FrameSource

QUALITY = 62  # of the JPEG pictures: shapes and damage are plain, 2–5 kB each


@dataclass
class Budget:
    """Bytes that may still go into a page.

    Attributes:
        left: bytes.
        refused: how often there was no room.
    """

    left: int
    refused: int = 0

    def take(self, size: int) -> bool:
        """Whether ``size`` bytes fit; they are then spent."""
        if size > self.left:
            self.refused += 1
            return False
        self.left -= size
        return True


@dataclass
class Gallery:
    """Pictures of a page, each kept once, within a budget.

    Attributes:
        height: pixels of a picture; its width follows.
        most: pictures of one answer; of more frames an even choice is shown.
        budget: of the whole page.
        pictures: JPEG files in base64, in the order of their numbers.
    """

    height: int
    most: int
    budget: Budget
    pictures: list[str] = field(default_factory=list)
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, clip: FrameSource, frames: Sequence[int]) -> list[dict[str, Any]]:
        """The pictures of some frames: [{"frame", "time", "picture" (its number; None: no room)}].

        Raises:
            VideoError: the clip cannot be decoded.
        """
        shown = [frames[i] for i in uniform_indices(len(frames), self.most)] if frames else []
        wanted = [frame for frame in shown if self._key(clip, frame) not in self._numbers]
        for frame, image in zip(wanted, clip.frames(wanted) if wanted else (), strict=True):
            text = _jpeg(image, self.height)
            if self.budget.take(len(text)):
                self._numbers[self._key(clip, frame)] = len(self.pictures)
                self.pictures.append(text)
        return [
            {
                "frame": frame,
                "time": round(float(clip.timestamps[frame]), 2),
                "picture": self._numbers.get(self._key(clip, frame)),
            }
            for frame in shown
        ]

    @staticmethod
    def _key(clip: FrameSource, frame: int) -> tuple[str, str]:
        return f"{clip.digest}/{frame}", clip.frame_key(frame)


def _jpeg(image: np.ndarray, height: int) -> str:
    from PIL import Image

    size = (max(1, round(image.shape[1] * height / image.shape[0])), height)
    out = io.BytesIO()
    Image.fromarray(image).resize(size, Image.Resampling.LANCZOS).save(out, "JPEG", quality=QUALITY, optimize=True)
    return base64.b64encode(out.getvalue()).decode("ascii")


class Viewer:
    """Opens clips under conditions as the run did, and profiles them as its methods did.

    Args:
        config: of the run.
        folder: the run's, for messages.

    Raises:
        DataError: the config names components that are not trustvid's.
        TrustvidError: weights of a learned estimator of reliability cannot be loaded.
    """

    def __init__(self, config: Mapping[str, Any], folder: Path):
        from trustvid.tools.assess_quality import AssessQuality, stored_measurer
        from trustvid.tools.cache import ToolCache
        from trustvid.tools.executor import Executor

        self.config = config
        self._reader = build_stored(config["reader"], folder)
        self._corruptions = {name: build_stored(node, folder) for name, node in config["corruption"].items()}
        self._estimators = {name: build_stored(node["reliability"], folder) for name, node in config["methods"].items()}
        for estimator in self._estimators.values():
            if hasattr(estimator, "load"):
                estimator.load()
        # The cache of the run, where it still lies: its frames were measured already.
        cache = ToolCache(Path(config["paths"]["cache"]) / "tools")
        executor = Executor({AssessQuality.name: AssessQuality()}, cache, config["tool_time_limit_s"])
        self._measure = stored_measurer(executor)
        self._clips: dict[tuple[str, str], FrameSource | str] = {}

    def clip(self, sample: Sample, condition: str) -> FrameSource | str:
        """The clip of a question under a condition, or why it cannot be opened."""
        key = str(sample.video), condition
        if key not in self._clips:
            if self._clips and next(iter(self._clips))[0] != key[0]:
                self._clips.clear()  # questions come video by video
            try:
                self._clips[key] = under(
                    self._reader.open(sample.video), condition, self._corruptions, self.config["seed"]
                )
            except TrustvidError as error:
                self._clips[key] = str(error)
        return self._clips[key]

    def strip(self, clip: FrameSource, method: str) -> dict[str, Any] | None:
        """The profile of a method, {"frames", "reliability"}; None when it measures no reliability.

        Raises:
            TrustvidError: the frames cannot be decoded or measured.
        """
        profile = self._estimators[method].profile(clip, self._measure)
        if profile.disturbance is None:
            return None
        reliability = [round(float(value), 3) for value in profile.reliability]
        return {"frames": list(map(int, profile.indices)), "reliability": reliability}
