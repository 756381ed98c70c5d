"""BoxWorld's questions: wording, fairness, answerability.   pytest tests/unit/test_boxworld_questions.py -n 0 -q"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from trustvid.benchmarks.boxworld.generate import (
    MIN_LEGIBLE,
    MIN_LOCATED,
    BoxClip,
    draw_length,
    generate_questions,
    make_clip,
)
from trustvid.benchmarks.boxworld.masks import MaskPainter, id_table
from trustvid.benchmarks.boxworld.oracle import MaskOracle
from trustvid.benchmarks.boxworld.questions import AG_LABELS, LP_LABELS, RP_LABELS, target
from trustvid.benchmarks.boxworld.questions_city import SECTOR_MARGIN
from trustvid.benchmarks.boxworld.visibility import look
from trustvid.benchmarks.boxworld.world import CITY_WORDS, ROOM_WORDS, VERSION, bearing
from trustvid.errors import DataError

CITY = (
    "The camera is level, 4 m above the ground, with a horizontal field of view of 90 degrees; "
    "it flies forward at 5 m/s and turns on the spot. "
)
ROOM = (
    "The camera is level, 1.5 m above the floor, with a horizontal field of view of 90 degrees; "
    "it only turns on the spot. "
)
W = r"[A-Z]{2,8}"
TEMPLATES = {
    "LP": re.escape(CITY) + rf"When the video ends, where is the landmark with the sign {W} relative to you\?",
    "CF": re.escape(CITY)
    + r"At the end of the first straight stretch you turned (left|right)\. Suppose you had turned (left|right) there "
    r"instead and flown straight on\. Towards which landmark would you have flown\?",
    "PE": re.escape(CITY)
    + r"Your planned route: 1\. fly forward; 2\. turn (left|right); 3\. fly forward; 4\. turn (left|right); "
    r"5\. fly forward; 6\. turn (left|right); 7\. fly forward; 8\. turn (left|right)\. "
    r"How many steps of the route have you completed when the video ends\?",
    "AG": re.escape(CITY)
    + rf"The video shows your flight so far\. You now want to fly to the landmark with the sign {W}\. "
    r"What do you do first\?",
    "RDist": re.escape(ROOM)
    + rf"Measured between their centres on the floor, which of these objects is closest to the {W}\?",
    "RDir": re.escape(ROOM) + rf"Imagine standing at the {W} and facing the {W}\. Where is the {W}\?",
    "RP": re.escape(ROOM)
    + rf"You stand at the ({W}) facing the ({W})\. Fill in the turns of this walk to the ({W}): 1\. go forward until "
    rf"the \2; 2\. \[turn\]; 3\. go forward until the {W}; 4\. \[turn\]; 5\. go forward until the \3\. "
    r"Which turns fit\?",
    "AO": re.escape(ROOM) + rf"In which order do these objects first appear in the video: {W}, {W}, {W}, {W}\?",
}
SIZES = {
    "LP": (3, 5),
    "CF": (3, 3),
    "PE": (4, 4),
    "AG": (5, 7),
    "RDist": (3, 5),
    "RDir": (3, 4),
    "RP": (4, 4),
    "AO": (4, 5),
}


@pytest.fixture(scope="module")
def clips() -> list[BoxClip]:
    """38 clips, 152 questions; a series that no table uses."""
    return list(generate_questions("dev", 38, offset=900))


@pytest.fixture(scope="module")
def gates() -> ModuleType:
    """The script benchmarks/boxworld_gates.py as a module."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "boxworld_gates.py"
    spec = importlib.util.spec_from_file_location("boxworld_gates", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_question_is_worded_as_promised(clips: Sequence[BoxClip]) -> None:
    for clip in clips:
        for question in clip.questions:
            assert re.fullmatch(TEMPLATES[question.task], question.text), question.text
            low, high = SIZES[question.task]
            assert low <= len(question.options) <= high
            assert len(set(question.options)) == len(question.options)
            assert 0 <= question.answer < len(question.options)


def test_every_clip_has_its_four_tasks(clips: Sequence[BoxClip]) -> None:
    for number, clip in enumerate(clips):
        tasks = [question.task for question in clip.questions]
        assert tasks == (["LP", "CF", "PE", "AG"] if number % 2 == 0 else ["RDist", "RDir", "RP", "AO"])


def test_the_mask_oracle_answers_everything(clips: Sequence[BoxClip]) -> None:
    wrong = []
    for clip in clips:
        oracle = MaskOracle(MaskPainter(clip.scene).frames(), id_table(clip.scene))
        wrong += [
            (clip.name, question.task)
            for question in clip.questions
            if oracle.answer(question.text, question.options) != question.answer
        ]
    assert not wrong


def test_the_mask_oracle_follows_the_masks_and_not_the_question(clips: Sequence[BoxClip]) -> None:
    """With the words of two landmarks exchanged in the table, the oracle must give the other landmark's answer."""
    clip = clips[0]
    question = next(q for q in clip.questions if q.task == "CF")
    truth = question.options[question.answer]
    other = question.options[(question.answer + 1) % 3]
    swap = {truth: other, other: truth}
    table = {
        value: label._replace(word=swap.get(label.word, label.word)) for value, label in id_table(clip.scene).items()
    }
    answer = MaskOracle(MaskPainter(clip.scene).frames(), table).answer(question.text, question.options)
    assert question.options[answer] == other
    with pytest.raises(ValueError, match="knows no task"):
        MaskOracle(MaskPainter(clip.scene).frames(), table).answer("What colour is the sky?", ["blue"])


def test_asked_landmarks_can_be_read_and_measured(clips: Sequence[BoxClip]) -> None:
    for clip in clips[:12]:
        sightings = look(clip.scene, stride=1)
        index = {box.word: i for i, box in enumerate(clip.scene.landmarks)}
        for question in clip.questions:
            words = [word for word in re.findall(W, question.text) if word in index]
            words += [question.options[question.answer]] if question.task in ("CF", "RDist") else []
            for word in words:
                # The generator looks at every second or third frame; the full count may fall a little short.
                assert sightings.legible[:, index[word]].sum() >= MIN_LEGIBLE - 3
                assert sightings.located[:, index[word]].sum() >= MIN_LOCATED - 3


def test_positions_keep_their_margin(clips: Sequence[BoxClip]) -> None:
    for clip in clips[::2]:
        x, z, yaw = clip.scene.poses[-1]
        index = {box.word: box for box in clip.scene.landmarks}
        for question in clip.questions:
            if question.task in ("LP", "AG"):
                box = next(index[word] for word in re.findall(W, question.text) if word in index)
                labels = LP_LABELS if question.task == "LP" else AG_LABELS
                away = bearing(x, z, yaw + 45 * labels.index(question.options[question.answer]), box.x, box.z)
                assert abs(away) <= 22.5 - SECTOR_MARGIN


def test_clips_depend_on_their_own_number_alone(clips: Sequence[BoxClip]) -> None:
    again = make_clip("dev", 900, 7)
    assert again.questions == clips[7].questions and again.name == clips[7].name
    assert np.array_equal(again.scene.poses, clips[7].scene.poses) and again.scene.landmarks == clips[7].scene.landmarks


def test_length_is_drawn_before_the_scene(clips: Sequence[BoxClip]) -> None:
    """Otherwise the search for a fitting scene could make the length tell of the answer."""
    for number, clip in enumerate(clips):
        assert clip.scene.n_frames == draw_length(("boxworld", VERSION, "dev", 900, number))


def test_names_are_unique_over_splits_and_offsets() -> None:
    made = [make_clip(split, offset, 1) for split in ("train", "dev", "val", "test") for offset in (0, 1)]
    assert len({clip.name for clip in made}) == len(made)
    assert len({clip.scene.seed for clip in made}) == len(made)


def test_blocks_hold_every_label_once() -> None:
    for labels in (LP_LABELS, RP_LABELS):
        drawn = [target(labels, ("x",), index) for index in range(3 * len(labels))]
        for start in range(0, len(drawn), len(labels)):
            assert sorted(drawn[start : start + len(labels)]) == sorted(labels)
        assert drawn[: len(labels)] != drawn[len(labels) : 2 * len(labels)]


def test_letters_are_not_skewed(clips: Sequence[BoxClip]) -> None:
    for size in (3, 4, 5):
        letters = Counter(q.answer for clip in clips for q in clip.questions if len(q.options) == size)
        assert chisquare([letters[i] for i in range(size)]).pvalue > 0.001


def test_words_are_short_and_distinct() -> None:
    assert len(set(CITY_WORDS)) == len(CITY_WORDS) == 24 and len(set(ROOM_WORDS)) == len(ROOM_WORDS) == 24
    assert all(re.fullmatch(W, word) for word in (*CITY_WORDS, *ROOM_WORDS))


def test_unknown_splits_are_refused() -> None:
    with pytest.raises(DataError, match="train, dev, val, test"):
        generate_questions("valid", 2)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="negative"):
        generate_questions("val", 2, offset=-1)


