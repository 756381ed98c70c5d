"""Executor and tool cache: sharing, misses, limits, failures.   pytest tests/unit/test_executor.py -q"""

from __future__ import annotations

import multiprocessing
import sqlite3
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.errors import TrustvidError, VideoError
from trustvid.tools.cache import ToolCache, fingerprint, output_key
from trustvid.tools.evidence import FrameBatch, Observation, SubQuery
from trustvid.tools.executor import Executor

QUERY = SubQuery("what is there?", "spatial")


class Probe:
    """A tool that reports the mean of each frame (or the difference of each pair) and counts what it looked at."""

    name, cost, version = "probe", 0.3, "1"

    def __init__(self, span: str = "frame", reads_query: bool = False, gain: float = 1.0, fault=None):
        self.span, self.reads_query, self.gain, self.fault = span, reads_query, gain, fault
        self.batches: list[tuple[int, ...]] = []

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        self.batches.append(batch.indices)
        if self.fault:
            self.fault()
        means = batch.images.reshape(len(batch.images), -1).mean(axis=1) * self.gain
        seen = [
            [Observation(index, when, "object", label, 0.5, (0.1, 0.2, 0.3, 0.4), {"mean": float(mean)})]
            for index, when, mean in zip(batch.indices, batch.times, means, strict=True)
            for label in ["thing" if not self.reads_query else query.text]
        ]
        if self.span == "window":
            return [[one for output in seen for one in output]]
        return seen if self.span == "frame" else seen[:-1]

    def summarise(self, observations: Sequence[Observation]) -> tuple[str, float]:
        return f"{len(observations)} things", 2.0 if observations else 0.0

    def settings(self) -> dict:
        return {"gain": self.gain}

    @property
    def looked_at(self) -> list[int]:
        return [index for batch in self.batches for index in batch]


class Replaced:
    """A view of a source whose frames, digest or frame keys differ."""

    def __init__(self, source: ArraySource, digest: str | None = None, key: str | None = None):
        self._source, self._key = source, key
        self.digest = digest or source.digest
        for name in ("video_id", "n_frames", "timestamps", "width", "height", "fps"):
            setattr(self, name, getattr(source, name))

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        return self._source.frames(indices)

    def frame_key(self, index: int) -> str:
        return self._key or self._source.frame_key(index)


class Broken(Replaced):
    """A source that cannot be decoded."""

    def frames(self, indices: Sequence[int]) -> np.ndarray:
        raise VideoError("clip.mp4", "cut off", "a whole file")


@pytest.fixture
def clip() -> ArraySource:
    values = np.arange(40, dtype=np.uint8).reshape(40, 1, 1, 1) * np.ones((1, 12, 16, 3), np.uint8)
    return ArraySource(values, fps=10)


def run(tool: Probe, clip, frames, cache=None, query: SubQuery = QUERY, words: Sequence[str] = (), **kwargs):
    return Executor({tool.name: tool}, cache, kwargs.pop("time_limit_s", 20.0), **kwargs).run(
        tool.name, query, clip, frames, words
    )


def test_evidence_is_complete_sorted_and_clipped(clip):
    evidence = run(Probe(), clip, [7, 3, 3, 12])
    assert evidence.frames == (3, 7, 12)
    assert [seen.frame for seen in evidence.observations] == [3, 7, 12]
    assert [seen.values["mean"] for seen in evidence.observations] == [3.0, 7.0, 12.0]
    assert [seen.time for seen in evidence.observations] == pytest.approx([0.3, 0.7, 1.2])
    assert (evidence.intrinsic, evidence.confidence, evidence.cost) == (1.0, 1.0, 0.3)
    assert (evidence.result, evidence.error) == ("3 things", None)


def test_nothing_seen_has_confidence_zero_and_is_no_failure(clip):
    tool = Probe()
    tool.observe = lambda batch, query, words: [[] for _ in batch.indices]
    evidence = run(tool, clip, [1])
    assert (evidence.intrinsic, evidence.error, evidence.observations) == (0.0, None, ())


def test_pairs_come_from_dense_windows_and_share_the_cache(clip):
    cache, first, second = ToolCache.memory(), Probe("pair"), Probe("pair")
    evidence = run(first, clip, [10], cache, window_s=0.4)
    assert evidence.frames == (8, 9, 10, 11, 12)
    assert [seen.frame for seen in evidence.observations] == [8, 9, 10, 11]
    wider = run(second, clip, [10, 14], cache, window_s=0.4)
    assert wider.frames == tuple(range(8, 17))
    assert second.looked_at == [12, 13, 14, 15, 16]
    assert wider.observations[:4] == evidence.observations


