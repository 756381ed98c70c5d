"""The gallery command: one labelled sheet of corruptions and severities."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from tests.unit.fakes import ArraySource
from trustvid.__main__ import main
from trustvid.config.compose import group_options
from trustvid.corruption import corrupt
from trustvid.corruption.freeze import Freeze
from trustvid.corruption.glare import Glare
from trustvid.errors import TrustvidError
from trustvid.stages.gallery import GAP, draw_sheet, moment_index
from trustvid.video.writer import write_video


def frames(n: int = 20) -> np.ndarray:
    """A textured scene that slides."""
    coarse = np.random.default_rng(2).integers(0, 256, (9, 24, 3), dtype=np.uint8)
    wide = cv2.resize(coarse, (192, 72), interpolation=cv2.INTER_CUBIC)
    return np.stack([wide[:, 4 * i : 4 * i + 96] for i in range(n)])


@pytest.fixture
def clip_file(tmp_path):
    path = tmp_path / "slide.mp4"
    write_video(path, frames(), 10)
    return path


def test_all_corruptions_at_three_severities(clip_file, tmp_path, capsys):
    out = tmp_path / "new folder" / "sheet.png"
    assert main(["gallery", str(clip_file), "--out", str(out), "--width", "96"]) == 0
    names = group_options("corruption")
    assert f"frame 10 of slide.mp4, corruptions: {len(names)}, severities: 3" in capsys.readouterr().out
    sheet = cv2.imread(str(out))
    assert sheet.shape[0] > len(names) * 72 and sheet.shape[1] > 3 * 96
    first = out.read_bytes()
    main(["gallery", str(clip_file), "--out", str(out), "--width", "96"])
    assert out.read_bytes() == first


def test_the_sheet_holds_the_very_pictures():
    source = ArraySource(frames())
    operators = {"glare": Glare(), "freeze": Freeze()}
    sheet = draw_sheet(source, 13, operators, [2, 5], width=96)
    assert sheet.dtype == np.uint8 and sheet.shape[2] == 3
    clean = source.frames([13])[0]
    left = next(x for x in range(sheet.shape[1]) if np.array_equal(sheet[GAP : GAP + 72, x : x + 96], clean))
    bottom = sheet.shape[0] - GAP
    for row, operator in enumerate(reversed(operators.values())):
        for column, severity in enumerate([2, 5]):
            x, y = left + column * (96 + GAP), bottom - 72 - row * (72 + GAP)
            view = corrupt(source, operator, severity, 1.0)
            expected, cell = view.frames([13])[0], sheet[y : y + 72, x : x + 96]
            tagged = view.source_index(13) != 13
            assert np.array_equal(cell[20:], expected[20:]), (operator.name, severity)
            assert np.array_equal(cell[:20], expected[:20]) == (not tagged), "another frame is said to be one"
    names = sheet[:, : left - 1].min(axis=2)
    for top in (GAP, bottom - 72 - (72 + GAP), bottom - 72):
        assert names[top : top + 20].min() < 100, "each row has its name"


def test_moments(clip_file):
    source = ArraySource(frames())
    assert moment_index(source, None, None) == 10
    assert moment_index(source, 0.52, None) == 5 and moment_index(source, 1.95, None) == 19
    assert moment_index(source, None, 7) == 7
    for time, frame in ((-0.1, None), (2.5, None), (float("nan"), None), (None, 20), (None, -1)):
        with pytest.raises(TrustvidError, match="expected 0 to"):
            moment_index(source, time, frame)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--corruptions", "glare", "snow"], ["snow does not exist", "motion_blur"]),
        (["--severities", "0", "6"], ["--severities 0", "--severities 6", "1 to 5"]),
        (["--severities", "3", "3"], ["--severities 3 is given twice"]),
        (["--width", "2"], ["--width 2", "16"]),
        (["--out", "sheet.jpg"], [".png"]),
        (["--frame", "99"], ["expected 0 to 19"]),
    ],
)
def test_unusable_input_is_named_and_nothing_is_written(clip_file, tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert main(["gallery", str(clip_file), *arguments]) == 2
    complaint = capsys.readouterr().err
    assert all(word in complaint for word in words), complaint
    assert not list(tmp_path.glob("*.png"))
    assert main(["gallery", str(tmp_path / "absent.mp4")]) == 2
