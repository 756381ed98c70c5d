"""Several severities and coverages in one run: its conditions, its pools checked by hand, its tables, its clips.

pytest tests/unit/test_suites.py -q -n 0
"""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from rich.console import Console

from trustvid.benchmarks.boxworld.benchmark import BoxWorld
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, DataError
from trustvid.evaluation import stats
from trustvid.evaluation.jsonfiles import dump_json
from trustvid.evaluation.metrics import compute_metrics
from trustvid.evaluation.multirun import table_from_runs
from trustvid.evaluation.provenance import config_hash
from trustvid.evaluation.records import Prediction
from trustvid.evaluation.render import print_table
from trustvid.evaluation.report import (
    comparison_table,
    conditions_table,
    effort_table,
    results_table,
    tables_of,
    task_table,
)
from trustvid.evaluation.report_forms import Csv, Report
from trustvid.evaluation.store import RunFolder, RunInfo
from trustvid.evaluation.suites import conditions_of, pools_of, read_pools
from trustvid.evaluation.tables import Cell, Table
from trustvid.evaluation.trust_tables import trust_tables
from trustvid.seeding import derive_rng
from trustvid.stages.evaluate import unread_settings, video_time_limit

CONFIG = {
    "severity": 3,
    "coverage": 0.5,
    "corruption": {"glare": {}, "low_light": {}, "occlusion": {}},
    "suites": {
        "two": {"corruption": ["low_light", "glare"], "severity": [5, 3], "coverage": [0.5, 1.0]},
        "more": {"corruption": ["glare", "occlusion"], "severity": [5], "coverage": [1]},
    },
}
CONTEXT = {"benchmark": "boxworld", "split": "val", "policy": "scripted_v1", "k": 8, "decode": {"reader": "pyav"}}
METHODS = ("chance", "no_evidence", "blind", "robust_to")
N, PER_VIDEO = 48, 4


def is_scored(i: int, method: str, condition: str) -> bool:
    """All but one answer of blind, and another one of robust_to, both under glare:s5:c1."""
    return (i, method, condition) not in ((3, "blind", "glare:s5:c1"), (9, "robust_to", "glare:s5:c1"))


def predictions() -> list[Prediction]:
    rng = np.random.default_rng(0)
    made = []
    for condition in conditions_of(CONFIG):
        for method, rate in zip(METHODS, (0.25, 0.3, 0.6, 0.7), strict=True):
            for i in range(N):
                score, confidence = float(rng.random() < rate), float(rng.uniform(0.3, 1.0))
                scored = is_scored(i, method, condition)
                stated = scored and method != "chance"
                made.append(
                    Prediction(
                        sample_id=f"q{i:03}",
                        cluster=f"v{i // PER_VIDEO:02}",
                        task=("LP", "AO", "AO")[i % 3],
                        method=method,
                        condition=condition,
                        truth="A",
                        answer="A" if scored else None,
                        score=score if scored else None,
                        confidence=confidence if stated else None,
                        confidence_source="pooled" if stated else None,
                        status="ok" if scored else "unscored",
                        reason=None if scored else "clip.mp4: broken",
                        calls=2,
                        cost=0.5,
                    )
                )
    return made


@pytest.fixture(scope="module")
def made() -> list[Prediction]:
    return predictions()


@pytest.fixture(scope="module")
def metrics(made) -> dict:
    """As a table sees them: read back from the file's text."""
    computed = compute_metrics(
        made,
        {**CONTEXT, "offsets": [0, 1]},
        methods=METHODS,
        conditions=conditions_of(CONFIG),
        pools=pools_of(CONFIG),
        tasks=("LP", "AO"),
        seed=7,
    )
    return json.loads(dump_json(computed))


def values(made: list[Prediction], method: str, conditions: list[str], name: str = "score") -> np.ndarray:
    """[C, N] of a field, questions in the order of their ids; NaN where there is none."""
    rows = {(p.condition, p.sample_id): getattr(p, name) for p in made if p.method == method}
    return np.array([[rows[condition, f"q{i:03}"] for i in range(N)] for condition in conditions], dtype=float)


