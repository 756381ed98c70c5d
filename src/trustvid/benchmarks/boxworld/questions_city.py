"""The city's four tasks: landmark position, counterfactual, progress evaluation, action generation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trustvid.benchmarks.boxworld.city import CityPlan
from trustvid.benchmarks.boxworld.questions import (
    AG_LABELS,
    CITY_PREAMBLE,
    LP_LABELS,
    PE_WINDOW,
    Question,
    make_question,
    n_options,
)
from trustvid.benchmarks.boxworld.world import Box, bearing
from trustvid.seeding import Part

SECTOR_MARGIN = 8.0  # degrees inside the sector, at least
POSITION_ERROR = 0.6  # metres by which an observer may misplace a landmark
HEADING_ERROR = 2.0  # degrees
NEAREST = 5.5  # metres; nearer landmarks surround the camera rather than lie somewhere
AIM = 12.0  # degrees between the counterfactual flight and its landmark, at most
AIM_CLEARANCE = 35.0  # degrees from it to any other landmark, at least
AIM_NEAREST, AIM_FARTHEST = 6.0, 20.0  # metres


def sector(x: float, z: float, yaw: float, box: Box) -> int | None:
    """Index (45 degrees each, 0 ahead, rising to the right) of the sector in which a box lies; None near a border."""
    distance = math.hypot(box.x - x, box.z - z)
    if distance < NEAREST:
        return None
    angle = bearing(x, z, yaw, box.x, box.z)
    index = round(angle / 45.0)
    inside = 22.5 - abs(angle - 45.0 * index)
    margin = max(SECTOR_MARGIN, math.degrees(math.asin(POSITION_ERROR / distance)) + HEADING_ERROR)
    return index % 8 if inside >= margin else None


def landmarks_in_sector(plan: CityPlan, label: int) -> list[int]:
    """Landmarks that lie well inside a sector as seen from the end of the flight."""
    x, z, yaw = (float(value) for value in plan.flight.poses[-1])
    return [i for i, box in enumerate(plan.landmarks) if sector(x, z, yaw, box) == label]


def counterfactual_landmark(plan: CityPlan) -> int | None:
    """The only landmark that the flight would have met after the opposite first turn; None if there is no such one."""
    x, z, heading = plan.flight.corners[0]
    turned = heading + (90.0 if plan.flight.turns[0] == "left" else -90.0)
    angles = [abs(bearing(x, z, turned, box.x, box.z)) for box in plan.landmarks]
    best = int(np.argmin(angles))
    box = plan.landmarks[best]
    if angles[best] > AIM or not AIM_NEAREST <= math.hypot(box.x - x, box.z - z) <= AIM_FARTHEST:
        return None
    return best if sorted(angles)[1] >= AIM_CLEARANCE else None


def city_questions(
    seed: tuple[Part, ...], plan: CityPlan, known: Sequence[int], wanted: tuple[str, str]
) -> tuple[Question, ...] | None:
    """LP, CF, PE and AG of a clip with the ``wanted`` (LP, AG) answers; None if its known landmarks do not allow it.

    ``known`` lists them in the order in which they are to be asked for.
    """
    position, action = wanted
    here = sorted(set(landmarks_in_sector(plan, LP_LABELS.index(position))) & set(known), key=known.index)
    there = sorted(set(landmarks_in_sector(plan, AG_LABELS.index(action))) & set(known), key=known.index)
    aim = counterfactual_landmark(plan)
    pairs = [(a, b) for a in here for b in there]
    if aim is None or aim not in known or not pairs:
        return None
    # A clip's questions ask for different landmarks where they can.
    a, b = min(pairs, key=lambda pair: (pair[0] == pair[1], aim in pair, known.index(pair[0]) + known.index(pair[1])))
    words = [box.word or "" for box in plan.landmarks]
    return (
        _landmark_position(seed, words[a], position),
        _counterfactual(seed, plan, words, aim),
        _progress(seed, plan),
        _action(seed, words[b], action),
    )


def _landmark_position(seed: tuple[Part, ...], word: str, truth: str) -> Question:
    text = f"{CITY_PREAMBLE} When the video ends, where is the landmark with the sign {word} relative to you?"
    others = [label for label in LP_LABELS if label != truth]
    return make_question(seed, "LP", "Landmark Position", text, truth, others, n_options(seed, "LP", 3, 5))


def _counterfactual(seed: tuple[Part, ...], plan: CityPlan, words: list[str], aim: int) -> Question:
    turned = plan.flight.turns[0]
    opposite = "right" if turned == "left" else "left"
    text = (
        f"{CITY_PREAMBLE} At the end of the first straight stretch you turned {turned}. "
        f"Suppose you had turned {opposite} there instead and flown straight on. "
        "Towards which landmark would you have flown?"
    )
    others = [word for i, word in enumerate(words) if i != aim]
    return make_question(seed, "CF", "Counterfactual", text, words[aim], others, 3)


def _progress(seed: tuple[Part, ...], plan: CityPlan) -> Question:
    names = [step for turn in plan.flight.turns for step in ("fly forward", f"turn {turn}")]
    route = "; ".join(f"{number}. {name}" for number, name in enumerate(names, 1))
    text = (
        f"{CITY_PREAMBLE} Your planned route: {route}. "
        "How many steps of the route have you completed when the video ends?"
    )
    truth = len(plan.flight.steps)
    others = [str(number) for number in PE_WINDOW if number != truth]
    return make_question(seed, "PE", "Progress Evaluation", text, str(truth), others, len(PE_WINDOW))


def _action(seed: tuple[Part, ...], word: str, truth: str) -> Question:
    text = (
        f"{CITY_PREAMBLE} The video shows your flight so far. "
        f"You now want to fly to the landmark with the sign {word}. What do you do first?"
    )
    others = [label for label in AG_LABELS if label != truth]
    return make_question(seed, "AG", "Action Generation", text, truth, others, n_options(seed, "AG", 5, 7))
