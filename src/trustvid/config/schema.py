"""The typed settings of ``evaluate.py``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trustvid.config.suites import suite_faults

MODES = ("all", "infer", "judge", "score", "table", "precompute", "calibrate", "estimate")
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
    tool_device: str = "auto"
    tool_time_limit_s: float = 60.0
    window_s: float = 2.0
    on_error: str = "skip"
    fresh: bool = False
    retry_unscored: bool = True
    save_trajectories: bool = False
    show: str = "results"
    published: str | None = None
    runs: str | list[str] | None = None
    rules: str = "strict"
    responses: str | list[str] | None = None
    reference: str | None = None
    evidence: str = "tools"
    captioning: dict[str, Any] = field(default_factory=dict)
    estimate: dict[str, Any] = field(default_factory=dict)
    judge: dict[str, Any] = field(default_factory=dict)
    benchmark: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    prompts: dict[str, Any] = field(default_factory=dict)
    reader: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, Any] = field(default_factory=dict)
    corruption: dict[str, Any] = field(default_factory=dict)
    methods: dict[str, Any] = field(default_factory=dict)
    calibrate: dict[str, Any] = field(default_factory=dict)
    scale: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
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
