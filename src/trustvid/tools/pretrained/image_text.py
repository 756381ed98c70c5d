"""Relevance of frames to a question by models that put pictures and sentences into one space: CLIP and SigLIP 2."""

from __future__ import annotations

import base64
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from trustvid.errors import ConfigError, TrustvidError
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.executor import Executor
from trustvid.tools.pretrained.checkpoint import Checkpoint
from trustvid.tools.pretrained.models import Architecture, Loaded, load
from trustvid.tools.relevance import cosine_shift, quantile
from trustvid.video.source import FrameSource

INSTEAD = "relevance=lexical, which needs no weights"
QUERY = SubQuery("What does the frame look like?", "attribute")  # features do not depend on what is asked


class ImageText(ABC):
    """Relevance as the cosine of image feature and text feature, scaled to [0, 1].

    It is a tool as well, one that only its own executor knows: image features are computed once for each frame and
    stored in the tool cache, and a further question costs one short text. Observations: kind "quality", label = the
    unit feature vector (:func:`packed`), score 1. The question alone is the text, without its options; what is beyond
    the model's longest text is cut off.

    Args:
        checkpoint: the weights.
        scale: one of the model's ``scales``: "quantile" (rank within the clip, thresholds bind), "cosine_shift" (the
            paper's (cos + 1) / 2, they do not) or "probability" (the model's own, SigLIP alone has it); see
            :mod:`trustvid.tools.relevance`.
        batch_size: frames that go through the network together.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    name = "image_features"
    cost = 0.0  # no tool of the paper; no sub-query is sent to it
    version = "1"
    span = "frame"
    reads_query = False
    scales: tuple[str, ...] = ("quantile", "cosine_shift")
    architecture: Architecture

    def __init__(self, checkpoint: Checkpoint, scale: str, batch_size: int):
        faults = list(checkpoint.faults("relevance"))
        if scale not in self.scales:
            known = ", ".join(self.scales)
            faults.append(f"relevance.scale={scale!r} is unknown to {type(self).__name__}; known: {known}")
        if batch_size < 1:
            faults.append(f"relevance.batch_size={batch_size!r}: expected at least 1")
        if faults:
            raise ConfigError(faults)
        self.checkpoint, self.scale, self.batch_size = checkpoint, scale, int(batch_size)

    def load(self) -> Loaded:
        """The model, in memory from the first call on.

        Raises:
            TrustvidError: it cannot be loaded; the message has the way out.
        """
        return load(self.checkpoint, self.architecture)

    # -- the estimator ---------------------------------------------------------------------------------------------

    def relevance(
        self, clip: FrameSource, indices: Sequence[int], question: str, words: Sequence[str], executor: Executor
    ) -> np.ndarray:
        """Scaled cosine of each frame with the question, [len(indices)] in [0, 1].

        Raises:
            VideoError: the clip cannot be decoded.
            TrustvidError: the model cannot be loaded, failed, or was not done with the frames in time.
        """
        text = self._text_feature(question)
        own = Executor({self.name: self}, executor.cache, executor.time_limit_s)
        evidence = own.run(self.name, QUERY, clip, indices)
        if evidence.error:
            raise TrustvidError(f"{clip.video_id}: relevance of frames: {evidence.error.message}")
        features = {seen.frame: unpacked(seen.label) for seen in evidence.observations}
        cosine = np.stack([features[int(index)] for index in indices]) @ text
        return self._scaled(cosine)

    def _scaled(self, cosine: np.ndarray) -> np.ndarray:
        """[n] in [0, 1] by ``scale``."""
        return quantile(cosine) if self.scale == "quantile" else cosine_shift(cosine)

    def _text_feature(self, question: str) -> np.ndarray:
        """[d] unit vector."""
        model = self.load()
        with model.in_use():
            tokens = self._tokens(model.processor.tokenizer, question, model.network.config.text_config)
            output = model.network.get_text_features(**tokens.to(model.network.device))
            return _unit(output.pooler_output, self.checkpoint)[0]

    @abstractmethod
    def _tokens(self, tokenizer: Any, question: str, config: Any) -> Any:
        """Inputs of the text tower, batch of one."""

    # -- the tool --------------------------------------------------------------------------------------------------

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """The feature of each frame of the batch."""
        model = self.load()
        labels: list[str] = []
        with model.in_use():
            for start in range(0, len(batch.images), self.batch_size):
                pixels = model.pixels(list(batch.images[start : start + self.batch_size]))
                output = model.network.get_image_features(pixel_values=pixels)
                labels += map(packed, _unit(output.pooler_output, self.checkpoint))
        return [
            [Observation(index, time, "quality", label, 1.0)]
            for index, time, label in zip(batch.indices, batch.times, labels, strict=True)
        ]

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """How many frames have a feature; computing one is certain."""
        return f"{len(observations)} frames have features", 1.0

    def settings(self) -> dict:
        """Which network and weights; neither scale nor batch size changes a feature."""
        return {"backend": self.architecture.network, **self.checkpoint.settings()}


class Clip(ImageText):
    """CLIP (Radford et al., arXiv 2103.00020), the encoder that the paper cites. Texts up to 77 tokens.

    It only ever learnt which of several texts fits an image best, so it has no probability for a single pair.

    Args:
        model, revision, device, dtype, offline: see :class:`~trustvid.tools.pretrained.checkpoint.Checkpoint`.
        scale, batch_size: see :class:`ImageText`.
    """

    architecture = Architecture("CLIPModel", "CLIPProcessor", INSTEAD)

    def __init__(
        self,
        model: str = "openai/clip-vit-base-patch32",
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        offline: bool = False,
        scale: str = "quantile",
        batch_size: int = 16,
    ):
        super().__init__(Checkpoint(model, revision, device, dtype, offline), scale, batch_size)

    def _tokens(self, tokenizer: Any, question: str, config: Any) -> Any:
        longest = config.max_position_embeddings
        return tokenizer([question], truncation=True, max_length=longest, return_tensors="pt")


class Siglip2(ImageText):
    """SigLIP 2 (Tschannen et al., arXiv 2502.14786), checkpoints of fixed resolution. Texts up to 64 tokens.

    It was trained on lower-case text filled up to the full length, and the filling is not masked. It learnt for each
    pair whether it belongs together: its probability is σ(t · cos + b), t and b of the checkpoint. Those pairs were
    captions, and a question is none: expect low values, all of them below θ_sim where nothing of it is to be seen.

    Args:
        model, revision, device, dtype, offline: see :class:`~trustvid.tools.pretrained.checkpoint.Checkpoint`.
        scale, batch_size: see :class:`ImageText`.
    """

    scales = ("quantile", "cosine_shift", "probability")
    architecture = Architecture("SiglipModel", "SiglipProcessor", INSTEAD)

    def __init__(
        self,
        model: str = "google/siglip2-base-patch16-224",
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        offline: bool = False,
        scale: str = "quantile",
        batch_size: int = 16,
    ):
        super().__init__(Checkpoint(model, revision, device, dtype, offline), scale, batch_size)

    def _tokens(self, tokenizer: Any, question: str, config: Any) -> Any:
        return tokenizer(
            [question.lower()],
            padding="max_length",
            padding_side="right",
            truncation=True,
            max_length=config.max_position_embeddings,
            return_attention_mask=False,
            return_tensors="pt",
        )

    def _scaled(self, cosine: np.ndarray) -> np.ndarray:
        if self.scale != "probability":
            return super()._scaled(cosine)
        network = self.load().network
        logit = math.exp(network.logit_scale.item()) * cosine + network.logit_bias.item()
        return 1.0 / (1.0 + np.exp(-logit))


def packed(feature: np.ndarray) -> str:
    """A vector as text: little-endian float16 in base64, an eighth of its digits; cosines change by less than 1e-3."""
    return base64.b64encode(np.asarray(feature, dtype="<f2").tobytes()).decode("ascii")


def unpacked(label: str) -> np.ndarray:
    """Inverse of :func:`packed`, float64 [d]."""
    return np.frombuffer(base64.b64decode(label), dtype="<f2").astype(np.float64)


def _unit(features: Any, checkpoint: Checkpoint) -> np.ndarray:
    """float64 [n, d] rows of length 1.

    Raises:
        TrustvidError: a feature is no direction; nothing of it is stored then.
    """
    values = features.float().cpu().numpy().astype(np.float64)
    length = np.linalg.norm(values, axis=1, keepdims=True)
    if not (np.isfinite(length).all() and (length > 0).all()):
        raise TrustvidError(f"model={checkpoint.model} gives features that are not finite; try dtype=float32")
    return values / length
