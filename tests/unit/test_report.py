"""Tables: what stands in them, which value is marked, what is said of what is missing.

pytest tests/unit/test_report.py -q -n 0
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trustvid.errors import DataError
from trustvid.evaluation.jsonfiles import dump_json
from trustvid.evaluation.metrics import compute_metrics
from trustvid.evaluation.multirun import table_from_runs
from trustvid.evaluation.records import Prediction
from trustvid.evaluation.render import latex_escape, print_table, to_csv, to_latex, to_markdown
from trustvid.evaluation.report import comparison_table, effort_table, results_table, tables_of, task_table
from trustvid.evaluation.report_forms import Csv, Latex, Markdown, Report
from trustvid.evaluation.store import RunFolder, RunInfo
from trustvid.evaluation.tables import Cell, Header, Table, mark_best, mark_second, natural_key, pivot_table
from trustvid.evaluation.trust_tables import trust_tables

DATA = Path(__file__).parents[1] / "data" / "metrics"
CONTEXT = {"benchmark": "boxworld", "split": "val", "policy": "scripted_v1", "k": 8, "decode": {"reader": "pyav"}}
CONDITIONS = ("clean", "glare:s3:c0.5", "motion_blur:s3:c0.5")
RATES = {"chance": (0.2, 0.2), "blind": (0.8, 0.6), "robust_to": (0.9, 0.8)}


def prediction(i: int, method: str, condition: str, score: float | None, **changes) -> Prediction:
    has_answer = score is not None
    fields = {
        "sample_id": f"q{i:03}",
        "cluster": f"v{i // 4}",
        "task": ("LP", "CF", "AO")[i % 3],
        "method": method,
        "condition": condition,
        "truth": "A",
        "answer": "A" if has_answer else None,
        "score": score,
        "confidence": 0.8 if method != "chance" and has_answer else None,
        "confidence_source": "pooled" if method != "chance" and has_answer else None,
        "status": "ok" if has_answer else "unscored",
        "reason": None if has_answer else "clip_7.mp4: no index",
    }
    return Prediction(**{**fields, **changes})


def predictions(seed: int = 0, severity: int = 3) -> list[Prediction]:
    rng = np.random.default_rng(seed)
    return [
        prediction(
            i, method, condition.replace("s3", f"s{severity}"), float(rng.random() < rates[condition != "clean"])
        )
        for i in range(60)
        for method, rates in RATES.items()
        for condition in CONDITIONS
    ]


def metrics_of(records: list[Prediction], **changes) -> dict:
    """As a table sees them: read back from the file's text."""
    return json.loads(dump_json(compute_metrics(records, {**CONTEXT, **changes}, tasks=["LP", "CF", "AO"])))


def row_of(table: Table, *texts: str) -> dict[str, Cell]:
    for row in table.rows:
        if row[: len(texts)] == texts:
            return {h.name: e for h, e in zip(table.headers, row, strict=True) if isinstance(e, Cell)}
    raise AssertionError(texts)


# -- the main table ----------------------------------------------------------------------------------------------------


def test_main_table_shows_every_method_condition_and_both_averages():
    metrics = metrics_of(predictions())
    table = results_table(metrics)
    names = [header.name for header in table.headers]
    assert names == ["method", "average", "clean", "glare", "motion blur", "mean", "drop"]
    assert [row[:2] for row in table.rows] == [
        (method, average) for average in ("macro-3", "micro") for method in ("blind", "chance", "robust_to")
    ]
    rows = {(r["method"], r["condition"], r["task"]): r for r in metrics["rows"] if r["metric"] == "accuracy"}
    cell = row_of(table, "robust_to", "macro-3")["drop"]
    assert cell.value == pytest.approx(rows["robust_to", "drop", "macro"]["value"] * 100)
    assert cell.spread == pytest.approx(rows["robust_to", "drop", "macro"]["se"] * 100)
    assert [header.note for header in table.headers] == ["", "", "n=60", "n=60", "n=60", "n=120", "n=60"]


def test_caption_names_everything_the_numbers_depend_on():
    caption = results_table(metrics_of(predictions())).caption
    for part in (
        "boxworld, split val, policy scripted_v1",
        "60 questions on 15 videos",
        "severity 3",
        "coverage 0.5",
        "K = 8",
        "reader pyav",
    ):
        assert part in caption


