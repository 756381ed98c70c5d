"""Rollouts: groups of passes through the pipeline whose policy turns are sampled and whose tokens are kept."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from trustvid.agent.driving import drive_with, replies_of
from trustvid.errors import ConfigError, TrustvidError
from trustvid.grpo.episodes import Episode, Outcome
from trustvid.policy.base import PolicyError, PolicyRequest
from trustvid.policy.vlm_settings import Decoding

if TYPE_CHECKING:
    from trustvid.policy.vlm import Turn, VisionLanguagePolicy
    from trustvid.policy.vlm_tokens import TokenBuffer


@dataclass(frozen=True)
class Rollout:
    """One sampled pass.

    Attributes:
        key: the episode's name.
        sample: its number in the group, from 0.
        buffer: the whole conversation as tokens; None where the pass failed before the policy spoke.
        replies: the policy's turns, as text.
        outcome: what counts of it; None where it failed.
        error: why it failed, else None.
    """

    key: str
    sample: int
    buffer: TokenBuffer | None
    replies: tuple[str, ...]
    outcome: Outcome | None
    error: str | None = None

    @property
    def truncated(self) -> bool:
        """Whether a turn was cut at its longest length."""
        return self.buffer is not None and not all(self.buffer.complete)


class Engine(Protocol):
    """Speaks for the policy (config group ``rollout``).

    Attributes:
        is_remote: whether another process samples, whose log-probabilities may differ a little from the network's own.
    """

    is_remote: bool

    def connect(self, policy: VisionLanguagePolicy) -> None:
        """Speak for this policy."""
        ...

    def updated(self, trainable: Any, step: int) -> None:
        """Told before the first step, and after each one that the weights have changed."""
        ...

    def metrics(self) -> dict[str, float]:
        """What is to be logged of the step's sampling, by name."""
        ...

    def ask(self, requests: Sequence[PolicyRequest], seed: int) -> list[Turn | TrustvidError]:
        """The next turn of each conversation, or why there is none."""
        ...

    def temperature(self, turn: int) -> float:
        """Temperature of the policy's turn ``turn``, from 0."""
        ...


@dataclass(frozen=True)
class Sampling:
    """How the turns of a rollout are drawn.

    Attributes:
        temperature: one for all turns, or one for each (the last holds for all later ones).
        max_new_tokens: longest turn; one for all, or one for each.
        top_p: see :class:`~trustvid.policy.vlm_settings.Decoding`. Log-probabilities are those before it.
    """

    temperature: float | Sequence[float] = 1.0
    max_new_tokens: int | Sequence[int] = 256
    top_p: float = 1.0

    def __post_init__(self) -> None:
        faults = [fault for turn in range(self.turns) for fault in self.decoding(turn, 0).faults()]
        if faults:
            raise ConfigError([f"rollout: {fault}" for fault in dict.fromkeys(faults)])

    @property
    def turns(self) -> int:
        """Turns that have settings of their own."""
        values = (self.temperature, self.max_new_tokens)
        return max(len(value) if isinstance(value, Sequence) else 1 for value in values)

    def decoding(self, turn: int, seed: int) -> Decoding:
        """How the policy's turn ``turn`` is drawn."""
        return Decoding(
            max_new_tokens=_of_turn(self.max_new_tokens, turn),
            do_sample=True,
            temperature=_of_turn(self.temperature, turn),
            top_p=self.top_p,
            seed=seed,
        )


class HfEngine:
    """Samples from the very network that is trained.

    Args:
        temperature, max_new_tokens, top_p: see :class:`Sampling`.
        batch_size: conversations that are sampled together.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    name = "hf"
    is_remote = False

    def __init__(
        self,
        temperature: float | Sequence[float] = 1.0,
        max_new_tokens: int | Sequence[int] = 256,
        top_p: float = 1.0,
        batch_size: int = 64,
    ):
        self.sampling = Sampling(temperature, max_new_tokens, top_p)
        if batch_size < 1:
            raise ConfigError([f"rollout.batch_size={batch_size}; expected at least 1"])
        self.batch_size = batch_size
        self.policy: VisionLanguagePolicy | None = None

    def connect(self, policy: VisionLanguagePolicy) -> None:
        """Speak for this policy."""
        self.policy = policy
        policy.batch_size = policy.parallel = self.batch_size

    def updated(self, trainable: Any, step: int) -> None:
        """Nothing to do: it is the network."""

    def metrics(self) -> dict[str, float]:
        """Nothing of its own."""
        return {}

    def temperature(self, turn: int) -> float:
        """Temperature of the policy's turn ``turn``, from 0."""
        return _of_turn(self.sampling.temperature, turn)

    def ask(self, requests: Sequence[PolicyRequest], seed: int) -> list[Turn | TrustvidError]:
        """The next turn of each conversation, or why there is none."""
        turn = turn_of(requests[0])
        return converse(self.policy, requests, self.sampling.decoding(turn, seed))


