"""One solver for each family of questions: from a scene to (probability of each option, the reasoning in words).

A solver is chosen by the wording of the question. It returns None when the evidence does not reach; then the policy
says so and guesses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from trustvid.policy.scripted.geometry import (
    Camera,
    Spot,
    bearing,
    camera_of,
    heading_at,
    locate,
    position_at,
    turns_of,
    wrap,
)
from trustvid.policy.scripted.reading import Scene

SECTORS = {
    "straight ahead": 0.0,
    "ahead on the left": -45.0,
    "ahead on the right": 45.0,
    "on the left": -90.0,
    "on the right": 90.0,
    "behind on the left": -135.0,
    "behind on the right": 135.0,
    "behind": 180.0,
}
ACTIONS = {
    "keep flying straight ahead": 0.0,
    "turn left by about 45 degrees": -45.0,
    "turn right by about 45 degrees": 45.0,
    "turn left by about 90 degrees": -90.0,
    "turn right by about 90 degrees": 90.0,
    "turn left by about 135 degrees": -135.0,
    "turn right by about 135 degrees": 135.0,
    "turn around": 180.0,
}
QUADRANTS = {"front-left": -45.0, "front-right": 45.0, "back-left": -135.0, "back-right": 135.0}
DIRECTIONS = ("right", "left", "forward", "backward", "up", "down", "still")
SIDES = {"left": -67.5, "right": 67.5, "back": 180.0}


@dataclass(frozen=True)
class Finding:
    """Scores of the options by letter (higher is likelier), how far to trust them (0–1), and why."""

    scores: dict[str, float]
    trust: float
    reason: str


Solver = Callable[[Scene, "re.Match[str]"], Finding | None]


def solve(scene: Scene) -> Finding | None:
    """The finding of the first solver whose wording fits, or None."""
    for pattern, solver in SOLVERS:
        match = re.search(pattern, scene.question)
        if match:
            return solver(scene, match)
    return None


def _place(word: str, scene: Scene, camera: Camera) -> tuple[Spot, float] | None:
    """Place of the thing that carries a word, with the share of readings that say so."""
    thing, agreement = scene.links.get(word.upper(), ("", 0.0))
    spot = locate(thing, scene, camera) if thing else None
    return (spot, agreement) if spot else None


def _by_angle(scene: Scene, angle: float, table: dict[str, float], width: float = 22.5) -> dict[str, float]:
    """Score each option by how near its direction is: a Gaussian of the angular distance."""
    return {
        letter: math.exp(-0.5 * (wrap(table[text] - angle) / width) ** 2)
        for letter, text in scene.options.items()
        if text in table
    }


def _landmark_direction(scene: Scene, match: re.Match[str]) -> Finding | None:
    """LP and AG: the bearing of a landmark when the video ends."""
    camera = camera_of(scene.question)
    found = _place(match["word"], scene, camera) if camera else None
    if not camera or not found:
        return None
    spot, agreement = found
    origin = position_at(scene, camera, scene.duration)
    angle = bearing(origin, heading_at(scene, scene.duration), spot)
    table = ACTIONS if "do first" in scene.question else SECTORS
    reason = f"{match['word']} is on the {scene.links[match['word'].upper()][0]}, at the end at {angle:+.0f} degrees"
    return Finding(_by_angle(scene, angle, table), agreement, reason)


def _counterfactual(scene: Scene, match: re.Match[str]) -> Finding | None:
    """CF: which landmark lies in the direction of the turn that was not taken."""
    camera = camera_of(scene.question)
    turns = turns_of(scene.motion)
    if not camera or not turns:
        return None
    first = turns[0]
    heading = heading_at(scene, first.start) + (90.0 if match["other"] == "right" else -90.0)
    origin = position_at(scene, camera, first.start)
    scores: dict[str, float] = {}
    agreement = 1.0
    for letter, word in scene.options.items():
        found = _place(word, scene, camera)
        if found:
            off = bearing(origin, heading, found[0])
            scores[letter] = math.exp(-0.5 * (off / 30.0) ** 2) + 1e-6
            agreement = min(agreement, found[1])
        else:
            scores[letter] = 0.05  # unseen: likelier than one that is seen elsewhere
    if all(score == 0.05 for score in scores.values()):
        return None
    return Finding(scores, agreement, f"the first turn starts at {first.start:.1f} s; looking {match['other']} there")


def _progress(scene: Scene, match: re.Match[str]) -> Finding | None:
    """PE: steps of the planned route that the motion has completed."""
    if not scene.motion:
        return None
    turns = turns_of(scene.motion)
    forward = [part for part in scene.motion if part.label == "forward" and part.end - part.start >= 0.4]
    cuts = [turn.start for turn in turns] + [math.inf]
    legs, last = 0, 0.0
    for cut in cuts:
        legs += any(part.start < cut and part.end > last for part in forward)
        last = cut
    steps = len(turns) + legs
    scores = {}
    for letter, text in scene.options.items():
        number = re.search(r"\d+", text)
        if number:
            scores[letter] = math.exp(-abs(int(number[0]) - steps) / 0.5)
    return Finding(scores, 0.95, f"{legs} stretches forward and {len(turns)} turns make {steps} steps")


def _nearest_object(scene: Scene, match: re.Match[str]) -> Finding | None:
    """RDist: distances on the floor from one object to each option."""
    camera = camera_of(scene.question)
    centre = _place(match["word"], scene, camera) if camera else None
    if not camera or not centre:
        return None
    distances: dict[str, float] = {}
    agreement = centre[1]
    for letter, word in scene.options.items():
        found = _place(word, scene, camera)
        if found:
            distances[letter] = math.hypot(found[0].x - centre[0].x, found[0].z - centre[0].z)
            agreement = min(agreement, found[1])
    if not distances:
        return None
    near = min(distances.values())
    scores = {letter: math.exp(-(distance - near) / 0.4) for letter, distance in distances.items()}
    unseen = {letter: 0.2 for letter in scene.options if letter not in distances}
    listed = ", ".join(f"{scene.options[letter]} {d:.1f} m" for letter, d in sorted(distances.items()))
    return Finding(scores | unseen, agreement, f"from {match['word']}: {listed}")


def _turn_to(stand: Spot, face: Spot, target: Spot) -> float:
    """Angle to turn, standing at ``stand`` and facing ``face``, in order to face ``target``."""
    return bearing((stand.x, stand.z), math.degrees(math.atan2(face.x - stand.x, face.z - stand.z)), target)


def _relative_direction(scene: Scene, match: re.Match[str]) -> Finding | None:
    """RDir: the side of a third object for someone standing at one and facing another."""
    camera = camera_of(scene.question)
    found = [_place(match[name], scene, camera) for name in ("stand", "face", "target")] if camera else []
    if not found or any(item is None for item in found):
        return None
    places = [item for item in found if item]
    angle = _turn_to(*(spot for spot, _ in places))
    table = QUADRANTS if any(text in QUADRANTS for text in scene.options.values()) else SIDES
    scores = _by_angle(scene, angle, table, 40.0)
    return Finding(
        scores, min(share for _, share in places), f"{match['target']} is at {angle:+.0f} degrees from there"
    )


def _route(scene: Scene, match: re.Match[str]) -> Finding | None:
    """RP: the turn at each stop of a walk from object to object."""
    camera = camera_of(scene.question)
    found = [_place(match[name], scene, camera) for name in ("stand", "face", "via", "goal")] if camera else []
    if not found or any(item is None for item in found):
        return None
    places = [item for item in found if item]
    stand, face, via, goal = (spot for spot, _ in places)
    turns = [_turn_at(stand, face, via), _turn_at(face, via, goal)]
    scores: dict[str, float] = {}
    for letter, text in scene.options.items():
        names = [name.strip() for name in text.split(",")]
        if len(names) == 2:
            scores[letter] = math.prod(_turn_likelihood(name, turn) for name, turn in zip(names, turns, strict=True))
    reason = f"turn by {turns[0]:+.0f} degrees at the {match['face']}, by {turns[1]:+.0f} at the {match['via']}"
    return Finding(scores, min(share for _, share in places), reason)


def _turn_at(before: Spot, here: Spot, after: Spot) -> float:
    """Turn at ``here`` for someone who came from ``before`` and goes on to ``after``."""
    arrival = math.degrees(math.atan2(here.x - before.x, here.z - before.z))
    return bearing((here.x, here.z), arrival, after)


def _turn_likelihood(name: str, turn: float) -> float:
    """How well "turn left", "turn right" or "turn back" (135 degrees and beyond) names a turn: soft borders."""
    back = 1 / (1 + math.exp(-(abs(turn) - 135.0) / 10.0))
    right = 1 / (1 + math.exp(-turn / 15.0))
    return {"turn back": back, "turn right": (1 - back) * right, "turn left": (1 - back) * (1 - right)}.get(name, 0.0)


def _first_seen(word: str, scene: Scene, camera: Camera) -> tuple[float, float] | None:
    """When a thing first enters the view of a camera that turns on the spot: from its bearing and the headings."""
    thing, agreement = scene.links.get(word.upper(), ("", 0.0))
    spot = locate(thing, scene, camera) if thing else None
    if spot is None:
        return None
    half = math.degrees(math.atan2(0.5, camera.focal)) - 4.0
    direction = bearing((0.0, 0.0), 0.0, spot)
    steps = int(scene.duration / 0.05) + 1
    for step in range(steps):
        if abs(wrap(direction - heading_at(scene, step * 0.05))) < half:
            return step * 0.05, agreement
    first = min(box.time for box in scene.boxes if box.label == thing)
    return first, agreement


def _appearance_order(scene: Scene, match: re.Match[str]) -> Finding | None:
    """AO: the option that agrees best with the pairwise order of first appearance."""
    camera = camera_of(scene.question)
    words = [word.strip() for word in match["words"].split(",")]
    times = {word: seen for word in words if camera and (seen := _first_seen(word, scene, camera))}
    if len(times) < 2:
        return None
    scores: dict[str, float] = {}
    for letter, text in scene.options.items():
        order = [word.strip() for word in text.split(",")]
        pairs = [(a, b) for i, a in enumerate(order) for b in order[i + 1 :] if a in times and b in times]
        log_score = sum(-math.log1p(math.exp(-(times[b][0] - times[a][0]) / 0.15)) for a, b in pairs)
        scores[letter] = math.exp(log_score)
    order_seen = ", ".join(sorted(times, key=lambda word: times[word][0]))
    return Finding(scores, min(t[1] for t in times.values()), f"seen in the order {order_seen}")


def _camera_motion(scene: Scene, match: re.Match[str]) -> Finding | None:
    """How the camera moves: the option whose direction fills most of the time that was seen."""
    total = sum(part.end - part.start for part in scene.motion)
    if total <= 0:
        return None
    spent = {
        word: sum(part.end - part.start for part in scene.motion if word in part.label) / total for word in DIRECTIONS
    }
    scores = {
        letter: max((spent[word] for word in DIRECTIONS if re.search(rf"\b{word}", text.lower())), default=0.0)
        for letter, text in scene.options.items()
    }
    told = ", ".join(f"{word} {share:.0%}" for word, share in sorted(spent.items(), key=lambda i: -i[1]) if share)
    return Finding(scores, 0.8, f"of the time seen the camera goes {told}") if any(scores.values()) else None


SOLVERS: tuple[tuple[str, Solver], ...] = (
    (r"landmark with the sign (?P<word>\w+) relative to you", _landmark_direction),
    (r"fly to the landmark with the sign (?P<word>\w+)", _landmark_direction),
    (r"Suppose you had turned (?P<other>left|right) there", _counterfactual),
    (r"How many steps of the route", _progress),
    (r"closest to the (?P<word>\w+)\?", _nearest_object),
    (
        r"standing at the (?P<stand>\w+) and facing the (?P<face>\w+)\. Where is the (?P<target>\w+)\?",
        _relative_direction,
    ),
    (
        r"stand at the (?P<stand>\w+) facing the (?P<face>\w+)\..*?walk to the (?P<goal>\w+):"
        r".*?3\. go forward until the (?P<via>\w+)",
        _route,
    ),
    (r"first appear in the video: (?P<words>[\w, ]+)\?", _appearance_order),
    (r"(?i)how (does|is|did) the camera", _camera_motion),
)
