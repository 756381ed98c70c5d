"""track_temporal by ByteTrack: the boxes of any detector, joined to tracks over whole windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from trustvid.errors import ConfigError, TrustvidError
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery, Tool
from trustvid.tools.track_temporal import TrackTemporal
from trustvid.tools.tracks import step_observation
from trustvid.tools.vision.boxes import Box

# Releases of supervision up to 0.30 had ByteTrack; its authors moved it to "trackers", which builds on supervision.
_PACKAGE = "trackers"
_MISSING = (
    "tools/track_temporal=bytetrack needs the packages trackers and supervision ({reason}): pip install supervision && "
    "pip install --no-deps trackers (its dependencies are here already, and opencv-python would overwrite "
    "opencv-python-headless), or use tools/track_temporal=embedded, which needs neither"
)
_BUFFER_FPS = 30.0  # the package counts the time for which a lost track is kept in frames of this rate


class ByteTrack:
    """ByteTrack (Zhang et al., arXiv 2110.06864) of the package ``trackers`` over the boxes of a detector.

    Each frame of a window is searched by the detector. A Kalman filter expects each track somewhere in the next frame;
    boxes of high score are matched first (by overlap, in the assignment that is best in all), then those of low score
    with the tracks that are left: a thing that is half hidden keeps its track. Labels are never mixed: every label has
    a tracker of its own. The camera's own motion is not compensated, so small things can be lost in fast turns, where
    the embedded track_temporal keeps them; and nothing is told of the camera.

    Observations: kind "object" for each step of a track from one sight to the next (normally the next frame; a later
    one where it was lost in between), label and box as of the detector, values as of the embedded track_temporal:
    ``dx``, ``dy``, ``growth``, ``overlap`` (IoU of the box found with the one that the two sights before lead to),
    ``confirmed`` (1.0 for a box of high score), ``end_frame``, ``end_time``; score = overlap, times 0.6 where not
    confirmed. Where a step ends the next one of its track begins, box for box: that is what tells tracks apart.
    c_intrinsic is the mean IoU of matched tracklets, as in the paper (Table 17).

    Args:
        detector: a component of the group tools/detect_objects. If it reads the sub-query, things named there are
            followed.
        high_score: boxes from here on are matched first, 0–1.
        start_score: an unmatched box from here on begins a track, ``high_score`` to 1.
        min_overlap: least IoU of a box with the place where its track is expected, 0–1.
        lost_s: seconds for which a track that is not seen is kept.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    name = "track_temporal"
    cost = 0.70  # paper Table 17
    version = "1"
    span = "window"

    def __init__(
        self,
        detector: Tool,
        high_score: float = 0.4,
        start_score: float = 0.4,
        min_overlap: float = 0.1,
        lost_s: float = 1.0,
    ):
        faults = []
        if getattr(detector, "name", None) != "detect_objects" or detector.span != "frame":
            kind = type(detector).__name__
            faults.append(f"track_temporal.detector is a {kind}; expected one of the group tools/detect_objects")
        for name, value in (("high_score", high_score), ("start_score", start_score), ("min_overlap", min_overlap)):
            if not 0 <= value <= 1:
                faults.append(f"track_temporal.{name}={value!r}: expected 0–1")
        if start_score < high_score:
            faults.append(
                f"track_temporal.start_score={start_score!r}: expected at least high_score={high_score!r}, as boxes of "
                "low score begin no tracks"
            )
        if not lost_s >= 0:
            faults.append(f"track_temporal.lost_s={lost_s!r}: expected seconds, 0 or more")
        if faults:
            raise ConfigError(faults)
        self.detector = detector
        self.high_score, self.start_score = float(high_score), float(start_score)
        self.min_overlap, self.lost_s = float(min_overlap), float(lost_s)

    # Sentence and c_intrinsic are the same whichever backend found the steps.
    summarise = TrackTemporal.summarise

    @property
    def reads_query(self) -> bool:
        """As the detector."""
        return self.detector.reads_query

    @property
    def load(self) -> Callable[[], Any]:
        """What a run calls before its first question: the detector's own, or the refusal where packages are missing.

        Raises:
            AttributeError: there is nothing to load (as for any tool without weights).
        """
        return self.detector.load if find_spec(_PACKAGE) else _tracker_class

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """The steps of all tracks of the window, by frame, label and box, as its one output."""
        found = self.detector.observe(batch, query, words)
        height, width = batch.images.shape[1:3]
        trackers: dict[str, _Follower] = {}
        for t, time in enumerate(batch.times):
            by_label: dict[str, list[Observation]] = {}
            for seen in found[t]:
                by_label.setdefault(seen.label, []).append(seen)
            for label in sorted(by_label.keys() - trackers.keys()):
                trackers[label] = self._follower(batch.times, width, height)
            for label, tracker in trackers.items():
                tracker.look(by_label.get(label, []), time)
        steps = [step for tracker in trackers.values() for sights in tracker.tracks() for step in self._steps(sights)]
        return [sorted(steps, key=lambda seen: (seen.frame, seen.label, seen.box))]

    def settings(self) -> dict:
        """All constructor arguments, those of the detector among them, and the release of the package."""
        return {
            "backend": "bytetrack",
            "release": _release(),
            "detector": {"version": self.detector.version, **self.detector.settings()},
            "high_score": self.high_score,
            "start_score": self.start_score,
            "min_overlap": self.min_overlap,
            "lost_s": self.lost_s,
        }

    def _follower(self, times: Sequence[float], width: int, height: int) -> _Follower:
        tracker = _tracker_class()(
            lost_track_buffer=round(self.lost_s * _BUFFER_FPS),
            frame_rate=1.0 / float(np.median(np.diff(times))),
            track_activation_threshold=self.start_score,
            minimum_consecutive_frames=1,
            minimum_iou_threshold=self.min_overlap,
            high_conf_det_threshold=self.high_score,
        )
        return _Follower(tracker, width, height)

    def _steps(self, sights: Sequence[Observation]) -> list[Observation]:
        """The observations of one track, from all its sights in order of time."""
        overlaps = track_overlaps([seen.box for seen in sights], [seen.time for seen in sights])
        return [
            step_observation(seen, later, overlap, later.score >= self.high_score)
            for (seen, later), overlap in zip(pairwise(sights), overlaps, strict=True)
        ]


