"""From motion of single steps to segments of a clip: "0.0–2.1 s forward; 2.1–3.2 s turn left (91°)"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from trustvid.tools.evidence import Observation

# A label held for fewer steps than this between two equal neighbours is a slip of one pair, not a manoeuvre.
MIN_STEPS = 3


def motion_faults(
    tool: str, fov_deg: float, turn_deg_per_s: float, tilt_deg_per_s: float, growth_per_s: float
) -> list[str]:
    """What is wrong with the settings that tools which tell the camera's motion share."""
    faults = []
    if not 0 < fov_deg < 180:
        faults.append(f"{tool}.fov_deg={fov_deg!r}: expected degrees between 0 and 180")
    for name, value in (("turn_deg_per_s", turn_deg_per_s), ("tilt_deg_per_s", tilt_deg_per_s)):
        if not value > 0:
            faults.append(f"{tool}.{name}={value!r}: expected a positive rate")
    if not growth_per_s > 0:
        faults.append(f"{tool}.growth_per_s={growth_per_s!r}: expected a positive share")
    return faults


@dataclass(frozen=True)
class Segment:
    """A stretch of one kind of camera motion.

    Attributes:
        start, end: seconds from the clip's start.
        label: as of the observations: "forward", "turn left", "still", …
        yaw_deg: rotation accumulated over the stretch, positive to the right.
        score: mean weight of its steps (their confidence, or else the tool's score), 0–1.
        steps: observations it was merged from.
    """

    start: float
    end: float
    label: str
    yaw_deg: float
    score: float
    steps: int = 1


def merge_motion(observations: Sequence[Observation]) -> list[Segment]:
    """Segments of equal label, in time order; other kinds of observation are ignored.

    Steps that do not follow one another (another window, or a pair without measurable motion) never share a segment. A
    single deviating step between two neighbours of one label joins them.
    """
    steps = sorted((seen for seen in observations if seen.kind == "motion"), key=lambda seen: seen.frame)
    segments: list[Segment] = []
    for chain in _chains(steps):
        runs = [list(group) for _, group in groupby(chain, key=lambda seen: seen.label)]
        segments += [_segment(run) for run in _absorb_slips(runs)]
    return segments


def describe_motion(segments: Sequence[Segment], limit: int = 40) -> str:
    """One line for a reader; turns carry their angle. ``limit`` caps the number of segments told."""
    parts = []
    for segment in segments[:limit]:
        angle = f" ({abs(segment.yaw_deg):.0f}°)" if segment.label.startswith("turn") else ""
        parts.append(f"{segment.start:.1f}–{segment.end:.1f} s {segment.label}{angle}")
    if len(segments) > limit:
        parts.append(f"{len(segments) - limit} more")
    return "; ".join(parts)


def _chains(steps: Sequence[Observation]) -> list[list[Observation]]:
    """Runs of steps in which each starts at the frame where the one before ended."""
    chains: list[list[Observation]] = []
    for step in steps:
        if chains and chains[-1][-1].values["end_frame"] == step.frame:
            chains[-1].append(step)
        else:
            chains.append([step])
    return chains


def _absorb_slips(runs: list[list[Observation]]) -> list[list[tuple[str, Observation]]]:
    """Runs of (label, step) after short runs between equal neighbours took the neighbours' label."""
    labels = [run[0].label for run in runs]
    for i in range(1, len(runs) - 1):
        neighbours_agree = labels[i - 1] == runs[i + 1][0].label
        longer = min(len(runs[i - 1]), len(runs[i + 1])) > len(runs[i])
        if len(runs[i]) < MIN_STEPS and neighbours_agree and longer:
            labels[i] = labels[i - 1]
    named = [(label, step) for label, run in zip(labels, runs, strict=True) for step in run]
    return [list(group) for _, group in groupby(named, key=lambda item: item[0])]


def _segment(run: Sequence[tuple[str, Observation]]) -> Segment:
    steps = [step for _, step in run]
    return Segment(
        start=steps[0].time,
        end=steps[-1].values["end_time"],
        label=run[0][0],
        yaw_deg=sum(step.values["yaw_deg"] for step in steps),
        score=sum(step.weight for step in steps) / len(steps),
        steps=len(steps),
    )
