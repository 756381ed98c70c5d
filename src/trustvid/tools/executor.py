"""Runs a tool on frames of a clip: cache, time limit, typed failures.

Decoding happens in the caller's thread and only pixels cross to the tool's thread, so a call that ran out of time can
never touch the clip that the caller goes on using.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from trustvid.errors import TrustvidError
from trustvid.tools.cache import ToolCache, fingerprint, output_key
from trustvid.tools.evidence import CountingTool, Evidence, FrameBatch, Observation, SubQuery, Tool, ToolFailure
from trustvid.video.source import FrameSource

# Pixels handed to a tool at once: bounds memory on large frames, and how long a call can run past its limit's check.
# A window is never cut, whatever its size.
_BATCH_BYTES = 48 * 2**20
_BATCH_FRAMES = 32

_CLOCK_S = 5e-4  # containers round times to the millisecond

T = TypeVar("T")
Unit = tuple[int, ...]  # the frame, the two frames of a pair, or the frames of a window, that one output belongs to
_UNITS = {"frame": "frames", "pair": "pairs of frames", "window": "windows of two frames or more"}


class _TimedOut(Exception):
    """The time limit of the call has passed."""


class _ToolError(Exception):
    """Something that is the tool's fault; the message names the original type."""


@dataclass(frozen=True)
class _Call:
    """What stays the same through one call."""

    name: str
    tool: Tool
    query: SubQuery
    words: tuple[str, ...]
    clip: FrameSource
    deadline: float


