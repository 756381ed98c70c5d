"""RobustTO: the LightningModule that holds the frame-reliability estimator, the policy, and a GRPO training step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from trustvid.errors import TrustvidError
from trustvid.grpo.advantages import EPSILON, CallCredit, group_advantages, spread, turn_credit
from trustvid.grpo.episodes import Environment, Episode
from trustvid.grpo.losses import Mean, Normaliser, averages, normaliser, policy_loss
from trustvid.grpo.reward import Reward
from trustvid.grpo.rollout import Engine, Greedy, Rollout, roll_out
from trustvid.grpo.settings import AdvantageConfig, LossConfig
from trustvid.grpo.spans import tool_spans
from trustvid.policy.vlm import VisionLanguagePolicy
from trustvid.policy.vlm_tokens import TokenBuffer
from trustvid.seeding import derive_seed
from trustvid.training.held_out import HeldOutQuestions, accuracy_of
from trustvid.training.optimizer import AdamW
from trustvid.training.order import StepOrder
from trustvid.training.policy_module import PolicyModule


@dataclass
class Batch:
    """What one step learns from: its scored rollouts and what belongs to each, in one order.

    Attributes:
        rollouts: those with a score.
        advantages: one for each trajectory, or for each of its tokens (turn-level credit).
        spans: of each trajectory, the tokens [start, stop) that name a tool.
        old, reference: log-probabilities of all tokens by the policy that sampled and by the reference, padded on the
            left per trajectory as its own buffer; None where the objective does not need them.
    """

    rollouts: list[Rollout]
    advantages: list[np.ndarray]
    spans: list[list[tuple[int, int]]]
    old: list[torch.Tensor] | None = None
    reference: list[torch.Tensor] | None = None

    @property
    def buffers(self) -> list[TokenBuffer]:
        """Their conversations."""
        return [rollout.buffer for rollout in self.rollouts]


class RobustTO(PolicyModule):
    """The orchestrating policy of Robust-TO (arXiv 2606.26904) under GRPO.

    A step takes ``order.batch`` questions, samples ``num_generations`` passes of the pipeline for each, rewards them
    (Eqs. 5–10), and updates the policy ``loss.num_iterations`` times. The pipeline is the one that evaluation runs; so
    is the frame-reliability estimator inside it.

    Args:
        policy, adapter, optimizer, order, steps, micro_batch, seed: see
            :class:`~trustvid.training.policy_module.PolicyModule`.
        environment: the questions, each in the condition of its epoch.
        engine: samples the policy's turns.
        reward: Eq. 10.
        loss: the objective.
        advantage: from rewards to advantages.
        num_generations: G.
        num_iterations: updates on the rollouts of one step.
        sample_only: nothing is learned: the rollouts are for others to learn from (rejection sampling).
        entropy_on: the tokens of the entropy bonus: "tools" = those that name a tool, "all" = all that were written.
        reliability: the estimator the environment's pipeline profiles frames with. Its network, where it has one
            (reliability=learned), is part of this module and of its checkpoints, and is not trained here.
        on_rollouts: told of every step's rollouts (step, rollouts, terms of their rewards).
        tests: held-out questions that the policy answers, greedily, when the training is over.
        on_predictions: told of their predictions, group by group.
    """

    def __init__(
        self,
        policy: VisionLanguagePolicy,
        adapter: Any,
        optimizer: AdamW,
        order: StepOrder,
        steps: int,
        environment: Environment,
        engine: Engine,
        reward: Reward,
        loss: LossConfig,
        advantage: AdvantageConfig,
        num_generations: int,
        num_iterations: int = 1,
        sample_only: bool = False,
        entropy_on: str = "tools",
        micro_batch: int = 16,
        seed: int = 0,
        reliability: Any = None,
        on_rollouts: Callable[[int, Sequence[Rollout], Sequence[dict[str, float] | None]], None] | None = None,
        tests: HeldOutQuestions | None = None,
        on_predictions: Callable[[list[dict[str, Any]]], None] | None = None,
    ):
        super().__init__(policy, adapter, optimizer, order, steps, micro_batch, seed, num_iterations)
        self.environment, self.engine, self.reward = environment, engine, reward
        self.loss, self.advantage, self.num_generations = loss, advantage, num_generations
        self.sample_only, self.entropy_on, self.on_rollouts = sample_only, entropy_on, on_rollouts
        self.tests, self.on_predictions = tests, on_predictions
        network = getattr(reliability, "network", None)
        self.estimator, self.reliability = reliability, None if network is None else network.requires_grad_(False)
        if not loss.needs_reference:
            self.trainable.forget_reference()
        engine.connect(policy)

    def _extra(self, name: str) -> bool:
        return name.startswith("reliability.")

    # -- a step --------------------------------------------------------------------------------------------------------

    def training_step(self, batch: list[tuple[int, int]], batch_idx: int) -> None:
        """Sample, reward, update: ``batch`` is a list of (step, question)."""
        step = batch[0][0]
        self.network.eval()
        episodes, unusable = self.episodes([question for _, question in batch], self.order.epoch_of(step))
        rollouts = roll_out(episodes, self.num_generations, self.engine, derive_seed("rollout", self.seed, step))
        terms = [self.reward.terms(one.outcome.inputs) if one.outcome else None for one in rollouts]
        if self.on_rollouts is not None:
            self.on_rollouts(step, rollouts, terms)
        learnt, constant = self.credited(rollouts, terms)
        log = self._described(rollouts, terms, unusable) | {"frac_reward_zero_std": constant}
        if self.sample_only:
            for _ in range(self.updates_per_step):
                self._idle()
        else:
            self._remember(learnt)
            self.network.train()
            for _ in range(self.updates_per_step):
                log |= self._updated(learnt)
        log |= self.engine.metrics()
        self.engine.updated(self.trainable, step)
        self.log_dict(log, prog_bar=False, sync_dist=self.trainer.world_size > 1, batch_size=1)

    def on_train_start(self) -> None:
        """Whoever samples begins with the weights that this run begins, or goes on, with."""
        self.engine.updated(self.trainable, self.step)

    # -- held-out questions --------------------------------------------------------------------------------------------

    def test_dataloader(self) -> DataLoader:
        """Numbers of the videos with held-out questions."""
        return DataLoader(range(len(self.tests) if self.tests is not None else 0), batch_size=1, collate_fn=list)

    def test_step(self, batch: list[int], batch_idx: int) -> None:
        """Answer what is open on one video, by the pipeline that evaluation runs; the policy speaks greedily."""
        for video in batch:
            predictions = []
            for group in self.tests.answer(video, self.policy):
                predictions += group
                if self.on_predictions is not None:
                    self.on_predictions(group)
            scored = {f"test/accuracy/{name}": value for name, value in accuracy_of(predictions).items()}
            self.log_dict(scored, batch_size=max(1, len(predictions)))

    # -- parts of a step -----------------------------------------------------------------------------------------------

    def episodes(self, questions: Sequence[int], epoch: int) -> tuple[list[Episode], int]:
        """The questions of a step, and how many could not be asked."""
        found = []
        for question in questions:
            try:
                found.append(self.environment.episode(question, epoch))
            except TrustvidError as error:
                self.print(f"question {question} is left out of this step: {error}")
        return found, len(questions) - len(found)

    def credited(self, rollouts: Sequence[Rollout], terms: Sequence[dict[str, float] | None]) -> tuple[Batch, float]:
        """Rollouts with a score and their advantages, and the share of groups from which nothing is learned."""
        rewards = np.array([math.nan if one is None else self.reward.total(one) for one in terms])
        everywhere, mine = self._everyone(rewards)
        groups = group_advantages(everywhere, self.num_generations, self.advantage.scale_rewards)
        kept = [at for at, one in enumerate(rollouts) if terms[at] is not None and one.buffer is not None]
        spans = {at: tool_spans(rollouts[at], self.policy.loaded) for at in kept}
        if self.advantage.credit == "trajectory":
            values = groups.values[mine]
            advantages = [np.full(len(rollouts[at].buffer), values[at]) for at in kept]
        else:
            advantages = self._by_turn(rollouts, terms, rewards, groups.scale[mine], kept, spans)
        batch = Batch([rollouts[at] for at in kept], advantages, [list(spans[at].values()) for at in kept])
        return batch, groups.frac_reward_zero_std

    def _by_turn(
        self,
        rollouts: Sequence[Rollout],
        terms: Sequence[dict[str, float] | None],
        rewards: np.ndarray,
        scale: np.ndarray,
        kept: Sequence[int],
        spans: dict[int, dict[int, tuple[int, int]]],
    ) -> list[np.ndarray]:
        """Turn-level credit: one advantage for each token."""
        # Groups are whole here, but what rewards are divided by is common to all processes.
        divisor = np.where(scale > 2 * EPSILON, scale, 1.0)
        weight = self.reward.cost_weight
        calls = [
            [
                CallCredit(call.key, call.confidence - weight * call.cost, spans.get(at, {}).get(call.number))
                for call in (one.outcome.calls if one.outcome else ())
            ]
            for at, one in enumerate(rollouts)
        ]
        accuracy = [0.0 if one is None else one["acc"] for one in terms]
        credit = turn_credit(rewards, accuracy, calls, self.num_generations, self.advantage.kappa, "none")
        tokens = spread(credit, calls, max((len(rollouts[at].buffer) for at in kept), default=0))
        return [tokens[at, : len(rollouts[at].buffer)] / divisor[at] for at in kept]

    def _everyone(self, rewards: np.ndarray) -> tuple[np.ndarray, slice]:
        """The rewards of all processes, and where this one's are among them.

        Questions that could not be asked count as groups without a score, so that every process has as many.
        """
        share = self.order.batch // self.trainer.world_size * self.num_generations
        padded = np.concatenate([rewards, np.full(share - len(rewards), math.nan)])
        start = 0
        if self.trainer.world_size > 1:
            padded = self.all_gather(torch.tensor(padded, device=self.device)).cpu().numpy().reshape(-1)
            start = self.global_rank * share
        return padded, slice(start, start + len(rewards))

    # -- measuring -----------------------------------------------------------------------------------------------------

    def greedy(self, episodes: Sequence[Episode], max_new_tokens: int | Sequence[int]) -> list[Rollout]:
        """One pass of each episode, every turn the likeliest."""
        self.network.eval()
        return roll_out(episodes, 1, Greedy(self.policy, max_new_tokens), seed=0)

    # -- updates -------------------------------------------------------------------------------------------------------

    def _remember(self, batch: Batch) -> None:
        """Fill in the log-probabilities by the policy that sampled and by the reference."""
        if self.updates_per_step > 1 or self.engine.is_remote:
            batch.old = self._logprobs(batch.buffers) if not self.engine.is_remote else _sampled(batch.buffers)
        if self.loss.needs_reference:
            with self.trainable.reference():
                batch.reference = self._logprobs(batch.buffers)

    @torch.no_grad()
    def _logprobs(self, buffers: Sequence[TokenBuffer]) -> list[torch.Tensor]:
        """Of each conversation, log-probabilities of its own tokens by the network as it is now."""
        found: dict[int, torch.Tensor] = {}
        for places in self.micro_batches(buffers):
            some = [buffers[place] for place in places]
            logprobs = self.scored(some, self.engine.temperature, shared=True)[0].logprobs
            for row, place in enumerate(places):
                found[place] = logprobs[row, logprobs.shape[1] - len(buffers[place]) :]
        return [found[place] for place in range(len(buffers))]

    def _updated(self, batch: Batch) -> dict[str, float]:
        """One optimiser step on the batch; what it was like, by TRL's names."""
        masks = [torch.tensor(buffer.loss_mask, dtype=torch.bool) for buffer in batch.buffers]
        if self.advantage.mask_truncated_completions:
            masks = [mask & (not one.truncated) for mask, one in zip(masks, batch.rollouts, strict=True)]
        bonus = [_marked(spans, len(mask)) & mask for spans, mask in zip(batch.spans, masks, strict=True)]
        if self.entropy_on == "all":
            bonus = masks
        everything = self._normaliser(masks, bonus)
        metrics: list[dict[str, Mean]] = []
        differences: list[tuple[float, int]] = []

        def loss_of(places: Sequence[int]) -> torch.Tensor:
            buffers = [batch.buffers[place] for place in places]
            scored, known = self.scored(buffers, self.engine.temperature, shared=True)
            width, device = scored.logprobs.shape[1], scored.logprobs.device

            def rows(values: Sequence[Any]) -> torch.Tensor:
                padded = [
                    torch.nn.functional.pad(torch.as_tensor(values[p]), (width - len(values[p]), 0)) for p in places
                ]
                return torch.stack(padded).to(device)

            mask = rows(masks)
            loss, described = policy_loss(
                scored.logprobs,
                rows(batch.advantages).float(),
                mask.float(),
                self.loss,
                old_logp=None if batch.old is None else rows(batch.old),
                ref_logp=None if batch.reference is None else rows(batch.reference),
                entropy=scored.entropy,
                entropy_mask=rows(bonus).float(),
                normalised_by=everything,
            )
            metrics.append(described)
            moved = (scored.logprobs.detach() - known["logprobs"]).abs()[mask]
            differences.append((float(moved.sum()), moved.numel()))
            return loss

        places = self.micro_batches(batch.buffers) if batch.buffers else []
        norm = self.update([lambda places=places: loss_of(places) for places in places]) if places else self._idle()
        mismatch = sum(total for total, _ in differences) / max(1, sum(count for _, count in differences))
        rate = self.optimizers().param_groups[0]["lr"]
        named = {"grad_norm": norm, "learning_rate": rate, "sampling/sampling_logp_difference/mean": mismatch}
        return averages(metrics) | named

    def _idle(self) -> float:
        """An update from nothing: steps are counted by updates, and other processes wait for this one's gradients."""
        return self.update([lambda: sum((p * 0.0).sum() for p in self.trainable.trained().values())])

    def _normaliser(self, masks: Sequence[torch.Tensor], bonus: Sequence[torch.Tensor]) -> Normaliser:
        """What the losses of this step are divided by, over all processes."""
        world = self.trainer.world_size
        width = max(map(len, masks), default=1)
        stacked = [
            torch.stack([torch.nn.functional.pad(one, (width - len(one), 0)) for one in kind])
            if kind
            else torch.zeros(0, width)
            for kind in (masks, bonus)
        ]
        mine = normaliser(stacked[0].float(), self.loss, stacked[1].float())
        loss, entropy = self.everywhere(float(mine.loss)) / world, self.everywhere(float(mine.entropy)) / world
        return Normaliser(torch.tensor(loss, device=self.device), torch.tensor(entropy, device=self.device))

    # -- records -------------------------------------------------------------------------------------------------------

    def _described(
        self, rollouts: Sequence[Rollout], terms: Sequence[dict[str, float] | None], unusable: int
    ) -> dict[str, float]:
        """What a step logs of its rollouts, by TRL's names."""
        scored = [one for one in terms if one is not None]
        lengths = [sum(one.buffer.loss_mask) for one in rollouts if one.buffer is not None]
        truncated = [one.truncated for one in rollouts if one.buffer is not None]
        outcomes = [one.outcome for one in rollouts if one.outcome is not None]
        described = self.reward.metrics(scored)
        if lengths:
            described |= {
                "completions/mean_length": float(np.mean(lengths)),
                "completions/max_length": float(max(lengths)),
                "completions/min_length": float(min(lengths)),
                "completions/clipped_ratio": float(np.mean(truncated)),
            }
        if outcomes:
            described["accuracy"] = float(np.mean([float(one.inputs.correct) for one in outcomes]))
            described["sub_queries"] = float(np.mean([one.inputs.sub_queries for one in outcomes]))
            described["m_star"] = float(np.mean([one.inputs.m_star for one in outcomes]))
        described["rollouts/failed"] = float(sum(one.outcome is None for one in rollouts))
        described["questions/left_out"] = float(unusable)
        return described


def _sampled(buffers: Sequence[TokenBuffer]) -> list[torch.Tensor]:
    """Log-probabilities as they were when the tokens were drawn."""
    return [torch.tensor(buffer.logprobs, dtype=torch.float32) for buffer in buffers]


def _marked(spans: Sequence[tuple[int, int]], length: int) -> torch.Tensor:
    """bool [length]: the tokens inside of spans."""
    marked = torch.zeros(length, dtype=torch.bool)
    for start, stop in spans:
        marked[start:stop] = True
    return marked
