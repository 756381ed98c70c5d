"""Published numbers: their files, checked strictly and against their sources, and how they stand beside ours.

pytest tests/unit/test_published_tables.py -q -n 0
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trustvid.benchmarks import urbanvideo, vsi_bench
from trustvid.errors import DataError
from trustvid.evaluation.published_tables import (
    beside,
    load_published,
    published_names,
    read_published,
    with_published,
)
from trustvid.evaluation.render import to_markdown
from trustvid.evaluation.tables import Cell, Header, Table

TASKS = ("LP", "CF", "PE", "AG", "RDist", "RDir", "RP", "AO")
QUESTIONS = {
    "LP": urbanvideo.CATEGORY_COUNTS["Landmark Position"],
    "CF": urbanvideo.CATEGORY_COUNTS["Counterfactual"],
    "PE": urbanvideo.CATEGORY_COUNTS["Progress Evaluation"],
    "AG": urbanvideo.CATEGORY_COUNTS["Action Generation"],
    **{task: vsi_bench.TASK_COUNTS[task] for task in TASKS[4:]},
}
# The averages that Embodied-R printed, weighted by questions, of the thirteen rows that were scored on the full sets.
WEIGHTED = {
    "Qwen-VL-Max": 34.1,
    "GPT-4o": 35.7,
    "Gemini-1.5-Flash": 38.3,
    "Gemini-1.5-Pro": 39.7,
    "LLaVA-NeXT-Video-7B-hf": 29.5,
    "Phi-3.5-vision": 29.0,
    "Kangaroo": 30.0,
    "InternVL2-2B": 24.5,
    "InternVL2-8B": 25.5,
    "InternVL2-40B": 25.8,
    "Qwen2.5-VL-3B": 33.1,
    "Qwen2.5-VL-7B": 33.3,
    "Qwen2.5-VL-72B": 34.9,
}
GOOD = """\
title: A table
source: somewhere
split: some questions
metric: Accuracy in percent
columns: [Avg, LP, hours]
bounds: {hours: [0, 500]}
doubts: {copied: It is copied., odd: It is odd.}
notes: [It is old.]
rows:
  - method: one
    values: {Avg: 36.0, LP: 41.25, hours: 127.8}
    frames: "32"
    doubts: [copied]
    cell_doubts: {LP: [odd]}
  - method: two
    values: {Avg: 40, LP: null, hours: null}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "table.yaml"
    path.write_text(text, encoding="utf-8")
    return path


# -- the files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", published_names())
def test_every_file_is_sound_and_uses_each_of_its_doubts(name):
    table = load_published(name)
    used = {key for row in table.rows for key in (*row.doubts, *(k for keys in row.cell_doubts.values() for k in keys))}
    assert table.name == name and table.rows and used == set(table.doubts)


def test_averages_of_table_1_are_those_of_its_tasks():
    """The average is the unweighted mean over eight tasks, those of the data sets over four, within rounding."""
    rows = {row.method: row for row in load_published("robust_to/table1").rows}
    assert len(rows) == 20
    for row in rows.values():
        values = [row.values[task] for task in TASKS]
        means = {"Avg": sum(values) / 8, "UV": sum(values[:4]) / 4, "VSI": sum(values[4:]) / 4}
        for column, mean in means.items():
            if row.method == "Random":
                assert row.values["UV"] is None and row.cell_doubts["Avg"] == ("weighted",)
            else:
                assert row.values[column] == pytest.approx(mean, abs=0.0501), (row.method, column)


def test_rows_called_full_set_and_no_others_have_the_average_that_is_weighted_by_questions():
    rows = load_published("robust_to/table1").rows
    total = sum(QUESTIONS.values())
    assert total == 5415
    assert {row.method for row in rows if "full_set" in row.doubts} == set(WEIGHTED)
    weighted = {row.method: sum(row.values[task] * QUESTIONS[task] for task in TASKS) / total for row in rows}
    for method, average in WEIGHTED.items():
        assert weighted[method] == pytest.approx(average, abs=0.0501), method
    # What was printed for the others: OpenAI-o1, Gemini-2.5-Pro, both SFT rows, Embodied-R; Robust-TO's is Embodied-R's.
    printed = {
        "OpenAI-o1": 37.2,
        "Gemini-2.5-Pro": 40.8,
        "SFT Qwen2.5-VL-3B": 41.7,
        "SFT Qwen2.5-VL-7B": 45.4,
        "Robust-TO Qwen2.5-VL-7B": 51.1,
    }
    assert {row.method for row in rows if "other_questions" in row.doubts} == set(printed)
    for method, average in printed.items():
        assert abs(weighted[method] - average) > 0.2, method


def test_the_row_that_is_another_papers_says_so():
    ours = {row.method: row for row in load_published("robust_to/table1").rows}["Robust-TO Qwen2.5-VL-7B"]
    other = load_published("robust_to/embodied_r").rows[0]
    assert [ours.values[task] for task in TASKS] == [other.values[task] for task in TASKS]
    assert ours.frames == other.frames == "20.7" and "same_as_embodied_r" in ours.doubts
    assert "same_as_robust_to" in other.doubts