class _Follower:
    """One tracker of the package over the boxes of one label in one window, and which boxes each track consists of."""

    def __init__(self, tracker: Any, width: int, height: int):
        self._tracker = tracker
        self._size = np.array([width, height, width, height], dtype=np.float64)
        self._begun: dict[int, tuple[Any, Observation]] = {}  # by identity of a track; it is held so that this stays
        self._sights: dict[int, list[Observation]] = {}  # by the number that the package gives at the second sight

    def look(self, seen: Sequence[Observation], time: float) -> None:
        """The boxes of the next frame."""
        from supervision import Detections

        boxes = np.array([one.box for one in seen], dtype=np.float64).reshape(-1, 4) * self._size
        scores = np.array([one.score for one in seen], dtype=np.float64)
        known = {id(track) for track in self._tracker.tracks}
        # As the package sorts boxes otherwise than it got them, they carry their places along.
        given = Detections(xyxy=boxes, confidence=scores, data={"place": np.arange(len(seen))})
        told = self._tracker.update(given, timestamp=time)
        for track in self._tracker.tracks:
            if id(track) not in known:  # where it begins is where its one box is
                first = int(np.abs(boxes - track.get_state_bbox()).max(axis=1).argmin())
                self._begun[id(track)] = (track, seen[first])
        numbers = {track.tracker_id: track for track in self._tracker.tracks}
        for place, number in zip(told.data.get("place", ()), told.tracker_id, strict=True):
            if number < 0:
                continue
            if number not in self._sights:
                self._sights[number] = [self._begun[id(numbers[number])][1]]
            self._sights[number].append(seen[place])

    def tracks(self) -> list[list[Observation]]:
        """The boxes of each track that was seen twice or more, in order of time."""
        return list(self._sights.values())


def track_overlaps(boxes: Sequence[Box], times: Sequence[float]) -> list[float]:
    """IoU of each box of a track but the first with the box that the two before lead to at constant speed.

    The second is compared with the first itself: nothing is known of its speed yet.

    Args:
        boxes: (x0, y0, x1, y1) of the sights of one thing, in any unit.
        times: seconds of each, rising.

    Returns:
        len(boxes) - 1 shares, 0–1.

    >>> track_overlaps([(0, 0, 4, 4), (2, 0, 6, 4), (4, 0, 8, 4)], [0.0, 0.1, 0.2])
    [0.3333333333333333, 1.0]
    """
    from trustvid.tools.vision.colour import overlap_share

    overlaps = []
    for k in range(1, len(boxes)):
        expected = np.array(boxes[k - 1], dtype=np.float64)
        if k > 1:
            speed = (expected - np.array(boxes[k - 2], dtype=np.float64)) / (times[k - 1] - times[k - 2])
            expected = expected + speed * (times[k] - times[k - 1])
        overlaps.append(float(overlap_share(tuple(expected.tolist()), tuple(boxes[k]))))
    return overlaps


def _tracker_class() -> Any:
    """The package's ByteTrack.

    Raises:
        TrustvidError: it is not installed; the message has the command.
    """
    try:
        from trackers import ByteTrackTracker
    except ImportError as error:
        raise TrustvidError(_MISSING.format(reason=error)) from error
    return ByteTrackTracker


@lru_cache(maxsize=1)
def _release() -> str:
    """The package's version; or "missing" (a call then fails with the command to install it)."""
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return "missing"
