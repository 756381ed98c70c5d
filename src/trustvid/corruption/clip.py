"""A corrupted view of a video: which frames are touched, and what they look like."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

import numpy as np

from trustvid.corruption.base import Corruption, State, check_seed, check_severity, check_share
from trustvid.seeding import derive_rng
from trustvid.video.clip import FrameCache
from trustvid.video.source import FrameSource

_HELD_BYTES = 64 * 2**20  # groups kept at hand, see CorruptedClip._group


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
        touched: bool [n_frames], read-only: which frames the corruption is laid over; all others are the source's.
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
        self._groups, self._lock = FrameCache(_HELD_BYTES), threading.Lock()

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

    def source_index(self, index: int) -> int:
        """The source's frame that is seen at ``index``: another one only where the corruption shows one instead.

        Raises:
            IndexError: the index is outside 0…n_frames-1.
        """
        self.source.frame_key(index)  # refuses what is outside
        return self._planned(index) if self.touched[index] else index

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        """See :meth:`FrameSource.frames`; untouched frames are the source's bytes."""
        wanted = [int(index) for index in indices]
        on = [0 <= index < self.n_frames and bool(self.touched[index]) for index in wanted]  # the source refuses others
        if self.corruption.group > 1:
            return self._frames_in_groups(wanted, on)
        clean = self.source.frames([self._planned(i) if covered else i for i, covered in zip(wanted, on, strict=True)])
        if not any(on):
            return clean
        out = clean.copy()
        for place in np.flatnonzero(on):
            out[place] = self.corruption.apply(clean[place], wanted[place], self._state)
        return out

    def frame_key(self, index: int) -> str:
        """See :meth:`FrameSource.frame_key`: the source's key where untouched, else extended by what was done.

        Coverage is not part of it, because it does not change what a touched frame looks like. Where several frames of
        the source make up a touched one, the keys of all of them are.
        """
        key = self.source.frame_key(index)
        if not self.touched[index]:
            return key
        size = self.corruption.group
        if size > 1:
            keys = [self.source.frame_key(source) for source in self._sources(index // size)]
            runs = [(key, len(list(same))) for key, same in groupby(keys)]
            key = keys[0] if len(runs) == 1 else "[" + ", ".join(f"{count} × {key}" for key, count in runs) + "]"
        elif self.corruption.reorders:
            key = self.source.frame_key(self._planned(index))
        return f"{key} > {self._key}"

    def _planned(self, index: int) -> int:
        """The source's frame for a touched index; plans nothing for corruptions that keep to the index."""
        return self.corruption.source_index(index, self._state) if self.corruption.reorders else index

    def _frames_in_groups(self, wanted: Sequence[int], on: Sequence[bool]) -> np.ndarray:
        """:meth:`frames` for corruptions that work on groups: each group is made once, whatever is asked of it."""
        size = self.corruption.group
        off = [place for place, covered in enumerate(on) if not covered]
        out = np.empty((len(wanted), self.height, self.width, 3), dtype=np.uint8)
        out[off] = self.source.frames([wanted[place] for place in off])
        for number in sorted({wanted[place] // size for place in np.flatnonzero(on)}):
            places = [place for place in np.flatnonzero(on) if wanted[place] // size == number]
            out[places] = self._group(number)[[wanted[place] - number * size for place in places]]
        return out

    def _group(self, number: int) -> np.ndarray:
        """Group ``number``, corrupted, [T, height, width, 3]; those last used are kept, up to 64 MiB in all."""
        with self._lock:
            group = self._groups.get(number)
            if group is None:
                frames = self.source.frames(self._sources(number))
                group = self.corruption.apply_group(frames, number * self.corruption.group, self._state)
                self._groups.put(number, group)
        return group

    def _sources(self, number: int) -> list[int]:
        """The source's frames that group ``number`` is made of."""
        first = number * self.corruption.group
        return [self._planned(index) for index in range(first, min(first + self.corruption.group, self.n_frames))]


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
