"""One solver for each family of questions: from a scene to (probability of each option, the reasoning in words).

A solver is chosen by the wording of the question. It returns None when the evidence does not reach; then the policy
says so and guesses. Solvers work on the rows of ``Draws``: every row votes for one option.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trustvid.policy.scripted.draws import ROWS, Draws
from trustvid.policy.scripted.geometry import TURN, camera_of, direction, turns_of, wrap
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
SHORTEST_LEG = 0.4  # seconds; what is shorter is no stretch of a route
SMOOTHING = 1.0  # votes, spread evenly over the options, besides those of the draws: no option is ever impossible


@dataclass(frozen=True)
class Finding:
    """Probability of each option by letter (they sum to 1) and the reasoning behind it."""

    shares: dict[str, float]
    reason: str

    @property
    def answer(self) -> str:
        """Letter of the likeliest option; of equals, the first."""
        return max(sorted(self.shares), key=self.shares.__getitem__)


Solver = Callable[[Scene, "re.Match[str]"], Finding | None]


def solver_for(question: str) -> tuple[Solver, re.Match[str]] | None:
    """The first solver whose wording fits a question, with what its wording names; None for other questions."""
    for pattern, solver in SOLVERS:
        match = re.search(pattern, question)
        if match:
            return solver, match
    return None


def by_scores(scores: dict[str, float], trust: float, reason: str) -> Finding | None:
    """Probabilities in proportion to scores (≥ 0), as far as they are trusted (0–1); None when all scores are 0."""
    total = sum(scores.values())
    if not total:
        return None
    shares = {letter: trust * score / total + (1 - trust) / len(scores) for letter, score in scores.items()}
    return Finding(shares, reason)


def _by_votes(scene: Scene, fit: dict[str, np.ndarray], reason: str) -> Finding | None:
    """Every draw votes for the option that fits it best; ``fit``: letter → [ROWS]. The most frequent option wins."""
    if not fit:
        return None
    letters = sorted(fit)
    votes = np.argmax([fit[letter] for letter in letters], axis=0)
    counts = np.bincount(votes[1:], minlength=len(letters))
    n = len(scene.options)
    shares = dict.fromkeys(scene.options, SMOOTHING / n / (ROWS - 1 + SMOOTHING))
    for letter, count in zip(letters, counts, strict=True):
        shares[letter] += count / (ROWS - 1 + SMOOTHING)
    return Finding(shares, reason)


def _draws(scene: Scene) -> Draws | None:
    """The draws of a scene; None when the question states no camera."""
    camera = camera_of(scene.question)
    return Draws(scene, camera) if camera else None


def _by_angle(scene: Scene, angle: np.ndarray, table: dict[str, float]) -> dict[str, np.ndarray]:
    """How near the direction of each option is to an angle [ROWS]."""
    return {letter: -np.abs(wrap(table[text] - angle)) for letter, text in scene.options.items() if text in table}


# -- city -------------------------------------------------------------------------------------------------------------


def _landmark_direction(scene: Scene, match: re.Match[str]) -> Finding | None:
    """LP and AG: the bearing of a landmark when the video ends."""
    draws, word = _draws(scene), match["word"]
    if draws is None:
        return None
    places, lost = draws.places([word])
    if lost:
        return None
    end = np.array([scene.duration])
    angle = wrap(direction(draws.positions(end)[:, 0], places[word]) - draws.headings(end)[:, 0])
    table = ACTIONS if "do first" in scene.question else SECTORS
    reason = f"{word} is on the {scene.links[word.upper()][0]}, at the end at {angle[0]:+.0f} degrees"
    return _by_votes(scene, _by_angle(scene, angle, table), reason)


def _counterfactual(scene: Scene, match: re.Match[str]) -> Finding | None:
    """CF: which landmark lies in the direction of the turn that was not taken."""
    draws, turns = _draws(scene), turns_of(scene.motion)
    if draws is None or not turns:
        return None
    places, lost = draws.places(list(scene.options.values()))
    if len(lost) == len(scene.options):
        return None
    start = np.array([turns[0].start])
    heading = draws.headings(start)[:, 0] + (90.0 if match["other"] == "right" else -90.0)
    origin = draws.positions(start)[:, 0]
    fit = {letter: -np.abs(wrap(direction(origin, places[word]) - heading)) for letter, word in scene.options.items()}
    return _by_votes(scene, fit, f"the first turn starts at {start[0]:.1f} s; looking {match['other']} there")


def _progress(scene: Scene, match: re.Match[str]) -> Finding | None:
    """PE: steps of the planned route that the motion has completed."""
    draws = _draws(scene)
    if draws is None or not scene.motion:
        return None
    turns, legs = _count_steps(draws)
    steps = turns + legs
    numbers = {letter: re.search(r"\d+", text) for letter, text in scene.options.items()}
    fit = {letter: -np.abs(int(number[0]) - steps) for letter, number in numbers.items() if number}
    reason = f"{legs[0]} stretches forward and {turns[0]} turns make {steps[0]} steps"
    return _by_votes(scene, fit, reason)


def _count_steps(draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Turns (stretches of one sense in a row, beyond ``TURN``) and legs (flight between them): [ROWS] each."""
    turned, flown = np.zeros(ROWS), np.zeros(ROWS)  # degrees of the turn, seconds of the leg that is under way
    turns, legs = np.zeros(ROWS, int), np.zeros(ROWS, int)
    for yaw, metres, length in zip(draws.yaws.T, draws.metres.T, draws.ends - draws.starts, strict=True):
        over = (metres > 0) | (turned * yaw < 0)
        counts = over & (np.abs(turned) > TURN)
        turns += counts
        legs += counts & (flown >= SHORTEST_LEG)
        flown = np.maximum(np.where(counts, 0.0, flown), (metres > 0) * length)
        turned = np.where(over, 0.0, turned) + yaw
    return turns + (np.abs(turned) > TURN), legs + (flown >= SHORTEST_LEG)


