"""Reading replies: the chosen option. Pure; no text makes it raise.

A choice is read strictly. What counts, in this order: the last answer tag; else the last *stated* answer (JSON field,
boxed letter, "answer: B", "I choose B", "B is correct"); else a reply that opens with a letter ("C. …") or whose first
or last line is one; else option text; else an only mention ("option B"). Rejected options, articles, letters inside
words and two letters at once count as no answer, which is never the same as option A.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from trustvid.agent.reply_text import ANSWER_KEYS, BOXED, canon, json_values, last_tag, normalise, split_thinking
from trustvid.benchmarks.sample import LETTERS

How = Literal["tag", "json", "boxed", "stated", "leading", "bare", "text", "mention", "none"]
Status = Literal["ok", "unparsed", "abstained", "invalid"]


class Choice(NamedTuple):
    """What a reply chose.

    Attributes:
        letter: one of the options' letters when ``status`` is "ok", else None.
        how: where it was read.
        status: "ok"; "invalid" (a letter outside the options); "abstained" (the reply declines); "unparsed" (no
            answer, or several).
    """

    letter: str | None
    how: How
    status: Status


_OTHER_TAG = re.compile(r"<(confidence)>[^<]{0,100}(?:</\1>|$)", re.IGNORECASE)
_NOTHING = Choice(None, "none", "unparsed")


def parse_choice(reply: str, options: Sequence[str]) -> Choice:
    """The option chosen by a reply.

    Args:
        reply: the policy's text. What stands between ``<think>`` and ``</think>`` is ignored; after an unclosed
            ``<think>`` only an ``<answer>`` tag counts.
        options: option texts without letters, at most ten; the i-th has the letter ``LETTERS[i]``.

    Raises:
        ValueError: there are more options than letters.

    >>> parse_choice("I considered (A), but it is incorrect. Final answer: D.", ["left", "right", "up", "down"]).letter
    'D'
    """
    if len(options) > len(LETTERS):
        raise ValueError(f"{len(options)} options; at most {len(LETTERS)} have a letter")
    if not options:
        return _NOTHING
    options = [normalise(option) for option in options]
    text = normalise(reply)
    if exact := _exact(text, options):
        return exact
    visible, tail = split_thinking(text)
    tagged = last_tag("answer", tail) or last_tag("answer", visible)
    if tagged is not None:
        choice = _read(tagged, options)
        return Choice(choice.letter, "tag", choice.status)
    return _read(_OTHER_TAG.sub(" ", visible).strip(), options)


def _read(text: str, options: Sequence[str]) -> Choice:
    """A choice from text without thoughts and tags: the readings of the module's docstring, strictest first."""
    for reading in (_exact, _stated, _leading, _line_text, _abstained, _contained, _mentioned):
        if choice := reading(text, options):
            return choice
    return _NOTHING


# -- whole replies, and lines --------------------------------------------------------------------------------

_LONE_LETTER = re.compile(r"[\W_]*([A-Za-z])[\W_]*")
_MARKED = re.compile(
    r"[-•(\[\"' ]{0,3}(?:(?:option|choice):? )?[(\[]?([A-Za-z])(?:[)\].:,]{1,3}| ?-(?= )| (?=\())\s*(.*)", re.I | re.S
)


def _letter(letter: str, how: How, options: Sequence[str]) -> Choice:
    letter = letter.upper()
    return Choice(letter, how, "ok") if letter in LETTERS[: len(options)] else Choice(None, how, "invalid")


def _exact(text: str, options: Sequence[str]) -> Choice | None:
    """The whole text is a letter ("H", "(b)"), a letter with its option ("B. Turn right"), or an option."""
    if lone := _LONE_LETTER.fullmatch(text):
        return _letter(lone[1], "bare", options)
    marked = _MARKED.fullmatch(text)
    if marked and _option_of(marked[1], options) == canon(marked[2]) != "":
        return _letter(marked[1], "leading", options)
    return _only_text([i for i, option in enumerate(options) if canon(option) == canon(text) != ""])


