"""``python -m trustvid mstar "question" [--options …]``: how many sub-queries an estimator says a question needs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trustvid.errors import ConfigError, TrustvidError


@dataclass(frozen=True)
class MStarConfig:
    """Settings of the command: the estimator, and the policy that it asks if it has none of its own."""

    mstar: dict[str, Any]
    policy: dict[str, Any]

    def faults(self) -> Iterator[str]:
        """Components check themselves; there is nothing else."""
        yield from ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("question", help="the question, in quotes")
    parser.add_argument("--options", nargs="+", default=[], metavar="TEXT", help="answer options, each in quotes")
    parser.add_argument("--estimator", default="heuristic", help="an option of conf/mstar (default: heuristic)")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="config overrides, e.g. mstar.prompts=compact"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Estimate and print. Exit code 0; an estimate that could not be had is an error."""
    from hydra.errors import HydraException
    from omegaconf import OmegaConf

    from trustvid.agent.method import Question
    from trustvid.benchmarks.sample import LETTERS
    from trustvid.config.checking import build, check
    from trustvid.config.compose import compose_config, group_options

    if args.estimator not in group_options("mstar"):
        raise ConfigError([f"--estimator {args.estimator} does not exist; known: {', '.join(group_options('mstar'))}"])
    if len(args.options) == 1 or len(args.options) > len(LETTERS):
        raise ConfigError([f"--options: {len(args.options)} given; expected 2 to {len(LETTERS)}"])
    try:
        whole = OmegaConf.to_container(compose_config([f"+mstar={args.estimator}", *args.set]), resolve=True)
    except HydraException as error:
        raise TrustvidError(f"--set: {error}") from error
    config = {key: whole[key] for key in ("mstar", "policy")}
    check(config, MStarConfig)
    estimator = build(config["mstar"])
    if estimator.asks_policy:
        estimator.bind(build(config["policy"]))
    question = Question(args.question, tuple(args.options))
    (number,) = estimator.estimate([question])
    if args.json:
        print(json.dumps({"m_star": number, "estimator": estimator.describe()}, ensure_ascii=False))
        return 0
    print(f"Question   {question.text}")
    for letter, text in zip(question.letters, question.options, strict=True):
        print(f"           {letter}. {text}")
    print(f"m*         {number} (mstar={args.estimator})")
    return 0
