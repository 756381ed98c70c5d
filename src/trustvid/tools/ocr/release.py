"""Which release of rapidocr, and with it which models, is installed: part of cache keys."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version


@lru_cache(maxsize=1)
def rapidocr_release() -> str:
    """The version, or "missing" (reading a frame then fails with the command that installs it)."""
    try:
        return version("rapidocr")
    except PackageNotFoundError:
        return "missing"
