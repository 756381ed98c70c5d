"""What is kept of the rollouts of a run: one line of JSON for each, and now and then one of them to be looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trustvid.grpo.reward import Reward
from trustvid.grpo.rollout import Rollout

Terms = dict[str, float] | None


def rollout_record(step: int, rollout: Rollout, terms: Terms, reward: Reward) -> dict[str, Any]:
    """One line of ``rollouts.jsonl``; what failed says why."""
    outcome = rollout.outcome
    return {
        "step": step,
        "key": rollout.key,
        "sample": rollout.sample,
        "reward": None if terms is None else round(reward.total(terms), 6),
        "terms": terms and {name: round(value, 6) for name, value in terms.items()},
        "correct": None if outcome is None else float(outcome.inputs.correct),
        "truncated": rollout.truncated,
        "error": rollout.error,
        "replies": list(rollout.replies),
        "messages": None if outcome is None else outcome.record.get("messages"),
        "record": None if outcome is None else {k: v for k, v in outcome.record.items() if k != "messages"},
    }


def pretty(rollout: Rollout, terms: Terms, reward: Reward) -> str:
    """A rollout for a reader: every message, what came of it, and what each term of the reward gave."""
    lines = [f"── {rollout.key}, sample {rollout.sample} " + "─" * 30]
    messages = (rollout.outcome.record.get("messages") or []) if rollout.outcome else []
    for message in messages:
        lines += [f"[{message['role']}]", *(f"  {line}" for line in message["text"].splitlines())]
    if rollout.error:
        lines.append(f"failed: {rollout.error}")
    if terms is not None:
        weighed = " + ".join(f"{weight:.2f}·{name} {terms[name]:+.2f}" for name, weight in reward.weights.items())
        lines.append(f"reward {reward.total(terms):+.3f} = {weighed}")
    return "\n".join(lines)


class RolloutLog:
    """Appends every step's rollouts and shows one of them every ``print_every`` steps.

    Args:
        append: takes the records of a step, in order.
        reward: weighs the terms.
        show: prints text; asked every ``print_every`` steps.
        print_every: 0 = never.
    """

    def __init__(
        self,
        append: Callable[[Sequence[Mapping[str, Any]]], None],
        reward: Reward,
        show: Callable[[str], None] = print,
        print_every: int = 0,
    ):
        self.append, self.reward, self.show, self.print_every = append, reward, show, print_every

    def __call__(self, step: int, rollouts: Sequence[Rollout], terms: Sequence[Terms]) -> None:
        records = [rollout_record(step, *pair, self.reward) for pair in zip(rollouts, terms, strict=True)]
        self.append(records)
        if self.print_every and step % self.print_every == 0 and rollouts:
            self.show(f"step {step}\n{pretty(rollouts[0], terms[0], self.reward)}")
