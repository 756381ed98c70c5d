"""What GRPO is trained on: questions that can be gone through any number of times, and what comes of each pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from trustvid.agent.driving import Turns
from trustvid.grpo.reward import RewardInputs


@dataclass(frozen=True)
class ToolCall:
    """A tool call that the policy routed.

    Attributes:
        number: of its sub-query in the decomposition, from 0.
        key: what was asked; calls of one group with the same key are compared under turn-level credit.
        tool: who was asked.
        confidence: c_j, 0–1.
        cost: Table 17.
    """

    number: int
    key: str
    tool: str
    confidence: float
    cost: float


@dataclass(frozen=True)
class Outcome:
    """What counts of one pass.

    Attributes:
        inputs: what the reward looks at.
        calls: tool calls, in the order of the sub-queries.
        routing_turn: number of the policy's turn that chose the tools, from 0; None where it did not.
        record: for the log, plain containers.
    """

    inputs: RewardInputs
    calls: tuple[ToolCall, ...] = ()
    routing_turn: int | None = None
    record: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Episode:
    """One question under one condition.

    Attributes:
        key: its name, from which seeds derive.
        start: begins a new pass.
        judge: makes of what a pass returned what counts of it.
    """

    key: str
    start: Callable[[], Turns[Any]]
    judge: Callable[[Any], Outcome]


class Environment(Protocol):
    """The questions of a training run."""

    def __len__(self) -> int:
        """How many questions there are."""
        ...

    def episode(self, index: int, epoch: int) -> Episode:
        """Question ``index`` in the condition that it has in ``epoch``.

        Raises:
            TrustvidError: it cannot be asked (its video cannot be read): the step goes on without it.
        """
        ...
