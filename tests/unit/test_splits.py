"""Scene-disjoint splits.   pytest tests/unit/test_splits.py -n 0 -q"""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trustvid.benchmarks.splits import load_or_write_split, split_scenes
from trustvid.benchmarks.urbanvideo import UrbanVideo, scene_of
from trustvid.errors import DataError

SCENES = [f"EmbodiedCity_{i}" for i in range(100)]


def test_shares_are_75_5_20():
    assert Counter(split_scenes(SCENES, seed=0).values()) == {"train": 75, "dev": 5, "test": 20}


@settings(max_examples=50, deadline=None)
@given(st.sets(st.text(min_size=1, max_size=8), min_size=3, max_size=40), st.integers(0, 5), st.randoms())
def test_order_and_repeats_do_not_matter(scenes, seed, rng):
    shuffled = list(scenes) * 2
    rng.shuffle(shuffled)
    split = split_scenes(shuffled, seed)
    assert split == split_scenes(sorted(scenes), seed)
    assert set(split) == scenes
    assert set(split.values()) == {"train", "dev", "test"}


def test_the_draw_is_frozen():
    """A change here would move scenes between train and test of everyone's earlier runs."""
    split = split_scenes([f"s{i}" for i in range(10)], seed=0)
    assert {scene: name for scene, name in split.items() if name != "train"} == {
        "s7": "dev",
        "s4": "test",
        "s9": "test",
    }
    assert split_scenes(SCENES, 0) != split_scenes(SCENES, 1)


def test_too_few_scenes():
    with pytest.raises(DataError, match="2 scenes cannot be split"):
        split_scenes(["a", "b", "a"], 0)


def test_the_file_is_written_once_and_hashed(tmp_path):
    path = tmp_path / "deep" / "split.json"
    first = load_or_write_split(path, SCENES, benchmark="urbanvideo", seed=3)
    raw = path.read_bytes()
    assert first.sha256 == hashlib.sha256(raw).hexdigest()
    assert first.scenes == split_scenes(SCENES, 3)
    assert [entry.name for entry in path.parent.iterdir()] == ["split.json"]
    stamp = path.stat().st_mtime_ns
    again = load_or_write_split(path, reversed(SCENES[20:80]), benchmark="urbanvideo", seed=3)
    assert again == first  # fewer scenes than the file knows: the file stays
    assert path.stat().st_mtime_ns == stamp and path.read_bytes() == raw


def test_unknown_scenes_are_refused(tmp_path):
    path = tmp_path / "split.json"
    load_or_write_split(path, SCENES[:50], benchmark="urbanvideo")
    with pytest.raises(DataError, match=r"does not know 50 of 100 scenes \(EmbodiedCity_50"):
        load_or_write_split(path, SCENES, benchmark="urbanvideo")


@pytest.mark.parametrize(("benchmark", "seed"), [("vsi_bench", 0), ("urbanvideo", 1)])
def test_a_file_of_another_benchmark_or_seed_is_refused(tmp_path, benchmark, seed):
    path = tmp_path / "split.json"
    load_or_write_split(path, SCENES, benchmark="urbanvideo", seed=0)
    with pytest.raises(DataError, match="was written for"):
        load_or_write_split(path, SCENES, benchmark=benchmark, seed=seed)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"scenes": []}', '{"scenes": {"a": "validation"}}', '{"scenes": {"a": ["test"]}}']
)
def test_malformed_files(tmp_path, content):
    path = tmp_path / "split.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"split\.json.*expected"):
        load_or_write_split(path, SCENES, benchmark="urbanvideo")
    assert path.read_text() == content


