"""Relevance of frames to a question by the policy itself: how likely it says yes when asked whether a frame helps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trustvid.errors import ConfigError, TrustvidError
from trustvid.policy.base import Message, Policy, PolicyRequest
from trustvid.tools.executor import Executor
from trustvid.tools.relevance import quantile
from trustvid.video.sampling import uniform_indices
from trustvid.video.source import FrameSource

SCALES = ("probability", "quantile")
REPLIES = ("yes", "no")
ASKED = """This is one frame of a video. There is a question about the whole video:

{question}

Does this frame show anything that helps to answer it? Reply with one word in lower case, yes or no."""


class ByPolicy:
    """Relevance as P(yes) of a yes/no question about each frame, normalised over yes and no.

    P = p(yes) / (p(yes) + p(no)), p the probability of the reply's tokens. The policy sees one frame at a time and the
    question without its options, in a conversation of its own. Only ``max_rated`` of the profiled frames are rated, at
    two replies each: the cost of a question is 2 · ``max_rated`` prompts of one frame, in batches, for each condition
    and method. Ratings are not stored on disk: what a policy says changes with its training.

    Args:
        policy: who rates; one with ``logprobs`` (a vision-language model in this process).
        max_rated: frames that are rated, uniform among the profiled; the others take the nearest one's rating.
        scale: "probability" = P as it is. θ_sim = .30 then discards none, some or all of the frames, by what the policy
            says. "quantile" = rank within the clip (:func:`~trustvid.tools.relevance.quantile`): θ_sim = .30 discards
            up to 30 % of the frames, in whole groups around a rated frame (a quarter of them, of 64 with 16 rated).

    Raises:
        ConfigError: settings are wrong, or the policy cannot say how likely a reply is; all faults at once.
    """

    name = "policy"

    def __init__(self, policy: Policy, max_rated: int = 16, scale: str = "probability"):
        faults = []
        if not hasattr(policy, "logprobs"):
            faults.append(
                f"relevance=policy: policy {getattr(policy, 'name', policy)} cannot say how likely a reply is (it has "
                "no logprobs); use a policy with weights in this process (policy=qwen2_5_vl_7b, "
                "policy=tiny_qwen2_5_vl, …), let one of them only rate "
                "(+policy@methods.NAME.relevance.policy=tiny_qwen2_5_vl), or relevance=lexical, which asks no policy"
            )
        if max_rated < 1:
            faults.append(f"relevance.max_rated={max_rated!r}; expected at least 1")
        if scale not in SCALES:
            faults.append(f"relevance.scale={scale!r} is unknown to ByPolicy; known: {', '.join(SCALES)}")
        if faults:
            raise ConfigError(faults)
        self.policy, self.max_rated, self.scale = policy, max_rated, scale

    def load(self) -> None:
        """The policy's weights, in memory from now on.

        Raises:
            TrustvidError: they cannot be loaded; the message has the way out.
        """
        if hasattr(self.policy, "load"):
            self.policy.load()

    def relevance(
        self, clip: FrameSource, indices: Sequence[int], question: str, words: Sequence[str], executor: Executor
    ) -> np.ndarray:
        """Rating of each frame's nearest rated one, scaled, [len(indices)] in [0, 1]; no tool is asked.

        Raises:
            TrustvidError: the policy failed, on frames that cannot be decoded for one, or gave no finite number.
        """
        rated = [indices[place] for place in uniform_indices(len(indices), self.max_rated)]
        # Of two equally near the earlier one.
        nearest = np.abs(np.asarray(indices)[:, None] - np.asarray(rated)[None, :]).argmin(axis=1)
        log_odds = self._log_odds(clip, rated, question)[nearest]
        # Ranks are those of the log-odds: probabilities of a policy that says no throughout differ too little.
        return quantile(log_odds) if self.scale == "quantile" else 1.0 / (1.0 + np.exp(-log_odds))

    def _log_odds(self, clip: FrameSource, frames: Sequence[int], question: str) -> np.ndarray:
        """[len(frames)] ln p(yes) − ln p(no)."""
        text = ASKED.format(question=question)
        requests = [PolicyRequest((Message("user", text, (frame,)),), clip) for frame in frames]
        pairs = [(request, reply) for request in requests for reply in REPLIES]
        try:
            tokens = self.policy.logprobs(*zip(*pairs, strict=True))
        except TrustvidError as error:
            raise TrustvidError(f"{clip.video_id}: relevance=policy: {error}") from error
        yes, no = np.array([sum(each) for each in tokens]).reshape(-1, len(REPLIES)).T
        if not (np.isfinite(yes).all() and np.isfinite(no).all()):
            raise TrustvidError(f"{clip.video_id}: relevance=policy: probabilities are not finite; try dtype=float32")
        return yes - no
