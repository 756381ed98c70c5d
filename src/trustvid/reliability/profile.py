"""Frame-reliability estimators: what a method believes about each frame before it looks for an answer."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trustvid.reliability.channels import PaperChannels, min_max, paper_channels
from trustvid.video.sampling import uniform_indices
from trustvid.video.source import FrameSource

DISTURBANCES = ("blur", "brightness", "occlusion")
CLEAN_EPS = (
    0.15  # below this mean of every raw channel the selected frames count as clean (the released code's constant)
)


@dataclass(frozen=True)
class Profile:
    """What is known of the profiled frames.

    Attributes:
        indices: [n] source indices, rising.
        disturbance: [n] d in [0, 1] (Eq. 2); None when the method knows nothing of reliability.
        raw: [n] raw channels by name, each in [0, 1]; empty when unknown.
    """

    indices: tuple[int, ...]
    disturbance: np.ndarray | None
    raw: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def reliability(self) -> np.ndarray:
        """[n] frame reliability 1 − d; ones when nothing is known."""
        return np.ones(len(self.indices)) if self.disturbance is None else 1.0 - self.disturbance

    def disturbance_of(self, frames: tuple[int, ...]) -> tuple[float, ...]:
        """d of the given frames (nearest profiled frame); empty when nothing is known."""
        if self.disturbance is None or not frames:
            return ()
        positions = np.abs(np.asarray(self.indices)[None, :] - np.asarray(frames)[:, None]).argmin(axis=1)
        return tuple(float(self.disturbance[p]) for p in positions)

    def mean_raw(self, frames: tuple[int, ...]) -> dict[str, float]:
        """Mean raw channels over the given frames: the routing profile."""
        positions = [self.indices.index(f) for f in frames if f in self.indices]
        return {name: float(values[positions].mean()) for name, values in self.raw.items()} if positions else {}

    def dominant(self, frames: tuple[int, ...]) -> str:
        """Dominant disturbance of the given frames: a column of Table 18: a channel's name, or "clean"."""
        means = self.mean_raw(frames)
        if not means or max(means.values()) < CLEAN_EPS:
            return "clean"
        return max(means, key=lambda name: means[name])


class Off:
    """No reliability: every frame counts the same. The estimator of ``blind``."""

    name = "off"

    def __init__(self, max_frames: int = 64):
        self.max_frames = max_frames

    def profile(self, clip: FrameSource) -> Profile:
        """Uniform, end-inclusive frame indices and nothing about them; decodes nothing."""
        return Profile(tuple(uniform_indices(clip.n_frames, self.max_frames)), None)


class Paper:
    """d(f) of Eq. 2: the mean of the three channels of Eqs. 11–13, each min–max normalised over the video."""

    name = "paper"

    def __init__(self, max_frames: int = 64):
        self.max_frames = max_frames

    def profile(self, clip: FrameSource) -> Profile:
        """Profile ≤ ``max_frames`` frames, uniform and end-inclusive. Decodes frame by frame: memory stays flat."""
        indices = uniform_indices(clip.n_frames, self.max_frames)
        rows = [paper_channels(clip.frames([index])[0]) for index in indices]
        raw = dict(zip(PaperChannels._fields, np.asarray(rows, dtype=np.float64).T, strict=True))
        disturbance = np.mean([min_max(values) for values in raw.values()], axis=0)
        return Profile(tuple(indices), disturbance, raw)
