"""The cost of open work in one line, from the config and a look at a few videos (evaluation/estimate.py counts)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.config.checking import build
from trustvid.errors import VideoError
from trustvid.evaluation.estimate import (
    Clips,
    Cost,
    Showing,
    answer_cost,
    caption_cost,
    family_of,
    frame_tokens,
    judge_cost,
    line,
)

if TYPE_CHECKING:
    from trustvid.benchmarks.if_vidcap import CaptionTask
    from trustvid.benchmarks.sample import Sample

NOTHING = "estimate: no call of a model is open"
_LOOKED_AT = 5  # videos that are opened to learn their size and length
_TINY_BOUNDS = (112 * 112 // 4, 112 * 112)  # of the tiny policies' own processors


def tell_answers(
    config: Mapping[str, Any],
    samples: Sequence[Sample],
    done: Collection[tuple[str, str, str]],
    conditions: Sequence[str],
) -> bool:
    """Print what the open answers will cost. False: nothing, because no call of a model is open."""
    node = config["policy"]
    if not _asks_model(node):
        return False
    clip, showing, new = _typical(config, [sample.video for sample in samples]), _showing(node), _longest(node)
    total, keeps = Cost(), "base_url" not in node  # a server reads every conversation anew
    for name, method in ((name, build(part)) for name, part in config["methods"].items()):
        frames = method.frames if clip is None else min(method.frames, clip.n_frames)
        shown = None if clip is None else frame_tokens(frames, clip, showing)
        for sample in samples:
            n = sum((sample.id, name, condition) not in done for condition in conditions)
            characters = len(sample.question) + sum(map(len, sample.options))
            asked = answer_cost(method.evidence, method.routing.asks_policy, characters, frames, shown, new, keeps)
            total += asked.times(n)
    return _tell("policy", build(node).name, total, config)


def tell_captions(config: Mapping[str, Any], tasks: Sequence[CaptionTask]) -> bool:
    """Print what captions for ``tasks`` will cost. False: nothing, because no call of a model is open."""
    from trustvid.evaluation.caption_runner import protocol_of

    node = config["policy"]
    if not _asks_model(node):
        return False
    there = [task for task in tasks if isinstance(task.video, Path)]
    clip, showing, new = _typical(config, [task.video for task in there]), _showing(node), _longest(node)
    protocol, frames, shown = protocol_of(config), config["frames"], None
    if clip is not None:
        frames = protocol.count(clip.n_frames, clip.seconds, config["frames"])
        shown = frame_tokens(frames, clip, showing)
    tools, thinks = config["evidence"] == "tools", protocol.thinking != "none"
    costs = (caption_cost(len(task.instruction.text), frames, shown, tools, new, thinks) for task in there)
    return _tell("policy", build(node).name, sum(costs, Cost()), config)


def tell_judgements(config: Mapping[str, Any], sizes: Sequence[tuple[int, int, int | None]]) -> bool:
    """Print what judgements will cost. False: nothing, because no call of a model is open.

    Args:
        sizes: of each open response: items of its checklist, characters of its instruction, and its own (None = it is
            yet to be written).
    """
    node = config["judge"]
    if not node or not _asks_model(node) or str(node["_target_"]).endswith("ReplayJudge"):
        return False
    new = _longest(node)
    costs = (judge_cost(*size, new) for size in sizes)
    return _tell("judge", node.get("name") or node["model"], sum(costs, Cost()), config)


def checklist_items(checklist: Mapping[str, Any] | None) -> int:
    """Rule items and questions of an official checklist, as far as it can be read."""
    from trustvid.captioning.validation import OPEN_KEY, RULE_KEY

    if checklist is None:
        return 0
    groups = checklist.get(OPEN_KEY) or []
    return len(checklist.get(RULE_KEY) or []) + sum(len(group.get("check_items") or []) for group in groups)


def _tell(who: str, name: str, cost: Cost, config: Mapping[str, Any]) -> bool:
    if cost.calls:
        print(line(f"{who} {name}", cost, build(config["estimate"][who])), flush=True)
    return cost.calls > 0


def _asks_model(node: Mapping[str, Any]) -> bool:
    """Whether a component runs or asks a model: those that do name it, or the family that is built."""
    return "model" in node or "family" in node


def _longest(node: Mapping[str, Any]) -> int | None:
    """The most tokens of a reply; None where the config does not bound them."""
    return node.get("max_new_tokens") or node.get("max_tokens")


def _showing(node: Mapping[str, Any]) -> Showing:
    """How the policy of a config is shown frames."""
    family = family_of(str(node.get("family") or _stated_type(str(node["model"])) or node["model"]))
    as_video = node.get("frames_as") == "video"
    if "family" in node:
        return Showing(family, as_video, _TINY_BOUNDS)
    longest_side = node.get("longest_side")  # of a served policy, whose frames are pictures
    most = node.get("max_pixels") or (longest_side**2 if longest_side else 10**9)
    return Showing(family, as_video, (node.get("min_pixels") or 1, most), node.get("total_pixels"))


def _stated_type(model: str) -> str | None:
    """The model type in the config.json of a folder of weights; None where it is none."""
    path = Path(model) / "config.json"
    return json.loads(path.read_text(encoding="utf-8")).get("model_type") if path.is_file() else None


def _typical(config: Mapping[str, Any], videos: Sequence[Path]) -> Clips | None:
    """Mean size and length of a few of the videos; None where none of these can be read."""
    reader, found = build(config["reader"]), []
    distinct = sorted({Path(video) for video in videos})
    for path in distinct[:: max(1, len(distinct) // _LOOKED_AT)][:_LOOKED_AT]:
        try:
            clip = reader.open(path)
        except VideoError:
            continue  # the work itself reports it, with the reason
        found.append((clip.width, clip.height, clip.n_frames, clip.n_frames / clip.fps))
    if not found:
        return None
    width, height, n_frames, seconds = (sum(column) / len(found) for column in zip(*found, strict=True))
    return Clips(round(width), round(height), round(n_frames), seconds)