def test_best_is_marked_by_direction_and_references_never():
    scores = {"chance": (1.0, 1.0), "blind": (1.0, 0.0), "robust_to": (0.0, 0.0)}
    records = [
        prediction(i, method, condition, scores[method][condition != "clean"])
        for i in range(12)
        for method in scores
        for condition in CONDITIONS[:2]
    ]
    table = results_table(metrics_of(records))
    blind, robust, chance = (row_of(table, method, "micro") for method in ("blind", "robust_to", "chance"))
    assert blind["clean"].best
    assert not robust["clean"].best
    assert robust["drop"].best  # 0 points lost beats 100
    assert not blind["drop"].best
    assert blind["glare"].best  # equal values are both the best
    assert robust["glare"].best
    assert not any(cell.best for cell in chance.values())


def test_gaps_are_stated():
    records = predictions()
    records[0] = prediction(0, "chance", "clean", None)
    unparsed = next(i for i, r in enumerate(records) if r.method == "blind" and r.condition == "clean")
    records[unparsed] = prediction(
        int(records[unparsed].sample_id[1:]), "blind", "clean", 0.0, status="unparsed", answer=None, reason="no letter"
    )
    lost = next(i for i, r in enumerate(records) if r.method == "robust_to" and r.condition == CONDITIONS[1])
    del records[lost]
    table = results_table(metrics_of(records, n_expected=64, duplicates=2))
    notes = "\n".join(table.footnotes)
    assert "Unscored, chance: clean 1 (between" in notes
    assert "clip_7.mp4: no index (1)" in notes
    assert "Unparsed answers (wrong): blind clean 1.7 %" in notes
    assert "Missing: robust_to under glare:s3:c0.5 has no answer to 1 questions" in notes
    assert "Left out of the drop, as not scored under every condition: chance 1, robust_to 1" in notes
    assert "60 of 64 questions have answers" in notes
    assert "2 repeated records" in notes
    assert row_of(table, "chance", "micro")["clean"].note == "(n=59)"
    assert row_of(table, "blind", "micro")["clean"].note == ""


def test_clean_run_of_one_task_has_one_block_and_no_drop():
    records = [prediction(i, "blind", "clean", float(i % 2), task="LP") for i in range(10)]
    table = results_table(metrics_of(records))
    assert [header.name for header in table.headers] == ["method", "average", "clean"]
    assert [row[:2] for row in table.rows] == [("blind", "LP")]
    assert comparison_table(metrics_of(records)) is None


def test_two_severities_of_one_corruption_are_told_apart():
    records = [prediction(i, "blind", c, 1.0) for i in range(4) for c in ("clean", "glare:s2:c0.5", "glare:s4:c0.5")]
    table = results_table(metrics_of(records))
    assert [header.name for header in table.headers][3:5] == ["glare s2 c0.5", "glare s4 c0.5"]
    assert "severity 2, 4" in table.caption


def test_other_tables_of_a_run():
    metrics = metrics_of(predictions())
    tasks = task_table(metrics)
    assert [row[0] for row in tasks.rows[:5]] == ["LP", "CF", "AO", "macro-3", "micro"]
    assert {row[1] for row in tasks.rows} == {"clean", "corrupted"}
    differences = comparison_table(metrics)
    cell = row_of(differences, "robust_to", "micro")["mean"]
    assert cell.number.startswith("+")
    assert cell.note.startswith("[")
    ((name, trust),) = trust_tables(metrics).items()
    assert [row[:2] for row in trust.rows] == [(c, m) for c in ("clean", "corrupted") for m in ("blind", "robust_to")]
    assert name == "trust-pooled" and "pooled" in trust.caption
    assert row_of(effort_table(metrics), "chance")["failed calls %"].number == "—"
    for table in (tasks, differences, trust, effort_table(metrics)):
        assert "boxworld, split val, policy scripted_v1" in table.caption


