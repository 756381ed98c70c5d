"""Wording that the tools' summaries share."""

from __future__ import annotations

from collections.abc import Sequence

from trustvid.tools.evidence import Observation


def when_seen(seen: Sequence[Observation]) -> str:
    """When and how surely something was seen: "in 3 frames, 0.4–1.2 s, score 0.98". ``seen`` is not empty."""
    times = sorted({one.time for one in seen})
    best = max(one.score for one in seen)
    span = f"at {times[0]:.1f} s" if len(times) == 1 else f"in {len(times)} frames, {times[0]:.1f}–{times[-1]:.1f} s"
    return f"{span}, score {best:.2f}"
