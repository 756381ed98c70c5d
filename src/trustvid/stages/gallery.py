"""``python -m trustvid gallery FILE``: what each corruption does to a frame of a video, as one labelled picture."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trustvid.errors import ConfigError, TrustvidError

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

    from trustvid.corruption import Corruption
    from trustvid.video.source import FrameSource

GAP = 6  # pixels between pictures
FONT_SIZE = 13
INK, PAPER, FAINT = (20, 20, 20), (255, 255, 255), (110, 110, 110)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help="video file")
    parser.add_argument("--corruptions", nargs="+", metavar="NAME", help="names of conf/corruption (default: all)")
    parser.add_argument("--severities", nargs="+", type=int, default=[1, 3, 5], help="1–5 (default: 1 3 5)")
    moment = parser.add_mutually_exclusive_group()
    moment.add_argument("--time", type=float, metavar="S", help="seconds from the first frame (default: the middle)")
    moment.add_argument("--frame", type=int, metavar="I", help="index of the frame")
    parser.add_argument("--seed", type=int, default=0, help="seed of the corruptions (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("gallery.png"), help="PNG file (default: gallery.png)")
    parser.add_argument("--width", type=int, default=240, help="of each picture, in pixels (default: 240)")


def run(args: argparse.Namespace) -> int:
    """Write the sheet and say where. Exit code 0; 2 for unusable input."""
    from omegaconf import OmegaConf

    from trustvid.config.checking import build
    from trustvid.config.compose import compose_config, group_options

    known = group_options("corruption")
    names = args.corruptions or known
    check(args, names, known)
    config = OmegaConf.to_container(compose_config([f"corruption=[{','.join(names)}]"]), resolve=True)
    clip = build(config["reader"]).open(args.file)
    index = moment_index(clip, args.time, args.frame)
    operators = {name: build(config["corruption"][name]) for name in names}
    sheet = draw_sheet(clip, index, operators, args.severities, args.width, args.seed)
    save(sheet, args.out)
    print(
        f"{args.out}: frame {index} of {args.file.name}, corruptions: {len(names)}, severities: {len(args.severities)}"
    )
    return 0


def check(args: argparse.Namespace, names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse what the config and the parser cannot.

    Raises:
        ConfigError: with all faults together.
    """
    faults = [f"--corruptions {name} does not exist; known: {', '.join(known)}" for name in names if name not in known]
    faults += [f"--severities {value}; expected 1 to 5" for value in args.severities if not 1 <= value <= 5]
    for option, values in (("--corruptions", names), ("--severities", args.severities)):
        faults += [f"{option} {value} is given twice" for value in sorted({v for v in values if values.count(v) > 1})]
    if args.width < 16:
        faults.append(f"--width {args.width}; expected at least 16 pixels")
    if args.out.suffix.lower() != ".png":
        faults.append(f"--out {args.out}; expected a name that ends in .png")
    if faults:
        raise ConfigError(faults)


def moment_index(clip: FrameSource, time: float | None, frame: int | None) -> int:
    """The frame at a time (the nearest), by its index, or in the middle of the clip.

    Raises:
        TrustvidError: the clip has no such moment.
    """
    last = clip.n_frames - 1
    if frame is not None:
        if not 0 <= frame <= last:
            raise TrustvidError(f"--frame {frame} is outside of {clip.video_id}; expected 0 to {last}")
        return frame
    if time is None:
        return clip.n_frames // 2
    end = float(clip.timestamps[-1])
    if not 0 <= time <= end + 1 / clip.fps:
        raise TrustvidError(f"--time {time:g} is outside of {clip.video_id}; expected 0 to {end:.2f} s")
    return int(np.abs(clip.timestamps - time).argmin())


def draw_sheet(
    clip: FrameSource,
    index: int,
    operators: Mapping[str, Corruption],
    severities: Sequence[int],
    width: int = 240,
    seed: int = 0,
) -> np.ndarray:
    """One row for each corruption, one column for each severity, above them the clean frame; labelled.

    Where a corruption shows another frame of the video, the picture says which.

    Args:
        clip: any frame source.
        index: the frame.
        operators: corruptions by name, in the order of the rows.
        severities: 1–5, in the order of the columns.
        width: of each picture, pixels.
        seed: of the corruptions.

    Returns:
        uint8 RGB [height, width, 3].
    """
    from PIL import Image, ImageDraw, ImageFont

    from trustvid.corruption import corrupt

    font = ImageFont.load_default(FONT_SIZE)
    line = FONT_SIZE + 5
    height = max(1, round(width * clip.height / clip.width))
    left = GAP + max(int(font.getlength(name)) for name in (*operators, "clean")) + GAP
    head = GAP + height + GAP + line  # the clean frame, then the names of the columns
    facts = _facts(clip, index, seed)
    beside = left + width + GAP + max(int(font.getlength(text)) for text in facts) + GAP
    size = (max(left + len(severities) * (width + GAP), beside), head + len(operators) * (height + GAP))
    sheet = Image.new("RGB", size, PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((GAP, GAP), "clean", INK, font)
    sheet.paste(_resized(clip.frames([index])[0], width, height), (left, GAP))
    draw.multiline_text((left + width + GAP, GAP), "\n".join(facts), FAINT, font, spacing=5)
    for column, severity in enumerate(severities):
        draw.text((left + column * (width + GAP), head - line), f"severity {severity}", INK, font)
    for row, (name, operator) in enumerate(operators.items()):
        top = head + row * (height + GAP)
        draw.text((GAP, top), name, INK, font)
        for column, severity in enumerate(severities):
            view = corrupt(clip, operator, severity, 1.0, seed)
            place = (left + column * (width + GAP), top)
            sheet.paste(_resized(view.frames([index])[0], width, height), place)
            if view.source_index(index) != index:
                _tag(draw, font, place, f"frame {view.source_index(index)}")
    return np.asarray(sheet)


def save(sheet: np.ndarray, path: Path) -> None:
    """Write a picture as PNG; its folder is made if needed."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(sheet).save(path)


def _facts(clip: FrameSource, index: int, seed: int) -> list[str]:
    """What the sheet shows, in lines to be written beside the clean frame."""
    return [
        clip.video_id,
        f"frame {index} of {clip.n_frames}, {clip.timestamps[index]:.2f} s",
        f"{clip.width}x{clip.height} pixels, seed {seed}",
    ]


def _tag(draw: ImageDraw, font: Any, place: tuple[int, int], text: str) -> None:
    """A small label on the corner of a picture."""
    x, y = place
    draw.rectangle((x, y, x + int(font.getlength(text)) + 6, y + FONT_SIZE + 4), PAPER)
    draw.text((x + 3, y + 1), text, INK, font)


def _resized(frame: np.ndarray, width: int, height: int) -> Any:
    """A frame as a Pillow picture of this size."""
    from PIL import Image

    return Image.fromarray(frame).resize((width, height), Image.Resampling.LANCZOS)