def row_of(metrics: dict, method: str, condition: str, metric: str = "accuracy", task: str = "micro") -> dict:
    where = {"method": method, "condition": condition, "metric": metric, "task": task}
    (found,) = [row for row in metrics["rows"] if all(row[key] == value for key, value in where.items())]
    return found


# -- conditions and pools ----------------------------------------------------------------------------------------------


def test_conditions_come_in_the_order_of_the_suites_each_once():
    assert conditions_of(CONFIG) == [
        "clean",
        *(f"low_light:{strength}" for strength in ("s5:c0.5", "s5:c1", "s3:c0.5", "s3:c1")),
        *(f"glare:{strength}" for strength in ("s5:c0.5", "s5:c1", "s3:c0.5", "s3:c1")),
        "occlusion:s5:c1",
    ]
    assert pools_of(CONFIG) == {
        **{f"two:{s}": [f"low_light:{s}", f"glare:{s}"] for s in ("s5:c0.5", "s5:c1", "s3:c0.5", "s3:c1")},
        "more:s5:c1": ["glare:s5:c1", "occlusion:s5:c1"],
    }


@pytest.mark.parametrize("config", [{**CONFIG, "suites": {}}, {k: v for k, v in CONFIG.items() if k != "suites"}])
def test_without_suites_every_corruption_is_at_the_one_severity_and_coverage(config):
    assert conditions_of(config) == ["clean", "glare:s3:c0.5", "low_light:s3:c0.5", "occlusion:s3:c0.5"]
    assert pools_of(config) == {}


def test_only_what_a_run_reads_names_its_folder():
    def digest(**changes) -> str:
        config = {**CONFIG, **changes}
        return config_hash(config, unread_settings(config))

    bare = {key: value for key, value in CONFIG.items() if key != "suites"}
    assert digest(suites={}) == config_hash(bare, unread_settings(bare)) != digest()
    assert digest(severity=1, coverage=0.25) == digest()
    assert digest(severity=1, suites={}) != digest(suites={})


def test_a_video_gets_more_time_for_more_conditions():
    typed = EvaluateConfig(name="x", video_time_limit_s=60.0)
    assert [video_time_limit(typed, n) for n in (1, 6, 12, 27)] == [60.0, 60.0, 120.0, 270.0]


# -- numbers of a pool -------------------------------------------------------------------------------------------------


def test_a_pool_is_the_unweighted_mean_of_its_conditions(made, metrics):
    for pool, members in pools_of(CONFIG).items():
        for method in METHODS:
            scores = values(made, method, members)
            row = row_of(metrics, method, pool)
            assert row["value"] == pytest.approx(np.nanmean(scores, axis=1).mean(), abs=1e-9)
            assert (row["n"], row["unscored"]) == (np.sum(~np.isnan(scores)), np.sum(np.isnan(scores)))
            single = [row_of(metrics, method, condition, task="macro")["value"] for condition in members]
            assert row_of(metrics, method, pool, task="macro")["value"] == pytest.approx(np.mean(single), abs=1e-9)
    assert row_of(metrics, "blind", "more:s5:c1")["unscored"] == 1
    low, high = (row_of(metrics, "blind", "more:s5:c1")[name] for name in ("bound_low", "bound_high"))
    assert high - low == pytest.approx(1 / (2 * N), abs=1e-9)


def test_calibration_and_risk_of_a_pool_are_means_over_its_conditions(made, metrics):
    measures = {"ece": stats.expected_calibration_error, "aurc": stats.aurc, "brier": stats.brier_score}
    members = pools_of(CONFIG)["two:s3:c1"]
    scores, confidences = (values(made, "robust_to", members, name) for name in ("score", "confidence"))
    for name, measure in measures.items():
        by_hand = np.mean([measure(c, s) for c, s in zip(confidences, scores, strict=True)])
        assert row_of(metrics, "robust_to", "two:s3:c1", f"{name}/pooled")["value"] == pytest.approx(by_hand, abs=1e-9)


