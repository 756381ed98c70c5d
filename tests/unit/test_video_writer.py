"""Writing clips: the same bytes each time, complete or absent, read back as they were."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.data.videos.read_index import draw_index, read_index
from trustvid.video.reader import Reader, open_clip
from trustvid.video.writer import write_video


def drawn(n: int, height: int = 64, width: int = 96) -> Iterator[np.ndarray]:
    return (draw_index(index, height, width) for index in range(n))


def test_what_is_written_is_read_back(tmp_path: Path):
    path = tmp_path / "new" / "folder" / "clip.mp4"
    assert write_video(path, drawn(25), fps=10) == 25
    clip = open_clip(path)
    assert (clip.n_frames, clip.frames_promised, clip.width, clip.height) == (25, 25, 96, 64)
    assert clip.fps == pytest.approx(10)
    assert [read_index(frame) for frame in clip.frames(range(25))] == [(index, True) for index in range(25)]
    difference = np.abs(clip.frames([24])[0].astype(int) - draw_index(24))
    assert difference.mean() < 3
    assert clip.warnings == ()
    np.testing.assert_array_equal(Reader(prefer="decord").open(path).frames(range(25)), clip.frames(range(25)))


def littered(frames: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """The same frames, with memory left behind that an encoder must not be swayed by."""
    rng = np.random.default_rng()
    for frame in frames:
        litter = [np.full(rng.integers(100, 20_000), rng.integers(256), np.uint8) for _ in range(6)]
        yield frame
        del litter


def test_equal_frames_give_equal_bytes(tmp_path: Path):
    contents = set()
    for _ in range(40):  # x264's AVX-512 path, which is not used, differed once in fifty
        write_video(tmp_path / "a.mp4", littered(drawn(40)), fps=30)
        contents.add((tmp_path / "a.mp4").read_bytes())
    assert len(contents) == 1
    write_video(tmp_path / "c.mp4", drawn(40), fps=30, crf=30)
    assert (tmp_path / "c.mp4").stat().st_size < (tmp_path / "a.mp4").stat().st_size


@pytest.mark.parametrize(("height", "width"), [(67, 101), (66, 101), (67, 96), (2, 2), (17, 16)])
def test_odd_sizes_keep_every_pixel(tmp_path: Path, height: int, width: int):
    write_video(tmp_path / "odd.mp4", drawn(3, height, width), fps=10, crf=1)
    frames = open_clip(tmp_path / "odd.mp4").frames(range(3))
    assert frames.shape == (3, height, width, 3)
    if width > 16:
        np.testing.assert_allclose(
            frames[:, -3:, -3:].astype(int), np.broadcast_to((30, 30, 220), (3, 3, 3, 3)), atol=12
        )


@pytest.mark.parametrize("colour", [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0), (200, 120, 40)])
def test_colours_survive(tmp_path: Path, colour: tuple[int, int, int]):
    write_video(tmp_path / "flat.mp4", [np.full((32, 32, 3), colour, np.uint8)] * 2, fps=10, crf=4)
    (frame,) = open_clip(tmp_path / "flat.mp4").frames([1])
    np.testing.assert_allclose(frame.astype(int), np.broadcast_to(colour, frame.shape), atol=4)


def test_key_frames_come_as_often_as_asked(tmp_path: Path):
    write_video(tmp_path / "clip.mp4", drawn(60), fps=30, gop=12)
    with av.open(str(tmp_path / "clip.mp4")) as container:
        keys = [packet.is_keyframe for packet in container.demux(video=0) if packet.size]
    assert sum(keys) >= 5


@pytest.mark.parametrize("fps", [Fraction(30_000, 1001), 29.97, 0.5, 120])
def test_rates(tmp_path: Path, fps: float | Fraction):
    write_video(tmp_path / "clip.mp4", drawn(6), fps=fps)
    assert open_clip(tmp_path / "clip.mp4").fps == pytest.approx(float(fps), rel=1e-4)


def test_the_file_appears_when_it_is_complete(tmp_path: Path):
    path = tmp_path / "clip.mp4"

    def watched() -> Iterator[np.ndarray]:
        for frame in drawn(30):
            assert not path.exists()
            yield frame

    write_video(path, watched(), fps=10)
    assert [file.name for file in tmp_path.iterdir()] == ["clip.mp4"]


def test_a_failure_leaves_the_old_file_and_no_rest(tmp_path: Path):
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"old")

    def failing() -> Iterator[np.ndarray]:
        yield from drawn(20)
        raise RuntimeError("the renderer broke")

    with pytest.raises(RuntimeError, match="renderer"):
        write_video(path, failing(), fps=10)
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["clip.mp4"]


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([], "at least one frame"),
        ([np.zeros((64, 96), np.uint8)], "height, width, 3"),
        ([np.zeros((64, 96, 4), np.uint8)], "height, width, 3"),
        ([np.zeros((64, 96, 3), np.float32)], "float32"),
        ([np.zeros((64, 96, 3), np.uint8), np.zeros((64, 98, 3), np.uint8)], "one size"),
    ],
    ids=["none", "gray", "alpha", "float", "sizes"],
)
def test_frames_that_are_none_are_refused(tmp_path: Path, frames: list[np.ndarray], message: str):
    with pytest.raises(ValueError, match=message):
        write_video(tmp_path / "clip.mp4", frames, fps=10)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "fps"), [("clip.avi", 10), ("clip", 10), ("clip.mp4", 0), ("clip.mp4", -5)])
def test_names_and_rates_that_are_none_are_refused(tmp_path: Path, name: str, fps: float):
    with pytest.raises(ValueError, match="expected"):
        write_video(tmp_path / name, drawn(2), fps=fps)


def test_memory_does_not_grow_with_length(tmp_path: Path):
    peaks = []
    for n in (60, 240):
        tracemalloc.start()
        write_video(tmp_path / f"{n}.mp4", drawn(n, 120, 160), fps=10)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.5
