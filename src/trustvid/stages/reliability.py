"""``python train.py stage=reliability``: train the network of ``reliability=learned``.

The run folder gets ``cases_<part>.jsonl`` (what tools reported, a record for each video and condition),
``checkpoint.safetensors`` (a killed run goes on after its last epoch), ``metrics.csv`` (a line for each epoch),
``weights/`` (the result) and ``reliability_metrics.json`` (what it is worth on the held-out videos).
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.config.checking import build
from trustvid.evaluation.provenance import NOT_HASHED
from trustvid.evaluation.store import RunFolder, RunWriter
from trustvid.seeding import derive_seed
from trustvid.stages.common import opened, plain_config

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from trustvid.reliability.learned_fit import FitSettings, FitState, FrameTable
    from trustvid.reliability.learned_net import FrameReliabilityNet
    from trustvid.stages.reliability_data import Record, Source

NOT_IN_HASH = (*NOT_HASHED, "output", "benchmark.root", "benchmark.data_dir", "benchmark.workers")
SPLITS = {"benchmark": "train", "dev": "dev"}  # what may be learnt from, and what stops and calibrates
LABELS = ("auto", "truth", "agreement")
DEVICES = ("auto", "cpu", "cuda")
CASES = ("severities", "coverage", "per_video", "frames", "window_s", "labels")
FIT = ("epochs", "batch_size", "learning_rate", "weight_decay", "patience", "ramp_weight")


@dataclass(frozen=True)
class ReliabilityConfig:
    """Settings of the stage that belong to no component. conf/stage/reliability.yaml says what each means."""

    stage: str
    name: str
    seed: int = 0
    fresh: bool = False
    dev: dict[str, Any] = field(default_factory=dict)
    footage: list[str] = field(default_factory=list)
    cases: dict[str, Any] = field(default_factory=dict)
    fit: dict[str, Any] = field(default_factory=dict)
    use_ramps: bool = True
    tool_time_limit_s: float = 60.0
    window_s: float = 2.0
    tool_device: str = "auto"
    output: str | None = None
    workers: int | None = None
    threads: int = 2
    device: str = "auto"
    data_dir: str | None = None
    benchmark: dict[str, Any] = field(default_factory=dict)
    backbone: dict[str, Any] = field(default_factory=dict)
    reader: dict[str, Any] = field(default_factory=dict)
    tools: dict[str, Any] = field(default_factory=dict)
    corruption: dict[str, Any] = field(default_factory=dict)
    scale: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)

    def faults(self) -> Iterator[str]:
        """What is wrong with the values, field by field and between fields."""
        for group, wanted in SPLITS.items():
            split = getattr(self, group).get("split")
            if split != wanted:
                yield f"{group}.split={split}: expected {wanted}; nothing is learnt from val and test"
        yield from _section_faults("cases", self.cases, CASES)
        yield from _section_faults("fit", self.fit, FIT)
        if self.device not in DEVICES:
            yield f"device={self.device} is unknown; known: {', '.join(DEVICES)}"
        for name in ("tool_time_limit_s", "window_s"):
            if getattr(self, name) <= 0:
                yield f"{name}={getattr(self, name)}; expected a time in seconds above 0"
        if self.threads < 1 or (self.workers is not None and self.workers < 0):
            yield f"threads={self.threads}, workers={self.workers}; expected at least 1 thread and 0 workers"
        if not self.corruption:
            yield "corruption=[] leaves no disturbance to learn; choose some of conf/corruption"
        if not self.tools:
            yield "tools are missing: there is nothing whose yield could be learnt"
        if not self.name or Path(self.name).name != self.name:
            yield f"name={self.name!r} cannot name a folder; expected a plain name without slashes"


def _section_faults(name: str, values: Mapping[str, Any], known: Sequence[str]) -> Iterator[str]:
    """Unknown, missing and impossible values of ``cases`` and ``fit``."""
    yield from (f"{name}.{key} is unknown; known: {', '.join(known)}" for key in values if key not in known)
    missing = [key for key in known if key not in values]
    if missing:
        yield f"{name}: lacks {', '.join(missing)}"
        return
    if name == "cases":
        if not values["severities"] or any(value not in (1, 2, 3, 4, 5) for value in values["severities"]):
            yield f"cases.severities={values['severities']}; expected some of 1 to 5"
        if not _number(values["coverage"]) or not 0 < values["coverage"] < 1:
            yield f"cases.coverage={values['coverage']}; expected a share above 0 and below 1: ramps need clean frames"
        if values["labels"] not in LABELS:
            yield f"cases.labels={values['labels']} is unknown; known: {', '.join(LABELS)}"
    least = {"per_video": 1, "frames": 2, "window_s": 0.01, "epochs": 1, "batch_size": 2, "patience": 1}
    least |= {"learning_rate": 1e-8, "weight_decay": 0, "ramp_weight": 0}
    for key in set(known) & set(least):
        if values[key] is None and key == "per_video":
            continue
        if not _number(values[key]) or values[key] < least[key]:
            yield f"{name}.{key}={values[key]}; expected a number of at least {least[key]}"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def run(cfg: DictConfig) -> Path:
    """Collect, train, calibrate and write the weights; returns the run folder.

    Raises:
        ConfigError: the config cannot run; all faults together.
        DataError: the benchmark cannot be read.
        TrustvidError: no video gave a case.
    """
    from trustvid.stages import reliability_data

    config = plain_config(cfg)
    typed, folder, info = opened(config, ReliabilityConfig, "reliability", NOT_IN_HASH)
    print(f"run folder {folder.path}")
    sources = _sources(config, typed)
    names = "\n".join(f"{one.part} {Path(video).stem}" for one in sources for video in one.videos)
    datasets = {"videos": hashlib.sha256(names.encode()).hexdigest()}
    info = replace(info, datasets=datasets, seeds={"seed": typed.seed})
    with folder.writing(info, fresh=typed.fresh) as writer:
        writer.write_config(config)
        workers = os.cpu_count() or 1 if typed.workers is None else typed.workers
        tools = [name for name, node in config["tools"].items() if node]
        tables = {}
        for source in sources:
            records = _cases(source, typed, folder, writer, workers)
            if records:
                views = reliability_data.view_files(source, records, config["backbone"]["size"], workers)
                tables[source.part] = reliability_data.frame_table(records, views, tools)
        _train(config, typed, writer, tables, tools, info.config_hash)
    return folder.path


# -- data --------------------------------------------------------------------------------------------------------------


def _sources(config: Mapping[str, Any], typed: ReliabilityConfig) -> list[Source]:
    """Training videos, held-out videos, and footage without labels where there is any."""
    from trustvid.evaluation.calibrating_cases import label_source
    from trustvid.stages.reliability_data import Source, collector_config

    found = []
    for part, changes in (("train", {}), ("dev", typed.dev)):
        node = {**config["benchmark"], **changes}
        of_part = collector_config(config, node, typed.cases["labels"])
        label_source(of_part)  # an impossible choice ends the run here, not in every worker
        samples, _ = build(node).samples()
        videos: dict[str, list[str]] = {}
        for sample in samples:
            videos.setdefault(str(sample.video), []).append(sample.question)
        print(f"{part}: {len(videos)} videos of {node.get('name')}, labels by {label_source(of_part)}")
        found.append(Source(part, videos, of_part))
    there = [name for name in typed.footage if Path(name).is_file()]
    for name in sorted(set(typed.footage) - set(there)):
        print(f"footage: {name} is not there; left out", file=sys.stderr)
    if there:
        of_footage = collector_config(config, {"name": "footage"}, "agreement")
        found.append(Source("footage", {name: [] for name in there}, of_footage))
    return found


def _cases(
    source: Source, typed: ReliabilityConfig, folder: RunFolder, writer: RunWriter, workers: int
) -> list[Record]:
    """All records of a source: those of an earlier run, and what was still open."""
    from trustvid.stages.reliability_data import collect

    name = f"cases_{source.part}"
    known = folder.load(name).records
    collect(source, typed.cases["per_video"], workers, known, lambda records: writer.append(name, records))
    return list(folder.load(name).records)


# -- training ----------------------------------------------------------------------------------------------------------


def _train(
    config: Mapping[str, Any],
    typed: ReliabilityConfig,
    writer: RunWriter,
    tables: Mapping[str, FrameTable],
    tools: Sequence[str],
    digest: str,
) -> None:
    """Fit on train and footage, stop and calibrate on dev, write the artefact and what it is worth."""
    import torch

    from trustvid.reliability import learned_files, learned_fit
    from trustvid.stages.reliability_data import joined, yield_quality

    torch.set_num_threads(typed.threads)
    dev = tables["dev"]
    train = joined([table for part, table in tables.items() if part != "dev"])
    settings = learned_fit.FitSettings(**typed.fit, seed=typed.seed)
    net, state = _fit(build(config["backbone"]), tools, typed, writer, train, dev, settings)
    net.load_state_dict(state.best)
    found = learned_fit.predict(net, dev.views)["yields"]
    models = learned_fit.calibrate_heads(found, dev, tools, typed.use_ramps)
    data = {
        "benchmark": config["benchmark"].get("name"),
        "frames": {part: len(table) for part, table in tables.items()},
        "videos": {part: len(set(table.video.tolist())) for part, table in tables.items()},
        "labels": typed.cases["labels"],
        "severities": list(typed.cases["severities"]),
        "seed": typed.seed,
    }
    artefact = learned_files.Artefact(
        build(config["backbone"]), tuple(tools), models, "relative", tuple(config["corruption"]), data, digest
    )
    config_path = writer.write_text(f"weights/{learned_files.CONFIG_FILE}", artefact.text())
    weights_path = writer.claim(f"weights/{learned_files.WEIGHTS_FILE}")
    learned_files.save_weights(weights_path, state.best)
    quality = yield_quality(found, dev, tools, typed.use_ramps)
    writer.write_json("reliability_metrics.json", {"epochs": state.history, "dev": quality, "best": state.best_epoch})
    for row in quality:
        print(f"  {row['tool']:<16} held-out AUC {_text(row['auc'])}, ECE {_text(row['ece'])}, {row['n']} targets")
    if typed.output:
        _copy((config_path, weights_path), Path(typed.output))
    print(f"written: {writer.path}/weights" + (f", {typed.output}" if typed.output else ""))


def _fit(
    backbone: Any,
    tools: Sequence[str],
    typed: ReliabilityConfig,
    writer: RunWriter,
    train: FrameTable,
    dev: FrameTable,
    settings: FitSettings,
) -> tuple[FrameReliabilityNet, FitState]:
    """A new training, or the rest of one that was killed."""
    import torch

    from trustvid.progress import Progress
    from trustvid.reliability import learned_fit
    from trustvid.reliability.learned_net import FrameReliabilityNet

    cuda = typed.device == "cuda" or (typed.device == "auto" and torch.cuda.is_available())
    torch.manual_seed(derive_seed("reliability", "weights", typed.seed) % 2**63)
    net = FrameReliabilityNet(backbone, tools).to("cuda" if cuda else "cpu", memory_format=torch.channels_last)
    optimizer, state = learned_fit.new_optimizer(net, settings), learned_fit.FitState()
    checkpoint = writer.claim("checkpoint.safetensors")
    if checkpoint.is_file():
        state = learned_fit.load_checkpoint(checkpoint, net, optimizer)
    steps = learned_fit.steps_of_epoch(len(train), settings)
    print(f"{len(train)} frames to learn from, {len(dev)} held out")
    with Progress(steps * settings.epochs, "train", unit="steps", done=steps * state.epoch) as progress:

        def on_epoch(now: FitState) -> None:
            learned_fit.save_checkpoint(checkpoint, net, optimizer, now)
            lines = [",".join(now.history[0]), *(",".join(f"{v:.6g}" for v in row.values()) for row in now.history)]
            writer.write_text("metrics.csv", "\n".join(lines) + "\n")

        learned_fit.train_epochs(net, optimizer, train, dev, settings, state, on_epoch, progress.advance)
    return net, state


def _copy(paths: Sequence[Path], folder: Path) -> None:
    """Each file as a whole; the weights first, so that the description of new ones never stands beside old ones."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(paths):
        draft = folder / f"{path.name}.draft"
        draft.write_bytes(path.read_bytes())
        draft.replace(folder / path.name)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