def _items(gates: ModuleType, clips: Sequence[BoxClip]) -> list:
    return [gates.Item(question, clip.name, clip.scene.n_frames) for clip in clips for question in clip.questions]


def test_no_agent_without_evidence_beats_chance(gates: ModuleType, clips: Sequence[BoxClip]) -> None:
    training = _items(gates, list(generate_questions("train", 16, offset=900)))
    cells = gates.evaluate(_items(gates, clips), training)
    corrected = gates.holm([cell.p for cell in cells])
    assert min(corrected) > gates.ALPHA
    assert {cell.task for cell in cells} == set(TEMPLATES)


@pytest.mark.parametrize("leak", ["position", "text", "length"])
def test_the_gates_see_a_planted_leak(gates: ModuleType, clips: Sequence[BoxClip], leak: str) -> None:
    def planted(item: object, number: int) -> object:
        question = item.question  # type: ignore[attr-defined]
        if question.task != "PE":
            return item
        index = {
            "position": 0,
            "text": question.options.index("3"),
            "length": question.options.index(str(2 + number % 4)),
        }
        length = 90 + 8 * (number % 4) if leak == "length" else item.n_frames  # type: ignore[attr-defined]
        return gates.Item(replace(question, answer=index[leak]), item.clip, length)  # type: ignore[attr-defined]

    items = [planted(item, number // 4) for number, item in enumerate(_items(gates, clips[::2]))]
    cells = gates.evaluate(items, items)
    found = {
        cell.task for cell, p in zip(cells, gates.holm([cell.p for cell in cells]), strict=True) if p < gates.ALPHA
    }
    assert "PE" in found


def test_the_exact_test_agrees_with_the_binomial(gates: ModuleType) -> None:
    for right in (0, 3, 12, 20):
        assert gates.tail_probability([0.25] * 20, right) == pytest.approx(binom.sf(right - 1, 20, 0.25))
    assert gates.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
