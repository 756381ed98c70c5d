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
from trustvid.config.checking import build
from trustvid.errors import TrustvidError, VideoError
from trustvid.evaluation.caption_protocol import UNCLOSED, CaptionProtocol, split_thought
from trustvid.llm.prompting import PromptFolder
from trustvid.policy.base import Policy, PolicyError, PolicyRequest
from trustvid.tools.evidence import Evidence, SubQuery
from trustvid.tools.executor import Executor
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
    protocol: CaptionProtocol
    executor: Executor | None


def set_up(config: dict[str, Any]) -> CaptionWorker:
    """Build the components of a validated config in this process."""
    import cv2

    cv2.setNumThreads(1)
    executor = None
    if config["evidence"] == "tools":
        executor = build_executor(config, Path(config["paths"]["cache"]) / "tools")
    prompts, protocol = caption_prompts(config["prompts"]["folder"]), protocol_of(config)
    return CaptionWorker(config, build(config["reader"]), build(config["policy"]), prompts, protocol, executor)


def protocol_of(config: Mapping[str, Any]) -> CaptionProtocol:
    """How the config's captioner is shown videos and whether it thinks first."""
    return build(config["captioning"]) if config.get("captioning") else CaptionProtocol()


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
        Groups with one :class:`ResponseRecord` for each instruction. As many instructions are asked in one list as the
        policy answers at a time.
    """
    tasks, captioner = unit["tasks"], unit["captioner"]
    try:
        clip = worker.reader.open(Path(unit["video"]))
        frames = worker.protocol.frames(clip, worker.config["frames"])
        evidence = _evidence(worker, clip, frames)
    except VideoError as error:
        if worker.config["on_error"] == "stop":
            raise
        for task in tasks:
            yield [ResponseRecord(captioner, task["id"], None, str(error)).to_json()]
        return
    together = getattr(worker.policy, "parallel", 1)
    for start in range(0, len(tasks), together):
        asked = tasks[start : start + together]
        yield [record.to_json() for record in _captions(worker, captioner, asked, clip, frames, evidence)]


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


def _captions(
    worker: CaptionWorker,
    captioner: str,
    tasks: Sequence[Mapping[str, Any]],
    clip: FrameSource,
    frames: tuple[int, ...],
    evidence: str,
) -> list[ResponseRecord]:
    """Records of instructions that are asked in one list; the time they take is divided evenly among them."""
    requests = [_request(worker, task["instruction"], clip, frames, evidence) for task in tasks]
    start = time.perf_counter()
    replies = _replies(worker, requests)
    seconds = round((time.perf_counter() - start) / len(tasks), 4)
    opened = worker.protocol.thinking == "opened"
    records = []
    for task, reply in zip(tasks, replies, strict=True):
        if isinstance(reply, TrustvidError):
            records.append(ResponseRecord(captioner, task["id"], None, str(reply)))
            continue
        # As the published scripts do: the answer is what follows the thinking.
        thought, caption = split_thought(reply, opened)
        fault = UNCLOSED if caption is None else response_fault([caption])
        records.append(ResponseRecord(captioner, task["id"], None if fault else caption, fault, seconds, thought))
    return records


def _request(
    worker: CaptionWorker, instruction: str, clip: FrameSource, frames: tuple[int, ...], evidence: str
) -> PolicyRequest:
    task = worker.prompts.render("caption_system", evidence=bool(evidence))
    shown = frames_block(clip, frames)
    words = worker.prompts.render("caption", instruction=instruction, frames=shown, evidence=evidence)
    return PolicyRequest(worker.protocol.messages(task, words, frames), clip)


def _replies(worker: CaptionWorker, requests: Sequence[PolicyRequest]) -> list[str | TrustvidError]:
    """One reply or error for each request.

    Raises:
        TrustvidError: a request failed and the config says on_error=stop.
    """
    try:
        return list(worker.policy.generate(requests))
    except TrustvidError as error:
        if worker.config["on_error"] == "stop":
            raise
        if isinstance(error, PolicyError) and error.replies:
            return [
                TrustvidError(error.reasons.get(place, str(error))) if reply is None else reply
                for place, reply in enumerate(error.replies)
            ]
        if len(requests) == 1:
            return [error]
    return [one for request in requests for one in _replies(worker, [request])]  # it did not say whose fault it was
