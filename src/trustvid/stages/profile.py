"""``python -m trustvid profile FILE``: what a method believes of the frames of a video, as timeline and table."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trustvid.errors import ConfigError
from trustvid.reliability.measures import Measures, measure_frame
from trustvid.video.sampling import uniform_indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trustvid.reliability.profile import Profile
    from trustvid.video.source import FrameSource

MOST_PICTURES = 12  # frames shown as pictures; more would be too small to tell apart
INK, TOUCHED, CHOSEN = "0.15", "#e69f00", "#0072b2"  # colours that colour-blind readers can tell apart too


@dataclass(frozen=True)
class Timeline:
    """All that the picture and the table show.

    Attributes:
        clip: the frames, corrupted where that was asked for.
        profile: of the profiled frames.
        chosen: the selected frames, rising; a grid frame between two profiled ones can be among them.
        measures: by frame, of the profiled and of the chosen ones.
        touched: bool [n_frames], frames that a corruption was laid over.
        title: what was done to which file.
    """

    clip: FrameSource
    profile: Profile
    chosen: tuple[int, ...]
    measures: dict[int, Measures]
    touched: np.ndarray
    title: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help="video file")
    parser.add_argument("--reliability", default="relative", metavar="NAME", help="of conf/reliability (relative)")
    parser.add_argument("--selection", default="anchored", metavar="NAME", help="of conf/selection (anchored)")
    parser.add_argument("--frames", type=int, default=8, help="K, frames to choose (default: 8)")
    parser.add_argument("--corruption", metavar="NAME", help="of conf/corruption, to lay over part of the video first")
    parser.add_argument("--severity", type=int, default=3, help="of the corruption, 1–5 (default: 3)")
    parser.add_argument("--coverage", type=float, default=0.5, help="share of the frames it covers (default: 0.5)")
    parser.add_argument("--seed", type=int, default=0, help="of the corruption (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("profile.png"), help="picture (default: profile.png)")
    parser.add_argument("--csv", type=Path, help="also write the numbers there, one line for each frame")


def run(args: argparse.Namespace) -> int:
    """Write the picture, and the table if asked for, and say what is on them. Exit code 0; 2 for unusable input."""
    timeline = measure_timeline(args)
    profile, chosen = timeline.profile, timeline.chosen
    for path in filter(None, (args.out, args.csv)):
        path.parent.mkdir(parents=True, exist_ok=True)
    draw_timeline(timeline).savefig(args.out, dpi=100)
    print(f"{args.out}: {len(profile.indices)} of {timeline.clip.n_frames} frames profiled")
    if args.csv:
        with args.csv.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(table_rows(timeline))
        print(f"{args.csv}: {len(timeline.measures)} frames")
    print(f"chosen: {' '.join(map(str, chosen))}; of these corrupted: {int(timeline.touched[list(chosen)].sum())}")
    if profile.disturbance is not None:
        print(f"dominant disturbance of the chosen frames: {profile.dominant(chosen)}")
    return 0


def measure_timeline(args: argparse.Namespace) -> Timeline:
    """Open, corrupt, profile and select as the arguments say.

    Raises:
        ConfigError: unknown names or values out of range, all in one message.
        VideoError: the file cannot be read.
    """
    from trustvid.config.checking import build
    from trustvid.corruption import corrupt

    config = _checked_config(args)
    clip = build(config["reader"]).open(args.file)
    title = f"{args.file.name}: reliability={args.reliability}, selection={args.selection}, K={args.frames}"
    if args.corruption:
        clip = corrupt(clip, build(config["corruption"][args.corruption]), args.severity, args.coverage, args.seed)
        title += f"; {args.corruption}, severity {args.severity}, {args.coverage:.0%} of the frames"
    measures: dict[int, Measures] = {}

    def measure(clip: FrameSource, indices: Sequence[int]) -> np.ndarray:
        for index in indices:
            if index not in measures:
                measures[index] = measure_frame(clip.frames([index])[0])
        return np.array([measures[index] for index in indices])

    profile = build(config["reliability"]).profile(clip, measure)
    chosen = build(config["selection"]).select(profile, clip.n_frames, args.frames)
    measure(clip, sorted({*profile.indices, *chosen}))
    touched = clip.touched if args.corruption else np.zeros(clip.n_frames, dtype=bool)
    return Timeline(clip, profile, chosen, dict(sorted(measures.items())), touched, title)


def _checked_config(args: argparse.Namespace) -> dict[str, Any]:
    """The composed config, after a look at every argument."""
    from omegaconf import OmegaConf

    from trustvid.config.checking import build
    from trustvid.config.compose import compose_config, group_options
    from trustvid.corruption import SEVERITIES

    faults = []
    for group in ("reliability", "selection", "corruption"):
        name, known = getattr(args, group), group_options(group)
        if name is not None and name not in known:
            faults.append(f"--{group} {name} does not exist; known: {', '.join(known)}")
    if args.severity not in SEVERITIES:
        faults.append(f"--severity {args.severity}; expected 1 to 5")
    if not 0 <= args.coverage <= 1:
        faults.append(f"--coverage {args.coverage:g}; expected a share of the frames, 0 to 1")
    for option, path, suffix in (("--out", args.out, ".png"), ("--csv", args.csv, ".csv")):
        if path and path.suffix.lower() != suffix:
            faults.append(f"{option} {path}; expected a name that ends in {suffix}")
    if not faults:
        choices = [f"+reliability={args.reliability}", f"+selection={args.selection}"]
        choices.append(f"corruption=[{args.corruption or ''}]")
        config = OmegaConf.to_container(compose_config([*choices, "methods=[]"]), resolve=True)
        selection = build(config["selection"])
        if not selection.k_min <= args.frames <= selection.k_max:
            expected = f"{selection.k_min} to {selection.k_max}"
            faults.append(f"--frames {args.frames}; selection={args.selection} keeps {expected}")
    if faults:
        raise ConfigError(faults)
    return config


# -- table -------------------------------------------------------------------------------------------------------------


def table_rows(timeline: Timeline) -> Iterator[list[Any]]:
    """Head and one row for each profiled or chosen frame; what a method does not know of a frame is left empty."""
    profile, clip = timeline.profile, timeline.clip
    channels = {f"channel_{name}": values for name, values in profile.raw.items()}
    known = {**channels, "d": profile.disturbance, "reliability": profile.reliability}
    yield ["frame", "time_s", *Measures._fields, *known, "selected", "touched"]
    places = {index: place for place, index in enumerate(profile.indices)}
    for index, measures in timeline.measures.items():
        place = places.get(index)
        cells = ["" if place is None or values is None else f"{values[place]:.5f}" for values in known.values()]
        marks = [int(index in timeline.chosen), int(timeline.touched[index])]
        yield [index, f"{clip.timestamps[index]:.3f}", *(f"{value:.5f}" for value in measures), *cells, *marks]


# -- picture -----------------------------------------------------------------------------------------------------------


def draw_timeline(timeline: Timeline) -> Figure:
    """Chosen frames as pictures, tied to their moments; reliability over time; the channels as a heat strip."""
    from matplotlib.figure import Figure

    profile = timeline.profile
    strips = [*profile.raw.items()]
    if profile.disturbance is not None:
        strips.append(("d", profile.disturbance))
    figure = Figure(figsize=(13, 4.6 + 0.32 * len(strips)), layout=None)
    heights = (1.5, 0.45, 1.7, 0.06, max(0.32 * len(strips), 0.01))
    grid = figure.add_gridspec(
        5, 2, height_ratios=heights, width_ratios=(1, 0.012), hspace=0.06, wspace=0.02,
        left=0.085, right=0.935, top=0.9, bottom=0.62 / figure.get_figheight(),
    )  # fmt: skip
    curve = figure.add_subplot(grid[2, 0])
    _draw_reliability(curve, timeline)
    _draw_pictures(figure, grid[0, 0], curve, timeline)
    lowest = curve
    if strips:
        lowest = figure.add_subplot(grid[4, 0], sharex=curve)
        _draw_strips(lowest, figure.add_subplot(grid[4, 1]), timeline, strips)
        curve.tick_params(labelbottom=False)
    lowest.set_xlabel(f"time, s ({len(profile.indices)} of {timeline.clip.n_frames} frames profiled)")
    figure.suptitle(timeline.title, x=0.085, y=0.975, ha="left", fontsize=11)
    return figure


def _edges(times: np.ndarray) -> np.ndarray:
    """[n + 1] borders of the stretches for which the n profiled frames stand: halfway between neighbours."""
    if len(times) == 1:
        return np.array([times[0] - 0.5, times[0] + 0.5])
    halfway = (times[1:] + times[:-1]) / 2
    return np.concatenate([[times[0]], halfway, [times[-1]]])


def _draw_reliability(axes: Axes, timeline: Timeline) -> None:
    profile, times = timeline.profile, timeline.clip.timestamps
    moments = times[list(profile.indices)]
    edges = _edges(moments)
    for first, last in _runs(timeline.touched):
        axes.axvspan(*_span(times, first, last), color=TOUCHED, alpha=0.25, lw=0, label="corrupted")
    axes.plot(moments, profile.reliability, color=INK, lw=1.2, marker=".", ms=4, label="profiled")
    at = np.interp(times[list(timeline.chosen)], moments, profile.reliability)
    axes.plot(
        times[list(timeline.chosen)], at, "o", color=CHOSEN, ms=7, mfc="none", mew=2, clip_on=False, label="chosen"
    )
    what = "P(read and detect)" if profile.yields else "1 − d"
    axes.set_ylabel("reliability\n" + ("not measured" if profile.disturbance is None else what))
    axes.set(ylim=(-0.04, 1.04), xlim=(edges[0], edges[-1]), yticks=(0, 0.5, 1))
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))  # one entry for all corrupted runs
    axes.legend(handles.values(), handles.keys(), loc="upper left", bbox_to_anchor=(1.012, 1.03), fontsize=7.5,
                frameon=False, handlelength=1.2, borderaxespad=0)  # fmt: skip


def _draw_strips(axes: Axes, scale: Axes, timeline: Timeline, strips: Sequence[tuple[str, np.ndarray]]) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    edges = _edges(timeline.clip.timestamps[list(timeline.profile.indices)])
    values = np.stack([row for _, row in strips])
    colours = {"cmap": "magma_r", "norm": Normalize(0, 1)}
    axes.pcolormesh(edges, np.arange(len(strips) + 1), values, **colours)
    axes.hlines(np.arange(1, len(strips)), edges[0], edges[-1], color="white", lw=1.5)
    axes.set_yticks(np.arange(len(strips)) + 0.5, [name for name, _ in strips])
    axes.tick_params(axis="y", length=0)
    axes.invert_yaxis()
    bar = axes.figure.colorbar(ScalarMappable(**colours), cax=scale, ticks=(0, 0.5, 1))
    bar.set_label("disturbance", fontsize=8)
    bar.ax.tick_params(labelsize=8)


def _draw_pictures(figure: Figure, place: Any, curve: Axes, timeline: Timeline) -> None:
    from matplotlib.patches import ConnectionPatch

    chosen, times = timeline.chosen, timeline.clip.timestamps
    shown = [chosen[i] for i in uniform_indices(len(chosen), MOST_PICTURES)]
    cells = place.subgridspec(1, max(len(shown), 6), wspace=0.08)
    for cell, index in zip(cells, shown, strict=False):
        axes = figure.add_subplot(cell)
        axes.imshow(timeline.clip.frames([index])[0])
        axes.set_anchor("S")
        axes.set(xticks=(), yticks=())
        colour = TOUCHED if timeline.touched[index] else INK
        for spine in axes.spines.values():
            spine.set(color=colour, lw=2)
        axes.set_title(f"frame {index}\n{times[index]:.2f} s", fontsize=8, pad=3)
        figure.add_artist(
            ConnectionPatch(
                (0.5, 0), (times[index], 1.04), axes.transAxes, curve.transData, color=CHOSEN, lw=0.9, zorder=0
            )
        )
    if len(shown) < len(chosen):
        figure.text(0.935, 0.93, f"{len(shown)} of {len(chosen)} chosen frames shown", ha="right", fontsize=8)


def _runs(mask: np.ndarray) -> Iterator[tuple[int, int]]:
    """First and last frame of each run of True."""
    borders = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(int)))
    return ((int(first), int(last) - 1) for first, last in pairwise(borders) if mask[first])


def _span(times: np.ndarray, first: int, last: int) -> tuple[float, float]:
    """The stretch of time of frames first…last: halfway to the frames on either side."""
    return (
        float(times[first] + times[max(first - 1, 0)]) / 2,
        float(times[last] + times[min(last + 1, len(times) - 1)]) / 2,
    )
