"""Figures: the numbers on them, what is drawn of which runs, bytes.

pytest tests/unit/test_plots.py -q -n 0
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from trustvid.errors import ConfigError, DataError
from trustvid.evaluation import stats
from trustvid.evaluation.metrics import compute_metrics
from trustvid.evaluation.plots import Figures
from trustvid.evaluation.plots.bars import constraint_bars, task_bars
from trustvid.evaluation.plots.catalogue import differing_setting, plots_of
from trustvid.evaluation.plots.curves import (
    blind_trust_plot,
    coverage_plot,
    reliability_diagram,
    risk_coverage_plot,
    setting_plot,
    severity_plot,
    training_plot,
    training_rows,
)
from trustvid.evaluation.plots.inputs import RunData
from trustvid.evaluation.plots.routing import count_routes, routing_plot
from trustvid.evaluation.plots.series import (
    Answers,
    calibration_bins,
    collect_answers,
    joined,
    levels,
    risk_coverage,
    strength_curves,
    trust_curve,
)
from trustvid.evaluation.plots.style import INK, styled, to_pdf, to_png, to_svg
from trustvid.evaluation.records import Condition, Prediction
from trustvid.evaluation.report_forms import Report
from trustvid.evaluation.store import RunFolder, RunInfo
from trustvid.evaluation.view import MetricsView

CONTEXT = {"benchmark": "boxworld", "split": "val", "policy": "scripted", "k": 8, "decode": {"reader": "pyav"}}
POOLS = {
    f"five:s{severity}:c{coverage}": [f"{name}:s{severity}:c{coverage}" for name in ("glare", "low_light")]
    for severity in (3, 5)
    for coverage in ("0.5", "1")
}


def predictions(conditions: list[str], methods=("blind", "robust_to"), n: int = 40) -> list[Prediction]:
    """Answers that fall with severity and, for blind, with unmoved confidence."""
    found = []
    for method in methods:
        for condition in conditions:
            severity = Condition.parse(condition).severity or 0
            rng = np.random.default_rng(len(found))
            for i in range(n):
                right = float(rng.random() < 0.9 - 0.1 * severity)
                confidence = 0.9 if method == "blind" else float(np.clip(0.3 + 0.5 * right + 0.2 * rng.random(), 0, 1))
                fields = {"sample_id": f"q{i:03}", "cluster": f"v{i // 4}", "task": ("LP", "CF")[i % 2]}
                fields |= {"method": method, "condition": condition, "truth": "A", "answer": "A" if right else "B"}
                found.append(
                    Prediction(**fields, score=right, confidence=confidence, confidence_source="stated", status="ok")
                )
    return found


def view_of(conditions: list[str], pools=None, context=CONTEXT, **how) -> MetricsView:
    return MetricsView(compute_metrics(predictions(conditions, **how), context, pools=pools))


POOLED = ["clean", *(name for members in POOLS.values() for name in members)]


@pytest.fixture(scope="module")
def pooled() -> MetricsView:
    return view_of(POOLED, POOLS)


@pytest.fixture(scope="module")
def answers() -> dict:
    return collect_answers(predictions(POOLED))


# -- the numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 7, 10, 203])
def test_bins_are_those_of_the_ece_and_the_curve_has_the_aurc_as_its_mean(n):
    rng = np.random.default_rng(n)
    answers = Answers(rng.integers(0, 6, n) / 5, (rng.random(n) < 0.6).astype(float))  # many ties
    bins = calibration_bins(answers)
    gap = sum(one.n * abs(one.score - one.confidence) for one in bins) / n
    assert sum(one.n for one in bins) == n
    assert gap == pytest.approx(stats.expected_calibration_error(*answers))
    share, risk = risk_coverage(answers)
    assert share[-1] == 1 and risk[-1] == pytest.approx(1 - answers.score.mean())
    assert risk.mean() == pytest.approx(stats.aurc(*answers))
    order = rng.permutation(n)
    assert np.allclose(risk_coverage(Answers(answers.confidence[order], answers.score[order]))[1], risk)


def test_levels_are_the_pools_or_the_one_strength_of_a_run(pooled):
    assert [(one.severity, one.coverage) for one in levels(pooled)] == [(3, 0.5), (3, 1.0), (5, 0.5), (5, 1.0)]
    single = view_of(["clean", "glare:s3:c0.5", "low_light:s3:c0.5"])
    assert [one.key for one in levels(single)] == ["corrupted mean"]
    assert levels(view_of(["clean", "glare:s3:c0.5", "low_light:s5:c0.5"])) == []


def test_strength_curves_hold_the_rows_of_the_tables(pooled):
    curves = {(c.panel, c.method): c for c in strength_curves([pooled], "severity", "macro")}
    assert {panel for panel, _ in curves} == {"five, coverage 0.5", "five, coverage 1"}
    points = curves["five, coverage 0.5", "blind"].points
    assert [point.x for point in points] == [0, 3, 5]
    row = pooled.row("blind", "five:s5:c0.5", "macro")
    assert (points[2].y, points[2].error) == (100 * row["value"], 100 * row["se"])
    assert points[0].y == 100 * pooled.row("blind", "clean", "macro")["value"]


def test_runs_of_a_sweep_make_one_curve_and_seeds_are_averaged():
    mild, heavy = (view_of(["clean", f"glare:s{s}:c0.5"]) for s in (1, 5))
    (curve, _) = strength_curves([heavy, mild], "severity", "micro")
    assert [point.x for point in curve.points] == [0, 1, 5] and curve.points[1].error is not None
    again = view_of(["clean", "glare:s5:c0.5"], n=36)
    (curve, _) = strength_curves([heavy, mild, again], "severity", "micro")
    values = [view.row("blind", "corrupted mean", "micro")["value"] for view in (heavy, again)]
    assert curve.points[2].y == pytest.approx(100 * np.mean(values)) and curve.points[2].error is None
    assert severity_plot([heavy]) is None and coverage_plot([mild, heavy]) is None


def test_trust_curve_is_accuracy_beside_confidence_of_the_same_answers(pooled, answers):
    curve = trust_curve(pooled, answers, "stated", "blind")
    assert [point.label for point in curve] == ["clean", "s3 c0.5", "s3 c1", "s5 c0.5", "s5 c1"]
    assert all(point.confidence == pytest.approx(0.9) for point in curve)
    assert curve[-1].accuracy == pytest.approx(pooled.row("blind", "five:s5:c1", "micro")["value"])
    both = joined(answers, "stated", "blind", lambda name: name != "clean")
    assert len(both.score) == 8 * 40 and len(joined(answers, "pooled", "blind", bool).score) == 0


def test_the_setting_in_which_runs_differ():
    assert differing_setting([["frames=8", "seed=0"], ["frames=32", "seed=1"]]) == ("frames", [8.0, 32.0])
    assert differing_setting([["frames=8"], ["frames=16", "severity=3"]]) == (None, [])
    assert differing_setting([["policy=tiny"], ["policy=scripted"]]) == (None, [])
    assert differing_setting([["+policy.max_pixels=100"], ["+policy.max_pixels=200"]])[0] == "policy.max_pixels"


def test_routes_are_counted_once_an_answer_with_failures_and_outcomes():
    call = {"sub_query": {"text": "?", "type": "text"}, "tool": "read_text", "error": None}
    failed = {**call, "tool": "detect_objects", "error": {"kind": "timeout", "message": "60 s"}}
    record = {"sample_id": "1", "method": "anchored", "condition": "clean", "dominant": "blur"}
    records = [{**record, "evidence": [call, failed]}, {**record, "evidence": [call]}]
    records.append({**record, "sample_id": "2", "evidence": [call]})
    cell = count_routes(records, {("1", "anchored", "clean"): 1.0})["anchored"]["text", "blur"]
    assert dict(cell.calls) == {"read_text": 2, "detect_objects": 1}
    assert (cell.n, cell.failures, cell.scores) == (3, 1, [1.0, 1.0])
    with styled():
        plot = routing_plot("anchored", {("text", "blur"): cell}, "boxworld")
    (cell_text,) = [text.get_text() for text in plot.figure.axes[0].texts]
    assert cell_text == "n=3, 100 % right, 33 % failed" and "text under blur: read_text" in plot.alt


# -- figures -----------------------------------------------------------------------------------------------------------


def drawn(pooled, answers) -> list:
    with styled():
        plots = [severity_plot([pooled]), coverage_plot([pooled]), task_bars(pooled)]
        plots += [make(pooled, answers) for make in (blind_trust_plot, reliability_diagram, risk_coverage_plot)]
        plots.append(setting_plot("frames", {"blind": {8: (50.0, 2.0), 64: (60.0, None)}}, "accuracy", "boxworld"))
    return plots


def test_every_figure_names_its_data_and_units_and_keeps_the_legend_off_the_data(pooled, answers):
    for plot in drawn(pooled, answers):
        assert "boxworld" in plot.caption and plot.alt.endswith(".") and plot.title
        to_png(plot, 80)  # lays it out
        for legend in plot.figure.legends:
            box = legend.get_window_extent()
            assert not any(box.overlaps(axes.get_window_extent()) for axes in plot.figure.axes), plot.title
        labels = [axes.get_xlabel() + axes.get_ylabel() for axes in plot.figure.axes]
        assert any("%" in label for label in labels), plot.title


def test_lines_of_the_severity_figure_are_the_curves(pooled):
    with styled():
        plot = severity_plot([pooled])
    line = plot.figure.axes[0].containers[0].lines[0]
    assert list(line.get_xdata()) == [0, 3, 5]
    assert line.get_ydata()[1] == pytest.approx(100 * pooled.row("blind", "five:s3:c0.5", "macro")["value"])


def test_equal_data_give_equal_bytes_and_the_svg_takes_the_colour_of_its_page(pooled):
    with styled():
        first, second = (severity_plot([pooled]) for _ in range(2))
    pdf = to_pdf(first)
    assert to_png(first) == to_png(second) and pdf == to_pdf(second)
    assert pdf.startswith(b"%PDF") and b"CreationDate" not in pdf
    svg = to_svg(first)
    assert svg == to_svg(second) and svg.startswith("<svg") and "currentColor" in svg and INK not in svg
    picture = Image.open(io.BytesIO(to_png(first)))
    assert picture.width > 600 and picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)


def test_nothing_is_drawn_of_data_that_are_not_there():
    silent = [
        Prediction(**{**vars(one), "confidence": None, "confidence_source": None})
        for one in predictions(["clean", "glare:s3:c0.5"])
    ]
    view = MetricsView(compute_metrics(silent, CONTEXT))
    found = collect_answers(silent)
    with styled():
        assert (
            blind_trust_plot(view, found) is reliability_diagram(view, found) is risk_coverage_plot(view, found) is None
        )
        assert task_bars(view_of(["glare:s3:c0.5"])) is None
        assert training_plot({"sft": [{"step": 0.0, "loss": 1.0}]}, "sft") is None


def test_training_curves_are_the_rows_of_the_csv(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,reward,rewards/acc/mean,kl\n0,1.0,0.25,0\n1,,0.5,0\n2,1.5,,0\n")
    rows = training_rows(path)
    with styled():
        plot = training_plot({"run": rows}, "experiment=embedded/grpo")
    total, accuracy = (axes.lines[0] for axes in plot.figure.axes)
    assert list(total.get_xdata()) == [0, 2] and list(accuracy.get_ydata()) == [0.25, 0.5]
    path.write_text("loss\n1\n")
    with pytest.raises(DataError, match="no rows with a step"):
        training_rows(path)


def caption_metrics() -> dict:
    row = {"judge": "rules_only", "condition": "rules=strict", "metric": "csr_micro", "se": 0.05, "n": 9, "unscored": 0}
    values = {("bar:JSON", "a"): 0.5, ("bar:JSON", "b"): 0.75, ("bar:Length", "a"): 0.25, ("bar:Length", "b"): None}
    rows = [{**row, "task": task, "method": method, "value": value} for (task, method), value in values.items()]
    context = {"benchmark": "if_vidcap", "split": "all", "policy": "import", "methods": ["a", "b"]}
    context |= {"judges": ["rules_only"], "headline": "strict", "n_instructions": 9, "n_videos": 3}
    return {"rows": rows, "comparisons": [], "agreement": [], "context": context}


def test_constraint_bars_show_each_captioner_and_leave_out_what_is_unscored():
    with styled():
        plot = constraint_bars(caption_metrics())
        assert constraint_bars({**caption_metrics(), "rows": []}) is None
    a, b = (container for container in plot.figure.axes[0].containers if hasattr(container, "patches"))
    assert [bar.get_width() for bar in a] == [50, 25] and [bar.get_width() for bar in b] == [75]
    assert "if_vidcap" in plot.caption and "rules strict" in plot.caption


# -- the form ----------------------------------------------------------------------------------------------------------


def stored(folder: Path, conditions: list[str], overrides: tuple[str, ...] = (), k: int = 8) -> Path:
    found = predictions(conditions)
    with RunFolder(folder).writing(RunInfo(folder.name, "0" * 10, overrides=overrides)) as writer:
        writer.append("predictions", found)
        writer.write_json("metrics.json", compute_metrics(found, {**CONTEXT, "k": k}))
    return folder


def test_the_form_writes_what_a_run_allows_and_says_what_not(tmp_path, capsys):
    run = stored(tmp_path / "a", ["clean", "glare:s3:c0.5"])
    files = Figures(formats=["png", "svg"], dpi=80).render(Report({}, "results", [run]))
    names = {"blind-trust", "reliability-diagram", "risk-coverage", "tasks"}
    assert set(files) == {f"figures/{n}.{kind}" for n in names for kind in ("png", "svg")} | {"figures/figures.md"}
    assert files["figures/tasks.png"].startswith(b"\x89PNG") and files["figures/tasks.svg"].startswith("<svg")
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == [f"no figure {n}" for n in ("severity", "coverage", "routing")]
    assert "save_trajectories=true" in said[2] and "boxworld, split val, policy scripted" in files["figures/figures.md"]


def test_several_runs_are_curves_over_what_they_differ_in(tmp_path):
    runs = [stored(tmp_path / f"k{k}", ["clean", "glare:s3:c0.5"], (f"frames={k}", "name=x"), k) for k in (8, 16)]
    found = plots_of([RunData(run) for run in runs])
    assert set(found.plots) == {"frames-clean", "frames-corrupted-mean"}
    line = found.plots["frames-clean"].figure.axes[0].containers[0].lines[0]
    assert list(line.get_xdata()) == [8, 16]
    swept = [stored(tmp_path / f"s{s}", ["clean", f"glare:s{s}:c0.5"], (f"severity={s}",)) for s in (1, 5)]
    assert set(plots_of([RunData(run) for run in swept]).plots) == {"severity"}


def test_a_job_that_left_no_numbers_is_named(tmp_path, capsys):
    swept = [stored(tmp_path / f"s{s}", ["clean", f"glare:s{s}:c0.5"], (f"severity={s}",)) for s in (1, 5)]
    files = Figures(formats=["svg"]).render(Report({}, "runs", [*swept, tmp_path / "failed"]))
    assert "figures/severity.svg" in files and "failed: holds neither metrics.json" in files["figures/figures.md"]
    assert "left out of the figures: " in capsys.readouterr().out
    with pytest.raises(DataError, match="failed"):
        Figures().render(Report({}, "runs", [tmp_path / "failed"]))


def test_settings_of_the_form_are_checked_together():
    with pytest.raises(ConfigError) as caught:
        Figures(formats=["gif"], dpi=5)
    assert len(caught.value.faults) == 2 and "png, pdf, svg" in str(caught.value)


def test_a_conversation_that_is_none_is_an_error_and_a_cut_line_is_not(tmp_path):
    whole = {"sample_id": "1", "method": "a", "condition": "clean", "evidence": []}
    path = tmp_path / "trajectories.jsonl"
    path.write_text(json.dumps(whole) + '\n{"sample_id": "2"')
    assert [one["sample_id"] for one in RunData(tmp_path).trajectories()] == ["1"]
    path.write_text('{"sample_id": "2"}\n')
    with pytest.raises(DataError, match="line 1"):
        list(RunData(tmp_path).trajectories())
