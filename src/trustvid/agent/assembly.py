"""From a validated config to the objects that answer: shared by evaluation and by ``ask``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.config.checking import build

if TYPE_CHECKING:
    from trustvid.tools.executor import Executor


def build_pipelines(config: Mapping[str, Any], cache_dir: Path | None) -> dict[str, Any]:
    """A pipeline for each method of the config, sharing one executor, one tool cache and the prompts.

    Args:
        config: plain, validated config of ``evaluate.py``.
        cache_dir: folder of the tool cache, or None to keep outputs in memory only.
    """
    from trustvid.agent.pipeline import Pipeline

    executor = build_executor(config, cache_dir)
    prompts = build(config["prompts"])
    methods = {name: build(node) for name, node in config["methods"].items()}
    _load_weights(part for method in methods.values() for part in (method.relevance, method.reliability))
    return {name: Pipeline(method, executor, prompts) for name, method in methods.items()}


def build_executor(config: Mapping[str, Any], cache_dir: Path | None) -> Executor:
    """The config's tools and assess_quality behind one executor and one cache; arguments as :func:`build_pipelines`."""
    from trustvid.tools.assess_quality import AssessQuality
    from trustvid.tools.cache import ToolCache
    from trustvid.tools.executor import Executor

    tools = [AssessQuality(), *(build(node) for node in config["tools"].values())]
    _load_weights(tools)
    return Executor(
        {tool.name: tool for tool in tools},
        cache=ToolCache(cache_dir) if cache_dir else ToolCache.memory(),
        time_limit_s=config["tool_time_limit_s"],
        window_s=config["window_s"],
    )


def _load_weights(parts: Iterable[Any]) -> None:
    """Load published weights now: what is missing ends the run here, with the way out, not call by call."""
    for part in parts:
        if hasattr(part, "load"):
            part.load()
