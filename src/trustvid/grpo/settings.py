"""What a config says about the objective. Cheap to import: no framework."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trustvid.errors import ConfigError

LOSS_TYPES = ("grpo", "dr_grpo", "dapo", "bnpo")
LEVELS = ("token", "sequence")
SCALES = ("group", "batch", "none")
CREDITS = ("trajectory", "turn")


@dataclass(frozen=True)
class LossConfig:
    """The clipped objective of a policy update (config group ``loss``); names as in TRL.

    Attributes:
        loss_type: how token losses become one number: "grpo" (mean over the tokens of a sequence, then over
            sequences), "dr_grpo" (sum over a constant, so that length has no weight), "dapo" (sum over the tokens of
            the whole step), "bnpo" (sum over the tokens of this process's part of the step).
        importance_sampling_level: "token", or "sequence" (GSPO: one ratio for a sequence, its geometric mean).
        epsilon: ratios below 1 - epsilon are clipped.
        epsilon_high: ratios above 1 + epsilon_high are clipped (clip-higher); None = epsilon.
        beta: weight of the KL to the reference policy; 0 = no reference is needed.
        max_completion_length: the constant of "dr_grpo": tokens that a policy may write in a whole trajectory.
        entropy_coef: weight of the entropy bonus.
        use_bias_correction_kl: multiply the KL of each token by its ratio, which makes it unbiased where the policy
            has moved since it sampled. TRL does so by default, the published GRPO objective does not.

    Raises:
        ConfigError: with all faults.
    """

    loss_type: str = "grpo"
    importance_sampling_level: str = "token"
    epsilon: float = 0.2
    epsilon_high: float | None = None
    beta: float = 0.0
    max_completion_length: int | None = None
    entropy_coef: float = 0.0
    use_bias_correction_kl: bool = False

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise ConfigError(faults)

    def _faults(self) -> Iterator[str]:
        if self.loss_type not in LOSS_TYPES:
            yield f"loss.loss_type={self.loss_type} is unknown; known: {', '.join(LOSS_TYPES)}"
        if self.importance_sampling_level not in LEVELS:
            level = self.importance_sampling_level
            yield f"loss.importance_sampling_level={level} is unknown; known: {', '.join(LEVELS)}"
        if not 0 < self.epsilon <= 1:
            yield f"loss.epsilon={self.epsilon}; expected above 0, at most 1"
        if self.epsilon_high is not None and not self.epsilon_high > 0:
            yield f"loss.epsilon_high={self.epsilon_high}; expected above 0, or null for the value of epsilon"
        for name in ("beta", "entropy_coef"):
            if not getattr(self, name) >= 0:
                yield f"loss.{name}={getattr(self, name)}; expected 0 or more"
        length = self.max_completion_length
        if length is not None and length < 1:
            yield f"loss.max_completion_length={length}; expected at least 1"
        elif length is None and self.loss_type == "dr_grpo":
            yield "loss.loss_type=dr_grpo divides by a constant; set loss.max_completion_length"

    @property
    def needs_reference(self) -> bool:
        """Whether log-probabilities of the reference policy are needed at all."""
        return self.beta > 0


@dataclass(frozen=True)
class AdvantageConfig:
    """How rewards become advantages (config group ``advantage``).

    Attributes:
        scale_rewards: what centred rewards are divided by, as in TRL: the standard deviation of their "group", that of
            the whole "batch", or "none".
        credit: "trajectory" (the paper: every token of a trajectory has the trajectory's advantage), or "turn" (the
            tokens that chose a tool are credited with the correctness of the answer and with what their own call
            brought).
        kappa: weight of a call's own value under credit=turn.
        mask_truncated_completions: leave trajectories that were cut at the length limit out of the loss. Their rewards
            keep counting in the baseline of their group, as in TRL.

    Raises:
        ConfigError: with all faults.
    """

    scale_rewards: str = "group"
    credit: str = "trajectory"
    kappa: float = 3.0
    mask_truncated_completions: bool = False

    def __post_init__(self) -> None:
        faults = list(self._faults())
        if faults:
            raise ConfigError(faults)

    def _faults(self) -> Iterator[str]:
        if self.scale_rewards not in SCALES:
            yield f"advantage.scale_rewards={self.scale_rewards} is unknown; known: {', '.join(SCALES)}"
        if self.credit not in CREDITS:
            yield f"advantage.credit={self.credit} is unknown; known: {', '.join(CREDITS)}"
        if not self.kappa >= 0:
            yield f"advantage.kappa={self.kappa}; expected 0 or more"
        if self.credit == "turn" and self.scale_rewards == "group":
            # A group that agrees on the answer has a small deviation, which would blow up small differences of cost.
            yield "advantage.credit=turn with scale_rewards=group lets costs outweigh answers; expected batch or none"


def group_faults(num_generations: int, batch_size: int | None = None) -> Iterator[str]:
    """What is wrong with the size of groups, for the settings of a stage.

    Args:
        num_generations: trajectories of one question, G.
        batch_size: trajectories of one step, which must be whole groups; None = not fixed.

    >>> list(group_faults(4, 6))
    ['num_generations=4 does not divide the 6 trajectories of a step; it could be 2, 3 or 6']
    """
    if num_generations < 2:
        yield (
            f"num_generations={num_generations}: an advantage compares trajectories of one question; expected at least "
            "2, 8 as a rule"
        )
    elif batch_size is not None and batch_size % num_generations:
        *most, last = [str(size) for size in range(2, batch_size + 1) if batch_size % size == 0] or ["nothing"]
        known = f"{', '.join(most)} or {last}" if most else last
        yield (
            f"num_generations={num_generations} does not divide the {batch_size} trajectories of a step; it could be "
            f"{known}"
        )
