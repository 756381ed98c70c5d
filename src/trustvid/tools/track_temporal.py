"""track_temporal, embedded: coloured things found again from frame to frame, and the camera's motion from that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trustvid.errors import ConfigError
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.motion import describe_motion, merge_motion, motion_faults
from trustvid.tools.tracks import Track, link_tracks, step_observation

if TYPE_CHECKING:
    from trustvid.tools.vision.boxmotion import BoxStep, CameraStep, Spot

# Rates are per second; steps without a usable duration count as this long.
_FALLBACK_STEP_S = 0.1
_TOLD_TRACKS = 8
_MIN_TOLD_STEPS = 2  # a thing found again only once is told when there is nothing better
# Shares of the frame: thirds by the centre of a box, and how near the border a thing comes in or goes out.
_LEFT_END, _RIGHT_START, _BORDER = 1 / 3, 2 / 3, 0.02


class TrackTemporal:
    """Follows coloured things from frame to frame, and tells what the camera did from how they moved.

    Both frames of a step are searched by detect_objects' vision; boxes are matched by label, place and size, and sparse
    tracks inside matched boxes confirm and refine the match. So it works where specks before the background (snow, a
    dirty lens) or flickering light mislead its flow; it says nothing where nothing coloured is in view, and coloured
    blobs that drift before the lens mislead it. recognize_action is the other way round, and the more exact of the two.

    Observations of a step: kind "object" for each matched box of its first frame, label as of detect_objects, score =
    quality of the match, values ``dx``, ``dy`` (displacement of its centre, shares of the frame), ``growth`` (of its
    size, 0.05 for 5 per cent), ``overlap`` (IoU of the box found with the one predicted from the tracks), ``confirmed``
    (1.0 where tracks bear the match out), ``end_frame``, ``end_time``; and at most one of kind "motion" with the labels
    and values of recognize_action, score = mean overlap × share of the boxes that agree on the turn.

    Args:
        fov_deg: horizontal field of view of the camera.
        turn_deg_per_s: a rotation faster than this is a turn.
        tilt_deg_per_s: a pitch faster than this (and than the yaw) is "up" or "down".
        growth_per_s: an expansion faster than this is "forward" (shrinking: "backward").
        min_box_score: detected boxes below are not followed, 0–1.
        max_objects: best boxes followed in a frame.
        min_saturation: HSV saturation from which a pixel counts as coloured, 0–1.
        min_score: camera motions below are not told, 0–1.
    """

    name = "track_temporal"
    cost = 0.70  # paper Table 17
    version = "1"
    span = "pair"
    reads_query = False

    def __init__(
        self,
        fov_deg: float = 90.0,
        turn_deg_per_s: float = 8.0,
        tilt_deg_per_s: float = 12.0,
        growth_per_s: float = 0.03,
        min_box_score: float = 0.2,
        max_objects: int = 12,
        min_saturation: float = 0.34,
        min_score: float = 0.05,
    ):
        faults = motion_faults("track_temporal", fov_deg, turn_deg_per_s, tilt_deg_per_s, growth_per_s)
        shares = (("min_box_score", min_box_score), ("min_saturation", min_saturation), ("min_score", min_score))
        for name, value in shares:
            if not 0 <= value <= 1:
                faults.append(f"track_temporal.{name}={value!r}: expected 0–1")
        if max_objects < 1:
            faults.append(f"track_temporal.max_objects={max_objects!r}: expected at least 1")
        if faults:
            raise ConfigError(faults)
        self.fov_deg = float(fov_deg)
        self.turn_deg_per_s = float(turn_deg_per_s)
        self.tilt_deg_per_s = float(tilt_deg_per_s)
        self.growth_per_s = float(growth_per_s)
        self.min_box_score = float(min_box_score)
        self.max_objects = int(max_objects)
        self.min_saturation = float(min_saturation)
        self.min_score = float(min_score)

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """Matched boxes and the camera's motion for each step from one frame of the batch to the next."""
        from trustvid.tools.vision.boxmotion import BoxFollower, grey_for_tracks

        finder = DetectObjects(self.min_box_score, self.max_objects, self.min_saturation, signs=False)
        found = finder.observe(batch, query, words)
        height, width = batch.images.shape[1:3]
        spots = [[_spot(seen, width, height) for seen in boxes] for boxes in found]
        greys = [grey_for_tracks(image) for image in batch.images]
        follower = BoxFollower(height, width, self.fov_deg)
        outputs = []
        for t in range(len(greys) - 1):
            steps = follower.steps(greys[t], greys[t + 1], spots[t], spots[t + 1])
            things = [
                step_observation(found[t][step.first], found[t + 1][step.second], step.overlap, step.confirmed)
                for step in steps
            ]
            motion = self._motion(batch, t, steps, follower.camera(steps))
            outputs.append([*things, motion] if motion else things)
        return outputs

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """Tracks told over time, then the camera; c_intrinsic is the mean IoU of matched tracklets, as in the paper."""
        tracks = link_tracks(observations)
        if not tracks:
            return "no thing could be followed", 0.0
        told = [track for track in tracks if track.steps >= _MIN_TOLD_STEPS] or tracks
        longest = sorted(told, key=lambda track: (-track.steps, track.start, track.label))[:_TOLD_TRACKS]
        first = min(seen.time for seen in observations)
        last = max(seen.values["end_time"] for seen in observations)
        parts = [_phrase(track, first, last) for track in told if track in longest]
        if len(told) > len(parts):
            parts.append(f"{len(told) - len(parts)} more")
        segments = merge_motion(observations)
        if segments:
            parts.append("camera: " + describe_motion(segments))
        overlaps = [seen.values["overlap"] for seen in observations if seen.kind == "object"]
        return "; ".join(parts), sum(overlaps) / len(overlaps)

    def settings(self) -> dict:
        """All constructor arguments, and the version of the detection they rest on."""
        return {
            "backend": "embedded",
            "detection": DetectObjects.version,
            "fov_deg": self.fov_deg,
            "turn_deg_per_s": self.turn_deg_per_s,
            "tilt_deg_per_s": self.tilt_deg_per_s,
            "growth_per_s": self.growth_per_s,
            "min_box_score": self.min_box_score,
            "max_objects": self.max_objects,
            "min_saturation": self.min_saturation,
            "min_score": self.min_score,
        }

    def _motion(
        self, batch: FrameBatch, t: int, steps: Sequence[BoxStep], camera: CameraStep | None
    ) -> Observation | None:
        from trustvid.tools.vision.egomotion import MotionRates, motion_label

        if camera is None:
            return None
        score = sum(step.overlap for step in steps) / len(steps) * camera.agreement
        if score < self.min_score:
            return None
        duration = batch.times[t + 1] - batch.times[t]
        rates = MotionRates(self.turn_deg_per_s, self.tilt_deg_per_s, self.growth_per_s)
        seconds = duration if duration > 0 else _FALLBACK_STEP_S
        return Observation(
            frame=batch.indices[t],
            time=batch.times[t],
            kind="motion",
            label=motion_label(camera.yaw_deg, camera.pitch_deg, camera.expansion, seconds, rates),
            score=round(score, 4),
            values={
                "yaw_deg": round(camera.yaw_deg, 3),
                "pitch_deg": round(camera.pitch_deg, 3),
                "expansion": round(camera.expansion, 5),
                "end_frame": batch.indices[t + 1],
                "end_time": batch.times[t + 1],
            },
        )


def _spot(seen: Observation, width: int, height: int) -> Spot:
    from trustvid.tools.vision.boxmotion import Spot

    x0, y0, x1, y1 = seen.box
    cut = frozenset(name.removeprefix("clipped_") for name in seen.values if name.startswith("clipped_"))
    return Spot(seen.label, (x0 * width, y0 * height, x1 * width, y1 * height), cut)


def _phrase(track: Track, first: float, last: float) -> str:
    """ "red box: enters at 0.4 s on the left, leaves at 2.1 s on the right" within the stretch looked at."""
    comes = "enters" if track.start > first and _at_border(track.first) else "seen"
    goes = "leaves" if track.end < last and _at_border(track.last) else "last seen"
    start, end = _place(track.first), _place(track.last)
    return f"{track.label}: {comes} at {track.start:.1f} s {start}, {goes} at {track.end:.1f} s {end}"


def _at_border(box: tuple[float, float, float, float]) -> bool:
    return box[0] <= _BORDER or box[2] >= 1 - _BORDER


def _place(box: tuple[float, float, float, float]) -> str:
    middle = (box[0] + box[2]) / 2
    return "on the left" if middle < _LEFT_END else "on the right" if middle > _RIGHT_START else "in the middle"
