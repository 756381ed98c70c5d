"""IFCaptioner: the LightningModule of supervised fine-tuning. The same policy class, under cross-entropy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from trustvid.errors import TrustvidError
from trustvid.policy.vlm import VisionLanguagePolicy
from trustvid.training.conversations import Conversation, Emphasis, Example, example_of
from trustvid.training.optimizer import AdamW
from trustvid.training.order import StepOrder
from trustvid.training.policy_module import PolicyModule

# Memory for conversations that are ready: preparing the frames of one takes longer than a step of a small model on it,
# and those of a large model do not all fit.
_KEPT_BYTES = 2 << 30


class IFCaptioner(PolicyModule):
    """A policy that learns to reply as its examples do. Prompts, pictures and tool results are not learned.

    The loss is the mean negative log-likelihood over the learned tokens of a step (weighted where there is emphasis),
    whatever its micro-batches.

    Args:
        policy, adapter, optimizer, order, steps, micro_batch, seed: see
            :class:`~trustvid.training.policy_module.PolicyModule`.
        conversations: the examples; ``order`` numbers them.
        emphasis: what counts more; None = nothing does.
        held_out: examples that the loss is measured on and that are not learned.
        max_tokens: longer conversations are left out; None = as many as the model takes.
    """

    def __init__(
        self,
        policy: VisionLanguagePolicy,
        adapter: Any,
        optimizer: AdamW,
        order: StepOrder,
        steps: int,
        conversations: Sequence[Conversation],
        emphasis: Emphasis | None = None,
        held_out: Sequence[Conversation] = (),
        micro_batch: int = 16,
        seed: int = 0,
        max_tokens: int | None = None,
    ):
        super().__init__(policy, adapter, optimizer, order, steps, micro_batch, seed)
        self.conversations, self.emphasis, self.held_out = conversations, emphasis, held_out
        self.max_tokens = max_tokens or self.policy.loaded.longest
        self.trainable.forget_reference()
        self._ready = _Kept(_KEPT_BYTES)
        self._unreadable: dict[str, TrustvidError] = {}

    def training_step(self, batch: list[tuple[int, int]], batch_idx: int) -> None:
        """One update on a list of (step, example)."""
        self.network.train()
        examples = self.examples([self.conversations[number] for _, number in batch])
        weight = self.everywhere(sum(sum(one.weights) for one in examples)) / self.trainer.world_size
        found: list[dict[str, float]] = []
        places = self.micro_batches([one.buffer for one in examples])
        losses = [
            lambda some=some: self._loss([examples[place] for place in some], found) / (weight or 1.0)
            for some in places
        ]
        rate = self.optimizers().param_groups[0]["lr"]
        norm = self.update(losses or [lambda: sum((p * 0.0).sum() for p in self.trainable.trained().values())])
        log = _means(found) | {
            "grad_norm": norm,
            "learning_rate": rate,
            "examples/left_out": float(len(batch) - len(examples)),
        }
        self.log_dict(log, sync_dist=self.trainer.world_size > 1, batch_size=1)

    def examples(self, conversations: Sequence[Conversation]) -> list[Example]:
        """Their tokens; one that cannot be read is left out, and said once."""
        found = []
        for conversation in conversations:
            key = conversation.key
            if key not in self._ready.examples and key not in self._unreadable:
                try:
                    self._ready.add(key, self._read(conversation))
                except TrustvidError as error:
                    self._unreadable[key] = error
                    print(f"{key} is left out: {error}", file=sys.stderr, flush=True)
            if key not in self._unreadable:
                found.append(self._ready.examples[key])
        return found

    def _read(self, conversation: Conversation) -> Example:
        example = example_of(conversation, self.policy.loaded, self.policy.showing, self.emphasis)
        if self.max_tokens is not None and len(example.buffer) > self.max_tokens:
            raise TrustvidError(
                f"the conversation has {len(example.buffer):,} tokens; at most {self.max_tokens:,} are learned: show "
                "fewer frames, or lower policy.max_pixels"
            )
        return example

    def _loss(self, examples: Sequence[Example], found: list[dict[str, float]]) -> torch.Tensor:
        """Weighted sum of the negative log-likelihoods; what it was like is added to ``found``."""
        scored, known = self.scored([one.buffer for one in examples])
        width = scored.logprobs.shape[1]
        padded = [[0.0] * (width - len(one.weights)) + one.weights for one in examples]
        weights = torch.tensor(padded, device=scored.logprobs.device)
        mask = known["loss_mask"]
        found.append(
            {
                "tokens": float(mask.sum()),
                "loss": float(-scored.logprobs.detach()[mask].sum()),
                "entropy": float(scored.entropy.detach()[mask].sum()),
            }
        )
        return -(weights * scored.logprobs).sum()

    # -- measuring -----------------------------------------------------------------------------------------------------

    def val_dataloader(self) -> DataLoader | list:
        """Numbers of the held-out examples, in micro-batches."""
        numbers = list(range(len(self.held_out)))
        return DataLoader(numbers, batch_size=self.micro_batch, collate_fn=list) if numbers else []

    def validation_step(self, batch: list[int], batch_idx: int) -> None:
        """Loss on held-out examples, per token, without emphasis."""
        self.network.eval()
        examples = self.examples([self.held_out[number] for number in batch])
        found: list[dict[str, float]] = []
        for some in self.micro_batches([one.buffer for one in examples]):
            self._loss([examples[place] for place in some], found)
        if found:
            tokens = int(sum(one["tokens"] for one in found))
            self.log("eval_loss", _means(found)["loss"], batch_size=tokens, on_epoch=True, sync_dist=True)


def _means(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """Per token."""
    tokens = sum(one["tokens"] for one in found)
    means = {name: sum(one[name] for one in found) / max(tokens, 1.0) for name in ("loss", "entropy")}
    return means | {"num_tokens": tokens}


class _Kept:
    """Examples by key, up to a number of bytes; the first ones stay."""

    def __init__(self, most: int):
        self.most, self.bytes = most, 0
        self.examples: dict[str, Example] = {}
        self._passing: str | None = None  # the one that is there for a moment only

    def add(self, key: str, example: Example) -> None:
        """Keep an example, at least until the next one comes."""
        if self._passing is not None:
            self.examples.pop(self._passing)
        size = sum(value.nbytes for value in example.buffer.tensors.values())
        stays = self.bytes + size <= self.most
        self.bytes, self._passing = self.bytes + size * stays, None if stays else key
        self.examples[key] = example
