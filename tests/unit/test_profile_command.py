"""``python -m trustvid profile``: picture, table, and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from trustvid.__main__ import main
from trustvid.reliability.measures import Measures, measure_frame
from trustvid.video.reader import open_clip

CLIPS = Path(__file__).resolve().parents[1] / "data" / "videos"
MIXED = str(CLIPS / "v30_mixed_reliability_20f.mp4")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def picture(path: Path) -> np.ndarray:
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB"))


def test_the_table_holds_what_was_measured_chosen_and_touched(tmp_path, capsys):
    out, table = tmp_path / "new folder" / "a.png", tmp_path / "a.csv"
    command = ["profile", MIXED, "--frames", "6", "--corruption", "glare", "--severity", "4", "--coverage", "0.3"]
    assert main([*command, "--out", str(out), "--csv", str(table)]) == 0
    rows = rows_of(table)
    assert [int(row["frame"]) for row in rows] == list(range(20))
    chosen = [row["frame"] for row in rows if row["selected"] == "1"]
    assert len(chosen) == 6 and f"chosen: {' '.join(chosen)};" in capsys.readouterr().out
    assert sum(row["touched"] == "1" for row in rows) == 6
    clip = open_clip(MIXED)
    untouched = next(row for row in rows if row["touched"] == "0")
    measures = measure_frame(clip.frames([int(untouched["frame"])])[0])
    assert [float(untouched[name]) for name in Measures._fields] == pytest.approx(list(measures), abs=1e-5)
    for name in ("channel_noise", "channel_glare", "channel_dark", "channel_blur", "channel_occlusion", "d"):
        assert all(0 <= float(row[name]) <= 1 for row in rows)
    glaring = {touched: [float(r["channel_glare"]) for r in rows if r["touched"] == touched] for touched in "01"}
    assert np.median(glaring["1"]) > np.median(glaring["0"])
    assert picture(out).shape[1] == 1300 and picture(out).std() > 20


def test_the_same_call_writes_the_same_bytes(tmp_path):
    files = []
    for name in ("a", "b"):
        out, table = tmp_path / f"{name}.png", tmp_path / f"{name}.csv"
        main(["profile", MIXED, "--corruption", "occlusion", "--out", str(out), "--csv", str(table)])
        files.append((out.read_bytes(), table.read_bytes()))
    assert files[0] == files[1]


def test_corrupted_stretches_are_shaded(tmp_path):
    shades = {}
    for name, extra in (("clean", []), ("half", ["--corruption", "low_light"])):
        out = tmp_path / f"{name}.png"
        assert main(["profile", MIXED, *extra, "--out", str(out)]) == 0
        shades[name] = np.abs(picture(out).astype(int) - (247, 231, 191)).max(axis=2) < 4  # the shade on white
    assert shades["clean"].mean() < 0.001 < 0.03 < shades["half"].mean()


def test_a_method_without_reliability_and_a_clip_of_one_frame(tmp_path):
    out, table = tmp_path / "a.png", tmp_path / "a.csv"
    command = ["profile", str(CLIPS / "v01_cfr30_90f.mp4"), "--reliability", "off", "--selection", "uniform"]
    assert main([*command, "--frames", "30", "--out", str(out), "--csv", str(table)]) == 0
    rows = rows_of(table)
    assert len(rows) > 64, "grid frames that were not profiled are listed as well"
    assert {row["d"] for row in rows} == {""} and {row["reliability"] for row in rows} == {"1.00000", ""}
    assert main(["profile", str(CLIPS / "v03_one_frame.mp4"), "--out", str(out), "--csv", str(table)]) == 0
    assert [row["selected"] for row in rows_of(table)] == ["1"]


def test_all_faults_are_told_at_once(tmp_path, capsys):
    faulty = ["--reliability", "psychic", "--severity", "9", "--coverage", "2", "--out", "a.jpg", "--csv", "a.txt"]
    assert main(["profile", MIXED, *faulty, "--corruption", "witchcraft"]) == 2
    message = capsys.readouterr().err
    for part in ("psychic", "relative", "--severity 9", "--coverage 2", "a.jpg", "a.txt", "witchcraft", "motion_blur"):
        assert part in message
    assert main(["profile", MIXED, "--frames", "3", "--out", str(tmp_path / "a.png")]) == 2
    assert "anchored keeps 4 to 12" in capsys.readouterr().err
    assert main(["profile", str(CLIPS / "v22_text_renamed.mp4"), "--out", str(tmp_path / "a.png")]) == 2
    assert not list(tmp_path.iterdir())
