"""How a run's answers were made, as footnotes: decode settings, the policy with its revision, program and commit.

Read from what the run folder says of itself: ``run.json`` and the resolved config in ``.hydra/config.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trustvid.evaluation.store import RunFolder

DECODE_KEYS = (
    *("do_sample", "temperature", "top_p", "repetition_penalty", "seed", "max_new_tokens", "max_tokens", "extra"),
    *("frames_as", "min_pixels", "max_pixels", "total_pixels", "longest_side", "image_format", "jpeg_quality"),
    *("dtype", "quantization", "attn_implementation"),
)
"""Settings of a policy that can change an answer, beside which model it is."""


def origin_notes(folder: Path) -> tuple[str, ...]:
    """Whole sentences; only what the folder knows (answers that were imported have no config).

    Raises:
        DataError: a file in the folder is not what a run writes.
    """
    run, config = RunFolder(folder).run(), RunFolder(folder).config() or {}
    return (*_policy_note(config.get("policy") or {}), *_decode_note(config), *_run_note(folder, run or {}))


def _policy_note(policy: Mapping[str, Any]) -> Iterator[str]:
    """Which model, at which revision, with which adapter, decoded how."""
    kind = str(policy.get("_target_") or "").rpartition(".")[2]
    if not kind:
        return
    parts = []
    if policy.get("model"):
        revision = policy.get("revision")
        pinned = f"revision {revision}" if revision else "no revision pinned" if "revision" in policy else ""
        parts.append(f"model {policy['model']}" + (f" ({pinned})" if pinned else ""))
    if policy.get("init_from"):
        parts.append(f"weights {Path(str(policy['init_from'])).name}")
    parts += [f"{key} {_text(policy[key])}" for key in DECODE_KEYS if policy.get(key) not in (None, {}, [])]
    yield f"Policy: {kind}{', ' if parts else ''}{', '.join(parts)}."


def _decode_note(config: Mapping[str, Any]) -> Iterator[str]:
    """How the video reached policy and tools."""
    shown = {
        "reader": (config.get("reader") or {}).get("kind"),
        "frames per clip": config.get("frames"),
        "window": None if config.get("window_s") is None else f"{config['window_s']:g} s",
        "seed": config.get("seed"),
    }
    parts = [f"{name} {_text(value)}" for name, value in shown.items() if value is not None]
    if parts:
        yield f"Decoding: {', '.join(parts)}."


def _run_note(folder: Path, run: Mapping[str, Any]) -> Iterator[str]:
    """The program that answered; several commits where the run was continued by another."""
    if not run:
        return
    commits = [one["commit"] for one in (run, *run["continued"]) if one.get("commit")]
    parts = [f"trustvid {run['trustvid']}", *(f"commit {_short(commit)}" for commit in dict.fromkeys(commits))]
    if run["status"] != "finished":
        parts.append(f"status {run['status']}: numbers may be partial")
    yield f"Run {folder.name}: {', '.join(parts)}."


def _short(commit: str) -> str:
    bare = commit.removesuffix("-dirty")
    return bare[:10] + (" with local changes" if bare != commit else "")


def _text(value: Any) -> str:
    """As in a config: false, not False."""
    return str(value).lower() if isinstance(value, bool) else str(value)
