"""Which frames a video really has, and when each is shown: the list that every reader is held to.

Containers promise frames that were cut off, count frames that an edit list hides, or state no count at all. So the list
is made from the packets themselves; and where packets are known not to be frames one for one (other containers, some
codecs, damaged files), the frames are counted by decoding them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trustvid.errors import VideoError
from trustvid.video.container import (
    EXPECTED_FILE,
    choose_track,
    decode_track,
    demux_track,
    open_container,
    set_threads,
    skip_other_streams,
    video_tracks,
)

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

# Containers whose packets carry true presentation times and that seek by them.
_EXACT_CONTAINERS = frozenset({"mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm"})
# Codecs whose every packet is shown as one frame. VP8 has hidden frames and MPEG-4 Part 2 uncoded ones: not listed.
_ONE_FRAME_A_PACKET = frozenset(
    {"h264", "hevc", "vp9", "av1", "png", "mjpeg", "ffv1", "prores", "dnxhd", "huffyuv", "ffvhuff", "rawvideo", "qtrle"}
)
_CUT_TOLERANCE_S = 0.25  # how far the last frame may lie before the end that a container states


@dataclass(frozen=True)
class Timeline:
    """The frames of one video track in the order shown.

    Attributes:
        path: the file.
        track: index of the track among all streams of the container.
        container, codec: FFmpeg's names.
        pts: [n] int64, presentation times in units of the track's time base, strictly rising; None where the file
            states none that can be used: a frame is then known by its position alone.
        keys: [m] int64, presentation times of the key frames, rising.
        timestamps: [n] float64, seconds from the first frame, strictly rising.
        nominal_fps: the rate the file states, or None.
        promised: the number of frames the container claims, or None where it claims none.
        hidden: frames that an edit list keeps from being shown.
        counted_by: "demuxing" (every packet is a frame) or "decoding" (counted frame by frame).
        objections: why packets were not taken for frames.
        cut: the file ends early; reading stops at the first packet that is not whole.
        seekable: frames can be reached by seeking, a hit being proven by an equal presentation time.
        tracks: number of video tracks in the file.
        sample_aspect: width of a stored pixel over its height.
        warnings: facts a user should know, each naming the file.
    """

    path: Path
    track: int
    container: str
    codec: str
    pts: np.ndarray | None
    keys: np.ndarray
    timestamps: np.ndarray
    nominal_fps: float | None
    promised: int | None
    hidden: int
    counted_by: str
    objections: tuple[str, ...]
    cut: bool
    seekable: bool
    tracks: int
    sample_aspect: Fraction
    warnings: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.timestamps)


@dataclass
class _Packets:
    """What one pass over the packets of a track saw (``keys`` includes hidden key frames: one can seek to them)."""

    shown: list[int | None] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    hidden: int = 0
    first: tuple[int | None, bool] | None = None  # presentation time, and whether it is a key frame
    last_is_cut: bool = False
    error: str = ""


@dataclass
class _Decoded:
    """What decoding the whole track gave: one presentation time a frame, and the packets that failed."""

    pts: list[int | None] = field(default_factory=list)
    failed: int = 0


def read_timeline(path: Path, count: str = "auto") -> Timeline:
    """Lists the frames of a file.

    Args:
        path: the file.
        count: "auto" takes packets for frames wherever nothing speaks against it; "decode" always counts by decoding,
            which is slow but leaves out the frames that a damaged file has lost.

    Raises:
        VideoError: the file is no video, or none of its frames can be decoded.
    """
    with open_container(path) as container:
        stream, warnings = choose_track(container, path)
        skip_other_streams(container, stream)
        packets = _scan_packets(container, stream)
        kind, codec = container.format.name, stream.codec_context.codec.canonical_name
        promised = stream.frames or None
        found_packets = len(packets.shown) + packets.hidden
        cut = packets.last_is_cut or (promised is not None and found_packets < promised)
        objections = _objections(packets, kind, codec, promised)
        decoded = _count_by_decoding(path, cut) if objections or count == "decode" else None
        shown = packets.shown if decoded is None else decoded.pts
        if not shown:
            raise VideoError(path, "not one frame can be decoded", EXPECTED_FILE)
        pts, timestamps, note = _timestamps(shown, stream)
        unsure = decoded is not None and (cut or decoded.failed > 0 or pts is None or shown != pts.tolist())
        facts = _count_facts(len(shown), packets, decoded, promised) + note + _form_facts(stream, timestamps)
        return Timeline(
            path=path,
            track=stream.index,
            container=kind,
            codec=codec,
            pts=pts,
            keys=np.array(sorted(packets.keys), dtype=np.int64),
            timestamps=timestamps,
            nominal_fps=_nominal_fps(stream),
            promised=promised,
            hidden=packets.hidden,
            counted_by="demuxing" if decoded is None else "decoding",
            objections=objections,
            cut=cut,
            seekable=kind in _EXACT_CONTAINERS and pts is not None and not unsure,
            tracks=len(video_tracks(container)),
            sample_aspect=stream.sample_aspect_ratio or Fraction(1),
            warnings=tuple(warnings + [f"{path.name}: {fact}" for fact in facts]),
        )


def _scan_packets(container: InputContainer, stream: VideoStream) -> _Packets:
    """One pass over all packets. An error of the demuxer ends the pass and is noted, not raised."""
    import av

    packets = _Packets()
    try:
        for packet in demux_track(container, stream):
            if not packet.size:  # the marker at the end, and frames that only repeat the one before
                continue
            pts, key = packet.pts, packet.is_keyframe
            if packets.first is None:
                packets.first = (pts, key)
            if key and pts is not None:
                packets.keys.append(pts)
            if packet.is_discard:
                packets.hidden += 1
            else:
                packets.shown.append(pts)
            packets.last_is_cut = packet.is_corrupt
    except av.FFmpegError as error:
        packets.error = error.strerror or str(error)
    return packets


def _objections(packets: _Packets, container: str, codec: str, promised: int | None) -> tuple[str, ...]:
    """Why the packets of a track must not be taken for its frames; empty when they may."""
    timed = [pts for pts in packets.shown if pts is not None]
    first, first_is_key = packets.first or (None, True)
    total = len(packets.shown) + packets.hidden
    checks = (
        (container not in _EXACT_CONTAINERS, f"{container} states no exact presentation times"),
        (codec not in _ONE_FRAME_A_PACKET, f"packets of {codec} are not frames one for one"),
        (bool(packets.error), f"demuxing ends with an error ({packets.error})"),
        (len(timed) != len(packets.shown), "packets without a presentation time"),
        (len(set(timed)) != len(timed), "two packets with the same presentation time"),
        (not first_is_key, "the first packet is no key frame"),
        (bool(timed) and first is not None and min(timed) < first, "frames are shown before the first key frame"),
        (packets.last_is_cut, "the last packet is cut short"),
        (promised not in (None, total), f"{total} packets where the container promises {promised}"),
    )
    return tuple(text for fails, text in checks if fails)


def _count_by_decoding(path: Path, cut: bool) -> _Decoded:
    """Decodes the track once, keeping presentation times only."""
    decoded = _Decoded()

    def count_failure(_: int | None) -> None:
        decoded.failed += 1

    with open_container(path) as container:
        stream, _ = choose_track(container, path)
        skip_other_streams(container, stream)
        set_threads(stream, 1)  # what a damaged file gives must not depend on timing
        for frame in decode_track(container, stream, stop_at_cut=cut, on_error=count_failure):
            decoded.pts.append(frame.pts)
    return decoded


def _timestamps(shown: list[int | None], stream: VideoStream) -> tuple[np.ndarray | None, np.ndarray, list[str]]:
    """Rising presentation times and seconds from the first frame; even spacing, and a note, where there are none."""
    if None not in shown and len(set(shown)) == len(shown):
        # Sorting puts packets into display order. AVI hands out the right set of times in the wrong order.
        pts = np.sort(np.array(shown, dtype=np.int64))
        return pts, (pts - pts[0]) * float(stream.time_base), []
    fps = _nominal_fps(stream) or 25.0
    note = f"no usable time stamps: the frames are taken to be evenly spaced at {fps:g} fps"
    return None, np.arange(len(shown), dtype=np.float64) / fps, [note]


def _nominal_fps(stream: VideoStream) -> float | None:
    rate = stream.average_rate or stream.guessed_rate
    return float(rate) if rate else None


def _count_facts(found: int, packets: _Packets, decoded: _Decoded | None, promised: int | None) -> list[str]:
    """What is remarkable about the number of frames."""
    facts = []
    if promised is not None and promised != found + packets.hidden:
        facts.append(f"{found} of {promised} frames decode: the file does not hold what its container promises")
    elif packets.last_is_cut:
        facts.append(f"the file is cut off after {found} frames")
    if packets.error:
        facts.append(f"reading ends with an error ({packets.error})")
    if decoded and decoded.failed:
        facts.append(f"{decoded.failed} damaged packets do not decode")
    return facts


def _form_facts(stream: VideoStream, timestamps: np.ndarray) -> list[str]:
    """What is remarkable about the pixels' shape, and about the length where the file states it as a duration."""
    facts = []
    aspect = stream.sample_aspect_ratio
    if aspect and aspect != 1:
        shape = f"{aspect.numerator}:{aspect.denominator}"
        facts.append(f"pixels are {shape}, not square; they are kept as stored")
    stated = _stated_duration(stream)
    end = float(timestamps[-1])
    longest = float(np.diff(timestamps).max(initial=0.0))  # the last frame may have been meant to stand as long as any
    if stated is not None and stated - end > max(_CUT_TOLERANCE_S, 2 * longest):
        facts.append(f"frames end at {end:.2f} s of the {stated:.2f} s that the container promises")
    return facts


def _stated_duration(stream: VideoStream) -> float | None:
    """Seconds from the track's first frame to its end as Matroska notes them in the track's tags; None elsewhere."""
    if stream.frames:
        return None
    hours, _, rest = stream.metadata.get("DURATION", "").partition(":")
    minutes, _, seconds = rest.partition(":")
    try:
        end = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except ValueError:
        return None
    return end - float((stream.start_time or 0) * stream.time_base)
