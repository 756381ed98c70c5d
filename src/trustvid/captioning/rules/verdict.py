"""What a rule says about one piece of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Verdict:
    """The outcome of one rule check.

    Attributes:
        value: True or False; None when the rule could not be applied (unscored), never a guess.
        reason: what decided, or why there is no verdict; one line.
    """

    value: bool | None
    reason: str


class Finding(NamedTuple):
    """What a strict rule found in one content element: whether it holds, and the fact that decided."""

    holds: bool
    reason: str


class CannotCheck(Exception):
    """A rule's parameters or its text cannot be checked; the message becomes the reason of an unscored verdict."""
