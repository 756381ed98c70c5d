"""Does GRPO learn? The real training step on simulated tools, against the policy it began with and fixed rules.

    python benchmarks/learn_routing.py [--seed 0] [--steps 140] [--teacher uniform|habits] [--out outputs/learn_routing]

A model of half a million parameters learns the form of a pass from examples whose routing is a coin (``IFCaptioner``:
first reports and answers alone, then whole passes), then to route by reward (``RobustTO``). Measured before and after:
greedy accuracy on 600 questions that training has not seen, all of them disturbed, tools answering alike both times.

Printed, and written to ``--out``: accuracies with the paired difference and its 95 % interval (``result.json``), the
curve over the steps (``curve.csv``, ``curve.png``). One core, five to six minutes.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import simulated_tools as simulated
import torch
from lightning import Callback, Trainer
from simulated_tools import DISTURBANCES, SimulatedTools

from trustvid.captioner import IFCaptioner
from trustvid.grpo.reward import Reward
from trustvid.grpo.rollout import HfEngine, Rollout
from trustvid.grpo.settings import AdvantageConfig, LossConfig
from trustvid.module import RobustTO
from trustvid.policy.tiny import TinyPolicy
from trustvid.policy.vlm_adapters import Full
from trustvid.training.conversations import Conversation, Emphasis
from trustvid.training.optimizer import AdamW
from trustvid.training.order import StepOrder

LONGEST = (12, 14, 12)  # tokens of each turn
PROMPTS, GROUP = 16, 8
# Weight of the mean entropy over the tokens that name tools. The policy's loss is a sum over 40 · N and holds about 1.4
# such tokens a pass, so that this is a bonus of 0.1 for each of them; 0.1 here would outweigh every reward.
ENTROPY = 0.1 * 1.4 / 40
HELD_OUT, QUESTIONS = 9001, 600  # seed and number of the test's questions
LABEL = {"textcoords": "offset points", "fontsize": 8}
VALUES = Emphasis({"<answer>(.*?)</answer>": 5, "<think>(.*?)</think>": 5})


def policy_of(folder: Path, seed: int, init_from: Path | None = None) -> TinyPolicy:
    """The small model, every word of these conversations one token."""
    return TinyPolicy(
        "qwen2_5_vl",
        str(folder / "models"),
        weights_seed=seed,
        hidden_size=96,
        layers=3,
        heads=4,
        kv_heads=2,
        words=simulated.WORDS,
        batch_size=256,
        init_from=None if init_from is None else str(init_from),
    )


def fit(module: Any, steps: int, *callbacks: Callback) -> float:
    """Train; processor seconds."""
    started = time.process_time()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = Trainer(
        max_steps=steps, accelerator="cpu", devices=1, enable_model_summary=False, callbacks=[*callbacks], **quiet
    )
    trainer.fit(module)
    return time.process_time() - started


# -- examples ----------------------------------------------------------------------------------------------------------


def warm_up(folder: Path, seed: int, teacher: str) -> tuple[Path, float]:
    """The policy that has learnt the form: the folder of its weights, and processor seconds."""
    rule = simulated.teacher_rule(seed, habits=teacher == "habits")
    answers = [simulated.synthesis(simulated.make_question(seed + 100, i), rule) for i in range(3200)]
    passes = [simulated.trajectory(simulated.make_question(seed + 200, i), rule) for i in range(2240)]
    first, spent = _learn(folder, seed, answers, None, 250, 64, "constant")
    whole, more = _learn(folder, seed, passes, first, 280, 32, "linear")
    return whole, spent + more


def _learn(
    folder: Path,
    seed: int,
    examples: Sequence[Conversation],
    init_from: Path | None,
    steps: int,
    batch: int,
    schedule: Any,
) -> tuple[Path, float]:
    module = IFCaptioner(
        policy_of(folder, seed, init_from),
        Full(freeze=["visual"]),
        AdamW(3e-3, betas=(0.9, 0.98), weight_decay=0.01, warmup=30, schedule=schedule, end=0.03),
        StepOrder(len(examples), batch, seed),
        steps,
        examples,
        VALUES,
        micro_batch=batch,
        seed=seed,
    )
    spent = fit(module, steps)
    print(
        f"examples, {steps} steps: loss {float(module.trainer.callback_metrics['loss']):.4f}, {spent:.0f} s", flush=True
    )
    written = folder / f"sft-{steps}"
    module.trainable.export(written)
    return written, spent


# -- measuring ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Greedy passes over the same questions.

    Attributes:
        correct, reward: of each question, float64 [n].
        best: share of the calls that asked the better tool.
        well_formed, decomposed: shares of passes.
    """

    correct: np.ndarray
    reward: np.ndarray
    best: float
    well_formed: float
    decomposed: float


