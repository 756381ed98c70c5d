"""The tools that look after frames rather than content: assess_quality, select_frames, retrieve_frames.

They are part of every pass of a method that measures reliability, cost what Table 17 says, and are told in the
trajectory; the pipeline calls them itself, no sub-query is routed to them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trustvid.agent.trajectory import FrameCall
from trustvid.reliability.profile import Profile

COSTS = {"assess_quality": 0.10, "select_frames": 0.15, "retrieve_frames": 0.20}  # paper Table 17
RETRIEVED = 4  # frames that a refinement takes from the pool


def assessed(profile: Profile) -> FrameCall:
    """The call that measured the profile: c_intrinsic is 1, measuring is certain (B.1)."""
    worst = profile.dominant(profile.indices)
    bad = int((profile.reliability < 0.5).sum())
    result = f"{len(profile.indices)} frames profiled, {bad} with reliability below 0.5; dominant disturbance: {worst}"
    return FrameCall("assess_quality", result, 1.0, profile.indices, COSTS["assess_quality"])


def relevance_of(profile: Profile, relevance: np.ndarray | None, frames: Sequence[int]) -> tuple[float, ...]:
    """Relevance of the given frames to the question, that of the nearest profiled frame; empty without a model of it.

    Args:
        relevance: [len(profile.indices)] in [0, 1], or None.
    """
    if relevance is None or not len(frames):
        return ()
    nearest = np.abs(np.asarray(profile.indices)[None, :] - np.asarray(frames)[:, None]).argmin(axis=1)
    return tuple(float(value) for value in relevance[nearest])


def selected(profile: Profile, frames: tuple[int, ...], relevance: np.ndarray | None = None) -> FrameCall:
    """The call that selected ``frames``: c_intrinsic is their mean s = reliability × relevance (Eq. 3).

    Without a relevance model it is their mean reliability.
    """
    mean = float(np.mean(_scores(profile, relevance, frames))) if frames else 0.0
    result = f"{len(frames)} of {len(profile.indices)} profiled frames, mean {_named(relevance)} {mean:.2f}"
    return FrameCall("select_frames", result, mean, frames, COSTS["select_frames"])


def retrieved(profile: Profile, frames: Sequence[int], relevance: np.ndarray | None = None) -> FrameCall | None:
    """The call that takes up to four frames from the pool (profiled frames beyond ``frames``); None when it is empty.

    By s of Eq. 3, to a tenth, which without a relevance model is reliability; among equals the one farthest from all
    that was seen, so that a flat s fills gaps.
    """
    seen = list(frames)
    pool = [frame for frame in profile.indices if frame not in set(frames)]
    score = dict(zip(pool, np.round(_scores(profile, relevance, pool), 1), strict=True))
    taken: list[int] = []
    for _ in range(min(RETRIEVED, len(pool))):
        best = max(
            (frame for frame in pool if frame not in taken),
            key=lambda frame: (score[frame], min((abs(frame - other) for other in seen), default=0), -frame),
        )
        taken.append(best)
        seen.append(best)
    if not taken:
        return None
    mean = float(np.mean([score[frame] for frame in taken]))
    told = " ".join(map(str, sorted(taken)))
    result = f"frames {told} of a pool of {len(pool)}, mean {_named(relevance)} {mean:.2f}"
    return FrameCall("retrieve_frames", result, mean, tuple(sorted(taken)), COSTS["retrieve_frames"])


def _scores(profile: Profile, relevance: np.ndarray | None, frames: Sequence[int]) -> np.ndarray:
    """[len(frames)] s of Eq. 3 before its thresholds: reliability × relevance; reliability without a model of it."""
    reliability = np.asarray(profile.reliability_of(tuple(frames)))
    return reliability if relevance is None else reliability * relevance_of(profile, relevance, frames)


def _named(relevance: np.ndarray | None) -> str:
    return "reliability" if relevance is None else "reliability × relevance"
