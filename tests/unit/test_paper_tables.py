"""The paper's layouts: methods by tasks, clean and corrupted, checked against counts by hand.

pytest tests/unit/test_paper_tables.py -q -n 0
"""

from __future__ import annotations

import json

import pytest

from trustvid.evaluation.jsonfiles import dump_json
from trustvid.evaluation.metrics import compute_metrics
from trustvid.evaluation.paper_tables import CITY_TASKS, ROOM_TASKS, paper_tables, routing_table, task_columns_table
from trustvid.evaluation.published_tables import beside, load_published
from trustvid.evaluation.records import Prediction
from trustvid.evaluation.tables import Cell, Table

CONTEXT = {"benchmark": "boxworld", "split": "val", "policy": "scripted", "k": 8}
GLARE, BLUR = "glare:s3:c0.5", "motion_blur:s3:c0.5"


def metrics_of(right: dict[tuple[str, str], dict[str, int]], tasks=CITY_TASKS + ROOM_TASKS, pools=None) -> dict:
    """Metrics of four questions a task, of which ``right[method, condition][task]`` (default 2) are answered rightly."""
    records = [
        Prediction(
            sample_id=f"{task}-{i}",
            cluster=f"v{i}",
            task=task,
            method=method,
            condition=condition,
            truth="A",
            answer="A" if i < correct.get(task, 2) else "B",
            score=float(i < correct.get(task, 2)),
            confidence=0.5,
            confidence_source="stated",
            status="ok",
        )
        for (method, condition), correct in right.items()
        for task in tasks
        for i in range(4)
    ]
    methods = list(dict.fromkeys(method for method, _ in right))
    found = compute_metrics(records, CONTEXT, methods=methods, tasks=tasks, baseline=methods[0], pools=pools)
    return json.loads(dump_json(found))


def numbers(table: Table, *texts: str) -> dict[str, str]:
    """The shown numbers of the row that begins with these texts, by header; the best with a star."""
    (row,) = (row for row in table.rows if row[: len(texts)] == texts)
    pairs = zip(table.headers, row, strict=True)
    return {h.name: e.number + "*" * e.best for h, e in pairs if isinstance(e, Cell)}


def test_table_1_has_tasks_in_its_order_and_both_averages():
    clean = {("chance", "clean"): {"LP": 4}, ("blind", "clean"): {"LP": 3}, ("anchored", "clean"): {"LP": 1, "AO": 4}}
    table = task_columns_table(metrics_of(clean))
    assert [header.name for header in table.headers] == ["method", *CITY_TASKS, *ROOM_TASKS, "macro-8", "micro"]
    assert [header.note for header in table.headers][1:] == ["n=4"] * 8 + ["n=32"] * 2
    assert numbers(table, "chance")["LP"] == "100.0"  # a yardstick is never marked
    blind = numbers(table, "blind")
    assert (blind["LP"], blind["CF"], blind["AO"], blind["macro-8"]) == ("75.0*", "50.0*", "50.0", "53.1*")
    assert numbers(table, "anchored")["micro"] == "53.1*" and numbers(table, "blind")["micro"] == "53.1*"
    assert "boxworld, split val, policy scripted" in table.caption
    assert any(note.startswith("RDir: easy, medium and hard are pooled") for note in table.footnotes)


def test_unequal_tasks_make_macro_and_micro_differ():
    metrics = metrics_of({("blind", "clean"): {"LP": 4, "CF": 0}}, tasks=("LP", "CF"))
    table = task_columns_table(metrics)
    assert numbers(table, "blind") == {"LP": "100.0", "CF": "0.0", "macro-2": "50.0", "micro": "50.0"}
    assert not any("RDir" in note for note in table.footnotes)


@pytest.mark.parametrize(("tasks", "name"), [(CITY_TASKS, "macro LP–AG"), (ROOM_TASKS, "macro RDist–AO")])
def test_the_macro_of_one_data_set_says_over_which_tasks_it_is(tasks, name):
    """Published means of UrbanVideo-Bench stand only beside ours of the same four tasks."""
    tables = paper_tables(metrics_of({("blind", "clean"): {}, ("anchored", "clean"): {}}, tasks=tasks))
    assert list(tables) == ["task_columns"]
    shown = beside(tables, load_published("robust_to/table1"))["task_columns"]
    gpt = {header.name: entry for header, entry in zip(shown.headers, shown.rows[3], strict=True)}
    assert gpt["method"].startswith("GPT-4o") and gpt["micro"] == Cell(None)
    assert gpt[name].value == {"macro LP–AG": 37.4, "macro RDist–AO": 34.6}[name]


def test_one_task_has_no_averages():
    table = task_columns_table(metrics_of({("blind", "clean"): {}}, tasks=("LP",)))
    assert [header.name for header in table.headers] == ["method", "LP"]


def test_the_routing_table_has_a_block_for_clean_and_one_for_the_mean_over_corruptions():
    right = {("fixed", "clean"): {"LP": 4}, ("random", "clean"): {"LP": 1}}
    right |= {("fixed", GLARE): {"LP": 2}, ("random", GLARE): {"LP": 4}}
    right |= {("fixed", BLUR): {"LP": 0}, ("random", BLUR): {"LP": 4}}
    table = routing_table(metrics_of(right))
    assert [row[:2] for row in table.rows] == [
        ("fixed", "clean"),
        ("random", "clean"),
        ("fixed", "corrupted"),
        ("random", "corrupted"),
    ]
    assert table.rules == {0, 2} and [header.note for header in table.headers][2:] == ["n=4"] * 8 + ["n=32"] * 2
    assert numbers(table, "fixed", "clean")["LP"] == "100.0*" and numbers(table, "random", "clean")["LP"] == "25.0"
    assert (
        numbers(table, "fixed", "corrupted")["LP"] == "25.0" and numbers(table, "random", "corrupted")["LP"] == "100.0*"
    )


def test_a_run_with_suites_has_a_block_for_each_pool():
    right = {("blind", condition): {} for condition in ("clean", GLARE, BLUR)}
    table = routing_table(metrics_of(right, pools={"five:s3:c0.5": [GLARE, BLUR]}))
    assert [row[1] for row in table.rows] == ["clean", "five s3 c0.5"]


def test_published_rows_are_in_no_mark_and_no_number_of_ours():
    tables = paper_tables(metrics_of({("blind", "clean"): {"LP": 1}, ("anchored", "clean"): {}}))
    shown = beside(tables, load_published("robust_to/table1"))["task_columns"]
    ours = tables["task_columns"]
    assert shown.rows[: len(ours.rows)] == ours.rows and shown.muted == set(range(2, 22)) and not ours.muted
    published = [entry for row in shown.rows[2:] for entry in row if isinstance(entry, Cell)]
    assert max(entry.value for entry in published if entry.value is not None) == 77.5  # above ours, and not marked
    assert not any(entry.best or entry.second for entry in published)
    assert numbers(shown, "anchored")["LP"] == "50.0*"
    notes = " ".join(shown.footnotes)
    assert "published in April 2025 as its own" in notes and "No Qwen3-VL of 7B has been released" in notes
