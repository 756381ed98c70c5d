"""The clip and its readers: laziness, order, cache, proof of decord's answers."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import time
import types
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.data.videos.encode import encode
from tests.data.videos.read_index import draw_index, read_index
from trustvid.errors import ConfigError, VideoError
from trustvid.video import pyav_frames, reader
from trustvid.video.clip import FrameCache
from trustvid.video.reader import Reader, open_clip
from trustvid.video.source import FrameSource

ROOT = Path(__file__).resolve().parents[2]
CLIP = ROOT / "tests" / "data" / "videos" / "v01_cfr30_90f.mp4"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The presentation times of all frames that come out of a decoder while the test runs."""
    seen, original = [], pyav_frames.decode_track

    def counting(*args, **kwargs):
        for frame in original(*args, **kwargs):
            seen.append(frame.pts)
            yield frame

    monkeypatch.setattr(pyav_frames, "decode_track", counting)
    return seen


def test_a_clip_is_a_frame_source():
    clip = open_clip(CLIP)
    assert isinstance(clip, FrameSource)
    assert clip.video_id == "v01_cfr30_90f"
    assert clip.digest == hashlib.sha256(CLIP.read_bytes()).hexdigest()
    assert clip.frame_key(3) == "clean"
    assert clip.timestamps.dtype == np.float64
    assert clip.timestamps[0] == 0


def test_opening_decodes_and_hashes_nothing(decoded: list[int]):
    clip = open_clip(CLIP)
    assert (clip.n_frames, clip.frames_promised) == (90, 90)
    assert clip.duration == pytest.approx(3.0)
    assert decoded == []
    assert "digest" not in vars(clip)


def test_only_the_way_to_a_frame_is_decoded(decoded: list[int]):
    open_clip(CLIP).frames([0])
    assert len(decoded) == 1
    open_clip(CLIP).frames([60, 62])
    assert len(decoded) < 1 + 1 + 40, "one for the layout, then from the key frame before 60"


def test_rising_single_asks_decode_as_little_as_one_ask(decoded: list[int]):
    clip = open_clip(CLIP)
    for index in range(0, 90, 3):
        clip.frames([index])
    assert len(decoded) <= 90


def test_frames_asked_for_again_are_not_decoded_again(decoded: list[int]):
    clip = open_clip(CLIP)
    first = clip.frames([5, 70, 30])
    count = len(decoded)
    first[:] = 0  # the caller's own copy
    again = clip.frames([30, 5, 5, 70])
    assert len(decoded) == count
    assert [read_index(frame)[0] for frame in again] == [30, 5, 5, 70]


def test_a_clip_without_cache_decodes_again(decoded: list[int]):
    clip = Reader(cache_mb=0).open(CLIP)
    clip.frames([0])
    clip.frames([80])
    clip.frames([0])
    assert decoded.count(0) == 2


def test_the_cache_forgets_what_was_not_used_for_longest():
    cache = FrameCache(limit_bytes=30)
    frames = [np.full(10, value, np.uint8) for value in range(5)]
    for index in range(3):
        cache.put(index, frames[index])
    assert cache.get(0) is frames[0]
    cache.put(3, frames[3])
    assert cache.get(1) is None
    assert [cache.get(index) is frames[index] for index in (0, 2, 3)] == [True] * 3
    cache.put(4, np.zeros(31, np.uint8))
    assert cache.get(4) is None, "larger than all there is"
    assert cache.get(3) is frames[3]


