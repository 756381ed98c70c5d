"""Does this machine run the published 7 B policy, how fast, and in how much memory: one table, without a download.

    python benchmarks/gpu_check.py [--size 7b|tiny] [--frames 32] [--tokens 64] [--minutes 6]

A Qwen2.5-VL of the published shape is made with random weights in bfloat16 on the GPU itself; tokenizer and processors
are those of the tiny policy, with the bounds of conf/policy/qwen2_5_vl_7b.yaml. Then the methods ``direct`` and
``anchored`` answer one and eight questions about a BoxWorld clip, scaled up to 1280x720, through the pipeline. Random
weights answer nothing sensible; what they cost is what trained ones cost, and they hardly ever end a reply before
``--tokens``. Where there is no GPU the tiny model takes the same way (``--size tiny``) with the clip as it is and fewer
frames and tokens, in under a minute.

Printed: device, load time, tokens of the longest first prompt, written tokens per second (the reading of prompts is
included; "no room": the batch did not fit in memory and questions were answered one by one; "no time": the minutes were
over), peak memory, how far the log-probabilities of a reply differ between a batch and alone, which is the rounding of
the data type, and the seconds and memory of a step of SFT and of GRPO on an adapter. Exit status 1 where these are not
numbers, or where a question got no answer.

Everything measured is one function of ``MEASUREMENTS``.
"""

from __future__ import annotations

import argparse
import math
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from omegaconf import OmegaConf
from transformers import AutoModelForImageTextToText, Qwen2_5_VLConfig

from trustvid.agent.assembly import build_pipelines
from trustvid.agent.driving import drive_all
from trustvid.agent.method import Question, View
from trustvid.agent.pipeline import Pipeline
from trustvid.benchmarks.boxworld.preview import render_clip
from trustvid.config.compose import compose_config
from trustvid.errors import TrustvidError
from trustvid.grpo.episodes import Episode, Outcome
from trustvid.grpo.reward import Reward, RewardInputs
from trustvid.grpo.rollout import HfEngine
from trustvid.grpo.settings import AdvantageConfig, LossConfig
from trustvid.policy.base import Message, PolicyRequest
from trustvid.policy.tiny_build import build_model
from trustvid.policy.vlm import Turn, VisionLanguagePolicy
from trustvid.policy.vlm_model import VisionLanguageModel
from trustvid.policy.vlm_settings import Decoding
from trustvid.tools.assess_quality import stored_measurer
from trustvid.training.conversations import Conversation
from trustvid.video.reader import open_clip
from trustvid.video.writer import write_video

METHODS = ("direct", "anchored")
BATCHES = (1, 8)
DEFAULTS = {"7b": (32, 64), "tiny": (4, 6)}  # frames, and tokens of a reply
STEPS, GROUP = 2, 4  # of training: the second step is told; passes of a question
THINGS = ("red house", "tower", "green car", "white bus", "sign", "bridge", "yellow crate", "blue door")
REPLY = "<think>It is left of the house.</think><answer>A</answer><confidence>0.8</confidence>"


@dataclass
class Spent:
    """What answering took: written tokens, seconds, tokens of the longest first prompt, and batches begun."""

    tokens: int = 0
    seconds: float = 0.0
    prompt: int = 0
    batches: int = 0


class TimedPolicy(VisionLanguagePolicy):
    """A policy that keeps what its replies take."""

    def __init__(self, *args: Any, **settings: Any):
        super().__init__(*args, **settings)
        self.spent = Spent()

    def converse(self, requests: Sequence[PolicyRequest], decoding: Decoding | None = None) -> list[Turn]:
        started = time.perf_counter()
        turns = super().converse(requests, decoding)  # ends on the CPU: the device has finished
        self.spent.seconds += time.perf_counter() - started
        replies = [len(turn.buffer.last_reply) for turn in turns]
        self.spent.tokens += sum(replies)
        if self.spent.prompt == 0:
            prompts = [len(turn.buffer) - reply for turn, reply in zip(turns, replies, strict=True)]
            self.spent.prompt = max(prompts)
        return turns


