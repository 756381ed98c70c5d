"""When to try again, and after how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from trustvid.llm.settings import Limits

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

_LONGEST_BACKOFF_S = 60.0


class AttemptFailed(Exception):
    """One attempt got no usable reply.

    Args:
        kind: as :attr:`~trustvid.llm.messages.Failure.kind`.
        message: one line without secrets.
        retry: whether another attempt may succeed.
        retry_after: seconds the server asks to wait, None when it does not say.
    """

    def __init__(self, kind: str, message: str, *, retry: bool, retry_after: float | None = None):
        super().__init__(message)
        self.kind, self.message, self.retry, self.retry_after = kind, message, retry, retry_after


def retrying(limits: Limits, deadline: Callable[[], float], clock: Callable[[], float]) -> AsyncRetrying:
    """The attempts at one request: stops with the last failure when none is left or the next wait is too long.

    Args:
        limits: number of retries and first wait.
        deadline: ``clock`` time at which the request must be over.
        clock: seconds, monotonic.
    """
    import tenacity

    jitter = tenacity.wait_random(0, limits.backoff_s / 2)
    backoff = tenacity.wait_exponential(multiplier=limits.backoff_s, max=_LONGEST_BACKOFF_S) + jitter

    def wait(state: RetryCallState) -> float:
        asked = _failure(state).retry_after
        return backoff(state) if asked is None else asked

    def stop(state: RetryCallState) -> bool:
        asked = _failure(state).retry_after or 0.0
        return state.attempt_number > limits.max_retries or clock() + asked > deadline()

    return tenacity.AsyncRetrying(
        stop=stop,
        wait=wait,
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, AttemptFailed) and error.retry),
        reraise=True,
    )


def _failure(state: RetryCallState) -> AttemptFailed:
    error = state.outcome.exception() if state.outcome else None
    return error if isinstance(error, AttemptFailed) else AttemptFailed("", "", retry=False)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by the response's headers: milliseconds, seconds, or a date (RFC 9110); None when absent or bad.

    >>> retry_after_s({"retry-after": "2"}, 0.0)
    2.0
    >>> retry_after_s({"retry-after": "Thu, 01 Jan 1970 00:00:30 GMT"}, 10.0)
    20.0
    """
    for name, per_second in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / per_second
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return _until(headers.get("retry-after", ""), now)


def _until(date: str, now: float) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return None