@pytest.mark.parametrize("threads", [0, 1])
def test_frames_on_the_way_that_no_other_needs_change_nothing(tmp_path: Path, threads: int):
    rng = np.random.default_rng(0)
    pictures = [np.roll(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8) // 4 * 4, 3 * k, 1) for k in range(2)]
    mixed = [(pictures[0] * (k / 80) + pictures[1] * (1 - k / 80)).astype(np.uint8) for k in range(80)]
    path = encode(tmp_path / "clip.mp4", mixed, g="40", **{"x264-params": "bframes=3:b-pyramid=normal:ref=4"})
    every = Reader(threads=1).open(path).frames(range(80))
    for sparse in ([79], [38, 41, 77], list(range(0, 80, 7)), [5, 6, 60]):
        np.testing.assert_array_equal(Reader(threads=threads).open(path).frames(sparse), every[sparse])


def test_order_repeats_and_nothing():
    clip = open_clip(CLIP)
    assert [read_index(frame)[0] for frame in clip.frames([44, 3, 44, 89])] == [44, 3, 44, 89]
    assert clip.frames([]).shape == (0, 64, 96, 3)
    assert read_index(clip.frames(np.array([7]))[0])[0] == 7


@pytest.mark.parametrize("index", [-1, 90, 10**9])
def test_indices_outside_the_clip_are_refused(index: int):
    clip = open_clip(CLIP)
    with pytest.raises(IndexError, match=r"outside 0…89"):
        clip.frames([0, index])
    with pytest.raises(IndexError):
        clip.frame_key(index)


def test_an_index_is_a_whole_number():
    with pytest.raises(TypeError):
        open_clip(CLIP).frames([1.5])


def test_threads_that_share_a_clip_get_their_own_frames():
    clip, wrong = Reader(cache_mb=0).open(CLIP), []

    def ask(offset: int) -> None:
        for index in range(offset, 90, 8):
            if read_index(clip.frames([index])[0])[0] != index:
                wrong.append(index)

    threads = [threading.Thread(target=ask, args=(offset,)) for offset in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_closed_clip_opens_again():
    with open_clip(CLIP) as clip:
        clip.frames([4])
    assert read_index(clip.frames([50])[0])[0] == 50


def test_a_miss_of_seeking_is_read_forward_and_said(monkeypatch: pytest.MonkeyPatch):
    original = pyav_frames._Cursor.seek
    monkeypatch.setattr(pyav_frames._Cursor, "seek", lambda self, pts: original(self, pts + 40 * 512))
    clip = open_clip(CLIP)
    assert [read_index(frame)[0] for frame in clip.frames([0, 40, 41, 85])] == [0, 40, 41, 85]
    assert any("seeking misses" in text for text in clip.warnings)


def test_the_record_says_how_frames_were_decoded():
    record = json.loads(json.dumps(open_clip(CLIP).decode_record()))
    assert record["reader"] == "pyav"
    assert {"av", "libavcodec", "libswscale"} <= record["versions"].keys()
    assert (record["frames_found"], record["frames_promised"], record["counted_by"]) == (90, 90, "demuxing")
    assert (record["codec"], record["width"], record["height"], record["rotation"]) == ("h264", 96, 64, 0)


def test_unknown_choices_are_refused_together():
    with pytest.raises(ConfigError) as caught:
        Reader(kind="opencv", prefer="fast", count="guess", threads=-1, cache_mb=-1)
    assert len(caught.value.faults) == 5
    assert "auto, decord, pyav" in str(caught.value)


def test_a_missing_decord_is_said_with_the_alternative(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reader, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"decord is not installed.*reader=auto or reader=pyav"):
        open_clip(CLIP, "decord")
    assert Reader(prefer="decord").open(CLIP).reader == "pyav"


@pytest.mark.skipif(find_spec("decord") is None, reason="decord is not installed")
def test_decord_serves_where_it_is_proven_right():
    for settings in ({"kind": "decord"}, {"prefer": "decord"}):
        clip = Reader(**settings).open(CLIP)
        np.testing.assert_array_equal(clip.frames(range(0, 90, 2)), open_clip(CLIP).frames(range(0, 90, 2)))
        assert clip.reader == "decord"
        assert clip.decode_record()["versions"]["decord"]
        assert clip.warnings == ()


class FakeDecord(types.ModuleType):
    """Stands in for decord: misbehaves as told."""

    DECORDError = type("DECORDError", (Exception,), {})
    logging = types.SimpleNamespace(set_level=lambda level: None, QUIET=0)

    def __init__(self, count: int = 90, shift: int = 0, fails: str = "", hangs_s: float = 0.0):
        super().__init__("decord")
        self.count, self.shift, self.fails, self.hangs_s = count, shift, fails, hangs_s
        fake = self

        class VideoReader:
            def __init__(self, path: str, num_threads: int):
                self.clip = open_clip(path)

            def __len__(self) -> int:
                return fake.count

            def get_batch(self, indices: list[int]) -> types.SimpleNamespace:
                if indices != [0]:
                    time.sleep(fake.hangs_s)
                    if fake.fails:
                        raise fake.DECORDError(fake.fails)
                frames = self.clip.frames(indices) + np.uint8(fake.shift)
                return types.SimpleNamespace(asnumpy=lambda: frames)

        self.VideoReader = VideoReader


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"count": 89}, "it counts 89 frames, there are 90"),
        ({"shift": 3}, "its first picture is off by up to"),
        ({"fails": "[10:00] /a/b.cc:7: Check failed: x >= 0 (-1 vs. 0) cannot decode"}, "it fails with: cannot decode"),
        ({"hangs_s": 5.0}, "it gave no answer within 0 s"),
    ],
    ids=["count", "picture", "failure", "hang"],
)
def test_what_decord_cannot_prove_is_replaced_or_refused(monkeypatch: pytest.MonkeyPatch, fault: dict, reason: str):
    monkeypatch.setitem(sys.modules, "decord", FakeDecord(**fault))
    monkeypatch.setattr(reader, "find_spec", lambda name: object())
    clip = Reader(prefer="decord").open(CLIP)
    if "hangs_s" in fault:
        clip.frames([0])
        clip._reader._limit_s = 0.2
    assert [read_index(frame)[0] for frame in clip.frames([3, 60])] == [3, 60]
    assert clip.reader == "pyav"
    assert any(reason in text and CLIP.name in text for text in clip.warnings)
    alone = Reader(kind="decord").open(CLIP)
    if "hangs_s" in fault:
        alone.frames([0])
        alone._reader._limit_s = 0.2
    with pytest.raises(VideoError, match="decord cannot be trusted with this file"):
        alone.frames([3, 60])