def test_every_form_is_made_from_the_metrics_file_alone():
    metrics = metrics_of(predictions())
    tables = tables_of(metrics)
    assert list(tables)[:3] == ["results", "differences", "tasks"] and list(tables)[-2:] == ["effort", "power"]
    report = Report(tables, "results", [], complete=results_table(metrics, complete=True))
    files = {name: text for form in (Markdown(), Csv(), Latex()) for name, text in form.render(report).items()}
    assert {*files} == {"table.md", "table.csv", "table.tex", *(f"tables/{name}.csv" for name in tables)}
    text = files["table.md"]
    assert text.count("\n| ---") == len(tables)
    assert "**" in text
    rows = list(csv.DictReader(io.StringIO(files["table.csv"])))
    assert {row["benchmark"] for row in rows} == {"boxworld"}
    assert [row["average"] for row in rows if row["method"] == "blind"] == ["macro-3", "micro", "LP", "CF", "AO"]
    shown = row_of(results_table(metrics_of(predictions())), "blind", "micro")["clean"]
    assert float(rows[3]["clean"]) == pytest.approx(shown.value, abs=1e-3)
    assert rows[3]["clean n"] == "60"
    latex = files["table.tex"]
    assert latex.count("\\begin{table}") == latex.count("\\end{table}") == len(tables)
    assert "\\label{tab:trust-pooled}" in latex
    assert "scripted\\_v1" in latex


# -- rendering ---------------------------------------------------------------------------------------------------------


def test_latex_is_escaped_and_booktabs():
    text = to_latex(results_table(metrics_of(predictions(), split="a&b_50%")), "tab:x")
    assert "a\\&b\\_50\\%" in text
    assert "\\toprule" in text
    assert "\\textbf{" in text
    assert "robust\\_to" in text
    assert not set(text) & set("±−—≤α")
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count("&") - line.count("\\&") for line in body} == {6}
    assert latex_escape("\\ {x} ~ ^ #$") == r"\textbackslash{} \{x\} \textasciitilde{} \textasciicircum{} \#\$"


def test_markdown_cells_cannot_break_out_of_the_table():
    table = Table("c", (results_table(metrics_of(predictions())).headers[0],), (("a|b\nc",),))
    assert "| a\\|b c" in to_markdown(table)


@pytest.mark.parametrize("width", [80, 200])
def test_no_digit_is_lost_in_a_narrow_terminal(width):
    from rich.console import Console

    table = results_table(metrics_of(predictions()))
    out = io.StringIO()
    print_table(table, Console(file=out, width=width))
    text = out.getvalue()
    for row in table.rows:
        for entry in row:
            assert (entry.number if isinstance(entry, Cell) else entry) in text
            assert not isinstance(entry, Cell) or entry.error in text
    assert "…" not in text
    if width == 80:
        assert max(map(len, text.splitlines())) <= 80


STUDY = Table(
    "Ours and theirs",
    (Header("method"), Header("average"), Header("clean"), Header("mean")),
    (
        ("blind", "micro", Cell(71.25, 1.5, 80, best=True), Cell(60.0, 1.0, 400, second=True)),
        ("robust_to", "micro", Cell(70.0, 1.5, 80), Cell(61.5, 1.0, 400, best=True)),
        ("GPT-4o (a)", "published", Cell(37.4), ""),
    ),
    rules=frozenset({0, 2}),
    muted=frozenset({2}),
    stamp={"benchmark": "boxworld"},
)


def test_second_and_muted_in_every_form():
    from rich.console import Console

    markdown, latex, rows = (
        to_markdown(STUDY),
        to_latex(STUDY, "tab:x"),
        list(csv.DictReader(io.StringIO(to_csv(STUDY)))),
    )
    assert "**71.2** ± 1.5" in markdown and "<u>60.0</u> ± 1.0" in markdown
    assert "| *GPT-4o (a)* | *published* |" in markdown and "*37.4*" in markdown and "**37.4" not in markdown
    assert "\\underline{60.0} $\\pm$ 1.0" in latex and "\\textcolor{gray}{37.4} &  \\\\" in latex and "xcolor" in latex
    assert [(row["published"], row["benchmark"]) for row in rows] == [
        ("no", "boxworld"),
        ("no", "boxworld"),
        ("yes", ""),
    ]
    assert (rows[2]["clean"], rows[2]["clean se"], rows[2]["mean"]) == ("37.4", "", "")
    out = io.StringIO()
    print_table(STUDY, Console(file=out, width=100, force_terminal=True, color_system="standard"))
    lines = out.getvalue().splitlines()
    assert any("\x1b[4m60.0\x1b[0m" in line for line in lines)
    assert any("\x1b[1m71.2\x1b[0m" in line for line in lines)
    theirs = next(line for line in lines if "GPT-4o" in line)
    assert "\x1b[2mGPT-4o" in theirs and "\x1b[1m" not in theirs


