"""Errors with a name: each says what failed, why, what was expected and the way out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class TrustvidError(Exception):
    """Base of every error that trustvid raises on purpose. Its message is fit to be shown to the user as it is."""


class ConfigError(TrustvidError):
    """The config cannot run. Collects every fault, so that one try shows them all."""

    def __init__(self, faults: Iterable[str]):
        self.faults = tuple(faults)
        super().__init__("This config cannot run:\n" + "\n".join(f"  - {fault}" for fault in self.faults))

    def __reduce__(self) -> tuple:
        # An exception with its own constructor arguments must say how it crosses a process border.
        return type(self), (self.faults,)


class VideoError(TrustvidError):
    """A video file cannot be read.

    Args:
        path: the file.
        reason: what is wrong with it, in a few words.
        expected: what would have been right, and the way out.
    """

    def __init__(self, path: Path | str, reason: str, expected: str):
        self.path, self.reason, self.expected = Path(path), reason, expected
        super().__init__(f"{path}: {reason}; expected {expected}")

    def __reduce__(self) -> tuple:
        return type(self), (self.path, self.reason, self.expected)


class DataError(TrustvidError):
    """A benchmark's files are missing, malformed or not the expected ones."""
