"""Reading the rendered conversation back into things, words and motion. Text is all the scripted policy ever gets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_TIERS = ("high", "medium", "low")
_THING = re.compile(r'(?P<name>"[^"]*"|[^;"\[\]]+?) at \[(?P<box>[\d. ]+)\] (?P<score>[\d.]+)')
_SEGMENT = re.compile(
    r"from (?P<start>[\d.]+) to (?P<end>[\d.]+) s: (?P<label>[^,]+), "
    r"yaw (?P<yaw>[-+][\d.]+) degrees, score (?P<score>[\d.]+)"
)
_LINK = re.compile(r'"(?P<word>[^"]+)" is written on the (?P<thing>.+) \((?P<votes>[\d.]+) of (?P<total>[\d.]+)\)')


@dataclass(frozen=True)
class Seen:
    """A labelled box (shares of width and height) in one frame."""

    frame: int
    time: float
    label: str
    box: tuple[float, float, float, float]
    score: float


@dataclass(frozen=True)
class Moved:
    """A stretch of camera motion."""

    start: float
    end: float
    label: str
    yaw: float
    score: float

    @property
    def turns(self) -> bool:
        """Whether the camera turns (rather than flies on, or stands still)."""
        return self.label.startswith("turn")


@dataclass
class _Motion:
    """The camera's motion as one call tells it."""

    parts: list[Moved] = field(default_factory=list)
    headings: dict[int, float] = field(default_factory=dict)

    @property
    def seen(self) -> float:
        """Seconds of motion, each counted by its score."""
        return sum((part.end - part.start) * part.score for part in self.parts)


@dataclass
class Scene:
    """All that the messages say: the question, and what the tools reported.

    ``links``: word → (thing, share of readings that agree).
    ``headings``: frame → degrees, right positive.
    """

    question: str = ""
    options: dict[str, str] = field(default_factory=dict)
    width: int = 0
    height: int = 0
    duration: float = 0.0
    boxes: list[Seen] = field(default_factory=list)
    reads: list[Seen] = field(default_factory=list)
    motion: list[Moved] = field(default_factory=list)
    headings: dict[int, float] = field(default_factory=dict)
    links: dict[str, tuple[str, float]] = field(default_factory=dict)
    tiers: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    has_evidence: bool = False


def read_scene(messages: Sequence[str]) -> Scene:
    """Parse all messages of a conversation (texts only).

    Of a tool that was called more than once, the result of the better tier is kept; of all motion, that of one call.
    """
    scene = Scene()
    text = "\n".join(messages)
    _read_question(text, scene)
    size = re.search(r"## Frames\n(\d+)x(\d+) pixels, \d+ frames, ([\d.]+) s", text)
    if size:
        scene.width, scene.height, scene.duration = int(size[1]), int(size[2]), float(size[3])
    evidence = re.search(r"## Evidence\n(.*?)(?=\n## |\Z)", text, re.DOTALL)
    if evidence:
        _read_evidence(evidence[1], scene)
    return scene


def _read_question(text: str, scene: Scene) -> None:
    block = re.search(r"## Question\n(.*?)(?=\n## |\n\n|\Z)", text, re.DOTALL)
    if not block:
        return
    head, _, tail = block[1].partition("\nOptions:\n")
    scene.question = head.strip()
    scene.options = {m[1]: m[2].strip() for m in re.finditer(r"^([A-J])\. (.*)$", tail, re.MULTILINE)}


def _read_evidence(text: str, scene: Scene) -> None:
    tier, tool, frame, time = "", "", -1, 0.0
    motions: list[_Motion] = [_Motion()]
    for line in text.splitlines():
        if heading := re.fullmatch(r"### Tier (high|medium|low)", line):
            tier = heading[1]
        elif head := re.match(r"\[\d+\] (\w+): ", line):
            tool = head[1]
            motions.append(_Motion())
        elif line.startswith("  result: "):
            scene.results.setdefault(tool, line.removeprefix("  result: "))
            scene.tiers.setdefault(tool, tier)
            scene.has_evidence = True
        elif place := re.match(r"  frame (\d+) \(([\d.]+) s\): (.*)", line):
            frame, time = int(place[1]), float(place[2])
            _read_things(place[3], frame, time, scene)
        elif segment := _SEGMENT.search(line):
            motions[-1].parts.append(
                Moved(
                    float(segment["start"]),
                    float(segment["end"]),
                    segment["label"],
                    float(segment["yaw"]),
                    float(segment["score"]),
                )
            )
        elif "camera heading" in line:
            motions[-1].headings |= {int(f): float(h) for f, h in re.findall(r"(\d+): ([-+][\d.]+)", line)}
        elif link := _LINK.match(line):
            scene.links[link["word"]] = (link["thing"], float(link["votes"]) / max(float(link["total"]), 1e-9))
    # What two calls saw of one motion is not twice the motion: the call that saw most of it, and best, is believed.
    best = max(motions, key=lambda motion: motion.seen)
    scene.motion, scene.headings = sorted(best.parts, key=lambda m: m.start), best.headings


def _read_things(text: str, frame: int, time: float, scene: Scene) -> None:
    for match in _THING.finditer(text):
        name, values = match["name"].strip(), [float(v) for v in match["box"].split()]
        if len(values) != 4:
            continue
        seen = Seen(frame, time, name.strip('"'), (values[0], values[1], values[2], values[3]), float(match["score"]))
        (scene.reads if name.startswith('"') else scene.boxes).append(seen)
