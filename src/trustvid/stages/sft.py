"""``python train.py stage=sft``: a policy that learns to reply as examples do.

IF-Captioner from instruction–response pairs, the warm start of Robust-TO from a teacher's trajectories, the supervised
baselines (bare answers; the best passes of a run). The run folder gets ``examples.jsonl`` (the names of what is learned
and held out), ``checkpoints/``, curves (CSV, TensorBoard) and ``policy/``, which ``policy.init_from`` takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.config.checking import build, target_attribute
from trustvid.errors import ConfigError
from trustvid.evaluation.store import RunWriter
from trustvid.stages.common import NOT_OF_TRAINING, opened, plain_config

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from trustvid.captioner import IFCaptioner
    from trustvid.training.data.base import Examples
    from trustvid.training.order import StepOrder

# Groups that not every source of examples reads.
SOMETIMES_READ = ("benchmark", "captioning", "corruption", "disturbance", "methods", "tools")
TRAINED_SPLIT = "train"
EVIDENCE = ("tools", "none")


@dataclass(frozen=True)
class SftConfig:
    """Settings of the stage that belong to no component. conf/stage/sft.yaml says what each means."""

    stage: str
    name: str
    seed: int = 0
    fresh: bool = False
    limit: int | None = None
    data_dir: str | None = None
    epochs: float = 2.0
    steps: int | None = None
    phases: list[Any] = field(default_factory=list)
    batch_size: int = 16
    micro_batch: int = 4
    max_tokens: int | None = None
    emphasis: dict[str, float] = field(default_factory=dict)
    frames: int = 8
    evidence: str = "none"
    tool_time_limit_s: float = 60.0
    window_s: float = 2.0
    tool_device: str = "auto"
    checkpoint_every: int | None = None
    workers: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    benchmark: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    prompts: dict[str, Any] = field(default_factory=dict)
    captioning: dict[str, Any] = field(default_factory=dict)
    reader: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, Any] = field(default_factory=dict)
    corruption: dict[str, Any] = field(default_factory=dict)
    disturbance: dict[str, Any] = field(default_factory=dict)
    methods: dict[str, Any] = field(default_factory=dict)
    adapter: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    trainer: dict[str, Any] = field(default_factory=dict)
    logger: dict[str, Any] = field(default_factory=dict)
    scale: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)

    def faults(self) -> Iterator[str]:
        """What is wrong with the values, field by field and between fields."""
        for name in ("batch_size", "micro_batch", "frames", "steps", "max_tokens", "limit", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                yield f"{name}={value}; expected at least 1"
        if self.workers is not None and self.workers < 0:
            yield f"workers={self.workers}; expected 0 or more"
        if not self.epochs > 0:
            yield f"epochs={self.epochs}; expected more than 0"
        if self.evidence not in EVIDENCE:
            yield f"evidence={self.evidence} is unknown; known: {', '.join(EVIDENCE)}"
        processes = int(self.trainer.get("devices", 1)) * int(self.trainer.get("num_nodes", 1))
        if processes > 0 and self.batch_size % processes:
            yield f"batch_size={self.batch_size} cannot be dealt to {processes} processes evenly (trainer.devices)"
        yield from self._phase_faults()
        yield from self._data_faults()
        if target_attribute(self.policy, "converse", unknown=True) is None:
            yield (
                f"policy {self.policy.get('_target_')} has no weights to train; expected a vision-language model of "
                "this process, e.g. tiny_qwen2_5_vl or qwen2_5_vl_7b"
            )
        if not self.name or Path(self.name).name != self.name:
            yield f"name={self.name!r} cannot name a folder; expected a plain name without slashes"

    def _phase_faults(self) -> Iterator[str]:
        for phase in self.phases:
            if not isinstance(phase, Mapping) or set(phase) != {"part", "steps"} or not isinstance(phase["steps"], int):
                yield f"phases: {phase!r}; expected {{part: …, steps: …}}, a part of the data and a number of steps"
        if self.phases and self.steps is not None:
            yield f"steps={self.steps} beside phases, which have their own; expected one of them"

    def _data_faults(self) -> Iterator[str]:
        """What the source of the examples needs, and what it must not learn from."""
        reads = source_reads(self.data)
        split = self.benchmark.get("split")
        if "benchmark" in reads and split != TRAINED_SPLIT:
            yield f"benchmark.split={split}: expected {TRAINED_SPLIT}; nothing is learned from dev, val and test"
        if "methods" in reads and len(self.methods) != 1:
            yield f"methods={list(self.methods)}: examples are turns of one method; expected one, e.g. [trained]"
        if "captioning" in reads and self.captioning.get("thinking", "none") != "none":
            yield (
                f"captioning.thinking={self.captioning['thinking']}: the responses hold no thoughts to learn; expected "
                "captioning.thinking=none"
            )


def source_reads(node: Mapping[str, Any]) -> tuple[str, ...]:
    """The groups of the config that the source of a ``data`` node reads; none where it cannot be found (that is
    another fault)."""
    return target_attribute(node, "reads", unknown=()) or ()


def only_read(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config without the groups that its data does not read: they neither bind it nor make it another run."""
    reads = source_reads(config["data"])
    unread = {group: {} for group in SOMETIMES_READ if group not in reads}
    if "captioning" in reads and config.get("evidence") != "tools":
        unread["tools"] = {}
    return {**config, **unread}


