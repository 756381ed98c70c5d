"""The questions that a page lists: chosen by their ids, with every method's answer and how it came about."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trustvid.benchmarks.sample import LETTERS, Sample
from trustvid.config.checking import build_stored
from trustvid.errors import TrustvidError
from trustvid.evaluation.page.frames import Budget, Gallery, Viewer
from trustvid.evaluation.plots.inputs import RunData
from trustvid.evaluation.records import Prediction
from trustvid.evaluation.tables import natural_key

Place = tuple[str, str]  # sample_id, condition
MOST_TEXT = 4000  # characters of one message; what is longer is cut, and says so
_TIERS = ("high", "medium", "low", None)


def chosen_places(predictions: Sequence[Prediction], most: int) -> list[Place]:
    """At most ``most`` pairs of question and condition: those whose ids hash lowest, so that a page made anew, or of a
    run with another method, shows the same ones."""
    places = {(one.sample_id, one.condition) for one in predictions}
    return sorted(places, key=lambda place: hashlib.sha256("\0".join(place).encode()).hexdigest())[:most]


def question_samples(run: RunData, most: int, gallery: Gallery) -> tuple[list[dict[str, Any]], list[str]]:
    """What the page lists, as plain containers, and sentences on what it could not show.

    Args:
        run: of questions.
        most: pairs of question and condition.
        gallery: takes the pictures.

    Returns:
        Entries sorted by video, question and condition: {"id", "condition", "task", "video", "question", "options",
        "truth", "note" (why there are no frames), "corrupted" (first and last frame of each corrupted run), "last"
        (the clip's last frame), "answers": […]}, and the notes.
    """
    places = chosen_places(run.predictions, most)
    notes: list[str] = []
    samples = _samples(run, notes)
    viewer = _viewer(run, notes) if samples else None
    if not run.has_trajectories:
        notes.append(
            "This run stored no conversations, so sub-queries, evidence and reasoning are not here; run it with "
            "save_trajectories=true to have them. Answers, frames and reliability are."
        )
    answers = _by_place(run.predictions, places)
    stories = _stories(run, set(places)) if run.has_trajectories else {}
    order = {name: index for index, name in enumerate(run.view.conditions)}
    places.sort(key=lambda p: (answers[p][0].cluster, natural_key(p[0]), order[p[1]]))
    entries = []
    for place in places:
        found = sorted(answers[place], key=lambda one: run.view.methods.index(one.method))
        entry = _entry(place, found, samples.get(place[0]))
        entry["answers"] = [_answer(one, stories.get(one.key), gallery.budget) for one in found]
        if viewer is not None and place[0] in samples:
            entry["note"] = _add_frames(entry, viewer, samples[place[0]], gallery)
        entries.append(entry)
    if gallery.budget.refused:
        notes.append("The page reached its size limit (max_mb): some frames or conversations are left out.")
    return entries, notes


def _samples(run: RunData, notes: list[str]) -> dict[str, Sample]:
    """The benchmark's questions by id; none, with a note, where the benchmark cannot be read here."""
    try:
        found, _ = build_stored(run.config["benchmark"], run.folder).samples()
    except (TrustvidError, OSError) as error:
        notes.append(f"The benchmark cannot be read here, so questions and frames are not shown: {error}")
        return {}
    return {sample.id: sample for sample in found}


def _viewer(run: RunData, notes: list[str]) -> Viewer | None:
    try:
        return Viewer(run.config, run.folder)
    except TrustvidError as error:
        notes.append(f"Frames and reliability cannot be shown: {error}")
        return None


def _by_place(predictions: Sequence[Prediction], places: Sequence[Place]) -> dict[Place, list[Prediction]]:
    found: dict[Place, list[Prediction]] = {place: [] for place in places}
    for one in predictions:
        if (one.sample_id, one.condition) in found:
            found[one.sample_id, one.condition].append(one)
    return found


def _stories(run: RunData, places: set[Place]) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The conversations of some questions by the key of their prediction; of several the last, as with predictions."""
    return {
        (record["sample_id"], record["method"], record["condition"]): record
        for record in run.trajectories()
        if (record["sample_id"], record["condition"]) in places
    }


def _entry(place: Place, predictions: Sequence[Prediction], sample: Sample | None) -> dict[str, Any]:
    first = predictions[0]
    return {
        "id": place[0],
        "condition": place[1],
        "task": first.task,
        "video": first.cluster,
        "question": sample.question if sample else "",
        "options": [[letter, text] for letter, text in zip(LETTERS, sample.options, strict=False)] if sample else [],
        "truth": first.truth,
        "note": "",
        "corrupted": [],
        "last": None,
    }


def verdict(prediction: Prediction) -> str:
    """ "right", "wrong" (unparsed and abstained answers too), "partly" (a number near the truth) or "unscored"."""
    if prediction.score is None:
        return "unscored"
    return {1.0: "right", 0.0: "wrong"}.get(prediction.score, "partly")


def _answer(prediction: Prediction, story: Mapping[str, Any] | None, budget: Budget) -> dict[str, Any]:
    tiers = prediction.tiers
    answer = {
        "method": prediction.method,
        "verdict": verdict(prediction),
        "status": prediction.status,
        "answer": prediction.answer,
        "score": prediction.score,
        "reason": prediction.reason,
        "confidence": prediction.confidence,
        "source": prediction.confidence_source,
        "tiers": {"high": tiers.high, "medium": tiers.medium, "low": tiers.low},
        "calls": prediction.calls,
        "failures": prediction.failures,
        "cost": prediction.cost,
        "frames": list(prediction.frames),
        "pictures": [],
        "strip": None,
        "story": None,
    }
    if story is not None:
        answer["story"] = _story(story)
        messages = [{"role": one["role"], "text": _cut(one["text"])} for one in story["messages"]]
        fits = budget.take(sum(len(one["text"].encode()) for one in messages))
        answer["story"]["messages"] = messages if fits else None
    return answer


def _story(record: Mapping[str, Any]) -> dict[str, Any]:
    spoken = [one["text"] for one in record["messages"] if one["role"] == "assistant"]
    ranked = sorted(record["evidence"], key=lambda one: _TIERS.index(one["tier"]))
    return {
        "dominant": record["dominant"],
        "reply": _cut(spoken[-1]) if spoken else "",
        "frame_calls": [
            {"tool": one["tool"], "result": _cut(one["result"]), "confidence": one["confidence"], "cost": one["cost"]}
            for one in record["frame_calls"]
        ],
        "evidence": [_evidence(one) for one in ranked],
        "readings": [
            text
            for holds, text in (
                (record["decomposition_ok"], "The decomposition could not be read; the question itself was asked."),
                (record["routing_ok"], "A choice of tools could not be read; the fixed table chose."),
            )
            if not holds
        ],
    }


def _evidence(record: Mapping[str, Any]) -> dict[str, Any]:
    disturbance, error = record["disturbance"], record["error"]
    return {
        "tier": record["tier"],
        "tool": record["tool"],
        "query": record["sub_query"]["text"],
        "type": record["sub_query"]["type"],
        "result": _cut(record["result"]),
        "confidence": record["confidence"],
        "intrinsic": record["intrinsic"],
        "disturbance": round(float(np.mean(disturbance)), 3) if disturbance else None,
        "frames": frame_ranges(record["frames"]),
        "cost": record["cost"],
        "calls": record["calls"],
        "error": f"{error['kind']}: {error['message']}" if error else None,
        "note": record["note"],
    }


def frame_ranges(frames: Sequence[int]) -> str:
    """Rising frame numbers, runs of neighbours joined.

    >>> frame_ranges([0, 1, 2, 9, 12, 13])
    '0–2, 9, 12–13'
    """
    return ", ".join(f"{a}–{b}" if b > a else str(a) for a, b in runs_of(frames))


def runs_of(frames: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of neighbours among rising frame numbers."""
    start = None
    for here, following in zip(frames, [*frames[1:], None], strict=False):
        start = here if start is None else start
        if following != here + 1:
            yield start, here
            start = None


def _cut(text: str) -> str:
    rest = len(text) - MOST_TEXT
    return text if rest <= 0 else f"{text[:MOST_TEXT]}… [{rest} characters more in trajectories.jsonl]"


def _add_frames(entry: dict[str, Any], viewer: Viewer, sample: Sample, gallery: Gallery) -> str:
    """Pictures and reliability of every answer that used frames; returns why there are none, or nothing."""
    if not any(answer["frames"] for answer in entry["answers"]):
        return ""
    clip = viewer.clip(sample, entry["condition"])
    if isinstance(clip, str):
        return clip
    entry["corrupted"] = list(runs_of([i for i in range(clip.n_frames) if clip.frame_key(i) != "clean"]))
    entry["last"] = clip.n_frames - 1
    try:
        for answer in entry["answers"]:
            if answer["frames"]:
                answer["pictures"] = gallery.add(clip, answer["frames"])
                answer["strip"] = viewer.strip(clip, answer["method"])
    except TrustvidError as error:
        return str(error)
    return ""
