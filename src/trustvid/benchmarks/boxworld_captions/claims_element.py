"""Content constraints on what is in the video: entity, attribute, event, action, camera work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trustvid.benchmarks.boxworld_captions.claim import (
    COLOURS_ZH,
    Claim,
    Wording,
    attempt,
    choice,
    letter_of,
    listing,
    omitted,
    pick,
)
from trustvid.benchmarks.boxworld_captions.facts import ClipFacts, Thing, other_colours


def _noun(facts: ClipFacts) -> str:
    return "tower" if facts.kind == "city" else "piece of furniture"


def entity(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """Signs that are there: two or three named, one of them asked about, one that is nowhere as the fault."""
    if len(free) < 2 or len(facts.absent) < 3:
        return None
    words = [thing.word for thing in pick(rng, free, 2 if len(free) < 4 else 3)]
    wrong, *decoys = pick(rng, facts.absent, 3)
    tried = attempt("Does the response name signs that can be read?")
    named = choice(rng, "Which of these signs does the response name?", words[0], [decoys[0], wrong])
    false = [wrong, *words[1:]]

    def wording(names: list[str], answer: str) -> tuple[Wording, ...]:
        said = listing(names)
        return tuple(
            Wording(sentence, listing(names), ("yes", answer), zh=f"牌子上写着{'、'.join(names)}。")
            for sentence in (f"The signs read {said}.", f"One can read the signs {said}.")
        )

    return Claim(
        "entity",
        f"name {len(words)} signs that can be read in the video, among them the one that begins with "
        f"'{_unique_start(words[0], facts)}'",
        "signs",
        "the signs that are named",
        (tried, named),
        wording(words, named.right),
        (*wording(false, letter_of(named, wrong)), omitted(("no", named.options[-1][0]))),
        tuple(words),
    )


def _unique_start(word: str, facts: ClipFacts) -> str:
    """The shortest beginning that only this sign of the scene has."""
    others = [thing.word for thing in facts.things if thing.word != word]
    return next(word[:n] for n in range(1, len(word) + 1) if not any(other.startswith(word[:n]) for other in others))


def attribute(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """The colour of one thing."""
    if not free:
        return None
    (thing,) = pick(rng, free, 1)
    wrong, other = pick(rng, other_colours(thing.colour), 2)
    tried = attempt(f"Is a colour given for the {thing.word}?")
    colour = choice(rng, f"Which colour does the response give the {thing.word}?", thing.colour, [wrong, other])

    def wording(name: str, answer: str) -> tuple[Wording, ...]:
        return tuple(
            Wording(
                sentence,
                f"{name} {thing.word}",
                ("yes", answer),
                zh=f"写着{thing.word}的东西是{COLOURS_ZH[name]}的。",
            )
            for sentence in (f"The {thing.word} is {name}.", f"The colour of the {thing.word} is {name}.")
        )

    return Claim(
        "attribute",
        f"give the colour of the {_noun(facts)} with the sign {thing.word}",
        "colour",
        f"the colour of the {thing.word}",
        (tried, colour),
        wording(thing.colour, colour.right),
        (*wording(wrong, letter_of(colour, wrong)), omitted(("no", colour.options[-1][0]))),
        (thing.word,),
    )


def event(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """What happens: the first turn of a flight, what comes into view last in a pan."""
    if facts.kind == "city":
        first, other = facts.turns[0], "right" if facts.turns[0] == "left" else "left"
        question = choice(
            rng,
            "What happens first after the opening straight stretch, according to the response?",
            f"it turns {first}",
            [f"it turns {other}", "it flies backward"],
        )
        tried = attempt("Does the response tell of a turn of the flight?")

        def turned(side: str) -> tuple[Wording, ...]:
            return tuple(
                Wording(sentence, f"first turn {side}", ("yes", letter_of(question, f"it turns {side}")))
                for sentence in (
                    f"After the opening stretch it turns {side}.",
                    f"The flight goes straight and then turns {side}.",
                )
            )

        lacking = omitted(("no", question.options[-1][0]))
        ask = "tell which way the flight first turns"
        return Claim(
            "event", ask, "event", "the first turn", (tried, question), turned(first), (*turned(other), lacking)
        )
    ends = facts.things[-1]
    if ends not in free:
        return None
    earlier = [thing for thing, later in facts.clear_pairs() if later == ends and thing in free]
    if len(earlier) < 2 or any(ends.first - thing.first < 4 for thing in facts.things[:-1]):
        return None
    wrong, other = (thing.word for thing in pick(rng, earlier, 2))
    question = choice(rng, "What comes into view last, according to the response?", ends.word, [wrong, other])
    tried = attempt("Does the response tell what comes into view last?")

    def last(word: str) -> tuple[Wording, ...]:
        return tuple(
            Wording(sentence, f"last in view {word}", ("yes", letter_of(question, word)))
            for sentence in (f"The {word} comes into view last.", f"What comes into view last is the {word}.")
        )

    lacking = omitted(("no", question.options[-1][0]))
    ask = "tell what comes into view last"
    names = (ends.word, wrong, other)
    return Claim(
        "event", ask, "event", "what comes last", (tried, question), last(ends.word), (*last(wrong), lacking), names
    )


def action(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """What the one who films does all the time."""
    truths = {"city": "flies forward", "room": "stands and turns around"}
    right = truths[facts.kind]
    wrong = "stands and turns around" if facts.kind == "city" else "flies forward"
    tried = attempt("Does the response say what the one who films does?")
    question = choice(
        rng, "What does the one who films do, according to the response?", right, [wrong, "climbs stairs"]
    )

    def does(what: str) -> tuple[Wording, ...]:
        zh = "拍摄的人一直向前飞行。" if what == "flies forward" else "拍摄的人站着转圈。"
        return tuple(
            Wording(sentence, f"films and {what}", ("yes", letter_of(question, what)), zh=zh)
            for sentence in (f"The one who films {what}.", f"Whoever films this {what}.")
        )

    lacking = omitted(("no", question.options[-1][0]))
    ask = "say what the one who films does"
    return Claim("action", ask, "action", "the filming", (tried, question), does(right), (*does(wrong), lacking))


def cinematic(facts: ClipFacts, free: Sequence[Thing], rng: np.random.Generator) -> Claim | None:
    """How it is shot."""
    kinds = {"city": "a tracking shot", "room": "a pan from one spot"}
    right, wrong = kinds[facts.kind], kinds["room" if facts.kind == "city" else "city"]
    tried = attempt("Does the response name the kind of camera shot?")
    question = choice(rng, "Which kind of camera shot does the response name?", right, [wrong, "a static close-up"])

    def shot(kind: str) -> tuple[Wording, ...]:
        return tuple(
            Wording(sentence, kind.removeprefix("a "), ("yes", letter_of(question, kind)))
            for sentence in (f"The camera makes {kind}.", f"As camera work it is {kind}.")
        )

    lacking = omitted(("no", question.options[-1][0]))
    ask = "name the kind of camera shot (tracking shot, pan from one spot, static close-up)"
    return Claim("cinematic", ask, "camera", "the camera shot", (tried, question), shot(right), (*shot(wrong), lacking))
