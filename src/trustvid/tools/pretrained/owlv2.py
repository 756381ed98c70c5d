"""detect_objects by OWLv2: things found by their names, each name a query of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trustvid.tools.pretrained.checkpoint import Checkpoint
from trustvid.tools.pretrained.models import Architecture, Loaded
from trustvid.tools.pretrained.open_vocabulary import OpenVocabulary, corners_of
from trustvid.tools.pretrained.phrases import with_article


class Owlv2(OpenVocabulary):
    """OWLv2 (Minderer et al., arXiv 2306.09683). Every phrase is asked for as "a photo of a red box".

    The network sees the frame padded to a square at the right or below; boxes are cut to the frame.

    Args:
        model, revision, device, dtype, offline: see :class:`~trustvid.tools.pretrained.checkpoint.Checkpoint`.
        min_score, max_objects, max_overlap, max_phrases, batch_size: see :class:`OpenVocabulary`; scores run lower than
            those of Grounding DINO.
    """

    backend = "owlv2"
    architecture = Architecture(
        "Owlv2ForObjectDetection", "Owlv2Processor", "tools/detect_objects=embedded, which needs no weights"
    )

    def __init__(
        self,
        model: str = "google/owlv2-base-patch16-ensemble",
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        offline: bool = False,
        min_score: float = 0.2,
        max_objects: int = 20,
        max_overlap: float = 0.5,
        max_phrases: int = 12,
        batch_size: int = 4,
    ):
        checkpoint = Checkpoint(model, revision, device, dtype, offline)
        super().__init__(checkpoint, min_score, max_objects, max_overlap, max_phrases, batch_size)

    def _look(
        self, model: Loaded, images: Sequence[np.ndarray], phrases: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        tokens = model.processor.tokenizer(
            [f"a photo of {with_article(phrase)}" for phrase in phrases],
            padding="max_length",
            truncation=True,
            max_length=model.network.config.text_config.max_position_embeddings,
            return_tensors="pt",
        )
        inputs = {
            name: tokens[name].to(model.network.device).repeat(len(images), 1)
            for name in ("input_ids", "attention_mask")
        }  # the network wants the queries once for each image
        output = model.network(pixel_values=model.pixels(images), **inputs)
        scores = output.logits.float().sigmoid().cpu().numpy()
        side = max(images[0].shape[:2])
        return scores, corners_of(output.pred_boxes.float().cpu().numpy(), side, side)
