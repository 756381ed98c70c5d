"""Answers to a checklist's questions by comparing words, without a model: a documented, limited, deterministic reader.

How it reads. Words are compared in lower case and without endings; words in capitals (signs) only with words in
capitals, unless the response has one case throughout. A question's *matter* is its words without function words and
words about the task ("mention", "response"); its *names* are its words in capitals. The *place* a question is about is
the sentences (list items, JSON values) that have most of its matter; where it has names, those that have a name.

- attempt: yes when at least half of the matter stands in the response (a kind like "colour" is met by "red", "sign" by
  a word in capitals); a kind and a name must meet in one sentence. A question that asks for leaving something out
  ("avoid", "without") is answered the other way round, by the first word found. Without matter: yes when there is any
  text.
- correctness: each option's own words (those that not all options share) are looked for in the place, then, if the
  question has no names, in the whole response. The option with the largest share of its words there wins, when that is
  at least 60 % and larger than any other's; negated words ("not red") count as missing. Options with equal words are
  told apart by their order. When no option gets that far, the opt-out ("None of the above") is chosen.
- Who speaks is read off the pronouns.
- A tie, no opt-out to fall back to, or a response in another script than the question is a typed failure: undecided,
  never a guess.

It knows no synonyms and understands no sentence: its answers are marked as lexical, its confidence is at most 3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from trustvid.judge.structure import Structure
from trustvid.judge.words import AVOIDING, CATEGORIES, META_WORDS, NEGATIONS, STOP_WORDS

if TYPE_CHECKING:
    from trustvid.captioning.checklist import OpenItem

_HAN = "\u4e00-\u9fff"
_TOKEN = re.compile(rf"[{_HAN}]|[^\W_{_HAN}]+(?:['’-][^\W_{_HAN}]+)*")
_OPT_OUT = re.compile(
    r"\b(?:none of (?:the|these)|not (?:mentioned|specified|stated|described|given|clear)|cannot be|can't be|unclear"
    r"|unknown|unspecified|nothing|no such|neither|no mention)\b",
    re.IGNORECASE,
)
_MARKER = re.compile(r"\A\s*\(?[A-Z]\s*[.):：]\s*")
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ENOUGH, _HALF = 0.6, 0.5
_NEGATION_REACH = 3


@dataclass(frozen=True)
class Lexical:
    """An answer found by words.

    Attributes:
        answer: "yes", "no" or a letter.
        explanation: the words that decided.
        confidence: 1–3.
    """

    answer: str
    explanation: str
    confidence: int


class Undecided(Exception):
    """The words do not decide; the message says between what."""


class _Text:
    """A response and its words."""

    def __init__(self, text: str):
        self.text = text

    @cached_property
    def tokens(self) -> list[str]:
        return _TOKEN.findall(self.text)

    @cached_property
    def one_case(self) -> bool:
        """Whether capitals tell nothing."""
        return self.text.isupper() or self.text.islower()

    @cached_property
    def words(self) -> frozenset[str]:
        """Words as :func:`_word` gives them, negated ones left out."""
        return frozenset(
            form
            for number, token in enumerate(self.tokens)
            if not NEGATIONS & {near.casefold() for near in self.tokens[max(0, number - _NEGATION_REACH) : number]}
            for form in {stem(token.casefold()), token if _is_name(token) else ""}
            if form
        )

    @cached_property
    def sentences(self) -> list[str]:
        found = Structure(self.text)
        return found.value_texts if found.value is not None else (found.sentences or found.lines)

    def word(self, token: str) -> str:
        """The form in which a word of a question or an option is looked for."""
        return token if _is_name(token) and not self.one_case else stem(token.casefold())


def answer(item: OpenItem, response: str) -> Lexical:
    """The reader's answer to one question.

    Raises:
        Undecided: the words do not decide.
    """
    text = _Text(response)
    return _attempt(item.question, text) if item.check_type == "attempt" else _choice(item, text)


# ------------------------------------------------------------------------------------------------------------ attempts


def _attempt(question: str, text: _Text) -> Lexical:
    tokens = _TOKEN.findall(question)
    avoiding = bool(AVOIDING & {token.casefold() for token in tokens})
    matter = [token for token in _matter(tokens) if token.casefold() not in AVOIDING]
    if not matter:
        return Lexical("yes" if text.text.strip() else "no", "there is text" if text.text.strip() else "no text", 1)
    kinds = [token for token in matter if stem(token.casefold()) in CATEGORIES]
    names = [token for token in matter if _is_name(token)]
    places = [_Text(one) for one in text.sentences if kinds and names] or [text]
    met = max(([token for token in matter if _is_met(token, place)] for place in places), key=len)
    if not met and _other_script(question, text.text):
        raise Undecided("the response is in another script than the question")
    share = len(met) / len(matter)
    enough = 1.0 if kinds and names else _HALF
    holds = share > 0 if avoiding else share >= enough
    explanation = f"of {', '.join(matter)} the response has {', '.join(met) or 'nothing'}"
    return Lexical("no" if holds == avoiding else "yes", explanation, 3 if share in (0.0, 1.0) else 2)


def _is_met(token: str, place: _Text) -> bool:
    word = stem(token.casefold())
    if word == "sign" and any(map(_is_name, place.tokens)) and not place.one_case:
        return True
    return place.word(token) in place.words or bool({stem(w) for w in CATEGORIES.get(word, ())} & place.words)


# ------------------------------------------------------------------------------------------------------------- options

_SPEAKER = re.compile(r"\bwho (?:speaks|tells|narrates)\b|\bpoint of view\b|\b(?:which|what) person\b", re.IGNORECASE)
_FIRST, _SECOND = re.compile(r"\bI\b|\b(?:me|my|we|our)\b"), re.compile(r"\b[Yy]ou(?:r)?\b")
_VOICES = (
    (_FIRST, re.compile(r"\bas I\b|\bI\b|first[- ]person", re.IGNORECASE)),
    (_SECOND, re.compile(r"\byou\b|second[- ]person", re.IGNORECASE)),
)
_OUTSIDE = re.compile(r"third[- ]person|narrator|outside|observer", re.IGNORECASE)


def _choice(item: OpenItem, text: _Text) -> Lexical:
    options = {letter: _MARKER.sub("", option) for letter, option in zip(_LETTERS, item.options, strict=False)}
    if _SPEAKER.search(item.question):
        return _speaker(options, "\n".join(text.sentences))  # without list markers: "I." is nobody
    opt_out = next((letter for letter, option in options.items() if _OPT_OUT.search(option)), None)
    own = _own_words({letter: option for letter, option in options.items() if letter != opt_out}, text)
    names = any(_is_name(token) for token in _matter(_TOKEN.findall(item.question)))
    place = _place(item.question, text)
    winners: list[str] = []
    for where, confidence in ((place, 3),) if names else ((place, 3), (text, 2)):
        shares = {letter: _share(words, where) for letter, words in own.items()}
        best = max(shares.values(), default=0.0)
        winners = [letter for letter, share in shares.items() if share == best >= _ENOUGH]
        if len(winners) > 1:
            winners = _in_order(winners, own, where)
        if len(winners) == 1:
            return Lexical(winners[0], f"{winners[0]}'s words stand there: {', '.join(own[winners[0]])}", confidence)
    if _other_script(item.question, text.text):
        raise Undecided("the response is in another script than the question")
    if not winners and opt_out:
        return Lexical(opt_out, "no other option's words stand there", 1)
    raise Undecided(f"the words do not decide between {', '.join(winners) or 'the options'}")


def _own_words(options: dict[str, str], text: _Text) -> dict[str, list[str]]:
    """The words of each option that not all options share, in order; all of them where options have the same words."""
    words = {}
    for letter, option in options.items():
        tokens = _TOKEN.findall(option)
        words[letter] = [text.word(t) for t in [t for t in tokens if t.casefold() not in STOP_WORDS] or tokens]
    shared = set.intersection(*map(set, words.values())) if len(words) > 1 else set()
    own = {letter: [word for word in found if word not in shared] for letter, found in words.items()}
    return own if any(own.values()) else words


def _share(words: Sequence[str], place: _Text) -> float:
    return sum(word in place.words for word in words) / len(words) if words else 0.0


def _place(question: str, text: _Text) -> _Text:
    """The sentences that the question is about."""
    matter = _matter(_TOKEN.findall(question))
    names = {token for token in matter if _is_name(token)}
    wanted = {text.word(token) for token in names or matter}
    shared = [
        len(wanted & {form for t in _TOKEN.findall(one) for form in (t, stem(t.casefold()))}) for one in text.sentences
    ]
    most = max(shared, default=0)
    return _Text("\n".join(one for one, count in zip(text.sentences, shared, strict=True) if count == most > 0))


def _in_order(letters: Sequence[str], own: dict[str, list[str]], place: _Text) -> list[str]:
    """Those options whose words first occur in the option's own order."""
    said = [place.word(token) for token in place.tokens]
    ordered = []
    for letter in letters:
        places = [said.index(word) for word in own[letter] if word in said]
        if places == sorted(places):
            ordered.append(letter)
    return ordered or list(letters)


