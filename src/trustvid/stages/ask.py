"""``python -m trustvid ask FILE "question" [--options …]``: one answer, with everything it rests on."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path

from trustvid.errors import ConfigError, TrustvidError

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("file", type=Path, help="video file")
    parser.add_argument("question", help="the question, in quotes")
    parser.add_argument("--options", nargs="+", default=[], metavar="TEXT", help="answer options, each in quotes")
    parser.add_argument("--method", default="anchored", help="a preset of conf/methods (default: anchored)")
    parser.add_argument("--frames", type=int, default=8, help="frames handed to the tools (default: 8)")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="config overrides, e.g. reader=pyav prompts=compact"
    )
    parser.add_argument("--json", action="store_true", help="print the whole trajectory as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Answer and print. Exit code 0, also when the answer could not be read (that is said); 2 for unusable input."""
    from omegaconf import OmegaConf

    from trustvid.agent.assembly import build_pipelines
    from trustvid.agent.driving import drive
    from trustvid.agent.method import Question, View
    from trustvid.benchmarks.sample import LETTERS
    from trustvid.config.checking import build, check
    from trustvid.config.compose import compose_config, group_options
    from trustvid.config.schema import EvaluateConfig
    from trustvid.tools.assess_quality import stored_measurer

    if args.method not in group_options("methods"):
        raise ConfigError([f"--method {args.method} does not exist; known: {', '.join(group_options('methods'))}"])
    if len(args.options) == 1 or len(args.options) > len(LETTERS):
        raise ConfigError([f"--options: {len(args.options)} given; expected 2 to {len(LETTERS)}"])
    overrides = [f"methods=[{args.method}]", f"frames={args.frames}", "corruption=[]", *args.set]
    config = OmegaConf.to_container(_compose(compose_config, overrides), resolve=True)
    check(config, EvaluateConfig)
    pipeline = build_pipelines(config, cache_dir=None)[args.method]
    view = View(build(config["reader"]).open(args.file), stored_measurer(pipeline.executor))
    question = Question(args.question, tuple(args.options))
    trajectory = drive(pipeline.run(question, view), build(config["policy"]))
    if args.json:
        print(json.dumps(trajectory.to_json(), ensure_ascii=False))
    else:
        print("\n".join(_report(args.file, question, view, pipeline.method, trajectory)))
    return 0


def _compose(compose, overrides):
    """Compose, with Hydra's complaint as one of our errors."""
    from hydra.errors import HydraException

    try:
        return compose(overrides)
    except HydraException as error:
        raise TrustvidError(f"--set: {error}") from error


def _report(file, question, view, method, trajectory) -> list[str]:
    """The lines of the readable report."""
    clip = view.clip
    lines = [f"{file.name}: {clip.n_frames} frames, {clip.timestamps[-1]:.1f} s, {clip.width}x{clip.height}"]
    lines += [f"warning: {warning}" for warning in getattr(clip, "warnings", ())]
    lines += _strip(view.profile(method.reliability), trajectory)
    lines += ["", f"Question   {question.text}"]
    lines += [f"           {letter}. {text}" for letter, text in zip(question.letters, question.options, strict=True)]
    if not trajectory.decomposition_ok:
        lines.append("           (the policy's decomposition could not be read: the question itself was asked)")
    lines += [f"Sub-query  {query.type}: {query.text}" for query in trajectory.sub_queries]
    lines += ["", "Evidence"]
    for item in sorted(trajectory.evidence, key=lambda e: ("high", "medium", "low", None).index(e.tier)):
        lines += _evidence(item)
    if not trajectory.evidence:
        lines.append("  none was gathered")
    answer = trajectory.answer
    reason = (
        trajectory.messages[-1].text.partition("<think>")[2].partition("</think>")[0] if trajectory.messages else ""
    )
    named = dict(zip(question.letters, question.options, strict=True)).get(answer.value or "", "")
    value = f"{answer.value}. {named}" if named else (answer.value or f"none ({answer.status})")
    sure = "not stated" if answer.confidence is None else f"{answer.confidence:.2f} ({answer.confidence_source})"
    lines += ["", *_wrapped("Reasoning  ", reason), *_wrapped("Answer     ", value), f"Confidence {sure}"]
    return lines


def _strip(profile, trajectory) -> list[str]:
    """Frame reliability over time as blocks, with a mark under each selected frame."""
    if profile.disturbance is None:
        return ["Reliability  not measured by this method"]
    blocks = "".join(BLOCKS[min(7, int(r * 8))] for r in profile.reliability)
    # A selected frame may lie between two profiled ones: the mark stands under the nearer.
    marked = {min(profile.indices, key=lambda index: abs(index - frame)) for frame in trajectory.frames}
    marks = "".join("^" if index in marked else " " for index in profile.indices)
    means = ", ".join(f"{name} {value:.2f}" for name, value in profile.mean_raw(trajectory.frames).items())
    frames = " ".join(str(frame) for frame in trajectory.frames)
    return [
        f"Reliability  {blocks}",
        f"Selected     {marks}  frames {frames}",
        f"Disturbance  {means}; dominant: {trajectory.dominant}",
    ]


def _evidence(item) -> list[str]:
    tier = f"{item.tier.upper():<8} " if item.tier else ""
    head = f"  {tier}{item.tool}  c={item.confidence:.2f}"
    if item.disturbance:
        head += f"  d={sum(item.disturbance) / len(item.disturbance):.2f}"
    head += f"  cost {item.cost:.2f}"
    text = f"failed ({item.error.kind}): {item.error.message}" if item.error else item.result
    text += f" ({item.note})" if item.note else ""
    return [head, *textwrap.wrap(text, WIDTH, initial_indent="           ", subsequent_indent="           ")]


def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent=" " * len(label)) or [label]
