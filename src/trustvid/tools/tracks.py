"""From boxes found again between single frames to tracks of things over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trustvid.tools.evidence import Observation
from trustvid.tools.vision.boxes import Box
from trustvid.tools.vision.colour import overlap_share

_UNCONFIRMED_SCORE = 0.6  # of a match that nothing but its place bears out
_SAME_BOX = 0.3  # IoU of where a step ends and where the next one starts
# A thing missed this long (seconds), and moved this far (share of the frame), is still the same.
_MAX_GAP_S, _MAX_JUMP = 0.5, 0.15


@dataclass(frozen=True)
class Track:
    """One thing over time.

    Attributes:
        label: "red box", …
        start, end: seconds from the clip's start of its first and last sight.
        first, last: its boxes then, shares of the frame.
        overlap: mean IoU of its steps, 0–1.
        steps: how many it was linked from.
    """

    label: str
    start: float
    end: float
    first: Box
    last: Box
    overlap: float
    steps: int


def step_observation(seen: Observation, later: Observation, overlap: float, confirmed: bool) -> Observation:
    """The observation of a box that was found again.

    Args:
        seen, later: the box (kind "object") in both frames.
        overlap: IoU of ``later`` with the box that was expected there, 0–1.
        confirmed: whether something beyond its place bears the match out.
    """
    (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = seen.box, later.box
    growth = ((bx1 - bx0) * (by1 - by0) / ((ax1 - ax0) * (ay1 - ay0))) ** 0.5 - 1
    return Observation(
        frame=seen.frame,
        time=seen.time,
        kind="object",
        label=seen.label,
        score=round(overlap * (1.0 if confirmed else _UNCONFIRMED_SCORE), 4),
        box=seen.box,
        values={
            "dx": round((bx0 + bx1 - ax0 - ax1) / 2, 5),
            "dy": round((by0 + by1 - ay0 - ay1) / 2, 5),
            "growth": round(growth, 5),
            "overlap": round(overlap, 4),
            "confirmed": float(confirmed),
            "end_frame": later.frame,
            "end_time": later.time,
        },
    )


def link_tracks(observations: Sequence[Observation]) -> list[Track]:
    """Tracks of the things in pair outputs, by start, then label.

    Where a step ends (``end_frame``) the one of the same label that starts there with the best overlap goes on with it;
    each is used once. A short gap in which a thing was missed does not end its track. Other kinds are ignored.
    """
    steps = sorted(
        (seen for seen in observations if seen.kind == "object"), key=lambda seen: (seen.frame, seen.label, seen.box)
    )
    chains: list[list[Observation]] = []
    for frame in sorted({step.frame for step in steps}):
        here = [step for step in steps if step.frame == frame]
        offers = sorted(
            (
                (fit, c, s)
                for c, chain in enumerate(chains)
                for s, step in enumerate(here)
                if (fit := _fit(chain, step))
            ),
            key=lambda offer: (-offer[0], offer[1], offer[2]),
        )
        used_chains, used_steps = set(), set()
        for _, c, s in offers:
            if c not in used_chains and s not in used_steps:
                chains[c].append(here[s])
                used_chains.add(c)
                used_steps.add(s)
        chains += [[step] for s, step in enumerate(here) if s not in used_steps]
    return sorted(map(_track, chains), key=lambda track: (track.start, track.label, track.first))


def end_box(step: Observation) -> Box:
    """Where the box of a pair output ends up in its second frame, shares of the frame."""
    x0, y0, x1, y1 = step.box
    middle_x, middle_y = (x0 + x1) / 2 + step.values["dx"], (y0 + y1) / 2 + step.values["dy"]
    half_x, half_y = (x1 - x0) / 2 * (1 + step.values["growth"]), (y1 - y0) / 2 * (1 + step.values["growth"])
    return (
        max(0.0, middle_x - half_x),
        max(0.0, middle_y - half_y),
        min(1.0, middle_x + half_x),
        min(1.0, middle_y + half_y),
    )


def _fit(chain: Sequence[Observation], step: Observation) -> float:
    """How well a step goes on with a chain: above 1 for one that starts where it ended, 0 for none of it."""
    last = chain[-1]
    gap = step.time - last.values["end_time"]
    if last.label != step.label or step.frame < last.values["end_frame"] or gap > _MAX_GAP_S:
        return 0.0
    before = end_box(last)
    if step.frame == last.values["end_frame"]:
        overlap = overlap_share(before, step.box)
        return 1 + overlap if overlap >= _SAME_BOX else 0.0
    jump = max(abs(before[k] + before[k + 2] - step.box[k] - step.box[k + 2]) / 2 for k in (0, 1))
    return 1 - jump if jump <= _MAX_JUMP else 0.0


def _track(chain: Sequence[Observation]) -> Track:
    overlaps = [step.values["overlap"] for step in chain]
    return Track(
        chain[0].label,
        chain[0].time,
        chain[-1].values["end_time"],
        chain[0].box,
        end_box(chain[-1]),
        sum(overlaps) / len(overlaps),
        len(chain),
    )
