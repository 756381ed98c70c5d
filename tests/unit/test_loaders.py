"""Loaders of the real benchmarks, on files in their official layout.   pytest tests/unit/test_loaders.py -n 0 -q"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hydra.utils import get_class, instantiate
from omegaconf import OmegaConf

from trustvid.benchmarks.base import find_video
from trustvid.benchmarks.mcq_jsonl import MCQJsonl
from trustvid.benchmarks.options import normalise_letter, strip_letters
from trustvid.benchmarks.sample import Rejected
from trustvid.benchmarks.urbanvideo import CATEGORY_COUNTS, UrbanVideo, split_question
from trustvid.benchmarks.vsi_bench import TASK_COUNTS, VSIBench
from trustvid.errors import ConfigError, DataError

ROOT = Path(__file__).parents[2]
TEXT = ROOT / "tests" / "data" / "text"

# The 19 rows of the first release that carry no options.
OPTIONLESS = [846, 1021, 1216, 1280, 1404, 1419, 1495, 1599, 1922, 2749, 3378, 4449, 4522, 4609, 4679, 4835, 5072]
OPTIONLESS += [5079, 5218]


def urban_row(number: int, **changes: object) -> dict:
    row = {
        "Question_id": number,
        "video_id": f"EmbodiedCity_{number % 7}_0.mp4",
        "question_category": "Landmark Position",
        "question": "Question: Where are you relative to the pond?  \nchoose:  \nA. I am left of it.  \nB. I am above it.  \n",
        "answer": "B",
    }
    return row | changes


def write_urban(folder: Path, rows: list[dict], missing: tuple[str, ...] = ()) -> Path:
    (folder / "videos").mkdir(parents=True, exist_ok=True)
    schema = pa.schema(
        [
            ("Question_id", pa.int64()),
            ("video_id", pa.string()),
            ("question_category", pa.string()),
            ("question", pa.string()),
            ("answer", pa.string()),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "MCQ.parquet")
    for name in {row["video_id"] for row in rows} - {None, *missing}:
        (folder / "videos" / name).touch()
    return folder


VSI_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("dataset", pa.string()),
        ("scene_name", pa.string()),
        ("question_type", pa.string()),
        ("question", pa.string()),
        ("ground_truth", pa.string()),
        ("options", pa.list_(pa.string())),
    ]
)


def vsi_row(number: int, **changes: object) -> dict:
    row = {
        "id": number,
        "dataset": "scannet",
        "scene_name": f"scene{number % 5:04d}_00",
        "question_type": "object_rel_distance",
        "question": "Which of these objects is the closest to the door?",
        "ground_truth": "C",
        "options": ["A. computer tower", "B. chair", "C. whiteboard", "D. telephone"],
    }
    return row | changes


def write_vsi(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=VSI_SCHEMA), folder / "test-00000-of-00001.parquet")
    for row in rows:
        (folder / row["dataset"]).mkdir(exist_ok=True)
        (folder / row["dataset"] / f"{row['scene_name']}.mp4").touch()
    return folder


# -- one-string questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", ["Choices:", "Choice:", "choose:", "Choose:", "Options:", "Option:", "OPTIONS:", "Choices：", ""]
)
@pytest.mark.parametrize("mark", ["{}.", "{}:", "{})", "({})"])
@pytest.mark.parametrize("n", [2, 3, 5, 7, 8, 10])
def test_every_header_and_mark_is_read(header, mark, n):
    options = [f"I turn {'left' if i % 2 else 'right'} after {i} s." for i in range(n)]
    lines = "".join(f"{mark.format(chr(65 + i))} {text}  \n" for i, text in enumerate(options))
    question, found = split_question(f"Question: What is your next move?  \n{header}  \n{lines}")
    assert question == "What is your next move?"
    assert list(found) == options


@pytest.mark.parametrize(
    ("text", "question", "options"),
    [
        # The first option shares the header's line, the others are indented.
        (
            "Question: Why?  \nChoice: A. To avoid trees.  \n           B. To see.  \n           C. To land.  \n",
            "Why?",
            ("To avoid trees.", "To see.", "To land."),
        ),
        ("Where? Options: A. left B. right C. up", "Where?", ("left", "right", "up")),
        ("Where? A. left B. right", "Where?", ("left", "right")),
        ("How long? \nA. 5 s\nB. 10 s", "How long?", ("5 s", "10 s")),
        ("Q\r\nChoices:\r\nA. one\r\nB. two\r\n", "Q", ("one", "two")),
        ("Pick one.\nchoose:\nA.left\nB.right", "Pick one.", ("left", "right")),
        # An option that runs over two lines, and one that ends without a line break.
        ("Q\nchoose:\nA. a long\n  way round\nB. a short one", "Q", ("a long way round", "a short one")),
        # "choose" and "option" as words of the question are no header; nor is a header without options behind it.
        ("If you choose to fly, which option: can you land?\nChoice: A. yes\nB. no", None, ("yes", "no")),
        ("[turn left. now get up.]. Next?\nchoose:\nA. I rise.\nB. I descend.", None, ("I rise.", "I descend.")),
    ],
)
def test_shapes_of_the_official_file(text, question, options):
    found_question, found = split_question(text)
    assert found == options
    assert question is None or found_question == question
    assert "A." not in found_question


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Where is the tower?", "no options"),
        ("Question: Where is building A. Smith?  \nchoose:  \n", "no options"),
        ("", "no options"),
        ("Q\nchoose:\nA. one", "only one option"),
        ("Q\nchoose:\nA. one\nC. two", "A, C"),
        ("Q\nchoose:\nA. one\nB. two\nB. three", "A, B, B"),
        ("Q\nchoose:\nA. one\nB.  \nC. three", "option B is empty"),
        ("Q\n" + "".join(f"{chr(65 + i)}. x{i}\n" for i in range(11)), "11 options"),
    ],
)
def test_unusable_options_are_named(text, reason):
    with pytest.raises(ValueError, match=reason):
        split_question(text)


# -- UrbanVideo-Bench ----------------------------------------------------------------------------------------


def test_urbanvideo_sample(tmp_path):
    text = "Question: Next?  \nchoose:  \n" + "".join(f"{letter}. step {letter}  \n" for letter in "ABCDEFG")
    row = urban_row(1042, question_category="Action Generation", question=text, answer="G", video_id="RealWorld_13.mp4")
    samples, rejected = UrbanVideo(write_urban(tmp_path, [row])).samples()
    (sample,) = samples
    assert rejected == []
    assert (sample.id, sample.task, sample.question, sample.answer, sample.kind) == ("1042", "AG", "Next?", "G", "mcq")
    assert sample.options == tuple(f"step {letter}" for letter in "ABCDEFG")
    assert sample.cluster == "RealWorld_13"
    assert sample.video == (tmp_path / "videos" / "RealWorld_13.mp4").resolve()


def test_odd_rows_are_listed_and_the_others_run(tmp_path):
    rows = [json.loads(line) for line in (TEXT / "urban_odd_rows.jsonl").read_text().splitlines()]
    folder = write_urban(tmp_path, rows, missing=("missing.mp4",))
    bench = UrbanVideo(folder, tasks="all")
    samples, rejected = bench.samples()
    assert [(sample.id, sample.task, sample.answer) for sample in samples] == [("1", "Duration", "B"), ("3", "AG", "H")]
    assert samples[1].letters == tuple("ABCDEFGH")
    reasons = {(row.id, row.reason) for row in rejected}
    assert ("2", "no options") in reasons
    assert ("5", "answer E is not among the options A–B") in reasons
    assert ("5", "duplicate id 5 (row 5; first seen in row 4)") in reasons
    assert any(row == "6" and "missing video" in reason and "missing.mp4" in reason for row, reason in reasons)
    with pytest.raises(DataError) as error:
        UrbanVideo(folder, tasks="all", on_bad="error").samples()
    assert all(f"- {row.id}: {row.reason}" in str(error.value) for row in rejected)


def test_the_nineteen_rows_without_options_are_rejected(tmp_path):
    rows = [urban_row(number, question="Question: Where are you now?  \n") for number in OPTIONLESS]
    rows.insert(3, urban_row(7))
    samples, rejected = UrbanVideo(write_urban(tmp_path, rows)).samples()
    assert [sample.id for sample in samples] == ["7"]
    assert rejected == [Rejected(str(number), "no options") for number in OPTIONLESS]


def test_all_faults_of_a_row_are_named(tmp_path):
    rows = [
        urban_row(1),
        urban_row(2, question=None, answer="3", video_id="gone.mp4"),
        urban_row(3, Question_id=None, question_category=None),
        urban_row(4, question="Question:  \nchoose:\nA. x\nB. y", answer=" b "),
    ]
    samples, rejected = UrbanVideo(write_urban(tmp_path, rows, missing=("gone.mp4",))).samples()
    assert [sample.id for sample in samples] == ["1"]
    by_id = {row.id: row.reason for row in rejected}
    assert all(part in by_id["2"] for part in ("no options", "empty question", "'3' is not a letter", "missing video"))
    assert by_id["row 3"] == "no id; no task"
    assert by_id["4"] == "empty question"


@pytest.mark.parametrize(("cell", "letter"), [(" b ", "B"), ("B.", "B"), ("(C)", "C"), ("Ｄ", "D"), ("d)", "D")])
def test_answers_are_normalised(cell, letter):
    assert normalise_letter(cell) == letter


@pytest.mark.parametrize("cell", ["", "3", "AB", "A or B", "left", "α", "ß"])
def test_other_answers_are_no_letters(cell):
    assert normalise_letter(cell) is None


def test_tasks(tmp_path):
    rows = [urban_row(i, question_category=category) for i, category in enumerate(CATEGORY_COUNTS)]
    rows.append(urban_row(99, question_category="Association"))
    folder = write_urban(tmp_path, rows)
    assert {sample.task for sample in UrbanVideo(folder).samples()[0]} == {"LP", "CF", "PE", "AG"}
    tasks = [sample.task for sample in UrbanVideo(folder, tasks="all").samples()[0]]
    assert len(tasks) == 17
    assert tasks.count("Association Reasoning") == 2  # the paper's name and the file's
    chosen = UrbanVideo(folder, tasks=["CF", "Landmark Position", "Duration"])
    assert [sample.task for sample in chosen.samples()[0]] == ["LP", "CF", "Duration"]
    assert chosen.expected_counts() == {"LP": 859, "CF": 132, "Duration": 132}
    with pytest.raises(ConfigError, match=r"'LPX' unknown; known: all, LP.*Duration"):
        UrbanVideo(folder, tasks=["LPX"])


def test_published_counts():
    assert UrbanVideo("x").expected_counts() == {"LP": 859, "CF": 132, "PE": 763, "AG": 1171}
    assert sum(CATEGORY_COUNTS.values()) == 5250
    assert VSIBench("x").expected_counts() == {"RDist": 710, "RDir": 968, "RP": 194, "AO": 618}
    assert sum(TASK_COUNTS.values()) == 5130
    assert sum(VSIBench("x", numeric=True).expected_counts().values()) == 5130
    assert VSIBench("x", file="test_debiased.parquet").expected_counts() == {}


def test_one_row_less_than_expected(tmp_path):
    rows = [urban_row(i) for i in range(10)]
    whole = UrbanVideo(write_urban(tmp_path / "ten", rows), expected={"LP": 10}, strict_counts=True)
    assert whole.report().complete
    nine = write_urban(tmp_path / "nine", rows[:4] + rows[5:])
    report = UrbanVideo(nine, expected={"LP": 10}).report()
    assert not report.complete
    assert "LP: found 9 of 10" in str(report)
    with pytest.raises(DataError, match="LP: found 9 of 10"):
        UrbanVideo(nine, expected={"LP": 10}, strict_counts=True).samples()
    with pytest.raises(DataError, match="LP: found 10 of 859"):
        UrbanVideo(tmp_path / "ten", strict_counts=True).samples()


def test_a_rejected_row_is_missing_from_the_count(tmp_path):
    rows = [urban_row(i) for i in range(9)] + [urban_row(9, answer="Z")]
    report = UrbanVideo(write_urban(tmp_path, rows), expected={"LP": 10}).report()
    assert (report.found, report.complete, [row.id for row in report.rejected]) == ({"LP": 9}, False, ["9"])
    assert "rejected 9: answer Z is not among the options A–B" in str(report)


# -- paths ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../secret.mp4", "a/../../secret.mp4", "/etc/hostname", "..", "a\\..\\b.mp4"])
def test_paths_may_not_leave_the_root(tmp_path, name):
    (tmp_path / "secret.mp4").touch()
    (tmp_path / "root" / "a").mkdir(parents=True)
    assert "leaves the folder" in find_video(tmp_path / "root", name)


@pytest.mark.parametrize("name", ["", "  ", "a\0b.mp4"])
def test_no_video_named(tmp_path, name):
    assert find_video(tmp_path, name) == "no video named"


def test_links(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "a.mp4").touch()
    (tmp_path / "outside.mp4").touch()
    (tmp_path / "videos").symlink_to(tmp_path / "disk")  # the user's own layout
    assert find_video(tmp_path / "videos", "a.mp4") == (tmp_path / "disk" / "a.mp4").resolve()
    (tmp_path / "disk" / "out.mp4").symlink_to(tmp_path / "outside.mp4")
    assert "is a link out of the folder" in find_video(tmp_path / "videos", "out.mp4")
    (tmp_path / "disk" / "in.mp4").symlink_to("a.mp4")
    assert find_video(tmp_path / "videos", "in.mp4") == (tmp_path / "disk" / "a.mp4").resolve()
    assert "missing video" in find_video(tmp_path / "videos", "disk")


def test_escaping_rows_are_rejected(tmp_path):
    (tmp_path / "x.mp4").touch()
    folder = write_urban(tmp_path / "set", [urban_row(1)])
    rows = [urban_row(1), urban_row(2, video_id="../../x.mp4"), urban_row(3, video_id=str(tmp_path / "x.mp4"))]
    pq.write_table(pa.Table.from_pylist(rows), folder / "MCQ.parquet")
    samples, rejected = UrbanVideo(folder).samples()
    assert [sample.id for sample in samples] == ["1"]
    assert all("leaves the folder" in row.reason for row in rejected) and len(rejected) == 2


# -- broken files --------------------------------------------------------------------------------------------


def test_missing_file_says_where_to_get_it(tmp_path):
    (tmp_path / "README.md").touch()
    for bench in (UrbanVideo(tmp_path), VSIBench(tmp_path)):
        with pytest.raises(DataError) as error:
            bench.samples()
        message = str(error.value)
        assert bench.file.name in message and "README.md" in message and "Hugging Face hub" in message
    assert "EmbodiedCity/UrbanVideo-Bench" in UrbanVideo.source and "nyu-visionx/VSI-Bench" in VSIBench.source


def test_missing_columns_are_named(tmp_path):
    pq.write_table(pa.table({"video_id": ["a.mp4"], "question": ["Q"], "extra": [1]}), tmp_path / "MCQ.parquet")
    with pytest.raises(DataError) as error:
        UrbanVideo(tmp_path).samples()
    message = str(error.value)
    assert "Question_id, question_category, answer" in message and "video_id, question, extra" in message
    assert "MCQ.parquet" in message and "EmbodiedCity/UrbanVideo-Bench" in message


@pytest.mark.parametrize("damage", ["text", "cut", "flipped", "empty", "pointer"])
def test_a_damaged_file_is_one_clear_error(tmp_path, damage):
    folder = write_urban(tmp_path, [urban_row(i) for i in range(50)])
    file = folder / "MCQ.parquet"
    raw = file.read_bytes()
    file.write_bytes(
        {
            "text": b"not a parquet file at all",
            "cut": raw[: len(raw) // 2],
            "flipped": raw[:40] + bytes(byte ^ 0xFF for byte in raw[40:400]) + raw[400:],
            "empty": b"",
            "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        }[damage]
    )
    with pytest.raises(DataError, match=r"MCQ.parquet.*EmbodiedCity/UrbanVideo-Bench") as error:
        UrbanVideo(folder).samples()
    assert ("git lfs pull" in str(error.value)) == (damage == "pointer")


def test_a_set_without_videos_is_one_fault(tmp_path):
    folder = write_urban(tmp_path, [urban_row(1)])
    for video in (folder / "videos").iterdir():
        video.unlink()
    with pytest.raises(DataError, match=r"no question to run; 1 rows were rejected:\n  - 1: missing video"):
        UrbanVideo(folder).samples()
    (folder / "videos").rmdir()
    with pytest.raises(DataError, match="videos: no such folder"):
        UrbanVideo(folder).samples()


def test_bad_arguments_are_reported_together():
    with pytest.raises(ConfigError) as error:
        UrbanVideo("x", on_bad="ignore", split="val")
    assert len(error.value.faults) == 2
    assert "skip, error" in str(error.value) and "train, dev, test" in str(error.value)
    for make in (lambda: UrbanVideo(None), lambda: VSIBench(None), lambda: MCQJsonl(None)):
        with pytest.raises(ConfigError, match="needs"):
            make()


# -- VSI-Bench -----------------------------------------------------------------------------------------------


def vsi_rows() -> list[dict]:
    direction = {"options": ["A. left", "B. right", "C. back"], "ground_truth": "C"}
    numeric = {"options": None, "ground_truth": "4"}
    return [
        vsi_row(0),
        vsi_row(1, question_type="object_rel_direction_easy", options=["A. left", "B. right"], ground_truth="A"),
        vsi_row(2, question_type="object_rel_direction_medium", **direction),
        vsi_row(3, question_type="object_rel_direction_hard"),
        vsi_row(4, question_type="route_planning", dataset="arkitscenes", scene_name="41069025"),
        vsi_row(5, question_type="obj_appearance_order", dataset="scannetpp", scene_name="1ada7a0617"),
        vsi_row(6, question_type="object_counting", **numeric),
        vsi_row(7, question_type="object_abs_distance", options=None, ground_truth="2.5"),
        vsi_row(8, question_type="object_size_estimation", **numeric),
        vsi_row(9, question_type="room_size_estimation", options=None, ground_truth="30.9"),
    ]


def test_vsi_multiple_choice(tmp_path):
    samples, rejected = VSIBench(write_vsi(tmp_path, vsi_rows())).samples()
    assert rejected == []
    assert [sample.task for sample in samples] == ["RDist", "RDir", "RDir", "RDir", "RP", "AO"]
    assert samples[0].options == ("computer tower", "chair", "whiteboard", "telephone")
    assert samples[4].video == (tmp_path / "arkitscenes" / "41069025.mp4").resolve()
    assert samples[4].cluster == "arkitscenes/41069025"
    assert {sample.kind for sample in samples} == {"mcq"}


def test_vsi_numeric(tmp_path):
    folder = write_vsi(tmp_path, vsi_rows())
    assert len(VSIBench(folder, numeric=True).samples()[0]) == 10
    assert len(VSIBench(folder, tasks="all").samples()[0]) == 10
    samples, _ = VSIBench(folder, tasks=["ADist", "object_counting"]).samples()
    assert [(s.task, s.kind, s.options, s.answer) for s in samples] == [
        ("Count", "numeric", (), "4"),
        ("ADist", "numeric", (), "2.5"),
    ]


def test_vsi_jsonl_reads_the_same(tmp_path):
    folder = write_vsi(tmp_path, vsi_rows())
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in vsi_rows()), encoding="utf-8")
    parquet, jsonl = VSIBench(folder, tasks="all"), VSIBench(folder, tasks="all", file="test.jsonl")
    assert parquet.samples() == jsonl.samples()
    assert jsonl.report().expected == TASK_COUNTS


def test_vsi_pruned_variant_with_its_extra_column(tmp_path):
    folder = write_vsi(tmp_path, vsi_rows())
    table = pa.Table.from_pylist(vsi_rows(), schema=VSI_SCHEMA).append_column("pruned", pa.array([False] * 10))
    pq.write_table(table, folder / "test_pruned.parquet")
    report = VSIBench(folder, file="test_pruned.parquet", strict_counts=True).report()
    assert report.expected == {} and report.found == {"RDist": 1, "RDir": 3, "RP": 1, "AO": 1}


def test_vsi_bad_rows(tmp_path):
    rows = [
        vsi_row(0),
        vsi_row(1, options=None),
        vsi_row(2, options=["A. x", "C. y"], ground_truth="A"),
        vsi_row(3, ground_truth="E"),
        vsi_row(4, question_type="object_counting", ground_truth="many"),
        vsi_row(5, question_type="object_counting", ground_truth="nan"),
        vsi_row(6, scene_name="../scannet/scene0000_00"),
    ]
    folder = write_vsi(tmp_path, rows)
    pq.write_table(
        pa.Table.from_pylist([*rows, vsi_row(7, dataset="../elsewhere")], schema=VSI_SCHEMA),
        folder / "test-00000-of-00001.parquet",
    )
    samples, rejected = VSIBench(folder, numeric=True).samples()
    assert [sample.id for sample in samples] == ["0"]
    reasons = {row.id: row.reason for row in rejected}
    assert reasons["1"] == "no options"
    assert "A, C; expected A, B" in reasons["2"]
    assert reasons["3"] == "answer E is not among the options A–D"
    assert reasons["4"] == "answer 'many' is not a number" and reasons["5"] == "answer 'nan' is not a number"
    assert "leaves the folder" in reasons["6"]
    assert "not the plain name of a folder" in reasons["7"]


@pytest.mark.parametrize("line", ["{", "[1]", '"text"'])
def test_vsi_jsonl_with_a_broken_line(tmp_path, line):
    folder = write_vsi(tmp_path, [vsi_row(0)])
    (folder / "test.jsonl").write_text(json.dumps(vsi_row(0)) + f"\n{line}\n")
    with pytest.raises(DataError, match="line 2: not "):
        VSIBench(folder, file="test.jsonl").samples()
    (folder / "test.jsonl").write_text('{"id": 1, "question": "Q"}\n')
    with pytest.raises(DataError, match="lacks the keys dataset, scene_name"):
        VSIBench(folder, file="test.jsonl").samples()


# -- your own questions --------------------------------------------------------------------------------------


def write_lines(folder: Path, lines: list) -> Path:
    (folder / "clips").mkdir(parents=True, exist_ok=True)
    (folder / "clips" / "a.mp4").touch()
    file = folder / "questions.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8")
    return file


def test_mcq_jsonl(tmp_path):
    plain = {"video": "clips/a.mp4", "question": "Where?", "options": ["left", "right"], "answer": "b"}
    lines = [
        plain,
        plain | {"id": "q2", "task": "turns", "cluster": "street", "options": {"B": "right", "A": "left"}},
        "",
        plain | {"id": 3, "options": ["A. left", "B) right"], "answer": "(A)"},
        plain | {"id": 4, "options": [1, 2.5]},
    ]
    file = write_lines(tmp_path, lines)
    samples, rejected = MCQJsonl(file, name="mine").samples()
    assert rejected == []
    assert [(s.id, s.task, s.cluster, s.options, s.answer) for s in samples] == [
        ("line 1", "mcq", "clips/a", ("left", "right"), "B"),
        ("q2", "turns", "street", ("left", "right"), "B"),
        ("3", "mcq", "clips/a", ("left", "right"), "A"),
        ("4", "mcq", "clips/a", ("1", "2.5"), "B"),
    ]
    assert [sample.id for sample in MCQJsonl(file, tasks=["turns"]).samples()[0]] == ["q2"]
    assert MCQJsonl(file).report().found == {"mcq": 3, "turns": 1}


def test_mcq_jsonl_bad_lines(tmp_path):
    good = {"video": "clips/a.mp4", "question": "Where?", "options": ["left", "right"], "answer": "A"}
    lines = [
        good,
        "{broken",
        "[1, 2]",
        good | {"video": None},
        good | {"options": "left, right"},
        good | {"options": {"A": "x", "C": "y"}},
        good | {"options": {"A": "x", "a": "y", "B": "z"}},
        good | {"answer": "C"},
        good | {"video": "../a.mp4"},
        {"video": "clips/a.mp4"},
    ]
    samples, rejected = MCQJsonl(write_lines(tmp_path, lines)).samples()
    assert [sample.id for sample in samples] == ["line 1"]
    reasons = {row.id: row.reason for row in rejected}
    assert len(reasons) == 9
    assert reasons["line 2"].startswith("not JSON") and "not a JSON object but list" in reasons["line 3"]
    assert reasons["line 4"] == "no video named"
    assert "neither a list" in reasons["line 5"] and "A, C" in reasons["line 6"] and "repeat" in reasons["line 7"]
    assert "not among the options A–B" in reasons["line 8"] and "leaves the folder" in reasons["line 9"]
    assert all(part in reasons["line 10"] for part in ("no options", "empty question"))


def test_mcq_jsonl_must_be_text(tmp_path):
    file = tmp_path / "q.jsonl"
    file.write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        MCQJsonl(file).samples()


def test_letters_are_only_stripped_when_all_options_have_them():
    assert strip_letters(["A. cat", "B: dog"]) == ("cat", "dog")
    assert strip_letters(["A. Smith", "Jones"]) == ("A. Smith", "Jones")


# -- config and import ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["urbanvideo", "vsi_bench", "mcq_jsonl"])
def test_config_matches_the_constructor(name):
    text = (ROOT / "conf" / "benchmark" / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.startswith("# ")
    fields = yaml.safe_load(text)
    parameters = inspect.signature(get_class(fields.pop("_target_"))).parameters
    assert set(fields) == set(parameters)
    for key, value in fields.items():
        default = parameters[key].default
        assert default is inspect.Parameter.empty or default == value, key
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line and line[0].isalpha():
            assert lines[i - 1].startswith("#"), f"{name}: no comment above {line}"


def test_hydra_builds_a_loader_from_the_config(tmp_path):
    write_urban(tmp_path, [urban_row(i) for i in range(3)])
    benchmark = OmegaConf.load(ROOT / "conf" / "benchmark" / "urbanvideo.yaml")
    changes = {"tasks": ["LP", "CF"], "expected": {"LP": 3}}
    cfg = OmegaConf.create({"data_dir": str(tmp_path), "benchmark": OmegaConf.merge(benchmark, changes)})
    bench = instantiate(cfg.benchmark)
    assert bench.report().complete and bench.expected_counts() == {"LP": 3}


def test_loaders_import_without_heavy_packages():
    code = (
        "import sys, trustvid.benchmarks.urbanvideo, trustvid.benchmarks.vsi_bench, trustvid.benchmarks.mcq_jsonl;"
        "print([m for m in ('numpy', 'pyarrow', 'pandas', 'cv2', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert done.stdout.strip() == "[]"