def _option_of(letter: str, options: Sequence[str]) -> str | None:
    index = ord(letter.upper()) - ord("A")
    return canon(options[index]) if index < len(options) else None


def _only_text(indices: Sequence[int]) -> Choice | None:
    return Choice(LETTERS[indices[0]], "text", "ok") if len(indices) == 1 else None


_EXPLANATION = re.compile(r"^\W*(?:explanation|reason(?:ing)?|rationale|justification|because|analysis)\b", re.I | re.M)
_REASON_FOLLOWS = re.compile(r"([A-Z])[)\]]?,? (?:because|since|due)\b")
_NEXT_MARK = re.compile(r"(?<=[.!?] )[A-J]\. ")
_WRONG = r"(?:not\b|in ?correct|wrong|false|ruled out|eliminated|impossible|invalid|inaccurate|excluded|out\b|unlikely)"
_VERDICT = re.compile(
    rf"\W*(?:(?:is|was|are|seems|would be)\s+(?:\w{{1,20}}ly\s+|also\s+)?{_WRONG}|(?:wrong|incorrect|false|no)\b)",
    re.I,
)


def _leading(text: str, options: Sequence[str]) -> Choice | None:
    """The text opens with a letter and its mark ("C. A pretty girl"), or its first or last line is a letter."""
    explanation = _EXPLANATION.search(text)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines:
        return None
    lone = [match[1].upper() for match in map(_LONE_LETTER.fullmatch, (lines[0], lines[-1])) if match]
    if lone:
        return _letter(lone[0], "bare", options) if len(set(lone)) == 1 else _NOTHING
    if reason := _REASON_FOLLOWS.match(text):
        return _letter(reason[1], "leading", options)
    head = text[: explanation.start()] if explanation and explanation.start() > 0 else text
    marks = [mark for line in head.split("\n") if (mark := _MARKED.fullmatch(line.strip()))]
    if len({mark[1].upper() for mark in marks}) != 1 or _NEXT_MARK.search(head):
        return None  # none, or a list of the options
    first, last = (_MARKED.fullmatch(line) for line in (lines[0], lines[-1]))
    if first and _is_choice_mark(first, lines[0]) and not _rejects(first, options):
        return _letter(first[1], "leading", options)
    if last and _option_of(last[1], options) == canon(last[2]):
        return _letter(last[1], "leading", options)
    return None


def _is_choice_mark(mark: re.Match[str], line: str) -> bool:
    """Not "I, for one" nor "e.g. …", and of a comma list ("B, D") not the first letter."""
    after = line[mark.end(1) :]
    if after.startswith(","):
        return mark[1].isupper() and mark[1] != "I" and not re.match(r", ?(?:and |or )?[A-J]\b(?!')", after)
    return bool(re.match(r"[)\].:, -]+(?:\s|$|\W|[A-Z])| \(", after)) and not _several(
        line, mark.end(1), mark[1].upper(), 10
    )


def _rejects(mark: re.Match[str], options: Sequence[str]) -> bool:
    rest, option = mark[2].casefold(), _option_of(mark[1], options)
    return bool(_VERDICT.match(rest[len(option) :] if option and rest.startswith(option) else rest))


def _line_text(text: str, options: Sequence[str]) -> Choice | None:
    """The first or last line is an option's text."""
    lines = {canon(line) for line in (text.split("\n")[0], text.split("\n")[-1])} - {""}
    return _only_text([i for i, option in enumerate(options) if canon(option) in lines])


def _contained(text: str, options: Sequence[str]) -> Choice | None:
    """One short sentence that holds the text of just one option, and no negation ("It is on the left.")."""
    words = canon(text)
    if len(words.split()) > 20 or re.search(r"[.!?]\s", words) or re.search(_NEGATION, words):
        return None
    hits = [(i, option) for i, option in enumerate(map(canon, options)) if len(option) > 2 or option.isdigit()]
    hits = [(i, option) for i, option in hits if re.search(rf"(?<![\w.-]){re.escape(option)}(?!\w)", words)]
    # "on the left" inside "ahead on the left" is not a second option.
    return _only_text([i for i, option in hits if not any(option in other != option for _, other in hits)])