def measure(module: RobustTO, questions: SimulatedTools) -> Measured:
    """The policy as it is, every token the likeliest."""
    return measured(module.greedy([questions.episode(i, 0) for i in range(len(questions))], LONGEST), module.reward)


def measured(rollouts: Sequence[Rollout], reward: Reward) -> Measured:
    """What passes came to; each must have been scored."""
    outcomes = [rollout.outcome for rollout in rollouts]
    records = [one.record for one in outcomes]
    return Measured(
        np.array([float(one.inputs.correct) for one in outcomes]),
        np.array([reward.total(reward.terms(one.inputs)) for one in outcomes]),
        sum(record["best"] for record in records) / max(1, sum(record["calls"] for record in records)),
        float(np.mean([one.inputs.well_formed for one in outcomes])),
        float(np.mean([record["decomposed"] for record in records])),
    )


def baselines(questions: SimulatedTools) -> dict[str, np.ndarray]:
    """Whether each question is solved by a rule of routing, the rest done faultlessly."""
    rules = {
        "random candidate": simulated.random_rule,
        "best fixed per type": simulated.fixed_rule(questions.dominant),
        "table 18": simulated.table_rule,
        "oracle": simulated.oracle_rule,
    }
    asked = [questions.question(i) for i in range(len(questions))]
    return {name: np.array([simulated.solved(one, rule) for one in asked], float) for name, rule in rules.items()}


def paired(after: np.ndarray, before: np.ndarray) -> tuple[float, float]:
    """Mean difference and half of its 95 % interval."""
    difference = after - before
    return float(difference.mean()), float(1.96 * difference.std(ddof=1) / np.sqrt(len(difference)))


# -- reinforcement -----------------------------------------------------------------------------------------------------


@dataclass
class Watch(Callback):
    """The curve: what each step logged, and which share of its calls asked the better tool."""

    rows: list[dict[str, float]] = field(default_factory=list)
    best: float = 0.0

    def told(self, step: int, rollouts: Sequence[Rollout], terms: Any) -> None:
        """Of the rollouts of a step."""
        records = [one.outcome.record for one in rollouts if one.outcome]
        self.best = sum(record["best"] for record in records) / max(1, sum(record["calls"] for record in records))

    def on_train_batch_end(self, trainer: Trainer, module: RobustTO, *_: Any) -> None:
        logged = {name: round(float(value), 5) for name, value in trainer.callback_metrics.items()}
        self.rows.append({"step": len(self.rows) + 1, "best_tool": round(self.best, 4)} | logged)
        if len(self.rows) % 10 == 0:
            last = {name: np.mean([row[name] for row in self.rows[-10:]]) for name in ("accuracy", "best_tool")}
            print(
                f"step {len(self.rows)}:", ", ".join(f"{name} {value:.3f}" for name, value in last.items()), flush=True
            )


