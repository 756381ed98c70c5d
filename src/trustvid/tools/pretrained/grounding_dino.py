"""detect_objects by Grounding DINO: things found by their names in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trustvid.tools.pretrained.checkpoint import Checkpoint
from trustvid.tools.pretrained.models import Architecture, Loaded
from trustvid.tools.pretrained.open_vocabulary import OpenVocabulary, corners_of
from trustvid.tools.pretrained.phrases import with_article


class GroundingDino(OpenVocabulary):
    """Grounding DINO (Liu et al., arXiv 2303.05499), the detector of Robust-TO's Table 17.

    The phrases become one text, "a red box. an umbrella."; a box scores for a phrase as the surest of the phrase's own
    tokens, so that every box has exactly one whole phrase as its label.

    Args:
        model, revision, device, dtype, offline: see :class:`~trustvid.tools.pretrained.checkpoint.Checkpoint`.
        min_score, max_objects, max_overlap, max_phrases, batch_size: see :class:`OpenVocabulary`; the paper drops boxes
            below 0.3.
    """

    backend = "grounding_dino"
    architecture = Architecture(
        "GroundingDinoForObjectDetection",
        "GroundingDinoProcessor",
        "tools/detect_objects=embedded, which needs no weights",
    )

    def __init__(
        self,
        model: str = "IDEA-Research/grounding-dino-tiny",
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        offline: bool = False,
        min_score: float = 0.3,
        max_objects: int = 20,
        max_overlap: float = 0.7,
        max_phrases: int = 12,
        batch_size: int = 4,
    ):
        checkpoint = Checkpoint(model, revision, device, dtype, offline)
        super().__init__(checkpoint, min_score, max_objects, max_overlap, max_phrases, batch_size)

    def _look(
        self, model: Loaded, images: Sequence[np.ndarray], phrases: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        text, spans = prompt_of(phrases)
        tokens = model.processor.tokenizer(
            [text], return_offsets_mapping=True, return_token_type_ids=True, return_tensors="pt"
        )
        tokens_of = tokens_in(tokens.pop("offset_mapping")[0].tolist(), spans)
        inputs = {
            name: value.to(model.network.device).expand(len(images), -1) for name, value in tokens.items()
        }  # every image with the same text
        output = model.network(pixel_values=model.pixels(images), **inputs)
        probabilities = output.logits.float().sigmoid().cpu().numpy()
        scores = np.stack([probabilities[..., places].max(axis=-1) for places in tokens_of], axis=-1)
        height, width = images[0].shape[:2]
        return scores, corners_of(output.pred_boxes.float().cpu().numpy(), width, height)


def prompt_of(phrases: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The text that asks for the phrases, and where in it each of them starts and ends (articles not counted).

    >>> prompt_of(["red box", "dogs"])
    ('a red box. dogs.', [(2, 9), (11, 15)])
    """
    text, spans = "", []
    for phrase in phrases:
        text += (" " if text else "") + with_article(phrase)
        spans.append((len(text) - len(phrase), len(text)))
        text += "."
    return text, spans


def tokens_in(offsets: Sequence[Sequence[int]], spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Places of the tokens within each span; ``offsets`` are (start, end) of each token, (0, 0) of added ones."""
    return [
        [place for place, (start, end) in enumerate(offsets) if first <= start < end <= last] for first, last in spans
    ]
