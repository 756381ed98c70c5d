"""Frames by index through PyAV: by seeking with proof, and by reading forward where that proof fails."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np

from trustvid.errors import VideoError
from trustvid.video.container import EXPECTED_FILE, decode_track, open_container, set_threads, skip_other_streams
from trustvid.video.picture import Layout, read_layout
from trustvid.video.timeline import Timeline

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.frame import VideoFrame


# Decoders that were seen to give the same bytes with any number of threads. FFV1 did not on damaged files.
_THREADED = frozenset({"h264", "hevc", "vp9", "av1"})


class PyAVFrames:
    """Reads single frames of a timeline. Keeps its decoder where it stands, so that frames asked for in rising order,
    in one call or in many, are decoded once.

    Args:
        timeline: the frames there are.
        threads: decoder threads for codecs that gain by them; 0 uses all cores.
    """

    name = "pyav"

    def __init__(self, timeline: Timeline, threads: int):
        self._timeline = timeline
        self._threads = threads if timeline.codec in _THREADED else 1
        self._seekable = timeline.seekable
        self._keys: list[int] = timeline.keys.tolist()
        # With several threads, and without the frames that no other needs, until damage shows: what a damaged frame is
        # patched with depends on what was decoded before it, and when.
        self._fast = True
        self._cursor: _Cursor | None = None
        self._layout: Layout | None = None
        self._missed: float | None = None  # second of the first frame that seeking did not reach
        self._failed: float | None = None  # second of the first packet that did not decode
        self._patched: set[int] = set()
        self._resized: set[int] = set()

    @property
    def layout(self) -> Layout:
        """Shape of the pictures, from the first frame.

        Raises:
            VideoError: the first frame does not decode.
        """
        if self._layout is None:
            self._layout = read_layout(self._find(0))
        return self._layout

    def read(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Decodes the frames of rising, distinct ``indices``; gives (index, uint8 RGB [height, width, 3]) one by one.

        Raises:
            VideoError: one of these frames does not decode.
        """
        layout = self.layout
        for index in indices:
            frame = self._find(index)
            if frame.is_corrupt:
                self._patched.add(index)
            if (frame.width, frame.height) != (layout.coded_width, layout.coded_height):
                self._resized.add(index)
            yield index, layout.to_rgb(frame)

    def facts(self) -> list[str]:
        """What a user should know of the frames read so far."""
        name, facts = self._timeline.path.name, []
        if self._missed is not None:
            facts.append(f"{name}: seeking misses the frame at {self._missed:.2f} s; it is read from the start instead")
        if self._failed is not None:
            facts.append(f"{name}: a packet near {self._failed:.2f} s does not decode; frames after it may be damaged")
        if self._patched:
            facts.append(f"{name}: damaged frames, patched by the decoder: {_first_few(self._patched)}")
        if self._resized:
            facts.append(f"{name}: frames of another size, scaled to that of the first: {_first_few(self._resized)}")
        if self._layout is not None and self._layout.orientation.askew:
            facts.append(f"{name}: the file asks for a turn by no multiple of 90 degrees; frames are left unturned")
        return facts

    def close(self) -> None:
        """Closes the file; the next frame opens it again."""
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None

    def _find(self, index: int) -> VideoFrame:
        """The decoded frame.

        Raises:
            VideoError: it does not decode.
        """
        if self._seekable:
            frame = self._seek(index)
            if frame is None and self._fast:
                self._fast = False
                self.close()
                frame = self._seek(index)
            if frame is not None:
                return frame
            self._seekable, self._missed = False, float(self._timeline.timestamps[index])
            self.close()
        if (frame := self._read_on(index)) is not None:
            return frame
        self.close()
        raise VideoError(
            self._timeline.path,
            f"frame {index} (at {self._timeline.timestamps[index]:.2f} s) does not decode",
            "an undamaged file; a reader with count=decode leaves such frames out",
        )

    def _seek(self, index: int) -> VideoFrame | None:
        """Goes to the key frame before a frame, unless the decoder stands between them.

        Returns:
            The frame; None where it is not hit exactly, or where damage calls for another try with more care.
        """
        import av

        target = int(self._timeline.pts[index])
        slot = bisect_right(self._keys, target) - 1
        if slot < 0:
            return None
        cursor = self._open_cursor(self._threads if self._fast else 1)
        if cursor.pts is None or not self._keys[slot] <= cursor.pts <= target:
            try:
                cursor.seek(self._keys[slot])
            except av.FFmpegError:
                return None
        # H.264 alone says of each frame whether any other is predicted from it; HEVC says so of its own layer only.
        cursor.wanted = target if self._fast and self._timeline.codec == "h264" else None
        while cursor.pts is None or cursor.pts < target:
            if not cursor.step():
                return None
        if cursor.pts != target or (self._fast and cursor.damaged):
            return None
        return cursor.frame

    def _read_on(self, index: int) -> VideoFrame | None:
        """Decodes on from where the decoder stands, or from the start; None if the frame does not turn up."""
        target = index if self._by_position else int(self._timeline.pts[index])
        cursor = self._open_cursor(threads=1)  # what a damaged file gives must not depend on timing
        if cursor.frame is not None and self._stand(cursor) > target:
            self.close()
            cursor = self._open_cursor(threads=1)
        while cursor.frame is None or self._stand(cursor) < target:
            if not cursor.step():
                return None
        return cursor.frame if self._stand(cursor) == target else None

    @property
    def _by_position(self) -> bool:
        """A frame that was counted by decoding is known by its position, any other by its presentation time."""
        return self._timeline.counted_by == "decoding"

    def _stand(self, cursor: _Cursor) -> int:
        if self._by_position:
            return cursor.position
        return -1 if cursor.pts is None else cursor.pts

    def _open_cursor(self, threads: int) -> _Cursor:
        if self._cursor is None:
            self._cursor = _Cursor(self._timeline, threads, self._note_failure)
        return self._cursor

    def _note_failure(self, second: float) -> None:
        if self._failed is None:
            self._failed = second


