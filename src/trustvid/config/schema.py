"""The typed settings of ``evaluate.py`` and the check of a whole config: all faults in one message, before any work."""

from __future__ import annotations

import importlib
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from trustvid.config.suites import suite_faults
from trustvid.errors import ConfigError

MODES = ("all", "infer", "judge", "score", "table", "precompute", "calibrate")
DEFAULT_BASELINE = "blind"
"""What methods are compared with unless the config says otherwise; a run may lack it, and compares with its first."""


@dataclass(frozen=True)
class EvaluateConfig:
    """Settings of an evaluation that belong to no component. conf/evaluate.yaml says what each means."""

    name: str
    mode: str = "all"
    seed: int = 0
    frames: int = 8
    severity: int = 3
    coverage: float = 0.5
    suites: dict[str, Any] = field(default_factory=dict)
    baseline: str = DEFAULT_BASELINE
    contrasts: list[Any] = field(default_factory=list)
    data_dir: str | None = None
    limit: int | None = None
    workers: int | None = None
    video_time_limit_s: float = 900.0
    tool_time_limit_s: float = 60.0
    window_s: float = 2.0
    on_error: str = "skip"
    fresh: bool = False
    retry_unscored: bool = True
    save_trajectories: bool = False
    rules: str = "strict"
    responses: str | list[str] | None = None
    reference: str | None = None
    evidence: str = "tools"
    judge: dict[str, Any] = field(default_factory=dict)
    benchmark: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    prompts: dict[str, Any] = field(default_factory=dict)
    reader: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, Any] = field(default_factory=dict)
    corruption: dict[str, Any] = field(default_factory=dict)
    methods: dict[str, Any] = field(default_factory=dict)
    calibrate: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)

    def faults(self) -> Iterator[str]:
        """What is wrong with the values, field by field and between fields."""
        if self.mode not in MODES:
            yield f"mode={self.mode} is unknown; known: {', '.join(MODES)}"
        if not 0 <= self.severity <= 5:
            yield f"severity={self.severity}; expected 1 to 5 (0 = untouched)"
        if not 0.0 <= self.coverage <= 1.0:
            yield f"coverage={self.coverage}; expected a share of the frames, 0 to 1"
        if self.on_error not in ("skip", "stop"):
            yield f"on_error={self.on_error} is unknown; known: skip, stop"
        for name, least in (("frames", 1), ("limit", 1), ("workers", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                yield f"{name}={value}; expected at least {least}"
        for name in ("video_time_limit_s", "tool_time_limit_s", "window_s"):
            if getattr(self, name) <= 0:
                yield f"{name}={getattr(self, name)}; expected a time in seconds above 0"
        if not self.methods:
            yield "methods=[] leaves nothing to compare; choose from conf/methods, e.g. methods=[blind,robust_to]"
        elif self.baseline != DEFAULT_BASELINE and self.baseline not in self.methods:
            yield f"baseline={self.baseline} is none of the methods; known: {', '.join(self.methods)}"
        for pair in self.contrasts:
            if not isinstance(pair, list | tuple) or len(pair) != 2 or not {*map(str, pair)} <= {*self.methods}:
                yield f"contrasts: {pair!r} is no pair [a, b] of methods; known: {', '.join(self.methods)}"
        yield from suite_faults(self.suites, list(self.corruption))
        if not self.name or Path(self.name).name != self.name:
            yield f"name={self.name!r} cannot name a folder; expected a plain name without slashes"


def check_evaluate(config: Mapping[str, Any]) -> EvaluateConfig:
    """Validate a whole config (plain containers, resolved) and return its typed settings.

    Every component (a mapping with ``_target_``) is imported and constructed: constructors are cheap and check their
    own arguments; models load later, at the first call.

    Raises:
        ConfigError: with all faults together.
    """
    settings = {key: value for key, value in config.items() if key != "hydra"}
    faults = list(_type_faults(EvaluateConfig, settings, ""))
    if not faults:
        typed = EvaluateConfig(**settings)
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


def _component_faults(path: str, node: Mapping[str, Any]) -> Iterator[str]:
    """Faults of one component: unknown target, unknown, missing or mistyped arguments, and its own refusals."""
    nested = [
        (f"{path}.{key}", value) for key, value in node.items() if isinstance(value, Mapping) and "_target_" in value
    ]
    inner = [fault for name, child in nested for fault in _component_faults(name, child)]
    yield from inner
    target = str(node["_target_"])
    module, _, name = target.rpartition(".")
    try:
        constructor = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        yield f"{path}._target_={target} cannot be imported ({error}); expected module.Class"
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
