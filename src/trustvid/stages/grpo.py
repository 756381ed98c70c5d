"""``python train.py stage=grpo``: the Robust-TO policy, trained on its own trajectories.

The run folder gets ``rollouts.jsonl`` (a line for each trajectory), ``checkpoints/``, curves (CSV, TensorBoard) and
``policy/``, which ``policy.init_from`` takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.config.checking import build, target_attribute
from trustvid.config.schema import DEFAULT_BASELINE
from trustvid.errors import DataError
from trustvid.evaluation.scored import QUESTIONS, score_run
from trustvid.evaluation.store import TEST_CONFIG, RunFolder, RunWriter
from trustvid.grpo.settings import group_faults
from trustvid.stages.common import NOT_OF_TRAINING, opened, plain_config

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from trustvid.benchmarks.sample import Sample
    from trustvid.module import RobustTO
    from trustvid.training.held_out import HeldOutQuestions

NOT_IN_HASH = (
    *NOT_OF_TRAINING,
    "print_every",
    *(f"rollout.{name}" for name in ("batch_size", "base_url", "adapter_dir", "adapter_name", "concurrency")),
    *(f"rollout.{name}" for name in ("key_env", "timeout_s", "max_retries", "backoff_s")),
)
TRAINED_SPLIT = "train"


@dataclass(frozen=True)
class GrpoConfig:
    """Settings of the stage that belong to no component. conf/stage/grpo.yaml says what each means."""

    stage: str
    name: str
    seed: int = 0
    fresh: bool = False
    limit: int | None = None
    data_dir: str | None = None
    steps: int = 200
    questions_per_step: int = 8
    num_generations: int = 8
    num_iterations: int = 1
    micro_batch: int = 8
    sample_only: bool = False
    entropy_on: str = "tools"
    frames: int = 8
    tool_time_limit_s: float = 60.0
    window_s: float = 2.0
    tool_device: str = "auto"
    checkpoint_every: int | None = None
    print_every: int = 10
    benchmark: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    prompts: dict[str, Any] = field(default_factory=dict)
    reader: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, Any] = field(default_factory=dict)
    corruption: dict[str, Any] = field(default_factory=dict)
    methods: dict[str, Any] = field(default_factory=dict)
    disturbance: dict[str, Any] = field(default_factory=dict)
    mstar: dict[str, Any] = field(default_factory=dict)
    reward: dict[str, Any] = field(default_factory=dict)
    loss: dict[str, Any] = field(default_factory=dict)
    advantage: dict[str, Any] = field(default_factory=dict)
    rollout: dict[str, Any] = field(default_factory=dict)
    adapter: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    test: dict[str, Any] | None = None
    trainer: dict[str, Any] = field(default_factory=dict)
    logger: dict[str, Any] = field(default_factory=dict)
    scale: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)

    def faults(self) -> Iterator[str]:
        """What is wrong with the values, field by field and between fields."""
        yield from group_faults(self.num_generations)
        for name in ("steps", "questions_per_step", "num_iterations", "micro_batch", "frames"):
            if getattr(self, name) < 1:
                yield f"{name}={getattr(self, name)}; expected at least 1"
        for name in ("limit", "checkpoint_every"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                yield f"{name}={getattr(self, name)}; expected at least 1, or null"
        if self.entropy_on not in ("tools", "all"):
            yield f"entropy_on={self.entropy_on} is unknown; known: tools, all"
        if len(self.methods) != 1:
            yield f"methods={list(self.methods)}: one policy is trained in one method; expected one, e.g. [trained]"
        split = self.benchmark.get("split")
        if split != TRAINED_SPLIT:
            yield f"benchmark.split={split}: expected {TRAINED_SPLIT}; nothing is learnt from dev, val and test"
        if target_attribute(self.policy, "converse", unknown=True) is None:
            yield (
                f"policy {self.policy.get('_target_')} has no weights to train; expected a vision-language model of "
                "this process, e.g. tiny_qwen2_5_vl or qwen2_5_vl_7b"
            )
        if not self.name or Path(self.name).name != self.name:
            yield f"name={self.name!r} cannot name a folder; expected a plain name without slashes"


def run(cfg: DictConfig) -> Path:
    """Train and return the run folder.

    Raises:
        ConfigError: the config cannot run; all faults together.
        DataError: the benchmark cannot be read, or has too few questions.
        TrustvidError: weights are missing (the message has the way out).
    """
    from trustvid.training.run import fit

    config = plain_config(cfg)
    typed, folder, info = opened(config, GrpoConfig, "grpo", NOT_IN_HASH)
    print(f"run folder {folder.path}")
    samples = questions(config, typed)
    path = fit(lambda writer: assemble(config, typed, samples, writer, folder.path), config, folder, info)
    if typed.test is not None and folder.load("predictions").records:
        score_run(folder, DEFAULT_BASELINE)
    return path


def questions(config: Mapping[str, Any], typed: GrpoConfig) -> list[Sample]:
    """The questions that are trained on.

    Raises:
        DataError: fewer than a step takes.
    """
    from trustvid.benchmarks.splits import choose

    benchmark = build(config["benchmark"])
    found, rejected = benchmark.samples()
    samples = choose(found, typed.limit, typed.seed)
    print(f"{benchmark.name}: {len(samples)} questions on {len({s.cluster for s in samples})} videos to train on")
    for row in rejected:
        print(f"  left out: {row.id}: {row.reason}")
    if len(samples) < typed.questions_per_step:
        raise DataError(f"{benchmark.name}: {len(samples)} questions; a step takes {typed.questions_per_step}")
    return samples


def assemble(
    config: Mapping[str, Any],
    typed: GrpoConfig,
    samples: Sequence[Sample],
    writer: RunWriter | None = None,
    folder: Path | None = None,
) -> RobustTO:
    """The module of a run, with everything that it samples from.

    Args:
        writer: of the run folder, which rollouts are appended to; None = they are not kept.
        folder: the run folder, where a server finds the adapter unless the config names another place.
    """
    from trustvid.agent.assembly import build_pipelines
    from trustvid.grpo.records import RolloutLog
    from trustvid.grpo.video_episodes import VideoEpisodes
    from trustvid.module import RobustTO
    from trustvid.training.order import StepOrder

    (pipeline,) = build_pipelines(config, Path(config["paths"]["cache"]) / "tools").values()
    policy, mstar, reward, engine = (build(config[name]) for name in ("policy", "mstar", "reward", "rollout"))
    if engine.is_remote and engine.adapter_dir is None and folder is not None:
        engine.adapter_dir = str((folder / "adapter").absolute())
    environment = VideoEpisodes(
        samples,
        pipeline,
        build(config["reader"]),
        {name: build(node) for name, node in config["corruption"].items()},
        build(config["disturbance"]),
        mstar,
        score,
        typed.seed,
    )
    log = keep = asked = None
    if writer is not None:
        keep = partial(writer.append, "predictions")
        if typed.test is not None:
            asked = held_out(config, {next(iter(typed.methods)): pipeline}, policy.name, writer)
        log = RolloutLog(lambda records: writer.append("rollouts", records), reward, print_every=typed.print_every)
    module = RobustTO(
        policy,
        build(config["adapter"]),
        build(config["optimizer"]),
        StepOrder(len(samples), typed.questions_per_step, typed.seed),
        typed.steps,
        environment,
        engine,
        reward,
        build(config["loss"]),
        build(config["advantage"]),
        typed.num_generations,
        typed.num_iterations,
        sample_only=typed.sample_only,
        entropy_on=typed.entropy_on,
        micro_batch=typed.micro_batch,
        seed=typed.seed,
        reliability=pipeline.method.reliability,
        on_rollouts=log,
        tests=asked,
        on_predictions=keep,
    )
    if mstar.asks_policy:
        mstar.bind(policy)
    return module


def held_out(
    config: Mapping[str, Any], pipelines: Mapping[str, Any], policy: str, writer: RunWriter
) -> HeldOutQuestions:
    """What is asked when the training is over and has no answer yet; the run folder gets what scoring must know.

    Args:
        config: of the training.
        pipelines: of the method that is trained, by its name.
        policy: its name.
        writer: of the run folder.

    Raises:
        DataError: the benchmark cannot be read.
    """
    from trustvid.training.held_out import HeldOutQuestions

    done = RunFolder(writer.path).done_keys()
    asked = HeldOutQuestions(build(config["test"]).config_of(config), pipelines, done)
    writer.write_json(QUESTIONS, asked.about(policy))
    writer.write_yaml(TEST_CONFIG, asked.config)
    return asked


def score(sample: Sample, answer: str | None) -> float:
    """1 for the right option, 0 for another or none; numbers by mean relative accuracy."""
    from trustvid.evaluation.scoring import mean_relative_accuracy

    if sample.kind == "numeric":
        return mean_relative_accuracy(None if answer is None else float(answer), float(sample.answer))
    return float(answer == sample.answer)