class Window(Probe):
    """A tool that reports the first and the last frame of each window."""

    def observe(self, batch: FrameBatch, query: SubQuery, words: Sequence[str]) -> list[list[Observation]]:
        self.batches.append(batch.indices)
        ends = {"end_frame": batch.indices[-1], "end_time": batch.times[-1]}
        return [[Observation(batch.indices[0], batch.times[0], "action", "all", 0.5, values=ends)]]


def test_a_window_is_given_whole_and_alone_and_has_one_key(clip):
    cache, first, second = ToolCache.memory(), Window("window"), Window("window")
    evidence = run(first, clip, [10], cache, window_s=0.4)
    assert first.batches == [(8, 9, 10, 11, 12)] and evidence.frames == first.batches[0]
    assert [(seen.frame, seen.values["end_frame"]) for seen in evidence.observations] == [(8, 12)]
    more = run(second, clip, [14, 10, 10, 39], cache, window_s=0.4)
    assert second.batches == [(12, 13, 14, 15, 16), (37, 38, 39)], "neither merged with others nor asked for again"
    assert [seen.frame for seen in more.observations] == [8, 12, 37]
    wider = Window("window")
    run(wider, clip, [10], cache, window_s=0.6)
    assert wider.batches == [tuple(range(7, 14))], "another window, another key"
    touched = Window("window")
    run(touched, Replaced(clip, key="glare"), [10], cache, window_s=0.4)
    assert touched.batches == [(8, 9, 10, 11, 12)]


def test_windows_hold_ten_frames_a_second_of_one_thinning():
    fast = ArraySource(np.zeros((120, 8, 8, 3), np.uint8), fps=30)
    tool = Window("window")
    run(tool, fast, [44, 60, 118], window_s=1.0)
    assert tool.batches == [
        (30, 33, 36, 39, 42, 45, 48, 51, 54, 57),
        (45, 48, 51, 54, 57, 60, 63, 66, 69, 72, 75),
        (105, 108, 111, 114, 117),
    ]
    big = ArraySource(np.zeros((30, 1100, 1100, 3), np.uint8))
    whole = Window("window")
    run(whole, big, [15], window_s=2.0)
    assert whole.batches == [tuple(range(5, 26))], "never cut, whatever its size"


def test_what_overlapping_windows_see_alike_is_told_once_with_its_best_score(clip):
    class Unsure(Probe):
        def observe(self, batch, query, words):
            (seen,) = super().observe(batch, query, words)
            return [[replace(one, score=round(1 - 0.1 * place, 1)) for place, one in enumerate(seen)]]

    seen = run(Unsure("window"), clip, [10, 12], window_s=0.4).observations
    assert [(one.frame, one.score) for one in seen] == [
        (8, 1.0), (9, 0.9), (10, 1.0), (11, 0.9), (12, 0.8), (13, 0.7), (14, 0.6),
    ]  # fmt: skip


def test_a_tool_may_ask_how_much_was_looked_at(clip):
    class Counting(Probe):
        def observe(self, batch, query, words):
            return [
                seen if index == 3 else []
                for index, seen in zip(batch.indices, super().observe(batch, query, words), strict=True)
            ]

        def summarise_of(self, observations, looked_at):
            return f"{len(observations)} of {looked_at}", len(observations) / looked_at

    cache = ToolCache.memory()
    assert (run(Counting(), clip, [1, 3], cache).result, run(Counting(), clip, [1, 2, 3, 4], cache).intrinsic) == (
        "1 of 2",
        0.25,
    )


def test_only_missing_frames_are_observed(clip, tmp_path):
    cache = ToolCache(tmp_path)
    tool = Probe()
    alone = run(Probe(), clip, [1, 2, 3, 4])
    run(tool, clip, [1, 3], cache)
    both = run(tool, clip, [1, 2, 3, 4], cache)
    assert tool.looked_at == [1, 3, 2, 4]
    assert both == alone
    fresh = Probe()
    assert run(fresh, clip, [1, 2, 3, 4], ToolCache(tmp_path)) == alone
    assert fresh.looked_at == []


@pytest.mark.parametrize(
    "change",
    ["frames", "setting", "version", "name", "corruption", "severity", "seed", "other bytes, same name"],
)
def test_any_change_is_a_miss(clip, tmp_path, change):
    """A changed setting, another condition or a replaced file is never served an old output."""
    glare = '{"corruption":"glare","severity":3,"seed":0}'
    before = Replaced(clip, key=glare)
    run(Probe(), before, range(8), ToolCache(tmp_path))
    tool, source, frames = Probe(), before, list(range(8))
    if change == "frames":
        frames = list(range(16))
    elif change == "setting":
        tool = Probe(gain=2.0)
    elif change == "version":
        tool.version = "2"
    elif change == "name":
        tool.name = "other"
    elif change == "corruption":
        source = Replaced(clip, key=glare.replace("glare", "occlusion"))
    elif change == "severity":
        source = Replaced(clip, key=glare.replace("3", "4"))
    elif change == "seed":
        source = Replaced(clip, key=glare.replace('"seed":0', '"seed":1'))
    else:
        source = Replaced(clip, digest="0" * 64, key=glare)
    run(tool, source, frames, ToolCache(tmp_path))
    assert tool.looked_at == (list(range(8, 16)) if change == "frames" else list(range(8)))


