"""recognize_action, embedded: what the camera does between frames, from optical flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trustvid.errors import ConfigError
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.motion import describe_motion, merge_motion, motion_faults

if TYPE_CHECKING:
    from trustvid.tools.vision.egomotion import StepMotion

# Rates are per second; steps without a usable duration count as this long.
_FALLBACK_STEP_S = 0.1


class RecognizeAction:
    """Ego-motion of each step of a dense window: turn left/right, forward/backward, up/down or still.

    Observations: kind "motion", label, score = forward-backward share × fit quality, values ``yaw_deg`` (positive to
    the right), ``pitch_deg`` (positive upwards), ``expansion`` (growth of image distances per step), ``end_frame``,
    ``end_time``. A step whose frames offer nothing to follow has no observation.

    Args:
        fov_deg: horizontal field of view of the camera.
        turn_deg_per_s: a rotation faster than this is a turn.
        tilt_deg_per_s: a pitch faster than this (and than the yaw) is "up" or "down".
        growth_per_s: an expansion faster than this is "forward" (shrinking: "backward").
        min_score: steps below are not told.
    """

    name = "recognize_action"
    cost = 0.60  # paper Table 17
    version = "1"
    span = "pair"
    reads_query = False

    def __init__(
        self,
        fov_deg: float = 90.0,
        turn_deg_per_s: float = 8.0,
        tilt_deg_per_s: float = 12.0,
        growth_per_s: float = 0.03,
        min_score: float = 0.05,
    ):
        faults = motion_faults("recognize_action", fov_deg, turn_deg_per_s, tilt_deg_per_s, growth_per_s)
        if faults:
            raise ConfigError(faults)
        self.fov_deg = float(fov_deg)
        self.turn_deg_per_s = float(turn_deg_per_s)
        self.tilt_deg_per_s = float(tilt_deg_per_s)
        self.growth_per_s = float(growth_per_s)
        self.min_score = float(min_score)

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """At most one observation for each step from one frame of the batch to the next."""
        from trustvid.tools.vision.egomotion import EgoMotion

        estimator = EgoMotion(*batch.images.shape[1:3], self.fov_deg)
        outputs = []
        for t, motion in enumerate(estimator.steps(batch.images)):
            seen = self._observation(batch, t, motion) if motion is not None else None
            outputs.append([seen] if seen is not None and seen.score >= self.min_score else [])
        return outputs

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """The segments of motion in words, and the mean score of the steps."""
        if not observations:
            return "no motion measurable", 0.0
        segments = merge_motion(observations)
        mean = sum(seen.score for seen in observations) / len(observations)
        return "camera: " + describe_motion(segments), mean

    def settings(self) -> dict:
        """All constructor arguments."""
        return {
            "backend": "embedded",
            "fov_deg": self.fov_deg,
            "turn_deg_per_s": self.turn_deg_per_s,
            "tilt_deg_per_s": self.tilt_deg_per_s,
            "growth_per_s": self.growth_per_s,
            "min_score": self.min_score,
        }

    def _observation(self, batch: FrameBatch, t: int, motion: StepMotion) -> Observation:
        from trustvid.tools.vision.egomotion import MotionRates, motion_label

        duration = batch.times[t + 1] - batch.times[t]
        seconds = duration if duration > 0 else _FALLBACK_STEP_S
        rates = MotionRates(self.turn_deg_per_s, self.tilt_deg_per_s, self.growth_per_s)
        return Observation(
            frame=batch.indices[t],
            time=batch.times[t],
            kind="motion",
            label=motion_label(motion.yaw_deg, motion.pitch_deg, motion.expansion, seconds, rates),
            score=round(motion.score, 4),
            values={
                "yaw_deg": round(motion.yaw_deg, 3),
                "pitch_deg": round(motion.pitch_deg, 3),
                "expansion": round(motion.expansion, 5),
                "end_frame": batch.indices[t + 1],
                "end_time": batch.times[t + 1],
            },
        )
