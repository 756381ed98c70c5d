"""What a training run does beside learning: writes its state, shows how far it is, warns when nothing is learned."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback, Checkpoint

from trustvid.progress import Progress

LAST = "last.ckpt"

# What a metric says, when it stays at this value, and why that cannot be meant.
STILL = (
    ("grad_norm", 0.0, "the gradient is exactly 0: no weight moves (is anything that is trained in the loss?)"),
    ("learning_rate", 0.0, "the learning rate is 0: no weight moves (see optimizer.schedule and its end)"),
    (
        "frac_reward_zero_std",
        1.0,
        "all passes of every question earn the same reward: nothing is preferred (raise the temperature of sampling or "
        "num_generations, or choose questions that are neither all right nor all wrong)",
    ),
    (
        "completions/clipped_ratio",
        1.0,
        "every reply is cut at the longest length: none is read (raise max_new_tokens, or begin from a policy that "
        "ends its turns)",
    ),
)
PATIENCE = 5  # steps in a row before it is said


class Checkpoints(Checkpoint):
    """Writes ``last.ckpt`` now and then, at the end, and further ones to be kept. Each file is whole or not there.

    Args:
        folder: of the checkpoints.
        last_every: steps between two writings of ``last.ckpt``.
        keep_every: steps between two that are kept (``step-000100.ckpt``); None = none is.
        before: done before ``last.ckpt`` is written, with the number of the step and its metrics: curves are to be on
            the disk as far as the run will not come again.
    """

    def __init__(
        self,
        folder: Path,
        last_every: int,
        keep_every: int | None,
        before: Callable[[int, Mapping[str, Any]], None],
    ):
        self.folder, self.last_every, self.keep_every, self.before = folder, last_every, keep_every, before

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        step = module.step
        if step % self.last_every == 0 or step == module.steps:
            self.before(step - 1, trainer.callback_metrics)
            trainer.save_checkpoint(self.folder / LAST)
        if self.keep_every and step % self.keep_every == 0:
            trainer.save_checkpoint(self.folder / f"step-{step:06d}.ckpt")


class ShowProgress(Callback):
    """Steps done, rate and time left on standard error; now and then what was logged.

    Args:
        description: of the bar.
        enabled: False shows nothing.
        lines: about how many times in a run the metrics are printed.
    """

    def __init__(self, description: str, enabled: bool = True, lines: int = 20):
        self.description, self.enabled, self.lines = description, enabled, lines
        self._progress: Progress | None = None

    def on_train_start(self, trainer: Any, module: Any) -> None:
        self._progress = Progress(
            module.steps, self.description, unit="steps", done=module.step, enabled=self.enabled
        ).__enter__()

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        if self._progress is not None:
            self._progress.advance()
        if self.enabled and module.step % max(1, module.steps // self.lines) == 0:
            shown = ", ".join(f"{name} {float(value):.4g}" for name, value in sorted(trainer.callback_metrics.items()))
            print(f"step {module.step}: {shown}", flush=True)

    def teardown(self, trainer: Any, module: Any, stage: str) -> None:
        if self._progress is not None:
            self._progress.__exit__(None, None, None)
            self._progress = None


class Watch(Callback):
    """Says it when a curve cannot move: once each time that a metric of :data:`STILL` stays where it is.

    Args:
        say: takes the warning.
    """

    def __init__(self, say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)):
        self.say = say
        self._streaks: dict[str, int] = {}

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        metrics = trainer.callback_metrics
        for name, value, meaning in STILL:
            still = name in metrics and float(metrics[name]) == value
            self._streaks[name] = self._streaks.get(name, 0) + 1 if still else 0
            if self._streaks[name] == PATIENCE:
                self.say(f"warning, step {module.step}: {name} was {value:g} in {PATIENCE} steps in a row: {meaning}")
