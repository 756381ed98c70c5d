"""Worker processes that really crash, hang and are interrupted; and the progress line.

pytest tests/unit/test_pool.py -q -n 0
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import defaultdict
from pathlib import Path

import pytest

from trustvid.evaluation.pool import Unit, UnitEvent, Work, WorkerStartError, run_units
from trustvid.progress import Progress

# -- what the workers do (top level: a spawned process imports this file) ----------------------------------------------


def setup(settings: dict) -> dict:
    return {"made_in": os.getpid(), "greeting": settings.get("greeting", ""), "units": 0}


def work(state: dict, payload: dict):
    state["units"] += 1
    action = payload.get("do", "answer")
    yield [
        {"answer": state["greeting"] + str(payload["n"]), "pid": os.getpid(), "same": state["made_in"] == os.getpid()}
    ]
    if action == "exit":
        os._exit(3)
    if action == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if action == "sleep":
        time.sleep(600)
    if action == "raise":
        raise ValueError("bad\nvideo")
    if action == "sys.exit":
        sys.exit(4)
    if action == "object":
        yield [{"answer": object()}]
    if action == "nan":
        yield [{"answer": float("nan")}]
    if action == "forever":
        while True:
            yield [{"answer": "more"}]
    yield [{"answer": "second", "threads": os.environ.get("OMP_NUM_THREADS")}] * 2


def broken_setup(settings: dict) -> None:
    raise RuntimeError("no weights")


def dying_setup(settings: dict) -> None:
    os._exit(5)


WORK = Work(setup, work, {"greeting": "n"})


class Seen(list):
    """Collects events."""

    def __call__(self, event: UnitEvent) -> None:
        self.append(event)

    def ends(self) -> dict[str, tuple[str, str]]:
        ends = defaultdict(list)
        for event in self:
            if event.kind != "group":
                ends[event.unit.name].append((event.kind, event.reason))
        assert all(len(entries) == 1 for entries in ends.values()), ends
        return {name: entries[0] for name, entries in ends.items()}

    def records(self, name: str) -> list[dict]:
        return [record for event in self if event.unit.name == name for record in event.records]


def units(*actions: str) -> list[Unit]:
    return [Unit(f"u{i}", {"n": i, "do": action}) for i, action in enumerate(actions)]


def children() -> set[int]:
    """Direct children of this process that are alive or unburied."""
    found = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True)
    return {int(line.split()[0]) for line in found.stdout.splitlines() if "multiprocessing.spawn" in line}


@pytest.fixture(autouse=True)
def no_process_is_left():
    yield
    assert children() == set()


def test_all_units_are_done_and_their_groups_come_in_order():
    seen = Seen()
    summary = run_units(units(*["answer"] * 7), WORK, 2, 60, seen)
    assert (summary.done, summary.failed) == (7, 0)
    assert seen.ends() == {f"u{i}": ("done", "") for i in range(7)}
    for i in range(7):
        assert [record["answer"] for record in seen.records(f"u{i}")] == [f"n{i}", "second", "second"]
        assert seen.records(f"u{i}")[0]["same"]  # set up in the worker itself, once for all its units
        assert seen.records(f"u{i}")[1]["threads"] == "1"
    assert len({record["pid"] for i in range(7) for record in seen.records(f"u{i}")[:1]}) <= 2
    assert os.getpid() not in {record["pid"] for record in seen.records("u0")[:1]}


def test_a_crash_a_hang_and_an_error_cost_one_unit_each():
    seen = Seen()
    actions = ["answer", "exit", "segfault", "sleep", "raise", "sys.exit", "object", "nan", "answer", "answer"]
    summary = run_units(units(*actions), WORK, 2, 2.0, seen)
    ends = seen.ends()
    assert (summary.done, summary.failed) == (3, 7)
    assert ends["u1"] == ("failed", "worker died (exit code 3)")
    assert ends["u2"] == ("failed", "worker died (exit code -11, SIGSEGV)")
    assert ends["u3"] == ("failed", "timed out after 2 s")
    assert ends["u4"] == ("failed", "ValueError: bad video")
    assert ends["u5"] == ("failed", "worker died (exit code 4)")
    assert ends["u6"] == ("failed", "TypeError: Object of type object is not JSON serializable")
    assert ends["u7"][1].startswith("ValueError: Out of range float values")
    assert {name for name, end in ends.items() if end[0] == "done"} == {"u0", "u8", "u9"}
    for i in range(10):
        assert seen.records(f"u{i}")[0]["answer"] == f"n{i}"  # what came before the end is kept
    (failure,) = [event for event in seen if event.unit.name == "u4" and event.kind == "failed"]
    assert "Traceback" in failure.detail


def test_more_crashes_than_workers():
    seen = Seen()
    assert run_units(units(*["segfault"] * 4, "answer"), WORK, 1, 60, seen).failed == 4
    assert seen.ends()["u4"] == ("done", "")


def test_a_unit_that_never_stops_sending_is_stopped():
    seen = Seen()
    run_units(units("forever", "answer"), WORK, 1, 0.5, seen)
    assert seen.ends() == {"u0": ("failed", "timed out after 0.5 s"), "u1": ("done", "")}


def test_no_workers_means_here():
    seen = Seen()
    summary = run_units(units("answer", "raise", "object"), WORK, 0, 60, seen)
    assert (summary.done, summary.failed) == (1, 2)
    assert seen.records("u0")[0]["pid"] == os.getpid()
    assert seen.ends()["u1"] == ("failed", "ValueError: bad video")
    assert run_units([], WORK, 2, 60, seen).done == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_a_setup_that_fails_stops_the_run(workers):
    with pytest.raises(WorkerStartError, match="RuntimeError: no weights"):
        run_units(units("answer", "answer"), Work(broken_setup, work), workers, 60, Seen())


def test_a_setup_that_dies_stops_the_run():
    with pytest.raises(WorkerStartError, match=r"exit code 5"):
        run_units(units("answer"), Work(dying_setup, work), 1, 60, Seen())


def test_an_error_of_the_caller_ends_all_workers_at_once():
    def disk_full(event: UnitEvent) -> None:
        raise OSError("disk full")

    start, before = time.monotonic(), dict(os.environ)
    with pytest.raises(OSError, match="disk full"):
        run_units(units("sleep", "sleep"), WORK, 2, 600, disk_full)
    assert time.monotonic() - start < 60
    assert dict(os.environ) == before


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="workers"):
        run_units(units("answer"), WORK, -1, 60, Seen())
    with pytest.raises(ValueError, match="unit_time_limit_s"):
        run_units(units("answer"), WORK, 1, 0, Seen())
    with pytest.raises(ValueError, match="same name"):
        run_units([*units("answer"), *units("answer")], WORK, 1, 60, Seen())


PARENT = """
    import signal, sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in a shell's background is started without
    sys.path.insert(0, {tests!r})
    from test_pool import WORK, units
    from trustvid.evaluation.pool import run_units

    def tell(event):
        print(event.records[0]["pid"], flush=True)

    if __name__ == "__main__":
        run_units(units("sleep", "sleep"), WORK, 2, 600, tell)
