"""Which question a reply is to. A reply that might be to another question, or to another version of it, is refused.

Ids of other harnesses are often mere row numbers, so an id counts only where the question's text, as far as the row
has one, is the same. Else the text decides, with the video's name where the row has one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import NamedTuple

from trustvid.agent.reply_text import canon
from trustvid.benchmarks.options import normalise_letter
from trustvid.benchmarks.sample import LETTERS, Sample
from trustvid.interop.replies import Reply

_LEAD = "question:"


class Refused(NamedTuple):
    """A row that scores nothing: where it stands, what it calls its question, and why."""

    place: str
    id: str
    reason: str


@dataclass(frozen=True)
class Matched:
    """Each question's reply by sample id, and the rows that belong to none."""

    replies: Mapping[str, Reply]
    refused: tuple[Refused, ...]


def match(replies: Sequence[Reply], samples: Sequence[Sample]) -> Matched:
    """Pair replies with questions.

    Args:
        replies: of one method under one condition, from any number of files.
        samples: the benchmark's questions.

    Returns:
        At most one reply for each question; rows without a question of the benchmark, rows whose options or right
        answer differ from its, and all rows of a question that several rows answer, are refused with the reason.
    """
    by_id = {sample.id: sample for sample in samples}
    by_text: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_text[canon(sample.question)].append(sample)
    found: dict[str, list[Reply]] = defaultdict(list)
    refused: list[Refused] = []
    for reply in replies:
        sample = _sample_of(reply, by_id, by_text)
        reason = sample if isinstance(sample, str) else _difference(reply, sample)
        if reason is None and isinstance(sample, Sample):
            found[sample.id].append(reply)
        else:
            refused.append(Refused(reply.place, reply.id, str(reason)))
    for sample_id, rows in found.items():
        if len(rows) > 1:
            places = "; ".join(row.place for row in rows)
            reason = f"{len(rows)} rows answer question {sample_id} ({places})"
            refused += [Refused(row.place, row.id, reason) for row in rows]
    return Matched({sample_id: rows[0] for sample_id, rows in found.items() if len(rows) == 1}, tuple(refused))


def _sample_of(reply: Reply, by_id: Mapping[str, Sample], by_text: Mapping[str, list[Sample]]) -> Sample | str:
    """The question, or why there is none."""
    named = by_id.get(reply.id)
    if named is not None and (not reply.question or _same_question(reply, named)):
        return named
    if not reply.question:
        return f"no question has the id {reply.id!r}, and the row has no question text"
    candidates = by_text.get(_question_text(reply)) or [
        sample for texts in by_text.values() for sample in texts if _same_question(reply, sample)
    ]
    if reply.video:
        candidates = [sample for sample in candidates if _same_video(reply.video, sample)]
    if reply.options:
        candidates = [sample for sample in candidates if _same_options(reply.options, sample)] or candidates
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        return f"its text is that of {len(candidates)} questions ({', '.join(s.id for s in candidates[:5])})"
    return f"id {reply.id!r} is of another question, and no question has its text" + (" and video" * bool(reply.video))


def _question_text(reply: Reply) -> str:
    text = canon(reply.question)
    return canon(text.removeprefix(_LEAD))


def _same_question(reply: Reply, sample: Sample) -> bool:
    """The same text, or the benchmark's followed by its options: many files keep both in one cell."""
    said, text = _question_text(reply), canon(sample.question)
    if said == text:
        return True
    rest = said[len(text) :] if said.startswith(text) else ""
    options = [canon(option) for option in sample.options]
    return bool(rest and options) and all(option in rest for option in options)


def _same_video(name: str, sample: Sample) -> bool:
    """The same file, whatever folder and extension either names."""
    last = PurePosixPath(PureWindowsPath(name).as_posix()).name
    names = {last, PurePosixPath(last).stem}
    return bool(names & {sample.video.name, sample.video.stem, PurePosixPath(sample.cluster).name})


def _same_options(options: Sequence[str], sample: Sample) -> bool:
    return [canon(option) for option in options] == [canon(option) for option in sample.options]


def _difference(reply: Reply, sample: Sample) -> str | None:
    """How the row's question differs from the benchmark's: another version of the data is not scored as this one."""
    if reply.options and not _same_options(reply.options, sample):
        return f"its options are not those of question {sample.id} in their order"
    if reply.answer and not _same_answer(reply.answer, sample):
        return f"its right answer is {reply.answer!r}, that of question {sample.id} is {sample.answer!r}"
    return None


def _same_answer(answer: str, sample: Sample) -> bool:
    if sample.kind == "numeric":
        try:
            return float(answer) == float(sample.answer)
        except ValueError:
            return False
    right = sample.options[LETTERS.index(sample.answer)]
    return normalise_letter(answer) == sample.answer or canon(answer) in (
        canon(right),
        canon(f"{sample.answer}. {right}"),
    )
