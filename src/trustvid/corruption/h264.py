"""H.264 at a low bitrate: what is left of a picture after a thin link."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from trustvid.corruption.base import SEVERITIES, Corruption, State, severity_table

if TYPE_CHECKING:
    from av.video.codeccontext import VideoCodecContext

_WORST_CRF = 51.0
_LONGEST_GROUP = 250  # x264's own limit between key frames
_RATE = 25  # frames a second that the encoder is told; at a fixed quality it hardly matters
_OPTIONS = {"preset": "ultrafast", "tune": "zerolatency", "threads": "1"}
# x264's fast paths differ between processors; a group holds one key frame, its first.
_PARAMETERS = "cpu-independent=1:keyint=infinite:scenecut=0"


@dataclass(frozen=True)
class H264(Corruption):
    """Frames are really encoded by x264 and decoded again, in closed groups of one key frame and predicted ones.

    The encoder is set as in a cheap live link: no look-ahead, no deblocking, one pass at constant quality. Blocks,
    washed-out texture, smeared colour, remains of earlier frames where things move, and a jump at each key frame follow
    from that. Equal frames give equal bytes with the same libraries.

    Args:
        crf: x264's constant rate factor, per severity: 23 is its default, 51 the worst it can do.
        group: frames from one key frame to the next, 1–250; 1 leaves no predicted frames.

    Raises:
        ValueError: a setting is out of its range.
    """

    name: ClassVar[str] = "h264"
    version: ClassVar[int] = 1

    crf: Sequence[float] = (31.0, 36.0, 40.0, 44.0, 48.0)
    group: int = 16

    def __post_init__(self) -> None:
        object.__setattr__(self, "crf", severity_table("h264.crf", self.crf, below=_WORST_CRF + 0.1))
        if isinstance(self.group, bool) or not isinstance(self.group, int) or not 1 <= self.group <= _LONGEST_GROUP:
            raise ValueError(f"h264.group must be a whole number from 1 to {_LONGEST_GROUP}, got {self.group!r}")

    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """``crf`` [1]; nothing is random."""
        return {"crf": np.array([self.crf[SEVERITIES.index(severity)]])}

    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply`: the frame as a key frame, which is all that a single picture can be."""
        return self.apply_group(frame[None], index, state)[0]

    def apply_group(self, frames: np.ndarray, first: int, state: State) -> np.ndarray:
        """See :meth:`Corruption.apply_group`."""
        height, width = frames.shape[1:3]
        return np.stack([picture[:height, :width] for picture in transcode(frames, float(state["crf"][0]))])


def transcode(frames: np.ndarray, crf: float) -> Iterator[np.ndarray]:
    """The frames after x264 and back: one key frame, then predicted ones.

    Args:
        frames: uint8 RGB [T, height, width, 3], T at least 1.
        crf: constant rate factor, 0–51.

    Yields:
        uint8 RGB [height, width, 3], T times, with odd sizes filled up to even ones at the right and at the bottom.
    """
    import av
    import cv2

    height, width = frames.shape[1:3]
    encoder = _encoder(width + width % 2, height + height % 2, crf)
    decoder = av.CodecContext.create("h264", "r")
    decoder.thread_count = 1
    packets = []
    for place, frame in enumerate(frames):
        even = cv2.copyMakeBorder(frame, 0, height % 2, 0, width % 2, cv2.BORDER_REPLICATE)
        # OpenCV turns colours by whole numbers (BT.601), alike on every processor.
        picture = av.VideoFrame.from_ndarray(cv2.cvtColor(even, cv2.COLOR_RGB2YUV_I420), format="yuv420p")
        picture.pts, picture.time_base = place, encoder.time_base
        packets += encoder.encode(picture)
    for packet in [*packets, *encoder.encode(None), None]:
        for picture in decoder.decode(packet):
            yield cv2.cvtColor(picture.to_ndarray(), cv2.COLOR_YUV2RGB_I420)


def _encoder(width: int, height: int, crf: float) -> VideoCodecContext:
    """x264 with one thread, at a constant rate factor."""
    import av

    encoder = av.CodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
    encoder.framerate, encoder.time_base = Fraction(_RATE), Fraction(1, _RATE)
    encoder.thread_count = 1
    encoder.options = {**_OPTIONS, "crf": str(crf), "x264-params": _PARAMETERS}
    return encoder
