"""A conversation as tokens. It only grows: what was shown or written is never rendered, or split into tokens, anew.

So the tokens that a policy is trained on are the ones it chose, and the media of a conversation are prepared once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trustvid.policy.vlm_inputs import Tensors, extended


class TokenBuffer:
    """The tokens of one conversation so far, and which of them the policy wrote.

    Args:
        tensors: input tensors of the conversation's beginning (a batch of one, see
            :func:`~trustvid.policy.vlm_inputs.encode`). They are not changed: buffers of one group may share them.

    Attributes:
        beginning: what it was given: one object in all buffers of a group.
        tensors: of all tokens so far; media as they were.
        loss_mask: for each token 1 where the policy wrote it, else 0.
        turns: for each token the number of the reply it belongs to, from 0; -1 where the policy did not write it.
        logprobs: for each token the policy wrote, its log-probability when it was drawn; elsewhere 0.
        complete: for each reply, whether the policy ended it itself; False = it was cut at the longest length.
    """

    def __init__(self, tensors: Tensors):
        self.beginning = self.tensors = tensors
        length = tensors["input_ids"].shape[1]
        self.loss_mask, self.turns, self.logprobs = [0] * length, [-1] * length, [0.0] * length
        self.complete: list[bool] = []

    def __len__(self) -> int:
        return len(self.loss_mask)

    @property
    def ids(self) -> list[int]:
        """All tokens."""
        return self.tensors["input_ids"][0].tolist()

    @property
    def last_reply(self) -> list[int]:
        """The tokens of the last reply."""
        last = len(self.complete) - 1
        return [token for token, turn in zip(self.ids, self.turns, strict=True) if turn == last]

    def show(self, tokens: Sequence[int]) -> None:
        """Append what others say: prompts, tool results, marks of turns."""
        self._append(tokens, 0, -1, [0.0] * len(tokens))

    def write(self, tokens: Sequence[int], logprobs: Sequence[float], complete: bool) -> None:
        """Append a reply of the policy; its last token is the end of the turn where it is ``complete``."""
        self._append(tokens, 1, len(self.complete), logprobs)
        self.complete.append(complete)

    def _append(self, tokens: Sequence[int], mask: int, turn: int, logprobs: Sequence[float]) -> None:
        if len(tokens) != len(logprobs):
            raise ValueError(f"{len(tokens)} tokens and {len(logprobs)} log-probabilities; expected one for each")
        self.tensors = extended(self.tensors, tokens)
        self.loss_mask += [mask] * len(tokens)
        self.turns += [turn] * len(tokens)
        self.logprobs += map(float, logprobs)


def columns(buffers: Sequence[TokenBuffer]) -> dict[str, torch.Tensor]:
    """What is known of each token of several buffers, padded on the left as their joined tensors are.

    Returns:
        ``loss_mask`` bool [b, n], ``turns`` int64 [b, n] (-1 = not the policy's), ``logprobs`` float32 [b, n].
    """
    width = max(map(len, buffers))

    def padded(values: Sequence, fill: float, dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor([[fill] * (width - len(row)) + list(row) for row in values], dtype=dtype)

    return {
        "loss_mask": padded([buffer.loss_mask for buffer in buffers], 0, torch.bool),
        "turns": padded([buffer.turns for buffer in buffers], -1, torch.long),
        "logprobs": padded([buffer.logprobs for buffer in buffers], 0.0, torch.float32),
    }