def test_unwritable_place(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written there"):
        load_or_write_split(tmp_path / "file" / "split.json", SCENES, benchmark="urbanvideo")


@pytest.mark.parametrize(
    ("video", "scene"),
    [
        ("EmbodiedCity_20.mp4", "EmbodiedCity_20"),
        ("EmbodiedCity_18_0.mp4", "EmbodiedCity_18"),
        ("RealWorld_13.mp4", "RealWorld_13"),
        ("RealWorld_13_2.mp4", "RealWorld_13"),
        ("AerialVLN_19_33ISQZVXPYKOML9G1861LUSPYXOCCJ_7.mp4", "AerialVLN_19_33ISQZVXPYKOML9G1861LUSPYXOCCJ"),
        ("AerialVLN_123_3X4MXAO0BPM16L440WWXMJYDJQUWRI.mp4", "AerialVLN_123_3X4MXAO0BPM16L440WWXMJYDJQUWRI"),
        ("EmbodiedCity_2.mp4", "EmbodiedCity_2"),
        ("holiday.mp4", None),
        ("AerialVLN_19.mp4", None),
        ("", None),
    ],
)
def test_scene_of_official_names(video, scene):
    assert scene_of(video) == scene


# -- through a loader ----------------------------------------------------------------------------------------


def urban(folder, n_scenes=40, per_scene=3, prefix="EmbodiedCity"):
    (folder / "videos").mkdir(parents=True, exist_ok=True)
    rows = []
    for scene in range(n_scenes):
        for clip in range(per_scene):
            name = f"{prefix}_{scene}_{clip}.mp4"
            (folder / "videos" / name).touch()
            category = "Landmark Position" if clip else "Duration"
            text = "Where?\nchoose:\nA. left\nB. right"
            rows.append(
                {
                    "Question_id": len(rows),
                    "video_id": name,
                    "question_category": category,
                    "question": text,
                    "answer": "A",
                }
            )
    pq.write_table(pa.Table.from_pylist(rows), folder / "MCQ.parquet")
    return folder


def test_splits_of_a_loader_are_disjoint_and_complete(tmp_path):
    folder = urban(tmp_path)
    parts = {name: UrbanVideo(folder, split=name) for name in ("train", "dev", "test")}
    scenes = {name: {scene_of(s.video.name) for s in bench.samples()[0]} for name, bench in parts.items()}
    assert [len(scenes[name]) for name in ("train", "dev", "test")] == [30, 2, 8]
    assert len(set.union(*scenes.values())) == 40
    everything = {sample.id for sample in UrbanVideo(folder).samples()[0]}
    assert everything == {sample.id for bench in parts.values() for sample in bench.samples()[0]}
    report = parts["test"].report()
    assert (report.split, report.selected, report.found) == ("test", 16, {"LP": 80})
    assert report.split_sha256 == hashlib.sha256((folder / "split_seed0.json").read_bytes()).hexdigest()
    assert "split test: 16 of 80 questions" in str(report)


def test_the_split_does_not_depend_on_tasks_or_downloads(tmp_path):
    full, partial = urban(tmp_path / "full"), urban(tmp_path / "partial")
    for video in sorted((partial / "videos").iterdir())[:60]:
        video.unlink()
    UrbanVideo(full, split="test").samples()
    UrbanVideo(partial, split="test", tasks=["Duration"]).samples()
    assert (full / "split_seed0.json").read_bytes() == (partial / "split_seed0.json").read_bytes()


def test_bad_rows_of_other_splits_are_not_this_runs_business(tmp_path):
    folder = urban(tmp_path)
    split = json.loads((UrbanVideo(folder, split="test").report() and (folder / "split_seed0.json")).read_text())[
        "scenes"
    ]
    train = next(scene for scene in sorted(split) if split[scene] == "train")
    for video in (folder / "videos").glob(f"{train}_*.mp4"):
        video.unlink()
    _, rejected = UrbanVideo(folder, split="test", on_bad="error").samples()
    assert rejected == []
    with pytest.raises(DataError, match="2 bad rows"):
        UrbanVideo(folder, split="train", on_bad="error").samples()


def test_unknown_names_cannot_be_split(tmp_path):
    folder = urban(tmp_path, prefix="holiday")
    assert len(UrbanVideo(folder).samples()[0]) == 80
    with pytest.raises(DataError, match="cannot tell the scene of 120 videos"):
        UrbanVideo(folder, split="train").samples()
