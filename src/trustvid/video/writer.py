"""Writing H.264 files: streamed, atomic, and the same bytes for the same frames."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.video.stream import VideoStream

_BT601, _VIDEO_RANGE = 6, 1  # FFmpeg's numbers for SMPTE 170M and limited range: how RGB is turned into YUV here
_ALIKE = "cpu-independent=1"  # x264's fast paths differ between processors, and some read memory that is not theirs
_MUXER = {"movflags": "+faststart", "fflags": "+bitexact"}  # index at the front, no date
_FINEST_RATE = 1001 * 60  # denominators up to this hold every usual rate, 30000/1001 included, exactly


def write_video(
    path: Path | str,
    frames: Iterable[np.ndarray],
    fps: float | Fraction,
    *,
    crf: int = 20,
    gop: int = 48,
    preset: str = "veryfast",
) -> int:
    """Encodes frames into an MP4 file (H.264, 8 bits, BT.601).

    Frames are taken one by one, so memory does not grow with the length. The file appears under its name when it is
    complete, never before. Equal frames and settings give equal bytes with the same libraries: one encoder thread and
    no dates. Even sizes are stored as yuv420p; odd ones, which that cannot hold, as yuv444p, so that no pixel is added
    or lost.

    Args:
        path: where to write; ends in .mp4; its folder is made if needed.
        frames: uint8 RGB [height, width, 3], all of one size.
        fps: frames a second.
        crf: quality of libx264: 0 lossless … 51 worst; 18 looks like the original, 23 is its own default.
        gop: most frames from one key frame to the next; small ones make single frames quick to reach.
        preset: libx264's trade of time against size: ultrafast … veryslow.

    Returns:
        The number of frames written.

    Raises:
        ValueError: no frames, a frame of a wrong type or size, a rate that is not positive, or another file ending.
    """
    target = Path(path)
    if target.suffix.lower() != ".mp4":
        raise ValueError(f"{target}: expected a name that ends in .mp4")
    rate = Fraction(fps).limit_denominator(_FINEST_RATE)
    if rate <= 0:
        raise ValueError(f"expected a positive frame rate, got fps={fps}")
    source = iter(frames)
    first = next(source, None)
    if first is None:
        raise ValueError(f"{target}: expected at least one frame to write")
    _check(first, first.shape)
    options = {"crf": str(crf), "g": str(gop), "preset": preset, "threads": "1", "x264-params": _ALIKE}
    with _complete_or_absent(target) as container:
        stream = _add_stream(container, rate, first.shape, options)
        count = 0
        for count, frame in enumerate(_chain(first, source), start=1):
            _check(frame, first.shape)
            _encode(container, stream, frame, count - 1)
        container.mux(stream.encode())
    return count


@contextmanager
def _complete_or_absent(target: Path) -> Iterator[OutputContainer]:
    """An MP4 container under a temporary name beside the target, which takes the target's place if all goes well."""
    import av

    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with av.open(f"file:{temporary}", "w", format="mp4", options=_MUXER) as container:
            yield container
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _add_stream(
    container: OutputContainer, rate: Fraction, shape: tuple[int, ...], options: dict[str, str]
) -> VideoStream:
    from av.codec.context import Flags

    height, width = shape[:2]
    stream = container.add_stream("libx264", rate=rate, options=options)
    stream.width, stream.height = width, height
    stream.pix_fmt = "yuv420p" if width % 2 == height % 2 == 0 else "yuv444p"
    context = stream.codec_context
    context.thread_count = 1
    context.time_base = 1 / rate
    context.flags |= Flags.bitexact
    context.colorspace, context.color_range = _BT601, _VIDEO_RANGE
    return stream


def _encode(container: OutputContainer, stream: VideoStream, picture: np.ndarray, index: int) -> None:
    import av

    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    frame = frame.reformat(format=stream.pix_fmt, dst_colorspace="ITU601", dst_color_range="MPEG", threads=1)
    frame.pts, frame.time_base = index, stream.codec_context.time_base
    container.mux(stream.encode(frame))


def _chain(first: np.ndarray, rest: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    yield first
    yield from rest


def _check(frame: np.ndarray, shape: tuple[int, ...]) -> None:
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or not frame.size:
        raise ValueError(f"expected uint8 frames [height, width, 3], got {frame.dtype} {list(frame.shape)}")
    if frame.shape != shape:
        raise ValueError(f"expected frames of one size, got {list(frame.shape)} after {list(shape)}")