def test_query_is_part_of_the_key_only_for_tools_that_read_it(clip):
    other = SubQuery("what else?", "spatial")
    blind, reading = ToolCache.memory(), ToolCache.memory()
    run(Probe(), clip, [1], blind)
    deaf = Probe()
    run(deaf, clip, [1], blind, other)
    assert deaf.looked_at == []
    run(Probe(reads_query=True), clip, [1], reading)
    listening = Probe(reads_query=True)
    seen = run(listening, clip, [1], reading, other)
    assert listening.looked_at == [1]
    assert seen.observations[0].label == "what else?"
    again = Probe(reads_query=True)
    run(again, clip, [1], reading, other, words=("CAFE",))
    assert again.looked_at == [1]


def test_key_depends_on_both_frames_of_a_pair():
    of_tool = fingerprint(Probe("pair"), QUERY, ())
    keys = {
        output_key(of_tool, frames, states)
        for frames in [(1, 2), (1, 3), (2, 3)]
        for states in [("clean", "clean"), ("clean", "dark"), ("dark", "clean")]
    }
    assert len(keys) == 9


def test_a_slow_tool_times_out_and_nothing_of_it_is_cached(clip):
    cache = ToolCache.memory()
    slow = Probe(fault=lambda: time.sleep(1.0))
    started = time.monotonic()
    evidence = run(slow, clip, [1, 2], cache, time_limit_s=0.15)
    assert time.monotonic() - started < 0.8
    assert (evidence.error.kind, evidence.intrinsic, evidence.observations) == ("timeout", 0.0, ())
    assert "0.15 s" in evidence.error.message
    assert evidence.frames == (1, 2)
    quick = Probe()
    assert run(quick, clip, [1, 2], cache).error is None
    assert quick.looked_at == [1, 2]


def test_the_limit_holds_over_many_batches_and_keeps_what_is_done(clip):
    big = ArraySource(np.zeros((80, 12, 16, 3), np.uint8))
    tool, cache = Probe(fault=lambda: time.sleep(0.25)), ToolCache.memory()
    executor = Executor({"probe": tool}, cache, time_limit_s=0.6)
    assert executor.run("probe", QUERY, big, range(80)).error.kind == "timeout"
    time.sleep(0.3)
    tool.fault = None
    assert executor.run("probe", QUERY, big, range(80)).error is None
    assert tool.looked_at.count(0) == 1, "the first batch was done in time and is not repeated"


def test_a_hung_tool_never_runs_twice_at_once(clip):
    running, most = [0], [0]

    def hang():
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.4)
        running[0] -= 1

    executor = Executor({"probe": Probe(fault=hang)}, None, time_limit_s=0.1)
    assert [executor.run("probe", QUERY, clip, [0]).error.kind for _ in range(3)] == ["timeout"] * 3
    assert most[0] == 1


def test_an_exception_is_evidence_with_its_type(clip):
    def fault():
        raise ZeroDivisionError("no pixels")

    cache = ToolCache.memory()
    evidence = run(Probe(fault=fault), clip, [1], cache)
    assert (evidence.error.kind, evidence.intrinsic) == ("exception", 0.0)
    assert evidence.error.message == "probe: ZeroDivisionError: no pixels"
    assert run(Probe(), clip, [1], cache).error is None


def test_wrong_number_of_outputs_is_the_tools_failure(clip):
    tool = Probe()
    tool.observe = lambda batch, query, words: [[]]
    evidence = run(tool, clip, [1, 2])
    assert evidence.error.kind == "exception"
    assert "1 of 2" in evidence.error.message


def test_unknown_tool_and_no_frames(clip):
    executor = Executor({"probe": Probe()}, None, 5.0)
    unknown = executor.run("caption_frame", QUERY, clip, [1])
    assert (unknown.error.kind, unknown.cost) == ("unavailable", 0.0)
    assert "probe" in unknown.error.message
    assert executor.run("probe", QUERY, clip, []).error.kind == "no_frames"
    single = ArraySource(np.zeros((1, 12, 16, 3), np.uint8))
    assert run(Probe("pair"), single, [0]).error.kind == "no_frames"
    alone = run(Probe("window"), single, [0]).error
    assert (alone.kind, alone.message) == ("no_frames", "probe was given no windows of two frames or more")


