"""From a validated config to the objects that answer: shared by evaluation and by ``ask``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trustvid.config.schema import build


def build_pipelines(config: Mapping[str, Any], cache_dir: Path | None) -> dict[str, Any]:
    """A pipeline for each method of the config, sharing one executor, one tool cache and the prompts.

    Args:
        config: plain, validated config of ``evaluate.py``.
        cache_dir: folder of the tool cache, or None to keep outputs in memory only.
    """
    from trustvid.agent.pipeline import Pipeline
    from trustvid.tools.cache import ToolCache
    from trustvid.tools.executor import Executor

    tools = [build(node) for node in config["tools"].values()]
    executor = Executor(
        {tool.name: tool for tool in tools},
        cache=ToolCache(cache_dir) if cache_dir else ToolCache.memory(),
        time_limit_s=config["tool_time_limit_s"],
        window_s=config["window_s"],
    )
    prompts = build(config["prompts"])
    return {name: Pipeline(build(node), executor, prompts) for name, node in config["methods"].items()}
