"""caption_frame by BLIP: one sentence about each frame."""

from __future__ import annotations

from collections.abc import Sequence

from trustvid.errors import ConfigError
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.pretrained.checkpoint import Checkpoint
from trustvid.tools.pretrained.models import Architecture, Loaded, load
from trustvid.tools.summary import when_seen

_TOLD_SENTENCES = 8


class Blip:
    """BLIP (Li et al., arXiv 2201.12086), captioning, likeliest word by word.

    Observations: kind "caption" (a sentence about the whole frame, no box), label = the sentence, score = mean
    probability of its tokens.

    Args:
        model, revision, device, dtype, offline: see :class:`~trustvid.tools.pretrained.checkpoint.Checkpoint`.
        max_new_tokens: longest sentence.
        min_score: sentences below are dropped, 0–1.
        batch_size: frames that go through the network together.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    name = "caption_frame"
    cost = 0.30  # paper Table 17
    version = "1"
    span = "frame"
    reads_query = False
    architecture = Architecture(
        "BlipForConditionalGeneration", "BlipProcessor", "tools/caption_frame=embedded, which needs no weights"
    )

    def __init__(
        self,
        model: str = "Salesforce/blip-image-captioning-base",
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        offline: bool = False,
        max_new_tokens: int = 30,
        min_score: float = 0.0,
        batch_size: int = 8,
    ):
        self.checkpoint = Checkpoint(model, revision, device, dtype, offline)
        faults = list(self.checkpoint.faults(self.name))
        if not 0 <= min_score <= 1:
            faults.append(f"{self.name}.min_score={min_score!r}: expected 0–1")
        for name, count in (("max_new_tokens", max_new_tokens), ("batch_size", batch_size)):
            if count < 1:
                faults.append(f"{self.name}.{name}={count!r}: expected at least 1")
        if faults:
            raise ConfigError(faults)
        self.max_new_tokens, self.min_score, self.batch_size = int(max_new_tokens), float(min_score), int(batch_size)

    def load(self) -> Loaded:
        """The model, in memory from the first call on.

        Raises:
            TrustvidError: it cannot be loaded; the message has the way out.
        """
        return load(self.checkpoint, self.architecture)

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """The sentence of each frame of the batch."""
        model = self.load()
        sentences: list[tuple[str, float]] = []
        for start in range(0, len(batch.images), self.batch_size):
            with model.in_use():
                sentences += self._captions(model, list(batch.images[start : start + self.batch_size]))
        return [
            [Observation(index, time, "caption", sentence, round(score, 4))]
            if sentence and score >= self.min_score
            else []
            for (sentence, score), index, time in zip(sentences, batch.indices, batch.times, strict=True)
        ]

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """The distinct sentences in order of time, and the mean score of all."""
        if not observations:
            return "nothing that can be described", 0.0
        by_sentence: dict[str, list[Observation]] = {}
        for seen in sorted(observations, key=lambda seen: (seen.time, seen.label)):
            by_sentence.setdefault(seen.label, []).append(seen)
        parts = [f'"{text}" ({when_seen(seen)})' for text, seen in list(by_sentence.items())[:_TOLD_SENTENCES]]
        if len(by_sentence) > len(parts):
            parts.append(f"{len(by_sentence) - len(parts)} more")
        return "captions: " + "; ".join(parts), sum(seen.score for seen in observations) / len(observations)

    def settings(self) -> dict:
        """All constructor arguments that matter to the output, and which weights they are."""
        return {
            "backend": "blip",
            **self.checkpoint.settings(),
            "max_new_tokens": self.max_new_tokens,
            "min_score": self.min_score,
        }

    def _captions(self, model: Loaded, images: list) -> list[tuple[str, float]]:
        """(sentence, mean probability of its tokens) of each image; ("", 0.0) where the model says nothing."""
        import torch

        output = model.network.generate(
            pixel_values=model.pixels(images),
            max_new_tokens=self.max_new_tokens,
            do_sample=False,
            num_beams=1,
            output_logits=True,
            return_dict_in_generate=True,
        )
        logits = torch.stack(output.logits, dim=1).float()  # [images, tokens, vocabulary]
        tokens = output.sequences[:, -logits.shape[1] :]
        chosen = logits.softmax(-1).gather(2, tokens[..., None])[..., 0].tolist()
        tokenizer = model.processor.tokenizer
        unsaid = set(tokenizer.all_special_ids)
        told = []
        for row, probabilities in zip(tokens.tolist(), chosen, strict=True):
            said = [p for token, p in zip(row, probabilities, strict=True) if token not in unsaid]
            sentence = " ".join(tokenizer.decode(row, skip_special_tokens=True).split())
            told.append((sentence, sum(said) / len(said)) if sentence else ("", 0.0))
        return told
