"""A GRPO step of ours beside TRL's GRPOTrainer: processor time and memory on one tiny model, text alone.

    python benchmarks/grpo_vs_trl.py [--repeats 5] [--steps 8] [--prompt-words 64] [--length 32]

Both take the same weights, prompts, lengths and number of passes, sample from the network that is trained, update once
for each batch in one forward pass, and compute the same metrics (entropy of every token, clip ratios, KL where there
is a reference). Each measurement is a process of its own, ours and TRL's in turn, one thread. Of each: the median
processor time of a step, the first two left out; and the peak of resident memory in training above what the process
held before it (and the peak itself, which also counts what was imported). Printed: medians over the repeats and the
ratios. Needs ``pip install 'trl==1.16.*'``.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trustvid.seeding import derive_rng

WORDS = (
    "left",
    "right",
    "above",
    "below",
    "near",
    "far",
    "red",
    "blue",
    "green",
    "white",
    "door",
    "sign",
    "road",
    "tree",
    "tower",
    "house",
    "lamp",
    "car",
    "bus",
    "box",
)
FIRST_STEPS = 2  # not measured: allocators and caches fill


def prompts(count: int, words: int) -> list[str]:
    """Prompts of equal length, no two alike."""
    return [" ".join(WORDS[i] for i in derive_rng("prompt", n).integers(len(WORDS), size=words)) for n in range(count)]


def reward(reply: str) -> float:
    """Something that differs between replies: the share of their words that are new."""
    words = reply.split()
    return len(set(words)) / max(1, len(words))


class Meter:
    """Processor time of steps and peak of resident memory, from :meth:`start` on."""

    def __init__(self) -> None:
        self.marks: list[float] = []
        self.held = 0

    def start(self) -> None:
        """Training begins."""
        Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak so far
        self.held = _status("VmRSS")
        self.marks = [time.process_time()]

    def step(self) -> None:
        """A step is done."""
        self.marks.append(time.process_time())

    def result(self) -> dict[str, float]:
        """Seconds of a step; MB above what was held; MB at the peak."""
        steps = [after - before for before, after in zip(self.marks, self.marks[1:], strict=False)][FIRST_STEPS:]
        peak = _status("VmHWM")
        return {"seconds": statistics.median(steps), "added MB": (peak - self.held) / 1024, "peak MB": peak / 1024}


def _status(name: str) -> int:
    """A line of /proc/self/status, kB."""
    return int(re.search(rf"^{name}:\s+(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE)[1])


# -- ours --------------------------------------------------------------------------------------------------------------


class OneTurn:
    """Questions answered in one turn (an :class:`~trustvid.grpo.episodes.Environment`)."""

    def __init__(self, texts: Sequence[str]):
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def episode(self, index: int, epoch: int) -> Any:
        from simulated_tools import NoVideo

        from trustvid.grpo.episodes import Episode, Outcome
        from trustvid.grpo.reward import RewardInputs
        from trustvid.policy.base import Message, PolicyRequest

        def start() -> Any:
            reply = yield PolicyRequest((Message("user", self.texts[index]),), NoVideo(str(index)))
            return reply

        return Episode(str(index), start, lambda reply: Outcome(RewardInputs(reward(reply), 1, 1.0, (), (), True)))


def ours(args: argparse.Namespace, meter: Meter) -> None:
    """Our training step."""
    from lightning import Callback, Trainer

    from trustvid.grpo.reward import Reward
    from trustvid.grpo.rollout import HfEngine
    from trustvid.grpo.settings import AdvantageConfig, LossConfig
    from trustvid.module import RobustTO
    from trustvid.policy.tiny import TinyPolicy
    from trustvid.policy.vlm_adapters import Full
    from trustvid.training.optimizer import AdamW
    from trustvid.training.order import StepOrder

    class Marks(Callback):
        def on_train_start(self, *_: Any) -> None:
            meter.start()

        def on_train_batch_end(self, *_: Any) -> None:
            meter.step()

    passes = args.prompts * args.group
    texts = prompts(args.prompts * args.steps, args.prompt_words)
    module = RobustTO(
        TinyPolicy("qwen2_5_vl", args.cache),
        Full(),
        AdamW(1e-6),
        StepOrder(len(texts), args.prompts, 0),
        args.steps,
        OneTurn(texts),
        HfEngine(max_new_tokens=args.length, batch_size=passes),
        Reward(),
        LossConfig(beta=args.beta),
        AdvantageConfig(),
        num_generations=args.group,
        micro_batch=passes,
    )
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    Trainer(max_steps=args.steps, accelerator="cpu", enable_model_summary=False, callbacks=[Marks()], **quiet).fit(
        module
    )


# -- TRL's -------------------------------------------------------------------------------------------------------------


def trl(args: argparse.Namespace, meter: Meter) -> None:
    """TRL's trainer, nothing of it changed."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from trustvid.policy.tiny import TinyPolicy

    class Marks(TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            meter.start()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            meter.step()

    folder = TinyPolicy("qwen2_5_vl", args.cache)
    network, processor = folder.load().network, folder.load().processor
    rows = [
        {"prompt": [{"role": "user", "content": text}]}
        for text in prompts(args.prompts * args.steps, args.prompt_words)
    ]

    def rewards(completions: Any, **_: Any) -> list[float]:
        return [reward(completion[0]["content"]) for completion in completions]

    with tempfile.TemporaryDirectory() as out:
        settings = GRPOConfig(
            output_dir=out,
            use_cpu=True,
            bf16=False,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            logging_steps=1,
            max_steps=args.steps,
            learning_rate=1e-6,
            lr_scheduler_type="constant",
            num_generations=args.group,
            per_device_train_batch_size=args.prompts * args.group,
            gradient_accumulation_steps=1,
            max_completion_length=args.length,
            gradient_checkpointing=False,
            loss_type="grpo",
            beta=args.beta,
        )
        GRPOTrainer(
            network if args.beta == 0 else folder.weights.model,  # a reference is loaded from the folder
            rewards,
            args=settings,
            train_dataset=Dataset.from_list(rows),
            processing_class=processor,
            callbacks=[Marks()],
        ).train()


# -- command -----------------------------------------------------------------------------------------------------------

SIDES: dict[str, Callable[[argparse.Namespace, Meter], None]] = {"ours": ours, "trl": trl}


def measure(side: str, beta: float, arguments: Sequence[str]) -> dict[str, float]:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, *arguments, "--side", side, "--beta", str(beta)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="processes of each side and setting")
    parser.add_argument("--steps", type=int, default=8, help="of training in each")
    parser.add_argument("--prompts", type=int, default=8, help="of a step")
    parser.add_argument("--group", type=int, default=8, help="passes of a prompt")
    parser.add_argument("--prompt-words", type=int, default=64, help="length of a prompt")
    parser.add_argument("--length", type=int, default=32, help="longest reply in tokens")
    parser.add_argument("--cache", default=".cache/models", help="folder for the tiny model")
    parser.add_argument("--side", choices=tuple(SIDES), help=argparse.SUPPRESS)
    parser.add_argument("--beta", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        import torch

        torch.set_num_threads(1)
        meter = Meter()
        SIDES[args.side](args, meter)
        print(json.dumps(meter.result()))
        return 0
    print(f"{'':<10}{'s / step':>20}{'ratio':>8}{'MB added':>20}{'ratio':>8}{'MB at peak':>20}{'ratio':>8}")
    print(f"{'':<10}" + f"{'ours':>10}{'TRL':>10}{'':>8}" * 3)
    for beta in (0.0, 0.04):
        found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
        for _ in range(args.repeats):
            for side, results in found.items():
                results.append(measure(side, beta, sys.argv[1:]))
        cells = []
        for name, digits in (("seconds", 3), ("added MB", 0), ("peak MB", 0)):
            mine, theirs = (statistics.median(one[name] for one in found[side]) for side in SIDES)
            ratio = theirs / mine if name == "seconds" else mine / theirs
            cells.append(f"{mine:>10.{digits}f}{theirs:>10.{digits}f}{ratio:>8.2f}")
        print(f"beta {beta:<5}" + "".join(cells), flush=True)
    print("Ratios: of time TRL's to ours, of memory ours to TRL's.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
