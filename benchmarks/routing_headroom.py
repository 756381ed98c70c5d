"""What choosing tools is worth on BoxWorld: one policy under every routing, answering from the pooled support.

    python benchmarks/routing_headroom.py gather --split train --rows train.jsonl
    python benchmarks/routing_headroom.py gather --split val --rows val.jsonl
    python benchmarks/routing_headroom.py report train.jsonl val.jsonl

``gather`` runs every tool once for each view (outputs go to the tool cache), then answers each question from every
assignment of tools to its sub-queries. Each clip is seen clean and under ``--pairs`` of the ten pairs of a corruption
and a severity, in rotation, at both coverages. ``report`` chooses on the first file and applies to the second:

- random: any candidate, each as likely (the exact mean over all assignments);
- fixed, table: the clean column of Table 18, and Table 18 by the stated disturbance;
- best fixed: the assignment that is best on the first file, whatever the disturbance;
- per cell: the same for each column of the routing table, and for each of our finer channels;
- hindsight: the best assignment of each question, which nobody can know (its ties with luck included);
- everything: all five tools asked and pooled, at their full cost.

A question that the evidence does not settle counts as a guess, 1/n. Differences are paired; ± is one standard error,
clustered by clip.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from trustvid.agent import rendering
from trustvid.agent.assembly import build_pipelines
from trustvid.agent.driving import drive
from trustvid.agent.method import Question, View
from trustvid.agent.pipeline import Pipeline
from trustvid.agent.pooling import Pooled
from trustvid.agent.routing import CANDIDATES, choose_tool, column_of
from trustvid.agent.synthesis import words_of
from trustvid.benchmarks.boxworld import CITY_TASKS
from trustvid.benchmarks.boxworld.benchmark import BoxWorld
from trustvid.benchmarks.sample import Sample
from trustvid.config.checking import build
from trustvid.config.compose import compose_config
from trustvid.evaluation.runner import under
from trustvid.policy.base import PolicyRequest
from trustvid.policy.scripted.teacher import needs
from trustvid.tools.assess_quality import stored_measurer
from trustvid.tools.evidence import TOOL_NAMES, Evidence
from trustvid.video.reader import open_clip

SEVERITIES, COVERAGES = (3, 5), (1.0, 0.5)
SELECTIONS = ("uniform", "anchored")
TYPES = ("text", "spatial", "temporal")  # of the sub-queries that BoxWorld's questions need, in their order

Row = dict
Rule = Callable[[Row], str]


# -- gather ------------------------------------------------------------------------------------------------------------


class AllTools:
    """A policy that asks every tool one question, for the evidence alone."""

    name = "all tools"
    CALLS = (
        ("text", "read_text"),
        ("spatial", "detect_objects"),
        ("spatial", "caption_frame"),
        ("temporal", "track_temporal"),
        ("temporal", "recognize_action"),
    )

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        return [self._reply(request.messages[-1].text) for request in requests]

    def _reply(self, last: str) -> str:
        if "## Evidence" in last:
            return "<answer>A</answer>"
        if "## Tools" in last:
            return "\n".join(f"{n} {kind} unknown {tool}" for n, (kind, tool) in enumerate(self.CALLS, 1))
        return json.dumps([{"sub_query": "anything", "type": kind} for kind, _ in self.CALLS])


def pipelines_of(cache: Path) -> tuple[dict[str, Pipeline], dict]:
    """Pipelines that differ in selection alone, and the corruptions by name."""
    settings = {"routing": "policy", "synthesis": "pooled", "confidence": "calibrated", "reliability": "relative"}
    parts = [f"{part}@methods.anchored.{part}={option}" for part, option in settings.items()]
    pipelines = {}
    for selection in SELECTIONS:
        chosen = f"selection@methods.anchored.selection={selection}"
        config = compose_config(["methods=[anchored]", "prompts=tiny", *parts, chosen])
        plain = _plain(config)
        pipelines[selection] = build_pipelines(plain, cache / "tools")["anchored"]
    return pipelines, {name: build(node) for name, node in plain["corruption"].items()}


def _plain(config) -> dict:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(config, resolve=True)


def conditions(place: int, names: Sequence[str], pairs: int) -> list[str]:
    """Clean, and the clip's share of the corruptions × severities, at both coverages."""
    everything = list(itertools.product(SEVERITIES, names))
    mine = [everything[(place + 3 * i) % len(everything)] for i in range(pairs)]
    return ["clean", *(f"{name}:s{s}:c{c:g}" for s, name in mine for c in COVERAGES)]


