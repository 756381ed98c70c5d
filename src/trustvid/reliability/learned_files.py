"""The folder a trained estimator is kept in: ``config.json`` (what it is) and ``model.safetensors`` (its weights)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.errors import ConfigError, DataError
from trustvid.reliability.calibration import LogisticModel
from trustvid.reliability.learned_views import VERSION

if TYPE_CHECKING:
    from torch import Tensor

    from trustvid.reliability.learned_net import Backbone, FrameReliabilityNet

SCHEMA = "trustvid-reliability-1"
CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"


@dataclass(frozen=True)
class Artefact:
    """What ``config.json`` says.

    Attributes:
        backbone: name and size of the network; its weights come from the file beside, never from a hub.
        tools: names, in the order of the network's columns.
        yields: the calibrated head of each tool; features as in ``learned_fit.yield_features``.
        channels: kind of the ramps that the yields read and that the profile has.
        suite: names of the corruptions it was trained on.
        data: where the frames come from: benchmark, splits, videos, numbers of frames, …
        config_hash: of the training's config.
    """

    backbone: Backbone
    tools: tuple[str, ...]
    yields: dict[str, LogisticModel]
    channels: str
    suite: tuple[str, ...]
    data: dict[str, Any]
    config_hash: str

    def text(self) -> str:
        """Contents of ``config.json``."""
        record = {
            "schema": SCHEMA,
            "view": VERSION,
            "backbone": {"name": self.backbone.name, "size": self.backbone.size},
            "tools": list(self.tools),
            "yields": {
                tool: {"intercept": model.intercept, "coefficients": model.coefficients}
                for tool, model in self.yields.items()
            },
            "channels": self.channels,
            "suite": list(self.suite),
            "data": self.data,
            "config_hash": self.config_hash,
        }
        return json.dumps(record, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def save_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the weights, the same bytes for the same tensors, replacing the file as a whole."""
    from safetensors.torch import save_file

    draft = path.with_name(f"{path.name}.draft")
    save_file({name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}, draft)
    draft.replace(path)


def weights_digest(folder: Path | str) -> str:
    """SHA-256 of both files, hex: weights that were trained anew give other answers, so another run.

    Raises:
        DataError: a file is missing.
    """
    digest = hashlib.sha256()
    for name in (CONFIG_FILE, WEIGHTS_FILE):
        try:
            digest.update((Path(folder) / name).read_bytes())
        except OSError as error:
            raise DataError(missing(folder)) from error
    return digest.hexdigest()


def missing(folder: Path | str) -> str:
    """What to say when there are no weights."""
    return (
        f"reliability=learned: no trained weights in {folder} (expected {CONFIG_FILE} and {WEIGHTS_FILE}); train them "
        "with `python train.py stage=reliability`, or use reliability=relative, which needs no weights"
    )


def load_artefact(folder: Path | str) -> tuple[Artefact, FrameReliabilityNet]:
    """The trained network, ready to predict, and what is known of it.

    Raises:
        DataError: files are missing, broken, or do not belong together.
    """
    folder = Path(folder)
    if not all((folder / name).is_file() for name in (CONFIG_FILE, WEIGHTS_FILE)):
        raise DataError(missing(folder))
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from trustvid.reliability.learned_net import FrameReliabilityNet

    artefact = read_config(folder / CONFIG_FILE)
    try:
        net = FrameReliabilityNet(artefact.backbone, artefact.tools)
        net.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (SafetensorError, RuntimeError, OSError, ConfigError) as error:
        reason = " ".join(str(error).split())[:300]
        raise DataError(
            f"{folder / WEIGHTS_FILE}: {reason}; expected the weights that {CONFIG_FILE} tells of"
        ) from error
    return artefact, net.eval()


def read_config(path: Path) -> Artefact:
    """Contents of a ``config.json``.

    Raises:
        DataError: it cannot be read or a field is not what it should be.
    """
    from trustvid.reliability.learned_net import Backbone

    expected = "expected the file as `python train.py stage=reliability` writes it"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        known = (record["schema"], record["view"])
        if known != (SCHEMA, VERSION):
            raise DataError(f"{path}: schema and view are {known}, not {(SCHEMA, VERSION)}; train the weights anew")
        tools = tuple(str(name) for name in record["tools"])
        artefact = Artefact(
            Backbone(str(record["backbone"]["name"]), record["backbone"]["size"]),
            tools,
            {tool: _model(record["yields"][tool]) for tool in tools},
            record["channels"],
            tuple(record["suite"]),
            dict(record["data"]),
            str(record["config_hash"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ConfigError) as error:
        raise DataError(f"{path}: {type(error).__name__}: {error}; {expected}") from error
    if artefact.channels != "relative" or not tools:
        raise DataError(f"{path}: channels {artefact.channels!r} of {len(tools)} tools; {expected}")
    return artefact


def _model(record: Mapping[str, Any]) -> LogisticModel:
    values = {str(name): float(value) for name, value in record["coefficients"].items()}
    intercept = float(record["intercept"])
    if not all(map(math.isfinite, (intercept, *values.values()))):
        raise ValueError("a calibrated yield has a coefficient that is not finite")
    return LogisticModel(intercept, values)
