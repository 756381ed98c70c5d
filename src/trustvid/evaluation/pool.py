"""A pool of worker processes in which one bad unit of work (a video) cannot take the others with it.

A unit that crashes its process natively, or hangs, costs its worker and nothing else: the worker is killed and
replaced, the unit is reported as failed, once, with the reason. Processes are spawned (a fork would copy locks of
native libraries in whatever state they are) and talk JSON over a pipe each, so that nothing but plain containers
crosses. Set ``PYTHONFAULTHANDLER=1`` to see the native stack of a crash.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Literal

from trustvid.errors import TrustvidError

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_SETUP_LIMIT_S = 600.0
_GRACE_S = 5.0  # for a worker that was told to stop, before it is killed


class WorkerStartError(TrustvidError):
    """A worker cannot start: not one unit's fault, so that the run stops."""


@dataclass(frozen=True)
class Unit:
    """A piece of work that succeeds or fails as one: its name, and what the worker needs to know (plain containers)."""

    name: str
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Work:
    """What workers do. Both functions live at the top level of a module, where a spawned process finds them.

    Attributes:
        setup: called once in each worker with ``settings``; gives the state (loaded tools, say) for all its units.
        run: called with the state and a unit's payload; yields groups of records (plain containers), which are handed
            on as they come.
        settings: plain containers.
    """

    setup: Callable[[dict[str, Any]], Any]
    run: Callable[[Any, dict[str, Any]], Iterable[Sequence[Mapping[str, Any]]]]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UnitEvent:
    """What the caller is told: any number of "group", then "done" or "failed" exactly once per unit.

    Attributes:
        unit: which.
        kind: "group" (some records are there), "done", "failed" (what has not come by now will not come).
        records: of a group.
        reason: why it failed: "ValueError: …", "worker died (exit code -11, SIGSEGV)", "timed out after 120 s".
        detail: traceback of an exception, for the log.
    """

    unit: Unit
    kind: Literal["group", "done", "failed"]
    records: tuple[dict[str, Any], ...] = ()
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True)
class PoolSummary:
    """How many units came to their end, and how many failed."""

    done: int
    failed: int


def run_units(
    units: Sequence[Unit],
    work: Work,
    workers: int,
    unit_time_limit_s: float,
    on_result: Callable[[UnitEvent], None],
    threads_per_worker: int = 1,
) -> PoolSummary:
    """Do all units, reporting what comes as it comes; events of different units arrive in no fixed order.

    An exception of ``on_result``, and Ctrl-C, end all workers at once and go on to the caller.

    Args:
        units: with different names.
        work: what is done to each.
        workers: processes; 0 works in this process, for debugging: no time limit, and a native crash is the end.
        unit_time_limit_s: seconds a worker may spend on one unit.
        on_result: called in this process.
        threads_per_worker: threads that numerical libraries of a worker may use.

    Raises:
        ValueError: workers is negative, the limit is not positive, or two units have one name.
        WorkerStartError: ``setup`` failed.
    """
    if workers < 0 or unit_time_limit_s <= 0:
        raise ValueError(f"workers={workers} must be ≥ 0 and unit_time_limit_s={unit_time_limit_s} > 0")
    if len({unit.name for unit in units}) < len(units):
        raise ValueError("two units have the same name")
    if not units:
        return PoolSummary(0, 0)
    counter = _Counter(on_result)
    if workers == 0:
        _run_here(units, work, counter)
    else:
        with _environment(dict.fromkeys(_THREAD_VARIABLES, str(threads_per_worker))):
            _Pool(units, work, min(workers, len(units)), unit_time_limit_s, counter).run()
    return PoolSummary(counter.done, counter.failed)


class _Counter:
    """Passes events on and counts how units end."""

    def __init__(self, on_result: Callable[[UnitEvent], None]):
        self._on_result = on_result
        self.done = self.failed = 0

    def __call__(self, event: UnitEvent) -> None:
        self.done += event.kind == "done"
        self.failed += event.kind == "failed"
        self._on_result(event)


# -- in the caller's process -------------------------------------------------------------------------------------------


def _run_here(units: Sequence[Unit], work: Work, emit: Callable[[UnitEvent], None]) -> None:
    try:
        state = work.setup(json.loads(json.dumps(work.settings)))
    except Exception as error:
        raise WorkerStartError(f"the worker's setup failed: {_one_line(error)}") from error
    for unit in units:
        for message in _messages_of(work, state, json.loads(json.dumps(unit.payload))):
            emit(_event(unit, message))


