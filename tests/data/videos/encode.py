"""Makes small files of odd kinds: any container, codec, timing or turn that PyAV can write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np


def encode(
    path: Path,
    pictures: Iterable[np.ndarray],
    codec: str = "libx264",
    *,
    pixel_format: str = "yuv420p",
    fps: int = 25,
    times_ms: Sequence[int] | None = None,
    b_frames: int | None = None,
    turn: tuple[int, bool] | None = None,
    container_options: dict[str, str] | None = None,
    **options: str,
) -> Path:
    """Encodes RGB pictures; the container follows from the name.

    Args:
        times_ms: presentation times, for a variable rate.
        turn: degrees counter-clockwise, and whether to mirror left and right after that, noted in the container.
    """
    import av

    if codec == "libx264":  # the same bytes each time: x264 varies with threads and with what its vector code finds
        options = {"threads": "1", "x264-params": "cpu-independent=1", **options}
    with av.open(str(path), "w", options=container_options or {}) as container:
        stream = None
        for index, picture in enumerate(pictures):
            if stream is None:
                stream = container.add_stream(codec, rate=fps, options=options)
                stream.height, stream.width = picture.shape[:2]
                stream.pix_fmt = pixel_format
                if b_frames is not None:
                    stream.codec_context.max_b_frames = b_frames
                if times_ms is not None:
                    stream.codec_context.time_base = Fraction(1, 1000)
                if turn is not None:
                    stream.set_display_rotation(turn[0], hflip=turn[1])
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            if times_ms is not None:
                frame.pts, frame.time_base = times_ms[index], Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path
