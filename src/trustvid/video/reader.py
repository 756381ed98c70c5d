"""Opening clips: by exact seeking with PyAV, or by decord where its answer can be checked.

Both readers are held to one list of frames, made by demuxing (:mod:`trustvid.video.timeline`). decord miscounts or
misplaces frames in some files without a word, and is known to hang where a file does not keep its promises; so it is
asked only about files where neither is to be expected, within a time limit, and its first picture must equal PyAV's.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from trustvid.errors import ConfigError, VideoError
from trustvid.video.clip import Clip, FrameReader
from trustvid.video.picture import Layout
from trustvid.video.pyav_frames import PyAVFrames
from trustvid.video.timeline import Timeline, read_timeline

Kind = Literal["auto", "decord", "pyav"]
Result = TypeVar("Result")

_KINDS = ("auto", "decord", "pyav")
_PREFERENCES = ("pyav", "decord")
_COUNTS = ("auto", "decode")
_CHUNK = 32  # frames that decord hands over at a time: bounds memory and the time of one native call
_USE_OTHER = "reader=auto or reader=pyav for this file"


class Reader:
    """Opens clips.

    Args:
        kind: "auto" (the preferred back end where it is proven right, else exact seeking), "pyav" (exact seeking) or
            "decord" (only decord; a file on which it cannot be proven right is refused).
        prefer: the back end that "auto" tries first. Exact seeking is the faster one (``benchmarks/video_readers.py``).
        count: "auto" takes packets for frames wherever nothing speaks against it; "decode" always counts by decoding,
            which is slow, but reads what is left of a damaged file.
        threads: decoder threads of one clip; 0 uses all cores. One needs the least processor time in all.
        cache_mb: decoded frames that one clip may keep, in 10^6 bytes.

    Raises:
        ConfigError: an unknown choice, or decord asked for where it is not installed.
    """

    def __init__(
        self, kind: Kind = "auto", prefer: str = "pyav", count: str = "auto", threads: int = 0, cache_mb: float = 256.0
    ):
        choices = (("kind", kind, _KINDS), ("prefer", prefer, _PREFERENCES), ("count", count, _COUNTS))
        faults = [
            f"reader.{name}={value}: unknown, expected one of {', '.join(known)}"
            for name, value, known in choices
            if value not in known
        ]
        if threads < 0:
            faults.append(f"reader.threads={threads}: expected 0 (all cores) or a number of threads")
        if cache_mb < 0:
            faults.append(f"reader.cache_mb={cache_mb}: expected 0 (keep nothing) or more")
        if kind == "decord" and find_spec("decord") is None:
            faults.append(
                "reader.kind=decord: the package decord is not installed (it has wheels for x86-64 Linux and Windows "
                "only); use reader=auto or reader=pyav, which need no decord"
            )
        if faults:
            raise ConfigError(faults)
        self.kind, self.prefer, self.count, self.threads, self.cache_mb = kind, prefer, count, threads, cache_mb

    def open(self, path: Path | str) -> Clip:
        """Opens a file: demuxes it, decodes nothing it need not.

        Raises:
            VideoError: the file is missing, empty, damaged beyond use or no video; or decord alone was asked for and
                cannot be proven right on it.
        """
        timeline = read_timeline(Path(path), self.count)
        return Clip(timeline, self._choose_back_end(timeline), int(self.cache_mb * 1e6))

    def _choose_back_end(self, timeline: Timeline) -> FrameReader:
        exact = PyAVFrames(timeline, self.threads)
        if self.kind == "decord":
            return DecordFrames(timeline, exact, self.threads, alone=True)
        if self.kind == "auto" and self.prefer == "decord" and find_spec("decord") and not _decord_objection(timeline):
            return DecordFrames(timeline, exact, self.threads, alone=False)
        return exact


def open_clip(path: Path | str, reader: Kind = "auto") -> Clip:
    """Opens a video file with the default settings of :class:`Reader`.

    Raises:
        VideoError: the file is missing, empty, damaged beyond use or no video.
        ConfigError: an unknown reader, or decord where it is not installed.
    """
    return Reader(kind=reader).open(path)


def _decord_objection(timeline: Timeline) -> str:
    """Why decord's answer about a file could not be proven; empty where it can."""
    checks = (
        (bool(timeline.objections), "; ".join(timeline.objections)),
        (timeline.counted_by != "demuxing", "its frames are counted by decoding"),
        (timeline.tracks > 1, f"{timeline.tracks} video tracks"),
        (timeline.hidden > 0, f"an edit list hides {timeline.hidden} frames"),
    )
    return next((text for holds, text in checks if holds), "")


