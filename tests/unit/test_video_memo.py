"""Frames kept at hand: same bytes, each made once, bounded memory, the source's own attributes."""

from __future__ import annotations

import numpy as np

from tests.unit.fakes import ArraySource
from trustvid.corruption.clip import corrupt
from trustvid.corruption.gaussian_noise import GaussianNoise
from trustvid.video.memo import RememberedClip


class Counting(ArraySource):
    """Counts how often each frame is made."""

    def __init__(self, frames):
        super().__init__(frames)
        self.made = []

    def frames(self, indices):
        self.made += list(indices)
        return super().frames(indices)


def source(n: int = 12) -> Counting:
    return Counting(np.random.default_rng(0).integers(0, 256, (n, 6, 8, 3), dtype=np.uint8))


def test_each_frame_is_made_once_and_copies_are_handed_out():
    clip = source()
    kept = RememberedClip(clip)
    first = kept.frames([3, 1, 3])
    assert np.array_equal(first, clip._frames[[3, 1, 3]])
    first[:] = 0
    assert np.array_equal(kept.frames([1, 2, 3]), clip._frames[[1, 2, 3]])
    assert clip.made == [1, 3, 2]
    assert kept.frames([]).shape == (0, 6, 8, 3)


def test_memory_is_bounded_by_the_frames_used_last():
    clip = source()
    kept = RememberedClip(clip, max_bytes=2 * 6 * 8 * 3)
    for index in (0, 1, 2):
        kept.frames([index])
    clip.made.clear()
    kept.frames([1, 2])
    assert clip.made == []
    kept.frames([0])
    assert clip.made == [0]
    assert np.array_equal(kept.frames(range(12)), clip._frames), "more at once than is kept"


def test_what_the_source_knows_is_still_known():
    corrupted = corrupt(source(), GaussianNoise(), 3, 0.5, 7)
    kept = RememberedClip(corrupted)
    assert kept.touched.tolist() == corrupted.touched.tolist() and kept.n_frames == 12
    touched = int(np.flatnonzero(corrupted.touched)[0])
    assert kept.frame_key(touched) == corrupted.frame_key(touched) != "clean"
    assert np.array_equal(kept.frames([touched]), corrupted.frames([touched]))
    assert not hasattr(RememberedClip(source()), "touched")
