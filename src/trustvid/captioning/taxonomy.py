"""The 27 constraint types of IF-VidCap as typed data (the paper's Table 4, its Fig. 5 groups, the release's ids).

A *type* is what the paper counts (14 format, 13 content); an *id* is how the annotation files name it. Several content
types share one id (entity and attribute are ``entities_attributes``), so 27 types have 24 ids. Format types are
checked by rules and have parameters; content types are judged by questions and have none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Group = Literal["format", "content"]
Family = Literal["structural", "stylistic", "element", "abstraction", "framing"]
Kind = Literal["string", "integer", "object", "strings"]


@dataclass(frozen=True)
class Parameter:
    """One parameter of a rule, ``content`` left out (every rule has it).

    Attributes:
        name: key in the official files.
        kind: "string", "integer" (a JSON boolean is none), "object" (a JSON Schema) or "strings" (a list of them).
        required: whether the key must be present (its value may still be null).
        default: the value an absent key stands for.
        choices: the allowed values; empty when free.
    """

    name: str
    kind: Kind
    required: bool = True
    default: Any = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConstraintType:
    """One row of Table 4.

    Attributes:
        key: our unique name of the type.
        constraint_id: the id in the official files; shared by merged types.
        group: "format" (checked by a rule) or "content" (judged by questions).
        family: the subgroup of Table 4.
        figure_group: the bar of Fig. 5 the type counts into.
        meaning: what the constraint asks for, in a few words.
        parameters: parameters of the rule besides ``content``; empty for content types.
    """

    key: str
    constraint_id: str
    group: Group
    family: Family
    figure_group: str
    meaning: str
    parameters: tuple[Parameter, ...] = field(default=())


def _bounds(low: str, high: str) -> tuple[Parameter, Parameter]:
    """An inclusive range; -1 (and null) above means no limit."""
    return Parameter(low, "integer", required=False, default=0), Parameter(high, "integer", required=False, default=-1)


def _format(key: str, family: Family, bar: str, meaning: str, *parameters: Parameter) -> ConstraintType:
    return ConstraintType(key, key, "format", family, bar, meaning, parameters)


def _content(key: str, constraint_id: str, family: Family, bar: str, meaning: str) -> ConstraintType:
    return ConstraintType(key, constraint_id, "content", family, bar, meaning)


_SCHEMA = Parameter("schema", "object")

CONSTRAINT_TYPES: tuple[ConstraintType, ...] = (
    _format("plain_text", "structural", "PlainText", "prose without any markup"),
    _format("json_object", "structural", "JSON", "a JSON object that satisfies a schema", _SCHEMA),
    _format("json_array", "structural", "JSON", "a JSON array that satisfies a schema", _SCHEMA),
    _format(
        "ordered_list",
        "structural",
        "List",
        "a list numbered in sequence",
        Parameter("symbol", "string", required=False, choices=("1.", "a.", "A.", "I.", "i.")),
    ),
    _format(
        "unordered_list",
        "structural",
        "List",
        "a list with one kind of bullet",
        Parameter("symbol", "string", required=False, choices=("-", "*")),
    ),
    _format(
        "table", "structural", "Table", "a Markdown table with the named columns", Parameter("col_name", "strings")
    ),
    _format(
        "keyword",
        "structural",
        "Keyword",
        "a word that must or must not occur",
        Parameter("keyword", "string"),
        Parameter("keyword_type", "string", choices=("include", "exclude")),
    ),
    _format(
        "markdown",
        "stylistic",
        "Markdown",
        "a kind of Markdown markup",
        Parameter("md_type", "string", choices=("title", "bold", "highlight", "italic", "code")),
    ),
    _format("delimiter", "stylistic", "Delimiter", "parts separated by a symbol", Parameter("symbol", "string")),
    _format(
        "prefix_suffix",
        "stylistic",
        "Prefix&Suffix",
        "a fixed beginning or end",
        Parameter("prefix", "string", required=False),
        Parameter("suffix", "string", required=False),
    ),
    _format(
        "count", "stylistic", "Count", "a number of semantically defined things", *_bounds("min_count", "max_count")
    ),
    _format(
        "length",
        "stylistic",
        "Length",
        "a number of characters, words, sentences or paragraphs",
        Parameter("unit", "string", choices=("character", "word", "sentence", "paragraph")),
        *_bounds("min_len", "max_len"),
    ),
    _format(
        "case",
        "stylistic",
        "Case",
        "upper, lower or title case",
        Parameter("case_type", "string", choices=("upper", "lower", "title")),
    ),
    _format(
        "language",
        "stylistic",
        "Language",
        "English or Chinese",
        Parameter("lang_type", "string", choices=("en", "zh")),
    ),
    _content("entity", "entities_attributes", "element", "Entity&Attribute", "who or what is in the video"),
    _content("attribute", "entities_attributes", "element", "Entity&Attribute", "what the things look like"),
    _content("event", "events_actions", "element", "Event&Action", "what happens"),
    _content("action", "events_actions", "element", "Event&Action", "what somebody does"),
    _content("cinematic", "cinematic_elements", "element", "Cinematic", "camera moves, shooting and editing technique"),
    _content("detail", "specific_description", "abstraction", "Detail", "an objective, detailed description"),
    _content("summary", "summary", "abstraction", "Summary", "the gist"),
    _content("inference", "inference", "abstraction", "Inference", "intention, emotion, cause or sound, inferred"),
    _content("perspective", "perspective", "framing", "Perspective", "the narrator's point of view"),
    _content("focus", "focus", "framing", "Focus", "only one thing, area or sense"),
    _content("include", "include", "framing", "Include&Exclude", "something that must be told"),
    _content("exclude", "include", "framing", "Include&Exclude", "something that must not be told"),
    _content("comparative", "comparative_description", "framing", "Compare", "a comparison"),
)

# The bars of Fig. 5 from left to right.
FIGURE_GROUPS: tuple[str, ...] = (
    *("PlainText", "JSON", "List", "Keyword", "Table", "Markdown", "Delimiter", "Prefix&Suffix"),
    *("Count", "Length", "Case", "Language", "Entity&Attribute", "Event&Action", "Cinematic"),
    *("Perspective", "Include&Exclude", "Focus", "Compare", "Detail", "Summary", "Inference"),
)

_BY_ID: dict[str, tuple[ConstraintType, ...]] = {}
for _type in CONSTRAINT_TYPES:
    _BY_ID[_type.constraint_id] = (*_BY_ID.get(_type.constraint_id, ()), _type)

FORMAT_IDS: tuple[str, ...] = tuple(id_ for id_, types in _BY_ID.items() if types[0].group == "format")
CONTENT_IDS: tuple[str, ...] = tuple(id_ for id_, types in _BY_ID.items() if types[0].group == "content")


def types_of(constraint_id: str) -> tuple[ConstraintType, ...]:
    """The types an official id stands for: one, two for merged ids, none for an unknown id.

    >>> [type_.key for type_ in types_of("include")]
    ['include', 'exclude']
    >>> types_of("colour")
    ()
    """
    return _BY_ID.get(constraint_id, ())


def figure_group_of(constraint_id: str) -> str | None:
    """The Fig. 5 bar of an official id, None for an unknown id.

    >>> figure_group_of("json_array")
    'JSON'
    """
    types = types_of(constraint_id)
    return types[0].figure_group if types else None


def rule_parameters(constraint_id: str) -> dict[str, Parameter]:
    """Parameters of a format id by name, ``content`` left out.

    Raises:
        KeyError: the id is no format id; the message lists those.
    """
    if constraint_id not in FORMAT_IDS:
        raise KeyError(f"{constraint_id!r} is no format constraint; these are: {', '.join(FORMAT_IDS)}")
    return {parameter.name: parameter for parameter in types_of(constraint_id)[0].parameters}