def test_tables_without_numbers_of_others_are_as_ever():
    table = results_table(metrics_of(predictions()))
    assert "published" not in to_csv(table) and "xcolor" not in to_latex(table, "tab:x")


def test_latex_is_balanced():
    """What pdflatex would refuse: an open environment, brace or box, a row with too many columns, a sign it lacks."""
    metrics = metrics_of(predictions(), split="100%_a&b#{x}")
    for name, table in {**tables_of(metrics), "study": STUDY}.items():
        text = to_latex(table, f"tab:{name}")
        bare = text.replace("\\{", "").replace("\\}", "").replace("\\%", "").replace("\\&", "").replace("\\#", "")
        code = "\n".join(line.partition("%")[0] for line in bare.splitlines())
        assert code.count("{") == code.count("}")
        depth = [code[:i].count("{") - code[:i].count("}") for i in range(len(code) + 1)]
        assert min(depth) == 0
        for environment in ("table", "tabular"):
            assert code.count(f"\\begin{{{environment}}}") == code.count(f"\\end{{{environment}}}") == 1
        body = [line for line in code.splitlines() if line.endswith("\\\\")]
        assert {line.count("&") for line in body} == {len(table.headers) - 1}
        assert text.isascii(), {c for c in text if ord(c) > 127}


def test_missing_values_are_never_numbers():
    cell = Cell(None, n=0)
    assert (cell.number, cell.error) == ("—", "")
    assert to_csv(Table("c", (), ())) == "\n"
    assert Cell(-0.04).number == "0.0"
    assert Cell(-1.25, decimals=1).number == "−1.2"


def test_marks():
    cells = [Cell(1.0), Cell(None), Cell(3.0), "text", Cell(3.02)]
    assert [isinstance(c, Cell) and c.best for c in mark_best(cells, "max")] == [False, False, True, False, True]
    assert [isinstance(c, Cell) and c.best for c in mark_best(cells, "min")] == [True, False, False, False, False]
    assert not any(c.best for c in mark_best([Cell(1.0), Cell(None)], "max"))
    assert [c.best for c in mark_best([Cell(9.0), Cell(1.0), Cell(2.0)], "max", [False, True, True])] == [
        False,
        False,
        True,
    ]


def seconds(cells: list, index: int | None, direction: str = "max") -> list[bool]:
    return [isinstance(c, Cell) and c.second for c in mark_second(mark_best(cells, direction), index)]


def test_only_one_second_is_marked():
    cells = [Cell(1.0), Cell(3.0), Cell(2.0), Cell(None)]
    assert seconds(cells, 2) == [False, False, True, False]
    assert seconds(cells, 2, "min") == [False, False, True, False]
    assert not any(seconds(cells, None))
    assert not any(seconds([Cell(3.0), Cell(3.01), Cell(2.0)], 1))  # both show the best number
    assert not any(seconds([Cell(3.0), Cell(2.0), Cell(2.01)], 2))  # both show the second number


def marked_run(gap: int) -> Table:
    """20 videos of one question each: "b" is right on all, "a" wrong on ``gap`` of them, the reference on none."""
    scores = {"chance": [1.0] * 20, "a": [0.0] * gap + [1.0] * (20 - gap), "b": [1.0] * 20, "c": [0.0] * 20}
    return results_table(
        metrics_of(
            [prediction(i, m, "clean", s, cluster=f"v{i}") for m, row in scores.items() for i, s in enumerate(row)]
        )
    )


@pytest.mark.parametrize(("gap", "behind"), [(1, False), (8, True)])
def test_the_second_is_marked_where_it_is_behind_by_more_than_chance(gap, behind):
    table = marked_run(gap)
    cells = {method: row_of(table, method, "micro")["clean"] for method in ("chance", "a", "b", "c")}
    assert [cells[m].best for m in ("chance", "a", "b", "c")] == [False, False, True, False]
    assert [cells[m].second for m in ("chance", "a", "b", "c")] == [False, behind, False, False]
    assert any("Underlined: second best" in note for note in table.footnotes)


def test_numbers_of_an_earlier_version_say_what_they_lack():
    metrics = metrics_of(predictions())
    old = {name: part for name, part in metrics.items() if name not in ("runners_up", "power")}
    old["rows"] = [row for row in metrics["rows"] if row["metric"] not in ("degradation", "relative_robustness")]
    tables = tables_of(old)
    assert not {"degradation", "power"} & tables.keys()
    assert any("mode=score adds them" in note for note in tables["results"].footnotes)
    assert not any(isinstance(e, Cell) and e.second for row in tables["results"].rows for e in row)


