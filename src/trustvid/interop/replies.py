"""A reply as somebody else's file holds it."""

from __future__ import annotations

from dataclasses import dataclass

API_FAILURES = ("failed to obtain answer via api", "[failed_infer]")
"""What VLMEvalKit, and lmms-eval after it, writes in the place of a reply when the call failed, in lower case."""


@dataclass(frozen=True)
class Reply:
    """One row.

    Attributes:
        place: where it stands, for messages: "file.xlsx, row 3".
        id, question, video, options, answer: what the row says of its question; "" or () where it says nothing. The
            answer is the right one as the row has it (a letter, an option's text, a number).
        text: what the model said.
        failure: why there is no reply; None when there is one.
    """

    place: str
    id: str
    question: str
    video: str
    options: tuple[str, ...]
    answer: str
    text: str
    failure: str | None


def failure_in(text: str) -> str | None:
    """Why a text in the place of a reply is none, or None.

    >>> failure_in("Failed to obtain answer via API. "), failure_in("B")
    ('the call failed: Failed to obtain answer via API.', None)
    """
    if not text.strip():
        return "the file holds no reply"
    if text.strip().casefold().startswith(API_FAILURES):
        return f"the call failed: {text.strip()[:200]}"
    return None