def test_video_errors_and_wrong_indices_are_not_the_tools(clip):
    with pytest.raises(VideoError):
        run(Probe(), Broken(clip), [1])
    with pytest.raises(IndexError):
        run(Probe(), clip, [40])


def test_batches_are_bounded(clip):
    many = ArraySource(np.zeros((70, 12, 16, 3), np.uint8))
    tool = Probe("pair")
    run(tool, many, range(70))
    assert max(map(len, tool.batches)) <= 33
    assert sorted({index for batch in tool.batches for index in batch}) == list(range(70))


def test_limits_must_be_positive():
    with pytest.raises(ValueError, match="time_limit_s"):
        Executor({}, None, 0)


# ---- cache files ---------------------------------------------------------------------------------------------------


def observation(k: int) -> Observation:
    return Observation(k, k / 10, "text", f"W{k}", 0.25, (0.0, 0.1, 0.2, 0.3), {"clipped": 1.0})


def test_files_give_back_what_was_put(tmp_path):
    cache = ToolCache(tmp_path)
    entries = {f"{k:064x}": (f"probe {k}", [observation(k)] * (k % 3)) for k in range(1200)}
    cache.put_many("ab12", entries)
    found = ToolCache(tmp_path).get_many("ab12", [*entries, "missing"])
    assert found == {key: seen for key, (_, seen) in entries.items()}
    assert ToolCache(tmp_path).get_many("cd34", list(entries)) == {}
    assert sorted(path.suffix for path in tmp_path.iterdir() if path.suffix == ".sqlite") == [".sqlite"] * 2


def test_memory_in_front_is_bounded(tmp_path):
    cache = ToolCache(tmp_path, memory_entries=10)
    cache.put_many("ab12", {f"{k}": ("", [observation(k)]) for k in range(50)})
    assert len(cache._memory) == 10
    assert cache.get_many("ab12", ["0"]) == {"0": [observation(0)]}


@pytest.mark.parametrize("damage", ["text", "truncated", "foreign rows"])
def test_a_broken_file_is_set_aside_and_rebuilt(tmp_path, damage):
    cache = ToolCache(tmp_path)
    cache.put_many("ab12", {f"{k:064x}": ("", [observation(k)] * 20) for k in range(300)})
    cache.close()
    path = tmp_path / "ab12.sqlite"
    if damage == "text":
        path.write_text("this is no database, whatever its name says " * 300)
    elif damage == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        with sqlite3.connect(path) as link:
            link.execute("UPDATE outputs_v1 SET value = '[{\"frame\": 1}]'")
        link.close()
    fresh = ToolCache(tmp_path)
    with pytest.warns(RuntimeWarning, match="broken"):
        assert fresh.get_many("ab12", [f"{k:064x}" for k in range(300)]) == {}
    fresh.put_many("ab12", {"k": ("", [observation(1)])})
    fresh.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ToolCache(tmp_path).get_many("ab12", ["k"]) == {"k": [observation(1)]}
    assert list(tmp_path.glob("ab12.sqlite.broken-1"))


def test_a_locked_file_is_an_error_not_a_rebuild(tmp_path):
    cache = ToolCache(tmp_path, busy_timeout_s=0.05)
    cache.put_many("ab12", {"k": ("", [])})
    other = sqlite3.connect(tmp_path / "ab12.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TrustvidError, match="locked"):
        cache.put_many("ab12", {"l": ("", [])})
    other.execute("ROLLBACK")
    other.close()
    cache.put_many("ab12", {"l": ("", [])})


def test_digest_may_not_leave_the_folder(tmp_path):
    with pytest.raises(ValueError, match="plain name"):
        ToolCache(tmp_path).get_many("../elsewhere", ["k"])


def _write(folder, worker: int) -> None:
    cache = ToolCache(folder)
    for k in range(40):
        cache.put_many("ab12", {f"{worker}-{k}": ("", [observation(k)])})


def test_several_processes_share_a_file(tmp_path):
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(tmp_path, w)) for w in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    keys = [f"{w}-{k}" for w in range(3) for k in range(40)]
    assert len(ToolCache(tmp_path).get_many("ab12", keys)) == 120


def test_cached_evidence_equals_computed_evidence(clip, tmp_path):
    first = run(Probe(), clip, [1, 2], ToolCache(tmp_path))
    second = run(Probe(), clip, [1, 2], ToolCache(tmp_path))
    assert second == first == replace(run(Probe(), clip, [1, 2]))
