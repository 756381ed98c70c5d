"""Opening a video file, safely and with reasons: what is refused, which track is read, how packets become frames."""

from __future__ import annotations

import codecs
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trustvid.errors import VideoError

if TYPE_CHECKING:
    import av
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

# Demuxers a video may be read with. Playlists (hls, concat, dash) stay out: they would open other files and addresses.
_DEMUXERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,live_flv,ogg,asf,gif,mxf,nut,ivf,dv,rm,wtv,"
    "m4v,h264,hevc,obu,yuv4mpegpipe"
)
_IO_LIMIT_S = 30.0  # one blocked open or read of the file system
_STALL_LIMIT_S = 60.0  # decoding without a single new frame
_MAX_PIXELS = 2**27  # 16K; a larger claim is damage or an attack on memory
EXPECTED_FILE = "a whole video file (mp4, mov, mkv, webm, avi, ts …)"


@contextmanager
def open_container(path: Path) -> Iterator[InputContainer]:
    """Opens a file for demuxing: as a plain file, whatever its name looks like, and never as a playlist.

    Raises:
        VideoError: no such file, not a file, empty, or not a video container.
    """
    import av

    _require_regular_file(path)
    try:
        container = av.open(
            f"file:{path}",
            options={"protocol_whitelist": "file", "format_whitelist": _DEMUXERS},
            metadata_errors="replace",
            timeout=(_IO_LIMIT_S, _IO_LIMIT_S),
        )
    except av.FFmpegError as error:
        raise VideoError(path, _explain_unopened(path, error), EXPECTED_FILE) from error
    with container:
        yield container


def _require_regular_file(path: Path) -> None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise VideoError(path, "no such file", "the path of a video file") from None
    except OSError as error:
        raise VideoError(path, f"cannot be looked up ({error.strerror})", "the path of a video file") from error
    if stat.S_ISDIR(status.st_mode):
        raise VideoError(path, "this is a folder", "the path of one video file")
    if not stat.S_ISREG(status.st_mode):
        raise VideoError(path, "this is not a regular file", "a file on disk; pipes and devices cannot be read twice")
    if status.st_size == 0:
        raise VideoError(path, "the file is empty (0 bytes)", EXPECTED_FILE)


def _explain_unopened(path: Path, error: av.FFmpegError) -> str:
    """A reason a person can act on, from the first bytes of a file that no demuxer accepts."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as os_error:
        return f"cannot be read ({os_error.strerror})"
    if head[4:8] == b"ftyp":
        return "its index (the moov atom) is not found: the file was cut off, never finished, or damaged"
    if _is_text(head):
        return "this is a text file, not a video"
    if isinstance(error, ValueError):  # invalid data, or a format that is not among the demuxers
        return "no video container is recognised in it"
    return f"it cannot be opened ({error.strerror})"


def _is_text(head: bytes) -> bool:
    """UTF-8 without control bytes; the last character may be cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return min(head) >= 9


def choose_track(container: InputContainer, path: Path) -> tuple[VideoStream, list[str]]:
    """The video track to read: the one marked default, else the first; cover pictures are no tracks.

    Returns:
        The stream, and warnings (where there were several tracks to choose from).

    Raises:
        VideoError: no video track, no decoder for it, or an impossible picture size.
    """
    tracks = video_tracks(container)
    if not tracks:
        sound = " (only sound)" if container.streams.audio else ""
        raise VideoError(path, f"the file has no video track{sound}", "a file with a video track")
    readable = [stream for stream in tracks if stream.codec_context is not None]
    if not readable:
        raise VideoError(path, "FFmpeg has no decoder for its video track", "a common codec (H.264, HEVC, VP9, AV1 …)")
    marked = [stream for stream in readable if stream.disposition & stream.disposition.default]
    stream = (marked or readable)[0]
    context = stream.codec_context
    if context.width * context.height > _MAX_PIXELS:
        raise VideoError(path, f"claims pictures of {context.width}×{context.height}", f"at most {_MAX_PIXELS} pixels")
    warnings = []
    if len(tracks) > 1:
        mark = "marked default" if marked else "the first that can be decoded"
        sizes = ", ".join(f"{track.index}: {track.width}×{track.height}" for track in readable)
        warnings.append(f"{path.name}: {len(tracks)} video tracks ({sizes}); track {stream.index} ({mark}) is read")
    return stream, warnings


def video_tracks(container: InputContainer) -> list[VideoStream]:
    """Video streams without cover pictures and thumbnails."""
    return [
        stream
        for stream in container.streams.video
        if not stream.disposition & (stream.disposition.attached_pic | stream.disposition.timed_thumbnails)
    ]


def skip_other_streams(container: InputContainer, stream: VideoStream) -> None:
    """Lets the demuxer step over sound and other tracks instead of handing their packets out."""
    from av.stream import Discard

    for other in container.streams:
        if other.index != stream.index:
            other.discard = Discard.all


def demux_track(container: InputContainer, stream: VideoStream) -> Iterator[Packet]:
    """The packets of a track from where the container stands, an empty one that flushes the decoder last.

    Raises:
        av.FFmpegError: the demuxer fails.
    """
    while True:
        try:
            yield from container.demux(stream)
        except IndexError:  # PyAV stumbles over a track that appears in mid-file; that packet is gone, reading goes on
            continue
        return


def decode_track(
    container: InputContainer,
    stream: VideoStream,
    *,
    stop_at_cut: bool,
    on_error: Callable[[int | None], None],
    may_skip: Callable[[Packet], bool] = lambda packet: False,
) -> Iterator[VideoFrame]:
    """Decodes from where the container stands to the end of the track.

    Args:
        stop_at_cut: the file is cut short. Reading then ends at the first packet that is not whole, without the frames
            that the decoder still holds back: their group of pictures has lost its end.
        on_error: called with the presentation time of each packet that does not decode; decoding goes on after it.
        may_skip: whether the frame of a packet is not needed for its own sake; it is then left out if no other frame is
            predicted from it.

    Raises:
        VideoError: the decoder takes in packets without giving a frame for too long.
    """
    import av

    deadline = time.monotonic() + _STALL_LIMIT_S
    packets, context = demux_track(container, stream), stream.codec_context
    while True:
        try:
            packet = next(packets, None)
        except av.FFmpegError:
            on_error(None)
            return
        if packet is None or (stop_at_cut and packet.is_corrupt):
            return
        context.skip_frame = "NONREF" if may_skip(packet) else "DEFAULT"
        try:
            frames = context.decode(packet)
        except av.FFmpegError:
            on_error(packet.pts)
            if stop_at_cut:
                return
            continue
        for frame in frames:
            yield frame
            deadline = time.monotonic() + _STALL_LIMIT_S
        if time.monotonic() > deadline:
            raise VideoError(
                container.name.removeprefix("file:"),
                f"no frame came out in {_STALL_LIMIT_S:.0f} s of decoding",
                EXPECTED_FILE,
            )


def set_threads(stream: VideoStream, threads: int) -> None:
    """One thread decodes damaged files the same way every time; several are faster on large pictures (0: all cores)."""
    context = stream.codec_context
    context.thread_type = "NONE" if threads == 1 else "AUTO"
    context.thread_count = threads
