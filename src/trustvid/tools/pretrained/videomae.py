"""recognize_action by VideoMAE: the likeliest action class of a step between two frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trustvid.errors import ConfigError
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.pretrained.actions import INSTEAD, action_faults, describe_actions
from trustvid.tools.pretrained.checkpoint import Checkpoint
from trustvid.tools.pretrained.models import Architecture, Loaded, load

if TYPE_CHECKING:
    import torch


class VideoMae:
    """VideoMAE (Tong et al., arXiv 2203.12602) with the head of its checkpoint (Kinetics-400 by default).

    The network classifies a clip of 16 frames, and a tool's outputs are stored step by step: an output may rest on the
    two frames of its step alone, or what a call reports would depend on which calls came before it. So the clip of a
    step is the step, sampled at 16 instants: the first frame for its first half, the second for its second. That is
    less motion than the network was trained on (16 frames over two seconds); the sentence of a call joins all steps.

    Observations: kind "action", label = the class, score = its softmax probability, values ``end_frame`` and
    ``end_time``. Nothing is told of the camera's motion.

    Args:
        model, revision, device, dtype, offline: see :class:`~trustvid.tools.pretrained.checkpoint.Checkpoint`.
        every_s: one classification for each stretch of this many seconds, 0 = for every step: of the steps, those in
            which a multiple of ``every_s`` falls. It depends on the step's own times, not on what else is asked.
        min_score: actions with a lower probability are not told, 0–1.
        batch_size: steps that go through the network together.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    name = "recognize_action"
    cost = 0.60  # paper Table 17
    version = "1"
    span = "pair"
    reads_query = False
    architecture = Architecture("VideoMAEForVideoClassification", "VideoMAEImageProcessor", INSTEAD)

    def __init__(
        self,
        model: str = "MCG-NJU/videomae-base-finetuned-kinetics",
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        offline: bool = False,
        every_s: float = 0.5,
        min_score: float = 0.2,
        batch_size: int = 4,
    ):
        self.checkpoint = Checkpoint(model, revision, device, dtype, offline)
        faults = list(action_faults(self.checkpoint, min_score, batch_size))
        if not every_s >= 0:
            faults.append(f"recognize_action.every_s={every_s!r}: expected seconds, or 0 for every step")
        if faults:
            raise ConfigError(faults)
        self.every_s, self.min_score, self.batch_size = float(every_s), float(min_score), int(batch_size)

    def load(self) -> Loaded:
        """The model, in memory from the first call on.

        Raises:
            TrustvidError: it cannot be loaded; the message has the way out.
        """
        return load(self.checkpoint, self.architecture)

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """At most one observation for each step from one frame of the batch to the next."""
        outputs: list[list[Observation]] = [[] for _ in batch.indices[1:]]
        wanted = [t for t in range(len(outputs)) if is_due(batch.times[t], batch.times[t + 1], self.every_s)]
        if not wanted:
            return outputs
        model = self.load()
        for start in range(0, len(wanted), self.batch_size):
            steps = wanted[start : start + self.batch_size]
            with model.in_use():
                logits = model.network(pixel_values=_clips(model, batch, steps)).logits
                best = logits.float().softmax(-1).max(-1)
            for t, score, place in zip(steps, best.values.tolist(), best.indices.tolist(), strict=True):
                if score >= self.min_score:
                    label = str(model.network.config.id2label[place])
                    ends = {"end_frame": batch.indices[t + 1], "end_time": batch.times[t + 1]}
                    seen = Observation(batch.indices[t], batch.times[t], "action", label, round(score, 4), values=ends)
                    outputs[t].append(seen)
        return outputs

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """The actions by first sight, and the mean top-1 probability."""
        return describe_actions(observations)

    def settings(self) -> dict:
        """All constructor arguments that matter to the output, and which weights they are."""
        return {
            "backend": "videomae",
            **self.checkpoint.settings(),
            "every_s": self.every_s,
            "min_score": self.min_score,
        }


def is_due(start: float, end: float, every_s: float) -> bool:
    """Whether a multiple of ``every_s`` lies in [start, end) seconds; always where ``every_s`` is 0.

    >>> is_due(0.0, 0.1, 0.5), is_due(0.4, 0.5, 0.5), is_due(0.46, 0.56, 0.5), is_due(0.3, 0.4, 0)
    (True, False, True, True)
    """
    return every_s == 0 or -(-start // every_s) * every_s < end


def _clips(model: Loaded, batch: FrameBatch, steps: Sequence[int]) -> torch.Tensor:
    """Input tensor [steps, frames, 3, H, W]: each step as a clip of as many frames as the network takes."""
    import torch

    used = sorted({frame for t in steps for frame in (t, t + 1)})
    pixels = model.pixels([[batch.images[frame] for frame in used]], model.processor)[0]
    count = model.network.config.num_frames
    places = [[used.index(t)] * (count - count // 2) + [used.index(t + 1)] * (count // 2) for t in steps]
    return pixels[torch.tensor(places, device=pixels.device)]