def test_means_and_drops_of_table_2_are_those_of_its_columns():
    clean = {row.method: row.values["UV"] for row in load_published("robust_to/table1").rows}
    for row in load_published("robust_to/table2").rows:
        values = row.values
        corrupted = [values[name] for name in ("MB", "Glare", "Occ", "LL", "GN")]
        assert values["Avg"] == pytest.approx(sum(corrupted) / 5, abs=0.0501), row.method
        assert values["drop"] == pytest.approx(values["UV clean"] - values["Avg"], abs=0.101), row.method
        assert values["UV clean"] == clean.get(row.method, 52.0)


@pytest.mark.parametrize(
    ("name", "heading"), [("robust_to/table1", "### Table 1"), ("robust_to/table2", "### Table 2")]
)
def test_every_number_is_the_one_in_the_notes_on_the_paper(name, heading, shared_dir):
    lines = (shared_dir / "facts" / "robust_to.md").read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(heading))
    noted = []
    for line in lines[start + 3 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip(" *?w") for cell in line.replace("[calc]", "").strip("|").split("|")]
        noted.append([float(cell) for cell in cells[1 + (heading == "### Table 1") :] if cell])
    rows = load_published(name).rows
    assert [[value for value in row.values.values() if value is not None] for row in rows] == noted


def test_numbers_without_a_table():
    cells = {name: load_published(f"robust_to/{name}").rows[0].values for name in ("confidence_interface", "mstar")}
    assert cells == {"confidence_interface": {"clean": -3.3}, "mstar": {"accuracy": -1.2, "reward variance": 2.3}}
    assert load_published("robust_to/decomposition").rows[0].values == {"clean": 4.1, "corrupted": 5.3}
    extractor = load_published("robust_to/efficiency").rows[2].values
    assert (extractor["frames"], extractor["accuracy"]) == (20.7, 49.5)
    assert (extractor["training h"], extractor["inference s"]) == (111.7, 157.55)


# -- strictness --------------------------------------------------------------------------------------------------------


