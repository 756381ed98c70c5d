"""The check of a whole config against its typed settings: all faults in one message, before any work."""

from __future__ import annotations

import importlib
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

from trustvid.errors import ConfigError, DataError


class Settings(Protocol):
    """A dataclass of typed settings of one entry point or stage."""

    def faults(self) -> Iterator[str]:
        """What is wrong with the values, field by field and between fields."""
        ...


S = TypeVar("S", bound=Settings)


def check(config: Mapping[str, Any], schema: type[S]) -> S:
    """Validate a whole config (plain containers, resolved) and return its typed settings.

    Every component (a mapping with ``_target_``) is imported and constructed: constructors are cheap and check their
    own arguments; models load later, at the first call.

    Args:
        config: all keys of the config.
        schema: a dataclass with one field for each of them.

    Raises:
        ConfigError: with all faults together.
    """
    settings = {key: value for key, value in config.items() if key != "hydra"}
    faults = list(_type_faults(schema, settings, ""))
    if not faults:
        typed = schema(**settings)
        faults += typed.faults()
    for path, node in components(settings):
        faults += _component_faults(path, node)
    if faults:
        raise ConfigError(faults)
    return typed


def components(node: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(dotted path, node) of every outermost mapping with ``_target_``."""
    if not isinstance(node, Mapping):
        return
    if "_target_" in node:
        yield path, node
        return
    for key, value in node.items():
        yield from components(value, f"{path}.{key}" if path else str(key))


def build(node: Mapping[str, Any]) -> Any:
    """Construct a component from its config node (Hydra's ``instantiate``, nested components included)."""
    from hydra.utils import instantiate

    return instantiate(dict(node), _convert_="all")


def build_stored(node: Mapping[str, Any], where: Path | str, package: str = "trustvid.") -> Any:
    """Construct a component from the config of a run folder, which may be anybody's: only from trustvid itself.

    Args:
        node: of the stored config.
        where: the folder or file, for the message.
        package: what the names of all components must begin with.

    Raises:
        DataError: it names something else, at the top or nested.
    """
    foreign = [name for name in _targets(node) if not name.startswith(package)]
    if foreign or not node.get("_target_"):
        named = ", ".join(map(repr, foreign)) or "nothing"
        raise DataError(f"{where}: the stored config names {named} to be built; expected components of {package}*")
    return build(node)


def _targets(value: Any) -> Iterator[str]:
    """Every ``_target_`` in a node."""
    if isinstance(value, Mapping):
        if "_target_" in value:
            yield str(value["_target_"])
        for inner in value.values():
            yield from _targets(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _targets(inner)


def target_of(node: Mapping[str, Any]) -> Any:
    """What a component's node constructs: a class, or a function.

    Raises:
        ImportError, AttributeError, ValueError: there is no such thing.
    """
    module, _, name = str(node.get("_target_")).rpartition(".")
    return getattr(importlib.import_module(module), name)


def target_attribute(node: Mapping[str, Any], name: str, unknown: Any) -> Any:
    """An attribute of the class that a node constructs, None where it has none; ``unknown`` where there is no such
    class, which is a fault that is told elsewhere."""
    try:
        return getattr(target_of(node), name, None)
    except (ImportError, AttributeError, ValueError):
        return unknown


def _component_faults(path: str, node: Mapping[str, Any]) -> Iterator[str]:
    """Faults of one component: unknown target, unknown, missing or mistyped arguments, and its own refusals."""
    nested = [
        (f"{path}.{key}", value) for key, value in node.items() if isinstance(value, Mapping) and "_target_" in value
    ]
    inner = [fault for name, child in nested for fault in _component_faults(name, child)]
    yield from inner
    try:
        constructor = target_of(node)
    except (ImportError, AttributeError, ValueError) as error:
        yield f"{path}._target_={node['_target_']} cannot be imported ({error}); expected module.Class"
        return
    arguments = {key: value for key, value in node.items() if key != "_target_"}
    hints = typing.get_type_hints(constructor.__init__ if inspect.isclass(constructor) else constructor)
    parameters = {
        key: (hints.get(key, Any), parameter.default)
        for key, parameter in inspect.signature(constructor).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }
    found = list(_argument_faults(path, parameters, arguments, inspect.Parameter.empty))
    yield from found
    if found or inner:
        return
    try:
        build(node)
    except Exception as error:  # a constructor's refusal, whatever its type, is a fault of the config to be listed
        cause = error.__cause__ or error
        known = cause.faults if isinstance(cause, ConfigError) else (f"{path}: {cause}",)
        yield from known


def _type_faults(schema: type, values: Mapping[str, Any], path: str) -> Iterator[str]:
    hints = typing.get_type_hints(schema)
    parameters = {
        f.name: (hints[f.name], f.default if f.default is not MISSING else f.default_factory) for f in fields(schema)
    }
    yield from _argument_faults(path, parameters, values, MISSING)


def _argument_faults(
    path: str, parameters: Mapping[str, tuple[Any, Any]], values: Mapping[str, Any], required: Any
) -> Iterator[str]:
    """Unknown, missing and mistyped values against {name: (type, default)}."""
    prefix = f"{path}." if path else ""
    for key, value in values.items():
        if key not in parameters:
            yield f"{prefix}{key} is unknown; known: {', '.join(sorted(parameters)) or 'no settings'}"
        elif not fits(value, parameters[key][0]):
            kind = getattr(parameters[key][0], "__name__", None) or str(parameters[key][0])
            yield f"{prefix}{key}={value!r} has the wrong type; expected {kind}"
    for key, (_, default) in parameters.items():
        if default is required and key not in values:
            yield f"{prefix}{key} is missing"


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value suits a type hint. Integers suit float; booleans do not suit int. Unknown hints suit all.

    >>> fits(3, int | None), fits("3", int), fits([8], int), fits(2, float)
    (True, False, False, True)
    """
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, option) for option in typing.get_args(hint))
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if hint is type(None):
        return value is None
    if hint is bool:
        return isinstance(value, bool)
    if hint in (int, float):
        return not isinstance(value, bool) and isinstance(value, (int, float) if hint is float else int)
    if hint is str:
        return isinstance(value, str)
    if hint is Path:
        return isinstance(value, str | Path)
    if origin is not None and inspect.isclass(origin):
        if issubclass(origin, Mapping):
            return isinstance(value, Mapping)
        return isinstance(value, (list, tuple)) and not isinstance(value, str)
    return True
