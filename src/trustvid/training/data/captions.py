"""Instruction–response pairs about videos, asked exactly as evaluation asks for captions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from trustvid.config.checking import build
from trustvid.errors import DataError
from trustvid.policy.base import Message, PolicyRequest
from trustvid.training.conversations import Conversation
from trustvid.training.data.base import Clips, Examples, Item, examples_of, held_out_fault, refuse

TRAINED_SPLIT = "train"
_LINES = 'lines {"video": …, "instruction": …, "response": …}'
_READS = ("prompts", "reader", "captioning", "tools")


class Pair(NamedTuple):
    """An instruction about a video and the response that is wanted; ``video`` is the reason where there is none."""

    key: str
    video: Path | str
    instruction: str
    response: str


class Triplets:
    """Instruction–response pairs on videos of one's own: JSON lines, or files in the official shape of IF-VidCap.

    Args:
        file: JSON lines ``{"video": "a.mp4", "instruction": "…", "response": "…"}``; further keys are not read, but a
            line whose "split" is not "train" is refused.
        videos: folder of the videos; paths may not lead out of it.
        responses: instead of ``file``, a ``*_response.json``; the instructions are then those of
            ``<videos>/annotation/prompt.json``. Not the benchmark's own: they are for testing.
        held_out: share of the videos that is measured on and not learned.

    Raises:
        ConfigError: settings are wrong, all faults at once.
    """

    reads = _READS

    def __init__(
        self, videos: str | None, file: str | None = None, responses: str | None = None, held_out: float = 0.02
    ):
        self.videos, self.file, self.responses, self.held_out = videos, file, responses, held_out
        faults = held_out_fault(held_out)
        if videos is None:
            faults.append("data.videos is not set; expected the folder of the videos")
        if (file is None) == (responses is None):
            faults.append(f"data.file={file}, data.responses={responses}; expected one of them")
        refuse(faults)

    def load(self, config: Mapping[str, Any]) -> Examples:
        """The pairs; those whose video cannot be read, or that lack something, are left out.

        Raises:
            DataError: a file cannot be read, a line is of another split, or nothing is left.
        """
        pairs, left_out = self._lines() if self.file else self._official()
        items, unreadable = caption_items(config, pairs)
        return examples_of(items, self.held_out, config["seed"], [*left_out, *unreadable])

    def _lines(self) -> tuple[list[Pair], list[str]]:
        from trustvid.benchmarks.base import find_video
        from trustvid.benchmarks.files import read_json_lines

        pairs, left_out = [], []
        path, root = Path(str(self.file)).expanduser(), Path(str(self.videos)).expanduser()
        for number, row in read_json_lines(path, _LINES):
            fault = row if isinstance(row, str) else _row_fault(row)
            if isinstance(row, str) or fault:
                left_out.append(f"{path.name}:{number}: {fault}")
                continue
            if row.get("split", TRAINED_SPLIT) != TRAINED_SPLIT:
                raise DataError(f"{path}:{number}: is of split {row['split']!r}; nothing is learned from it")
            video = find_video(root, row["video"])
            pairs.append(Pair(f"{path.name}:{number}", video, row["instruction"], row["response"]))
        return pairs, left_out

    def _official(self) -> tuple[list[Pair], list[str]]:
        from trustvid.benchmarks.if_vidcap import IFVidCap
        from trustvid.captioning.files import read_responses

        tasks, problems = IFVidCap(self.videos, checklists="skeleton").tasks()
        found = read_responses(Path(str(self.responses)).expanduser(), [task.instruction.key for task in tasks])
        left_out = [f"{one.where}: {one.reason}" for one in (*problems, *found.problems)]
        left_out += [f"{key}: {reason}" for key, reason in found.unusable.items()]
        pairs = [
            Pair(task.id, task.video, task.instruction.text, found.texts[task.instruction.key])
            for task in tasks
            if task.instruction.key in found.texts
        ]
        return pairs, left_out


class RightCaptions:
    """A generated benchmark's own right responses (``benchmark=boxworld_captions``, split train).

    Args:
        held_out: share of the videos that is measured on and not learned.

    Raises:
        ConfigError: settings are wrong.
    """

    reads = (*_READS, "benchmark")

    def __init__(self, held_out: float = 0.05):
        self.held_out = held_out
        refuse(held_out_fault(held_out))

    def load(self, config: Mapping[str, Any]) -> Examples:
        """Every instruction with its right response.

        Raises:
            DataError: the benchmark has no responses of known truth.
        """
        from trustvid.captioning.files import RESPONSES_END, read_responses

        benchmark = build(config["benchmark"])
        known = benchmark.known_responses() if hasattr(benchmark, "known_responses") else None
        if known is None:
            raise DataError(f"{benchmark.name} has no responses of known truth; expected benchmark=boxworld_captions")
        tasks, _ = benchmark.tasks()
        found = read_responses(known / f"right{RESPONSES_END}", [task.instruction.key for task in tasks])
        pairs = [
            Pair(task.id, task.video, task.instruction.text, found.texts[task.instruction.key])
            for task in tasks
            if task.instruction.key in found.texts
        ]
        items, left_out = caption_items(config, pairs)
        return examples_of(items, self.held_out, config["seed"], left_out)


@dataclass
class _Listener:
    """Stands where the captioner stands and keeps what it is asked."""

    asked: list[PolicyRequest]
    name = "listener"
    parallel = 1 << 20  # all of a video at once

    def generate(self, requests: Sequence[PolicyRequest]) -> list[str]:
        self.asked += requests
        return ["-"] * len(requests)


def caption_items(config: Mapping[str, Any], pairs: Sequence[Pair]) -> tuple[list[Item], list[str]]:
    """Each pair as the conversation that evaluation would have with the captioner: same prompts, frames and evidence.

    Returns:
        The conversations, and why pairs are left out.
    """
    from trustvid.captioning.files import response_fault
    from trustvid.evaluation import caption_runner
    from trustvid.progress import Progress

    left_out, of_video = [], dict[str, list[Pair]]()
    for pair in pairs:
        fault = pair.video if isinstance(pair.video, str) else response_fault([pair.response])
        if fault:
            left_out.append(f"{pair.key}: {fault}")
        else:
            of_video.setdefault(str(pair.video), []).append(pair)
    listener, clips = _Listener([]), Clips(config)
    worker = caption_runner.CaptionWorker(
        config={**config, "on_error": "skip"},
        reader=clips.reader,
        policy=listener,
        prompts=caption_runner.caption_prompts(config["prompts"]["folder"]),
        protocol=caption_runner.protocol_of(config),
        executor=_executor(config),
    )
    items = []
    with Progress(len(pairs), "prompts", unit="examples", done=len(left_out)) as progress:
        for video, some in of_video.items():
            listener.asked.clear()
            tasks = [{"id": pair.key, "instruction": pair.instruction} for pair in some]
            unit = {"video": video, "captioner": listener.name, "tasks": tasks}
            records = [record for group in caption_runner.caption_video(worker, unit) for record in group]
            if len(listener.asked) == len(some):
                items += _items(some, listener.asked, clips)
            else:
                left_out += [f"{record['task_id']}: {record['reason']}" for record in records]
            progress.advance(len(some), unscored=len(some) - len(listener.asked))
    return items, left_out


def _executor(config: Mapping[str, Any]) -> Any:
    """The tools whose report is shown with an instruction; None where none is."""
    from trustvid.agent.assembly import build_executor

    if config["evidence"] != "tools":
        return None
    return build_executor(config, Path(config["paths"]["cache"]) / "tools")


def _items(pairs: Sequence[Pair], asked: Sequence[PolicyRequest], clips: Clips) -> Iterator[Item]:
    for pair, request in zip(pairs, asked, strict=True):
        messages = (*request.messages, Message("assistant", pair.response))
        yield Item(Conversation(pair.key, messages, clips.opener(pair.video)), cluster=str(pair.video))


def _row_fault(row: Mapping[str, Any]) -> str | None:
    bad = [name for name in ("video", "instruction", "response") if not isinstance(row.get(name), str)]
    return f"lacks {', '.join(bad)}; expected {_LINES}" if bad else None
