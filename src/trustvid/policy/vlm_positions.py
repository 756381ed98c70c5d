"""Rotary positions of Qwen2.5-VL with the true time of every frame (arXiv 2502.13923, section 2.1.3: absolute time).

The published positions are kept wherever frames are evenly spaced. Two things differ from transformers 5: times come
from the clip instead of an average frame rate, and the text after a video begins behind its largest position, as in
the code the models were released and trained with (transformers 5 starts it behind the video's height and width only,
so that it overlaps with the later frames of a long clip).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch

TEXT, IMAGE, VIDEO = 0, 1, 2


def timed_positions(
    kinds: torch.Tensor,
    image_grids: torch.Tensor,
    video_grids: torch.Tensor,
    times: Sequence[Sequence[float]],
    merge: int,
    tokens_per_second: float,
) -> torch.Tensor:
    """Temporal, height and width position of every token of one sequence.

    Args:
        kinds: [n] of each token: 0 text, 1 image, 2 video (the processor's ``mm_token_type_ids``).
        image_grids, video_grids: [·, 3] patches in time, height and width, before merging.
        times: of each video, one time in seconds for each step of its grid, rising.
        merge: patches of one axis that become one token.
        tokens_per_second: positions that one second takes on the temporal axis.

    Returns:
        int64 [3, n].
    """
    images, videos, clocks = iter(image_grids.tolist()), iter(video_grids.tolist()), iter(times)
    parts, start = [], 0
    for kind, run in groupby(kinds.tolist()):
        length = len(list(run))
        while length > 0:
            if kind == TEXT:
                part = torch.arange(length).expand(3, -1)
            elif kind == IMAGE:
                part = _grid(next(images), [0.0], merge)
            else:
                clock = next(clocks)
                part = _grid(next(videos), [(time - clock[0]) * tokens_per_second for time in clock], merge)
            parts.append(part + start)
            start = int(parts[-1].max()) + 1
            length -= part.shape[1]  # media that touch each other are one run of their kind
    return torch.cat(parts, dim=1)


def _grid(grid: Sequence[int], steps: Sequence[float], merge: int) -> torch.Tensor:
    """Positions [3, t·h·w] of one image or video, from zero; ``steps`` are its temporal ones, not yet whole."""
    # Truncated, as published; the margin keeps products such as 0.7 s · 10 from falling just below a whole number.
    temporal = (torch.tensor(steps, dtype=torch.float64) + 1e-6).floor().long()
    height, width = torch.arange(grid[1] // merge), torch.arange(grid[2] // merge)
    return torch.stack(torch.meshgrid(temporal, height, width, indexing="ij")).reshape(3, -1)
