"""Counts of the official files: what was downloaded, and whether it is what the paper describes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from trustvid.captioning.files import Instruction
from trustvid.captioning.outcomes import UNTYPED
from trustvid.captioning.taxonomy import CONTENT_IDS, FORMAT_IDS
from trustvid.captioning.validation import OPEN_KEY, RULE_KEY

_HAN = re.compile(r"[\u4e00-\u9fff]")
_QUANTILES = {"min": 0, "p10": 10, "p25": 25, "median": 50, "p75": 75, "p90": 90, "max": 100}


def prompt_statistics(instructions: Sequence[Instruction]) -> dict[str, Any]:
    """Counts of ``prompt.json``: fields, lengths of instructions, and the constraint ids they were drafted from.

    The ids are not the checklist (people edited that later), so the numbers differ a little from the paper's.
    """
    used = [instruction.constraints_used for instruction in instructions]
    return {
        "videos": len({instruction.key.video for instruction in instructions}),
        "instructions": len(instructions),
        "prompt_ids": _counts(instruction.key.prompt_id for instruction in instructions),
        "fields": _counts(instruction.field for instruction in instructions),
        "by_field": _by_field(instructions),
        "characters": spread([len(instruction.text) for instruction in instructions]),
        "words": spread([len(instruction.text.split()) for instruction in instructions]),
        "with_han_characters": sum(bool(_HAN.search(instruction.text)) for instruction in instructions),
        "repeated_texts": len(instructions) - len({instruction.text for instruction in instructions}),
        "constraints": {
            **spread([len(ids) for ids in used]),
            "total": sum(map(len, used)),
            "distinct_mean": float(np.mean([len(set(ids)) for ids in used])) if used else None,
            "histogram": _histogram(map(len, used)),
        },
        "ids": _id_statistics(used),
    }


def _by_field(instructions: Sequence[Instruction]) -> dict[str, dict[str, float]]:
    found: dict[str, list[Instruction]] = {}
    for instruction in instructions:
        found.setdefault(instruction.field, []).append(instruction)
    return {
        name: {
            "words": float(np.mean([len(item.text.split()) for item in items])),
            "constraints": float(np.mean([len(item.constraints_used) for item in items])),
        }
        for name, items in sorted(found.items())
    }


def _id_statistics(used: Sequence[tuple[str, ...]]) -> dict[str, Any]:
    uses = Counter(name for ids in used for name in ids)
    formats = [sum(name in FORMAT_IDS for name in ids) for ids in used]
    contents = [sum(name in CONTENT_IDS for name in ids) for ids in used]
    known = (*FORMAT_IDS, *CONTENT_IDS)
    return {
        "distinct": len(uses),
        "format_uses": sum(formats),
        "content_uses": sum(contents),
        "uses": dict(uses.most_common()),
        "instructions": dict(Counter(name for ids in used for name in set(ids)).most_common()),
        "stray": {name: n for name, n in uses.most_common() if name not in known},
        "without_format": formats.count(0),
        "format_only": sum(n == len(ids) for n, ids in zip(formats, used, strict=True)),
        "more_format_than_content": sum(f > c for f, c in zip(formats, contents, strict=True)),
    }


def checklist_statistics(checklists: Iterable[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Counts of ``checklist.json``: constraints (a rule item or a group of questions is one) and questions.

    Args:
        checklists: of each instruction, in the official shape; None where there is none.
    """
    known = [checklist for checklist in checklists if checklist is not None]
    rules = [checklist.get(RULE_KEY) or [] for checklist in known]
    groups = [checklist.get(OPEN_KEY) or [] for checklist in known]
    sizes = [len(items) + len(of_open) for items, of_open in zip(rules, groups, strict=True)]
    questions = [[item for group in of_open for item in group.get("check_items") or []] for of_open in groups]
    return {
        "checklists": len(known),
        "constraints": {**spread(sizes), "total": sum(sizes), "histogram": _histogram(sizes)},
        "rule_items": sum(map(len, rules)),
        "groups": sum(map(len, groups)),
        "questions": {**spread([len(items) for items in questions]), "total": sum(map(len, questions))},
        "checks": spread([len(items) + len(asked) for items, asked in zip(rules, questions, strict=True)]),
        "question_types": _counts(str(item.get("check_type", "")) for items in questions for item in items),
        "ids": _counts(str(item.get("constraint_id", "")) for items in rules for item in items),
        "group_ids": _counts(group.get("constraint_id") or UNTYPED for of_open in groups for group in of_open),
    }


def _histogram(sizes: Iterable[int]) -> dict[str, int]:
    return {str(size): n for size, n in sorted(Counter(sizes).items())}


def response_statistics(texts: Iterable[str]) -> dict[str, float | int | None]:
    """Lengths in characters of a captioner's responses."""
    return spread([len(text) for text in texts])


def video_statistics(meta: Mapping[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
    """Counts of ``video_meta_info.json``: all its entries, and durations (seconds) of the ``wanted`` videos.

    A video counts as small when its shorter side is below the 480 pixels that the paper states as the least. Entries
    without the usual keys are counted and left out.
    """
    usable = {video: entry for video, entry in meta.items() if _is_usable(entry)}
    videos = [usable[video] for video in sorted(set(wanted)) if video in usable]
    sizes = [tuple(map(int, entry["resolution"].split("x"))) for entry in videos]
    return {
        "entries": len(meta),
        "unreadable": len(meta) - len(usable),
        "parts": _counts(video.rpartition("_")[0] for video in meta),
        "wanted": len(videos),
        "seconds": spread([duration_s(entry["duration"]) for entry in videos]),
        "portrait": sum(height > width for width, height in sizes),
        "small": sum(min(size) < 480 for size in sizes),
        "resolutions": _counts(entry["resolution"] for entry in usable.values()),
        "fps": _counts(f"{entry['original_fps']:g}" for entry in usable.values()),
    }


def _is_usable(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    duration, resolution, fps = (entry.get(name) for name in ("duration", "resolution", "original_fps"))
    texts = isinstance(duration, str) and isinstance(resolution, str)
    sound = texts and re.fullmatch(r"\d+:\d+", duration) and re.fullmatch(r"\d+x\d+", resolution)
    return bool(sound) and isinstance(fps, int | float)


def duration_s(text: str) -> int:
    """
    >>> duration_s("01:05")
    65
    """
    minutes, _, seconds = text.partition(":")
    return 60 * int(minutes) + int(seconds)


def spread(values: Sequence[float]) -> dict[str, float | int | None]:
    """Mean, extremes and quantiles (each a value that occurs, the higher neighbour); None where there are no values."""
    if not values:
        return {"n": 0, "mean": None, **dict.fromkeys(_QUANTILES)}
    quantiles = np.percentile(values, list(_QUANTILES.values()), method="higher")
    return {
        "n": len(values),
        "mean": float(np.mean(values)),
        **{name: int(value) for name, value in zip(_QUANTILES, quantiles, strict=True)},
    }


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))
