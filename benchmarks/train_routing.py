"""What training teaches a policy about choosing tools, on BoxWorld's pixels: greedy answers to held-out questions.

    python benchmarks/train_routing.py --sft outputs/sft/A/policy outputs/sft/B/policy \\
        --grpo outputs/grpo/A/policy outputs/grpo/B/policy [--other rejection=outputs/sft/C/policy] [--split val]

Every policy meets the same questions in the same conditions: each once clean, and ``--passes`` times under a corruption
of the training's kind, drawn by the question's name. With the first SFT policy the routing turn is also replaced, all
else left as it is: by a random candidate, Table 18, the best fixed tool of each type (chosen on train by
``routing_headroom.py``), and the best tool by type and disturbance (chosen there too). Differences are paired, their
intervals 95 %, by a bootstrap over videos; that of the mean over seeds is over videos too, not over seeds. ECE is of
the pooled support of the chosen option; corr is that of the mean confidence of the calls with being right.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trustvid.config.checking import build
from trustvid.config.compose import compose_config
from trustvid.evaluation.stats import expected_calibration_error, paired_difference
from trustvid.grpo.episodes import Episode
from trustvid.grpo.video_episodes import VideoEpisodes
from trustvid.policy.base import Policy, PolicyRequest
from trustvid.policy.scripted.routing import asks_for_routing, disturbance_of, entry, offers
from trustvid.seeding import derive_rng

EXPERIMENT = "embedded/grpo"
# What routing_headroom.py chose on train, uniform frames.
BEST_FIXED = {"text": "read_text", "spatial": "caption_frame", "temporal": "recognize_action"}
BY_DISTURBANCE = {
    "brightness": {"text": "caption_frame", "spatial": "detect_objects", "temporal": "recognize_action"},
    "blur": BEST_FIXED,
    "occlusion": BEST_FIXED,
    "clean": BEST_FIXED,
}
AT_ONCE = 128

Opened = Callable[[], Episode]
Rule = Callable[[str, str, Sequence[str], PolicyRequest], str]


class Rerouted:
    """A policy whose routing turn is taken by a rule."""

    def __init__(self, policy: Policy, rule: Rule):
        self.policy, self.rule, self.name = policy, rule, policy.name

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        """The rule's lines for requests that ask for routing, the policy's replies for the others."""
        routes = [asks_for_routing(request.messages[-1].text) for request in requests]
        others = iter(self.policy.generate([one for one, routed in zip(requests, routes, strict=True) if not routed]))
        return [self._lines(one) if routed else next(others) for one, routed in zip(requests, routes, strict=True)]

    def _lines(self, request: PolicyRequest) -> str:
        text = request.messages[-1].text
        seen = disturbance_of(text)
        return "\n".join(
            entry(offer, seen, self.rule(offer.kind, seen, offer.tools, request)) for offer in offers(text)
        )


def rules() -> dict[str, Rule]:
    """Ways to route, by name."""
    from trustvid.agent.routing import choose_tool

    def random(kind: str, seen: str, tools: Sequence[str], request: PolicyRequest) -> str:
        rng = derive_rng(
            "random routing", kind, request.clip.digest, request.messages[-1].text, request.messages[1].text
        )
        return tools[int(rng.integers(len(tools)))]

    return {
        "random": random,
        "table 18": lambda kind, seen, tools, request: choose_tool(kind, seen, tools),
        "best fixed": lambda kind, seen, tools, request: BEST_FIXED[kind],
        "by disturbance": lambda kind, seen, tools, request: BY_DISTURBANCE[seen][kind],
    }


def held_out(
    split: str, videos: int, passes: int, overrides: Sequence[str]
) -> tuple[list[Opened], dict[str, Any], float]:
    """What opens each episode, clean ones first; the config that they are of; and how often a guess is right."""
    from omegaconf import OmegaConf

    from trustvid.agent.assembly import build_pipelines
    from trustvid.stages.grpo import score

    wanted = [f"experiment={EXPERIMENT}", "policy.init_from=none", f"benchmark.split={split}"]
    wanted += [f"benchmark.n_videos={videos}", "methods.trained.synthesis.confidence=pooled", *overrides]
    config = OmegaConf.to_container(compose_config(wanted, name="train"), resolve=True)
    samples, _ = build(config["benchmark"]).samples()
    (pipeline,) = build_pipelines(config, Path(config["paths"]["cache"]) / "tools").values()
    corruptions = {name: build(node) for name, node in config["corruption"].items()}
    drawn = replace(build(config["disturbance"]), clean=0.0)
    environment = VideoEpisodes(
        samples, pipeline, build(config["reader"]), corruptions, drawn, build(config["mstar"]), score, config["seed"]
    )
    clean = [partial(environment.under, sample, None) for sample in samples]
    numbers = range(len(samples))
    corrupted = [partial(environment.episode, number, epoch) for number in numbers for epoch in range(passes)]
    return clean + corrupted, config, float(np.mean([1 / len(sample.options) for sample in samples]))


def answered(policy: Policy, episodes: Sequence[Opened]) -> list[dict[str, Any]]:
    """What a policy makes of the episodes, in order."""
    from trustvid.agent.driving import drive_all
    from trustvid.errors import TrustvidError

    rows = []
    for start in range(0, len(episodes), AT_ONCE):
        some = [opened() for opened in episodes[start : start + AT_ONCE]]
        for episode, outcome in zip(some, drive_all([one.start() for one in some], policy), strict=True):
            if isinstance(outcome, TrustvidError):
                raise outcome
            judged = episode.judge(outcome)
            confidences = judged.inputs.confidences
            rows.append(
                {
                    "key": episode.key,
                    "cluster": judged.record["cluster"],
                    "clean": judged.record["condition"] == "clean",
                    "correct": float(judged.inputs.correct),
                    "well_formed": judged.inputs.well_formed,
                    "support": judged.record["confidence"],
                    "calls": float(np.mean(confidences)) if confidences else 0.0,
                    "tools": judged.record["tools"],
                }
            )
    return rows


def column(rows: Sequence[Mapping[str, Any]], clean: bool, name: str = "correct") -> np.ndarray:
    """Values of the clean or the corrupted episodes; NaN where there is none."""
    return np.array([np.nan if row[name] is None else row[name] for row in rows if row["clean"] == clean], dtype=float)


def told(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """A line of the table."""
    correct, support, calls = (column(rows, False, key) for key in ("correct", "support", "calls"))
    known = ~np.isnan(support)
    ece = expected_calibration_error(support[known], correct[known])
    corr = np.corrcoef(calls, correct)[0, 1] if calls.std() > 0 else float("nan")
    form = np.mean([row["well_formed"] for row in rows])
    shares = {}
    for row in rows:
        for tool in row["tools"]:
            shares[tool] = shares.get(tool, 0) + 1
    most = ", ".join(f"{tool} {count / sum(shares.values()):.2f}" for tool, count in sorted(shares.items()))
    return (
        f"{name:<22}{100 * column(rows, True).mean():>7.1f}{100 * correct.mean():>11.1f}{form:>8.3f}"
        f"{ece:>7.3f}{corr:>7.2f}  {most}"
    )


def difference(name: str, a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]], clean: bool = False) -> str:
    """a − b on the same episodes, in points."""
    clusters = np.array([row["cluster"] for row in a if row["clean"] == clean])
    found = paired_difference(column(a, clean), column(b, clean), clusters, derive_rng("train_routing", name))
    low, high = found.interval
    return f"{name:<44}{100 * found.diff.mean:+6.1f}  [{100 * low:+.1f}, {100 * high:+.1f}]"


def seeds_together(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The answers of several seeds to the same episodes as those of one policy: how often each was right."""
    return [
        {**same[0], "correct": float(np.mean([row["correct"] for row in same]))} for same in zip(*runs, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sft", nargs="+", required=True, help="folders of SFT policies, one for each seed")
    parser.add_argument(
        "--grpo", nargs="*", default=[], help="folders of GRPO policies, each begun from its SFT policy"
    )
    parser.add_argument(
        "--other", nargs="*", default=[], metavar="NAME=FOLDER", help="further policies; begun from the first"
    )
    parser.add_argument("--split", default="val", choices=("dev", "val", "test"))
    parser.add_argument("--videos", type=int, default=76)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--rows", type=Path, help="file for the answers, one line each")
    parser.add_argument("--set", nargs="*", default=[], help="overrides of the experiment's config")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    episodes, config, chance = held_out(arguments.split, arguments.videos, arguments.passes, arguments.set)

    def policy(folder: str) -> Any:
        return build({**config["policy"], "init_from": folder, "batch_size": AT_ONCE, "max_new_tokens": 64})

    runs = {f"sft {seed}": answered(policy(folder), episodes) for seed, folder in enumerate(arguments.sft)}
    runs |= {f"grpo {seed}": answered(policy(folder), episodes) for seed, folder in enumerate(arguments.grpo)}
    named = dict(one.split("=", 1) for one in arguments.other)
    runs |= {name: answered(policy(folder), episodes) for name, folder in named.items()}
    first = policy(arguments.sft[0])
    runs |= {f"sft 0, {name}": answered(Rerouted(first, rule), episodes) for name, rule in rules().items()}
    if arguments.rows:
        lines = [json.dumps({"policy": name, **row}) for name, rows in runs.items() for row in rows]
        arguments.rows.write_text("\n".join(lines) + "\n", encoding="utf-8")
    n_clean = sum(row["clean"] for row in runs["sft 0"])
    counts = f"{n_clean} questions clean, {len(episodes) - n_clean} answers corrupted"
    print(f"{arguments.split}: {counts}; a guess is right {chance:.3f}")
    print(f"{'policy':<22}{'clean':>7}{'corrupted':>11}{'form':>8}{'ECE':>7}{'corr':>7}  share of the calls")
    print(*(told(name, rows) for name, rows in runs.items()), sep="\n")
    print(f"\n{'difference, corrupted, points':<44}{'mean':>6}  95 %")
    for seed in range(len(arguments.grpo)):
        print(difference(f"grpo {seed} - sft {seed}", runs[f"grpo {seed}"], runs[f"sft {seed}"]))
        for name in rules():
            print(difference(f"grpo {seed} - {name}", runs[f"grpo {seed}"], runs[f"sft 0, {name}"]))
    if len(arguments.grpo) > 1:
        after, before = (
            seeds_together([runs[f"{stage} {seed}"] for seed in range(len(arguments.grpo))])
            for stage in ("grpo", "sft")
        )
        print(difference("grpo - sft, mean of the seeds", after, before))
        print(difference("grpo - sft, mean of the seeds, clean", after, before, clean=True))
        for name in rules():
            print(difference(f"grpo - {name}, mean of the seeds", after, runs[f"sft 0, {name}"]))
    for name in rules():
        if name != "random":
            print(difference(f"{name} - random", runs[f"sft 0, {name}"], runs["sft 0, random"]))
    for name in named:
        print(difference(f"{name} - sft 0", runs[name], runs["sft 0"]))
        if arguments.grpo:
            print(difference(f"grpo 0 - {name}", runs["grpo 0"], runs[name]))


if __name__ == "__main__":
    main()