class _Unproven(Exception):
    """decord failed, or its answer differs from the demuxed list or from PyAV's first picture."""


class DecordFrames:
    """Reads frames with decord, within limits that keep it honest.

    Args:
        timeline: the frames there are.
        exact: checks the first picture, and takes over where decord fails.
        threads: decoder threads; 0 uses all cores.
        alone: an answer that cannot be proven is an error instead of being replaced by the exact reader's.

    Raises:
        VideoError: ``alone``, and decord cannot be proven right on this file.
    """

    def __init__(self, timeline: Timeline, exact: PyAVFrames, threads: int, *, alone: bool):
        self._timeline, self._exact, self._threads, self._alone = timeline, exact, threads, alone
        self._limit_s = 30.0 + 0.05 * len(timeline)
        self._video = None  # decord's handle
        self._given_up = ""
        if objection := _decord_objection(timeline):
            self._give_up(objection)

    @property
    def name(self) -> str:
        return self._exact.name if self._given_up else "decord"

    @property
    def layout(self) -> Layout:
        return self._exact.layout

    def facts(self) -> list[str]:
        """What a user should know of the frames read so far."""
        name = self._timeline.path.name
        replaced = [f"{name}: PyAV reads in decord's place ({self._given_up})"] if self._given_up else []
        return replaced + self._exact.facts()

    def read(self, indices: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        """See :class:`~trustvid.video.clip.FrameReader`.

        Raises:
            VideoError: a frame cannot be decoded.
        """
        rest = list(indices)
        while rest and not self._given_up:
            chunk = rest[:_CHUNK]
            try:
                pictures = self._read_chunk(chunk)
            except _Unproven as unproven:
                self._give_up(str(unproven))
                break
            rest = rest[_CHUNK:]
            yield from zip(chunk, pictures, strict=True)
        if rest:
            yield from self._exact.read(rest)

    def close(self) -> None:
        """Lets go of the file; the next frame opens it again."""
        self._video = None
        self._exact.close()

    def _give_up(self, reason: str) -> None:
        if self._alone:
            raise VideoError(self._timeline.path, f"decord cannot be trusted with this file: {reason}", _USE_OTHER)
        self._given_up = reason

    def _read_chunk(self, indices: list[int]) -> np.ndarray:
        """[len(indices), height, width, 3] from decord.

        Raises:
            _Unproven: decord failed, or does not agree with what is known of the file.
        """
        if self._video is None:
            self._video = self._open_proven()
        return self._within_limit(lambda: self._video.get_batch(indices).asnumpy())

    def _open_proven(self) -> Any:  # decord ships no types
        import decord

        decord.logging.set_level(decord.logging.QUIET)
        path, expected = str(self._timeline.path.resolve()), len(self._timeline)
        video = self._within_limit(lambda: decord.VideoReader(path, num_threads=self._threads))
        if len(video) != expected:
            raise _Unproven(f"it counts {len(video)} frames, there are {expected}")
        first = self._within_limit(lambda: video.get_batch([0]).asnumpy()[0])
        _, truth = next(self._exact.read([0]))
        if first.shape != truth.shape:
            raise _Unproven(f"its pictures are {first.shape}, they should be {truth.shape}")
        if difference := int(np.abs(first.astype(np.int16) - truth).max(initial=0)):
            raise _Unproven(f"its first picture is off by up to {difference} of 255")
        return video

    def _within_limit(self, call: Callable[[], Result]) -> Result:
        return _within(self._limit_s, call)


def _within(limit_s: float, call: Callable[[], Result]) -> Result:
    """Runs a native call that might never return in a thread of its own, which is left behind if it does not.

    Raises:
        _Unproven: the call failed or took too long.
    """
    import decord

    answer: list[Result] = []
    failure: list[Exception] = []

    def run() -> None:
        try:
            answer.append(call())
        except (decord.DECORDError, RuntimeError, IndexError, OSError) as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True, name="decord")
    thread.start()
    thread.join(limit_s)
    if answer:
        return answer[0]
    if failure:
        raise _Unproven(f"it fails with: {_gist(failure[0])}")
    raise _Unproven(f"it gave no answer within {limit_s:.0f} s")


def _gist(error: Exception) -> str:
    """decord wraps a message in a time, a source position, the failed check and a stack trace; this is what is left."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^.*\(\S+ vs\. \S+\)\s*", "", first) or first
