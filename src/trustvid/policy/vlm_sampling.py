"""Choosing the next token of each row so that neither its neighbours nor the order of requests has a say."""

from __future__ import annotations

import torch
from transformers import LogitsProcessor


class SeededChoice(LogitsProcessor):
    """Repetition penalty, temperature, top-p and the draw, one number of each row's own for each of its tokens.

    It hands back logits that leave one token (with draws), to be taken by greedy decoding. The generation of
    transformers has one random stream for a whole batch, and its penalty also counts the padding before a short
    prompt; both make a reply depend on what else is in the batch.

    Args:
        mask: [b, n] 1 where the prompt is, 0 where it is padding.
        penalty: repetition penalty, 1 = off.
        draws: float64 [b, most tokens] in [0, 1), or None: the likeliest token is taken.
        temperature, top_p: as in :class:`~trustvid.policy.vlm_settings.Decoding`.
    """

    def __init__(
        self, mask: torch.Tensor, penalty: float, draws: torch.Tensor | None, temperature: float, top_p: float
    ):
        self.mask, self.penalty, self.draws = mask.bool(), penalty, draws
        self.temperature, self.top_p = temperature, top_p
        self._seen: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Logits [b, v] after the tokens ``input_ids`` [b, n + tokens so far]."""
        step = input_ids.shape[1] - self.mask.shape[1]
        scores = scores.float()
        if self.penalty != 1.0:
            scores = self._penalised(input_ids, scores)
        if self.draws is None:
            return scores
        chosen = choose(scores / self.temperature, self.top_p, self.draws[:, step])
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen[:, None], 0.0)

    def _penalised(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self._seen is None:
            counts = torch.zeros(scores.shape, dtype=torch.int32, device=scores.device)
            self._seen = counts.scatter_add_(1, input_ids, self.mask.int()) > 0
        else:
            self._seen.scatter_(1, input_ids[:, -1:], True)
        harder = torch.where(scores < 0, scores * self.penalty, scores / self.penalty)
        return torch.where(self._seen, harder, scores)


def choose(logits: torch.Tensor, top_p: float, draws: torch.Tensor) -> torch.Tensor:
    """One token for each row, by inverting the distribution function of its likeliest tokens.

    Args:
        logits: [b, v].
        top_p: the tokens are drawn from the smallest set of likeliest ones that reaches this probability.
        draws: float64 [b] in [0, 1).

    Returns:
        int64 [b].
    """
    likely, order = logits.double().softmax(-1).sort(dim=-1, descending=True, stable=True)
    below = likely.cumsum(-1) - likely  # of the tokens before each one
    kept = torch.where(below < top_p, likely, 0.0)
    reached = kept.cumsum(-1)
    last = (kept > 0).sum(-1) - 1
    place = (reached <= draws.to(logits.device)[:, None] * reached[:, -1:]).sum(-1)
    return order.gather(1, torch.minimum(place, last)[:, None])[:, 0]
