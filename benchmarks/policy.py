"""Batched generation against one conversation at a time, on the tiny policy.

    python benchmarks/policy.py [--family qwen2_5_vl] [--requests 32] [--batch-size 16] [--tokens 64] [--threads 1]

Both ways give the same replies; what differs is how often the weights are read for one token.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np

from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.tiny import TINY_FAMILIES, TinyPolicy


class NoiseClip:
    """Eight seconds of noise, held in memory."""

    video_id = digest = "noise"
    n_frames, height, width, fps = 80, 84, 112, 10.0
    timestamps = np.arange(80) / 10.0

    def __init__(self) -> None:
        shape = (self.n_frames, self.height, self.width, 3)
        self._frames = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)

    def frames(self, indices: list[int]) -> np.ndarray:
        return self._frames[list(indices)]

    def frame_key(self, index: int) -> str:
        return "clean"


def conversations(number: int) -> list[PolicyRequest]:
    """Questions of unlike length about eight frames of a clip."""
    clip = NoiseClip()
    return [
        PolicyRequest(
            (
                Message("system", "You answer questions about a video."),
                Message("user", "Where is the red car? " * (1 + place % 4), tuple(range(place % 10, 80, 10))),
            ),
            clip,
        )
        for place in range(number)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--family", choices=TINY_FAMILIES, default="qwen2_5_vl")
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64, help="most tokens of a reply")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3, help="the best of these counts: others share the machine")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(arguments.threads)
    requests = conversations(arguments.requests)
    with tempfile.TemporaryDirectory() as cache:
        settings = {"max_new_tokens": arguments.tokens}
        batched = TinyPolicy(arguments.family, cache, **settings, batch_size=arguments.batch_size)
        alone = TinyPolicy(arguments.family, cache, **settings, batch_size=1)
        replies, seconds = {}, {}
        for name, policy in (("one by one", alone), (f"batches of {arguments.batch_size}", batched)):
            policy.generate(requests[:2])  # weights and first-call costs
            taken = []
            for _ in range(arguments.repeats):
                started = time.perf_counter()
                replies[name] = policy.generate(requests)
                taken.append(time.perf_counter() - started)
            seconds[name] = min(taken)
    slow, fast = seconds.values()
    assert len({tuple(replies[name]) for name in replies}) == 1, "a batch changed a reply"
    tokens = sum(len(batched.loaded.tokens_of(reply)) for reply in replies["one by one"])
    print(f"{'':<20}{'seconds':>10}{'tokens/s':>10}")
    for name, took in seconds.items():
        print(f"{name:<20}{took:>10.2f}{tokens / took:>10.0f}")
    print(f"ratio {slow / fast:.1f} (target 3)")


if __name__ == "__main__":
    main()
