"""What action classifiers share: checks, and the sentence of a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trustvid.tools.evidence import Observation
from trustvid.tools.pretrained.checkpoint import Checkpoint
from trustvid.tools.summary import when_seen

INSTEAD = "tools/recognize_action=embedded, which needs no weights"
_LISTED_ACTIONS = 8


def action_faults(checkpoint: Checkpoint, min_score: float) -> Iterator[str]:
    """What is wrong with the settings that action classifiers share."""
    yield from checkpoint.faults("recognize_action")
    if not 0 <= min_score <= 1:
        yield f"recognize_action.min_score={min_score!r}: expected 0–1"


def describe_actions(observations: Sequence[Observation]) -> tuple[str, float]:
    """The actions by first sight, and the mean top-1 probability (c_intrinsic of the paper's Table 17)."""
    if not observations:
        return "no action recognised", 0.0
    by_label: dict[str, list[Observation]] = {}
    for seen in observations:
        by_label.setdefault(seen.label, []).append(seen)
    ranked = sorted(by_label.items(), key=lambda item: (-len(item[1]), item[0]))[:_LISTED_ACTIONS]
    told = sorted(ranked, key=lambda item: (min(seen.time for seen in item[1]), item[0]))
    parts = [f"{label} ({when_seen(seen)})" for label, seen in told]
    if len(by_label) > len(parts):
        parts.append(f"{len(by_label) - len(parts)} more")
    return "action: " + "; ".join(parts), sum(seen.score for seen in observations) / len(observations)
