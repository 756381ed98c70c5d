"""A training run in its folder: the same for every stage that trains a policy.

The folder gets ``run.json``, ``.hydra/``, ``metrics.csv``, ``tensorboard/``, ``checkpoints/`` (``last.ckpt``, from
which the same command goes on), ``training.json`` (the last metrics) and ``policy/`` (the trained weights as plain
transformers and peft load them, with a README.md).
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.config.checking import build
from trustvid.config.sweeps import tell_sweep
from trustvid.errors import TrustvidError
from trustvid.evaluation.store import RunFolder, RunInfo, RunWriter
from trustvid.training.card import Card
from trustvid.training.curves import TENSORBOARD
from trustvid.training.trainer import TrainerSettings, refuse_multirun

if TYPE_CHECKING:
    from trustvid.training.policy_module import PolicyModule

CHECKPOINTS, POLICY = "checkpoints", "policy"
FOLDERS = (CHECKPOINTS, POLICY, TENSORBOARD)  # of the run as a whole: what lies in them is not listed file by file
Assemble = Callable[[RunWriter | None], "PolicyModule"]


def fit(assemble: Assemble, config: Mapping[str, Any], folder: RunFolder, info: RunInfo) -> Path:
    """Train, or go on where an earlier run of the same config stopped; then export the weights.

    A run that has finished is left as it is. With several processes each of them comes here; the first one writes.

    Args:
        assemble: builds the module; gets the writer of the run folder, None in a process that does not write.
        config: plain, checked; ``trainer``, ``logger``, ``fresh``, ``seed`` and ``checkpoint_every`` are read here.
        folder: the run's.
        info: what the run is.

    Returns:
        The folder's path.

    Raises:
        ConfigError: a sweep over a trainer of several processes.
        DataError: what lies in the folder belongs to other data or another version.
        TrustvidError: weights are missing, or the training was stopped before its last step.
    """
    settings: TrainerSettings = build(config["trainer"])
    refuse_multirun(settings)
    tell_sweep(folder.path)
    fresh = bool(config.get("fresh"))
    run = folder.run()
    if run and run["status"] == "finished" and (folder.path / POLICY).is_dir() and not fresh:
        print(f"{folder.path}: this run has finished; fresh=true trains anew")
        tell_sweep(folder.path, already=True)
        return folder.path
    _quiet()
    _choose_device(settings)
    if _rank() > 0:
        _train(assemble(None), settings, config, folder, None)
        return folder.path
    with folder.writing(info, fresh=fresh) as writer:
        if fresh:
            for name in FOLDERS:
                shutil.rmtree(folder.path / name, ignore_errors=True)
        writer.write_config(config)
        module = assemble(writer)
        began = time.monotonic()
        metrics = _train(module, settings, config, folder, writer)
        if module.step < module.steps:
            raise TrustvidError(
                f"training stopped after step {module.step} of {module.steps}; the same command goes on from "
                f"{folder.path / CHECKPOINTS}"
            )
        if getattr(module, "tests", None) is not None:
            metrics |= _test(module, settings)
        trained = sum(value.numel() for value in module.trainable.trained().values())
        about = {"steps": module.steps, "seconds": round(time.monotonic() - began, 1), "trained_parameters": trained}
        writer.write_json("training.json", {**about, "metrics": metrics})
        if settings.shards_weights:
            print("the weights are spread over processes: run the same command with trainer=gpu to export them")
        else:
            _export(module, folder.path / POLICY, _card(module, config, info, metrics))
            _say_what_next(folder.path / POLICY)
    return folder.path


def _train(
    module: PolicyModule,
    settings: TrainerSettings,
    config: Mapping[str, Any],
    folder: RunFolder,
    writer: RunWriter | None,
) -> dict[str, float]:
    """Train to the last step; the metrics as they were last logged, by name."""
    from trustvid.training.callbacks import LAST, Checkpoints, ShowProgress, Watch

    checkpoints = folder.path / CHECKPOINTS
    last = checkpoints / LAST
    resumed = last.exists()
    done = _step_of(last) // module.updates_per_step if resumed else 0
    loggers = [] if writer is None else _loggers(config, writer, done)

    def flush(step: int, metrics: Mapping[str, Any]) -> None:
        for logger in loggers:
            if hasattr(logger, "flush"):
                logger.log_metrics(metrics, step)
                logger.flush()

    stage = str(config.get("stage"))
    callbacks = [
        ShowProgress(stage, enabled=writer is not None),
        *([Watch()] if writer is not None else []),
        Checkpoints(checkpoints, settings.last_every, config.get("checkpoint_every"), flush),
    ]
    if resumed and writer is not None:
        print(f"going on from step {done} of {module.steps} ({last})")
    measures = bool(getattr(module, "held_out", ()))
    trainer = settings.build(module.steps, module.updates_per_step, loggers, callbacks, measures)
    trainer.fit(module, ckpt_path=str(last) if resumed else None, weights_only=True)
    return {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}


def _test(module: PolicyModule, settings: TrainerSettings) -> dict[str, float]:
    """Answer the held-out questions with the trained network; what is answered already is not asked again.

    Returns:
        Accuracy by condition, of the answers that were open.
    """
    if settings.processes > 1:
        print("test: held-out questions are answered by one process alone; ask them with the command below")
        return {}
    trainer = settings.build(module.steps, module.updates_per_step, (), (), False)
    trainer.test(module, verbose=False)
    return {name: float(value) for name, value in sorted(trainer.callback_metrics.items())}


def _step_of(checkpoint: Path) -> int:
    """Optimiser steps of a checkpoint."""
    import torch

    if checkpoint.is_dir():  # spread over processes; curves are then written on, not over
        return 0
    return int(torch.load(checkpoint, map_location="cpu", weights_only=True, mmap=True)["global_step"])


def _loggers(config: Mapping[str, Any], writer: RunWriter, step: int) -> list[Any]:
    kinds = [build(node) for node in (config.get("logger") or {}).values() if node]
    for kind in kinds:
        if kind.file:
            writer.claim(kind.file)
    return [kind.open(writer.path, step) for kind in kinds]


def _rank() -> int:
    """Number of this process among those that train together, before they know each other."""
    from lightning.pytorch.utilities import rank_zero_only

    return int(rank_zero_only.rank)


def _choose_device(settings: TrainerSettings) -> None:
    """Let "cuda" mean this process's own GPU, so that the weights of all processes are not loaded onto the first."""
    import os

    import torch

    if settings.processes > 1 and settings.accelerator != "cpu" and torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))


