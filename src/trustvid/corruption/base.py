"""The contract of a corruption: plan the whole timeline once, then any frame alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import ClassVar

import numpy as np

SEVERITIES = (1, 2, 3, 4, 5)

State = dict[str, np.ndarray]


@dataclass(frozen=True)
class Corruption(ABC):
    """One kind of harm to a video. A new kind is one subclass in its own file plus one file in ``conf/corruption``.

    Subclasses are frozen dataclasses whose fields are their settings (numbers, or one number per severity). Neither
    ``plan`` nor ``apply`` may read anything else that changes the pixels: cache keys hold name, version and settings.

    Most kinds change frames one by one and need no more than ``plan`` and ``apply``. Two things are open to others: to
    show another frame of the source instead (``reorders`` and ``source_index``), and to work on consecutive frames
    together (``group`` and ``apply_group``).

    Attributes:
        name: the word users write, also a part of the seed.
        version: raised by one whenever the same seed would give other pixels.
        group: how many consecutive frames are worked on together, 1 or more. Groups are counted from frame 0, the last
            one may be shorter.
        reorders: whether ``source_index`` may differ from the index.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    group: ClassVar[int] = 1
    reorders: ClassVar[bool] = False

    @abstractmethod
    def plan(
        self, n_frames: int, fps: float, width: int, height: int, severity: int, rng: np.random.Generator
    ) -> State:
        """What happens over the whole video, as plain arrays: positions, lengths, gains, … smooth in time.

        Args:
            n_frames: frames of the source; trajectories cover all of them, touched or not, so that the look of a frame
                does not depend on which others are touched.
            fps: frames per second; drifts are given per second, so that they look alike at any rate.
            width, height: of a frame, pixels.
            severity: 1–5, already checked.
            rng: the only source of randomness.
        """

    @abstractmethod
    def apply(self, frame: np.ndarray, index: int, state: State) -> np.ndarray:
        """The corrupted frame, a new uint8 RGB array [height, width, 3]; ``frame`` is left as it is.

        The same ``(frame, index, state)`` gives the same bytes, whatever was asked for before.
        """

    def source_index(self, index: int, state: State) -> int:
        """Which frame of the source is handed to ``apply`` for frame ``index``: itself, unless ``reorders``."""
        return index

    def apply_group(self, frames: np.ndarray, first: int, state: State) -> np.ndarray:
        """The corrupted frames of one group, new uint8 RGB [T, height, width, 3]; ``frames`` is left as it is.

        Used where ``group`` is above 1. A group is always handed over whole, touched or not, so that the look of a
        frame does not depend on which others are touched.

        Args:
            frames: uint8 RGB [T, height, width, 3], consecutive frames of the timeline, T at most ``group``.
            first: index of the first of them.
        """
        return np.stack([self.apply(frame, first + place, state) for place, frame in enumerate(frames)])

    def settings(self) -> dict[str, object]:
        """The constructor's arguments, as plain values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def check_severity(severity: int) -> int:
    """The severity as a plain int: 0 (nothing is done) or 1–5.

    Raises:
        ValueError: anything else, also 2.5, "3" and True.
    """
    whole = isinstance(severity, int | np.integer) and not isinstance(severity, bool)
    if not whole or not (severity == 0 or severity in SEVERITIES):
        raise ValueError(f"severity must be a whole number 1–5 (or 0 for none), got {severity!r}")
    return int(severity)


def check_seed(seed: int) -> int:
    """The seed as a plain int of any size.

    Raises:
        ValueError: it is not a whole number.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise ValueError(f"seed must be a whole number, got {seed!r}")
    return int(seed)


def severity_table(name: str, values: Iterable[float], *, above: float = 0.0, below: float = math.inf) -> tuple:
    """One number per severity 1–5, checked: five finite numbers, strictly rising, between the bounds.

    Raises:
        ValueError: naming the setting and what is wrong with it.
    """
    table = tuple(float(value) for value in values)
    inside = all(above < value < below for value in table)
    if len(table) != len(SEVERITIES) or not inside or any(b <= a for a, b in pairwise(table)):
        raise ValueError(
            f"{name} must hold five rising numbers between {above:g} and {below:g}, one for each severity 1–5, "
            f"got {list(table)}"
        )
    return table


def check_share(name: str, value: float, *, most: float = 1.0) -> float:
    """A number in [0, most].

    Raises:
        ValueError: naming the setting and its range.
    """
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 <= value <= most:  # also refuses NaN
        raise ValueError(f"{name} must lie between 0 and {most:g}, got {value!r}")
    return float(value)
