"""Held-out questions at the end of a training run, answered by the evaluation's own runner with the trained network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trustvid.benchmarks.sample import Sample
from trustvid.benchmarks.splits import choose
from trustvid.config.checking import build
from trustvid.errors import ConfigError
from trustvid.evaluation import runner
from trustvid.evaluation.scored import about_questions

if TYPE_CHECKING:
    from trustvid.agent.pipeline import Pipeline
    from trustvid.policy.base import Policy

TRAINED_SPLIT = "train"


@dataclass(frozen=True)
class HeldOut:
    """Which questions are asked when the training is over (config group ``test``).

    Attributes:
        split: of the benchmark that is trained on; never the one that is learned from.
        n_videos: of a generated benchmark, None = as many as are trained on.
        limit: only the first N questions, whole videos; None = all.
        severity, coverage: of the corruptions that training may meet (config group ``corruption``), beside clean.
        seed: of their pixels and of the choice by ``limit``: runs of other seeds are asked the same.

    Raises:
        ConfigError: with all faults.
    """

    split: str = "val"
    n_videos: int | None = None
    limit: int | None = None
    severity: int = 3
    coverage: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        faults = []
        if self.split == TRAINED_SPLIT:
            faults.append(f"test.split={self.split}: these questions are trained on; expected dev, val or test")
        for name in ("n_videos", "limit"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                faults.append(f"test.{name}={getattr(self, name)}; expected at least 1, or null")
        if not 1 <= self.severity <= 5:
            faults.append(f"test.severity={self.severity}; expected 1 to 5")
        if not 0 < self.coverage <= 1:
            faults.append(f"test.coverage={self.coverage}; expected a share of the frames above 0, up to 1")
        if faults:
            raise ConfigError(faults)

    def config_of(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The config of a training run as that of an evaluation: what the runner reads of it."""
        benchmark = {**config["benchmark"], "split": self.split}
        if self.n_videos is not None and "n_videos" in benchmark:
            benchmark["n_videos"] = self.n_videos
        own = {"severity": self.severity, "coverage": self.coverage, "seed": self.seed, "limit": self.limit}
        fixed = {"suites": {}, "on_error": "skip", "save_trajectories": False}
        return {**config, **own, **fixed, "benchmark": benchmark}


class HeldOutQuestions:
    """The questions of :class:`HeldOut`, video by video.

    Args:
        config: of the evaluation (:meth:`HeldOut.config_of`).
        pipelines: of the method that is trained.
        done: keys of the predictions that are there already.

    Raises:
        DataError: the benchmark cannot be read.
    """

    def __init__(self, config: Mapping[str, Any], pipelines: Mapping[str, Pipeline], done: set[tuple[str, str, str]]):
        self.config, self.pipelines, self.benchmark = dict(config), pipelines, build(config["benchmark"])
        found, self.rejected = self.benchmark.samples()
        self.samples: list[Sample] = choose(found, config["limit"], config["seed"])
        by_video: dict[str, list[Sample]] = {}
        for sample in self.samples:
            by_video.setdefault(str(sample.video), []).append(sample)
        self._units = [
            {
                "video": video,
                "samples": [runner.sample_record(sample) for sample in samples],
                "done": sorted(list(key) for key in done if key[0] in {sample.id for sample in samples}),
            }
            for video, samples in by_video.items()
        ]

    def __len__(self) -> int:
        """Videos."""
        return len(self._units)

    def about(self, policy: str) -> dict[str, Any]:
        """What the predictions are of, for scoring: :func:`~trustvid.evaluation.scored.about_questions`."""
        return about_questions(self.config, self.samples, self.rejected, self.benchmark, policy)

    def answer(self, at: int, policy: Policy) -> Iterator[list[dict[str, Any]]]:
        """Predictions on one video that are not there yet, in groups; see :func:`runner.answer_video`."""
        config = self.config
        corruptions = {name: build(node) for name, node in config["corruption"].items()}
        worker = runner.Worker(config, self.pipelines, policy, build(config["reader"]), corruptions)
        for group in runner.answer_video(worker, self._units[at]):
            yield [record["prediction"] for record in group]


def accuracy_of(predictions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Mean score of the scored predictions, by condition; conditions without one are left out."""
    scores: dict[str, list[float]] = {}
    for one in predictions:
        if one["score"] is not None:
            scores.setdefault(one["condition"], []).append(float(one["score"]))
    return {condition: sum(found) / len(found) for condition, found in scores.items()}