@dataclass(frozen=True)
class CountedModel(VisionLanguageModel):
    """A model that counts the batches it begins: more than one means that the first found no room."""

    begun: list[int] = field(default_factory=list)

    def session(self, buffers: Sequence[Any]) -> Any:
        self.begun.append(len(buffers))
        return super().session(buffers)


@dataclass(frozen=True)
class Bench:
    """What measurements work on.

    Attributes:
        device: "cuda" or "cpu".
        model: the model under test.
        policies: one for each size of batch, all of this model.
        methods: the pipelines of :data:`METHODS`.
        view: the clip.
        frames: K.
        ends: of ``time.perf_counter``: nothing more is begun then.
    """

    device: str
    model: CountedModel
    policies: dict[int, TimedPolicy]
    methods: dict[str, Pipeline]
    view: View
    frames: int
    ends: float

    @property
    def in_time(self) -> bool:
        return time.perf_counter() < self.ends


def config_7b(tiny: Any) -> Any:
    """Qwen2.5-VL-7B as published (arXiv 2502.13923, Table 1, and its config.json); control tokens as in ``tiny``."""
    text = {
        "vocab_size": 152_064,
        "hidden_size": 3584,
        "intermediate_size": 18_944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "max_position_embeddings": 128_000,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0, "mrope_section": [16, 24, 24]},
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": tiny.get_text_config().pad_token_id,
    }
    vision = {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "out_hidden_size": 3584,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "tokens_per_second": 2,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
    }
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    tokens = {name: getattr(tiny, name) for name in names}
    return Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=False, **tokens)


def load(size: str, folder: Path, device: str) -> tuple[CountedModel, float]:
    """The model with random weights, made where it runs, and the seconds that took."""
    build_model(folder, "qwen2_5_vl", 0)
    started = time.perf_counter()
    model = VisionLanguagePolicy(str(folder), device=device if size == "tiny" else "cpu", name=size).load()
    network = model.network
    if size == "7b":
        started = time.perf_counter()
        ends = network.generation_config
        torch.manual_seed(0)
        with torch.device(device):
            config = config_7b(network.config)
            network = AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16).eval()
        network.generation_config = ends
    longest = network.config.get_text_config().max_position_embeddings
    if device == "cuda":
        torch.cuda.synchronize()
    return CountedModel(network, model.processor, model.family, longest), time.perf_counter() - started


def pipelines(frames: int) -> dict[str, Pipeline]:
    """The methods of ``evaluate.py methods=[direct,anchored] frames=<frames>``."""
    overrides = [f"methods=[{','.join(METHODS)}]", f"frames={frames}", f"methods.anchored.selection.k_max={frames}"]
    return build_pipelines(OmegaConf.to_container(compose_config(overrides), resolve=True), cache_dir=None)


def ask(pipeline: Pipeline, view: View, policy: TimedPolicy, number: int) -> list[PolicyRequest]:
    """Let the pipeline answer questions side by side; the last conversation of each, without its reply.

    Raises:
        TrustvidError: a question got no answer.
    """
    questions = [Question(f"Where is the {thing} at the end?", ("left", "right", "ahead")) for thing in THINGS[:number]]
    outcomes = drive_all([pipeline.run(question, view) for question in questions], policy)
    failed = [outcome for outcome in outcomes if isinstance(outcome, TrustvidError)]
    if failed:
        raise failed[0]
    return [PolicyRequest(outcome.messages[:-1], view.clip) for outcome in outcomes]


def reset_peak(device: str) -> None:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()


