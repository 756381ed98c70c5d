"""Low light: too few photons, then a camera that lifts what is left, noise and all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trustvid.corruption.base import Corruption, State, check_share, severity_table
from trustvid.corruption.drift import seconds, wander
from trustvid.corruption.sensor import add_noise, draw_key, frame_noise

_GAMMA = 2.2


@dataclass(frozen=True)
class LowLight(Corruption):
    """Light is cut in linear space, photon and read noise are added there, then the display gamma and a coarser step.

    With x the linear light of a pixel: ``y = x · cast · 2^(−stops)``, noise variance ``read² + photons · y``, carried
    through the gamma curve to first order.

    Args:
        stops: how much darker, in stops (each halves the light), per severity.
        read: read noise, share of the sensor's full scale.
        photons: variance per unit of light (one over the full-well count).
        cast: how far red and blue stray from green, share 0–0.3: the white balance fails in the dark.
        breath: how far the gain wanders over time, in stops 0–0.3.

    Raises:
        ValueError: a setting is out of its range.
    """

    name: ClassVar[str] = "low_light"
    version: ClassVar[int] = 1

    stops: Sequence[float] = (2.0, 3.8, 5.6, 6.9, 7.9)
    read: float = 0.006
    photons: float = 0.005
    cast: float = 0.12
    breath: float = 0.12

    def __post_init__(self) -> None:
        object.__setattr__(self, "stops", severity_table("low_light.stops", self.stops, below=12.0))
        object.__setattr__(self, "read", check_share("low_light.read", self.read, most=0.1))
        object.__setattr__(self, "photons", check_share("low_light.photons", self.photons, most=0.1))
        object.__setattr__(self, "cast", check_share("low_light.cast", self.cast, most=0.3))
        object.__setattr__(self, "breath", check_share("low_light.breath", self.breath, most=0.3))

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``gain`` [n_frames, 3], linear, per channel; ``key`` [1] of the noise; ``step`` [1], output levels."""
        breath = self.breath * wander(rng, seconds(n_frames, fps), period_s=3.0)[0]
        tint = self.cast * severity / 5 * rng.uniform(0.5, 1.0) * np.array([-1.0, 0.0, 1.0])
        tint *= rng.choice([-1.0, 1.0])  # bluish dusk or a reddish lamp
        gain = 2.0 ** (breath - self.stops[severity - 1])
        return {
            "gain": gain[:, None] * (1 + tint)[None, :],
            "key": draw_key(rng),
            "step": np.array([1 + severity // 2]),
        }

    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply`."""
        import cv2

        level, sigma = self._tables(state["gain"][index])
        noise = frame_noise(frame.shape, state["key"], index)
        dark = add_noise(cv2.LUT(frame, level), cv2.LUT(frame, sigma), noise)
        return cv2.LUT(dark, _coarse(int(state["step"][0])))

    def _tables(self, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the output, 8-bit levels, for each input level: two float32 [1, 256, 3]."""
        light = _LINEAR[:, None] * gain[None, :]
        level = 255 * light ** (1 / _GAMMA)
        # First-order slope of the gamma curve, from the read noise on: nothing below it is resolved.
        slope = 255 / _GAMMA * (light + self.read + 1e-9) ** (1 / _GAMMA - 1)
        sigma = slope * np.sqrt(self.read**2 + self.photons * light)
        return level[None].astype(np.float32), sigma[None].astype(np.float32)


def _coarse(step: int) -> np.ndarray:
    """A table that rounds 8-bit levels to multiples of ``step``, uint8 [256]."""
    return np.minimum((np.arange(256) + step // 2) // step * step, 255).astype(np.uint8)


_LINEAR = (np.arange(256) / 255) ** _GAMMA
