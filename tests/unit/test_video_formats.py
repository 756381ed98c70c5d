"""Containers, codecs, timings and turns beyond the common ones, made on the spot."""

from __future__ import annotations

import struct
from importlib.util import find_spec
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from tests.data.videos.encode import encode
from tests.data.videos.read_index import draw_index, read_index
from trustvid.errors import VideoError
from trustvid.video.reader import Reader, open_clip

N = 40
needs_decord = pytest.mark.skipif(find_spec("decord") is None, reason="decord is not installed")


def drawn(n: int = N) -> list[np.ndarray]:
    return [draw_index(index) for index in range(n)]


@pytest.mark.parametrize(
    ("name", "codec", "settings"),
    [
        ("mpeg4_b_frames.avi", "mpeg4", {"b_frames": 2}),
        ("h264_b_frames.avi", "libx264", {}),
        ("mjpeg.avi", "mjpeg", {"pixel_format": "yuvj420p"}),
        ("h264.ts", "libx264", {}),
        ("mpeg2.mpg", "mpeg2video", {"b_frames": 2}),
        ("flv1.flv", "flv", {}),
        ("animated.gif", "gif", {"pixel_format": "rgb8"}),
        ("raw.h264", "libx264", {}),
        ("mpeg4.mp4", "mpeg4", {"b_frames": 2}),
        ("one_key_frame.mkv", "libx264", {"g": "1000"}),
        ("all_key_frames.mp4", "libx264", {"g": "1"}),
        ("open_groups.mp4", "libx264", {"g": "10", "x264-params": "open-gop=1:bframes=3"}),
        ("hidden_frames.webm", "libvpx", {"auto-alt-ref": "1", "lag-in-frames": "16", "deadline": "realtime"}),
        ("vp9.webm", "libvpx-vp9", {"auto-alt-ref": "1", "lag-in-frames": "16", "deadline": "realtime"}),
        ("fragments.mp4", "libx264", {"g": "10", "container_options": {"movflags": "frag_keyframe+empty_moov"}}),
    ],
)
def test_every_frame_of_every_format(tmp_path: Path, name: str, codec: str, settings: dict):
    path = encode(tmp_path / name, drawn(), codec, **settings)
    for order in (range(N), range(N - 1, -1, -1), [7, 39, 3, 3, 20]):
        clip = open_clip(path)
        assert clip.n_frames == N
        assert [read_index(frame) for frame in clip.frames(order)] == [(index, True) for index in order]
        np.testing.assert_allclose(clip.timestamps, np.arange(N) / 25, atol=2e-3)


def test_a_file_without_times_is_spaced_evenly_and_says_so(tmp_path: Path):
    clip = open_clip(encode(tmp_path / "raw.h264", drawn()))
    assert any("no usable time stamps" in text for text in clip.warnings)


def test_variable_rate(tmp_path: Path):
    times_ms = np.cumsum([0] + [20, 40, 200, 33, 7] * 5).tolist()
    path = encode(tmp_path / "variable.mkv", drawn(len(times_ms)), times_ms=times_ms)
    for kind in ("pyav", "auto") + (("decord",) if find_spec("decord") else ()):
        clip = open_clip(path, kind)
        np.testing.assert_allclose(clip.timestamps, np.array(times_ms) / 1000, atol=1e-6)
        assert [read_index(frame)[0] for frame in clip.frames(range(clip.n_frames))] == list(range(len(times_ms)))
        assert clip.fps == pytest.approx(25 / 1.5)


def hide_first_frames(path: Path, frames: int, frame_ticks: int) -> None:
    """Moves the edit list's start, as cutting without re-encoding does."""
    data = bytearray(path.read_bytes())
    entry = data.index(b"elst") + 12
    length, start = struct.unpack(">Ii", data[entry : entry + 8])
    data[entry : entry + 8] = struct.pack(">Ii", length - frames * 40, start + frames * frame_ticks)
    path.write_bytes(data)


def test_frames_hidden_by_an_edit_list_are_left_out(tmp_path: Path):
    path = encode(tmp_path / "cut.mp4", drawn(), g="25")
    hide_first_frames(path, 10, 512)
    clip = open_clip(path)
    assert (clip.n_frames, clip.frames_promised, clip.decode_record()["frames_hidden"]) == (30, 40, 10)
    assert [read_index(frame)[0] for frame in clip.frames(range(30))] == list(range(10, 40))
    assert [read_index(frame)[0] for frame in clip.frames([29, 0, 15])] == [39, 10, 25]
    assert clip.timestamps[0] == 0
    assert clip.warnings == ()


