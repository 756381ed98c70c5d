"""How the learned estimator is trained: epochs, early stopping on held-out videos, calibration of each head."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trustvid.errors import DataError
from trustvid.reliability.calibration import LogisticModel, fit_logistic
from trustvid.reliability.learned_net import FrameReliabilityNet, reliability_loss
from trustvid.reliability.ramps import RAMPS
from trustvid.seeding import derive_rng

NETWORK = "network"  # the feature that is the network's own log-odds of a tool's yield
MIN_TARGETS = 20  # held-out targets of a tool below which its head is left as it was trained
RIDGE = 1e-3  # pull of the calibration towards the network's own word


@dataclass(frozen=True)
class FrameTable:
    """n frames with what is to be predicted of them.

    Attributes:
        views: uint8 [n, 3, 2·size, size].
        ramps: float32 [n, 10] in [0, 1], relative to the frame's clip.
        right: float32 [n, tools] targets that the tool reported.
        count: float32 [n, tools] targets that it had to report.
        video: [n] names.
    """

    views: np.ndarray
    ramps: np.ndarray
    right: np.ndarray
    count: np.ndarray
    video: np.ndarray

    def __len__(self) -> int:
        return len(self.views)

    def batch(self, rows: np.ndarray, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Views, ramps, right and count of some rows [k]."""
        arrays = (self.views[rows], self.ramps[rows], self.right[rows], self.count[rows])
        views, ramps, right, count = (torch.from_numpy(np.ascontiguousarray(a)).to(device) for a in arrays)
        return views, ramps, right, count


@dataclass(frozen=True)
class FitSettings:
    """How long and how fast; conf/stage/reliability.yaml says what each means."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    patience: int
    ramp_weight: float
    seed: int


@dataclass
class FitState:
    """Where a training is, after ``epoch`` epochs; everything that :func:`train_epochs` needs to go on.

    Attributes:
        epoch: epochs done.
        history: one row of metrics for each.
        best: weights of the best epoch so far, by name.
        best_loss: its loss on the held-out frames.
        best_epoch: its number, from 1; 0 before the first.
    """

    epoch: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_loss: float = float("inf")
    best_epoch: int = 0


def new_optimizer(net: FrameReliabilityNet, settings: FitSettings) -> torch.optim.Optimizer:
    """AdamW; biases and the scales of normalisation layers do not decay."""
    decayed = [p for p in net.parameters() if p.ndim > 1]
    others = [p for p in net.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=settings.learning_rate)


def train_epochs(
    net: FrameReliabilityNet,
    optimizer: torch.optim.Optimizer,
    train: FrameTable,
    dev: FrameTable,
    settings: FitSettings,
    state: FitState,
    on_epoch: Callable[[FitState], None],
    on_step: Callable[[], None],
) -> FitState:
    """Train until ``settings.epochs``, or until ``patience`` epochs brought nothing better on ``dev``.

    Order and flips of an epoch follow from the seed and its number: a training that goes on after a kill ends as one
    that was never interrupted.

    Args:
        net: trained in place; ``state.best`` keeps the weights that count.
        state: a new one, or that of a checkpoint (whose weights the net and the optimizer have).
        on_epoch: called after each epoch, to store it.
        on_step: called after each batch.
    """
    device = next(net.parameters()).device
    steps = steps_of_epoch(len(train), settings)
    while state.epoch < settings.epochs and state.epoch - state.best_epoch < settings.patience:
        net.train()
        rng = derive_rng(settings.seed, "reliability", "epoch", state.epoch)
        losses = []
        for step, rows in enumerate(_batches(len(train), settings, state.epoch)):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(settings, state.epoch * steps + step, settings.epochs * steps)
            views, ramps, right, count = train.batch(rows, device)
            flipped = torch.from_numpy(rng.random(len(rows)) < 0.5).to(device)
            views = torch.where(flipped[:, None, None, None], views.flip(-1), views)
            loss = reliability_loss(net(views), ramps, right, count, settings.ramp_weight)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
            on_step()
        state.epoch += 1
        held_out = evaluate(net, dev, settings)
        state.history.append({"epoch": state.epoch, "train_loss": float(np.mean(losses)), **held_out})
        if held_out["dev_loss"] < state.best_loss:
            state.best_loss, state.best_epoch = held_out["dev_loss"], state.epoch
            state.best = {name: value.detach().cpu().clone() for name, value in net.state_dict().items()}
        on_epoch(state)
    return state


def steps_of_epoch(n: int, settings: FitSettings) -> int:
    """Batches that ``n`` frames make."""
    return len(_batches(n, settings, 0))


def learning_rate(settings: FitSettings, step: int, steps: int) -> float:
    """Linear over the first twentieth of the steps, then half a cosine down to nothing."""
    warm = max(1, steps // 20)
    if step < warm:
        return settings.learning_rate * (step + 1) / warm
    return settings.learning_rate * 0.5 * (1.0 + float(np.cos(np.pi * (step - warm) / max(1, steps - warm))))


def evaluate(net: FrameReliabilityNet, table: FrameTable, settings: FitSettings) -> dict[str, float]:
    """Loss of the yields' head, on which training stops, and mean absolute error of the ramps."""
    found = predict(net, table.views)
    tensors = {name: torch.from_numpy(values) for name, values in found.items()}
    targets = (torch.from_numpy(values) for values in (table.ramps, table.right, table.count))
    loss = float(reliability_loss(tensors, *targets, ramp_weight=0.0))
    error = float((tensors["ramps"].sigmoid() - torch.from_numpy(table.ramps)).abs().mean())
    return {"dev_loss": loss, "dev_ramp_error": error}