class Greedy:
    """The likeliest token, always: how a policy in training is measured.

    Args:
        policy: who speaks.
        max_new_tokens: longest turn; one for all, or one for each.
    """

    is_remote = False

    def __init__(self, policy: VisionLanguagePolicy, max_new_tokens: int | Sequence[int]):
        self.policy, self.max_new_tokens = policy, max_new_tokens

    def ask(self, requests: Sequence[PolicyRequest], seed: int) -> list[Turn | TrustvidError]:
        """The next turn of each conversation, or why there is none."""
        longest = _of_turn(self.max_new_tokens, turn_of(requests[0]))
        return converse(self.policy, requests, Decoding(max_new_tokens=longest))


def converse(
    policy: VisionLanguagePolicy, requests: Sequence[PolicyRequest], decoding: Decoding
) -> list[Turn | TrustvidError]:
    """The next turn of each conversation, or why there is none."""
    try:
        return list(policy.converse(requests, decoding))
    except PolicyError as error:
        return replies_of(error)


def turn_of(request: PolicyRequest) -> int:
    """Number of the turn that a request asks for, from 0."""
    return sum(message.role == "assistant" for message in request.messages)


def roll_out(episodes: Sequence[Episode], num_generations: int, engine: Engine, seed: int) -> list[Rollout]:
    """``num_generations`` passes of each episode, side by side.

    Args:
        episodes: the questions of a step.
        num_generations: G.
        engine: speaks for the policy.
        seed: of the step; draws differ by it, by question and by the number in the group, by nothing else.

    Returns:
        Rollouts in the order of the episodes, those of one group together.
    """
    numbered = [(episode, sample) for episode in episodes for sample in range(num_generations)]
    turns: list[list[Turn]] = [[] for _ in numbered]

    def ask(places: Sequence[int], requests: Sequence[PolicyRequest]) -> list[str | TrustvidError]:
        replies: list[Any] = [None] * len(requests)
        for turn in sorted({turn_of(request) for request in requests}):
            now = [at for at, request in enumerate(requests) if turn_of(request) == turn]
            for at, said in zip(now, engine.ask([requests[at] for at in now], seed), strict=True):
                replies[at] = said
                if not isinstance(said, TrustvidError):
                    turns[places[at]].append(said)
                    replies[at] = said.text
        return replies

    passes = [_numbered(episode.start(), sample) for episode, sample in numbered]
    outcomes = drive_with(passes, ask)
    return [
        _rollout(episode, sample, said, outcome)
        for (episode, sample), said, outcome in zip(numbered, turns, outcomes, strict=True)
    ]


def _numbered(turns: Any, sample: int) -> Generator[PolicyRequest, str, Any]:
    """The pass, its requests marked with its number in the group."""
    reply = None
    while True:
        try:
            request = turns.send(reply)
        except StopIteration as stop:
            return stop.value
        reply = yield replace(request, sample=sample)


def _rollout(episode: Episode, sample: int, turns: Sequence[Turn], outcome: Any) -> Rollout:
    buffer = turns[-1].buffer if turns else None
    replies = tuple(turn.text for turn in turns)
    if isinstance(outcome, TrustvidError):
        return Rollout(episode.key, sample, buffer, replies, None, str(outcome))
    return Rollout(episode.key, sample, buffer, replies, episode.judge(outcome))


def _of_turn(value: Any, turn: int) -> Any:
    return value[min(turn, len(value) - 1)] if isinstance(value, Sequence) else value