class _Cursor:
    """An open decoder, standing at one frame.

    Attributes:
        frame: where it stands; None before the first step and after the last.
        position: how many frames have come out since it was opened or last sought, less one; skipped ones uncounted.
        wanted: presentation time of the frame it is on the way to; those before are decoded only if others need them.
            None decodes all.
        damaged: a packet did not decode, or a frame had to be patched.
    """

    def __init__(self, timeline: Timeline, threads: int, on_failure: Callable[[float], None]):
        self._timeline, self._on_failure = timeline, on_failure
        self._open_file = ExitStack()
        self._container = self._open_file.enter_context(open_container(timeline.path))
        if timeline.track >= len(self._container.streams):
            self.close()
            raise VideoError(timeline.path, "the file has changed since it was opened", EXPECTED_FILE)
        self._stream = self._container.streams[timeline.track]
        skip_other_streams(self._container, self._stream)
        set_threads(self._stream, threads)
        self.wanted: int | None = None
        self.damaged = False
        self._restart()

    @property
    def pts(self) -> int | None:
        return None if self.frame is None else self.frame.pts

    def seek(self, pts: int) -> None:
        """Goes to the key frame at ``pts``; the next step gives it, or whatever comes out first.

        Raises:
            av.FFmpegError: the container cannot seek.
        """
        self._container.seek(pts, stream=self._stream)
        self._restart()

    def step(self) -> bool:
        """Decodes one frame more; False at the end."""
        self.frame = next(self._frames, None)
        self.position += 1
        if self.frame is None:
            return False
        self.damaged |= self.frame.is_corrupt
        return True

    def close(self) -> None:
        self._open_file.close()

    def _restart(self) -> None:
        self.frame: VideoFrame | None = None
        self.position = -1
        self._frames = decode_track(
            self._container,
            self._stream,
            stop_at_cut=self._timeline.cut,
            on_error=self._failed_at,
            may_skip=self._is_before_wanted,
        )

    def _is_before_wanted(self, packet: Packet) -> bool:
        return self.wanted is not None and packet.pts is not None and packet.pts < self.wanted

    def _failed_at(self, pts: int | None) -> None:
        self.damaged = True
        timeline = self._timeline
        untimed = pts is None or timeline.pts is None
        second = timeline.timestamps[-1] if untimed else (pts - int(timeline.pts[0])) * self._stream.time_base
        self._on_failure(float(second))


def _first_few(indices: set[int]) -> str:
    return ", ".join(map(str, sorted(indices)[:5])) + (f" … ({len(indices)} in all)" if len(indices) > 5 else "")