def test_decord_is_imported_in_one_file_only():
    files = [path for path in (ROOT / "src").rglob("*.py") if "import decord" in path.read_text()]
    assert [path.name for path in files] == ["reader.py"]


def test_the_reader_is_light_to_import():
    code = (
        "import sys, trustvid.video.reader, trustvid.video.probe\n"
        "print([name for name in ('av', 'cv2', 'decord', 'PIL', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["auto", "decord", "pyav"])
def test_config_files_build_the_reader_they_name(name: str):
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    node = OmegaConf.load(ROOT / "conf" / "reader" / f"{name}.yaml")
    if name == "decord" and find_spec("decord") is None:
        pytest.skip("decord is not installed")
    built = instantiate(node, _convert_="all")
    assert isinstance(built, Reader)
    assert built.kind == name
    assert built.threads == 1, "an evaluation has a worker for every core"
    defaults = vars(Reader())
    stated = {key: value for key, value in node.items() if key not in ("_target_", "kind", "threads")}
    assert {key: defaults[key] for key in stated} == stated, "files and defaults tell the same"


def test_long_clips_stay_within_bounds_of_memory(tmp_path: Path):
    path = encode(tmp_path / "long.mp4", (draw_index(index % 256, 240, 320) for index in range(120)), g="60")
    clip = Reader(cache_mb=2).open(path)
    for start in range(0, 120, 40):
        clip.frames(range(start, start + 40))
    assert clip._cache._held <= 2e6