"""


def is_running(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_or_killed_parent_leaves_no_process_behind(tmp_path, how):
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(PARENT.format(tests=str(Path(__file__).parent))))
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    assert all(map(is_running, workers))
    if how == signal.SIGINT:
        os.killpg(parent.pid, how)  # as a terminal does: to the parent and to all its children
    else:
        os.kill(parent.pid, how)
    _, errors = parent.communicate(timeout=30)
    deadline = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in workers if is_running(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
    if how == signal.SIGINT:
        assert errors.count("KeyboardInterrupt") == 1  # the parent's, and none of the workers'


# -- progress ----------------------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_without_a_terminal_a_line_now_and_then():
    out, clock = io.StringIO(), Clock()
    with Progress(100, "evaluate", done=20, stream=out, clock=clock) as progress:
        for step in range(40):
            clock.now = (step + 1) * 0.5
            progress.advance(2, unscored=step == 3)
    assert out.getvalue().splitlines() == [
        "evaluate: 60/100 questions, 1 unscored, 4.0/s, 0:10 left",
        "evaluate: 100/100 questions, 1 unscored, 4.0/s",
    ]


def test_slow_and_disabled_progress():
    out, clock = io.StringIO(), Clock()
    with Progress(4, "render", unit="clips", stream=out, clock=clock) as progress:
        clock.now = 30.0
        progress.advance()
    assert out.getvalue().splitlines()[0] == "render: 1/4 clips, 30.0 s each, 1:30 left"
    silent = io.StringIO()
    with Progress(4, "render", stream=silent, enabled=False) as progress:
        progress.advance(4)
    assert silent.getvalue() == ""


def test_on_a_terminal_a_bar():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    with Progress(4, "evaluate", stream=out) as progress:
        progress.advance(3, unscored=2)
    assert "3/4" in out.getvalue()
    assert "2 unscored" in out.getvalue()