# -- degradation -------------------------------------------------------------------------------------------------------


def test_degradation_and_what_is_kept_of_clean():
    clean, glare, blur = [1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]
    records = [
        prediction(i, "blind", condition, float(score), cluster=f"v{i}", task="LP")
        for condition, row in zip(CONDITIONS, (clean, glare, blur), strict=True)
        for i, score in enumerate(row)
    ]
    table = tables_of(metrics_of(records))["degradation"]
    mean, one = row_of(table, "mean", "blind"), row_of(table, "motion blur", "blind")
    assert (mean["clean"].value, mean["corrupted"].value, mean["degradation"].value) == (75.0, 37.5, 37.5)
    assert mean["relative robustness"].value == pytest.approx(50.0)
    assert (one["degradation"].value, one["relative robustness"].value) == (50.0, pytest.approx(100 / 3))
    assert not {"severity", "coverage"} & tables_of(metrics_of(records)).keys()


# -- published numbers -------------------------------------------------------------------------------------------------


def test_numbers_of_others_are_muted_and_in_no_mark_or_average():
    from trustvid.evaluation.published_tables import load_published

    metrics = metrics_of(predictions())
    ours, both = tables_of(metrics), tables_of(metrics, load_published("robust_to/table2"), origin=("Run x.",))
    n = len(ours["results"].rows)
    assert both["results"].rows[:n] == ours["results"].rows and len(both["results"].rows) > n
    assert both["results"].muted == set(range(n, len(both["results"].rows)))
    assert not any(isinstance(e, Cell) and (e.best or e.second) for row in both["results"].rows[n:] for e in row)
    assert "Run x." in both["results"].footnotes and "Run x." in both["tasks"].footnotes
    assert both["differences"].rows == ours["differences"].rows
    with pytest.raises(DataError, match="belongs under"):
        tables_of(metrics_of([p for p in predictions() if p.condition != "clean"]), load_published("robust_to/table1"))


# -- runs.csv ----------------------------------------------------------------------------------------------------------


def runs() -> list[dict[str, str]]:
    with (DATA / "runs.csv").open() as file:
        return list(csv.DictReader(file))


def pivot(value: str, direction: str) -> Table:
    index = ("corruption", "severity", "frames")
    return pivot_table(runs(), index, "method", value, direction, measures=("acc", "latency_s"))


def test_higher_and_lower_are_better_each_in_its_place():
    accuracy = row_of(pivot("acc", "max"), "none", "0", "128")
    latency = row_of(pivot("latency_s", "min"), "none", "0", "128")
    assert {name: (cell.number, cell.best) for name, cell in accuracy.items()} == {
        "base": ("0.69", False),
        "ours": ("0.75", True),
    }
    assert {name: (cell.number, cell.best) for name, cell in latency.items()} == {
        "base": ("9.00", True),
        "ours": ("9.90", False),
    }


def test_numbers_sort_as_numbers():
    rows = [row[:3] for row in pivot("acc", "max").rows[:-1]]
    assert [row[2] for row in rows if row[0] == "none"] == ["8", "16", "128"]
    assert [row[1] for row in rows if row[0] == "low_light"] == ["2", "10"]
    assert sorted(["step_10000", "b", "step_9000", "2", "10", "1_0"], key=natural_key) == [
        "2",
        "10",
        "1_0",
        "b",
        "step_9000",
        "step_10000",
    ]


def test_a_missing_run_is_named_and_stays_out_of_the_average():
    table = pivot("acc", "max")
    missing = row_of(table, "none", "0", "16")["ours"]
    assert (missing.number, missing.value) == ("—", None)
    assert table.footnotes[0].startswith("1 run missing (no acc): corruption=none, severity=0, frames=16, method=ours")
    assert table.footnotes[1].startswith("3 settings not run: ")
    average = row_of(table, "average")
    assert (average["base"].number, average["ours"].number) == ("0.69", "0.75")  # over frames=128 alone, the shared one
    assert "1 of 5 settings" in table.footnotes[-1]


def test_repeated_runs_are_averaged_with_their_spread():
    cell = row_of(pivot("latency_s", "min"), "none", "0", "8")["base"]
    assert (cell.value, cell.n) == (pytest.approx(1.25), 2)
    assert cell.spread == pytest.approx(np.std([1.2, 1.3], ddof=1))