def _speaker(options: dict[str, str], response: str) -> Lexical:
    for heard, meant in _VOICES:
        letters = [letter for letter, option in options.items() if meant.search(option)]
        found = heard.search(response)
        if found and len(letters) == 1:
            return Lexical(letters[0], f"the response says {found[0]!r}", 3)
    letters = [letter for letter, option in options.items() if _OUTSIDE.search(option)]
    if len(letters) != 1:
        raise Undecided("the pronouns do not decide who speaks")
    return Lexical(letters[0], "the response has neither I nor you", 2)


# --------------------------------------------------------------------------------------------------------------- words


def _matter(tokens: Sequence[str]) -> list[str]:
    """Words that carry what a question is about, each once."""
    return [
        token
        for token in dict.fromkeys(tokens)
        if _is_name(token) or (token.casefold() not in STOP_WORDS and token.casefold() not in META_WORDS)
    ]


def _is_name(token: str) -> bool:
    return len(token) > 1 and token.isupper()


def _other_script(question: str, response: str) -> bool:
    """Whether the question is in Latin letters and most of the response in Chinese characters."""
    han = len(re.findall(f"[{_HAN}]", response))
    return not re.search(f"[{_HAN}]", question) and han > len(re.findall(r"[A-Za-z]", response))


def stem(word: str) -> str:
    """A lower-case word without its ending: enough to compare, not a linguist's stem.

    >>> [stem(word) for word in ("cars", "boxes", "bus", "carries", "carried", "turning", "films")]
    ['car', 'box', 'bus', 'carry', 'carry', 'turn', 'film']
    """
    if len(word) > 4 and word.endswith(("ies", "ied")):
        return f"{word[:-3]}y"
    if len(word) > 4 and word.endswith(("xes", "ches", "shes", "sses")):
        return word[:-2]
    if len(word) > 5 and word.endswith("ing"):
        return word[:-3]
    if len(word) > 4 and word.endswith("ed"):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
