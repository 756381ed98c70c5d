"""Damaged, hostile and missing files: a clear error or a warning, soon, and never a wrong frame in silence."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from pathlib import Path

import av
import numpy as np
import pytest

from tests.data.videos.encode import encode
from tests.data.videos.read_index import draw_index, read_index
from trustvid.errors import TrustvidError, VideoError
from trustvid.video.reader import Reader, open_clip

CLIPS = Path(__file__).resolve().parents[1] / "data" / "videos"
pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def clip_path(tmp_path: Path) -> Path:
    return encode(tmp_path / "clip.mp4", (draw_index(index) for index in range(60)), g="20", bf="0")


def packets(path: Path) -> list[tuple[int, int]]:
    """Position and size of every packet."""
    with av.open(str(path)) as container:
        return [(packet.pos, packet.size) for packet in container.demux(video=0) if packet.size]


def overwrite(path: Path, numbers: range) -> None:
    """Zeroes whole packets."""
    places, data = packets(path), bytearray(path.read_bytes())
    for number in numbers:
        position, size = places[number]
        data[position : position + size] = bytes(size)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "folder"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_bytes(b"\x93\xf1" * 32 + bytes(500)), "no video container"),
        (lambda path: path.write_text("naïve text, not video — at all\n" * 200), "text file"),
        (lambda path: os.mkfifo(path), "not a regular file"),
        (lambda path: path.symlink_to(path.with_name("gone")), "no such file"),
    ],
    ids=["missing", "folder", "empty", "noise", "text", "pipe", "dangling link"],
)
@pytest.mark.timeout(10)
def test_what_is_no_video_is_refused_with_the_reason(tmp_path: Path, make, reason: str):
    path = tmp_path / "clip.mp4"
    make(path)
    with pytest.raises(VideoError) as caught:
        open_clip(path)
    assert reason in caught.value.reason
    assert caught.value.path == path
    assert pickle.loads(pickle.dumps(caught.value)).reason == caught.value.reason  # noqa: S301 (our own bytes)


def test_a_path_through_a_file_is_refused(clip_path: Path):
    with pytest.raises(VideoError, match="no such file"):
        open_clip(clip_path / "inner.mp4")


@pytest.mark.parametrize(
    "text",
    [
        "ffconcat version 1.0\nfile {victim}\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:3\n#EXTINF:3,\n{victim}\n#EXT-X-ENDLIST\n",
        "#EXTM3U\n#EXTINF:3,\nhttp://127.0.0.1:9/clip.ts\n#EXT-X-ENDLIST\n",
    ],
    ids=["concat", "playlist", "address"],
)
@pytest.mark.parametrize("name", ["list.mp4", "list.m3u8", "list.ffconcat"])
def test_a_list_of_other_files_is_no_video(tmp_path: Path, text: str, name: str):
    path = tmp_path / name
    path.write_text(text.format(victim=CLIPS / "v01_cfr30_90f.mp4"))
    with pytest.raises(VideoError, match="text file"):
        open_clip(path)


@pytest.mark.parametrize("name", ["http:clip.mp4", "concat:a|b.mp4", "clip%03d.mp4", "- .mp4", "a=1,b (x) 'q\".mp4"])
def test_a_name_is_only_a_name(clip_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.chdir(clip_path.parent)
    clip_path.rename(name)
    for settings in ({}, {"prefer": "decord"}):
        assert Reader(**settings).open(name).frames([59]).shape == (1, 64, 96, 3)


def test_a_lost_frame_is_an_error_and_its_intact_neighbours_are_not(clip_path: Path):
    overwrite(clip_path, range(30, 31))
    clip = open_clip(clip_path)
    assert [read_index(frame)[0] for frame in clip.frames([0, 19, 40, 59])] == [0, 19, 40, 59]
    with pytest.raises(VideoError, match=r"frame 30 \(at 1\.20 s\) does not decode.*count=decode"):
        clip.frames([0, 30])
    assert any("does not decode" in text and clip_path.name in text for text in clip.warnings)
    assert read_index(clip.frames([45])[0])[0] == 45, "the clip still serves after an error"


def test_counting_by_decoding_reads_what_is_left(clip_path: Path):
    overwrite(clip_path, range(30, 35))
    clip = Reader(count="decode").open(clip_path)
    assert clip.n_frames == 55
    assert clip.timestamps[30] == pytest.approx(35 / 25), "later frames keep their own times"
    assert read_index(clip.frames([50])[0])[0] == 55
    assert any("55 of 60" in text for text in clip.warnings)
    assert any("5 damaged packets" in text for text in clip.warnings)


def test_patched_frames_do_not_depend_on_what_else_was_asked(tmp_path: Path):
    """The decoder patches with what it has seen, so it must see the same whatever is asked for."""
    path = encode(tmp_path / "clip.mp4", (draw_index(index) for index in range(60)), g="20")
    data, (position, size) = bytearray(path.read_bytes()), packets(path)[1]
    data[position + size - 10 : position + size - 4] = bytes(6)
    path.write_bytes(data)
    every = Reader(threads=1).open(path).frames(range(20))
    for threads in (0, 1):
        for asked in ([19], [7, 12], list(range(0, 20, 3)), [12, 2]):
            np.testing.assert_array_equal(Reader(threads=threads).open(path).frames(asked), every[asked])
    assert any("patched by the decoder" in text for text in open_clip_and_read(path, range(20)))


def open_clip_and_read(path: Path, indices: range) -> tuple[str, ...]:
    """The warnings after reading."""
    clip = open_clip(path)
    clip.frames(indices)
    return clip.warnings


def test_damage_that_the_decoder_patches_is_not_passed_over(clip_path: Path):
    data, rng = bytearray(clip_path.read_bytes()), np.random.default_rng(3)
    for position, size in packets(clip_path)[1:20]:
        data[position + size // 2 : position + size] = rng.bytes(size - size // 2)
    clip_path.write_bytes(data)
    clip = open_clip(clip_path)
    with suppress(VideoError):
        clip.frames(range(20))
    assert clip.warnings, "damage went unnoticed"


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("name", ["clip.mkv", "clip.ts", "clip.avi", "front.mp4"])
def test_a_file_cut_short_gives_its_frames_or_an_error(tmp_path: Path, name: str, share: float):
    options = {"movflags": "+faststart"} if name.endswith("mp4") else None
    pictures = (draw_index(index) for index in range(200))
    path = encode(tmp_path / name, pictures, g="20", container_options=options)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    try:
        clip = open_clip(path)
    except VideoError as error:
        assert error.reason
        return
    assert 0 < clip.n_frames <= 200
    numbers = (
        np.rint(clip.timestamps * 25).astype(int).tolist()
    )  # the cut may take a frame that is shown before the last
    assert [read_index(frame)[0] for frame in clip.frames(range(clip.n_frames))] == numbers
    if clip.n_frames < 200 and name != "clip.ts":  # a transport stream promises no length
        assert clip.warnings, "the missing part went unnoticed"


def test_a_file_replaced_by_a_shorter_one_is_an_error(clip_path: Path, tmp_path: Path):
    clip = open_clip(clip_path)
    clip.frames([0])
    clip.close()
    encode(tmp_path / "short.mp4", (draw_index(index) for index in range(5))).replace(clip_path)
    with pytest.raises(VideoError, match="frame 50"):
        clip.frames([50])


def test_damage_at_random_is_survived(tmp_path: Path):
    """Always frames or a typed error. What passes for undamaged is read alike in any order; times rise."""
    rng = np.random.default_rng(20)
    sources = sorted(path for path in CLIPS.glob("v*") if path.stat().st_size)
    outcomes = {"read": 0, "refused": 0}
    for trial in range(150):
        source = sources[rng.integers(len(sources))]
        data = bytearray(source.read_bytes())
        place = int(rng.integers(len(data)))
        match trial % 4:
            case 0:
                data = data[: place + 1]
            case 1:
                for position in rng.integers(0, len(data), 12):
                    data[position] = rng.integers(256)
            case 2:
                data[place:place] = data[place : place + 200]
            case 3:
                data[place : place + 60] = bytes(len(data[place : place + 60]))
        path = tmp_path / f"{trial}{source.suffix}"
        path.write_bytes(data)
        try:
            clip = open_clip(path)
            assert (np.diff(clip.timestamps) > 0).all()
            chosen = list(range(0, clip.n_frames, 7))
            frames = clip.frames(chosen)
            if not clip.warnings:
                np.testing.assert_array_equal(open_clip(path).frames(chosen[::-1])[::-1], frames)
            outcomes["read"] += 1
        except TrustvidError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 20, outcomes