_NEGATION = r"\b(?:not|never|no|wrong|incorrect|instead|rather|neither|nor|cannot|unsure|unclear|or)\b|n't\b"
_ABSTENTION = re.compile(
    r"\b(?:i|we) (?:really |honestly )?(?:do not|don't|cannot|can not|can't|could not|couldn't) "
    r"(?:know|tell|say|see|determine|answer|decide|be sure)|\b(?:not|un) ?(?:sure|certain)\b"
    r"|\bunable to\b|\b(?:cannot|can't|can not) be (?:determined|answered|known|inferred)"
    r"|\bnone of (?:the|these|them)\b|\bno (?:correct |right |valid )?(?:answer|option)\b"
    r"|\b(?:not enough|insufficient) (?:information|evidence|data)"
    r"|\bimpossible to (?:tell|say|determine|answer)|\bunanswerable\b|\bunclear\b|\babstain|\bi decline\b",
    re.I,
)
_ABSTENTION_ONLY = re.compile(r"\W*(?:none|unknown|uncertain|unsure|null|n/a|no idea)\W*", re.I)


def _abstained(text: str, options: Sequence[str]) -> Choice | None:
    if _ABSTENTION.search(text) or _ABSTENTION_ONLY.fullmatch(text):
        return Choice(None, "none", "abstained")
    return None


# -- stated answers ------------------------------------------------------------------------------------------


class _Statement(NamedTuple):
    end: int
    choice: Choice


_LINK = (
    r"(?:\s?(?:'s\b|\b(?:is|are|was|would be|should be|must be|will be|seems to be|appears to be|remains)\b"
    r"|[:=-]+>?|→)){1,3}"
)
_CUES = re.compile(
    r"(?P<noun>\b(?:answers?|ans|choice|option|selection|prediction|conclusion|verdict|choose)"
    rf"(?: (?:choice|option|letter))?[\"')\]]{{0,2}}{_LINK}|\banswer(?= [(\[\"']?[A-Z](?![\w'])))"
    r"|(?P<verb>\b(?:choose|chose|choosing|pick(?:ed|ing)?|select(?:ed|ing)?|go(?:ing)? (?:with|for)|went (?:with|for)"
    r"|opt(?:ed|ing)? for|settled? (?:on|for)|vote for|answer(?:ing)?(?: with)?|guess|say|conclude)\b)"
    r"|(?P<so>\b(?:so|therefore|thus|hence|overall|it(?:'s| is| must be| should be| has to be))\b)"
    r"|(?P<cjk>答案(?:应该|应)?(?:是|为|:)?|选择?(?:项|:)?)",
    re.I,
)
_FILLERS = re.compile(
    r"(?:[\s:,\"]{0,2}\b(?:therefore|thus|hence|clearly|(?:most )?likely|probably|simply|indeed|now|still|actually"
    r"|definitely|option|choice|letter|answer|that|the|correct|i (?:think|believe|guess|choose|pick)|it is|it's)\b)"
    r"{0,5}[\s:,]{0,2}",
    re.I,
)
_TOKEN = re.compile(r"(?P<open>[\s(\[{<\"'$]{0,6})(?P<letter>[A-Za-z])(?![A-Za-z0-9À-ɏ]|'\w|-\w|\.[A-Za-z]\.)")
# After a lone A or I: an end, or a word that shows it is no article and no pronoun.
_NOT_A_WORD = re.compile(
    r"\s*(?:$|\n|[^\w\s'\"])|[\u2e80-\u9fff]|['\"]\W|['\"]$|\s+(?:because|since|as|based|due|given|is|was|and|or|for|which|with|but)\b",
    re.I,
)
_REJECTED = re.compile(
    r"[)\]}\"',:]{0,3}\s*(?:,?\s?(?:but|which|that|and)\s)?(?:it\s|this\s|that\s)?"
    r"(?:(?:is|was|are|seems|looks|would be|must be|appears to be)\s(?:\w{1,20}ly\s|also\s|just\s)?"
    rf"{_WRONG}|(?:isn't|wasn't|cannot|can't|can not|doesn't|does not)\b)",
    re.I,
)
_SECOND = re.compile(
    r"[)\]}\"']{0,2}\s*(?P<link>,?\s*\b(?i:and|or)\b|[,;/&+|])\s*(?i:option |choice )?[(\[\"']{0,2}"
    r"(?P<letter>[A-Z])(?![A-Za-z0-9]|'\w|-\w)"
)
_LIST_END = re.compile(r"\s*(?:$|[.,;:!)\]}\"'/&+|<\n]|(?:and|or)\b)", re.I)
_HYPOTHETICAL = re.compile(r"\b(?:if|whether|suppose|assuming|unless)\b[^.!?\n]{0,40}$", re.I)
_NEGATED = re.compile(
    r"(?:\bnot|n't|\bnever|\bcannot|\brather than|\binstead of)\s(?:(?:the|my|a|to|be|simply|just|correct|right|best"
    r"|final|that|think|say|believe|option|choice)\s){0,3}$",
    re.I,
)
_CORRECT = re.compile(
    r"(?:\b(?P<cue>option|choice|answer)\s)?(?<![\w'])[(\[\"']{0,2}(?P<letter>[A-Za-z])[)\]\"']{0,2}\s"
    r"(?:is|seems|looks|appears|must be|would be|should be)(?: to be)?\s(?:the\s|\w{1,20}ly\s|indeed\s|my\s){0,3}"
    r"(?:(?:most )?(?:correct|right|best|accurate|plausible|likely|valid)(?: (?:answer|option|choice|one))?"
    r"|(?:final )?answer)(?=\s*(?:$|[.,;:!)\]<\n]|because\b|since\b|as\b|here\b|based\b|given\b))",
    re.I,
)
_MENTION = re.compile(r"\b(?:option|choice)(?= ?[(\[\"']{0,2}[A-Za-z](?![\w']))", re.I)


