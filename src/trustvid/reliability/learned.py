"""Learned frame reliability: what a network sees in the pixels, weighed with the clip-relative channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from trustvid.reliability.measures import Measurer, measure_clip
from trustvid.reliability.profile import Profile
from trustvid.reliability.ramps import CHANNELS, RAMPS, relative_ramps
from trustvid.video.sampling import uniform_indices
from trustvid.video.source import FrameSource

if TYPE_CHECKING:
    from trustvid.reliability.learned_files import Artefact
    from trustvid.reliability.learned_net import FrameReliabilityNet

MOST_FRAMES = 64  # frames of a clip that are decoded at most
AT_ONCE = 16  # frames held and looked at together


class Learned:
    """Yields by a trained network; channels as those of ``Relative``, measured rather than predicted.

    The network adds what single numbers of a frame cannot say; the channels add what a single frame cannot know, what
    is usual in its clip. ``python train.py stage=reliability`` trains both together (``learned_fit.calibrate_heads``).

    It uses as many threads as PyTorch has been given: one in each worker of an evaluation.

    Args:
        max_frames: frames that are profiled, uniform and end-inclusive, 1–64.
        weights: folder of the trained weights; looked at when they are first needed.

    Raises:
        ValueError: ``max_frames`` is out of range.
    """

    name = "learned"
    channels: Literal["relative"] = "relative"

    def __init__(self, max_frames: int = 64, weights: str = "outputs/reliability/weights"):
        if not 1 <= max_frames <= MOST_FRAMES:
            raise ValueError(f"reliability.max_frames={max_frames}; expected 1 to {MOST_FRAMES}")
        self.max_frames, self.weights = max_frames, str(weights)
        self._loaded: tuple[Artefact, FrameReliabilityNet] | None = None

    @property
    def network(self) -> FrameReliabilityNet:
        """The trained network, loaded when first asked for.

        Raises:
            DataError: as :meth:`load`.
        """
        self.load()
        return self._loaded[1]

    def load(self) -> Artefact:
        """Load the weights, once, and return what is known of them.

        Raises:
            DataError: they are missing (the message says how to train them) or broken.
        """
        if self._loaded is None:
            from trustvid.reliability.learned_files import load_artefact

            self._loaded = load_artefact(self.weights)
        return self._loaded[0]

    def profile(self, clip: FrameSource, measure: Measurer = measure_clip) -> Profile:
        """Profile ≤ ``max_frames`` frames: d, ``raw`` and ramps as of ``Relative``, yields of the tools it learnt.

        Raises:
            DataError: see :meth:`load`.
            VideoError: the clip cannot be decoded.
        """
        from trustvid.reliability.learned_fit import yield_features

        artefact = self.load()
        indices = uniform_indices(clip.n_frames, self.max_frames)
        ramps = relative_ramps(measure(clip, indices))
        network = self._network(clip, indices)
        yields = {
            tool: artefact.yields[tool].predict(yield_features(network[:, place], ramps))
            for place, tool in enumerate(artefact.tools)
        }
        raw = {channel: ramps[:, RAMPS.index(f"{channel}1")] for channel in CHANNELS}
        return Profile(tuple(indices), ramps[:, 1::2].max(axis=1), raw, ramps, yields)

    def _network(self, clip: FrameSource, indices: Sequence[int]) -> np.ndarray:
        """[len(indices), tools] the network's log-odds; few frames are held at a time."""
        from trustvid.reliability.learned_fit import predict
        from trustvid.reliability.learned_views import frame_view

        artefact, net = self._loaded
        found = []
        for start in range(0, len(indices), AT_ONCE):
            some = indices[start : start + AT_ONCE]
            views = np.stack([frame_view(clip.frames([index])[0], artefact.backbone.size) for index in some])
            found.append(predict(net, views, AT_ONCE)["yields"])
        return np.concatenate(found)