def test_settings_are_not_mixed_silently():
    with pytest.raises(DataError, match="mixes corruption=low_light, none"):
        pivot_table(runs(), "frames", "method", "acc", "max", measures=("latency_s",))
    with pytest.raises(DataError, match="fps"):
        pivot_table(runs(), "fps", "method", "acc", "max")


# -- several runs ------------------------------------------------------------------------------------------------------


def sweep(root: Path, severities=("10", "2", "99")) -> list[Path]:
    folders = []
    for severity in severities:
        folders.append(root / f"job-{severity}")
        info = RunInfo("demo", "0123456789", overrides=["benchmark=boxworld", f"severity={severity}"])
        try:
            with RunFolder(folders[-1]).writing(info) as writer:
                if severity == "99":
                    raise ValueError("severity=99 is outside 1–5")
                writer.write_json("metrics.json", metrics_of(predictions(severity=int(severity))))
        except ValueError:
            pass
    return folders


def test_a_sweep_with_a_failed_job_says_which_and_why(tmp_path):
    table = table_from_runs(sweep(tmp_path))
    assert table.footnotes[0].startswith("1 of 3 runs missing: severity=99 (status failed: ValueError: severity=99")
    assert list(dict.fromkeys(row[0] for row in table.rows)) == ["severity=2", "severity=10"]
    assert [header.name for header in table.headers][-5:] == ["clean", "glare", "motion blur", "mean", "drop"]
    assert "severity=2: severity 2." in table.footnotes
    assert "boxworld, split val, policy scripted_v1" in table.caption


def test_runs_are_not_told_apart_by_how_they_were_shown(tmp_path):
    words = {
        "a": ["frames=8", "show=power"],
        "b": ["frames=16", "report=[csv]"],
        "c": ["frames=16", "paths.outputs=/x"],
    }
    for name, overrides in words.items():
        with RunFolder(tmp_path / name).writing(RunInfo("demo", "0123456789", overrides=overrides)) as writer:
            writer.write_json("metrics.json", metrics_of(predictions()))
    table = table_from_runs([tmp_path / name for name in words])
    assert list(dict.fromkeys(row[0] for row in table.rows)) == ["frames=8", "frames=16, b", "frames=16, c"]


def test_runs_of_captions_are_refused(tmp_path):
    with RunFolder(tmp_path / "a").writing(RunInfo("demo", "0123456789")) as writer:
        writer.write_json("metrics.json", {"rows": [], "comparisons": [], "context": {"judges": ["x"]}})
    with pytest.raises(DataError, match="run of captions"):
        table_from_runs([tmp_path / "a"])


def test_a_job_that_died_before_its_run_began_is_known_by_hydras_file(tmp_path):
    folders = sweep(tmp_path, ("2", "3"))
    dead = tmp_path / "job-x"
    (dead / ".hydra").mkdir(parents=True)
    (dead / ".hydra" / "overrides.yaml").write_text("- benchmark=boxworld\n- severity=99\n")
    table = table_from_runs([*folders, dead])
    assert table.footnotes[0] == "1 of 3 runs missing: severity=99 (no run.json)."


def test_runs_of_different_benchmarks_are_told_apart_in_every_row(tmp_path):
    for split in ("val", "test"):
        with RunFolder(tmp_path / split).writing(RunInfo("demo", "0123456789")) as writer:
            writer.write_json("metrics.json", metrics_of(predictions(), split=split))
    table = table_from_runs([tmp_path / "val", tmp_path / "test"])
    assert [header.name for header in table.headers][:3] == ["run", "split", "method"]
    assert {row[1] for row in table.rows} == {"val", "test"}
    assert "split" not in table.caption


def test_no_numbers_at_all_is_an_error(tmp_path):
    with pytest.raises(DataError, match="none of 1 runs"):
        table_from_runs(sweep(tmp_path, ("99",)))
    with pytest.raises(DataError, match="no folder given"):
        table_from_runs([])


def test_reports_load_nothing_heavy():
    code = (
        "import sys, trustvid.evaluation.report, trustvid.evaluation.multirun, trustvid.evaluation.pool, "
        "trustvid.progress\n"
        "print(sorted({'scipy', 'rich', 'torch', 'cv2', 'filelock', 'yaml', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
