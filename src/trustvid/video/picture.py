"""From a decoded frame to pixels as displayed: 8-bit RGB, rotation applied, alpha dropped, stored pixels kept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

_SKEW_LIMIT = 0.01  # smaller over larger matrix entry up to which a turn counts as a right angle


@dataclass(frozen=True)
class Orientation:
    """How the coded picture is turned for display: axes swapped first, then mirrored along each axis."""

    swap: bool = False
    flip_x: bool = False
    flip_y: bool = False
    clockwise: int = 0
    mirrored: bool = False
    askew: bool = False

    def apply(self, coded: np.ndarray) -> np.ndarray:
        """Turns [h, w, 3] as coded into [height, width, 3] as displayed, contiguous."""
        shown = coded.swapaxes(0, 1) if self.swap else coded
        shown = shown[:: -1 if self.flip_y else 1, :: -1 if self.flip_x else 1]
        return np.ascontiguousarray(shown)


def read_orientation(matrix: np.ndarray) -> Orientation:
    """The turn that a display matrix asks for.

    Args:
        matrix: nine numbers a b u c d v x y w, which send the coded point (x, y), y pointing down, to
            (a·x + c·y, b·x + d·y) on display (ISO/IEC 14496-12, track header).

    Returns:
        The orientation; ``askew`` (and otherwise upright) where the turn is no multiple of 90 degrees.
    """
    a, b, c, d = (float(matrix[i]) for i in (0, 1, 3, 4))
    swap = abs(b) > abs(a)
    large, small = (abs(b), abs(c)), (abs(a), abs(d))
    if not swap:
        large, small = small, large
    if min(large) <= 0 or max(small) > _SKEW_LIMIT * min(large):
        return Orientation(askew=True)
    turn = round(math.degrees(math.atan2(b, a)) / 90) * 90 % 360
    across, down = (c, b) if swap else (a, d)
    return Orientation(swap, across < 0, down < 0, turn, mirrored=a * d - b * c < 0)


@dataclass(frozen=True)
class Layout:
    """The shape of a clip's pictures, taken from its first decoded frame."""

    coded_width: int
    coded_height: int
    orientation: Orientation
    pixel_format: str

    @property
    def width(self) -> int:
        return self.coded_height if self.orientation.swap else self.coded_width

    @property
    def height(self) -> int:
        return self.coded_width if self.orientation.swap else self.coded_height

    def to_rgb(self, frame: VideoFrame) -> np.ndarray:
        """The frame as uint8 [height, width, 3]; a frame of another size is scaled to this one."""
        # One thread: FFmpeg's slice threads cost more to start, per frame, than they save.
        coded = frame.to_ndarray(format="rgb24", width=self.coded_width, height=self.coded_height, threads=1)
        return self.orientation.apply(coded)


def read_layout(frame: VideoFrame) -> Layout:
    """Size and orientation as stated by a decoded frame."""
    orientation = Orientation()
    for note in frame.side_data:
        if note.type.name == "DISPLAYMATRIX":
            orientation = read_orientation(np.frombuffer(bytes(note), dtype=np.int32))
    return Layout(frame.width, frame.height, orientation, frame.format.name)