def _stated(text: str, options: Sequence[str]) -> Choice | None:
    """The last stated answer."""
    statements, text = _json_statements(text, options)
    for box in BOXED.finditer(text):
        choice = _exact(box[1].strip(), options)
        if choice and (choice.letter or any(character.isupper() for character in box[1])):
            statements.append(_Statement(box.end(), choice._replace(how="boxed")))
    for cue in _CUES.finditer(text):
        if not _doubted(text, cue.start()) and (statement := _after_cue(text, cue, options)):
            statements.append(statement)
    for match in _CORRECT.finditer(text):
        # "b is correct" without "option" needs the capital: "a is correct" is prose more often than a choice.
        if (match["letter"].isupper() or match["cue"]) and not _doubted(text, match.start()):
            statements.append(_Statement(match.end("letter"), _letter(match["letter"], "stated", options)))
    return max(statements, key=lambda statement: statement.end).choice if statements else None


def _doubted(text: str, start: int) -> bool:
    left = text[max(0, start - 60) : start]
    return bool(_HYPOTHETICAL.search(left) or _NEGATED.search(left))


def _after_cue(text: str, cue: re.Match[str], options: Sequence[str]) -> _Statement | None:
    """What follows "answer is", "I choose", "so": a letter, an option's text, or an abstention."""
    filled = _FILLERS.match(text, cue.end()).end()
    statement = _letter_at(text, filled, options)
    if cue["so"]:  # too weak a cue for anything but "so it is (D)."
        clear = statement and re.match(r"[)\]}\"']{0,2}\s*(?:$|[.!;<\n])", text[statement.end : statement.end + 20])
        return statement if clear and not text[filled : statement.end].strip().islower() else None
    if statement and _opens_list(text, cue, statement):
        return None
    if statement or not (cue["noun"] or cue["cjk"]):
        return statement
    for position in (cue.end(), filled):
        if choice := _option_at(text, position, options):
            return _Statement(filled + 1, choice)
    rest = text[filled : filled + 80].split("\n")[0]
    if _ABSTENTION.match(rest.lstrip()) or _ABSTENTION_ONLY.fullmatch(rest):
        return _Statement(filled, Choice(None, "stated", "abstained"))
    return None