@pytest.mark.parametrize("pool", ["two:s5:c1", "more:s5:c1", "two:s3:c0.5"])
def test_the_paired_difference_of_a_pool_is_that_of_the_raw_arrays(pool, made, metrics):
    members = pools_of(CONFIG)[pool]
    a, b = (values(made, method, members).reshape(-1) for method in ("robust_to", "blind"))
    both = ~np.isnan(a) & ~np.isnan(b)
    diffs = (a - b)[both]
    videos = np.tile(np.arange(N) // PER_VIDEO, len(members))[both]
    cells = np.repeat(np.arange(len(members)), N)[both]
    (found,) = [
        c for c in metrics["comparisons"] if (c["a"], c["condition"], c["task"]) == ("robust_to", pool, "micro")
    ]
    by_hand = np.mean([diffs[cells == cell].mean() for cell in range(len(members))])
    assert found["diff"] == pytest.approx(by_hand, abs=1e-9)
    assert (found["n"], found["clusters"], found["unpaired"]) == (both.sum(), N // PER_VIDEO, np.sum(~both))
    # The interval: draw whole videos, average within conditions, then over them.
    draws = derive_rng(7, "bootstrap", "robust_to", "blind", pool, "micro").multinomial(
        N // PER_VIDEO, [PER_VIDEO / N] * (N // PER_VIDEO), size=stats.RESAMPLES
    )
    weights = draws[:, videos].astype(float)
    means = [
        (weights[:, cells == cell] @ diffs[cells == cell]) / weights[:, cells == cell].sum(axis=1)
        for cell in range(len(members))
    ]
    interval = np.quantile(np.mean(means, axis=0), [0.025, 0.975])
    assert [found["ci_low"], found["ci_high"]] == pytest.approx(interval, abs=1e-9)


def test_severities_are_never_averaged(metrics):
    names = {row["condition"] for row in metrics["rows"]} | {c["condition"] for c in metrics["comparisons"]}
    assert names == {*conditions_of(CONFIG), *pools_of(CONFIG)}  # neither "corrupted mean" nor "drop"
    assert read_pools(metrics["context"]["pools"]) == pools_of(CONFIG) and metrics["context"]["unpaired"] == []
    assert metrics["context"]["conditions"] == conditions_of(CONFIG)


def test_another_baseline_turns_the_differences(made):
    turned = compute_metrics(made, CONTEXT, methods=METHODS, pools=pools_of(CONFIG), baseline="robust_to")
    assert turned["context"]["baseline"] == "robust_to" and {c["b"] for c in turned["comparisons"]} == {"robust_to"}


def test_pools_of_what_is_not_there_are_refused(made):
    with pytest.raises(DataError, match="fog:s5:c1"):
        compute_metrics(made, CONTEXT, pools={"x:s5:c1": ["fog:s5:c1"]})
    with pytest.raises(DataError, match="have the names"):
        compute_metrics(made, CONTEXT, pools={"glare:s5:c1": ["low_light:s5:c1"]})


# -- tables ------------------------------------------------------------------------------------------------------------

POOL_COLUMNS = ["two s5 c0.5", "two s5 c1", "two s3 c0.5", "two s3 c1", "more s5 c1"]


def names_of(table: Table) -> list[str]:
    return [header.name for header in table.headers]


def test_main_and_differences_have_clean_and_the_pools(metrics):
    main, differences = results_table(metrics), comparison_table(metrics)
    assert names_of(main) == names_of(differences) == ["method", "average", "clean", *POOL_COLUMNS]
    assert [header.note for header in main.headers][2:] == ["n=48", *["n=96"] * 5]
    blind = next(row for row in main.rows if row[:2] == ("blind", "micro"))
    assert blind[-1].note == "(n=95)" and blind[-1].value == pytest.approx(
        row_of(metrics, "blind", "more:s5:c1")["value"] * 100
    )
    notes = " ".join(main.footnotes)
    assert "two: low light, glare; more: glare, occlusion." in notes
    assert "Unscored, blind: two s5 c1 1 (between" in notes and "drop" not in notes


def test_every_caption_says_what_the_numbers_are_of(metrics):
    tables = [results_table(metrics), comparison_table(metrics), conditions_table(metrics), task_table(metrics)]
    for table in (*tables, *trust_tables(metrics).values(), effort_table(metrics)):
        for part in (
            "boxworld, split val (offsets 0, 1), policy scripted_v1; 48 questions on 12 videos",
            "suite two at severity 3, 5 and coverage 0.5, 1; suite more at severity 5 and coverage 1; K = 8",
        ):
            assert part in table.caption


def test_conditions_are_listed_one_by_one_with_their_difference_to_the_baseline(metrics):
    table = conditions_table(metrics)
    assert names_of(table) == ["condition", "n", *METHODS, "robust_to − blind"]
    assert [row[0] for row in table.rows][:3] == ["clean", "low light s5 c0.5", "low light s5 c1"]
    assert len(table.rows) == len(conditions_of(CONFIG))
    row = table.rows[conditions_of(CONFIG).index("glare:s5:c1")]
    assert row[1] == "48" and row[4].note == "(n=47)" and row[6].note.startswith("[")
    (found,) = [
        c
        for c in metrics["comparisons"]
        if (c["a"], c["condition"], c["task"]) == ("robust_to", "glare:s5:c1", "macro")
    ]
    assert row[6].value == pytest.approx(found["diff"] * 100)
    assert table.rules == {1, 9}  # under clean, and between the suites


def test_tasks_trust_and_effort_are_told_per_pool(metrics):
    states = ["clean", *POOL_COLUMNS]
    assert list(dict.fromkeys(row[1] for row in task_table(metrics).rows)) == states
    (trust,) = trust_tables(metrics).values()
    columns = ["accuracy", "confidence", "over", "ECE", "Brier", "AURC", "risk 50 %", "risk 80 %", "abstained"]
    assert names_of(trust) == ["condition", "method", *columns]
    assert [row[:2] for row in trust.rows] == [(s, m) for s in states for m in METHODS if m != "chance"]
    bold = [sum(entry.best for entry in column) for column in list(zip(*trust.rows[:3], strict=True))[2:]]
    assert bold[:3] == [0, 0, 0] and bold[3:6] == [1, 1, 1] and bold[8] == 0  # once per state where less is better
    assert not any(entry.best for entry in trust.rows[0][2:])  # never a reference
    effort = effort_table(metrics)
    assert [row[:2] for row in effort.rows] == [(s, m) for s in states for m in METHODS]
    assert {row[2].number for row in effort.rows} == {"2.00"}


def test_the_csv_holds_every_condition_and_pool_of_every_task(metrics):
    tables = tables_of(metrics)
    files = Csv().render(Report(tables, "results", [], complete=results_table(metrics, complete=True)))
    rows = list(csv.DictReader(io.StringIO(files["table.csv"])))
    assert [row["average"] for row in rows if row["method"] == "blind"] == ["macro-2", "micro", "LP", "AO"]
    for name in (*conditions_of(CONFIG), *pools_of(CONFIG)):
        column = name.replace(":", " ").replace("_", " ")
        for row in rows:
            task = row["average"].replace("macro-2", "macro")
            expected = row_of(metrics, row["method"], name, task=task)
            assert float(row[column]) == pytest.approx(expected["value"] * 100, abs=1e-3)
            assert int(row[f"{column} n"]) == expected["n"]
    assert {*files} == {"table.csv", *(f"tables/{name}.csv" for name in tables)}


def test_sweeps_have_a_column_per_strength_in_the_order_of_numbers(metrics):
    """The suite lists severity 5 before 3; the other suite has one severity and one coverage, which is no sweep."""
    tables = tables_of(metrics)
    severity, coverage = tables["severity"], tables["coverage"]
    assert names_of(severity) == ["suite", "method", "clean", "s3", "s5"]
    assert names_of(coverage) == ["suite", "method", "clean", "c0.5", "c1"]
    assert list(dict.fromkeys(row[0] for row in severity.rows)) == ["two c0.5", "two c1"]
    assert list(dict.fromkeys(row[0] for row in coverage.rows)) == ["two s5", "two s3"]
    found = {row[:2]: row[2:] for row in severity.rows}
    for name, method, column, pool in (
        ("two c1", "blind", 2, "two:s5:c1"),
        ("two c0.5", "robust_to", 1, "two:s3:c0.5"),
    ):
        expected = row_of(metrics, method, pool, task="macro")["value"]
        assert found[name, method][column].value == pytest.approx(expected * 100)


def test_degradation_of_every_pool(metrics, made):
    table = tables_of(metrics)["degradation"]
    assert [row[:2] for row in table.rows] == [(pool, m) for pool in POOL_COLUMNS for m in METHODS]
    row = next(row for row in table.rows if row[:2] == ("more s5 c1", "blind"))
    assert row[4].n == N - 1 and row[4].note == f"(n={N - 1})"  # the question that is unscored under glare is left out
    clean, corrupted = values(made, "blind", ["clean"])[0], values(made, "blind", pools_of(CONFIG)["more:s5:c1"])
    kept = ~np.isnan(corrupted).any(axis=0)
    tasks = np.array(
        [p.task for p in sorted(made, key=lambda p: p.sample_id) if p.condition == "clean" and p.method == "blind"]
    )
    means = [[v[kept & (tasks == t)].mean() for t in ("LP", "AO")] for v in (clean, corrupted.mean(axis=0))]
    by_hand = np.mean(means, axis=1)
    assert row[4].value == pytest.approx(100 * (by_hand[0] - by_hand[1]))
    assert row[5].value == pytest.approx(100 * by_hand[1] / by_hand[0])


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_terminal_shows_every_digit(width, metrics):
    for table in (results_table(metrics), comparison_table(metrics), conditions_table(metrics)):
        out = io.StringIO()
        print_table(table, Console(file=out, width=width))
        text = out.getvalue()
        assert "…" not in text
        for entry in (entry for row in table.rows for entry in row):
            for part in [entry.number, *entry.note.split()] if isinstance(entry, Cell) else [entry]:
                assert part in text
        if width >= 80:
            assert max(map(len, text.splitlines())) <= width


def test_several_runs_with_suites_make_one_table(metrics, tmp_path):
    for name in ("a", "b"):
        with RunFolder(tmp_path / name).writing(RunInfo("demo", "0123456789")) as writer:
            writer.write_json("metrics.json", metrics)
    table = table_from_runs([tmp_path / "a", tmp_path / "b"])
    assert names_of(table) == ["run", "method", "average", "questions", "clean", *POOL_COLUMNS]
    assert sum("two: low light, glare" in note for note in table.footnotes) == 1
    other = json.loads(json.dumps(metrics).replace("low_light", "fog"))
    with RunFolder(tmp_path / "b").reporting() as writer:
        writer.write_json("metrics.json", other)
    notes = table_from_runs([tmp_path / "a", tmp_path / "b"]).footnotes
    assert any(note.startswith("a: Suites") and "two: low light, glare" in note for note in notes)
    assert any(note.startswith("b: Suites") and "two: fog, glare" in note for note in notes)


# -- several series of clips -------------------------------------------------------------------------------------------


def test_several_offsets_are_one_set_of_different_questions(tmp_path):
    both = BoxWorld(tmp_path, split="dev", n_videos=2, offset=[904, 905], workers=0)
    samples, rejected = both.samples()
    alone = [
        BoxWorld(tmp_path, split="dev", n_videos=2, offset=offset, workers=0).samples()[0] for offset in (904, 905)
    ]
    assert not rejected and len({sample.id for sample in samples}) == len(samples) == 16
    assert len({sample.cluster for sample in samples}) == 4 and len({sample.video for sample in samples}) == 4
    assert [sample.id for sample in alone[0]] == [sample.id for sample in alone[1]]  # numbered anew in each series
    assert [s.id for s in samples] == [f"{o}-{s.id}" for o, part in zip((904, 905), alone, strict=True) for s in part]
    assert [(s.video, s.question, s.answer) for s in samples] == [
        (s.video, s.question, s.answer) for part in alone for s in part
    ]
    assert BoxWorld(tmp_path, split="dev", n_videos=2, offset=[904], workers=0).samples()[0] == alone[0]
    assert sorted(path.name.rpartition("-v")[0] for path in tmp_path.iterdir() if path.is_dir()) == [
        "dev-2-904",
        "dev-2-905",
    ]
    report = both.report()
    assert set(report.found.values()) == set(both.expected_counts().values()) == {2}
    assert report.complete and (report.selected, report.file) == (16, tmp_path)


@pytest.mark.parametrize("offset", [-1, [], [0, 0], [0, -1], [0, True]])
def test_offsets_that_are_none_are_refused(offset):
    with pytest.raises(ConfigError, match="expected 0, 1, 2, … or a list of different ones"):
        BoxWorld("x", offset=offset)
