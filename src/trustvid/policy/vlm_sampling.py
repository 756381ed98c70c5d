"""Choosing the next token of each row so that neither its neighbours nor the order of requests has a say."""

from __future__ import annotations

import numpy as np
import torch

from trustvid.policy.vlm_settings import Decoding

# How many of the likeliest tokens are put in order, as far as a draw needs them: a whole vocabulary takes longer than a
# step of a small model.
_HEADS = (32, 512)


class Chooser:
    """Repetition penalty, temperature, top-p and the draw, one number of each row's own for each of its tokens.

    The generation of transformers has one random stream for a whole batch, and its penalty also counts the padding
    before a short prompt; both make a reply depend on what else is in the batch.

    Args:
        decoding: penalty, temperature and top_p.
        draws: float64 [b, most tokens] in [0, 1), or None: the likeliest token is taken.
        seen: bool [b, v] tokens that a conversation holds already (changed as replies grow); None without a penalty.
    """

    def __init__(self, decoding: Decoding, draws: np.ndarray | None, seen: torch.Tensor | None):
        self._decoding, self._seen = decoding, seen
        self._draws = None if draws is None else torch.from_numpy(draws)

    def __call__(self, step: int, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The token that follows in each row, and its log-probability at the temperature (before top-p).

        Args:
            step: tokens of the reply so far.
            logits: [b, v].

        Returns:
            int64 [b] and float32 [b].
        """
        logits = logits.float()
        if self._seen is not None:
            harder = torch.where(logits < 0, logits, logits / self._decoding.repetition_penalty)
            harder = torch.where(logits < 0, logits * self._decoding.repetition_penalty, harder)
            logits = torch.where(self._seen, harder, logits)
        if self._draws is None:
            chosen = logits.argmax(-1)
        else:
            logits = logits / self._decoding.temperature
            chosen = choose(logits, self._decoding.top_p, self._draws[:, step])
        if self._seen is not None:
            self._seen.scatter_(1, chosen[:, None], True)
        return chosen, logits.log_softmax(-1).gather(1, chosen[:, None])[:, 0]


def choose(logits: torch.Tensor, top_p: float, draws: torch.Tensor) -> torch.Tensor:
    """One token for each row, by inverting the distribution function of its likeliest tokens.

    Args:
        logits: [b, v].
        top_p: the tokens are drawn from the smallest set of likeliest ones that reaches this probability.
        draws: float64 [b] in [0, 1).

    Returns:
        int64 [b].
    """
    likely, draws = logits.double().softmax(-1), draws.to(logits.device)
    size = likely.shape[-1]
    chosen, left = _among(likely, top_p, draws, min(_HEADS[0], size))
    for count in (*_HEADS[1:], size):
        if not len(left):
            break
        chosen[left], still = _among(likely[left], top_p, draws[left], min(count, size))
        left = left[still]
    return chosen


def _among(likely: torch.Tensor, top_p: float, draws: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The draw among the ``count`` likeliest tokens of each row, and the rows where it may be another among all."""
    whole = count == likely.shape[-1]
    if whole:
        head, order = likely.sort(dim=-1, descending=True, stable=True)
    else:
        head, order = likely.topk(count)
        order, at = order.sort(dim=-1)  # of equally likely tokens the first comes first
        head, at = head.gather(1, at).sort(dim=-1, descending=True, stable=True)
        order = order.gather(1, at)
    below = head.cumsum(-1) - head  # of the tokens before each one
    kept = torch.where(below < top_p, head, 0.0)
    reached = kept.cumsum(-1)
    closed = below[:, -1] >= top_p
    total = reached[:, -1] if whole else torch.where(closed, reached[:, -1], likely.sum(-1))
    place = (reached <= (draws * total)[:, None]).sum(-1)
    last = (kept > 0).sum(-1) - 1
    chosen = order.gather(1, torch.minimum(place, last)[:, None])[:, 0]
    if whole:
        return chosen, chosen[:0]
    # Tokens as likely as the last of the head may be others than in the whole order.
    found = (place < (head > head[:, -1:]).sum(-1)) & (closed | (top_p >= 1.0))
    return chosen, (~found).nonzero()[:, 0]
