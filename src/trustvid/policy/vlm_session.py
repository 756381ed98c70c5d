"""Conversations answered side by side, turn after turn, with keys and values kept: nothing is read twice.

Prompts that several conversations share (the samples of one group) are read once. Pictures are looked at in the turn
that shows them; later turns feed the new tokens alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from trustvid.policy import vlm_inputs
from trustvid.policy.vlm_inputs import Tensors
from trustvid.policy.vlm_sampling import Chooser
from trustvid.policy.vlm_settings import Decoding
from trustvid.policy.vlm_tokens import TokenBuffer


class Session:
    """A batch of conversations and the keys and values of what the network has read of them.

    Args:
        network: a transformers model for images and text.
        pad_token: fills rows.
        ends: tokens that end a turn.
        buffers: conversations of one :func:`~trustvid.policy.vlm_inputs.shape_key`.
    """

    def __init__(self, network: Any, pad_token: int, ends: Sequence[int], buffers: Sequence[TokenBuffer]):
        self._network, self._pad, self._ends = network, pad_token, torch.tensor(sorted(ends))
        self.buffers = list(buffers)
        self._read = [0] * len(self.buffers)  # tokens of each buffer that are in the cache
        self._cache: Any = None
        self._mask = torch.zeros(len(self.buffers), 0, dtype=torch.long)

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these conversations alone, in this order."""
        self.buffers = [self.buffers[row] for row in rows]
        self._read = [self._read[row] for row in rows]
        if self._cache is not None and list(rows) != list(range(len(self._mask))):
            places = torch.tensor(rows, device=self._mask.device)
            self._cache.batch_select_indices(places)
            self._mask = self._mask[places]

    @torch.inference_mode()
    def reply(self, decoding: Decoding, draws: np.ndarray | None) -> None:
        """Write one reply into each buffer.

        Args:
            decoding: how tokens are chosen.
            draws: float64 [b, at least max_new_tokens] in [0, 1); None where nothing is drawn.
        """
        logits = self._read_on()
        device = logits.device
        ends = self._ends.to(device)
        choose = Chooser(decoding, draws, self._seen(logits) if decoding.repetition_penalty != 1.0 else None)
        last = self._last_positions(device)
        ended = torch.zeros(len(self.buffers), dtype=torch.bool, device=device)
        tokens, logprobs, open_before = [], [], []
        for step in range(decoding.max_new_tokens):
            token, logprob = choose(step, logits)
            open_before.append(~ended)
            tokens.append(token.where(~ended, self._pad))
            logprobs.append(logprob)
            ended = ended | torch.isin(token, ends)
            if step + 1 == decoding.max_new_tokens or bool(ended.all()):
                break
            logits = self._forward(tokens[-1][:, None], open_before[-1][:, None].long(), last + 1 + step)
        self._write(torch.stack(tokens, 1), torch.stack(logprobs, 1), torch.stack(open_before, 1), ended)

    def _write(self, tokens: torch.Tensor, logprobs: torch.Tensor, is_open: torch.Tensor, ended: torch.Tensor) -> None:
        """Append to each buffer its row up to its end; the tokens of the last step are not in the cache yet."""
        counts, steps = is_open.sum(1).tolist(), is_open.shape[1]
        rows = zip(self.buffers, tokens.tolist(), logprobs.tolist(), counts, ended.tolist(), strict=True)
        for place, (buffer, written, known, count, complete) in enumerate(rows):
            buffer.write(written[:count], known[:count], complete)
            self._read[place] += count - (count == steps)

    def _read_on(self) -> torch.Tensor:
        """Feed what the network has not read yet; logits [b, v] after the last token of each conversation."""
        if self._cache is None:
            return self._read_first()
        new = [buffer.tensors["input_ids"][0, read:] for buffer, read in zip(self.buffers, self._read, strict=True)]
        width = max(map(len, new))
        ids = torch.stack([_left(tokens, width, self._pad) for tokens in new])
        mask = torch.stack([_left(torch.ones_like(tokens), width, 0) for tokens in new])
        along = zip(self.buffers, self._read, strict=True)
        positions = _rows([_left(buffer.tensors["position_ids"][..., read:], width, 0) for buffer, read in along])
        self._read = list(map(len, self.buffers))
        device = self._network.device
        return self._forward(ids.to(device), mask.to(device), positions.to(device))

    def _read_first(self) -> torch.Tensor:
        """The first reading: each distinct beginning once, then a copy for each conversation that shares it."""
        distinct = {id(buffer.tensors): buffer.tensors for buffer in self.buffers}
        inputs = on_device(self._network, vlm_inputs.joined(list(distinct.values()), self._pad))
        out = self._network(**inputs, use_cache=True, logits_to_keep=1)
        self._cache, mask, logits = out.cache, inputs["attention_mask"], out.logits[:, -1]
        place_of = {key: place for place, key in enumerate(distinct)}
        places = [place_of[id(buffer.tensors)] for buffer in self.buffers]
        if places != list(range(len(distinct))):
            rows = torch.tensor(places, device=logits.device)
            self._cache.batch_select_indices(rows)
            mask, logits = mask[rows], logits[rows]
        self._mask, self._read = mask, list(map(len, self.buffers))
        return logits

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        self._mask = torch.cat([self._mask, mask], dim=1)
        out = self._network(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=positions,
            cache=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self._cache = out.cache
        return out.logits[:, -1]

    def _last_positions(self, device: torch.device) -> torch.Tensor:
        return _rows([buffer.tensors["position_ids"][..., -1:] for buffer in self.buffers]).to(device)

    def _seen(self, logits: torch.Tensor) -> torch.Tensor:
        """bool [b, v]: tokens that each conversation holds."""
        seen = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
        for row, buffer in enumerate(self.buffers):
            seen[row, buffer.tensors["input_ids"][0].to(logits.device)] = True
        return seen


def on_device(network: Any, tensors: Tensors) -> Tensors:
    """Tensors where the network is, pixels in its dtype."""
    return {
        name: value.to(network.device, network.dtype if name.startswith("pixel_values") else None)
        for name, value in tensors.items()
    }


def _left(values: torch.Tensor, width: int, fill: int) -> torch.Tensor:
    """Padded on the left of the last axis to ``width``."""
    return torch.nn.functional.pad(values, (width - values.shape[-1], 0), value=fill)


def _rows(positions: Sequence[torch.Tensor]) -> torch.Tensor:
    """Positions of several conversations ([1, n] or [axes, 1, n] each) as one batch."""
    return torch.cat(list(positions), dim=-2)