def _quiet() -> None:
    """Lightning's tips and notes would bury the metrics; so would its warnings of what is meant: modules in evaluation
    mode between steps, one loader of numbers without workers, which goes on by the step that the run has come to."""
    import logging
    import warnings

    import lightning.pytorch  # noqa: F401 — sets its own level when it is imported

    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=r"Found \d+ module\(s\) in eval mode")
    warnings.filterwarnings("ignore", message=r".*LeafSpec.*is deprecated")
    warnings.filterwarnings("ignore", message=r"You're resuming from a checkpoint that ended before the epoch ended")
    warnings.filterwarnings("ignore", message=r"Total length of `list` across ranks is zero")
    warnings.filterwarnings("ignore", message=r"The '?(train|val)_dataloader'? does not have many workers")


# -- the result --------------------------------------------------------------------------------------------------------


def _card(module: PolicyModule, config: Mapping[str, Any], info: RunInfo, metrics: Mapping[str, float]) -> Card:
    from trustvid.evaluation.provenance import environment

    weights = module.policy.weights
    return Card(
        title=info.name,
        stage=str(config.get("stage")),
        kind=module.trainable.kind,
        base=module.policy.name if weights.is_folder else weights.model,
        revision=None if weights.is_folder else weights.revision,
        init_from=weights.init_from,
        config_hash=info.config_hash,
        commit=environment()["commit"],
        steps=module.steps * module.updates_per_step,
        data=info.datasets,
        metrics=metrics,
        overrides=tuple(info.overrides),
    )


def _export(module: PolicyModule, folder: Path, card: Card) -> None:
    """Write the weights and their README.md: whole, or not at all."""
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    module.trainable.export(part)
    (part / "README.md").write_text(card.text(), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    part.replace(folder)


def _say_what_next(policy: Path) -> None:
    from hydra.core.hydra_config import HydraConfig

    choice = HydraConfig.get().runtime.choices.get("policy") if HydraConfig.initialized() else None
    print(f"written: {policy}")
    print(f"next: python evaluate.py policy={choice or '…'} policy.init_from={policy}")
    sys.stdout.flush()