def peak_memory(device: str) -> float:
    """Gigabytes: on a GPU the most that was allocated since the last reset, else the most that was ever resident."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # Linux: kilobytes


def check(size: str, frames: int, tokens: int, minutes: float) -> int:
    """Measure and print; the exit status."""
    ends = time.perf_counter() + 60 * minutes
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        model, taken = load(size, Path(folder) / "model", device)
        network = model.network
        where = torch.cuda.get_device_name() if device == "cuda" else f"cpu ({platform.machine()})"
        print(f"device           {where}, torch {torch.__version__}")
        print(f"model            Qwen2.5-VL {size}, {network.num_parameters() / 1e6:,.1f} M parameters, random weights")
        print(f"dtype            {str(network.dtype).removeprefix('torch.')}")
        print(f"load             {taken:.1f} s", flush=True)
        bounds = {"min_pixels": 50_176, "max_pixels": 602_112} if size == "7b" else {}
        policies = {
            batch: TimedPolicy(str(folder), max_new_tokens=tokens, batch_size=batch, **bounds) for batch in BATCHES
        }
        for policy in policies.values():
            policy.loaded = model
        path = Path(folder) / "city.mp4"
        write_video(path, clip_frames(size), 10)
        with open_clip(path) as clip:
            methods = pipelines(frames)
            view = View(clip, stored_measurer(methods[METHODS[0]].executor))
            print(f"clip             {clip.width}x{clip.height}, {frames} of {clip.n_frames} frames")
            bench = Bench(device, model, policies, methods, view, frames, ends)
            ask(methods["direct"], view, policies[1], 1)  # what only a first call costs
            sound = [measure(bench) for measure in MEASUREMENTS]
            return 0 if all(sound) else 1


def clip_frames(size: str) -> np.ndarray:
    """A BoxWorld flight, uint8 RGB; for the large model as large as real footage, so that prompts are as long."""
    frames = render_clip("city", 0).frames
    if size == "tiny":
        return frames
    return np.stack([cv2.resize(frame, (1280, 720), interpolation=cv2.INTER_CUBIC) for frame in frames])


# -- what is measured --------------------------------------------------------------------------------------------------


def answering(bench: Bench) -> bool:
    """Tokens per second and memory of answering questions, alone and side by side."""
    print(f"{f'{bench.frames} frames':<24}" + "".join(f"{method:>12}" for method in METHODS))
    rows: dict[str, list[str]] = {}
    for method in METHODS:
        for batch, policy in bench.policies.items():
            speed = memory = prompt = "no time"
            if bench.in_time:
                policy.spent = Spent()
                bench.model.begun.clear()
                reset_peak(bench.device)
                ask(bench.methods[method], bench.view, policy, batch)
                alone = len(bench.model.begun) > 1
                speed = "no room" if alone else f"{policy.spent.tokens / policy.spent.seconds:.1f}"
                memory, prompt = f"{peak_memory(bench.device):.1f}", f"{policy.spent.prompt:,}"
            for name, value in (("prompt tokens", prompt), ("tokens/s", speed), ("peak GB", memory)):
                rows.setdefault(f"{name} batch {batch}", []).append(value)
    for name, values in rows.items():
        print(f"{name:<24}" + "".join(f"{value:>12}" for value in values), flush=True)
    return True


def rounding(bench: Bench) -> bool:
    """How far the log-probabilities of a reply differ between a batch and alone; False where these are no numbers."""
    if not bench.in_time:
        print("batch or alone   no time")
        return True
    conversations = ask(bench.methods["direct"], bench.view, bench.policies[8], 8)
    together, alone = (bench.policies[n].logprobs(conversations, [REPLY] * len(conversations)) for n in (8, 1))
    difference = float(np.abs(np.array(together) - np.array(alone)).max())
    print(f"batch or alone   log-probabilities of a reply differ by at most {difference:.2g}")
    return math.isfinite(difference)


class Held(TimedPolicy):
    """A policy in training whose own weights are those on the bench."""

    def load_own(self) -> CountedModel:
        return self.loaded


def training(bench: Bench) -> bool:
    """Seconds and memory of a step of SFT and of GRPO on an adapter; last, for the network carries it from then on."""
    from trustvid.captioner import IFCaptioner
    from trustvid.module import RobustTO
    from trustvid.policy.vlm_adapters import Lora
    from trustvid.training.optimizer import AdamW
    from trustvid.training.order import StepOrder

    if not bench.in_time:
        print("training         no time")
        return True
    policy = Held(bench.policies[1].weights.model, batch_size=GROUP, **asdict(bench.policies[1].showing))
    policy.loaded = bench.model
    shared = (policy, Lora(r=16), AdamW(1e-5))
    sft = IFCaptioner(*shared, StepOrder(STEPS, 1, 0), STEPS, taught(bench), micro_batch=1)
    print(f"step of SFT      {step(bench, sft)} (1 conversation, adapter of rank 16)", flush=True)
    engine = HfEngine(max_new_tokens=bench.policies[1].decoding.max_new_tokens, batch_size=GROUP)
    objective = (Reward(), LossConfig(beta=0.01), AdvantageConfig(), GROUP)
    policy.loaded = replace(bench.model, peft=sft.trainable.peft)
    grpo = RobustTO(*shared, StepOrder(STEPS, 1, 0), STEPS, Direct(bench), engine, *objective, micro_batch=GROUP)
    print(f"step of GRPO     {step(bench, grpo)} (1 question, {GROUP} passes of direct, KL)", flush=True)
    return True


def taught(bench: Bench) -> list[Conversation]:
    """A question of ``direct`` with its frames and the same reply, for each step."""
    (request,) = ask(bench.methods["direct"], bench.view, bench.policies[1], 1)
    messages = (*request.messages, Message("assistant", REPLY))
    return [Conversation(str(number), messages, lambda: bench.view.clip) for number in range(STEPS)]


class Direct:
    """Questions that ``direct`` is asked; longer replies are rewarded, so that there is something to learn."""

    def __init__(self, bench: Bench):
        self.bench = bench

    def __len__(self) -> int:
        return STEPS

    def episode(self, index: int, epoch: int) -> Episode:
        question = Question(f"Where is the {THINGS[index]} at the end?", ("left", "right", "ahead"))

        def judge(trajectory: Any) -> Outcome:
            share = len(set(trajectory.messages[-1].text)) % 7 / 7
            return Outcome(RewardInputs(share, 1, 1.0, (), (), True))

        return Episode(str(index), lambda: self.bench.methods["direct"].run(question, self.bench.view), judge)


def step(bench: Bench, module: Any) -> str:
    """Seconds of the second step of a training, and its peak of memory, in words."""
    from lightning import Callback, Trainer

    marks: list[float] = []

    class Marks(Callback):
        def on_train_batch_end(self, *_: Any) -> None:
            if bench.device == "cuda":
                torch.cuda.synchronize()
            marks.append(time.perf_counter())

    reset_peak(bench.device)
    accelerator = "gpu" if bench.device == "cuda" else "cpu"
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    try:
        Trainer(max_steps=STEPS, accelerator=accelerator, devices=1, callbacks=[Marks()], **quiet).fit(module)
    except torch.OutOfMemoryError:
        return "no room"
    return f"{marks[-1] - marks[-2]:.1f} s, {peak_memory(bench.device):.1f} GB"


# Each measures one thing on the bench, prints its lines and says whether what it found is sound.
MEASUREMENTS: tuple[Callable[[Bench], bool], ...] = (answering, rounding, training)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    gpu = torch.cuda.is_available()
    parser.add_argument("--size", choices=("tiny", "7b"), default="7b" if gpu else "tiny", help="7b where there is one")
    parser.add_argument("--frames", type=int, help="frames that the policy is shown: 32, tiny 4")
    parser.add_argument("--tokens", type=int, help="tokens of every reply: 64, tiny 6")
    parser.add_argument("--minutes", type=float, default=6.0, help="nothing more is begun after this time: 6")
    parser.add_argument("--threads", type=int, default=None, help="of the CPU; as many as torch takes unless told")
    arguments = parser.parse_args()
    if arguments.size == "7b" and not gpu:
        parser.error("--size 7b needs a GPU (17 GB of memory for the weights alone); expected --size tiny here")
    cv2.setNumThreads(1)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    frames, tokens = DEFAULTS[arguments.size]
    return check(arguments.size, arguments.frames or frames, arguments.tokens or tokens, arguments.minutes)


if __name__ == "__main__":
    sys.exit(main())
