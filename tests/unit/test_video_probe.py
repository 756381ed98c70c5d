"""``python -m trustvid probe``: the report, its two forms, the pictures and the failures."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.data.videos.read_index import read_index
from trustvid.video import probe as probing
from trustvid.video.probe import ProbeReport, probe
from trustvid.video.reader import open_clip

CLIPS = Path(__file__).resolve().parents[1] / "data" / "videos"


def run(*arguments: str | Path) -> int:
    parser = argparse.ArgumentParser(prog="python -m trustvid probe")
    probing.add_arguments(parser)
    return probing.run(parser.parse_args([str(argument) for argument in arguments]))


def test_the_report():
    report = probe(CLIPS / "v01_cfr30_90f.mp4", frames=4)
    assert isinstance(report, ProbeReport)
    assert (report.frames_found, report.frames_promised) == (90, 90)
    assert report.indices == (0, 30, 59, 89)
    assert report.timestamps == pytest.approx((0, 1.0, 59 / 30, 89 / 30), abs=1e-5)
    assert (report.width, report.height, report.rotation, report.reader) == (96, 64, 0, "pyav")
    assert report.warnings == ()


def test_json_is_one_object_with_all_that_scripts_need(capsys: pytest.CaptureFixture[str]):
    assert run(CLIPS / "v10_truncated_moov_first.mp4", "--frames", "8", "--json") == 0
    output = capsys.readouterr()
    report = json.loads(output.out)
    assert {"frames_found", "frames_promised", "indices", "timestamps", "width", "height", "rotation", "reader"} < set(
        report
    )
    assert (report["frames_found"], report["frames_promised"]) == (25, 90)
    assert report["indices"] == [0, 3, 7, 10, 14, 17, 21, 24]
    assert any("25 of 90" in text for text in report["warnings"])
    assert output.err == ""


def test_text_is_aligned(capsys: pytest.CaptureFixture[str]):
    assert run(CLIPS / "v18_vp8_one_keyframe_90f.webm") == 0
    lines = capsys.readouterr().out.splitlines()
    starts = {
        len(line) - len(line[16:].lstrip())
        for line in lines
        if line[:1].isalpha() and not line.startswith(("ind", "tim"))
    }
    assert starts == {17}
    shown = dict(line.split(maxsplit=1) for line in lines if line[:1].isalpha())
    assert shown["frames_found"] == "90"
    assert shown["frames_promised"] == "nothing"
    assert shown["warnings"] == "none"
    numbers = [int(word) for line in lines if line.startswith("indices") for word in line.split()[1:]]
    assert numbers == [0, 6, 12, 18, 24, 30, 36, 42]


def test_the_frames_are_written_as_png(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    clip = CLIPS / "v07_rotate_90.mp4"
    assert run(clip, "--frames", "3", "--dump", tmp_path / "frames") == 0
    files = sorted((tmp_path / "frames").iterdir())
    assert [file.name for file in files] == ["frame_000000.png", "frame_000006.png", "frame_000011.png"]
    for file, frame in zip(files, open_clip(clip).frames([0, 6, 11]), strict=True):
        np.testing.assert_array_equal(np.asarray(Image.open(file)), frame)


def test_a_short_clip_gives_all_its_frames(tmp_path: Path):
    report = probe(CLIPS / "v06_seven_frames.mp4", frames=16, dump=tmp_path)
    assert report.indices == tuple(range(7))
    pictures = [np.asarray(Image.open(tmp_path / f"frame_{index:06d}.png")) for index in report.indices]
    assert [read_index(picture) for picture in pictures] == [(index, True) for index in range(7)]


@pytest.mark.parametrize(
    "name",
    ["v11_truncated_no_moov.mp4", "v12_zero_byte.mp4", "v13_audio_only.mp4", "v22_text_renamed.mp4", "gone.mp4", "."],
)
def test_failures_are_told_and_end_with_2(name: str, capsys: pytest.CaptureFixture[str]):
    assert run(CLIPS / name, "--json") == 2
    failure = json.loads(capsys.readouterr().out)
    assert failure["file"] == str(CLIPS / name)
    assert failure["error"].startswith(str(CLIPS / name))
    assert run(CLIPS / name) == 2
    assert capsys.readouterr().out.startswith("error ")


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").write_text("in the way")
    assert run(CLIPS / "v01_cfr30_90f.mp4", "--dump", tmp_path / "file", "--json") == 2
    assert "file" in json.loads(capsys.readouterr().out)["error"]


@pytest.mark.parametrize("arguments", [("--frames", "0"), ("--frames", "x"), ("--reader", "opencv")])
def test_wrong_arguments_are_refused(arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as caught:
        run(CLIPS / "v01_cfr30_90f.mp4", *arguments)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_every_clip_is_probed_or_refused(capsys: pytest.CaptureFixture[str]):
    codes = {path.name[:3]: run(path, "--json") for path in sorted(CLIPS.glob("v*"))}
    assert {name for name, code in codes.items() if code} == {"v11", "v12", "v13", "v22"}
