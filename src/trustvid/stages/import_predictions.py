"""``python -m trustvid import FILE… --format vlmevalkit --benchmark urbanvideo --data-dir D --method NAME``.

Somebody else's predictions as a run folder, to be tabled beside ours.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

BENCHMARKS = ("boxworld", "mcq_jsonl", "urbanvideo", "vsi_bench")
FORMATS = ("lmms_eval", "vlmevalkit")
_LISTED = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="prediction files")
    parser.add_argument("--format", choices=FORMATS, required=True, help="whose form: .xlsx .tsv .csv .json, or .jsonl")
    parser.add_argument("--benchmark", choices=BENCHMARKS, required=True, help="what the questions are of")
    parser.add_argument("--data-dir", help="folder of the data set; of mcq_jsonl the file of the questions")
    parser.add_argument("--method", nargs="+", required=True, help="name in tables: one for all files, or one for each")
    parser.add_argument(
        "--condition",
        nargs="+",
        default=["clean"],
        help="clean, or e.g. glare:s3:c0.5; one for all files, or one for each",
    )
    parser.add_argument(
        "--override",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="settings of the benchmark, e.g. benchmark.tasks=all",
    )
    parser.add_argument("--name", default="imported", help="first part of the run folder's name")


def run(args: argparse.Namespace) -> int:
    """Import, say which rows found no question, and report on the run as an evaluation does.

    Raises:
        ConfigError: the words do not go together, or the benchmark lacks a setting.
        DataError: a file or the benchmark cannot be read, or no row has a question.
    """
    from trustvid.config.checking import check
    from trustvid.config.compose import compose_config
    from trustvid.config.schema import EvaluateConfig
    from trustvid.errors import ConfigError
    from trustvid.interop.imports import Source, import_run
    from trustvid.stages.common import plain_config
    from trustvid.stages.report import tell

    methods, conditions = _each(args, "method"), _each(args, "condition")
    cfg = compose_config([f"benchmark={args.benchmark}", *args.override])
    if args.data_dir:
        _set_data_dir(cfg, args.benchmark, args.data_dir)
    config = plain_config(cfg)
    typed = check(config, EvaluateConfig)
    try:
        sources = [Source(*words) for words in zip(args.files, methods, conditions, strict=True)]
    except ValueError as error:
        raise ConfigError([f"--condition: {error}"]) from error
    label = [f"imported={'+'.join(dict.fromkeys(methods))}"]
    done = import_run(sources, args.format, config, Path(config["paths"]["outputs"]), args.name, label)
    for (method, condition), found in done.matched.items():
        print(f"{method}, {condition}: {len(found.replies)} rows matched, {len(found.refused)} refused")
        for row in found.refused[:_LISTED]:
            print(f"  refused: {row.place}: {row.reason}")
        if len(found.refused) > _LISTED:
            print(f"  … and {len(found.refused) - _LISTED} more: {done.folder.path}/imported.json")
    tell(config, typed, [done.folder.path])
    return 0


def _each(args: argparse.Namespace, name: str) -> Sequence[str]:
    """One word for each file."""
    from trustvid.errors import ConfigError

    words = getattr(args, name)
    if len(words) not in (1, len(args.files)):
        raise ConfigError([f"--{name}: {len(words)} words for {len(args.files)} files; expected one, or one for each"])
    return words * len(args.files) if len(words) == 1 else words


def _set_data_dir(cfg, benchmark: str, data_dir: str) -> None:
    """Not as an override, whose grammar reads blanks and brackets of a path as its own."""
    from omegaconf import OmegaConf

    key = {"mcq_jsonl": "benchmark.file", "boxworld": "benchmark.root"}.get(benchmark, "data_dir")
    OmegaConf.update(cfg, key, data_dir)
