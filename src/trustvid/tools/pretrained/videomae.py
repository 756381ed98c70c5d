"""recognize_action by VideoMAE: the likeliest action class of each dense window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trustvid.errors import ConfigError
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.pretrained.actions import INSTEAD, action_faults, describe_actions
from trustvid.tools.pretrained.checkpoint import Checkpoint
from trustvid.tools.pretrained.models import Architecture, Loaded, load


class VideoMae:
    """VideoMAE (Tong et al., arXiv 2203.12602) with the head of its checkpoint (Kinetics-400 by default).

    The network classifies clips of 16 frames; it was trained on 16 frames spread over two seconds, which is the width
    of a window unless the run says otherwise (``window_s``). The frames of a window (up to ten a second) are brought to
    16 by :func:`spread`: of more, an even choice; of fewer, each is repeated equally often, give or take one.

    A window is one clip and is given to the tool alone, so there is no batch size: what goes through the network at a
    time does not grow with the number of windows.

    Observations: kind "action", label = the class, score = its softmax probability, frame and time = the window's
    first, values ``end_frame`` and ``end_time`` = its last. Nothing is told of the camera's motion.

    Args:
        model, revision, device, dtype, offline: see :class:`~trustvid.tools.pretrained.checkpoint.Checkpoint`.
        min_score: actions with a lower probability are not told, 0–1.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    name = "recognize_action"
    cost = 0.60  # paper Table 17
    version = "2"
    span = "window"
    reads_query = False
    architecture = Architecture("VideoMAEForVideoClassification", "VideoMAEImageProcessor", INSTEAD)

    def __init__(
        self,
        model: str = "MCG-NJU/videomae-base-finetuned-kinetics",
        revision: str | None = None,
        device: str = "auto",
        dtype: str = "auto",
        offline: bool = False,
        min_score: float = 0.2,
    ):
        self.checkpoint = Checkpoint(model, revision, device, dtype, offline)
        faults = list(action_faults(self.checkpoint, min_score))
        if faults:
            raise ConfigError(faults)
        self.min_score = float(min_score)

    def load(self) -> Loaded:
        """The model, in memory from the first call on.

        Raises:
            TrustvidError: it cannot be loaded; the message has the way out.
        """
        return load(self.checkpoint, self.architecture)

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        """At most one observation, of the whole window."""
        model = self.load()
        places = spread(len(batch.images), model.network.config.num_frames)
        used = sorted(set(places))
        with model.in_use():
            pixels = model.pixels([[batch.images[place] for place in used]], model.processor)[0]
            clip = pixels[[used.index(place) for place in places]]
            shares = model.network(pixel_values=clip[None]).logits.float().softmax(-1)[0]
            best = int(shares.argmax())
            score = float(shares[best])
        if score < self.min_score:
            return [[]]
        label = str(model.network.config.id2label[best])
        ends = {"end_frame": batch.indices[-1], "end_time": batch.times[-1]}
        return [[Observation(batch.indices[0], batch.times[0], "action", label, round(score, 4), values=ends)]]

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        """The actions by first sight, and the mean top-1 probability."""
        return describe_actions(observations)

    def settings(self) -> dict:
        """All constructor arguments that matter to the output, and which weights they are."""
        return {"backend": "videomae", **self.checkpoint.settings(), "min_score": self.min_score}


def spread(n_frames: int, count: int) -> list[int]:
    """Places of ``count`` instants of a clip among ``n_frames`` frames, evenly: the middles of ``count`` equal parts.

    >>> spread(21, 16)
    [0, 1, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 20]
    >>> spread(3, 16)
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]
    """
    return np.floor((np.arange(count) + 0.5) * n_frames / count).astype(int).tolist()
