"""recognize_action by CLIP: which of given phrases fits a frame best."""

from __future__ import annotations

from collections.abc import Sequence

from trustvid.errors import ConfigError
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.pretrained.actions import INSTEAD, action_faults, describe_actions
from trustvid.tools.pretrained.checkpoint import Checkpoint
from trustvid.tools.pretrained.models import Architecture, Loaded, load

ACTIONS = (
    "flying over a city",
    "flying between buildings",
    "driving along a street",
    "walking along a street",
    "walking through a room",
    "walking along a corridor",
    "climbing stairs",
    "looking at a wall",
)


class ClipZeroShot:
    """CLIP (Radford et al., arXiv 2103.00020): zero-shot classification of single frames among phrases.

    It sees no motion: phrases should be such that a still picture tells them apart.

    Observations: kind "action", label = the phrase, score = its softmax probability among the phrases.

    Args:
        model, revision, device, dtype, offline: see :class:`~trustvid.tools.pretrained.checkpoint.Checkpoint`.
        actions: phrases to choose from, two or more.
        template: the sentence that a phrase stands in; {} is its place.
        min_score: actions with a lower probability are not told, 0–1.
        batch_size: frames that go through the network together.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    name = "recognize_action"
    cost = 0.60  # paper Table 17
    version = "1"
    span = "frame"
    reads_query = False
    architecture = Architecture("CLIPModel", "CLIPProcessor", INSTEAD)

    def __init__(
        self,
        model: str = "openai/clip-vit-base-patch32",
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        offline: bool = False,
        actions: Sequence[str] = ACTIONS,
        template: str = "a photo taken while {}.",
        min_score: float = 0.3,
        batch_size: int = 16,
    ):
        self.checkpoint = Checkpoint(model, revision, device, dtype, offline)
        faults = list(action_faults(self.checkpoint, min_score))
        if batch_size < 1:
            faults.append(f"recognize_action.batch_size={batch_size!r}: expected at least 1")
        if not all(isinstance(action, str) and action.strip() for action in actions):
            faults.append(f"recognize_action.actions={list(actions)!r}: expected phrases")
        elif len(set(actions)) < max(2, len(actions)):
            faults.append(f"recognize_action.actions={list(actions)!r}: expected two or more, all different")
        if template.count("{}") != 1:
            faults.append(f"recognize_action.template={template!r}: expected a sentence with one {{}}")
        if faults:
            raise ConfigError(faults)
        self.actions, self.template = tuple(actions), template
        self.min_score, self.batch_size = float(min_score), int(batch_size)

    def load(self) -> Loaded:
        """The model, in memory from the first call on.

        Raises:
            TrustvidError: it cannot be loaded; the message has the way out.
        """
        return load(self.checkpoint, self.architecture)

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """At most one observation for each frame of the batch."""
        model = self.load()
        outputs: list[list[Observation]] = []
        with model.in_use():
            sentences = [self.template.replace("{}", action) for action in self.actions]
            tokens = model.processor.tokenizer(
                sentences,
                padding=True,
                truncation=True,
                max_length=model.network.config.text_config.max_position_embeddings,
                return_tensors="pt",
            ).to(model.network.device)
            for start in range(0, len(batch.images), self.batch_size):
                pixels = model.pixels(list(batch.images[start : start + self.batch_size]))
                output = model.network(
                    pixel_values=pixels, input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
                )
                best = output.logits_per_image.float().softmax(-1).max(-1)
                for score, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                    t = len(outputs)
                    seen = Observation(batch.indices[t], batch.times[t], "action", self.actions[place], round(score, 4))
                    outputs.append([seen] if score >= self.min_score else [])
        return outputs

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """The actions by first sight, and the mean top-1 probability."""
        return describe_actions(observations)

    def settings(self) -> dict:
        """All constructor arguments that matter to the output, and which weights they are."""
        return {
            "backend": "clip_zero_shot",
            **self.checkpoint.settings(),
            "actions": list(self.actions),
            "template": self.template,
            "min_score": self.min_score,
        }
