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


def selected(profile: Profile, frames: tuple[int, ...]) -> FrameCall:
    """The call that selected ``frames``: c_intrinsic is their mean reliability (Eq. 3 without a relevance model)."""
    mean = float(np.mean(profile.reliability_of(frames))) if frames else 0.0
    result = f"{len(frames)} of {len(profile.indices)} profiled frames, mean reliability {mean:.2f}"
    return FrameCall("select_frames", result, mean, frames, COSTS["select_frames"])


def retrieved(profile: Profile, frames: Sequence[int]) -> FrameCall | None:
    """The call that takes up to four frames from the pool (profiled frames beyond ``frames``); None when it is empty.

    The most reliable first (to a tenth); among equals the one farthest from all that was seen, so that flat reliability
    fills gaps.
    """
    seen = list(frames)
    pool = [frame for frame in profile.indices if frame not in set(frames)]
    reliability = dict(zip(pool, np.round(profile.reliability_of(tuple(pool)), 1), strict=True))
    taken: list[int] = []
    for _ in range(min(RETRIEVED, len(pool))):
        best = max(
            (frame for frame in pool if frame not in taken),
            key=lambda frame: (reliability[frame], min((abs(frame - other) for other in seen), default=0), -frame),
        )
        taken.append(best)
        seen.append(best)
    if not taken:
        return None
    mean = float(np.mean([reliability[frame] for frame in taken]))
    result = f"frames {' '.join(map(str, sorted(taken)))} of a pool of {len(pool)}, mean reliability {mean:.2f}"
    return FrameCall("retrieve_frames", result, mean, tuple(sorted(taken)), COSTS["retrieve_frames"])