def _letter_at(text: str, position: int, options: Sequence[str], *, after_noun: bool = False) -> _Statement | None:
    """The option letter at the position. ``after_noun``: "option A shows …", where a capital A is no article."""
    token = _TOKEN.match(text, position)
    if token is None:
        return None
    letter, bracketed = token["letter"].upper(), token["open"].strip("\"' \n$") != ""
    sure = bracketed or (after_noun and token["letter"].isupper())
    if letter in "AI" and not sure and not _NOT_A_WORD.match(text, token.end()):
        return None
    if _REJECTED.match(text, token.end()):
        return None
    choice = _letter(letter, "stated", options)
    if choice.status == "invalid" and token["letter"].islower() and not bracketed:
        return None
    if choice.letter and _several(text, token.end(), letter, len(options)):
        choice = Choice(None, "stated", "unparsed")
    return _Statement(token.end(), choice)


def _several(text: str, position: int, letter: str, n_options: int) -> bool:
    """Whether another option's letter follows: "B and D", "B, C", "A/B/C"."""
    second = _SECOND.match(text, position)
    if second is None or second["letter"] == letter or second["letter"] not in LETTERS[:n_options]:
        return False
    if second["link"].strip(" ,").lower() in ("and", "or"):
        return second["letter"] not in "AI" or bool(_NOT_A_WORD.match(text, second.end()))
    return bool(_LIST_END.match(text, second.end()))


def _opens_list(text: str, cue: re.Match[str], statement: _Statement) -> bool:
    """The question's own list of options, repeated by the reply: "Choice: A. …" with "B. …" on the next line."""
    if statement.choice.letter != "A" or not re.match(r"choice|option|choose", cue[0], re.I):
        return False
    return bool(re.search(r"\n\s*[(\[]?B[.:)\]]", text[statement.end : statement.end + 500]))


def _option_at(text: str, position: int, options: Sequence[str]) -> Choice | None:
    """The option whose text stands at the position, the longest when several do; unparsed when another one follows."""
    rest = canon(text[position : position + 400].split("\n")[0])
    fits = [(len(option), i) for i, option in enumerate(map(canon, options)) if option and rest.startswith(option)]
    fits = [(length, i) for length, i in fits if not rest[length : length + 1].isalnum()]
    longest = [fit for fit in fits if fit[0] == max(fits)[0]]
    if len(longest) != 1:
        return None
    length, index = longest[0]
    after = rest[length:]
    joined = re.match(r"\W*(?:or|and)\b|,", after)
    if joined and any(canon(option) in after for i, option in enumerate(options) if i != index and canon(option)):
        return Choice(None, "stated", "unparsed")
    return Choice(LETTERS[index], "stated", "ok")


def _json_statements(text: str, options: Sequence[str]) -> tuple[list[_Statement], str]:
    """Answers in JSON objects, and the text with those objects blanked (their other fields state nothing)."""
    statements = []
    for start, end, record in json_values(text, "{"):
        fields = {str(key).casefold(): value for key, value in record.items()} if isinstance(record, dict) else {}
        keys = [key for key in fields if key in ANSWER_KEYS]
        if not keys:
            continue
        value = fields[keys[-1]]
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        text = text[:start] + " " * (end - start) + text[end:]
        choice = _read(value.strip(), options) if isinstance(value, str) and "{" not in value else _NOTHING
        statements.append(_Statement(end, choice._replace(how="json")))
    return statements, text


def _mentioned(text: str, options: Sequence[str]) -> Choice | None:
    """The one option that is mentioned as "option B" and not rejected, when no other is."""
    found = [_letter_at(text, mention.end(), options, after_noun=True) for mention in _MENTION.finditer(text)]
    letters = {statement.choice for statement in found if statement}
    return letters.pop()._replace(how="mention") if len(letters) == 1 else None