class Clock:
    """Processor seconds by the part of a step they were spent in."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def time(self, owner: Any, method: str, name: str) -> None:
        """Count what ``owner.method`` takes."""
        inner: Callable = getattr(owner, method)

        def counted(*args: Any, **kwargs: Any) -> Any:
            started = time.process_time()
            try:
                return inner(*args, **kwargs)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - started

        setattr(owner, method, counted)


def learner(folder: Path, seed: int, steps: int, init_from: Path, watch: Watch, **advantage: Any) -> RobustTO:
    """The module as the recipe has it; ``advantage`` changes settings of the advantages."""
    environment = SimulatedTools(seed + 300, PROMPTS * steps)
    return RobustTO(
        policy_of(folder, seed, init_from),
        Full(freeze=["embed_tokens", "visual"]),
        AdamW(5e-4, betas=(0.9, 0.95), warmup=5, schedule="hold_linear", end=0.1),
        StepOrder(len(environment), PROMPTS, seed),
        steps,
        environment,
        HfEngine(temperature=[0.3, 1.0, 0.3], max_new_tokens=LONGEST, batch_size=PROMPTS * GROUP),
        Reward(),
        LossConfig(loss_type="dr_grpo", max_completion_length=40, beta=0.02, epsilon_high=0.28, entropy_coef=ENTROPY),
        AdvantageConfig(**({"scale_rewards": "batch", "credit": "turn", "kappa": 3.0} | advantage)),
        num_generations=GROUP,
        micro_batch=32,
        seed=seed,
        on_rollouts=watch.told,
    )


def experiment(folder: Path, seed: int, steps: int, teacher: str = "uniform") -> tuple[dict[str, Any], Watch]:
    """Examples, then reinforcement, both measured: the numbers and the curve."""
    start, sft_seconds = warm_up(folder, seed, teacher)
    watch, clock = Watch(), Clock()
    module = learner(folder, seed, steps, start, watch)
    questions = SimulatedTools(HELD_OUT, QUESTIONS, DISTURBANCES[1:])
    before = measure(module, questions)
    clock.time(module.engine, "ask", "generation")
    clock.time(module, "_remember", "reference")
    clock.time(module, "_updated", "update")
    grpo_seconds = fit(module, steps, watch)
    after = measure(module, questions)
    rules = baselines(questions)
    result = {
        "seed": seed,
        "steps": steps,
        "teacher": teacher,
        "accuracy": {"sft": float(before.correct.mean()), "grpo": float(after.correct.mean())}
        | {name: float(values.mean()) for name, values in rules.items()},
        "grpo minus": {"sft": paired(after.correct, before.correct)}
        | {name: paired(after.correct, values) for name, values in rules.items()},
        "reward": {
            "sft": float(before.reward.mean()),
            "grpo": float(after.reward.mean()),
            "difference": paired(after.reward, before.reward),
        },
        "best tool": {"sft": before.best, "grpo": after.best},
        "well formed": {"sft": before.well_formed, "grpo": after.well_formed},
        "decomposed": {"sft": before.decomposed, "grpo": after.decomposed},
        "processor seconds": {"sft": sft_seconds, "grpo": grpo_seconds} | clock.seconds,
    }
    return result, watch


# -- command -----------------------------------------------------------------------------------------------------------


def draw(path: Path, result: dict[str, Any], rows: Sequence[dict[str, float]]) -> None:
    """The curve: accuracy and choice of tools in training, between the rules' accuracies."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    smooth = {name: _smoothed([row[name] for row in rows]) for name in ("accuracy", "best_tool", "entropy", "kl")}
    steps = [row["step"] for row in rows]
    left.plot(steps, smooth["accuracy"], color="#1b6ca8", label="accuracy, sampled (mean of 10 steps)")
    left.plot(steps, smooth["best_tool"], color="#c2571a", label="share of calls to the better tool")
    for place, name, side in ((0, "sft", "left"), (steps[-1], "grpo", "right")):
        left.plot([place], [result["accuracy"][name]], "o", color="#1b6ca8")
        left.annotate(f"{name}, greedy", (place, result["accuracy"][name]), (0, 6), ha=side, **LABEL)
    for name, below in (("random candidate", 0), ("best fixed per type", 1), ("table 18", 0), ("oracle", 0)):
        left.axhline(result["accuracy"][name], color="#888888", linewidth=0.8, linestyle=":")
        at = (steps[-1] * 1.3, result["accuracy"][name])
        left.annotate(name, at, (0, -9 if below else 2), ha="right", color="#555555", **LABEL)
    left.set(xlabel="step", ylabel="share", ylim=(0.4, 1.0), xlim=(-2, steps[-1] * 1.32))
    left.legend(loc="upper left", frameon=False, fontsize=8)
    right.plot(steps, smooth["entropy"], color="#1b6ca8", label="entropy of a token (nat)")
    right.plot(steps, smooth["kl"], color="#c2571a", label="KL to the start, k3 (nat)")
    right.set(xlabel="step", ylim=(0, None))
    right.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _smoothed(values: Sequence[float], width: int = 10) -> list[float]:
    return [float(np.mean(values[max(0, at - width + 1) : at + 1])) for at in range(len(values))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of weights, examples, order and draws; not of the test")
    parser.add_argument("--steps", type=int, default=140, help="of reinforcement, 16 questions × 8 passes each")
    parser.add_argument("--teacher", choices=("uniform", "habits"), default="uniform", help="how examples route")
    parser.add_argument("--out", type=Path, default=Path("outputs/learn_routing"), help="folder for models and results")
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    result, watch = experiment(args.out, args.seed, args.steps, args.teacher)
    print(json.dumps(result, indent=1))
    (args.out / "result.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    with (args.out / "curve.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(watch.rows[0]))
        writer.writeheader()
        writer.writerows(watch.rows)
    draw(args.out / "curve.png", result, watch.rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
