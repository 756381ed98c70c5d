"""Progress on standard error: a bar on a terminal, a plain line now and then elsewhere (a log file, a CI job)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

PLAIN_INTERVAL_S = 10.0


class Progress:
    """How far a long job is, how fast, how long it will still take, and how much of it came to nothing.

    >>> with Progress(total=480, description="evaluate", done=120) as progress:     # doctest: +SKIP
    ...     progress.advance(6)
    ...     progress.advance(6, unscored=1)
    """

    def __init__(
        self,
        total: int,
        description: str,
        unit: str = "questions",
        done: int = 0,
        enabled: bool = True,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """
        Args:
            total: units of the whole job.
            description: a word or two.
            unit: what is counted, in the plural.
            done: units that an earlier run has done; they count as done, not towards the rate.
            enabled: False shows nothing.
            stream: where to; default standard error.
            clock: seconds; for tests.
        """
        self._total, self._description, self._unit = total, description, unit
        self._before = self._done = done
        self._unscored = 0
        self._printed = -1  # the count of the last plain line
        self._enabled = enabled
        self._stream, self._clock = stream if stream is not None else sys.stderr, clock
        self._start = self._last_line = clock()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        self._start = self._last_line = self._clock()
        if self._enabled and self._stream.isatty():
            self._bar = _rich_bar(self._stream)
            self._bar.start()
            self._task = self._bar.add_task(self._description, total=self._total, completed=self._done, state="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        elif self._enabled and self._done != self._printed:
            self._print_line()

    def advance(self, n: int = 1, unscored: int = 0) -> None:
        """Count ``n`` more units as done, ``unscored`` of them without a result."""
        self._done += n
        self._unscored += unscored
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, state=self._state())
        elif self._enabled and self._clock() - self._last_line >= PLAIN_INTERVAL_S:
            self._print_line()

    def _print_line(self) -> None:
        self._last_line, self._printed = self._clock(), self._done
        print(f"{self._description}: {self._done}/{self._total} {self._state()}", file=self._stream, flush=True)

    def _state(self) -> str:
        """ "questions, 3 unscored, 4.2/s, 1:25 left" """
        elapsed, fresh = self._clock() - self._start, self._done - self._before
        parts = [self._unit]
        if self._unscored:
            parts.append(f"{self._unscored} unscored")
        if fresh > 0 and elapsed > 0:
            rate = fresh / elapsed
            parts.append(f"{rate:.1f}/s" if rate >= 1 else f"{1 / rate:.1f} s each")
            if self._done < self._total:
                parts.append(f"{_clock_text((self._total - self._done) / rate)} left")
        return ", ".join(parts)


def _clock_text(seconds: float) -> str:
    """
    >>> _clock_text(85), _clock_text(3725)
    ('1:25', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _rich_bar(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as RichProgress

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[state]}"))
    return RichProgress(*columns, console=Console(file=stream), transient=False)
