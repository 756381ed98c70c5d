"""Log-probabilities with gradients: what a network thinks of the tokens that conversations hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from trustvid.policy.vlm_inputs import Tensors, behind, joined
from trustvid.policy.vlm_session import on_device
from trustvid.policy.vlm_tokens import TokenBuffer


class Scored(NamedTuple):
    """Of each token, 0 where it was not asked for.

    Attributes:
        logprobs: float32 [b, n], with gradient; natural logarithm.
        entropy: float32 [b, n], with gradient; of the distribution that the token was drawn from.
    """

    logprobs: torch.Tensor
    entropy: torch.Tensor


def score(network: Any, inputs: Tensors, wanted: torch.Tensor, temperature: torch.Tensor | float = 1.0) -> Scored:
    """Log-probability of the ``wanted`` tokens, each after all tokens before it.

    Only for these the distribution over the vocabulary is made: a prompt of thousands of tokens costs no memory there.

    Args:
        network: a transformers model for images and text.
        inputs: conversations joined to a batch, on the network's device.
        wanted: bool [b, n]. The first token of a row has nothing before it and cannot be wanted.
        temperature: divides the logits; a number, or one for each token [b, n].

    Raises:
        ValueError: the first token of a row is wanted.
    """
    if bool(wanted[:, 0].any()):
        raise ValueError("the first token of a sequence is wanted; nothing stands before it")
    hidden = network.model(**inputs, use_cache=False).last_hidden_state
    return _scored(network, hidden[:, :-1], inputs["input_ids"][:, 1:], wanted, temperature)


def score_groups(
    network: Any,
    buffers: Sequence[TokenBuffer],
    wanted: torch.Tensor,
    pad_token: int,
    temperature: torch.Tensor | float = 1.0,
) -> Scored:
    """As :func:`score`, equal to rounding, for conversations some of which share their beginning.

    Each beginning is read once, pictures included, and its keys and values, with their gradients, are copied to the
    conversations that go on from it: eight passes over a long prompt cost one reading of it, and its memory.

    Args:
        network: a transformers model for images and text.
        buffers: b conversations of one :func:`~trustvid.policy.vlm_inputs.shape_key`.
        wanted: bool [b, n], padded on the left; nothing in the beginnings.
        pad_token: fills rows.
        temperature: as in :func:`score`.
    """
    rest, seen, last = _read_beginnings(network, buffers, pad_token)
    width = rest["input_ids"].shape[1]
    mask = rest["attention_mask"]
    rest["attention_mask"] = torch.cat([seen, mask], dim=1)
    hidden = network.model(**rest, use_cache=True).last_hidden_state
    before = torch.cat([last[:, None], hidden[:, :-1]], dim=1)
    first = (mask.cumsum(1) == 1) & (mask == 1)  # what stands before it is the last token of the beginning
    before = torch.where(first[..., None], last[:, None], before)
    return _scored(network, before, rest["input_ids"], wanted, temperature, width)


def _read_beginnings(
    network: Any, buffers: Sequence[TokenBuffer], pad_token: int
) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor]:
    """Inputs of what comes after the beginnings; for each conversation, which tokens of its beginning count, and what
    the network makes of the last of them."""
    distinct = {id(buffer.beginning): buffer.beginning for buffer in buffers}
    inputs = on_device(network, joined(list(distinct.values()), pad_token))
    out = network.model(**inputs, use_cache=True)
    row_of = {key: row for row, key in enumerate(distinct)}
    rows = torch.tensor([row_of[id(buffer.beginning)] for buffer in buffers], device=network.device)
    out.cache.batch_select_indices(rows)
    parts = [behind(buffer.tensors, buffer.beginning["input_ids"].shape[1]) for buffer in buffers]
    rest = on_device(network, joined(parts, pad_token))
    return rest | {"cache": out.cache}, inputs["attention_mask"][rows], out.last_hidden_state[:, -1][rows]


def _scored(
    network: Any,
    before: torch.Tensor,
    ids: torch.Tensor,
    wanted: torch.Tensor,
    temperature: torch.Tensor | float,
    width: int | None = None,
) -> Scored:
    """Of the last ``width`` tokens of each row (None = all but the first), from what the network made of those before.

    Args:
        before: [b, width, hidden].
        ids: [b, width] the tokens.
        wanted, temperature: [b, n].
    """
    width = wanted.shape[1] - 1 if width is None else width
    inner = wanted[:, -width:]
    logits = network.lm_head(before[inner]).float()
    if isinstance(temperature, torch.Tensor):
        logits = logits / temperature[:, -width:][inner][:, None]
    elif temperature != 1.0:
        logits = logits / temperature
    known = logits.log_softmax(-1)
    chosen = known.gather(1, ids[inner][:, None])[:, 0]
    entropy = -(known.exp() * known).sum(-1)
    place = wanted.nonzero(as_tuple=True)
    empty = torch.zeros(wanted.shape, dtype=torch.float32, device=logits.device)
    return Scored(empty.index_put(place, chosen), empty.index_put(place, entropy))
