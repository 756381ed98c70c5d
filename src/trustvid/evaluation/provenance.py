"""Where a run's numbers come from: program and package versions, platform, commit, and the hash of its config."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "av",
    "decord",
    "hydra-core",
    "lightning",
    "numpy",
    "omegaconf",
    "onnxruntime",
    "opencv-python-headless",
    "peft",
    "pillow",
    "pyarrow",
    "rapidocr",
    "scipy",
    "supervision",
    "timm",
    "torch",
    "trackers",
    "transformers",
)
"""Packages whose version can change a number."""

NOT_HASHED = (
    *("paths", "logger", "workers", "device", "*.device", "mode", "fresh", "progress", "hydra"),
    *("scale", "report", "show", "published", "runs"),
)
"""What does not change the answers: where files lie, how many work, who watches, what is made of the answers.

Patterns of dotted keys. What ``scale`` changes stands in the settings that it fills.
"""


def config_hash(config: Mapping[str, Any], exclude: Sequence[str] = NOT_HASHED) -> str:
    """The ten hex digits that name a config's run folder: equal settings, equal hash, in any order of the keys.

    Args:
        config: plain containers (a resolved config), nested by group.
        exclude: patterns of dotted keys to leave out with all below them; ``device`` is the top-level key alone,
            ``*.device`` the key of that name inside any group.

    Raises:
        TypeError: a value is not a plain container, text, number, bool or None.
        ValueError: a number is NaN or infinite.

    >>> config_hash({"seed": 0, "workers": 2}) == config_hash({"workers": 8, "seed": 0})
    True
    """
    kept = _without(config, tuple(exclude), prefix="")
    text = json.dumps(kept, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _without(config: Mapping[str, Any], exclude: tuple[str, ...], prefix: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if any(fnmatchcase(name, pattern) for pattern in exclude):
            continue
        kept[str(key)] = _without(value, exclude, f"{name}.") if isinstance(value, Mapping) else value
    return kept


def environment() -> dict[str, Any]:
    """Versions of trustvid, Python, the platform and the packages of :data:`PACKAGES`, and the commit of the source."""
    return {
        "trustvid": _version("trustvid"),
        "commit": source_commit(Path(__file__).resolve().parents[3]),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def source_commit(root: Path) -> str | None:
    """Commit of the checkout at ``root``, with "-dirty" after it when tracked files differ from it.

    None when ``root`` is no checkout itself (an installed wheel; a parent folder's repository says nothing of us) or
    there is no ``git`` to ask.
    """
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return None
    command = [git, "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603 — fixed words and our own folder
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None
