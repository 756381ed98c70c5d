"""The official files: what is read, what is refused and why, round trips, table rows, counts of the real files.

pytest tests/unit/test_captions_files.py -q -n 0
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from trustvid.benchmarks.if_vidcap import IFVidCap
from trustvid.captioning.checklist import Checklist
from trustvid.captioning.files import (
    Instruction,
    TaskKey,
    captioner_of,
    entry_of,
    prompt_entry,
    read_checklists,
    read_object,
    read_prompts,
    read_responses,
    write_entries,
)
from trustvid.captioning.rules import MAX_CHARACTERS
from trustvid.captioning.skeleton import skeleton
from trustvid.captioning.statistics import prompt_statistics, response_statistics, video_statistics
from trustvid.captioning.table_rows import read_rows, rows_of, write_rows
from trustvid.errors import ConfigError, DataError

DATA = Path(__file__).resolve().parents[1] / "data" / "if_vidcap"


@pytest.fixture
def instructions() -> list[Instruction]:
    return read_prompts(DATA / "annotation" / "prompt.json")[0]


# -- responses ---------------------------------------------------------------------------------------------------------


def test_responses_belong_to_instructions_by_id_and_never_by_position(tmp_path, instructions):
    given = json.loads((DATA / "response" / "good_response.json").read_text(encoding="utf-8"))
    given["clip_901"].reverse()
    path = tmp_path / "turned_response.json"
    path.write_text(json.dumps(dict(reversed(given.items()))), encoding="utf-8")
    right = read_responses(DATA / "response" / "good_response.json", [one.key for one in instructions])
    turned = read_responses(path, [one.key for one in instructions])
    assert right.texts == turned.texts and len(right.texts) == 5 and not right.unusable and not right.problems
    assert captioner_of(path) == "turned"


def test_bad_responses_have_a_reason_each(instructions):
    """The file has a byte order mark and CRLF line ends, which do not matter."""
    found = read_responses(DATA / "response" / "bad_response.json", [one.key for one in instructions])
    assert found.texts == {TaskKey("clip_902", "01"): '{"subject": "a baker", "place": "a small bakery"}'}
    assert {str(key): reason for key, reason in found.unusable.items()} == {
        "clip_901/01": "2 different responses under one id",
        "clip_901/02": "the response is empty",
        "clip_902/02": "the response is null, not text",
        "short_903/01": "no response",
    }
    told = {problem.where: problem.reason for problem in found.problems}
    assert "belongs to no instruction" in told["clip_901[3]"] and told["clip_902/07"] == "there is no such instruction"
    assert told["clip_999/01"] == "there is no such instruction" and "not a list" in told["clip_998"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("\ufeff \r\n", "empty"), ("x" * (MAX_CHARACTERS + 1), "at most 1,000,000 are judged"), (["a"], "list, not text")],
)
def test_unusable_texts(tmp_path, text, reason):
    path = tmp_path / "x_response.json"
    path.write_text(json.dumps({"v": [{"field": "f", "prompt_id": "01", "response": text}]}), encoding="utf-8")
    assert reason in read_responses(path, [TaskKey("v", "01")]).unusable[TaskKey("v", "01")]


def test_the_text_of_a_response_is_left_as_it_is(tmp_path):
    text = "one\r\n\r\ntwo \ud83d"  # a cut emoji: half of a surrogate pair
    path = tmp_path / "x_response.json"
    write_entries(path, [("v", {"field": "f", "prompt_id": "01", "response": text})])
    assert read_responses(path, [TaskKey("v", "01")]).texts[TaskKey("v", "01")] == text


def test_a_video_id_that_stands_twice_is_two_parts_of_one_list(tmp_path):
    path = tmp_path / "x_response.json"
    entry = '{"field": "f", "prompt_id": "%s", "response": "%s"}'
    path.write_text(f'{{"v": [{entry % ("01", "a")}], "v": [{entry % ("02", "b")}]}}', encoding="utf-8")
    assert set(read_responses(path, [TaskKey("v", "01"), TaskKey("v", "02")]).texts.values()) == {"a", "b"}


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"[1]", "holds list"), (b"{", "cannot be read"), (b"\xff\xfe", "cannot be read"), (b'{"a": 1, "a": 2}', "twice")],
)
def test_a_file_of_another_kind_is_an_error_that_names_it(tmp_path, content, why):
    path = tmp_path / "prompt.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=why) as caught:
        read_prompts(path)
    assert str(path) in str(caught.value) and "expected prompt.json" in str(caught.value)


# -- writing -----------------------------------------------------------------------------------------------------------


def test_prompts_and_checklists_survive_a_round_trip(tmp_path, instructions):
    checklists, problems = read_checklists(DATA / "annotation" / "checklist.json")
    assert not problems
    write_entries(tmp_path / "prompt.json", ((one.key.video, prompt_entry(one)) for one in instructions))
    entries = ((one.key.video, entry_of(one, "checklist", checklists[one.key])) for one in instructions)
    write_entries(tmp_path / "checklist.json", entries)
    for name in ("prompt.json", "checklist.json"):
        assert json.loads((tmp_path / name).read_text(encoding="utf-8")) == json.loads(
            (DATA / "annotation" / name).read_text(encoding="utf-8")
        )
    assert "用中文" in (tmp_path / "prompt.json").read_text(encoding="utf-8"), "readable, not escaped"


def test_a_file_that_could_not_be_written_whole_does_not_replace_the_old_one(tmp_path):
    path = tmp_path / "prompt.json"
    write_entries(path, [("v", {"prompt_id": "01"})])
    with pytest.raises(ValueError, match="do not follow one another"):
        write_entries(path, [("a", {}), ("b", {}), ("a", {})])
    assert json.loads(path.read_text()) == {"v": [{"prompt_id": "01"}]} and len(list(tmp_path.iterdir())) == 1
    write_entries(path, [])
    assert json.loads(path.read_text()) == {}


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_the_table_form_gives_the_same_instructions_and_checklists(tmp_path, instructions, name):
    checklists, _ = read_checklists(DATA / "annotation" / "checklist.json")
    write_rows(
        tmp_path / name, rows_of(instructions, checklists, lambda video: f"videos/{video.replace('_', '/')}.mp4")
    )
    found, found_checklists, videos, problems = read_rows(tmp_path / name)
    assert [one.key for one in found] == [one.key for one in instructions], "ids by position within the video"
    assert [one.text for one in found] == [one.text for one in instructions]
    assert found_checklists == checklists and not problems and videos["clip_901"] == "videos/clip/901.mp4"
    assert Checklist.from_json(found_checklists[found[0].key]).rule_items[0].parameters["symbol"] == ";"


def test_rows_that_cannot_be_used_are_told(tmp_path):
    rows = [
        {"video": "a.mp4", "instruction": "x", "checklist": "{"},
        {"video": "", "instruction": "x", "checklist": "{}"},
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    found, checklists, _, problems = read_rows(tmp_path / "rows.jsonl")
    assert [str(one.key) for one in found] == ["a/01"] and not checklists
    assert [problem.where for problem in problems] == ["row 1 (a/01)", "row 2"]


# -- the loader --------------------------------------------------------------------------------------------------------


def test_the_loader_finds_videos_where_the_release_puts_them_and_nowhere_else(tmp_path):
    shutil.copytree(DATA / "annotation", tmp_path / "annotation")
    usual = tmp_path / "videos" / "clip" / "901.mp4"
    stated = tmp_path / "video" / "preprocessed" / "clip" / "902.mp4"
    for path in (usual, stated):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
    meta = tmp_path / "annotation" / "video_meta_info.json"
    text = meta.read_text().replace("video/preprocessed/short/903.mp4", "../../etc/passwd")
    meta.write_text(text)
    tasks, problems = IFVidCap(tmp_path).tasks()
    videos = {task.cluster: task.video for task in tasks}
    assert videos["clip_901"] == usual and videos["clip_902"] == stated and not problems
    assert isinstance(videos["short_903"], str) and "missing video" in videos["short_903"]


def test_the_loader_refuses_what_it_cannot_read(tmp_path):
    with pytest.raises(ConfigError, match=r"benchmark\.root is not set"):
        IFVidCap(None)
    with pytest.raises(ConfigError, match="known: file, skeleton"):
        IFVidCap(tmp_path, checklists="some")
    with pytest.raises(DataError, match=r"prompt\.json: no such file"):
        IFVidCap(tmp_path).tasks()
    shutil.copy(DATA / "annotation" / "prompt.json", tmp_path)
    with pytest.raises(DataError, match=r"benchmark\.checklists=skeleton"):
        IFVidCap(tmp_path).tasks()
    bare = IFVidCap(tmp_path, checklists="skeleton", fields=["For Retrieval"])
    assert len(bare.tasks()[0]) == 2 and "bare checklists" in bare.name
    with pytest.raises(DataError, match="fields there: For Communication"):
        IFVidCap(tmp_path, checklists="skeleton", fields=["For Fun"]).tasks()


def test_a_skeleton_has_one_item_for_each_id_and_no_parameters():
    made = Checklist.from_json(skeleton(["length", "include", "include", "if_else"]))
    assert [item.constraint_id for item in made.rule_items] == ["length", "if_else"]
    assert [group.constraint_id for group in made.open_groups] == ["include", "include"]
    assert all(dict(item.parameters) == {"content": None} for item in made.rule_items)


# -- the real files ----------------------------------------------------------------------------------------------------


def test_counts_of_the_real_prompts(shared_dir):
    instructions, problems = read_prompts(shared_dir / "data" / "if_vidcap" / "prompt.json")
    found = prompt_statistics(instructions)
    assert not problems and (found["videos"], found["instructions"]) == (350, 1400)
    assert found["prompt_ids"] == {"01": 350, "02": 350, "03": 350, "04": 350}
    assert found["fields"] == {
        "For Understanding": 349,
        "For Communication": 339,
        "For Retrieval": 336,
        "For Generation": 327,
        "For Sports Analytics": 25,
        "For Instructional": 24,
    }
    characters = {name: found["characters"][name] for name in ("min", "p10", "p25", "median", "p75", "p90", "max")}
    assert list(characters.values()) == [49, 113, 150, 211, 294, 408, 1459]
    assert round(found["characters"]["mean"], 1) == 240.5 and round(found["words"]["mean"], 1) == 37.8
    words = [found["words"][name] for name in ("min", "p25", "median", "p75", "p90", "max")]
    assert words == [8, 24, 33, 46, 64, 214]
    assert (found["with_han_characters"], found["repeated_texts"]) == (15, 1)
    sizes = found["constraints"]
    assert (sizes["total"], sizes["median"], sizes["max"]) == (8126, 5, 19)
    assert (round(sizes["mean"], 2), round(sizes["distinct_mean"], 2)) == (5.80, 4.75)
    assert sizes["histogram"]["5"] == 268 and sizes["histogram"]["19"] == 1 and len(sizes["histogram"]) == 16
    ids = found["ids"]
    assert (ids["distinct"], ids["format_uses"], ids["content_uses"]) == (28, 3539, 4575)
    assert ids["uses"]["length"] == 685 and ids["uses"]["case"] == 61 and ids["uses"]["include"] == 1326
    assert ids["instructions"]["include"] == 827 and ids["instructions"]["comparative_description"] == 35
    assert ids["stray"] == {"if_else": 6, "chained": 4, "semantic_correctness": 1, "structural": 1}
    assert (ids["without_format"], ids["format_only"], ids["more_format_than_content"]) == (0, 1, 370)
    by_field = {name: (round(row["words"], 1), round(row["constraints"], 2)) for name, row in found["by_field"].items()}
    assert by_field["For Understanding"] == (44.0, 6.03) and by_field["For Sports Analytics"] == (51.9, 6.84)


def test_counts_of_the_real_responses_and_videos(shared_dir):
    folder = shared_dir / "data" / "if_vidcap"
    keys = [one.key for one in read_prompts(folder / "prompt.json")[0]]
    responses = read_responses(folder / "example_response.json", keys)
    assert len(responses.texts) == 1400 and not responses.unusable and not responses.problems
    lengths = response_statistics(responses.texts.values())
    assert [lengths[name] for name in ("min", "median", "max")] == [16, 256, 3276] and round(lengths["mean"]) == 324
    found = video_statistics(read_object(folder / "video_meta_info.json", "meta"), [key.video for key in keys])
    assert (found["entries"], found["wanted"], found["portrait"], found["small"]) == (498, 350, 134, 19)
    assert found["parts"] == {"clip": 200, "short": 150, "long": 92, "movie": 56}
    seconds = [found["seconds"][name] for name in ("min", "p25", "median", "p75", "p90", "max")]
    assert seconds == [2, 8, 13, 30, 49, 60] and round(found["seconds"]["mean"], 1) == 20.0
    assert found["unreadable"] == 0 and found["resolutions"]["1920x1080"] == 234 and found["fps"]["30"] == 367
