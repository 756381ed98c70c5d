"""Asynchronous work behind a synchronous face: one event loop in a background thread of each process.

A loop of our own, because callers are plain functions, notebooks (whose thread already runs a loop) and worker
processes; connections stay open from call to call.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_current: tuple[int, asyncio.AbstractEventLoop] | None = None


def _loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked child, whose copy of the thread is gone, starts its own."""
    global _current
    with _lock:
        if _current is None or _current[0] != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="trustvid-llm", daemon=True).start()
            _current = os.getpid(), loop
        return _current[1]


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, from any thread but the loop's own. An interrupt cancels the work."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    finally:
        future.cancel()


def stream(works: Iterable[Coroutine[Any, Any, T]], window: int) -> Iterator[T]:
    """Results of ``works`` in their order, at most ``window`` of them under way or waiting to be taken.

    ``works`` is consumed as results are taken, so memory does not grow with its length. Closing the iterator cancels
    what is under way.
    """
    loop, waiting = _loop(), deque[Future[T]]()
    try:
        for work in works:
            waiting.append(asyncio.run_coroutine_threadsafe(work, loop))
            if len(waiting) >= window:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


class PerLoop(Generic[T]):
    """A value made once for each event loop: locks, connections and the like belong to the loop that first uses them.

    Args:
        make: makes the value, inside the loop.
    """

    def __init__(self, make: Callable[[], T]):
        self._make = make
        self._made: tuple[asyncio.AbstractEventLoop, T] | None = None

    def get(self) -> T:
        """The value of the running loop."""
        loop = asyncio.get_running_loop()
        if self._made is None or self._made[0] is not loop:
            self._made = loop, self._make()
        return self._made[1]