@needs_decord
def test_decord_is_not_trusted_with_an_edit_list(tmp_path: Path):
    path = encode(tmp_path / "cut.mp4", drawn(), g="25")
    hide_first_frames(path, 10, 512)
    with pytest.raises(VideoError, match="an edit list hides 10 frames"):
        open_clip(path, "decord")
    clip = Reader(prefer="decord").open(path)
    assert clip.frames([0]).shape == (1, 64, 96, 3)
    assert clip.reader == "pyav"


@pytest.mark.skipif(not hasattr(av.VideoStream, "set_display_rotation"), reason="this PyAV cannot write a rotation")
@pytest.mark.parametrize("counter_clockwise", [0, 90, 180, 270])
def test_turns_agree_with_opencv(tmp_path: Path, counter_clockwise: int):
    path = encode(tmp_path / "turned.mp4", drawn(3), turn=(counter_clockwise, False))
    clip = open_clip(path)
    (shown,) = clip.frames([0])
    _, expected = cv2.VideoCapture(str(path)).read()
    assert shown.shape == expected.shape == (clip.height, clip.width, 3)
    np.testing.assert_allclose(shown.astype(int), expected[..., ::-1].astype(int), atol=3)
    assert clip.rotation == -counter_clockwise % 360


@pytest.mark.skipif(not hasattr(av.VideoStream, "set_display_rotation"), reason="this PyAV cannot write a rotation")
def test_mirrored_clips_are_mirrored_back(tmp_path: Path):
    (plain,) = open_clip(encode(tmp_path / "plain.mp4", drawn(3))).frames([2])
    mirrored = open_clip(encode(tmp_path / "mirrored.mp4", drawn(3), turn=(0, True)))
    np.testing.assert_array_equal(mirrored.frames([2])[0], plain[:, ::-1])
    assert mirrored.decode_record()["mirrored"] is True
    turned = open_clip(encode(tmp_path / "turned.mp4", drawn(3), turn=(90, True)))
    np.testing.assert_array_equal(turned.frames([2])[0], np.rot90(plain)[:, ::-1])


def test_a_change_of_size_is_scaled_and_said(tmp_path: Path):
    small = encode(tmp_path / "a.h264", drawn(10)).read_bytes()
    large = encode(tmp_path / "b.h264", [draw_index(index, 128, 192) for index in range(10, 20)]).read_bytes()
    (tmp_path / "both.h264").write_bytes(small + large)
    clip = open_clip(tmp_path / "both.h264")
    assert [read_index(frame)[0] for frame in clip.frames(range(20))] == list(range(20))
    assert clip.frames([15]).shape == (1, 64, 96, 3)
    assert any("another size" in text for text in clip.warnings)


def test_colours_follow_the_matrix_that_the_file_states(tmp_path: Path):
    shown = {}
    for matrix in ("bt709", "smpte170m"):
        options = {"x264-params": f"colormatrix={matrix}"}
        path = encode(tmp_path / f"{matrix}.mp4", drawn(3), pixel_format="yuv444p", crf="4", **options)
        (shown[matrix],) = open_clip(path).frames([0]).astype(int)
        _, expected = cv2.VideoCapture(str(path)).read()
        np.testing.assert_allclose(shown[matrix], expected[..., ::-1].astype(int), atol=3)
    assert np.abs(shown["bt709"] - shown["smpte170m"]).max() > 10, "the statement makes no difference"


def test_real_footage_is_read_as_opencv_reads_it(real_clips: dict[str, Path]):
    for path in real_clips.values():
        clip = open_clip(path)
        wanted = list(range(0, clip.n_frames, 29))
        frames = dict(zip(wanted, Reader(prefer="decord").open(path).frames(wanted), strict=True))
        np.testing.assert_array_equal(clip.frames(wanted), np.stack(list(frames.values())))
        capture, count = cv2.VideoCapture(str(path)), 0
        while capture.grab():
            if count in frames:
                expected = capture.retrieve()[1][..., ::-1]
                difference = np.abs(frames[count].astype(int) - expected)
                assert difference.mean() < 2, (path.name, count)
            count += 1
        assert count == clip.n_frames, path.name