def run(cfg: DictConfig) -> Path:
    """Train and return the run folder.

    Raises:
        ConfigError: the config cannot run; all faults together.
        DataError: the examples cannot be read, or there are too few.
        TrustvidError: weights are missing (the message has the way out).
    """
    from trustvid.training.run import fit

    config = only_read(plain_config(cfg))
    typed, folder, info = opened(config, SftConfig, "sft", NOT_OF_TRAINING)
    print(f"run folder {folder.path}")
    examples = build(config["data"]).load(config)
    print("\n".join(examples.lines()))
    name = config["benchmark"]["name"] if "benchmark" in source_reads(config["data"]) else "examples"
    info = replace(info, datasets={name: examples.digest}, seeds={"seed": typed.seed})
    return fit(lambda writer: assemble(config, typed, examples, writer), config, folder, info)


def assemble(config: Mapping[str, Any], typed: SftConfig, examples: Examples, writer: RunWriter | None) -> IFCaptioner:
    """The module of a run.

    Args:
        writer: of the run folder, which the names of the examples are written to; None = they are not.

    Raises:
        ConfigError: there are fewer examples than a step takes, or a phase names a part that there is not.
    """
    from trustvid.captioner import IFCaptioner
    from trustvid.training.conversations import Emphasis

    order, steps = schedule(typed, examples.parts)
    module = IFCaptioner(
        build(config["policy"]),
        build(config["adapter"]),
        build(config["optimizer"]),
        order,
        steps,
        examples.learned,
        Emphasis(typed.emphasis) if typed.emphasis else None,
        held_out=examples.held_out,
        micro_batch=typed.micro_batch,
        seed=typed.seed,
        max_tokens=typed.max_tokens,
    )
    if writer is not None and not (writer.path / "examples.jsonl").exists():
        writer.append("examples", _names(examples))
    return module


def schedule(typed: SftConfig, parts: Sequence[str]) -> tuple[StepOrder, int]:
    """The order of the examples and the number of steps.

    Args:
        parts: of each example, which part of the data it is.

    Raises:
        ConfigError: as :func:`assemble`.
    """
    from trustvid.training.order import PhasedOrder, StepOrder

    if not typed.phases:
        order = StepOrder(len(parts), typed.batch_size, typed.seed)
        return order, typed.steps or max(1, round(typed.epochs * order.per_epoch))
    unknown = [phase["part"] for phase in typed.phases if phase["part"] not in parts]
    if unknown:
        raise ConfigError(
            [f"phases: part {name} is none of the data's: {', '.join(sorted(set(parts)))}" for name in unknown]
        )
    phases = [
        ([place for place, part in enumerate(parts) if part == phase["part"]], phase["steps"]) for phase in typed.phases
    ]
    phased = PhasedOrder(phases, typed.batch_size, typed.seed)
    return phased, phased.steps


def _names(examples: Examples) -> Iterator[dict[str, str]]:
    for conversation, part in zip(examples.learned, examples.parts, strict=True):
        yield {"key": conversation.key, "part": part}
    for conversation in examples.held_out:
        yield {"key": conversation.key, "part": "held out"}
