"""A video file as the rest of trustvid sees it: any frame by its index, the same bytes every time."""

from __future__ import annotations

import hashlib
import operator
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from trustvid.video.picture import Layout
from trustvid.video.timeline import Timeline


class FrameReader(Protocol):
    """One way of decoding the frames of a timeline."""

    name: str
    layout: Layout

    def read(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Decodes rising, distinct ``indices``: (index, uint8 RGB [height, width, 3]) one by one, in any order."""
        ...

    def facts(self) -> list[str]:
        """What a user should know of the frames read so far."""
        ...

    def close(self) -> None:
        """Lets go of the file; the next frame opens it again."""
        ...


class FrameCache:
    """The most recently used frames, up to a number of bytes."""

    def __init__(self, limit_bytes: int):
        self._limit, self._held = limit_bytes, 0
        self._frames: OrderedDict[int, np.ndarray] = OrderedDict()

    def get(self, index: int) -> np.ndarray | None:
        frame = self._frames.get(index)
        if frame is not None:
            self._frames.move_to_end(index)
        return frame

    def put(self, index: int, frame: np.ndarray) -> None:
        if index in self._frames or frame.nbytes > self._limit:
            return
        self._frames[index] = frame
        self._held += frame.nbytes
        while self._held > self._limit:
            _, oldest = self._frames.popitem(last=False)
            self._held -= oldest.nbytes


class Clip:
    """A lazy video (:class:`~trustvid.video.source.FrameSource`): opening it reads no pixels, asking for frames decodes
    just those. Threads may share a clip, one of them decodes at a time; other processes open their own by its path.
    The file stays open from the first frame on until the clip is closed or dropped; a closed clip opens it again.

    Attributes:
        path: the file.
        video_id: its stem.
        n_frames, frames_found: frames that really decode.
        frames_promised: what the container claims, or None where it claims nothing.
        timestamps: [n_frames] float64, seconds from the first frame, strictly rising.
        fps: mean rate of the timeline; of a single frame, the rate that the file states (1 where it states none).
        duration: seconds from the first frame to the end of the last.
        codec: FFmpeg's name of it.
    """

    def __init__(self, timeline: Timeline, reader: FrameReader, cache_bytes: int):
        self._timeline, self._reader = timeline, reader
        self._cache = FrameCache(cache_bytes)
        self._lock = threading.Lock()
        self.path: Path = timeline.path
        self.video_id: str = timeline.path.stem
        self.n_frames = self.frames_found = len(timeline)
        self.frames_promised = timeline.promised
        self.timestamps = timeline.timestamps
        self.timestamps.flags.writeable = False
        self.codec = timeline.codec
        span = float(self.timestamps[-1])
        self.fps = (self.n_frames - 1) / span if span > 0 else timeline.nominal_fps or 1.0
        self.duration = span + 1 / self.fps

    def __repr__(self) -> str:
        return f"Clip({str(self.path)!r}, {self.n_frames} frames, {self.reader})"

    def __enter__(self) -> Clip:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file; asking for frames opens it again."""
        with self._lock:
            self._reader.close()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file's bytes, hex; read when first asked for."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def width(self) -> int:
        """Pixels as displayed (decodes the first frame)."""
        return self._reader.layout.width

    @property
    def height(self) -> int:
        """Pixels as displayed (decodes the first frame)."""
        return self._reader.layout.height

    @property
    def rotation(self) -> int:
        """Degrees, clockwise, by which the coded picture was turned for display: 0, 90, 180 or 270."""
        return self._reader.layout.orientation.clockwise

    @property
    def reader(self) -> str:
        """The back end that really decodes: "pyav" or "decord"."""
        return self._reader.name

    @property
    def warnings(self) -> tuple[str, ...]:
        """Facts a user should know, each naming the file. Decoding can add to them."""
        return self._timeline.warnings + tuple(self._reader.facts())

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        """Frames as uint8 RGB [len(indices), height, width, 3], in the order asked for; repeats are allowed.

        Raises:
            VideoError: one of the frames cannot be decoded.
            IndexError: an index is outside 0…n_frames-1.
        """
        wanted = [self._checked(index) for index in indices]
        slots: dict[int, list[int]] = {}
        for slot, index in enumerate(wanted):
            slots.setdefault(index, []).append(slot)
        with self._lock:
            held = {index: frame for index in slots if (frame := self._cache.get(index)) is not None}
            layout = self._reader.layout
            out = np.empty((len(wanted), layout.height, layout.width, 3), dtype=np.uint8)
            for index, frame in held.items():
                out[slots[index]] = frame
            for index, frame in self._reader.read(sorted(slots.keys() - held.keys())):
                out[slots[index]] = frame
                self._cache.put(index, frame)
        return out

    def frame_key(self, index: int) -> str:
        """Always "clean": a clip shows its file's own frames."""
        self._checked(index)
        return "clean"

    def decode_record(self) -> dict[str, Any]:
        """All that decides what the frames look like, as JSON types: part of the record of a run."""
        timeline, layout = self._timeline, self._reader.layout
        return {
            "file": self.path.name,
            "reader": self.reader,
            "versions": _library_versions(self.reader),
            "container": timeline.container,
            "codec": self.codec,
            "pixel_format": layout.pixel_format,
            "track": timeline.track,
            "frames_found": self.frames_found,
            "frames_promised": self.frames_promised,
            "frames_hidden": timeline.hidden,
            "counted_by": timeline.counted_by,
            "not_counted_by_demuxing_because": list(timeline.objections),
            "duration": self.duration,
            "fps": self.fps,
            "width": self.width,
            "height": self.height,
            "rotation": self.rotation,
            "mirrored": layout.orientation.mirrored,
            "pixel_aspect": str(timeline.sample_aspect),
            "warnings": list(self.warnings),
        }

    def _checked(self, index: int) -> int:
        position = operator.index(index)
        if not 0 <= position < self.n_frames:
            raise IndexError(f"{self.path}: frame {position} is outside 0…{self.n_frames - 1}")
        return position


def _library_versions(reader: str) -> dict[str, str]:
    import av

    versions = {"av": av.__version__} | {name: ".".join(map(str, v)) for name, v in av.library_versions.items()}
    if reader == "decord":
        from importlib.metadata import version

        versions["decord"] = version("decord")
    return versions
