"""Labels for calibration: what there was to report in a frame, and whether a report is right.

Two sources say what there was. *Truth*: the generator of the embedded benchmark, for tools that have its names for
things and motion. *Agreement*: what the same tool reports on the clean video, taken as if it were true; it needs no
labels and suits every backend, and it cannot see what a tool always misses or always gets wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from trustvid.agent.synthesis import match_word
from trustvid.tools.evidence import Observation
from trustvid.tools.vision.colour import overlap_share

if TYPE_CHECKING:
    from trustvid.benchmarks.boxworld.truth import ClipTruth, SeenBox

Task = Literal["thing", "colour", "word", "motion", "action", "caption"]
Unit = tuple[int, ...]  # the frame, or the first and last frame of a step

TASK_OF_KIND: dict[str, Task] = {
    "object": "thing",
    "text": "word",
    "motion": "motion",
    "action": "action",
    "caption": "caption",
}
# What a tool is for where the truth is known. Of the rest it may report, only the rightness is counted.
DUTIES: dict[str, tuple[Task, ...]] = {
    "read_text": ("word",),
    "detect_objects": ("thing", "colour"),
    "recognize_action": ("motion",),
    "track_temporal": ("thing", "colour", "motion"),
    "caption_frame": ("thing", "colour", "word"),
}
SAME_WORDS = 0.5  # share of two captions' words that they have in common, from which they say the same
OVERLAP = 0.5  # least intersection over union of a thing's box with the true one
VISIBLE_PX = 150  # visible pixels from which a landmark ought to be found
READABLE_PX, LETTER_PX = 500, 6  # plate pixels, and pixels a letter, from which a sign ought to be read
BORDER = 0.005  # a sign nearer than this share of the width to the frame's side may be cut off
TURN_RATE, SLACK = 8.0, 2.0  # degrees a second that make a turn, and how far from it either name is right
FRAME_WIDTH = 320  # of the embedded benchmark's frames, to which the pixel counts above belong


@dataclass(frozen=True)
class Target:
    """One thing that a report can be right about.

    Attributes:
        task: "thing" (label and place), "colour" (a thing's label, place only roughly), "word", "motion", "action" or
            "caption" (its words, more or less).
        labels: any of these is right.
        box: where it is, shares of the frame; None for motion.
        key: its name within the unit, the same for every tool.
        expected: whether it is plain enough that a tool ought to report it; a report is right about the others too.
    """

    task: Task
    labels: tuple[str, ...]
    box: tuple[float, float, float, float] | None
    key: str
    expected: bool = True


class Labels(Protocol):
    """A source of targets.

    Attributes:
        words: the words that readings are matched to, as an answer would match them to the words of its question; None
            where a reading is compared with its target alone.
        unknown: labels of which the source knows nothing: such reports are neither right nor wrong.
    """

    words: Sequence[str] | None
    unknown: frozenset[str]

    def targets(self, tool: str, unit: Unit, seconds: float) -> list[Target]:
        """What there was for a tool to report in a unit; ``seconds`` is the duration of a step."""
        ...

    def duties(self, tool: str) -> tuple[Task, ...]:
        """The tasks in which a tool's silence about a target counts against it."""
        ...

    def units(self, tool: str) -> Sequence[Unit]:
        """Units in which there was something to report that nothing but a tool's own clean reports tells of."""
        ...


class TruthLabels:
    """Targets of a clip of the embedded benchmark; they are the same for every tool."""

    unknown = frozenset({"sign"})  # plates are known as parts of landmarks, not one by one

    def __init__(self, truth: ClipTruth):
        self.words = tuple(word for word in truth.words if word)
        self._truth = truth
        self._of_frame: dict[int, list[Target]] = {}

    def targets(self, tool: str, unit: Unit, seconds: float) -> list[Target]:
        """Landmarks and signs of the (first) frame; and the camera's motion for a step."""
        if unit[0] not in self._of_frame:
            seen = self._truth.seen(unit[0])
            self._of_frame[unit[0]] = [target for box in seen for target in _landmark_targets(box)]
        motion = [self._motion(unit, seconds)] if len(unit) == 2 else []
        return self._of_frame[unit[0]] + motion

    def duties(self, tool: str) -> tuple[Task, ...]:
        """What the tool is for; an unknown one is for everything."""
        return DUTIES.get(tool, tuple(TASK_OF_KIND.values()))

    def units(self, tool: str) -> Sequence[Unit]:
        """None: what there was is known of every frame and step that the tool looked at."""
        return ()

    def _motion(self, unit: Unit, seconds: float) -> Target:
        motion = self._truth.motion(*unit)
        rate = motion.yaw_deg / seconds
        turn = "turn right" if rate > 0 else "turn left"
        straight = "forward" if motion.metres > 0 else "still"
        labels = [straight] if abs(rate) < TURN_RATE + SLACK else []
        if abs(rate) >= TURN_RATE - SLACK:
            labels.append(turn)
        return Target("motion", tuple(labels), None, "camera")


def _landmark_targets(seen: SeenBox) -> list[Target]:
    """A landmark as a thing, as a colour, and as the word on it."""
    visible = seen.pixels >= VISIBLE_PX
    readable = False
    if seen.plate is not None:
        left, _, right, _ = seen.plate
        whole = left > BORDER and right < 1 - BORDER
        readable = seen.plate_pixels >= READABLE_PX and whole
        readable = readable and (right - left) * FRAME_WIDTH >= LETTER_PX * len(seen.word)
    return [
        Target("thing", (seen.colour,), seen.box, seen.colour, visible),
        Target("colour", (seen.colour,), seen.box, seen.colour, visible),
        Target("word", (seen.word,), seen.box, seen.word, readable),
    ]


class AgreementLabels:
    """Targets of a tool in a unit are its own reports there on the clean video.

    Args:
        clean: tool → unit → its reports.
    """

    words = None
    unknown: frozenset[str] = frozenset()

    def __init__(self, clean: Mapping[str, Mapping[Unit, Sequence[Observation]]]):
        self._clean = clean

    def targets(self, tool: str, unit: Unit, seconds: float) -> list[Target]:
        """One for each clean report."""
        found = []
        for number, seen in enumerate(self._clean[tool].get(unit, ())):
            task = TASK_OF_KIND[seen.kind]
            found.append(Target(task, (seen.label,), seen.box, f"{task} {number}"))
            if task == "thing":
                found.append(Target("colour", (seen.label,), seen.box, f"colour {number}"))
        return found

    def duties(self, tool: str) -> tuple[Task, ...]:
        """Everything: whatever a backend reports of the clean video (actions, captions), it ought to report again."""
        return (*TASK_OF_KIND.values(), "colour")

    def units(self, tool: str) -> Sequence[Unit]:
        """Those of its clean reports."""
        return tuple(self._clean[tool])


def is_right(report: Observation, target: Target, words: Sequence[str] | None) -> bool:
    """Whether a report is right about a target (for the task "colour": whether it names the thing near its place).

    A thing's label is right when it is, or starts with, the target's ("red box" for "red"); a word when the reading
    would be matched to it among ``words``. Places are compared where both have one.
    """
    task = TASK_OF_KIND[report.kind]
    if "caption" in (task, target.task):
        return task == target.task and any(_words_shared(report.label, label) >= SAME_WORDS for label in target.labels)
    if {"motion", "action"} & {task, target.task}:
        return task == target.task and report.label in target.labels
    if task == "word" or target.task == "word":
        if task != target.task:
            return False
        wanted = tuple(label.upper() for label in target.labels)
        return match_word(report.label, words or wanted) in wanted and _holds(target, report)
    named = any(report.label == label or report.label.startswith(f"{label} ") for label in target.labels)
    if target.task == "colour" or report.box is None or target.box is None:
        return named and _holds(target, report)
    return named and overlap_share(report.box, target.box) >= OVERLAP


def _words_shared(a: str, b: str) -> float:
    """Jaccard index of the words of two sentences."""
    first, second = ({word.strip(".,;:!?") for word in text.lower().split()} for text in (a, b))
    return len(first & second) / max(len(first | second), 1)


def _holds(target: Target, report: Observation) -> bool:
    """Whether the middle of a report's box lies within the target's left and right edge, where both have a box."""
    if report.box is None or target.box is None:
        return True
    return target.box[0] <= (report.box[0] + report.box[2]) / 2 <= target.box[2]