# -- room -------------------------------------------------------------------------------------------------------------


def _nearest_object(scene: Scene, match: re.Match[str]) -> Finding | None:
    """RDist: distances on the floor from one object to each option."""
    draws, centre = _draws(scene), match["word"]
    if draws is None:
        return None
    places, lost = draws.places([centre, *scene.options.values()])
    if centre in lost or len(lost) == len(scene.options):
        return None
    distances = {letter: np.hypot(*(places[word] - places[centre]).T) for letter, word in scene.options.items()}
    listed = ", ".join(
        f"{word} {distances[letter][0]:.1f} m" for letter, word in sorted(scene.options.items()) if word not in lost
    )
    return _by_votes(scene, {letter: -distance for letter, distance in distances.items()}, f"from {centre}: {listed}")


def _relative_direction(scene: Scene, match: re.Match[str]) -> Finding | None:
    """RDir: the side of a third object for someone standing at one and facing another."""
    draws, words = _draws(scene), [match["stand"], match["face"], match["target"]]
    if draws is None:
        return None
    places, lost = draws.places(words)
    if lost:
        return None
    stand, face, target = (places[word] for word in words)
    angle = wrap(direction(stand, target) - direction(stand, face))
    table = QUADRANTS if any(text in QUADRANTS for text in scene.options.values()) else SIDES
    return _by_votes(
        scene, _by_angle(scene, angle, table), f"{match['target']} is at {angle[0]:+.0f} degrees from there"
    )


def _route(scene: Scene, match: re.Match[str]) -> Finding | None:
    """RP: the turn at each stop of a walk from object to object; one of the two turns is enough to answer from."""
    draws, words = _draws(scene), [match["stand"], match["face"], match["via"], match["goal"]]
    if draws is None:
        return None
    places, lost = draws.places(words)
    if len(lost) > 1 or lost in ([match["face"]], [match["via"]]):
        return None
    stand, face, via, goal = (places[word] for word in words)
    first = wrap(direction(face, via) - direction(stand, face))
    second = wrap(direction(via, goal) - direction(face, via))
    fit: dict[str, np.ndarray] = {}
    for letter, text in scene.options.items():
        names = [name.strip() for name in text.split(",")]
        if len(names) == 2:
            fit[letter] = _turn_likelihood(names[0], first) * _turn_likelihood(names[1], second)
    told = {match["face"]: first, match["via"]: second}
    unknown = match["face"] if lost == [match["stand"]] else match["via"] if lost else None
    turns = [f"at the {word} by {turn[0]:+.0f} degrees" for word, turn in told.items() if word != unknown]
    return _by_votes(scene, fit, f"turn {', '.join(turns)}")


def _turn_likelihood(name: str, turn: np.ndarray) -> np.ndarray:
    """How well "turn left", "turn right" or "turn back" (135 degrees and beyond) names a turn: soft borders."""
    back = 1 / (1 + np.exp(-(np.abs(turn) - 135.0) / 10.0))
    right = 1 / (1 + np.exp(-turn / 15.0))
    known = {"turn back": back, "turn right": (1 - back) * right, "turn left": (1 - back) * (1 - right)}
    return known.get(name, np.zeros_like(turn))


def _appearance_order(scene: Scene, match: re.Match[str]) -> Finding | None:
    """AO: the option that agrees best with the pairwise order of first appearance."""
    draws, words = _draws(scene), [word.strip() for word in match["words"].split(",")]
    if draws is None:
        return None
    places, lost = draws.places(words)
    if len(words) - len(lost) < 2:
        return None
    times = _first_seen(scene, draws, places)
    fit: dict[str, np.ndarray] = {}
    for letter, text in scene.options.items():
        order = [word.strip() for word in text.split(",")]
        pairs = [(a, b) for a, b in itertools.combinations(order, 2) if a in times and b in times]
        fit[letter] = -sum((np.logaddexp(0.0, (times[a] - times[b]) / 0.15) for a, b in pairs), np.zeros(ROWS))
    seen = sorted((word for word in words if word not in lost), key=lambda word: times[word][0])
    return _by_votes(scene, fit, f"seen in the order {', '.join(seen)}")


def _first_seen(scene: Scene, draws: Draws, places: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Seconds [ROWS] at which things at ``places`` first enter the view of a camera that turns on the spot.

    A place that never comes into view was misjudged, or is that of a thing never seen: it then counts as seen at the
    first sighting of the thing, or at the end.
    """
    camera = camera_of(scene.question)
    grid = np.arange(0.0, scene.duration + 0.1, 0.1)
    headings = draws.headings(grid)
    half = math.degrees(math.atan2(0.5, camera.focal)) - 4.0
    times = {}
    for word, place in places.items():
        in_view = np.abs(wrap(direction(np.zeros(2), place)[:, None] - headings)) < half
        thing = scene.links.get(word.upper(), ("", 0.0))[0]
        sighted = min((box.time for box in scene.boxes if box.label == thing), default=scene.duration)
        times[word] = np.where(in_view.any(axis=1), grid[in_view.argmax(axis=1)], sighted)
    return times


# -- any video --------------------------------------------------------------------------------------------------------


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
    return by_scores(scores, 0.8, f"of the time seen the camera goes {told}")


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
