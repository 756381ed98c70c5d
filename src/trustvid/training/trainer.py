"""Where a run is trained (config group ``trainer``): devices, precision, strategy, how often its state is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trustvid.errors import ConfigError

ACCELERATORS = ("cpu", "gpu", "auto")
PRECISIONS = ("32-true", "bf16-mixed", "16-mixed", "bf16-true")


@dataclass(frozen=True)
class TrainerSettings:
    """Settings of Lightning's Trainer that a run may choose. None of them is part of what is learned, but rounding.

    Attributes:
        accelerator: "cpu", "gpu" or "auto".
        devices: processes on each machine, one device each.
        num_nodes: machines.
        strategy: "auto" (one process), "ddp", "fsdp", "deepspeed_stage_2", … (whatever Lightning knows).
        precision: "32-true" = the weights as they were loaded; "bf16-mixed" = passes in bfloat16, weights as loaded.
        last_every: steps between two writings of ``checkpoints/last.ckpt``, from which a killed run goes on.
        eval_every: steps between two measurements on held-out examples; None = at the end alone.
        log_every: steps between two points of a curve.

    Raises:
        ConfigError: a value is unknown or out of range; all of it in one message.
    """

    accelerator: str = "cpu"
    devices: int = 1
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    last_every: int = 20
    eval_every: int | None = None
    log_every: int = 1

    def __post_init__(self) -> None:
        faults = []
        if self.accelerator not in ACCELERATORS:
            faults.append(f"trainer.accelerator={self.accelerator} is unknown; known: {', '.join(ACCELERATORS)}")
        if self.precision not in PRECISIONS:
            faults.append(f"trainer.precision={self.precision} is unknown; known: {', '.join(PRECISIONS)}")
        for name in ("devices", "num_nodes", "last_every", "eval_every", "log_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                faults.append(f"trainer.{name}={value}; expected at least 1")
        if self.processes > 1 and self.strategy == "auto":
            faults.append(
                f"trainer: {self.processes} processes need a strategy; expected trainer=ddp, fsdp or deepspeed"
            )
        if faults:
            raise ConfigError(faults)

    @property
    def processes(self) -> int:
        """Processes that train together."""
        return self.devices * self.num_nodes

    @property
    def shards_weights(self) -> bool:
        """Whether no process holds all weights, so that none can export them."""
        return self.strategy.startswith("fsdp") or self.strategy.startswith("deepspeed_stage_3")

    def build(
        self, steps: int, updates_per_step: int, loggers: Sequence[Any], callbacks: Sequence[Any], measures: bool
    ) -> Any:
        """Lightning's Trainer for a run of ``steps`` steps.

        Args:
            measures: whether there are held-out examples.
        """
        from lightning.pytorch import Trainer

        return Trainer(
            accelerator=self.accelerator,
            devices=self.devices,
            num_nodes=self.num_nodes,
            strategy=self.strategy,
            precision=self.precision,  # type: ignore[arg-type]
            max_steps=steps * updates_per_step,
            logger=list(loggers) or False,
            callbacks=list(callbacks),
            log_every_n_steps=self.log_every,
            val_check_interval=min(self.eval_every or steps, steps) if measures else None,
            check_val_every_n_epoch=None if measures else 1,
            limit_val_batches=1.0 if measures else 0,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,  # the sampler knows the ranks, and goes on where the run stopped
            enable_progress_bar=False,
            enable_model_summary=False,
        )


def refuse_multirun(settings: TrainerSettings) -> None:
    """Refuse a sweep whose jobs train in several processes: each of these would start the sweep over.

    Raises:
        ConfigError: so it is; with both ways out.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    if settings.processes > 1 and HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN:
        raise ConfigError(
            [
                f"-m with a trainer of {settings.processes} processes: they would start each other without end; either "
                "sweep with one process a job (trainer=gpu, trainer.devices=1), or start the jobs one after another "
                "without -m (for seed in 0 1 2; do python train.py … seed=$seed; done)"
            ]
        )
