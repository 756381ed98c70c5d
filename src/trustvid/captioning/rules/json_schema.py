"""JSON parsing and JSON Schema checks that end: bounded depth, bounded steps, time-limited patterns, no network.

The verdict is that of ``jsonschema.validate`` (draft 2020-12 unless ``$schema`` names another draft). Hostile or broken
input meets a guard, and each guard raises :class:`CannotCheck` instead of guessing:

- text nested deeper than ``MAX_DEPTH``, schemas deeper than ``MAX_SCHEMA_DEPTH`` (the interpreter's own limit depends
  on how deep its caller already is, so the verdict would too);
- more than ``MAX_STEPS`` keyword evaluations (a few nested references can ask for 2^n of them);
- a pattern that needs more than ``PATTERN_SECONDS`` on one string (backtracking);
- a reference that points outside the schema: nothing is fetched.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

from trustvid.captioning.rules.verdict import CannotCheck

MAX_DEPTH = 400
MAX_SCHEMA_DEPTH = 64
MAX_STEPS = 200_000
PATTERN_SECONDS = 1.0
# Below this many items the library's own pairwise comparison is used, above it a linear one.
_PAIRWISE_ITEMS = 200

_steps = threading.local()


def require_depth(text: str, limit: int = MAX_DEPTH) -> None:
    """Refuses JSON text whose brackets nest deeper than ``limit``; brackets inside strings are counted as well.

    Raises:
        CannotCheck: nested too deep.
    """
    if text.count("[") + text.count("{") <= limit:
        return
    depth = 0
    for found in re.finditer(r"[\[\]{}]", text):
        depth = depth + 1 if found[0] in "[{" else max(depth - 1, 0)
        if depth > limit:
            raise CannotCheck(f"brackets nest deeper than {limit} levels")


def violation(instance: Any, schema: Any) -> str | None:
    """None when ``instance`` satisfies ``schema``, else the first violation in one line.

    Raises:
        jsonschema.exceptions.SchemaError: the schema itself is invalid.
        CannotCheck: a guard stopped the check.
    """
    try:
        key = json.dumps(schema)
    except RecursionError:
        raise CannotCheck(f"the schema nests deeper than {MAX_SCHEMA_DEPTH} levels") from None
    build = _prepared(key)
    _steps.left = MAX_STEPS
    # Every violation is produced, as the published checker does: a fault of the schema that shows late still counts.
    first = None
    for error in build().iter_errors(instance):
        first = first or error
    return None if first is None else f"{first.json_path}: {first.message[:200]}"


@lru_cache(maxsize=1024)
def _prepared(key: str) -> Callable[[], Any]:
    """A guarded validator factory for a schema given as JSON text; checking a schema costs far more than using it."""
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing.jsonschema import EMPTY_REGISTRY

    require_depth(key, MAX_SCHEMA_DEPTH)
    schema = json.loads(key)
    base = validator_for(schema, default=Draft202012Validator)
    if not (base is Draft202012Validator and is_plainly_valid(schema)):
        base.check_schema(schema)
    if '"patternProperties"' in key and '"unevaluatedProperties"' in key:
        raise CannotCheck("a schema with both patternProperties and unevaluatedProperties is not supported")
    # An explicit registry (the library adds the bundled meta-schemas) keeps references off the network.
    return partial(_guarded(base), schema, registry=EMPTY_REGISTRY)


@lru_cache(maxsize=16)
def _guarded(base: Any) -> Any:
    """A draft's validator class with the guarded keywords."""
    from jsonschema.validators import extend

    ours = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": partial(_unique_items, base.VALIDATORS.get("uniqueItems")),
    }
    return extend(base, {name: _counted(ours.get(name, keyword)) for name, keyword in base.VALIDATORS.items()})


_TYPES = {"array", "boolean", "integer", "null", "number", "object", "string"}


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_PLAIN_KEYWORDS: dict[str, Callable[[Any], bool]] = {
    "type": lambda value: isinstance(value, str) and value in _TYPES,
    "properties": lambda value: isinstance(value, dict) and all(map(is_plainly_valid, value.values())),
    "required": lambda value: (
        isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)
    ),
    "items": lambda value: is_plainly_valid(value),
    "additionalProperties": lambda value: isinstance(value, bool) or is_plainly_valid(value),
    "enum": lambda value: isinstance(value, list),
    "title": lambda value: isinstance(value, str),
    "description": lambda value: isinstance(value, str),
    "uniqueItems": lambda value: isinstance(value, bool),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), _is_size),
    **dict.fromkeys(("minimum", "maximum"), _is_number),
}


def is_plainly_valid(schema: Any) -> bool:
    """Whether a schema is certainly valid under draft 2020-12, told from its everyday keywords alone.

    Twenty times faster than the full check against the meta-schema, which decides when this says False.
    """
    return isinstance(schema, dict) and all(
        name in _PLAIN_KEYWORDS and _PLAIN_KEYWORDS[name](value) for name, value in schema.items()
    )


def _counted(keyword: Callable) -> Callable:
    def spend(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _steps.left -= 1
        if _steps.left < 0:
            raise CannotCheck(f"the schema needs more than {MAX_STEPS} steps on this text")
        return keyword(validator, value, instance, schema)

    return spend


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Any:
    import regex

    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise CannotCheck(f"the schema's pattern {pattern[:80]!r} is not supported: {error}") from None


def _search(pattern: str, text: str) -> bool:
    """``re.search`` with a time limit, which only the regex package offers."""
    try:
        return _compiled(pattern).search(text, timeout=PATTERN_SECONDS) is not None
    except TimeoutError:
        raise CannotCheck(f"the schema's pattern {pattern[:80]!r} needs more than {PATTERN_SECONDS:g} s") from None


def _fault(message: str) -> Any:
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _search(pattern, instance):
        yield _fault(f"{instance[:80]!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: dict, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if _search(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, allowed: Any, instance: Any, schema: dict) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extras = [name for name in instance if name not in named and not any(_search(p, name) for p in patterns)]
    if validator.is_type(allowed, "object"):
        for name in extras:
            yield from validator.descend(instance[name], allowed, path=name)
    elif not allowed and extras:
        yield _fault(f"additional properties are not allowed: {', '.join(map(repr, extras))[:120]}")


def _unique_items(pairwise: Callable, validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not (wanted and validator.is_type(instance, "array")):
        return
    if len(instance) <= _PAIRWISE_ITEMS:
        yield from pairwise(validator, wanted, instance, schema) or ()
    elif len({json.dumps(_canonical(item), sort_keys=True) for item in instance}) < len(instance):
        yield _fault("the array has equal items")


def _canonical(value: Any) -> Any:
    """The same JSON value with equal numbers written the same way (1.0 is 1, true is not)."""
    if isinstance(value, dict):
        return {name: _canonical(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
