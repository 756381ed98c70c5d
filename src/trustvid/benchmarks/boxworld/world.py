"""What a BoxWorld scene is made of: camera constants, boxes, motion. Plain data, no drawing.

World axes: x to the east, z to the north, y up, metres. Yaw is measured clockwise seen from above, in degrees: a camera
of yaw 0 looks north, of yaw 90 looks east. Bearings follow the same sense: 0 straight ahead, positive to the right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

# Bump when the same seed gives other pixels, questions or files: cached data of older versions is then left alone.
VERSION = 1

WIDTH, HEIGHT, FPS = 320, 240, 10.0
# A horizontal field of view of 90 degrees. Pixel centres have whole coordinates: the middle lies between two of them.
FOCAL = WIDTH / 2
CX, CY = (WIDTH - 1) / 2, (HEIGHT - 1) / 2

CITY_CAMERA_HEIGHT, ROOM_CAMERA_HEIGHT = 4.0, 1.5  # metres
FLIGHT_SPEED = 5.0  # metres per second
MIN_FRAMES, MAX_FRAMES = 104, 120

SceneKind = Literal["city", "room"]

# Saturated, and apart in hue by 25 degrees or more; everything that is not a landmark has a saturation below 0.2.
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 34, 34),
    "orange": (240, 126, 18),
    "yellow": (236, 222, 24),
    "green": (36, 172, 44),
    "cyan": (22, 190, 204),
    "blue": (36, 74, 222),
    "purple": (146, 52, 210),
    "pink": (242, 84, 178),
}
COLOUR_NAMES = tuple(COLOURS)

CITY_WORDS = (
    "BANK", "BAR", "BOOKS", "CAFE", "CINEMA", "CLINIC", "DENTAL", "FLOWERS", "GARAGE", "GYM", "HOTEL", "LIBRARY",
    "MALL", "MARKET", "MOTEL", "MUSEUM", "OPERA", "PARK", "PHARMACY", "PIZZA", "POLICE", "POST", "SCHOOL", "SUSHI",
)  # fmt: skip
ROOM_WORDS = (
    "BED", "BENCH", "BIN", "BOX", "CHAIR", "CHEST", "CLOCK", "COUCH", "CRIB", "DESK", "FAN", "LAMP",
    "OVEN", "PIANO", "PLANT", "RADIO", "SAFE", "SHELF", "SINK", "SOFA", "STOOL", "TABLE", "TV", "VASE",
)  # fmt: skip


@dataclass(frozen=True)
class Box:
    """A box standing on the ground.

    Attributes:
        x, z: centre of the footprint, metres.
        width, depth, height: extent along the box's own x and z axes, and upwards, metres.
        yaw: how far the box's own axes are turned clockwise, degrees.
        word, colour: sign and colour name of a landmark or object; None for a grey building.
        letter: width of a letter on its sign plates, metres.
        look: seed of its texture.
    """

    x: float
    z: float
    width: float
    depth: float
    height: float
    yaw: float = 0.0
    word: str | None = None
    colour: str | None = None
    letter: float = 0.5
    look: int = 0


@dataclass(frozen=True)
class Step:
    """One step of a flight: "forward", "left" or "right", with the index of its first and last pose."""

    action: Literal["forward", "left", "right"]
    first: int
    last: int


@dataclass(frozen=True)
class Scene:
    """A city or a room with a camera moving in it.

    Attributes:
        kind, seed: the seed determines all textures.
        landmarks: the coloured boxes with signs (the room's objects), each colour and word at most once.
        buildings: grey boxes (city only).
        poses: float64 [T, 3], x, z in metres and yaw in degrees (unwrapped) of each frame.
        streets_x, streets_z: centre lines of the streets that run north–south and east–west.
        walls: west, east, south, north wall of the room (x, x, z, z).
        steps: the flight's steps (city only).
    """

    kind: SceneKind
    seed: int
    landmarks: tuple[Box, ...]
    buildings: tuple[Box, ...]
    poses: np.ndarray
    streets_x: tuple[float, ...] = ()
    streets_z: tuple[float, ...] = ()
    walls: tuple[float, float, float, float] = (-5.0, 5.0, -5.0, 5.0)
    steps: tuple[Step, ...] = field(default=())

    @property
    def n_frames(self) -> int:
        """Number of frames of the clip."""
        return len(self.poses)

    @property
    def camera_height(self) -> float:
        """Metres above the ground."""
        return CITY_CAMERA_HEIGHT if self.kind == "city" else ROOM_CAMERA_HEIGHT


def wrap_degrees(angle: float | np.ndarray) -> float | np.ndarray:
    """The same angle in [-180, 180)."""
    return (angle + 180.0) % 360.0 - 180.0


def bearing(x: float, z: float, yaw: float, target_x: float, target_z: float) -> float:
    """Where a point lies as seen from (x, z) looking along ``yaw``: degrees in [-180, 180), positive to the right.

    >>> round(bearing(0.0, 0.0, 90.0, 5.0, 5.0))
    -45
    """
    return float(wrap_degrees(np.degrees(np.arctan2(target_x - x, target_z - z)) - yaw))