class _Worker:
    """One process, its pipe, and the unit it is at."""

    def __init__(self, work: Work):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(
            target=_worker_main, args=(theirs, work.setup, work.run, json.dumps(work.settings)), daemon=True
        )
        with _interrupts_ignored():
            self.process.start()
        theirs.close()  # ours of their end, so that their death reads as the end of the pipe
        self.ready = False
        self.unit: Unit | None = None
        self.limit_s = _SETUP_LIMIT_S
        self.deadline = time.monotonic() + self.limit_s

    def start(self, unit: Unit, limit_s: float) -> None:
        self.unit, self.limit_s, self.deadline = unit, limit_s, time.monotonic() + limit_s
        # A worker that died while idle is found out by the end of its pipe.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send_bytes(json.dumps(unit.payload).encode())

    def end(self, kill: bool) -> None:
        """Make the process go away, and wait until it has."""
        self.pipe.close()  # an idle worker reads the end of the pipe and leaves
        self.process.join(0 if kill else _GRACE_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def death(self) -> str:
        """Why the process is gone, after :meth:`end`."""
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"worker died (exit code {code})"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown signal"
        hint = "; often out of memory" if -code == signal.SIGKILL else ""
        return f"worker died (exit code {code}, {name}{hint})"


class _Pool:
    def __init__(
        self,
        units: Sequence[Unit],
        work: Work,
        workers: int,
        limit_s: float,
        emit: Callable[[UnitEvent], None],
    ):
        self.pending = deque(units)
        self.work, self.limit_s, self.emit = work, limit_s, emit
        self.size = workers
        self.workers: list[_Worker] = []

    def run(self) -> None:
        finished = False
        try:
            while self.pending or any(worker.unit for worker in self.workers):
                self._fill()
                self._listen()
                self._enforce_limits()
            finished = True
        finally:
            for worker in self.workers:
                # All are told before any is waited for.
                worker.pipe.close()
            for worker in self.workers:
                worker.end(kill=not finished)

    def _fill(self) -> None:
        """As many workers as there is work for, each ready one at a unit."""
        busy = sum(worker.unit is not None for worker in self.workers)
        while len(self.workers) < min(self.size, busy + len(self.pending)):
            self.workers.append(_Worker(self.work))
        for worker in self.workers:
            if worker.ready and worker.unit is None and self.pending:
                worker.start(self.pending.popleft(), self.limit_s)

    def _listen(self) -> None:
        """Handle one message of each worker that has one; sleep until then, or until the next deadline."""
        active = [worker for worker in self.workers if worker.unit is not None or not worker.ready]
        nearest = min(worker.deadline for worker in active)
        by_pipe = {worker.pipe: worker for worker in self.workers}
        for pipe in wait(list(by_pipe), timeout=max(0.0, nearest - time.monotonic())):
            worker = by_pipe[pipe]
            try:
                message = json.loads(worker.pipe.recv_bytes())
            except (EOFError, OSError):
                self._bury(worker)
                continue
            self._handle(worker, message)

    def _handle(self, worker: _Worker, message: dict[str, Any]) -> None:
        if message["kind"] == "ready":
            worker.ready = True
        elif message["kind"] == "setup_failed":
            raise WorkerStartError(f"a worker's setup failed: {message['reason']}\n{message['detail']}".rstrip())
        elif worker.unit is not None:
            unit = worker.unit
            if message["kind"] != "group":
                worker.unit = None
            self.emit(_event(unit, message))

    def _bury(self, worker: _Worker, reason: str = "") -> None:
        """Remove a worker that died, or (with a reason) is to die; its unit has failed."""
        self.workers.remove(worker)
        worker.end(kill=bool(reason))
        reason = reason or worker.death()
        if not worker.ready:
            raise WorkerStartError(f"a worker's setup failed: {reason}")
        if worker.unit is not None:
            self.emit(UnitEvent(worker.unit, "failed", reason=reason))

    def _enforce_limits(self) -> None:
        now = time.monotonic()
        for worker in [w for w in self.workers if w.unit is not None or not w.ready]:
            overdue = now - worker.deadline
            # What a worker has already sent is taken first, it may be the end of its unit; but not for ever.
            if overdue >= 0 and (overdue >= worker.limit_s or not worker.pipe.poll()):
                self._bury(worker, f"timed out after {worker.limit_s:g} s")


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the processes started inside; numerical libraries read them when they load."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A process started inside ignores Ctrl-C from its first instruction on: its parent ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers can be set in the main thread alone; the worker ignores Ctrl-C once it has started
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _event(unit: Unit, message: Mapping[str, Any]) -> UnitEvent:
    return UnitEvent(
        unit, message["kind"], tuple(message.get("records", ())), message.get("reason", ""), message.get("detail", "")
    )


# -- in the worker -----------------------------------------------------------------------------------------------------


def _worker_main(pipe: Connection, setup: Callable[..., Any], run: Callable[..., Any], settings: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _leave_with_parent()
    work = Work(setup, run, json.loads(settings))
    # A parent that is gone or has enough closes the pipe: there is no one left to tell.
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            state = work.setup(dict(work.settings))
        except TrustvidError as error:  # something the user can mend: the message says it all
            _send(pipe, {"kind": "setup_failed", "reason": str(error), "detail": ""})
            return
        except Exception as error:
            _send(pipe, _failure("setup_failed", error))
            return
        _send(pipe, {"kind": "ready"})
        while True:
            payload = json.loads(pipe.recv_bytes())
            for message in _messages_of(work, state, payload):
                _send(pipe, message)


def _messages_of(work: Work, state: Any, payload: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The unit's groups, then how it ended; records are checked to be plain here, where the error is theirs."""
    try:
        for group in work.run(state, payload):
            records = json.loads(json.dumps(list(group), allow_nan=False))
            yield {"kind": "group", "records": records}
    except Exception as error:
        yield _failure("failed", error)
    else:
        yield {"kind": "done"}


def _failure(kind: str, error: Exception) -> dict[str, Any]:
    return {"kind": kind, "reason": _one_line(error), "detail": "".join(traceback.format_exception(error))}


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _send(pipe: Connection, message: dict[str, Any]) -> None:
    pipe.send_bytes(json.dumps(message).encode())


def _leave_with_parent() -> None:
    """End this process when its parent ends, however it ends: no worker goes on computing for nobody."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
