"""``python -m trustvid probe FILE``: what a video really holds, and a look at a uniform selection of its frames."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from trustvid.errors import TrustvidError
from trustvid.video.clip import Clip
from trustvid.video.reader import Kind, open_clip
from trustvid.video.sampling import uniform_indices

_CHUNK = 16  # frames held at a time


@dataclasses.dataclass(frozen=True)
class ProbeReport:
    """What a video holds, found by reading it.

    Attributes:
        file: the path as given.
        frames_found: frames that really decode.
        frames_promised: what the container claims, or None where it claims nothing.
        indices: the uniform selection; each of these frames was decoded.
        timestamps: seconds from the first frame, one for each of ``indices``.
        width, height: pixels as displayed.
        rotation: degrees, clockwise, by which the stored picture was turned.
        fps, duration: mean rate; seconds to the end of the last frame.
        codec, container: FFmpeg's names.
        reader: the back end that really decoded.
        warnings: facts a user should know, each naming the file.
    """

    file: str
    frames_found: int
    frames_promised: int | None
    indices: tuple[int, ...]
    timestamps: tuple[float, ...]
    width: int
    height: int
    rotation: int
    fps: float
    duration: float
    codec: str
    container: str
    reader: str
    warnings: tuple[str, ...]


def probe(path: Path | str, frames: int = 16, reader: Kind = "auto", dump: Path | str | None = None) -> ProbeReport:
    """Reads ``frames`` frames spread evenly over a video, and says what it is.

    Args:
        path: the video.
        frames: how many frames to read; a shorter video gives all it has.
        reader: see :class:`~trustvid.video.reader.Reader`.
        dump: a folder to write the frames to, as frame_<index>.png; made if needed.

    Raises:
        VideoError: the file is no video, or one of the frames cannot be decoded.
        ConfigError: an unknown reader, or decord where it is not installed.
        ValueError: fewer than one frame asked for.
        OSError: the folder cannot be written to.
    """
    with open_clip(path, reader) as clip:
        indices = uniform_indices(clip.n_frames, frames)
        for index, picture in _read_in_chunks(clip, indices):
            if dump is not None:
                _write_png(Path(dump) / f"frame_{index:06d}.png", picture)
        return _report(str(path), clip, indices)


def _report(file: str, clip: Clip, indices: list[int]) -> ProbeReport:
    return ProbeReport(
        file=file,
        frames_found=clip.frames_found,
        frames_promised=clip.frames_promised,
        indices=tuple(indices),
        timestamps=tuple(round(float(clip.timestamps[index]), 6) for index in indices),
        width=clip.width,
        height=clip.height,
        rotation=clip.rotation,
        fps=round(clip.fps, 6),
        duration=round(clip.duration, 6),
        codec=clip.codec,
        container=clip.decode_record()["container"],
        reader=clip.reader,
        warnings=clip.warnings,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of ``probe``."""
    parser.add_argument("file", type=Path, help="the video")
    parser.add_argument("--frames", type=_positive, default=16, metavar="N", help="frames to read (default: 16)")
    parser.add_argument("--dump", type=Path, metavar="DIR", help="write the frames there as PNG")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--reader", choices=("auto", "decord", "pyav"), default="auto", help="default: auto")


def run(args: argparse.Namespace) -> int:
    """Prints the report; returns the exit code: 0, or 2 where the file cannot be read or the frames not be written."""
    try:
        report = probe(args.file, args.frames, args.reader, args.dump)
    except (TrustvidError, OSError) as error:
        failure = {"error": str(error), "file": str(args.file)}
        print(json.dumps(failure, ensure_ascii=False) if args.json else f"error  {error}")
        return 2
    print(json.dumps(dataclasses.asdict(report), ensure_ascii=False) if args.json else _as_text(report))
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number of frames from 1 up, got {text}")
    return value


def _read_in_chunks(clip: Clip, indices: list[int]) -> Iterator[tuple[int, np.ndarray]]:
    for start in range(0, len(indices), _CHUNK):
        chunk = indices[start : start + _CHUNK]
        yield from zip(chunk, clip.frames(chunk), strict=True)


def _write_png(path: Path, picture: np.ndarray) -> None:
    """Writes the file whole or not at all."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        Image.fromarray(picture).save(temporary, format="PNG")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _as_text(report: ProbeReport) -> str:
    """Aligned lines, one fact each; selected frames as two columns of numbers that line up."""
    promised = "nothing" if report.frames_promised is None else report.frames_promised
    facts = {
        "file": report.file,
        "frames_found": f"{report.frames_found}",
        "frames_promised": promised,
        "width": report.width,
        "height": report.height,
        "rotation": report.rotation,
        "fps": f"{report.fps:.3f}",
        "duration": f"{report.duration:.3f} s",
        "codec": f"{report.codec} in {'/'.join(report.container.split(',')[:2])}",
        "reader": report.reader,
    }
    lines = [f"{name:<16} {value}" for name, value in facts.items()]
    cells = [(f"{index}", f"{second:.3f}") for index, second in zip(report.indices, report.timestamps, strict=True)]
    width = max(len(cell) for pair in cells for cell in pair)
    for number, name in enumerate(("indices", "timestamps")):
        lines += _wrapped(name, [f"{pair[number]:>{width}}" for pair in cells])
    lines += [f"{'warning' if report.warnings else 'warnings':<16} {text}" for text in report.warnings or ("none",)]
    return "\n".join(lines)


def _wrapped(name: str, cells: list[str], per_line: int = 8) -> list[str]:
    rows = [" ".join(cells[start : start + per_line]) for start in range(0, len(cells), per_line)]
    return [f"{name if row == 0 else '':<16} {text}" for row, text in enumerate(rows)]
