"""What the tools' evidence lets one say about a video, point by point. No evidence, no claim."""

from __future__ import annotations

import re
from collections.abc import Callable

from trustvid.policy.scripted.geometry import turns_of
from trustvid.policy.scripted.reading import Scene

NOTHING = "The tools report nothing about this."

_COLOURS_ZH = {
    **{"red": "红色", "orange": "橙色", "yellow": "黄色", "green": "绿色"},
    **{"cyan": "青色", "blue": "蓝色", "purple": "紫色", "pink": "粉色"},
}


class SceneFacts:
    """Statements about one scene.

    Args:
        scene: the evidence as read from the messages.
        silent_on: words of things that must not be mentioned.
    """

    def __init__(self, scene: Scene, silent_on: tuple[str, ...] = ()):
        silent = {word.upper() for word in silent_on}
        self.scene = scene
        self.colours = {
            word: thing.split()[0] for word, (thing, _) in sorted(scene.links.items()) if word.upper() not in silent
        }
        self.flying = any(part.label == "forward" for part in scene.motion)

    @property
    def words(self) -> list[str]:
        """Signs that were read, by first reading."""
        first = {seen.label.upper(): seen.time for seen in sorted(self.scene.reads, key=lambda seen: -seen.time)}
        return sorted(self.colours, key=lambda word: (first.get(word, 0.0), word))

    def appears(self, word: str) -> float | None:
        """When the thing with this sign is first in view."""
        thing = self.scene.links.get(word.upper(), ("", 0.0))[0]
        times = [seen.time for seen in self.scene.boxes if seen.label == thing]
        return min(times) if times else None

    def about(self, point: str) -> str:
        """A sentence on one point of an instruction."""
        for pattern, tell in _TELLERS:
            if re.search(pattern, point, re.IGNORECASE):
                return tell(self, point) or NOTHING
        return self.gist()

    def in_chinese(self, point: str) -> str:
        """The same in Chinese, for the few points it can tell."""
        words = re.findall(r"\b[A-Z]{2,}\b", point)
        if re.search(r"colour", point) and words and words[0] in self.colours:
            return f"写着{words[0]}的东西是{_COLOURS_ZH.get(self.colours[words[0]], '有颜色')}的。"
        if re.search(r"appears first", point) and len(words) > 1:
            first, second = self._by_appearance(words[:2])
            return f"{first}比{second}先出现。"
        if re.search(r"signs", point) and self.words:
            return f"牌子上写着{'、'.join(self._asked_signs(point))}。"
        if re.search(r"carries", point):
            return "摄像机大概装在无人机上。" if self.flying else "摄像机大概拿在人手里。"
        if re.search(r"films", point):
            return "拍摄的人一直向前飞行。" if self.flying else "拍摄的人站着转圈。"
        if re.search(r"mention", point) and words:
            return f"那里有{words[0]}。"
        return "总之，这是一次穿过城市的飞行。" if self.flying else "总之，这是对房间的一次环视。"

    def everything(self) -> list[str]:
        """All that can be told, most general first: for instructions without a list of points."""
        told = [self.gist(), self.motion()]
        told += [f"The {word} is {colour}." for word, colour in self.colours.items()]
        return [text for text in told if text]

    # -- statements ----------------------------------------------------------------------------------------------------

    def gist(self, point: str = "") -> str:
        """The whole clip in one sentence."""
        kind = "a flight through a city of boxes" if self.flying else "a look around a room of boxes"
        return f"To sum up, the clip is {kind}."

    def motion(self, point: str = "") -> str:
        """What the one who films does."""
        return "The one who films flies forward." if self.flying else "The one who films stands and turns around."

    def shot(self, point: str) -> str:
        """The kind of camera shot."""
        return f"The camera makes {'a tracking shot' if self.flying else 'a pan from one spot'}."

    def carrier(self, point: str) -> str:
        """What carries the camera."""
        return f"Probably {'a drone' if self.flying else 'a person'} carries the camera."

    def turn(self, point: str) -> str:
        """The first turn of a flight."""
        turns = turns_of(self.scene.motion)
        side = "right" if turns and turns[0].yaw > 0 else "left"
        return f"After the opening stretch it turns {side}." if turns else ""

    def last(self, point: str) -> str:
        """What comes into view last."""
        seen = [(time, word) for word in self.colours if (time := self.appears(word)) is not None]
        return f"The {max(seen)[1]} comes into view last." if seen else ""

    def signs(self, point: str) -> str:
        """Signs that were read, as many as asked for."""
        words = self._asked_signs(point)
        return f"The signs read {_listing(words)}." if words else ""

    def _asked_signs(self, point: str) -> list[str]:
        number = re.search(r"\b(\d+) signs", point)
        start = re.search(r"begins with '(\w+)'", point)
        ranked = sorted(self.words, key=lambda word: not (start and word.startswith(start[1])))
        return ranked[: int(number[1]) if number else len(ranked)]

    def colour(self, point: str) -> str:
        """The colour of a thing."""
        word = self._asked(point)
        return f"The {word} is {self.colours[word]}." if word else ""

    def detail(self, point: str) -> str:
        """A thing in detail."""
        word = self._asked(point)
        if not word:
            return ""
        return f"The {word} has the shape of a {self.colours[word]} box with a white plate on its sides."

    def mention(self, point: str) -> str:
        """That a thing is there."""
        word = re.search(r"\b[A-Z]{2,}\b", point)
        return f"A {word[0]} is there." if word else ""

    def order(self, point: str) -> str:
        """Which of two things appears first."""
        words = re.findall(r"\b[A-Z]{2,}\b", point)[:2]
        if len(words) < 2 or any(self.appears(word) is None for word in words):
            return ""
        first, second = self._by_appearance(words)
        return f"The {first} appears before the {second}."

    def voice(self, point: str) -> str:
        """In the first person."""
        return f"I {'hover above the street' if self.flying else 'stand in the middle of the room'} and look around."

    def _by_appearance(self, words: list[str]) -> list[str]:
        return sorted(words, key=lambda word: (self.appears(word) if self.appears(word) is not None else 1e9, word))

    def _asked(self, point: str) -> str:
        return next((word for word in re.findall(r"\b[A-Z]{2,}\b", point) if word in self.colours), "")


def _listing(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# The first pattern that fits a point decides.
_TELLERS: tuple[tuple[str, Callable[[SceneFacts, str], str]], ...] = (
    (r"\bfirst person\b", SceneFacts.voice),
    (r"\bappears? first\b", SceneFacts.order),
    (r"\bview last\b|\bappears? last\b", SceneFacts.last),
    (r"\bin detail\b", SceneFacts.detail),
    (r"\bcolou?r\b", SceneFacts.colour),
    (r"\bsigns?\b|\bread\b|\btext\b", SceneFacts.signs),
    (r"\bcarries\b|\bcarried\b", SceneFacts.carrier),
    (r"\bshot\b|\bcamera work\b", SceneFacts.shot),
    (r"\bturns?\b", SceneFacts.turn),
    (r"\bfilms?\b|\baction\b|\bdo(?:es|ing)?\b", SceneFacts.motion),
    (r"\bmention\b", SceneFacts.mention),
    (r"\bsum\b|\bgist\b|\bsummar", SceneFacts.gist),
)
