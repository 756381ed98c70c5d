"""Everything the policy is told, as text: the question, the frames, their reliability, and the evidence.

The formats below are what prompts show to any policy, a VLM or the scripted one; they carry frame ids, d and whole
results, which the original left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from trustvid.agent.synthesis import Link
from trustvid.reliability.profile import Profile
from trustvid.tools.evidence import Evidence, Observation, SubQuery
from trustvid.tools.motion import merge_motion
from trustvid.video.source import FrameSource

_LISTED_FRAMES = 24  # more are told by their number, the first and the last


def question_block(question: str, letters: Sequence[str], options: Sequence[str]) -> str:
    """The question and its lettered options."""
    lines = ["## Question", question.strip()]
    if options:
        lines += ["Options:", *(f"{letter}. {option}" for letter, option in zip(letters, options, strict=True))]
    return "\n".join(lines)


def brief_question_block(question: str) -> str:
    """The last sentence of a question, without options: what is asked, where the rest sets the scene.

    >>> brief_question_block("You stand at the TV. Where is the LAMP?")
    '## Question\\nWhere is the LAMP?'
    """
    return "## Question\n" + re.split(r"(?<=[.?!]) +(?=[A-Z])", question.strip())[-1]


def letter_range(letters: Sequence[str]) -> str:
    """ "A to E", as prompts name the real range; "" without options."""
    return f"{letters[0]} to {letters[-1]}" if letters else ""


def frames_block(clip: FrameSource, frames: Sequence[int]) -> str:
    """Size and length of the clip, index and time of the frames shown."""
    shown = "; ".join(f"{index} ({clip.timestamps[index]:.2f} s)" for index in frames) or "none"
    return (
        f"## Frames\n{clip.width}x{clip.height} pixels, {clip.n_frames} frames, "
        f"{clip.timestamps[-1]:.2f} s. Frames shown: {shown}"
    )


def profile_block(profile: Profile, frames: tuple[int, ...]) -> str:
    """Reliability of the frames shown and the dominant disturbance, or that nothing is known."""
    if profile.disturbance is None:
        return "## Reliability\nnot measured"
    listed = "; ".join(f"{index}: {r:.2f}" for index, r in zip(frames, profile.reliability_of(frames), strict=True))
    means = ", ".join(f"{name} {value:.2f}" for name, value in profile.mean_raw(frames).items())
    return f"## Reliability\nframe reliability {listed}\nmean disturbance {means}; dominant: {profile.dominant(frames)}"


def sub_queries_block(
    queries: Sequence[SubQuery], candidates: Sequence[Sequence[str]], costs: Mapping[str, float]
) -> str:
    """The numbered sub-queries, each with the tools it may go to and what a call of them costs."""
    lines = ["## Sub-queries"]
    for number, (query, tools) in enumerate(zip(queries, candidates, strict=True), 1):
        listed = ", ".join(f"{tool} (cost {costs[tool]:.2f})" for tool in tools) or "none is installed"
        lines.append(f"{number}. {query.type}: {query.text} | tools: {listed}")
    return "\n".join(lines)


def brief_sub_queries_block(queries: Sequence[SubQuery], candidates: Sequence[Sequence[str]]) -> str:
    """Number, type and candidates of each sub-query: "1 text: read_text caption_frame"."""
    lines = [
        f"{number} {query.type}: {' '.join(tools) or 'none'}"
        for number, (query, tools) in enumerate(zip(queries, candidates, strict=True), 1)
    ]
    return "\n".join(["## Tools", *lines])


def evidence_block(
    evidence: Sequence[Evidence], links: Sequence[Link], clip: FrameSource, frames: Sequence[int]
) -> str:
    """All evidence, by tier where there are tiers, followed by which word is written on which thing.

    ``frames``: the selected ones, for which motion evidence tells the camera's heading.
    """
    if not evidence:
        return "## Evidence\nnone was gathered"
    lines = ["## Evidence"]
    tiers = [tier for tier in ("high", "medium", "low", None) if any(e.tier == tier for e in evidence)]
    for tier in tiers:
        if tier:
            lines.append(f"### Tier {tier}")
        for number, item in enumerate(evidence, 1):
            if item.tier == tier:
                lines += _evidence_lines(number, item, clip, frames)
    if links:
        lines.append("### Words on things")
        lines += [
            f'"{link.word}" is written on the {link.thing} ({link.votes:.2f} of {link.total:.2f})' for link in links
        ]
    return "\n".join(lines)


def brief_evidence_block(evidence: Sequence[Evidence]) -> str:
    """One line a call: number, tool, tier (or c, where there are no tiers, in hundredths), number of observations.

    "2 detect_objects c62 n30", "3 read_text low n2", or "1 caption_frame failed".
    """
    if not evidence:
        return "## Evidence\nnone was gathered"
    lines = []
    for number, item in enumerate(evidence, 1):
        worth = item.tier or f"c{_hundredths(item.confidence)}"
        told = "failed" if item.error else f"{worth} n{len(item.observations)}"
        lines.append(f"{number} {item.tool} {told}")
    return "\n".join(["## Evidence", *lines])


def support_block(shares: Mapping[str, float] | None) -> str:
    """How far the evidence speaks for each option: letters in the order of the options, shares as 0.00 to 0.99.

    No place and no width tells the best one. "none" where nothing is settled.

    >>> support_block({"A": 0.05, "B": 0.85, "C": 0.1})
    '### Pooled support\\nA 0.05, B 0.85, C 0.10'
    """
    listed = ", ".join(f"{letter} 0.{_hundredths(share)}" for letter, share in (shares or {}).items())
    return f"### Pooled support\n{listed or 'none'}"


def brief_support_block(shares: Mapping[str, float] | None) -> str:
    """The same in hundredths, two digits each.

    >>> brief_support_block({"A": 0.05, "B": 0.85, "C": 0.1})
    '### Pooled support\\nA05 B85 C10'
    """
    listed = " ".join(f"{letter}{_hundredths(share)}" for letter, share in (shares or {}).items())
    return f"### Pooled support\n{listed or 'none'}"


def _hundredths(share: float) -> str:
    return f"{min(round(100 * share), 99):02d}"


def _evidence_lines(number: int, item: Evidence, clip: FrameSource, selected: Sequence[int]) -> list[str]:
    head = f"[{number}] {item.tool}: {item.sub_query.text}"
    if item.tier or any(seen.confidence is not None for seen in item.observations):
        head += f" | confidence {item.confidence:.2f}"
    if item.disturbance:
        head += f" | mean d {sum(item.disturbance) / len(item.disturbance):.2f}"
    if item.error:
        return [head, f"  failed ({item.error.kind}): {item.error.message}"]
    moves = any(seen.kind == "motion" for seen in item.observations)
    dense = moves or len(item.frames) > _LISTED_FRAMES
    if dense:
        looked = f"{len(item.frames)} frames from {item.frames[0]} to {item.frames[-1]}"
    else:
        looked = "frames " + " ".join(str(frame) for frame in item.frames)
    lines = [head, f"  looked at {looked}", f"  result: {item.result}"]
    lines += [f"  note: {item.note}"] if item.note else []
    lines += _motion_lines(item, clip, selected) if moves else []
    # A tool that follows things sees every frame of its window: those shown to the policy are told.
    return lines + _thing_lines(item, set(selected) if dense else None)


def _thing_lines(item: Evidence, only: set[int] | None) -> list[str]:
    """What was seen in each frame (of ``only``, where given)."""
    by_frame: dict[int, list[Observation]] = {}
    for seen in item.observations:
        if seen.kind not in ("motion", "quality") and (only is None or seen.frame in only):
            by_frame.setdefault(seen.frame, []).append(seen)
    return [
        f"  frame {frame} ({seen[0].time:.2f} s): {'; '.join(_thing(one) for one in seen)}"
        for frame, seen in sorted(by_frame.items())
    ]


def _thing(seen: Observation) -> str:
    if seen.kind in ("action", "caption"):
        return f"{seen.label} ({seen.weight:.2f})"
    name = f'"{seen.label}"' if seen.kind == "text" else seen.label
    place = " ".join(f"{value:.3f}" for value in seen.box) if seen.box else "?"
    return f"{name} at [{place}] {seen.weight:.2f}"


def _motion_lines(item: Evidence, clip: FrameSource, selected: Sequence[int]) -> list[str]:
    segments = [
        f"  from {s.start:.2f} to {s.end:.2f} s: {s.label}, yaw {s.yaw_deg:+.1f} degrees, score {s.score:.2f}"
        for s in merge_motion(item.observations)
    ]
    headings = "; ".join(
        f"{frame}: {heading_at(item.observations, float(clip.timestamps[frame])):+.1f}" for frame in selected
    )
    return [*segments, f"  camera heading (degrees, right positive) at frame {headings}"]


def heading_at(observations: Sequence[Observation], time: float) -> float:
    """Yaw in degrees, right positive, from the clip's start to ``time``; unseen stretches count as no turn."""
    total = 0.0
    for step in (seen for seen in observations if seen.kind == "motion"):
        end = step.values["end_time"]
        if step.time < time:
            total += step.values["yaw_deg"] * min(1.0, (time - step.time) / max(end - step.time, 1e-9))
    return total
