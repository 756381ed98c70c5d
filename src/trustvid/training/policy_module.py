"""What both trained modules are: a policy's network, its optimiser, updates in micro-batches, small checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from lightning import LightningModule
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from trustvid.policy.vlm import VisionLanguagePolicy
from trustvid.policy.vlm_inputs import joined, shape_key
from trustvid.policy.vlm_scoring import Scored, score, score_groups
from trustvid.policy.vlm_session import on_device
from trustvid.policy.vlm_tokens import TokenBuffer, columns
from trustvid.seeding import derive_seed
from trustvid.training.optimizer import AdamW
from trustvid.training.order import Numbers, StepOrder, StepSampler


class PolicyModule(LightningModule):
    """A vision-language policy in training.

    Optimisation is by hand, so that a step may update several times on what it sampled and sum its loss over
    micro-batches exactly. Everything random derives from the seed, the step and names: a resumed run repeats nothing
    and leaves out nothing.

    Args:
        policy: whose weights are trained; it gets an instance of its own.
        adapter: which of them (config group ``adapter``).
        optimizer: see :class:`~trustvid.training.optimizer.AdamW`.
        order: the samples of each step.
        steps: length of the run.
        updates_per_step: optimiser steps in each.
        micro_batch: sequences in one forward pass; it changes memory and time, nothing else.
        seed: of everything random.
    """

    def __init__(
        self,
        policy: VisionLanguagePolicy,
        adapter: Any,
        optimizer: AdamW,
        order: StepOrder,
        steps: int,
        micro_batch: int,
        seed: int,
        updates_per_step: int = 1,
    ):
        super().__init__()
        self.automatic_optimization, self.strict_loading = False, False
        self.policy, self.adapter, self.optimizer_settings, self.order = policy, adapter, optimizer, order
        self.steps, self.micro_batch, self.seed, self.updates_per_step = steps, micro_batch, seed, updates_per_step
        model = policy.load_own()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed("adapter", seed) % 2**63)  # a fresh adapter begins at random
            self.trainable = adapter.attach(model)
        self.network = self.trainable.network
        policy.use(self.network)
        self._trained = tuple(self.trainable.trained())

    # -- Lightning -----------------------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """The step that comes next, from 0."""
        return self.global_step // self.updates_per_step

    def train_dataloader(self) -> DataLoader:
        """(step, sample) pairs from the step that the run has come to."""
        sampler = StepSampler(self.order, lambda: self.step, self.steps, self.global_rank, self.trainer.world_size)
        return DataLoader(Numbers(), batch_sampler=sampler, collate_fn=list)

    def configure_optimizers(self) -> Any:
        """AdamW over what is trained, and its schedule."""
        trained = self.trainable.trained().values()
        optimizer, schedule = self.optimizer_settings.build(trained, self.steps * self.updates_per_step)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Dropout, the only thing drawn from torch's own stream, depends on the step."""
        torch.manual_seed(derive_seed("dropout", self.seed, self.step, self.global_rank) % 2**63)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep what is trained, and say what it is: plain containers and tensors alone."""
        kept = {f"network.{name}" for name in self._trained}
        checkpoint["state_dict"] = {k: v for k, v in checkpoint["state_dict"].items() if k in kept or self._extra(k)}
        settings = json.dumps(getattr(self.adapter, "settings", {}))
        checkpoint["policy"] = {"kind": self.trainable.kind, "settings": settings, "name": self.policy.name}

    def _extra(self, name: str) -> bool:
        """Whether weights beside the policy's belong in a checkpoint."""
        return False

    # -- updates -------------------------------------------------------------------------------------------------------

    def micro_batches(self, buffers: Sequence[TokenBuffer]) -> list[list[int]]:
        """Places of conversations that make one forward pass: media that fit together, groups whole, lengths alike."""
        longest: dict[int, int] = {}
        for buffer in buffers:
            longest[id(buffer.beginning)] = max(len(buffer), longest.get(id(buffer.beginning), 0))
        group_of = {key: number for number, key in enumerate(sorted(longest, key=lambda key: -longest[key]))}
        alike: dict[tuple, list[int]] = {}
        for place in sorted(range(len(buffers)), key=lambda place: group_of[id(buffers[place].beginning)]):
            alike.setdefault(shape_key(buffers[place].tensors), []).append(place)
        size = self.micro_batch
        return [places[at : at + size] for places in alike.values() for at in range(0, len(places), size)]

    def scored(
        self,
        buffers: Sequence[TokenBuffer],
        temperature: Callable[[int], float] | None = None,
        shared: bool = False,
    ) -> tuple[Scored, dict[str, torch.Tensor]]:
        """Log-probabilities of what the policy wrote in these conversations, and :func:`columns` of their tokens.

        Args:
            temperature: of a turn, by its number; None = 1.
            shared: read each beginning once, for groups of passes; this also takes replies that were sampled, which may
                hold any token, be it the mark of a picture.
        """
        pad = self.policy.loaded.processor.tokenizer.pad_token_id
        known = {name: value.to(self.network.device) for name, value in columns(buffers).items()}
        heat: torch.Tensor | float = 1.0
        if temperature is not None:
            values = torch.tensor([temperature(turn) for turn in range(int(known["turns"].max()) + 1)])
            heat = values.to(self.network.device)[known["turns"].clamp(min=0)]
        if shared:
            return score_groups(self.network, buffers, known["loss_mask"], pad, heat), known
        inputs = on_device(self.network, joined([buffer.tensors for buffer in buffers], pad))
        return score(self.network, inputs, known["loss_mask"], heat), known

    def update(self, losses: Iterable[Callable[[], torch.Tensor]]) -> float:
        """One optimiser step on the sum of the losses, each computed and forgotten before the next.

        Returns:
            The norm of the gradient before it was clipped.
        """
        optimizer, schedule = self.optimizers(), self.lr_schedulers()
        optimizer.zero_grad()
        losses = list(losses)
        for number, loss in enumerate(losses):
            last = number + 1 == len(losses)
            with self._unsynchronised(last):
                self.manual_backward(loss() + self._all_of_it() if last else loss())
        parameters = [p for p in self.trainable.trained().values() if p.grad is not None]
        clip = self.optimizer_settings.clip
        norm = torch.nn.utils.clip_grad_norm_(parameters, clip if clip is not None else float("inf"))
        optimizer.step()
        schedule.step()
        return float(norm)

    def _unsynchronised(self, last: bool) -> Any:
        """Processes exchange gradients once in an update: with its last micro-batch."""
        wrapped = getattr(self.trainer.strategy, "model", None)
        return nullcontext() if last or not hasattr(wrapped, "no_sync") else wrapped.no_sync()

    def _all_of_it(self) -> torch.Tensor | float:
        """0, by way of every weight: processes that exchange gradients (DDP) wait for all of them, and a batch of words
        alone has none for the vision tower."""
        if not isinstance(getattr(self.trainer.strategy, "model", None), DistributedDataParallel):
            return 0.0
        return sum((value * 0.0).sum() for value in self.trainable.trained().values())

    def everywhere(self, value: float) -> float:
        """The sum of a number over all processes."""
        if self.trainer.world_size == 1:
            return float(value)
        return float(self.all_gather(torch.tensor(float(value), device=self.device, dtype=torch.float64)).sum())
