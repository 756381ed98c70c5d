"""BoxWorld on disk: official formats, atomic, the same bytes.   pytest tests/unit/test_boxworld_files.py -n 0 -q"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from trustvid.benchmarks.boxworld import CITY_TASKS, ROOM_TASKS, files
from trustvid.benchmarks.boxworld.benchmark import BoxWorld
from trustvid.benchmarks.boxworld.files import ensure_boxworld
from trustvid.benchmarks.boxworld.generate import make_clip
from trustvid.benchmarks.boxworld.render import Painter
from trustvid.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of two clips, generated in this process."""
    return ensure_boxworld(tmp_path_factory.mktemp("boxworld"), "dev", 2, 901, workers=0, progress=False)


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_folder_holds_the_official_files_and_no_truth(folder: Path) -> None:
    assert set(_bytes(folder)) == {
        "MCQ.parquet",
        "videos/BoxCity_0_3605.mp4",
        "test-00000-of-00001.parquet",
        "boxroom/room_1_3605.mp4",
        "generation.json",
    }
    assert folder.name == "dev-2-901-v1"
    record = json.loads((folder / "generation.json").read_text())
    assert record["split"] == "dev" and record["offset"] == 901 and record["videos"] == 2
    assert record["questions"] == dict.fromkeys(sorted((*CITY_TASKS, *ROOM_TASKS)), 1)


def test_columns_are_the_official_ones(folder: Path) -> None:
    city, room = pq.read_table(folder / "MCQ.parquet"), pq.read_table(folder / "test-00000-of-00001.parquet")
    assert city.column_names == ["Question_id", "video_id", "question_category", "question", "answer"]
    assert room.column_names == [
        *("id", "dataset", "scene_name", "question_type", "question", "ground_truth", "options"),
    ]
    first = city.to_pylist()[0]
    assert first["question"].startswith("Question: ") and "\nChoices:\nA. " in first["question"]
    assert first["video_id"] == "BoxCity_0_3605.mp4" and first["question_category"] == "Landmark Position"
    assert room.to_pylist()[0]["options"][0].startswith("A. ")


def test_loaders_give_back_what_was_asked(folder: Path) -> None:
    benchmark = BoxWorld(folder.parent, split="dev", n_videos=2, offset=901)
    samples, rejected = benchmark.samples()
    asked = [question for number in (0, 1) for question in make_clip("dev", 901, number).questions]
    assert not rejected and len({sample.id for sample in samples}) == len(samples) == 8
    for sample, question in zip(samples, asked, strict=True):
        assert sample.task == question.task and sample.question == question.text
        assert sample.options == question.options and sample.answer == question.letter
        assert sample.video.is_file()
    report = benchmark.report()
    assert report.complete and report.selected == 8 and report.found == dict.fromkeys((*CITY_TASKS, *ROOM_TASKS), 1)


def test_tasks_can_be_narrowed(folder: Path) -> None:
    benchmark = BoxWorld(folder.parent, split="dev", n_videos=2, offset=901, tasks=["AO", "PE"])
    assert [sample.task for sample in benchmark.samples()[0]] == ["PE", "AO"]
    only_room = BoxWorld(folder.parent, split="dev", n_videos=2, offset=901, tasks=["RP"])
    assert [sample.task for sample in only_room.samples()[0]] == ["RP"]
    assert only_room.expected_counts() == {"RP": 1}


def test_videos_show_the_scene(folder: Path) -> None:
    import av

    scene = make_clip("dev", 901, 0).scene
    with av.open(str(folder / "videos" / "BoxCity_0_3605.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, float(stream.average_rate)) == (320, 240, 10.0)
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == scene.n_frames
    painter = Painter(scene)
    for index in (0, scene.n_frames // 2, scene.n_frames - 1):
        difference = np.abs(frames[index].astype(int) - painter.frame(index).astype(int))
        assert difference.mean() < 4.0, f"frame {index} is another picture"


def test_processes_change_no_byte(folder: Path, tmp_path: Path) -> None:
    again = ensure_boxworld(tmp_path, "dev", 2, 901, workers=2, progress=False)
    assert _bytes(again) == _bytes(folder)


def test_a_finished_set_is_not_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_generate", lambda *_: pytest.fail("generated again"))
    assert ensure_boxworld(folder.parent, "dev", 2, 901) == folder


def test_a_second_caller_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    real = files._generate

    def slow(folder: Path, *arguments: object) -> None:
        made.append(folder)
        time.sleep(0.5)
        real(folder, *arguments)

    monkeypatch.setattr(files, "_generate", slow)
    found: list[Path] = []

    def call() -> None:
        found.append(ensure_boxworld(tmp_path, "dev", 1, 902, workers=0, progress=False))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and found == [tmp_path / "dev-1-902-v1"] * 3


def test_a_killed_generation_leaves_nothing_half_valid(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path\n"
        "from trustvid.benchmarks.boxworld.files import ensure_boxworld\n"
        f"ensure_boxworld(Path({str(tmp_path)!r}), 'dev', 40, 903, workers=0, progress=False)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".dev-40-903-v1.*.part/videos/*.mp4")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    left_over = list(tmp_path.glob(".*.part"))
    assert left_over and not list(tmp_path.glob("dev-*"))
    # The next generation of that set clears it away (here stopped before its first clip).
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_results", lambda *_: (_ for _ in ()).throw(DataError("stopped")))
        with pytest.raises(DataError, match="stopped"):
            ensure_boxworld(tmp_path, "dev", 40, 903, progress=False)
    assert not list(tmp_path.glob(".*.part")) and not list(tmp_path.glob("dev-*"))


def test_a_folder_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "val-2-0-v1").mkdir()
    with pytest.raises(DataError, match="remove the folder"):
        ensure_boxworld(tmp_path, "val", 2, progress=False)
    with pytest.raises(DataError, match="n_videos=0"):
        ensure_boxworld(tmp_path, "val", 0, progress=False)


def test_all_faults_of_the_arguments_come_together() -> None:
    with pytest.raises(ConfigError) as caught:
        BoxWorld("x", split="tset", n_videos=1, offset=-2, tasks=["LP", "XY"])
    assert len(caught.value.faults) == 4
    assert (
        "'tset'" in str(caught.value) and "'XY'" in str(caught.value) and "train, dev, val, test" in str(caught.value)
    )


def test_the_config_file_fits_the_class(tmp_path: Path) -> None:
    path = Path(__file__).resolve().parents[2] / "conf" / "benchmark" / "boxworld.yaml"
    config = OmegaConf.merge(OmegaConf.load(path), {"paths": {"cache": str(tmp_path)}})
    values = OmegaConf.to_container(config, resolve=True)
    assert isinstance(values, dict)
    assert values.pop("_target_") == "trustvid.benchmarks.boxworld.benchmark.BoxWorld"
    values.pop("paths")
    benchmark = BoxWorld(**values)
    assert benchmark.root == tmp_path / "boxworld"
    assert benchmark.expected_counts() == dict.fromkeys((*CITY_TASKS, *ROOM_TASKS), 10)


def test_the_benchmark_class_is_cheap_to_import() -> None:
    code = (
        "import sys, trustvid.benchmarks.boxworld.benchmark\n"
        "heavy = {'cv2', 'av', 'pyarrow', 'PIL', 'rich', 'scipy', 'torch'} & set(sys.modules)\n"
        "raise SystemExit(f'imports {heavy}' if heavy else 0)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
