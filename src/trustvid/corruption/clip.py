"""A corrupted view of a video: which frames are touched, and what they look like."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from trustvid.corruption.base import Corruption, State, check_seed, check_severity, check_share
from trustvid.seeding import derive_rng
from trustvid.video.source import FrameSource


def corrupt(
    source: FrameSource, corruption: Corruption, severity: int, coverage: float = 0.5, seed: int = 0
) -> CorruptedClip:
    """Corrupt part of a video's timeline.

    The look of a frame follows from (seed, video id, corruption name, severity) and its index alone: neither from
    coverage, nor from the order of access, nor from the process. So frame i has the same bytes at coverage 0.5 and 1.0
    wherever both touch it, and tool outputs can be shared between the two.

    In evaluation ``seed`` is a constant. In training give every draw its own, so that epochs differ and reruns do not::

        corrupt(clip, corruption, severity, coverage, seed=derive_seed(seed, sample_id, epoch))

    Args:
        source: any frame source; a corrupted one too (corruptions then stack).
        corruption: the operator.
        severity: 1–5; 0 touches nothing.
        coverage: share of frames touched, 0–1; ``round(coverage · n_frames)`` frames in one to three runs.
        seed: any whole number.

    Raises:
        ValueError: severity, coverage or seed is not what is said above.
    """
    return CorruptedClip(source, corruption, severity, coverage, seed)


class CorruptedClip:
    """A :class:`trustvid.video.source.FrameSource`: the source with a corruption laid over some of its frames.

    Attributes:
        touched: bool [n_frames], read-only: which frames differ from the source.
    """

    def __init__(self, source: FrameSource, corruption: Corruption, severity: int, coverage: float, seed: int):
        self.source, self.corruption = source, corruption
        self.severity, self.seed = check_severity(severity), check_seed(seed)
        self.coverage = check_share("coverage", coverage)
        self.video_id, self.digest = source.video_id, source.digest
        self.n_frames, self.timestamps, self.fps = source.n_frames, source.timestamps, source.fps
        self.width, self.height = source.width, source.height
        self._seed_parts = (self.seed, self.video_id, corruption.name, self.severity)
        share = self.coverage if self.severity else 0.0
        self.touched = touched_frames(self.n_frames, share, derive_rng(*self._seed_parts, "runs"))
        self.touched.flags.writeable = False

    @cached_property
    def _state(self) -> State:
        """The plan of the whole timeline, made when a touched frame is first asked for."""
        rng = derive_rng(*self._seed_parts)
        return self.corruption.plan(self.n_frames, self.fps, self.width, self.height, self.severity, rng)

    @cached_property
    def _key(self) -> str:
        """All that determines a touched frame's look. The video id is in it, since the seed derives from it."""
        corruption = self.corruption
        settings = json.dumps(corruption.settings(), sort_keys=True)
        parts = f"severity={self.severity} seed={self.seed} video={json.dumps(self.video_id)} {settings}"
        return f"{corruption.name}/{corruption.version} {parts}"

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        """See :meth:`FrameSource.frames`; untouched frames are the source's bytes."""
        clean = self.source.frames(indices)
        places = [place for place, index in enumerate(indices) if self.touched[index]]
        if not places:
            return clean
        out = clean.copy()
        for place in places:
            out[place] = self.corruption.apply(clean[place], int(indices[place]), self._state)
        return out

    def frame_key(self, index: int) -> str:
        """See :meth:`FrameSource.frame_key`: the source's key where untouched, else extended by what was done.

        Coverage is not part of it, because it does not change what a touched frame looks like.
        """
        key = self.source.frame_key(index)
        return f"{key} > {self._key}" if self.touched[index] else key


def touched_frames(n_frames: int, coverage: float, rng: np.random.Generator) -> np.ndarray:
    """``round(coverage · n_frames)`` frames in one to three contiguous runs, bool [n_frames].

    The timeline is bent into a circle and one or two arcs grow there from random seeds until the share is reached; cut
    open again, two arcs make at most three runs. This way every frame is equally likely to be touched, early and late
    ones too, and coverages nest: what 0.25 touches, 0.5 touches too (same generator state assumed).
    """
    centres = rng.uniform(0, n_frames, size=2)[: rng.integers(1, 3)]
    speeds = rng.uniform(0.5, 1.5, size=2)[: len(centres)]
    away = np.abs(np.arange(n_frames)[:, None] + 0.5 - centres[None, :])
    arrival = (np.minimum(away, n_frames - away) / speeds).min(axis=1)
    touched = np.zeros(n_frames, dtype=bool)
    touched[np.argsort(arrival, kind="stable")[: round(coverage * n_frames)]] = True
    return touched
