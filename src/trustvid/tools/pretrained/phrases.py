"""From a sub-query to the names of things that an open-vocabulary detector is to look for."""

from __future__ import annotations

import re
from collections.abc import Sequence

MAX_WORDS = 4  # of one phrase; of longer runs the last ones, which hold the noun

# Words that end a phrase. Function words first; then what questions about videos ask with, and do not ask for.
_STOPS = frozenset(
    """
    a an the this that these those some any each every all both either neither other another such same no none one two
    three four five six seven eight nine ten first second third last next many much more most less least few several
    of in on at by to from for with without within into onto over under above below behind between beside besides
    near nearby nearest around across along through toward towards against about after before during while until up
    down out off inside outside as than then and or but nor not if so because also only just very too again else
    is are was were be been being am do does did done has have had can could will would shall should may might must
    there here it its he him his she her hers they them their you your we us our i me my who whom whose what which
    when where why how yes what's where's there's isn't
    find locate detect identify count list describe tell name give say look see seen show shown shows showing visible
    appear appears appearing appeared contain contains present exist exists depict depicts depicted report check
    compare determine choose answer following correct contained located positioned placed happen happens
    stand stands standing sit sits sitting walk walks walking run runs running move moves moving moved go goes going
    come comes coming turn turns turning turned hold holds holding wear wears wearing pass passes passing passed fly
    flies flying face faces facing hang hangs hanging lie lies lying use used using make makes made get gets take takes
    taken reach reaches start starts started stop stops stopped end ends ended begin begins keep keeps drive drives
    driving enter enters leave leaves follow follows look looks looking read reads reading write writes written
    left right top bottom middle center centre front back side sides corner edge upper lower upwards downwards forward
    backward ahead north south east west direction directions position positions location locations place places
    distance far close closer closest farther farthest further side-by-side clockwise degrees metres meters meter
    picture pictures image images frame frames video videos clip scene view camera observer viewer
    foreground background time times moment seconds second minute order number amount kind kinds type types color
    colors colour colours size shape object objects thing things item items anything everything something nothing
    question option options word words text tool question's relative respect currently now still already whether drone
    crossing crosses parked
    past track tracking tracked motion motions movement movements trajectory speed speeds slow slows slowly fast faster
    quickly travel travels travelling traveling approach approaches approaching approached cross crossed overtake
    overtakes overtaking stay stays staying remain remains remaining change changes changing changed getting rotate
    rotates rotating accelerate accelerates decelerate decelerates beginning throughout whole entire longer
    """.split()  # noqa: SIM905 (words, not code)
)
# Words that say how a thing is: part of a phrase, never one by themselves.
_MODIFIERS = frozenset(
    """
    red orange yellow green cyan blue purple pink black white grey gray brown beige golden silver dark bright
    coloured colored colourful colorful pale large big huge small little tiny tall short long wide narrow high low old
    new round square rectangular wooden metal plastic striped main different similar certain specific
    """.split()  # noqa: SIM905 (words, not code)
)
_TOKEN = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*|[^\s\w]|\d+", re.UNICODE)


def object_phrases(query: str, words: Sequence[str] = (), limit: int = 12) -> tuple[str, ...]:
    """What to look for: runs of content words of the query, then single words of question and options.

    No grammar is parsed. Words that never name a thing (function words, verbs of asking and moving, places in the
    picture) cut the query into runs; a run of modifiers alone ("red") is no phrase.

    Args:
        query: a sub-query in English.
        words: of question and options, in any case; those that a phrase already holds are left out.
        limit: phrases at most, those of the query first.

    Returns:
        Lower-case phrases without articles, distinct, in order of appearance; empty where nothing names a thing.

    >>> object_phrases("Where is the red car, left of the traffic lights?", ("WHERE", "CAR", "LEFT", "TOWER"))
    ('red car', 'traffic lights', 'tower')
    """
    runs: list[list[str]] = [[]]
    for token in _TOKEN.findall(query.lower()):
        if token in _STOPS or not token[0].isalpha():
            runs.append([])
        else:
            runs[-1].append(token.removesuffix("'s").removesuffix("’s"))
    phrases = [" ".join(run[-MAX_WORDS:]) for run in runs if not _MODIFIERS.issuperset(run)]
    held = {word for phrase in phrases for word in phrase.split()}
    singles = [word.lower() for word in words]
    phrases += [word for word in singles if word not in held | _STOPS | _MODIFIERS and len(word) > 2 and word.isalpha()]
    return tuple(dict.fromkeys(phrases))[:limit]


def with_article(phrase: str) -> str:
    """ "a red box", "an umbrella"; what looks like a plural stays as it is ("traffic lights")."""
    if phrase.endswith("s") and not phrase.endswith(("ss", "us", "is")):
        return phrase
    return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"