@torch.inference_mode()
def predict(net: FrameReliabilityNet, views: np.ndarray, batch_size: int = 32) -> dict[str, np.ndarray]:
    """Log-odds float32 "ramps" [n, 10] and "yields" [n, tools] of views uint8 [n, 3, 2·size, size]."""
    net.eval()
    device = next(net.parameters()).device
    parts = []
    for start in range(0, len(views), batch_size):
        found = net(torch.from_numpy(np.ascontiguousarray(views[start : start + batch_size])).to(device))
        parts.append({name: values.float().cpu().numpy() for name, values in found.items()})
    return {name: np.concatenate([part[name] for part in parts]) for name in ("ramps", "yields")}


def _batches(n: int, settings: FitSettings, epoch: int) -> list[np.ndarray]:
    """Rows of each batch of an epoch, shuffled by seed and epoch; a last batch of one joins the one before."""
    order = derive_rng(settings.seed, "reliability", "order", epoch).permutation(n)
    parts = [order[start : start + settings.batch_size] for start in range(0, n, settings.batch_size)]
    if len(parts) > 1 and len(parts[-1]) == 1:
        parts[-2:] = [np.concatenate(parts[-2:])]
    return parts


# -- calibration -------------------------------------------------------------------------------------------------------


def yield_features(network: np.ndarray, ramps: np.ndarray) -> dict[str, np.ndarray]:
    """Features of a tool's calibrated yield: the network's log-odds [n] and the clip-relative ramps [n, 10]."""
    return {NETWORK: network, **dict(zip(RAMPS, ramps.T, strict=True))}


def calibrate_heads(
    found: np.ndarray, table: FrameTable, tools: Sequence[str], use_ramps: bool
) -> dict[str, LogisticModel]:
    """P(reported) of each tool as a logistic of the network's log-odds, and (``use_ramps``) of the clip-relative ramps.

    A network that sees one frame cannot know what is usual in its clip; the ramps do. They can only harm. Everything is
    pulled towards the network's own word (slope 1, ramps 0). Of one target a frame carries the same weight as of many.

    Args:
        found: [n, tools] log-odds of the network for the rows of ``table``.
        use_ramps: whether the ramps are features too.
    """
    names = (NETWORK, *RAMPS) if use_ramps else (NETWORK,)
    prior = np.array([float(name == NETWORK) for name in names])
    bounds = np.array([(0.0, np.inf) if name == NETWORK else (-np.inf, 0.0) for name in names])
    models = {}
    for place, tool in enumerate(tools):
        some = np.flatnonzero(table.count[:, place])
        if table.count[some, place].sum() < MIN_TARGETS:
            models[tool] = LogisticModel(0.0, {NETWORK: 1.0})
            continue
        features = yield_features(found[some, place], table.ramps[some])
        columns = np.stack([features[name] for name in names], axis=1)
        repeats = table.count[some, place].astype(int)
        models[tool] = fit_logistic(
            np.repeat(columns, repeats, axis=0),
            np.repeat(table.right[some, place] / table.count[some, place], repeats),
            names=names,
            lower=bounds[:, 0],
            upper=bounds[:, 1],
            prior=prior,
            ridge=RIDGE,
        )
    return models


# -- checkpoint --------------------------------------------------------------------------------------------------------


def save_checkpoint(path: Path, net: FrameReliabilityNet, optimizer: torch.optim.Optimizer, state: FitState) -> None:
    """Everything a training needs to go on, in one safetensors file, replaced as a whole."""
    from safetensors.torch import save_file

    tensors = {f"net.{name}": value for name, value in net.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in state.best.items()}
    for number, slots in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in slots.items()}
    about = {key: value for key, value in asdict(state).items() if key != "best"}
    draft = path.with_name(f"{path.name}.draft")
    plain = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    save_file(plain, draft, metadata={"state": json.dumps(about)})
    draft.replace(path)


def load_checkpoint(path: Path, net: FrameReliabilityNet, optimizer: torch.optim.Optimizer) -> FitState:
    """Put net and optimizer where :func:`save_checkpoint` left them, and return the state.

    Raises:
        DataError: the file is no checkpoint of this network.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 — no mapping
        net.load_state_dict(dict(_under(tensors, "net.")))
    except (SafetensorError, OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: {error}; expected this training's checkpoint; fresh=true starts anew") from error
    slots: dict[int, dict[str, Any]] = {}
    for name, value in _under(tensors, "optimizer."):
        number, _, slot = name.partition(".")
        slots.setdefault(int(number), {})[slot] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
    return FitState(**about, best=dict(_under(tensors, "best.")))


def _under(tensors: dict[str, Tensor], prefix: str) -> Iterator[tuple[str, Tensor]]:
    return ((name.removeprefix(prefix), value) for name, value in tensors.items() if name.startswith(prefix))