class Executor:
    """Calls tools and turns whatever happens into :class:`Evidence`.

    Args:
        tools: by name.
        cache: where outputs are shared; None computes each time.
        time_limit_s: wall-clock seconds of one call, model loading included. The caller gets control back then, even
            when the tool hangs: its thread is abandoned, and until it ends, later calls of that tool wait for it within
            their own limit.
        max_fps: densest sampling inside the windows of tools with span "pair" or "window".
        window_s: width in seconds of the window around each selected frame for such tools.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        cache: ToolCache | None,
        time_limit_s: float,
        max_fps: float = 10.0,
        window_s: float = 2.0,
    ):
        for name, value in (("time_limit_s", time_limit_s), ("max_fps", max_fps), ("window_s", window_s)):
            if not value > 0:
                raise ValueError(f"{name}={value!r}: expected a positive number")
        self.tools = dict(tools)
        self.cache = cache
        self.time_limit_s = time_limit_s
        self.max_fps = max_fps
        self.window_s = window_s
        self._busy = {name: threading.Lock() for name in self.tools}

    def run(
        self, tool_name: str, sub_query: SubQuery, clip: FrameSource, frames: Sequence[int], words: Sequence[str] = ()
    ) -> Evidence:
        """One tool call.

        Args:
            tool_name: one of ``tools``.
            sub_query: what is asked.
            clip: where frames come from.
            frames: source indices, in any order; a tool with span "pair" or "window" sees dense windows around them.
            words: of question and options, for tools with ``reads_query``.

        Returns:
            Evidence with the observations sorted by (frame, kind, label, box) and c_intrinsic clipped to [0.01, 1]; 0
            for a failed call or one that saw nothing (paper Eq. 4). Timeouts, exceptions of the tool, unknown tools and
            empty ``frames`` come back as ``error``.

        Raises:
            VideoError: the clip cannot be decoded (the sample is unscored, no tool is to blame).
            IndexError: a frame lies outside the clip.
        """
        tool = self.tools.get(tool_name)
        if tool is None:
            known = ", ".join(sorted(self.tools)) or "none"
            failure = ToolFailure("unavailable", f"there is no tool {tool_name!r} here; known: {known}")
            return _failed(sub_query, tool_name, 0.0, (), failure)
        units = self._units(tool, clip, frames)
        looked_at = tuple(sorted({frame for unit in units for frame in unit}))
        if not units:
            failure = ToolFailure("no_frames", f"{tool_name} was given no {_UNITS[tool.span]}")
            return _failed(sub_query, tool_name, tool.cost, looked_at, failure)
        call = _Call(tool_name, tool, sub_query, tuple(words), clip, time.monotonic() + self.time_limit_s)
        try:
            observations = self._observations(call, units)
            result, intrinsic = self._in_time(call, lambda: _summary(tool, observations, len(units)))
        except _TimedOut:
            failure = ToolFailure("timeout", f"{tool_name} was not done within {self.time_limit_s:g} s")
            return _failed(sub_query, tool_name, tool.cost, looked_at, failure)
        except _ToolError as error:
            failure = ToolFailure("exception", f"{tool_name}: {error}")
            return _failed(sub_query, tool_name, tool.cost, looked_at, failure)
        intrinsic = min(max(float(intrinsic), 0.01), 1.0) if observations else 0.0
        return Evidence(
            sub_query, tool_name, observations, result, intrinsic, looked_at, tool.cost, confidence=intrinsic
        )

    def _units(self, tool: Tool, clip: FrameSource, frames: Sequence[int]) -> list[Unit]:
        """What the tool is to look at, rising and without repeats.

        Windows that overlap are one to a tool of pairs, whose outputs rest on two frames. A tool of windows gets that
        of each frame by itself: then an output, and its key, do not depend on what else was selected. All its windows
        take their frames from one thinning of the clip, so that those which overlap see the same ones; the selected
        frame need not be among them, but one less than 1/max_fps away is.
        """
        chosen = sorted({int(frame) for frame in frames})
        if chosen and not (chosen[0] >= 0 and chosen[-1] < clip.n_frames):
            raise IndexError(f"frames {chosen[0]}–{chosen[-1]} of {clip.video_id}, which has 0–{clip.n_frames - 1}")
        if tool.span == "frame" or not chosen:
            return [(frame,) for frame in chosen]
        from trustvid.video.sampling import dense_windows

        if tool.span == "window":
            times = clip.timestamps
            thinned = dense_windows(times, [0], self.max_fps, window_s=2 * float(times[-1]) + 1)[0]
            reach = self.window_s / 2 + _CLOCK_S
            found = {tuple(k for k in thinned if abs(times[k] - times[frame]) <= reach) for frame in chosen}
            return sorted(window for window in found if len(window) > 1)
        windows = dense_windows(clip.timestamps, chosen, self.max_fps, self.window_s)
        return sorted({pair for window in windows for pair in pairwise(window)})

    def _observations(self, call: _Call, units: Sequence[Unit]) -> tuple[Observation, ...]:
        """Outputs of all units, from the cache where it has them; what was computed is stored batch by batch."""
        keys = self._keys(call, units)
        found = self.cache.get_many(call.clip.digest, list(keys.values())) if self.cache else {}
        outputs = {unit: found[key] for unit, key in keys.items() if key in found}
        missing = [unit for unit in units if unit not in outputs]
        for batch in _batches(missing, call.tool, call.clip):
            computed = self._compute(call, batch)
            outputs.update(computed)
            if self.cache:
                entries = {keys[unit]: (_note(call.tool, unit), seen) for unit, seen in computed.items()}
                self.cache.put_many(call.clip.digest, entries)
        everything = [seen for unit in units for seen in outputs[unit]]
        if call.tool.span == "window":
            everything = _once(everything)
        return tuple(sorted(everything, key=lambda seen: (seen.frame, seen.kind, seen.label, seen.box or ())))

    def _keys(self, call: _Call, units: Sequence[Unit]) -> dict[Unit, str]:
        """The cache key of each unit."""
        of_tool = fingerprint(call.tool, call.query, call.words)
        return {unit: output_key(of_tool, unit, [call.clip.frame_key(frame) for frame in unit]) for unit in units}

    def _compute(self, call: _Call, batch: Sequence[Unit]) -> dict[Unit, list[Observation]]:
        """Decode the frames of ``batch`` and let the tool look at them."""
        if time.monotonic() >= call.deadline:
            raise _TimedOut
        indices = tuple(sorted({frame for unit in batch for frame in unit}))
        times = tuple(float(call.clip.timestamps[index]) for index in indices)
        frames = FrameBatch(call.clip.frames(indices), indices, times)
        outputs = self._in_time(call, lambda: call.tool.observe(frames, call.query, call.words))
        if len(outputs) != len(batch):
            raise _ToolError(f"returned outputs for {len(outputs)} of {len(batch)} units of span {call.tool.span!r}")
        return {unit: list(seen) for unit, seen in zip(batch, outputs, strict=True)}

    def _in_time(self, call: _Call, work: Callable[[], T]) -> T:
        """``work()`` in a thread of its own, waited for until the deadline.

        Raises:
            _TimedOut: the deadline passed; the thread goes on by itself and its outcome is dropped.
            _ToolError: ``work`` raised.
        """
        busy = self._busy[call.name]
        # An abandoned thread still holds the lock: two threads never run one tool at once.
        if not busy.acquire(timeout=max(0.0, call.deadline - time.monotonic())):
            raise _TimedOut
        outcome: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

        def target() -> None:
            try:
                outcome.put((work(), None))
            except Exception as error:  # whatever a tool raises is evidence, told by its type
                outcome.put((None, error))
            finally:
                busy.release()

        threading.Thread(target=target, name=f"tool {call.name}", daemon=True).start()
        try:
            value, error = outcome.get(timeout=max(0.0, call.deadline - time.monotonic()))
        except queue.Empty:
            raise _TimedOut from None
        if error is not None:
            text = str(error) if isinstance(error, TrustvidError) else f"{type(error).__name__}: {error}"
            raise _ToolError(text) from error
        return value


def _batches(units: Sequence[Unit], tool: Tool, clip: FrameSource) -> list[list[Unit]]:
    """Units in batches of bounded memory; a batch of pairs is a chain, each starting where the one before ended.

    Windows are a batch each.
    """
    if tool.span == "window":
        return [[unit] for unit in units]
    size = max(1, min(_BATCH_FRAMES, _BATCH_BYTES // max(1, clip.width * clip.height * 3)))
    batches: list[list[Unit]] = []
    for unit in units:
        fits = bool(batches) and len(batches[-1]) < size
        if fits and (len(unit) == 1 or batches[-1][-1][1] == unit[0]):
            batches[-1].append(unit)
        else:
            batches.append([unit])
    return batches


def _once(observations: Sequence[Observation]) -> list[Observation]:
    """Without what several overlapping windows saw alike: of these, the one with the best score."""
    best: dict[tuple, Observation] = {}
    for seen in sorted(observations, key=lambda seen: -seen.score):
        best.setdefault((seen.kind, seen.frame, seen.values.get("end_frame"), seen.label, seen.box), seen)
    return list(best.values())


def _summary(tool: Tool, observations: Sequence[Observation], looked_at: int) -> tuple[str, float]:
    if isinstance(tool, CountingTool):
        return tool.summarise_of(observations, looked_at)
    return tool.summarise(observations)


def _note(tool: Tool, unit: Unit) -> str:
    frames = unit if len(unit) < 3 else (unit[0], unit[-1])
    return f"{tool.name} {'-'.join(map(str, frames))}"


def _failed(query: SubQuery, tool: str, cost: float, frames: tuple[int, ...], failure: ToolFailure) -> Evidence:
    return Evidence(query, tool, (), f"the call failed ({failure.kind}): {failure.message}", 0.0, frames, cost, failure)
