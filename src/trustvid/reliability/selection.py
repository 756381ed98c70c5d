"""Frame selection: which K frames the policy and the tools get to see."""

from __future__ import annotations

import numpy as np

from trustvid.reliability.profile import Profile
from trustvid.video.sampling import uniform_indices


class Uniform:
    """K frames, uniform and end-inclusive, whatever their reliability. The grid of ``blind``."""

    name = "uniform"

    def select(self, profile: Profile, n_frames: int, k: int) -> tuple[int, ...]:
        """Rising, distinct source indices, min(k, n_frames) of them."""
        return tuple(uniform_indices(n_frames, k))


class PaperTopK:
    """Eq. 3 taken literally: the K best-scoring eligible frames, wherever they lie in time.

    s(f) = (1 − d(f)) · sim(f, q) over F = {f: 1 − d ≥ θ_rel and sim ≥ θ_sim}; frames outside F are discarded. With no
    relevance model sim is 1 for every frame. One repair: the original hands zero frames to its tools when nothing is
    eligible; here at least ``k_min`` frames are kept, the best of the discarded ones filling up.

    Args:
        theta_rel: least frame reliability, θ_rel (Table 15).
        theta_sim: least relevance, θ_sim (Table 15).
        k_min, k_max: bounds of K (Table 15).
    """

    name = "paper"

    def __init__(self, theta_rel: float = 0.55, theta_sim: float = 0.30, k_min: int = 4, k_max: int = 12):
        if not 1 <= k_min <= k_max:
            raise ValueError(f"selection: k_min={k_min}, k_max={k_max}; expected 1 ≤ k_min ≤ k_max")
        self.theta_rel, self.theta_sim, self.k_min, self.k_max = theta_rel, theta_sim, k_min, k_max

    def select(self, profile: Profile, n_frames: int, k: int) -> tuple[int, ...]:
        """Rising, distinct source indices: at most K, fewer when fewer are eligible. Ties go to the earlier frame."""
        k = min(max(k, self.k_min), self.k_max)
        relevance = np.ones(len(profile.indices))
        score = profile.reliability * relevance
        eligible = (profile.reliability >= self.theta_rel) & (relevance >= self.theta_sim)
        order = sorted(range(len(score)), key=lambda i: (not eligible[i], -score[i], i))
        keep = min(k, max(int(eligible.sum()), self.k_min))
        return tuple(sorted(profile.indices[i] for i in order[:keep]))