def gather(split: str, videos: int, pairs: int, cache: Path, done: Container[str] = ()) -> Iterator[Row]:
    """A row for each question, condition and selection: how right the answer is under each assignment of tools.

    Clips named in ``done`` are left out.
    """
    pipelines, corruptions = pipelines_of(cache)
    samples, _ = BoxWorld(cache / "boxworld", split=split, n_videos=videos, workers=1).samples()
    by_video: dict[Path, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_video[sample.video].append(sample)
    for place, video in in_turn({video: asked[0].task in CITY_TASKS for video, asked in by_video.items()}):
        if video.name in done:
            continue
        clip, asked = open_clip(video), by_video[video]
        for condition in conditions(place, list(corruptions), pairs):
            view = View(under(clip, condition, corruptions, 0), stored_measurer(pipelines["uniform"].executor))
            known: dict[tuple, list[Row]] = {}
            for selection, pipeline in pipelines.items():
                trajectory = drive(pipeline.run(Question("What is there?"), view), AllTools())
                same = known.get(trajectory.frames)
                rows = same or [_row(sample, pipeline, view, trajectory) for sample in asked]
                known[trajectory.frames] = rows
                yield from ({**row, "split": split, "selection": selection, "condition": condition} for row in rows)


def in_turn(is_city: Mapping[Path, bool]) -> list[tuple[int, Path]]:
    """Each clip with its place in its kind, city and room by turns: what is done after a while is balanced."""
    kinds = [sorted(video for video, city in is_city.items() if city is kind) for kind in (True, False)]
    numbered = [(place, order, video) for order, videos in enumerate(kinds) for place, video in enumerate(videos)]
    return [(place, video) for place, _, video in sorted(numbered)]


def _row(sample: Sample, pipeline: Pipeline, view: View, trajectory) -> Row:
    evidence = {item.tool: item for item in trajectory.evidence}
    kinds = [need["type"] for need in needs(sample.question)]
    question = Question(sample.question, sample.options)
    known: dict[frozenset, tuple[float, float]] = {}
    outcomes = {}
    for tools in (*itertools.product(*(CANDIDATES[kind] for kind in kinds)), TOOL_NAMES):
        if frozenset(tools) not in known:  # a tool that is asked twice tells nothing new
            known[frozenset(tools)] = _right(sample, question, pipeline, view, trajectory.frames, evidence, tools)
        right, told = known[frozenset(tools)]
        outcomes["everything" if tools == TOOL_NAMES else " ".join(tools)] = {
            "right": right,
            "share": told,
            "cost": round(sum(evidence[tool].cost for tool in tools), 2),
            "confidence": round(float(np.mean([evidence[tool].confidence for tool in tools])), 4),
        }
    return {
        "id": sample.id,
        "video": sample.video.name,
        "task": sample.task,
        "dominant": trajectory.dominant,
        "kinds": kinds,
        "outcomes": outcomes,
    }


def _right(
    sample: Sample,
    question: Question,
    pipeline: Pipeline,
    view: View,
    frames: tuple[int, ...],
    evidence: dict[str, Evidence],
    tools: Sequence[str],
) -> tuple[float, float]:
    """How right the answer from these tools' evidence is, and the share it states: 1/n for both where it guesses."""
    synthesis: Pooled = pipeline.method.synthesis
    items = [evidence[tool] for tool in dict.fromkeys(tools)]
    links = synthesis.link(items, words_of(question.text, *question.options))
    block = rendering.evidence_block(items, links, view.clip, frames)
    asked = rendering.question_block(question.text, question.letters, question.options)
    shares = synthesis.support(f"{asked}\n\n{rendering.frames_block(view.clip, frames)}", block)
    if shares is None:
        return 1 / len(question.options), 1 / len(question.options)
    best = max(shares, key=shares.__getitem__)
    return float(best == sample.answer), round(shares[best], 4)


# -- report ------------------------------------------------------------------------------------------------------------


def assignments(row: Row) -> list[str]:
    """The assignments of tools to the sub-queries of a row."""
    return [name for name in row["outcomes"] if name != "everything"]


def part_of(triple: Sequence[str], row: Row) -> str:
    """What an assignment for all types says for the types of this row."""
    by_type = dict(zip(TYPES, triple, strict=True))
    return " ".join(by_type[kind] for kind in row["kinds"])


TRIPLES = list(itertools.product(*(CANDIDATES[kind] for kind in TYPES)))


def best_triple(rows: Sequence[Row]) -> tuple[str, ...]:
    """The assignment that is right most often in these rows; of equals the cheaper, then the first."""

    def worth(triple: tuple[str, ...]) -> tuple[float, float]:
        told = [row["outcomes"][part_of(triple, row)] for row in rows]
        return round(sum(one["right"] for one in told), 6), -sum(one["cost"] for one in told)

    return max(TRIPLES, key=worth)


def rules(train: Sequence[Row]) -> dict[str, Rule]:
    """Routings by name; what is chosen is chosen on ``train``."""

    def by(key: Callable[[Row], str]) -> Rule:
        groups: dict[str, list[Row]] = defaultdict(list)
        for row in train:
            groups[key(row)].append(row)
        chosen = {name: best_triple(rows) for name, rows in groups.items()}
        everywhere = best_triple(train)
        return lambda row: part_of(chosen.get(key(row), everywhere), row)

    def table(row: Row) -> str:
        column = column_of(row["dominant"])
        return part_of([choose_tool(kind, column, TOOL_NAMES) for kind in TYPES], row)

    fixed = [choose_tool(kind, "clean", TOOL_NAMES) for kind in TYPES]
    return {
        "fixed (clean column)": lambda row: part_of(fixed, row),
        "table 18": table,
        "best fixed": by(lambda row: ""),
        "per cell, column": by(lambda row: column_of(row["dominant"])),
        "per cell, channel": by(lambda row: row["dominant"]),
        "per cell, channel and task": by(lambda row: f"{row['dominant']} {row['task']}"),
    }


def scores(rows: Sequence[Row], train: Sequence[Row]) -> dict[str, np.ndarray]:
    """How right each routing is on each row."""
    names = {name: [rule(row) for row in rows] for name, rule in rules(train).items()}
    told = {
        name: np.array([row["outcomes"][choice]["right"] for row, choice in zip(rows, chosen, strict=True)])
        for name, chosen in names.items()
    }
    each = [[row["outcomes"][name]["right"] for name in assignments(row)] for row in rows]
    told = {"random": np.array([np.mean(rights) for rights in each])} | told
    told["hindsight"] = np.array([max(rights) for rights in each])
    told["everything"] = np.array([row["outcomes"]["everything"]["right"] for row in rows])
    for triple in TRIPLES:
        told[" + ".join(triple)] = np.array([row["outcomes"][part_of(triple, row)]["right"] for row in rows])
    return told


def difference(a: np.ndarray, b: np.ndarray, clusters: Sequence[str]) -> str:
    """Mean of a − b in points ± its standard error by clip."""
    names = np.unique(clusters, return_inverse=True)[1]
    sums = np.bincount(names, a - b - (a - b).mean())
    return f"{100 * (a - b).mean():+.1f} ± {100 * np.sqrt((sums**2).sum()) / len(a):.1f}"


GROUPS: dict[str, Callable[[Row], bool]] = {
    "clean": lambda row: row["condition"] == "clean",
    "s3 c0.5": lambda row: row["condition"].endswith(":s3:c0.5"),
    "s5 c0.5": lambda row: row["condition"].endswith(":s5:c0.5"),
    "s3 c1": lambda row: row["condition"].endswith(":s3:c1"),
    "s5 c1": lambda row: row["condition"].endswith(":s5:c1"),
    "all corrupted": lambda row: row["condition"] != "clean",
}


def report(train: Sequence[Row], val: Sequence[Row]) -> None:
    """Print accuracy of every routing by group, and what is chosen in each cell."""
    corruptions = sorted({row["condition"].partition(":")[0] for row in val} - {"clean"})
    groups = GROUPS | {name: (lambda row, name=name: row["condition"].startswith(name)) for name in corruptions}
    for selection in SELECTIONS:
        told = [row for row in val if row["selection"] == selection]
        print(f"\n{selection}: chosen on {len(train)} rows (of all selections), told on {len(told)}")
        by_group = {}
        for name, wanted in groups.items():
            rows = [row for row in told if wanted(row)]
            by_group[name] = (scores(rows, train), [row["video"] for row in rows])
        print("routing | " + " | ".join(f"{name} (n={len(clusters)})" for name, (_, clusters) in by_group.items()))
        for routing in next(iter(by_group.values()))[0]:
            print(f"{routing} | " + " | ".join(f"{100 * s[routing].mean():.1f}" for s, _ in by_group.values()))
        for other in ("random", "best fixed", "table 18"):
            for oracle in ("per cell, column", "per cell, channel"):
                cells = [difference(s[oracle], s[other], clusters) for s, clusters in by_group.values()]
                print(f"{oracle} − {other} | " + " | ".join(cells))
    for name in sorted({row["dominant"] for row in train}):
        rows = [row for row in train if row["dominant"] == name]
        print(f"\nchosen under {name} (n={len(rows)}): {' + '.join(best_triple(rows))}", end="")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    gathering = commands.add_parser("gather", help="run tools and answer under every assignment")
    gathering.add_argument("--split", choices=("train", "dev", "val"), default="train")
    gathering.add_argument("--videos", type=int, default=76, help="clips, four questions each")
    gathering.add_argument("--pairs", type=int, default=2, help="corruptions × severities of each clip, 1 to 10")
    gathering.add_argument("--cache", type=Path, default=Path(".cache"))
    gathering.add_argument("--rows", type=Path, required=True, help="JSON lines; clips in the file are kept")
    reporting = commands.add_parser("report", help="accuracy under each routing")
    reporting.add_argument("train", type=Path)
    reporting.add_argument("val", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "report":
        report(*(read_rows(path) for path in (arguments.train, arguments.val)))
        return
    import cv2

    cv2.setNumThreads(1)
    rows = read_rows(arguments.rows) if arguments.rows.exists() else []
    rows = [row for row in rows if row["video"] != rows[-1]["video"]]  # the last clip may be there in part
    with arguments.rows.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        done = {row["video"] for row in rows}
        for row in gather(arguments.split, arguments.videos, arguments.pairs, arguments.cache, done):
            file.write(json.dumps(row) + "\n")
            file.flush()


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that ``gather`` wrote."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
