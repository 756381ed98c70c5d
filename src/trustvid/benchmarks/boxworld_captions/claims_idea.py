"""Content constraints on how the video is told: detail, summary, inference, and what frames the telling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trustvid.benchmarks.boxworld_captions.claim import (
    Claim,
    Question,
    Wording,
    attempt,
    choice,
    letter_of,
    omitted,
    pick,
)
from trustvid.benchmarks.boxworld_captions.facts import ClipFacts, Thing, other_colours


def detail(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """One thing in detail: shape, colour, plate."""
    if not free:
        return None
    (thing,) = pick(rng, free, 1)
    wrong, other = pick(rng, other_colours(thing.colour), 2)
    tried = attempt(f"Does the response describe the shape of the {thing.word}?")
    look = choice(
        rng,
        f"How does the response describe the {thing.word}?",
        f"a {thing.colour} box with a white plate",
        [f"a {wrong} box with a white plate", f"a round {other} ball"],
    )

    def seen(colour: str) -> tuple[Wording, ...]:
        answers = ("yes", letter_of(look, f"a {colour} box with a white plate"))
        return tuple(
            Wording(sentence, f"{thing.word}: {colour} box, white plate", answers)
            for sentence in (
                f"The {thing.word} has the shape of a {colour} box with a white plate on its sides.",
                f"In shape the {thing.word} is a {colour} box with a white plate on every side.",
            )
        )

    return Claim(
        "detail",
        f"describe the shape, colour and plates of the {thing.word} in detail",
        "detail",
        f"details of the {thing.word}",
        (tried, look),
        seen(thing.colour),
        (*seen(wrong), omitted(("no", look.options[-1][0]))),
        (thing.word,),
    )


def summary(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """The gist."""
    gists = {"city": "a flight through a city of boxes", "room": "a look around a room of boxes"}
    right, wrong = gists[facts.kind], gists["room" if facts.kind == "city" else "city"]
    tried = attempt("Does the response sum up the clip?")
    question = choice(rng, "What is the clip, according to the response?", right, [wrong, "a walk along a beach"])

    def gist(text: str) -> tuple[Wording, ...]:
        zh = "总之，这是一次穿过城市的飞行。" if "flight" in text else "总之，这是对房间的一次环视。"
        return tuple(
            Wording(sentence, text.removeprefix("a "), ("yes", letter_of(question, text)), zh=zh)
            for sentence in (f"To sum up, the clip is {text}.", f"The clip, to sum it up, shows {text}.")
        )

    lacking = omitted(("no", question.options[-1][0]))
    ask = "sum up the clip"
    return Claim("summary", ask, "gist", "the gist", (tried, question), gist(right), (*gist(wrong), lacking))


def inference(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """What carries the camera, inferred from its height and motion."""
    carriers = {"city": "a drone", "room": "a person"}
    right, wrong = carriers[facts.kind], carriers["room" if facts.kind == "city" else "city"]
    tried = attempt("Does the response infer what carries the camera?")
    question = choice(rng, "What carries the camera, according to the response?", right, [wrong, "a train"])

    def carried(by: str) -> tuple[Wording, ...]:
        zh = "摄像机大概装在无人机上。" if by == "a drone" else "摄像机大概拿在人手里。"
        return tuple(
            Wording(sentence, f"carried by {by}", ("yes", letter_of(question, by)), zh=zh)
            for sentence in (f"Probably {by} carries the camera.", f"The camera is probably carried by {by}.")
        )

    lacking = omitted(("no", question.options[-1][0]))
    ask = "infer what carries the camera"
    return Claim(
        "inference", ask, "carrier", "the carrier", (tried, question), carried(right), (*carried(wrong), lacking)
    )


def perspective(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """One piece told by the one who films, as "I"."""
    question = choice(
        rng,
        "Who speaks in the response?",
        "the one who films, as I",
        ["a narrator outside the scene", "a guide who addresses you"],
    )
    place = "above the street" if facts.kind == "city" else "in the middle of the room"
    verb = "hover" if facts.kind == "city" else "stand"
    right = tuple(
        Wording(sentence, f"I {verb} {place}", (question.right,))
        for sentence in (f"I {verb} {place} and look around.", f"Around me, as I {verb} {place}, there are boxes.")
    )
    outside = letter_of(question, "a narrator outside the scene")
    fault = Wording(f"Somebody {verb}s {place} and looks around.", f"somebody {verb}s {place}", (outside,))
    ask = "speak in one place as the one who films, in the first person"
    return Claim("perspective", ask, "voice", "the point of view", (question,), right, (fault,))


def focus(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """Nothing of the surroundings."""
    away = "sky" if facts.kind == "city" else "floor"
    question = attempt(f"Does the response avoid any mention of the {away}?")
    fault = Wording("", "", ("no",), tail={"sky": "under a pale sky", "floor": "on a grey floor"}[away])
    ask = f"keep to the coloured boxes and say nothing of the {away}"
    return Claim("focus", ask, "", "only the boxes", (question,), (Wording("", "", ("yes",)),), (fault,))


def include(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """One thing that must be mentioned."""
    if not free:
        return None
    (thing,) = pick(rng, free, 1)
    question = attempt(f"Does the response mention the {thing.word}?")
    right = tuple(
        Wording(sentence, f"a {thing.word}", ("yes",), zh=f"那里有{thing.word}。")
        for sentence in (f"A {thing.word} is there.", f"There is a {thing.word} to be seen.")
    )
    fault = Wording("Something else is there.", "something else", ("no",), zh="那里还有别的东西。")
    ask = f"mention the {thing.word}"
    return Claim("include", ask, "also", f"the {thing.word}", (question,), right, (fault,), (thing.word,))


def exclude(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """One thing that must not be mentioned."""
    if not free:
        return None
    (thing,) = pick(rng, free, 1)
    question = choice(rng, "Which of these does the response mention?", thing.word, pick(rng, facts.absent, 2))
    question = Question(question.kind, question.text, question.options, question.options[-1][0])
    fault = Wording("", "", (letter_of(question, thing.word),), tail=f"not far from the {thing.word}")
    right = Wording("", "", (question.right,))
    ask = f"do not mention the {thing.word}"
    return Claim("exclude", ask, "", f"nothing of the {thing.word}", (question,), (right,), (fault,), (thing.word,))


def comparative(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """Which of two things comes into view first."""
    pairs = [(a, b) for a, b in facts.clear_pairs() if a in free and b in free]
    if not pairs:
        return None
    earlier, later = pairs[int(rng.integers(len(pairs)))]
    question = choice(
        rng,
        f"How does the response compare the {earlier.word} and the {later.word}?",
        f"the {earlier.word} appears before the {later.word}",
        [f"the {later.word} appears before the {earlier.word}", "both appear at the same moment"],
    )
    tried = attempt(f"Does the response compare the {earlier.word} and the {later.word}?")

    def order(a: Thing, b: Thing) -> tuple[Wording, ...]:
        answer = letter_of(question, f"the {a.word} appears before the {b.word}")
        return tuple(
            Wording(sentence, f"{a.word} before {b.word}", ("yes", answer), zh=f"{a.word}比{b.word}先出现。")
            for sentence in (
                f"The {a.word} appears before the {b.word}.",
                f"Of the two, the {a.word} appears earlier, that is before the {b.word}.",
            )
        )

    return Claim(
        "comparative",
        f"compare which of {earlier.word} and {later.word} appears first",
        "order",
        f"the order of {earlier.word} and {later.word}",
        (tried, question),
        order(earlier, later),
        (*order(later, earlier), omitted(("no", question.options[-1][0]))),
        (earlier.word, later.word),
    )
