"""AdamW and its learning rate over the steps of a run (config group ``optimizer``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from trustvid.errors import ConfigError

if TYPE_CHECKING:
    import torch

Schedule = Literal["constant", "linear", "cosine", "hold_linear"]
SCHEDULES = ("constant", "linear", "cosine", "hold_linear")


class AdamW:
    """AdamW (Loshchilov & Hutter 2019) with warm-up and a schedule.

    Args:
        lr: highest learning rate.
        betas: decay of the two moments.
        weight_decay: of all trained weights but vectors (norms, biases).
        warmup: optimiser steps over which the rate rises from 0: a number of steps, or below 1 a share of all.
        schedule: after it: "constant"; "linear" or "cosine" down to ``end`` of ``lr`` at the last step; "hold_linear"
            constant to the middle, then linear.
        end: share of ``lr`` that is left at the last step.
        clip: gradients are scaled to at most this norm; null = as they are.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    def __init__(
        self,
        lr: float,
        betas: Sequence[float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        warmup: float = 0,
        schedule: Schedule = "constant",
        end: float = 0.0,
        clip: float | None = 1.0,
    ):
        self.lr, self.betas, self.weight_decay = lr, tuple(betas), weight_decay
        self.warmup, self.schedule, self.end, self.clip = warmup, schedule, end, clip
        faults = []
        if not lr > 0:
            faults.append(f"optimizer.lr={lr}; expected more than 0")
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            faults.append(f"optimizer.betas={betas}; expected two numbers from 0, below 1")
        if weight_decay < 0 or warmup < 0:
            faults.append(f"optimizer.weight_decay={weight_decay}, warmup={warmup}; expected 0 or more")
        if schedule not in SCHEDULES:
            faults.append(f"optimizer.schedule={schedule} is unknown; known: {', '.join(SCHEDULES)}")
        if not 0 <= end <= 1:
            faults.append(f"optimizer.end={end}; expected a share of lr, 0 to 1")
        if clip is not None and not clip > 0:
            faults.append(f"optimizer.clip={clip}; expected more than 0, or null")
        if faults:
            raise ConfigError(faults)

    def factor(self, step: int, steps: int) -> float:
        """Share of ``lr`` at optimiser step ``step`` (from 0) of ``steps``."""
        warmup = self.warmup if self.warmup >= 1 else round(self.warmup * steps)
        if step < warmup:
            return (step + 1) / warmup
        done = min(1.0, (step - warmup) / max(1, steps - 1 - warmup))
        if self.schedule == "hold_linear":
            done = max(0.0, 2 * done - 1)
        if self.schedule == "constant":
            return 1.0
        left = (1 + math.cos(math.pi * done)) / 2 if self.schedule == "cosine" else 1 - done
        return self.end + (1 - self.end) * left

    def build(self, parameters: Iterable[torch.nn.Parameter], steps: int) -> tuple[Any, Any]:
        """The optimiser and its scheduler, which is to be stepped once for each step of the optimiser."""
        from torch.optim import AdamW as TorchAdamW
        from torch.optim.lr_scheduler import LambdaLR

        parameters = list(parameters)
        groups = [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ]
        optimizer = TorchAdamW([group for group in groups if group["params"]], lr=self.lr, betas=self.betas)
        return optimizer, LambdaLR(optimizer, lambda step: self.factor(step, steps))
