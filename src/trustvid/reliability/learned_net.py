"""The network of the learned estimator: one backbone of timm, one linear layer, and its loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trustvid.errors import ConfigError
from trustvid.reliability.learned_views import GRID, view_shape
from trustvid.reliability.ramps import RAMPS


@dataclass(frozen=True)
class Backbone:
    """Which network, and how large what it sees (config group ``backbone``).

    Attributes:
        name: a model of timm.
        size: pixels a side of each half of a view, a multiple of 32.
        pretrained: start from the published weights (timm downloads them once) instead of random ones.

    Raises:
        ConfigError: the size does not suit.
    """

    name: str
    size: int = 128
    pretrained: bool = False

    def __post_init__(self) -> None:
        if self.size < 32 or self.size % (8 * GRID):
            raise ConfigError([f"backbone.size={self.size}; expected a multiple of {8 * GRID} pixels"])


class FrameReliabilityNet(nn.Module):
    """Predicts, from one view of a frame, its ten ramps and how likely each tool reports what is there.

    Args:
        backbone: which network.
        tools: names of the tools, in the order of the columns of "yields".

    Raises:
        ConfigError: timm has no such model, or its published weights cannot be fetched.
    """

    def __init__(self, backbone: Backbone, tools: Sequence[str]):
        super().__init__()
        self.tools = tuple(tools)
        self.backbone = _timm_model(backbone)
        config = self.backbone.pretrained_cfg
        self.register_buffer("mean", torch.tensor(config["mean"]).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(config["std"]).view(1, 3, 1, 1), persistent=False)
        features = getattr(self.backbone, "head_hidden_size", None) or self.backbone.num_features
        self.heads = nn.Linear(features, len(RAMPS) + len(self.tools))

    def forward(self, frames: Tensor) -> dict[str, Tensor]:
        """Log-odds, float32: "ramps" [n, 10], columns as in ``RAMPS``, and "yields" [n, tools].

        Args:
            frames: views, uint8 [n, 3, 2·size, size].
        """
        scaled = (frames.float() / 255.0 - self.mean) / self.std
        found = self.heads(self.backbone(scaled))
        return {"ramps": found[:, : len(RAMPS)], "yields": found[:, len(RAMPS) :]}


def reliability_loss(
    predicted: Mapping[str, Tensor], ramps: Tensor, right: Tensor, count: Tensor, ramp_weight: float
) -> Tensor:
    """Log loss of both heads; a scalar.

    Args:
        predicted: log-odds, "ramps" [n, 10] and "yields" [n, tools].
        ramps: [n, 10] in [0, 1].
        right: [n, tools] targets in the frame that the tool reported, 0…count.
        count: [n, tools] targets that it had to report. A frame weighs √count in a tool's loss, for targets of one
            frame are not independent; 0 leaves it out.
        ramp_weight: weight of the ramps' part beside that of the yields.
    """
    of_ramps = F.binary_cross_entropy_with_logits(predicted["ramps"], ramps)
    weight = count.sqrt()
    share = right / count.clamp(min=1.0)
    of_yields = F.binary_cross_entropy_with_logits(predicted["yields"], share, weight=weight, reduction="sum")
    return of_yields / weight.sum().clamp(min=1.0) + ramp_weight * of_ramps


def _timm_model(backbone: Backbone) -> nn.Module:
    """The backbone without its classifier; models of a fixed input size are built for the size of a view."""
    import timm

    if not timm.is_model(backbone.name):
        near = ", ".join(timm.list_models(f"*{backbone.name.split('_')[0]}*")[:5]) or "see timm.list_models()"
        raise ConfigError([f"backbone.name={backbone.name} is no model of timm; near: {near}"])
    arguments = {"num_classes": 0, "pretrained": backbone.pretrained}
    if timm.get_pretrained_cfg(backbone.name).fixed_input_size:
        arguments["img_size"] = view_shape(backbone.size)[1:]
    try:
        return timm.create_model(backbone.name, **arguments)
    except (OSError, RuntimeError) as error:
        reason = f"backbone.name={backbone.name}: {str(error).splitlines()[0]}"
        raise ConfigError(
            [f"{reason}; backbone.pretrained=false starts from random weights, without network"]
        ) from error
