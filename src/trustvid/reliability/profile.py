"""Frame-reliability estimators: what a method believes about each frame before it looks for an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from trustvid.reliability.calibration import Calibration, load_calibration
from trustvid.reliability.channels import PaperChannels, min_max
from trustvid.reliability.measures import Measurer, measure_clip
from trustvid.reliability.ramps import CHANNELS, RAMPS, absolute_ramps, relative_ramps
from trustvid.video.sampling import uniform_indices
from trustvid.video.source import FrameSource

# Below this mean of every raw channel the selected frames count as clean (the released code's constant).
CLEAN_EPS = 0.15
# The same for harm ramps. Clean clips of BoxWorld have 0.00, of real footage up to 0.02 (0.18 where the camera really
# blurs). Corrupted frames have 0.10 and more in their own: blur from severity 1, low light from 3, the others from 2.
HARMLESS = 0.05
SEEING_TOOLS = ("read_text", "detect_objects")  # what a frame must be good for: every landmark question needs both


@dataclass(frozen=True)
class Profile:
    """What is known of the profiled frames.

    Attributes:
        indices: [n] source indices, rising.
        disturbance: [n] d in [0, 1] (Eq. 2, or the strongest harm ramp); None when the method knows nothing of
            reliability.
        raw: [n] raw channels by name, each in [0, 1]; empty when unknown.
        ramps: [n, 10] in [0, 1], columns as in ``RAMPS``; None for methods without.
        yields: [n] P(the tool reports what is there to see) by tool, in (0, 1); empty without a calibration.
    """

    indices: tuple[int, ...]
    disturbance: np.ndarray | None
    raw: dict[str, np.ndarray] = field(default_factory=dict)
    ramps: np.ndarray | None = None
    yields: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def reliability(self) -> np.ndarray:
        """[n] frame reliability in [0, 1].

        P(both reading and detecting succeed) where that is calibrated, else 1 − d; ones when nothing is known.
        """
        known = [self.yields[tool] for tool in SEEING_TOOLS if tool in self.yields]
        if known:
            return np.prod(known, axis=0)
        return np.ones(len(self.indices)) if self.disturbance is None else 1.0 - self.disturbance

    def reliability_of(self, frames: Sequence[int]) -> tuple[float, ...]:
        """Reliability of the given frames (nearest profiled frame)."""
        return tuple(float(r) for r in self.reliability[self._nearest(frames)]) if len(frames) else ()

    def disturbance_of(self, frames: Sequence[int]) -> tuple[float, ...]:
        """d of the given frames (nearest profiled frame); empty when nothing is known."""
        if self.disturbance is None or not len(frames):
            return ()
        return tuple(float(d) for d in self.disturbance[self._nearest(frames)])

    def ramps_at(self, frames: Sequence[int]) -> np.ndarray:
        """[len(frames), 10] ramps of the given frames (nearest profiled frame).

        Raises:
            ValueError: this method has no ramps.
        """
        if self.ramps is None:
            raise ValueError("this profile has no ramps; expected one of reliability=absolute, relative or oracle")
        return self.ramps[self._nearest(frames)]

    def mean_raw(self, frames: Sequence[int]) -> dict[str, float]:
        """Mean raw channels over the given frames (nearest profiled frame): the routing profile."""
        if not len(frames):
            return {}
        positions = self._nearest(frames)
        return {name: float(values[positions].mean()) for name, values in self.raw.items()}

    def dominant(self, frames: Sequence[int]) -> str:
        """Dominant disturbance of the given frames: a channel's name, or "clean".

        Of the paper's channels it is the largest, a column of Table 18. With ramps it is the channel that harms most:
        a frame may visibly be noisier than usual and yet suffer from darkness alone.
        """
        if self.ramps is not None and len(frames):
            harm = self.ramps_at(frames)[:, 1::2].mean(axis=0)
            return CHANNELS[int(harm.argmax())] if harm.max() >= HARMLESS else "clean"
        means = self.mean_raw(frames)
        if not means or max(means.values()) < CLEAN_EPS:
            return "clean"
        return max(means, key=lambda name: means[name])

    def _nearest(self, frames: Sequence[int]) -> np.ndarray:
        wanted = np.asarray(frames, dtype=np.int64)
        return np.abs(np.asarray(self.indices)[None, :] - wanted[:, None]).argmin(axis=1)


class Off:
    """No reliability: every frame counts the same. The estimator of ``blind``."""

    name = "off"

    def __init__(self, max_frames: int = 64):
        self.max_frames = max_frames

    def profile(self, clip: FrameSource, measure: Measurer = measure_clip) -> Profile:
        """Uniform, end-inclusive frame indices and nothing about them; measures nothing."""
        return Profile(tuple(uniform_indices(clip.n_frames, self.max_frames)), None)


class Paper:
    """d(f) of Eq. 2: the mean of the three channels of Eqs. 11–13, each min–max normalised over the video."""

    name = "paper"

    def __init__(self, max_frames: int = 64):
        self.max_frames = max_frames

    def profile(self, clip: FrameSource, measure: Measurer = measure_clip) -> Profile:
        """Profile ≤ ``max_frames`` frames, uniform and end-inclusive."""
        indices = uniform_indices(clip.n_frames, self.max_frames)
        columns = measure(clip, indices).T[: len(PaperChannels._fields)]  # the first measures are the paper's channels
        raw = dict(zip(PaperChannels._fields, columns, strict=True))
        disturbance = np.mean([min_max(values) for values in raw.values()], axis=0)
        return Profile(tuple(indices), disturbance, raw)


class _Ramped:
    """What ``Absolute`` and ``Relative`` share: measures → ramps → yields.

    Args:
        max_frames: frames that are profiled, uniform and end-inclusive.
        calibration: name or path of a calibration; null for none, frame reliability is then 1 − d.

    Raises:
        DataError: there is no such calibration, or it is broken.
    """

    channels: Literal["absolute", "relative"]

    def __init__(self, max_frames: int = 64, calibration: str | None = "boxworld"):
        self.max_frames = max_frames
        self.calibration = None if calibration is None else load_calibration(calibration, self.channels)

    def profile(self, clip: FrameSource, measure: Measurer = measure_clip) -> Profile:
        """Profile ≤ ``max_frames`` frames: d is the strongest harm ramp, ``raw`` the first ramp of each channel."""
        ramps_of = absolute_ramps if self.channels == "absolute" else relative_ramps
        return _profile(clip, self.max_frames, measure, ramps_of, self.calibration)


class Absolute(_Ramped):
    """Channels by fixed constants, and the yield of each tool that a calibration ties to them; arguments as above."""

    name = "absolute"
    channels = "absolute"


class Relative(_Ramped):
    """As ``Absolute``, but with glare, blur and occlusion seen against the rest of the clip: for real footage."""

    name = "relative"
    channels = "relative"


class Oracle:
    """A yardstick, no method: it is told which frames a corruption touched. Reliability is 1 − touched.

    No upper bound: it rejects harmless touched frames too. Channels, for routing, are those of ``Relative``.
    """

    name = "oracle"
    channels = "relative"

    def __init__(self, max_frames: int = 64):
        self.max_frames = max_frames

    def profile(self, clip: FrameSource, measure: Measurer = measure_clip) -> Profile:
        """Profile ≤ ``max_frames`` frames; a clip that no corruption lies over is reliable throughout."""
        measured = _profile(clip, self.max_frames, measure, relative_ramps, None)
        touched = _touched(clip)[list(measured.indices)]
        return Profile(measured.indices, touched.astype(np.float64), measured.raw, measured.ramps)


def _profile(
    clip: FrameSource,
    max_frames: int,
    measure: Measurer,
    ramps_of: Callable[[np.ndarray], np.ndarray],
    calibration: Calibration | None,
) -> Profile:
    """Measure, channel by channel, and predict each tool's yield."""
    indices = uniform_indices(clip.n_frames, max_frames)
    ramps = ramps_of(measure(clip, indices))
    features = dict(zip(RAMPS, ramps.T, strict=True))
    tools = {} if calibration is None else calibration.tools
    yields = {name: tool.yield_model.predict(features) for name, tool in tools.items()}
    raw = {channel: features[f"{channel}1"] for channel in CHANNELS}
    return Profile(tuple(indices), ramps[:, 1::2].max(axis=1), raw, ramps, yields)


def _touched(clip: FrameSource) -> np.ndarray:
    """bool [n_frames]: frames that some corruption changed; corruptions can lie over each other."""
    touched = np.zeros(clip.n_frames, dtype=bool)
    while hasattr(clip, "touched"):
        touched |= clip.touched
        clip = clip.source
    return touched
