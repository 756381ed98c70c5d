"""BoxWorld: seeded videos of a box city and of a room, with the paper's eight tasks and exact answers."""

from __future__ import annotations

from typing import Literal, get_args

Split = Literal["train", "dev", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

CITY_TASKS = ("LP", "CF", "PE", "AG")
ROOM_TASKS = ("RDist", "RDir", "RP", "AO")
