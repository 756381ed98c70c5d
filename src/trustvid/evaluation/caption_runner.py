"""What a worker does with one video whose captions are to be written: tools once, then every instruction.

All functions here take and give plain containers: they cross process borders.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trustvid.agent.assembly import build_executor
from trustvid.agent.prompting import SHIPPED
from trustvid.agent.rendering import evidence_block, frames_block
from trustvid.agent.synthesis import link_words
from trustvid.captioning.files import response_fault
from trustvid.captioning.records import ResponseRecord
from trustvid.captioning.rules.strict import without_thinking
from trustvid.config.checking import build
from trustvid.errors import TrustvidError, VideoError
from trustvid.llm.prompting import PromptFolder
from trustvid.policy.base import Message, Policy, PolicyRequest
from trustvid.tools.evidence import Evidence, SubQuery
from trustvid.tools.executor import Executor
from trustvid.video.sampling import uniform_indices
from trustvid.video.source import FrameSource

# What is asked of each tool when nobody knows yet what the captions will need.
QUERIES: dict[str, SubQuery] = {
    "read_text": SubQuery("Which words are written in the picture, and where?", "text"),
    "detect_objects": SubQuery("Which coloured things are there, and where in the picture?", "spatial"),
    "recognize_action": SubQuery("How does the camera move and turn?", "action"),
}
_LEAST_READINGS = 2  # frames in which a word must have been read to count as a word of the video


@dataclass(frozen=True)
class CaptionWorker:
    """What a worker process keeps between videos."""

    config: Mapping[str, Any]
    reader: Any
    policy: Policy
    prompts: PromptFolder
    executor: Executor | None


def set_up(config: dict[str, Any]) -> CaptionWorker:
    """Build the components of a validated config in this process."""
    import cv2

    cv2.setNumThreads(1)
    executor = None
    if config["evidence"] == "tools":
        executor = build_executor(config, Path(config["paths"]["cache"]) / "tools")
    prompts = caption_prompts(config["prompts"]["folder"])
    return CaptionWorker(config, build(config["reader"]), build(config["policy"]), prompts, executor)


def caption_prompts(folder: str) -> PromptFolder:
    """The caption prompts of a prompt folder.

    Raises:
        ConfigError: it has none.
    """
    return PromptFolder(folder, SHIPPED, required=("caption_system", "caption"), setting="prompts.folder")


def caption_video(worker: CaptionWorker, unit: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Write the captions that are still open on one video.

    Args:
        unit: ``video`` (path), ``captioner`` (name in the records) and ``tasks`` (list of {"id", "instruction"}).

    Yields:
        One group with one :class:`ResponseRecord` for each instruction.
    """
    try:
        clip = worker.reader.open(Path(unit["video"]))
        frames = tuple(uniform_indices(clip.n_frames, worker.config["frames"]))
        evidence = _evidence(worker, clip, frames)
    except VideoError as error:
        if worker.config["on_error"] == "stop":
            raise
        for task in unit["tasks"]:
            yield [ResponseRecord(unit["captioner"], task["id"], None, str(error)).to_json()]
        return
    for task in unit["tasks"]:
        yield [_caption(worker, unit["captioner"], task, clip, frames, evidence).to_json()]


def _evidence(worker: CaptionWorker, clip: FrameSource, frames: tuple[int, ...]) -> str:
    """What the tools report of the clip, as a policy reads it; "" where no tools are asked."""
    if worker.executor is None:
        return ""
    found = [
        worker.executor.run(name, query, clip, frames)
        for name, query in QUERIES.items()
        if name in worker.executor.tools
    ]
    return evidence_block(found, link_words(found, read_words(found)), clip, frames)


def read_words(evidence: Sequence[Evidence]) -> tuple[str, ...]:
    """Words of the video as far as tools have read them, upper case, most frequent first."""
    readings = Counter(
        word.upper()
        for item in evidence
        for seen in item.observations
        if seen.kind == "text"
        for word in re.findall(r"[^\W\d_]{2,}", seen.label)
    )
    return tuple(
        word for word, times in sorted(readings.items(), key=lambda i: (-i[1], i[0])) if times >= _LEAST_READINGS
    )


def _caption(
    worker: CaptionWorker,
    captioner: str,
    task: Mapping[str, Any],
    clip: FrameSource,
    frames: tuple[int, ...],
    evidence: str,
) -> ResponseRecord:
    shown = frames_block(clip, frames)
    messages = (
        Message("system", worker.prompts.render("caption_system", evidence=bool(evidence))),
        Message(
            "user",
            worker.prompts.render("caption", instruction=task["instruction"], frames=shown, evidence=evidence),
            frames,
        ),
    )
    start = time.perf_counter()
    try:
        reply = worker.policy.generate([PolicyRequest(messages, clip)])[0]
    except TrustvidError as error:
        if worker.config["on_error"] == "stop":
            raise
        return ResponseRecord(captioner, task["id"], None, str(error))
    # As the published scripts do: the answer is what follows the thinking.
    text = without_thinking(reply)
    fault = response_fault([text])
    seconds = round(time.perf_counter() - start, 4)
    return ResponseRecord(captioner, task["id"], None if fault else text, fault, seconds)
