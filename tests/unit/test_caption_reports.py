"""Tables and figures of captions: bins by hand, marks, published rows, several runs, statistics, frames of a size.

pytest tests/unit/test_caption_reports.py -q -n 0
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from trustvid.captioning.figures import bins_plot, types_plot
from trustvid.captioning.files import read_object, read_prompts
from trustvid.captioning.frame_size import SizedClip, SizedReader
from trustvid.captioning.metrics import by_constraints, by_words, metric_rows
from trustvid.captioning.outcomes import Constraint, Outcome
from trustvid.captioning.report import CaptionView, caption_tables_of
from trustvid.captioning.runs import caption_runs_table
from trustvid.captioning.statistics import checklist_statistics, prompt_statistics, video_statistics
from trustvid.captioning.statistics_report import statistics_tables
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, DataError
from trustvid.evaluation.plots.style import to_png
from trustvid.evaluation.published_tables import load_published
from trustvid.evaluation.store import RunFolder, RunInfo
from trustvid.evaluation.tables import Cell
from trustvid.stages.caption_report import caption_runs_report, of_captions, run_report
from trustvid.stages.caption_scoring import CaptionerScores, metrics_of
from trustvid.video.reader import Reader

DATA = Path(__file__).resolve().parents[1] / "data" / "if_vidcap"
ABOUT = {"benchmark": "made up", "split": "all", "policy": "several", "decode": {"frames": 8}, "n_expected": 40}


def rule(value: bool | None, name: str = "length") -> Constraint:
    return Constraint("rule", name, (("rule", value),))


def content(value: bool, name: str = "include") -> Constraint:
    return Constraint("open", name, (("attempt", True), ("correctness", value)))


def outcomes(rate: float, seed: int, videos: int = 12) -> list[Outcome]:
    """Two instructions a video; each constraint holds with probability ``rate``."""
    rng = np.random.default_rng(seed)
    found = []
    for video in range(videos):
        for prompt in (1, 2):
            held = rng.random(2 + video % 4) < rate
            parts = [rule(bool(h), ("length", "json_object")[i % 2]) for i, h in enumerate(held)]
            parts.append(content(bool(rng.random() < rate)))
            found.append(Outcome(f"v{video:02d}", f"0{prompt}", "For Retrieval", 15 + 3 * video, tuple(parts)))
    return found


def metrics(**rates: float) -> dict:
    """``metrics.json`` of captioners whose constraints hold at these rates."""
    scored = {}
    for seed, (name, rate) in enumerate(rates.items()):
        kept = outcomes(rate, seed)
        scored[name, "judge"] = CaptionerScores(outcomes={"strict": kept, "upstream": kept})
    return metrics_of(scored, ABOUT, 0, "strict")


def run_folder(path: Path, found: dict | None, *words: str) -> Path:
    with RunFolder(path).writing(RunInfo("sweep", "0" * 10, overrides=words)) as writer:
        if found is not None:
            writer.write_json("metrics.json", found)
    return path


# -- bins --------------------------------------------------------------------------------------------------------------


def test_instructions_fall_into_the_bins_of_figure_4():
    sized = [Outcome("v", f"{n}", "f", 30, tuple(rule(True) for _ in range(n))) for n in range(1, 13)]
    found = {name: [len(o.constraints) for o in kept] for name, kept in by_constraints(sized)}
    assert found == {
        "constraints:0–1": [1],
        "constraints:2–3": [2, 3],
        "constraints:4–5": [4, 5],
        "constraints:6–7": [6, 7],
        "constraints:8–9": [8, 9],
        "constraints:10+": [10, 11, 12],
    }
    long = [Outcome("v", f"{n}", "f", n, (rule(True),)) for n in (0, 19, 20, 39, 40, 59, 60, 79, 80, 200)]
    found = {name: [o.n_words for o in kept] for name, kept in by_words(long)}
    assert found == {
        "words:0–19": [0, 19],
        "words:20–39": [20, 39],
        "words:40–59": [40, 59],
        "words:60–79": [60, 79],
        "words:80+": [80, 200],
    }


def test_a_bin_holds_the_isr_and_csr_of_its_instructions_alone():
    kept = [
        Outcome("a", "01", "f", 10, (rule(True), rule(True))),
        Outcome("a", "02", "f", 10, (rule(True), rule(False), rule(True))),
        Outcome("b", "01", "f", 25, (rule(False), rule(False), rule(True), rule(True))),
    ]
    rows = {(row["task"], row["metric"]): (row["value"], row["n"]) for row in metric_rows(kept)}
    assert rows["constraints:2–3", "isr"] == (0.5, 2) and rows["constraints:2–3", "csr_micro"] == (0.8, 5)
    assert rows["constraints:4–5", "csr_micro"] == (0.5, 4) and rows["words:20–39", "isr"] == (0.0, 1)
    assert rows["words:0–19", "csr_macro"] == (pytest.approx((1 + 2 / 3) / 2), 2)


# -- tables ------------------------------------------------------------------------------------------------------------


def marks(table, column: str) -> dict[str, str]:
    place = [header.name for header in table.headers].index(column)
    cells = {str(row[0]): row[place] for row in table.rows if str(row[2]) == "strict"}
    return {name: "best" if c.best else "second" if c.second else "" for name, c in cells.items()}


def test_the_second_is_marked_only_where_the_best_is_ahead_by_more_than_chance():
    apart = caption_tables_of(metrics(base=0.2, good=0.95, fair=0.6))["results"]
    assert marks(apart, "CSR") == {"base": "", "good": "best", "fair": "second"}
    close = caption_tables_of(metrics(base=0.2, one=0.90, two=0.89))["results"]
    assert sorted(marks(close, "CSR").values()) == ["", "", "best"]


def test_differences_stay_to_the_first_captioner_though_the_leaders_are_compared_too():
    found = metrics(base=0.2, good=0.95, fair=0.6)
    pairs = {(row["a"], row["b"]) for row in found["comparisons"]}
    assert pairs == {("good", "base"), ("fair", "base"), ("good", "fair")}
    table = caption_tables_of(found)["differences"]
    assert [row[0] for row in table.rows[:2]] == ["good", "fair"] and "Difference to base" in table.caption
    assert table.rows[0][4].value > table.rows[1][4].value > 0


def test_published_rows_stand_below_ours_and_change_nothing_above():
    found = metrics(base=0.2, good=0.95)
    plain, shown = caption_tables_of(found)["results"], caption_tables_of(found, load_published("if_vidcap/table2"))
    table = shown["results"]
    assert table.rows[: len(plain.rows)] == plain.rows and len(table.muted) == 27
    assert min(table.muted) == len(plain.rows) and not shown["differences"].muted and not shown["facts"].muted
    gemini = table.rows[len(plain.rows)]
    assert gemini[0] == "Gemini-2.5-Pro" and [c.value for c in gemini[3:5]] == [27.83, 74.53]
    assert any("1.92" in note for note in table.footnotes)


def test_captioners_by_bars_take_the_published_figure():
    table = caption_tables_of(metrics(good=0.9), load_published("if_vidcap/fig5"))["captioner-bars"]
    assert [header.name for header in table.headers] == ["captioner", "JSON", "Length", "Include&Exclude"]
    assert table.rows[0][0] == "good" and isinstance(table.rows[0][1], Cell)
    length = {row[0]: row[2].value for row in table.rows}
    assert length["Gemini-2.5-Pro"] == 81.9 and len(table.muted) == 16


# -- several runs ------------------------------------------------------------------------------------------------------


def test_runs_of_a_sweep_are_sorted_by_value_and_a_lost_one_is_named(tmp_path):
    folders = [
        run_folder(tmp_path / f"r{frames}", metrics(scripted=rate) if rate else None, "x=1", f"frames={frames}")
        for frames, rate in ((128, 0.9), (8, 0.3), (16, 0.6), (32, None))
    ]
    table = caption_runs_table(folders)
    assert [row[1] for row in table.rows] == ["frames=8", "frames=16", "frames=128"]
    csr = [row[4] for row in table.rows]
    assert csr[0].value < csr[1].value < csr[2].value and [cell.best for cell in csr] == [False, False, True]
    assert any("1 of 4 runs missing: frames=32" in note for note in table.footnotes)
    assert of_captions(folders) and "made up, split all" in table.caption
    typed = EvaluateConfig(name="x", runs="r*", published="if_vidcap/table2", methods={"blind": {}})
    report = caption_runs_report(typed, folders)
    assert report.shown in report.tables and len(report.tables[report.shown].muted) == 27


def test_the_best_of_several_runs_is_marked_for_each_judge_and_among_equal_instructions_only(tmp_path):
    def folders(name: str, **other: object) -> list[Path]:
        found = [metrics(one=0.3), metrics(two=0.9), metrics(three=0.95)]
        found[0]["context"]["policy"], found[1]["context"]["policy"] = "one", "two"
        found[2]["context"].update(judges=["kind"])
        found[2]["rows"] = [{**row, "judge": "kind"} for row in found[2]["rows"]]
        found[1]["context"].update(other)
        return [run_folder(tmp_path / name / str(i), one, f"policy={i}") for i, one in enumerate(found)]

    best = {row[0]: row[4].best for row in caption_runs_table(folders("same")).rows}
    assert best == {"one": False, "two": True, "three": False}, "a kind judge wins nothing"
    table = caption_runs_table(folders("other", n_constraints=7))
    assert not any(row[4].best for row in table.rows)


def test_runs_of_questions_or_none_are_refused(tmp_path):
    questions = run_folder(tmp_path / "q", {"context": {"methods": []}, "rows": []}, "x=1")
    assert not of_captions([questions])
    with pytest.raises(DataError, match="numbers are of questions"):
        caption_runs_table([questions])
    with pytest.raises(DataError, match="none of 1 caption runs"):
        caption_runs_table([run_folder(tmp_path / "lost", None, "x=2")])


def test_a_report_says_what_it_lacks(tmp_path):
    folder = run_folder(tmp_path / "run", metrics(good=0.9))
    with pytest.raises(ConfigError, match="show=agreement: this run has no such table; it has results"):
        run_report(EvaluateConfig(name="x", show="agreement"), folder)
    with pytest.raises(DataError, match="belongs under agreement, which this run does not have"):
        run_report(EvaluateConfig(name="x", published="if_vidcap/table3"), folder)
    with pytest.raises(DataError, match="run mode=score"):
        run_report(EvaluateConfig(name="x"), run_folder(tmp_path / "empty", None))


# -- figures -----------------------------------------------------------------------------------------------------------


def test_figures_show_the_numbers_of_the_rows():
    found = metrics(good=0.9, fair=0.5)
    view = CaptionView(found)
    bins, types = bins_plot(view, "constraints"), types_plot(view, load_published("if_vidcap/fig5"))
    rows = {(r["method"], r["task"], r["metric"]): r for r in found["rows"] if r["condition"] == "rules=strict"}
    left, right = bins.figure.axes
    assert left.get_ylabel() == "ISR, %" and right.get_ylabel() == "CSR, %"
    labels = [text.get_text().partition("\n")[0] for text in left.get_xticklabels()]
    assert labels == ["2–3", "4–5", "6–7"]
    drawn = left.containers[0].lines[0].get_ydata()
    assert drawn == pytest.approx([100 * rows["good", f"constraints:{label}", "isr"]["value"] for label in labels])
    places = types.figure.axes
    assert [[t.get_text() for t in axes.get_xticklabels()] for axes in places] == [
        ["JSON", "Length"],
        ["Include&Exclude"],
    ]
    published = [line for line in places[0].lines if line.get_marker() == "_"]
    assert len(published) == 16 and published[0].get_ydata()[1] == 81.9
    assert "16 models" in types.caption and "made up" in bins.caption and "fair, CSR from" in bins.alt
    assert to_png(bins, 60) == to_png(bins_plot(view, "constraints"), 60), "equal numbers, equal bytes"


def test_nothing_is_drawn_of_a_single_bin():
    kept = [Outcome("v", "01", "f", 10, (rule(True, "unheard_of"), rule(True, "unheard_of")))]
    found = metrics_of({("a", "j"): CaptionerScores(outcomes={"strict": kept, "upstream": kept})}, ABOUT, 0, "strict")
    view = CaptionView(found)
    assert bins_plot(view, "constraints") is bins_plot(view, "words") is None
    assert types_plot(view, load_published("if_vidcap/fig5")) is None


# -- statistics --------------------------------------------------------------------------------------------------------


def test_checklists_are_counted():
    checklists = json.loads((DATA / "annotation" / "checklist.json").read_text(encoding="utf-8"))
    given = [row["checklist"] for of_video in checklists.values() for row in of_video]
    found = checklist_statistics([*given, None])
    rules = sum(len(one["ruled_based_check"]) for one in given)
    groups = sum(len(one["open_ended_check"]) for one in given)
    asked = sum(len(group["check_items"]) for one in given for group in one["open_ended_check"])
    assert (found["checklists"], found["rule_items"], found["groups"]) == (len(given), rules, groups)
    assert found["constraints"]["mean"] == pytest.approx((rules + groups) / len(given))
    assert found["questions"]["total"] == asked == sum(found["question_types"].values())
    assert found["checks"]["mean"] == pytest.approx((rules + asked) / len(given))
    assert sum(found["constraints"]["histogram"].values()) == len(given) and sum(found["ids"].values()) == rules
    assert checklist_statistics([None])["constraints"]["mean"] is None


def numbers(table) -> dict[str, list[str]]:
    return {row[0]: [entry.number for entry in row[1:] if isinstance(entry, Cell)] for row in table.rows}


def test_statistics_of_the_official_files_are_those_of_the_paper(shared_dir):
    folder = shared_dir / "data" / "if_vidcap"
    instructions, _ = read_prompts(folder / "prompt.json")
    meta = read_object(folder / "video_meta_info.json", "meta")
    found = {
        "prompts": prompt_statistics(instructions),
        "checklists": checklist_statistics([]),
        "videos": video_statistics(meta, {one.key.video for one in instructions}),
    }
    tables = statistics_tables(found, {"benchmark": "if_vidcap", "split": "all"})
    assert numbers(tables["statistics"])["if_vidcap"] == ["350", "1400", "27", "5.80", "—", "20.0", "37.8"]
    ids = numbers(tables["statistics-ids"])
    assert len(ids) == 28 and ids["include"] == ["1326", "827", "—"] and ids["case"] == ["61", "61", "—"]
    assert ids["if_else"][0] == "6" and next(iter(ids)) == "plain_text"
    sizes = numbers(tables["statistics-constraints"])
    assert sizes["2"] == ["56", "—"] and sizes["5"] == ["268", "—"] and sizes["19"] == ["1", "—"] and len(sizes) == 16
    fields = numbers(tables["statistics-fields"])
    assert fields["For Understanding"] == ["349", "24.9", "44.0", "6.03"]
    assert fields["For Sports Analytics"] == ["25", "1.8", "51.9", "6.84"]


# -- frames of one size ------------------------------------------------------------------------------------------------


def test_frames_have_the_size_asked_for_and_a_key_of_their_own(shared_dir):
    path = shared_dir / "cases" / "videos" / "v01_cfr30_90f.mp4"
    plain = Reader().open(path)
    small, large = SizedReader(side=32).open(path), SizedReader(side=448).open(path)
    assert isinstance(small, SizedClip) and (small.width, small.height, small.n_frames) == (32, 32, plain.n_frames)
    for clip, side in ((small, 32), (large, 448)):
        frames = clip.frames([3, 80, 3])
        assert frames.shape == (3, side, side, 3) and frames.dtype == np.uint8
        assert np.array_equal(frames[0], frames[2]) and not np.array_equal(frames[0], frames[1])
    assert abs(float(small.frames([10]).mean()) - float(plain.frames([10]).mean())) < 2.0, "the same picture"
    assert small.frame_key(3) != large.frame_key(3) and plain.frame_key(3) in small.frame_key(3)
    assert small.frames([]).shape == (0, 32, 32, 3) and small.digest == plain.digest
    with pytest.raises(IndexError):
        small.frames([plain.n_frames])


@pytest.mark.parametrize(("settings", "fault"), [({"side": 8}, "reader.side=8"), ({"side": 64, "kind": "x"}, "kind=x")])
def test_a_wrong_size_or_setting_is_refused(settings, fault):
    with pytest.raises(ConfigError, match=fault):
        SizedReader(**settings)