def test_a_sound_file_is_read_as_it_stands(tmp_path):
    table = read_published(write(tmp_path, GOOD), "mine/table")
    assert (table.name, table.columns, table.notes) == ("mine/table", ("Avg", "LP", "hours"), ("It is old.",))
    one, two = table.rows
    assert one.values == {"Avg": 36.0, "LP": 41.25, "hours": 127.8} and one.cell_doubts == {"LP": ("odd",)}
    assert (two.values["LP"], two.frames, two.doubts) == (None, None, ())
    assert table.bounds == {"Avg": (0.0, 100.0), "LP": (0.0, 100.0), "hours": (0.0, 500.0)}


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("LP: 41.25", "LP: 141.25", "row 1 (one): LP=141.25; expected a number from 0 to 100, or null"),
        ("LP: 41.25", "LP: .nan", "row 1 (one): LP=nan; expected a number"),
        ("LP: 41.25", "LP: '41.25'", "row 1 (one): LP='41.25'; expected a number"),
        ("LP: 41.25", "LP: true", "row 1 (one): LP=True; expected a number"),
        ("hours: 127.8", "hours: 501", "row 1 (one): hours=501; expected a number from 0 to 500"),
        ("Avg: 40, ", "", "row 2 (two): values lack Avg"),
        ("Avg: 40, ", "Avg: 40, CF: 3, ", "row 2 (two): CF is none of the columns"),
        ("Avg: 40, ", "Avg: 40, Avg: 41, ", "Avg stands there twice"),
        ("doubts: [copied]", "doubts: [coped]", "row 1 (one): doubts names coped, which is not defined"),
        ("{LP: [odd]}", "{LP: [add]}", "row 1 (one): cell_doubts.LP names add"),
        ("{LP: [odd]}", "{CF: [odd]}", "row 1 (one): cell_doubts.CF is none of the columns"),
        ('frames: "32"', "frames: 32", "row 1 (one): frames is a int"),
        ('frames: "32"', "frame: '32'", "row 1 (one): frame is unknown; known: method, values"),
        ("notes: [It is old.]", "note: [It is old.]", "the file: note is unknown"),
        ("notes: [It is old.]\n", "", "the file: notes is missing"),
        ("source: somewhere", "source: ''", "the file: source is empty"),
        ("It is odd.", "odd", "doubts.odd is no sentence"),
        ("bounds: {hours: [0, 500]}", "bounds: {hours: [500, 0]}", "bounds.hours=[500, 0]"),
        ("bounds: {hours: [0, 500]}", "beside: {results: {mean: XY}}", "beside.results.mean=XY is none of the columns"),
        ("[Avg, LP, hours]", "[Avg, LP, hours, Avg]", "columns: 'Avg' stands there 2 times"),
        ("  - method: one", "  - two\n  - method: one", "row 1 is a str"),
        ("title: A table", "title: [A table", "is no YAML"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(good, bad, words, tmp_path):
    assert good in GOOD
    path = write(tmp_path, GOOD.replace(good, bad, 1))
    with pytest.raises(DataError) as caught:
        read_published(path, "table")
    assert words in str(caught.value) and str(path) in str(caught.value)


def test_all_faults_of_a_file_come_together(tmp_path):
    text = GOOD.replace("LP: 41.25", "LP: 141").replace("[copied]", "[coped]").replace("Avg: 40, ", "")
    with pytest.raises(DataError) as caught:
        read_published(write(tmp_path, text), "table")
    assert str(caught.value).count("\n  - ") == 3


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(DataError, match=r"published=robust_to/table3 is unknown; known: .*robust_to/table1"):
        load_published("robust_to/table3")
    with pytest.raises(DataError, match="is unknown"):
        load_published("../published/robust_to/table1")


# -- beside ours -------------------------------------------------------------------------------------------------------

OURS = Table(
    caption="Accuracy.",
    headers=(Header("method"), Header("average"), Header("mean", "n=8"), Header("LP", "n=4"), Header("CF", "n=4")),
    rows=(
        ("blind", "macro-8", Cell(50.0, 2.0, 8, best=True), Cell(40.0, 3.0, 4), Cell(60.0, 3.0, 4)),
        ("anchored", "macro-8", Cell(45.0, 2.0, 8), Cell(50.0, 3.0, 4, best=True), Cell(40.0, 3.0, 4)),
    ),
    footnotes=("Bold: best.",),
    rules=frozenset({1}),
)


def test_published_rows_stand_below_ours_muted_and_change_nothing_above(tmp_path):
    published = read_published(write(tmp_path, GOOD), "mine/table")
    table = with_published(OURS, published, {"mean": "Avg", "LP": "LP"}, "paper")
    assert table.rows[:2] == OURS.rows and table.muted == {2, 3} and table.rules == {1, 2}
    assert (table.caption, table.headers) == (OURS.caption, OURS.headers)
    one, two = table.rows[2:]
    assert one == ("one (a)", "paper", Cell(36.0), Cell(41.25, note="(b)", decimals=2), Cell(None))
    assert two == ("two", "paper", Cell(40.0), Cell(None), Cell(None))
    assert not any(entry.best or entry.second for row in (one, two) for entry in row if isinstance(entry, Cell))
    assert table.footnotes[0] == "Bold: best."
    assert table.footnotes[1].startswith("Grey: A table (somewhere). Accuracy in percent; some questions.")
    assert table.footnotes[-3:] == ("It is old.", "(a) It is copied.", "(b) It is odd.")
    assert "41.25 (b)" in to_markdown(table)


def test_rows_and_doubts_that_do_not_show_are_left_out(tmp_path):
    published = read_published(write(tmp_path, GOOD), "mine/table")
    table = with_published(OURS, published, {"LP": "LP"}, "paper")
    assert [row[0] for row in table.rows] == ["blind", "anchored", "one (a)"]
    averages = with_published(OURS, published, {"mean": "Avg"}, "paper")
    assert "(b) It is odd." not in averages.footnotes and len(averages.muted) == 2


def test_a_difference_is_signed_where_ours_is(tmp_path):
    signed = replace(OURS, rows=tuple((*row[:2], replace(row[2], signed=True), *row[3:]) for row in OURS.rows))
    published = read_published(write(tmp_path, GOOD), "mine/table")
    table = with_published(signed, published, {"mean": "Avg", "LP": "LP"}, "paper")
    assert [table.rows[2][i].number for i in (2, 3)] == ["+36.0", "41.25"]


def test_a_column_that_is_not_there_is_an_error(tmp_path):
    published = read_published(write(tmp_path, GOOD), "mine/table")
    with pytest.raises(DataError, match=r"drop → Avg; its columns: Avg, LP, hours"):
        with_published(OURS, published, {"drop": "Avg"}, "paper")
    with pytest.raises(DataError, match="mean → PE"):
        with_published(OURS, published, {"mean": "PE"}, "paper")


def test_the_file_says_beside_which_tables_it_stands(tmp_path):
    text = GOOD.replace(
        "doubts: {copied", "beside: {results: {mean: Avg, drop: LP}, effort: {h: hours}}\ndoubts: {copied"
    )
    published = read_published(write(tmp_path, text), "mine/table")
    tables = beside({"results": OURS, "tasks": OURS, "effort": OURS}, published)
    assert tables["tasks"] is OURS and tables["effort"] is OURS
    assert tables["results"].muted == {2, 3} and list(tables) == ["results", "tasks", "effort"]


def test_frames_that_differ_are_named(tmp_path):
    text = GOOD.replace("    values: {Avg: 40", '    frames: "1 a second"\n    values: {Avg: 40')
    table = with_published(OURS, read_published(write(tmp_path, text), "t"), {"mean": "Avg"}, "paper")
    assert "Frames per video as printed there: 32; 1 a second: two." in table.footnotes
