"""assess_quality: what each frame's pixels say about its own quality. No model, no content: measures only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trustvid.errors import TrustvidError
from trustvid.reliability.measures import Measurer, Measures, measure_frame
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.executor import Executor
from trustvid.video.source import FrameSource

QUERY = SubQuery("How good are the frames?", "attribute")


class AssessQuality:
    """The measures of :mod:`trustvid.reliability.measures` as a tool, so that they are stored and shared like outputs
    of any other. Observations: kind "quality", one for each frame, score 1, values by the measures' names."""

    name = "assess_quality"
    cost = 0.10  # paper Table 17
    version = "2"
    span = "frame"
    reads_query = False

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """The measures of each frame of the batch."""
        return [
            [Observation(index, time, "quality", "measures", 1.0, None, measure_frame(image)._asdict())]
            for image, index, time in zip(batch.images, batch.indices, batch.times, strict=True)
        ]

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """How many frames were measured; measuring is certain (c_intrinsic 1, Table 17)."""
        return f"{len(observations)} frames measured", 1.0

    def settings(self) -> dict:
        """There is nothing to set."""
        return {}


def stored_measurer(executor: Executor) -> Measurer:
    """A measurer that goes through the executor's tool cache.

    The measurer raises:
        VideoError: the clip cannot be decoded.
        TrustvidError: the measures could not be had within the executor's time limit.
    """

    def measure(clip: FrameSource, indices: Sequence[int]) -> np.ndarray:
        evidence = executor.run(AssessQuality.name, QUERY, clip, indices)
        if evidence.error:
            raise TrustvidError(f"{clip.video_id}: frames could not be measured: {evidence.error.message}")
        by_frame = {seen.frame: [seen.values[name] for name in Measures._fields] for seen in evidence.observations}
        return np.array([by_frame[int(index)] for index in indices], dtype=np.float64)

    return measure
