"""Log-probabilities with gradients: what a network thinks of the tokens that conversations hold."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from trustvid.policy.vlm_inputs import Tensors


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
    after = wanted[:, 1:]
    logits = network.lm_head(hidden[:, :-1][after]).float()
    if isinstance(temperature, torch.Tensor):
        logits = logits / temperature[:, 1:][after][:, None]
    elif temperature != 1.0:
        logits = logits / temperature
    known = logits.log_softmax(-1)
    chosen = known.gather(1, inputs["input_ids"][:, 1:][after][:, None])[:, 0]
    entropy = -(known.exp() * known).sum(-1)
    place = wanted.nonzero(as_tuple=True)
    empty = torch.zeros(wanted.shape, dtype=torch.float32, device=logits.device)
    return Scored(empty.index_put(place, chosen), empty.index_put(place, entropy))
