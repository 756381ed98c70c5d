"""mode=calibrate: labels, cases, fit and check, on rendered clips with the real tools."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from trustvid.config.compose import CONF, compose_config
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, DataError
from trustvid.evaluation import calibrating
from trustvid.evaluation.calibrating_cases import conditions_of, label_source
from trustvid.evaluation.calibrating_labels import AgreementLabels, Target, TruthLabels, is_right
from trustvid.evaluation.calibrating_routing import routing_headroom
from trustvid.evaluation.store import RunFolder, RunInfo
from trustvid.reliability.calibration import load_calibration, prior_calibration
from trustvid.reliability.measures import Measures
from trustvid.stages import calibrate
from trustvid.tools.detect_objects import DetectObjects
from trustvid.tools.evidence import Observation
from trustvid.tools.recognize_action import RecognizeAction

pytestmark = pytest.mark.filterwarnings("ignore:.*knows nothing of")  # two tools are calibrated here, not all


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    """Generated clips and tool outputs, shared by the tests of this file."""
    return tmp_path_factory.mktemp("cache")


def make_config(cache: Path, split: str = "dev", **settings) -> dict:
    """Two clips, two tools, two corruptions at severity 5, six frames."""
    from omegaconf import OmegaConf

    overrides = [f"benchmark.split={split}", "benchmark.n_videos=2", "benchmark.workers=0", f"paths.cache={cache}"]
    config = OmegaConf.to_container(compose_config([*overrides, "corruption=[low_light,occlusion]"]), resolve=True)
    config["tools"] = {name: config["tools"][name] for name in ("detect_objects", "recognize_action")}
    defaults = OmegaConf.to_container(OmegaConf.load(CONF / "calibrate" / "default.yaml"))
    config["calibrate"] = defaults | {"severities": [5], "frames": 6} | settings
    return config


def run(config: dict, folder: Path) -> Path:
    """The stage, in this process."""
    typed = EvaluateConfig(name="test", workers=0, on_error="stop")
    calibrate.run(config, typed, RunFolder(folder), RunInfo("test", "0"))
    return folder


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


# -- whole runs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted(cache: Path, tmp_path_factory) -> Path:
    """The folder of a fit on dev."""
    folder = tmp_path_factory.mktemp("fit")
    return run(make_config(cache, output=str(folder / "copy.json")), folder / "run")


def test_a_fit_on_dev_gives_a_calibration_that_says_where_it_is_from(fitted: Path, cache: Path):
    held = load_calibration(str(fitted / "calibration.json"), "relative")
    assert held.fitted and held.suite == ("low_light", "occlusion")
    assert held == load_calibration(str(fitted.parent / "copy.json"), "relative")
    assert {
        "split": "dev",
        "videos": 2,
        "labels": "truth",
        "severities": [5],
        "coverage": 0.5,
    }.items() <= held.data.items()
    assert held.data["cases"]["recognize_action"]["targets"] > 50
    text = (fitted / "calibration.json").read_text()
    assert str(cache) not in text and str(fitted.parent) not in text and re.search(r"\b20\d\d-", text) is None
    report = (fitted / "calibration.md").read_text()
    assert all(word in report for word in ("ECE", "Table 18", "unseen", "severity 5", "fitted on these very videos"))


def test_the_fit_knows_what_the_pixels_show(fitted: Path):
    metrics = read(fitted / "calibration_metrics.json")
    share = {(row["tool"], row["corruption"]): row for row in metrics["right"]}
    assert {(row["tool"], row["task"]) for row in metrics["right"]} == {
        ("detect_objects", "thing"),
        ("recognize_action", "motion"),
    }
    assert share["detect_objects", "clean"]["yield"] > 0.9 and share["detect_objects", "clean"]["precision"] > 0.9
    assert share["recognize_action", "clean"]["yield"] > 0.9
    assert share["detect_objects", "low_light"]["yield"] < 0.5, "severity 5 leaves hardly any colour"
    assert share["detect_objects", "occlusion"]["precision"] < 0.7, "painted things are no landmarks"
    yields = {(row["tool"], row["reliability"]): row for row in metrics["yields"]}
    assert yields["detect_objects", "relative"]["auc"] > 0.8 and yields["detect_objects", "relative"]["ece"] < 0.1
    precision = {(r["tool"], r["confidence"]): r for r in metrics["precision"] if r["scope"] == "all"}
    assert precision["detect_objects", "relative"]["brier"] < precision["detect_objects", "native"]["brier"]
    spatial = next(row for row in metrics["routing"] if row["type"] == "spatial" and row["scope"] == "all")
    assert spatial["oracle"] >= max(spatial["table"], spatial["fixed"]) and spatial["n"] > 10


def test_a_run_goes_on_where_it_stopped_and_computes_nothing_twice(fitted: Path, cache: Path, monkeypatch, tmp_path):
    config = make_config(cache, output=str(fitted.parent / "copy.json"))
    before = (fitted / "calibration.json").read_bytes()
    lines = (fitted / "cases.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 2 * len(conditions_of(config)) == 6

    def fail(self, *arguments):
        raise AssertionError("a tool looked again at what is stored")

    for tool in (DetectObjects, RecognizeAction):
        monkeypatch.setattr(tool, "observe", fail)
    (fitted / "cases.jsonl").write_bytes(b"".join(lines[:4]) + lines[4][:100])  # killed while writing the fifth
    run(config, fitted)
    assert (fitted / "calibration.json").read_bytes() == before
    assert sorted((fitted / "cases.jsonl").read_bytes().splitlines(keepends=True)) == sorted(lines)
    with pytest.raises(Exception, match="stored"):
        run(make_config(cache, frames=7), tmp_path / "other")


@pytest.mark.parametrize("split", ["val", "test"])
def test_nothing_is_fitted_elsewhere(cache: Path, tmp_path, split: str, fitted: Path):
    with pytest.raises(ConfigError, match=f"nothing is fitted on split {split}"):
        run(make_config(cache, split, output="mine.json"), tmp_path / "a")
    if split == "test":
        return  # the same path, and its clips take time
    own = str(fitted / "calibration.json")
    config = make_config(cache, split, calibration=own, frames=3)
    del config["corruption"]["occlusion"]
    folder = run(config, tmp_path / "b")
    assert not (folder / "calibration.json").exists()
    metrics = read(folder / "calibration_metrics.json")
    assert metrics["about"]["calibration"] == "calibration" and metrics["about"]["split"] == "val"
    assert {row["confidence"] for row in metrics["precision"]} >= {"native", "absolute", "relative"}
    assert all("auc_held_out" not in row for row in metrics["yields"])


def test_agreement_needs_no_truth(cache: Path, tmp_path):
    folder = run(make_config(cache, labels="agreement"), tmp_path / "run")
    metrics = read(folder / "calibration_metrics.json")
    assert metrics["about"]["labels"] == "agreement" and metrics["routing"] == []
    for row in metrics["right"]:
        if row["corruption"] == "clean":
            assert row["yield"] == row["precision"] == 1.0
    share = {(row["tool"], row["corruption"]): row["yield"] for row in metrics["right"]}
    assert share["detect_objects", "low_light"] < 0.5
    assert load_calibration(str(folder / "calibration.json"), "absolute").data["labels"] == "agreement"


def test_settings_that_cannot_run(cache: Path, tmp_path):
    bad = make_config(cache, severities=[0], frames=1, window_s=0, labels="guess") | {"corruption": {}}
    with pytest.raises(ConfigError) as raised:
        run(bad, tmp_path / "run")
    assert len(raised.value.faults) == 5
    assert not (tmp_path / "run").exists()


def test_labels_follow_the_benchmark(cache: Path):
    config = make_config(cache)
    assert label_source(config) == "truth"
    other = config | {"benchmark": {"_target_": "trustvid.benchmarks.urbanvideo.UrbanVideo", "name": "urbanvideo"}}
    assert label_source(other) == "agreement"
    with pytest.raises(DataError, match="urbanvideo does not know"):
        label_source(other | {"calibrate": config["calibrate"] | {"labels": "truth"}})


# -- labels ------------------------------------------------------------------------------------------------------------

BOX = (0.2, 0.3, 0.4, 0.6)


def report(kind: str, label: str, box: tuple | None = BOX, **more) -> Observation:
    return Observation(3, 0.3, kind, label, 0.8, box, **more)


@pytest.mark.parametrize(
    ("seen", "target", "right"),
    [
        (report("object", "red box"), Target("thing", ("red",), BOX, ""), True),
        (report("object", "red box"), Target("thing", ("red box",), BOX, ""), True),
        (report("object", "redwood"), Target("thing", ("red",), BOX, ""), False),
        (report("object", "blue box"), Target("thing", ("red",), BOX, ""), False),
        (report("object", "red box", (0.3, 0.3, 0.5, 0.6)), Target("thing", ("red",), BOX, ""), False),
        (report("object", "red box", (0.25, 0.1, 0.35, 0.2)), Target("colour", ("red",), BOX, ""), True),
        (report("object", "red box", (0.5, 0.3, 0.7, 0.6)), Target("colour", ("red",), BOX, ""), False),
        (report("object", "red box", None), Target("thing", ("red",), BOX, ""), True),
        (report("text", "CAFF"), Target("word", ("CAFE",), BOX, ""), True),
        (report("text", "cafe"), Target("word", ("CAFE",), BOX, ""), True),
        (report("text", "BANK"), Target("word", ("CAFE",), BOX, ""), False),
        (report("text", "CAFE", (0.7, 0.3, 0.8, 0.4)), Target("word", ("CAFE",), BOX, ""), False),
        (report("text", "red"), Target("thing", ("red",), BOX, ""), False),
        (report("object", "CAFE"), Target("word", ("CAFE",), BOX, ""), False),
        (report("motion", "turn left", None), Target("motion", ("still", "turn left"), None, ""), True),
        (report("motion", "turn left", None), Target("motion", ("turn right",), None, ""), False),
        (report("object", "still"), Target("motion", ("still",), None, ""), False),
    ],
)
def test_what_counts_as_right(seen: Observation, target: Target, right: bool):
    assert is_right(seen, target, ("CAFE", "BANK")) is right


def test_a_reading_goes_to_the_word_it_is_most_like():
    target = Target("word", ("HOTEL",), BOX, "")
    assert is_right(report("text", "HOTEL"), target, ("HOTEL", "MOTEL"))
    assert not is_right(report("text", "MOTEL"), target, ("HOTEL", "MOTEL"))
    assert is_right(report("text", "MOTEL"), target, None), "alone with its target it is near enough"


def test_truth_tells_plain_targets_from_hopeless_ones():
    from trustvid.benchmarks.boxworld.truth import clip_truth

    truth = clip_truth("dev", 0, 0)
    labels = TruthLabels(truth)
    for frame in range(0, truth.scene.n_frames, 10):
        seen = {box.colour: box for box in truth.seen(frame)}
        targets = labels.targets("detect_objects", (frame,), 0.0)
        assert {t.key for t in targets if t.task == "thing" and t.expected} == {
            colour for colour, box in seen.items() if box.pixels >= 150
        }
        for target in targets:
            if target.task == "word" and target.expected:
                box = next(box for box in seen.values() if box.word == target.key)
                assert box.plate_pixels >= 500 and box.plate[0] > 0 and box.plate[2] < 1
    step = next(step for step in truth.scene.steps if step.action != "forward")
    turn = labels.targets("recognize_action", (step.first, step.first + 1), 0.1)[-1]
    assert turn.labels == (f"turn {step.action}",)
    forward = truth.scene.steps[0]
    assert labels.targets("recognize_action", (forward.first, forward.first + 1), 0.1)[-1].labels == ("forward",)
    slow = labels.targets(
        "recognize_action", (step.first, step.first + 1), abs(truth.motion(step.first, step.first + 1).yaw_deg) / 8
    )
    assert set(slow[-1].labels) == {"still", f"turn {step.action}"}, "at the threshold either name is right"


def test_agreement_takes_the_clean_reports():
    labels = AgreementLabels(
        {"read_text": {(3,): [report("text", "CAFE")]}, "detect_objects": {(3,): [report("object", "car")]}}
    )
    assert [(t.task, t.labels) for t in labels.targets("read_text", (3,), 0.0)] == [("word", ("CAFE",))]
    assert [t.task for t in labels.targets("detect_objects", (3,), 0.0)] == ["thing", "colour"]
    assert labels.targets("read_text", (4,), 0.0) == []


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_auc_counts_ties_half():
    right = np.array([0.0, 0.0, 1.0, 1.0])
    assert calibrating.ranking_auc(np.array([0.1, 0.2, 0.3, 0.4]), right) == 1.0
    assert calibrating.ranking_auc(np.array([0.4, 0.3, 0.2, 0.1]), right) == 0.0
    assert calibrating.ranking_auc(np.full(4, 0.5), right) == 0.5
    assert calibrating.ranking_auc(np.full(4, 0.5), np.ones(4)) is None


def record(condition: str, yields: list, reports: list = (), dark: bool = False) -> dict:
    """Two measured frames, 0 and 10; the second one dark."""
    clean = Measures(0.1, 0.1, 0.1, 0.5, 0.0, 0.9, 900.0, 300.0, 0.0)
    second = clean._replace(bright_end=0.05, paper_brightness=0.9) if dark else clean
    return {
        "video": "v",
        "condition": condition,
        "indices": [0, 10],
        "frames": [0, 10],
        "measures": [list(clean), list(second)],
        "yields": yields,
        "reports": list(reports),
    }


def test_a_step_has_the_worse_channels_of_its_frames():
    yields = [["recognize_action", "motion", "camera", first, last, 0, 1] for first, last in ((0, 1), (1, 10), (9, 10))]
    cases = calibrating.assemble([record("low_light:s5:c0.5", yields, dark=True)])["recognize_action"].yields
    dark = cases.inputs("absolute")["dark1"]
    assert dark.tolist() == [0.0, 1.0, 1.0]
    assert cases.severity.tolist() == [5, 5, 5] and set(cases.corruption) == {"low_light"}
    assert cases.disturbance.tolist() == pytest.approx([0.0, 1 / 3, 1 / 3])


def test_few_reports_give_no_precision():
    reports = [["read_text", "word", 0, 0, 0, 0.9, 0.01, 0, 1]] * (calibrating.MIN_REPORTS - 1)
    yields = [["read_text", "word", "CAFE", 0, 0, 0, 1]]
    few = calibrating.assemble([record("clean", yields, reports)])
    assert calibrating.fit_calibration(few, "relative", (), {}).tools["read_text"].precision_model is None
    enough = calibrating.assemble([record("clean", yields, [*reports, reports[0]])])
    assert calibrating.fit_calibration(enough, "relative", (), {}).tools["read_text"].precision_model is not None


def test_routing_compares_both_candidates_on_the_same_targets():
    def rows(tool: str, rights: str) -> list:
        return [[tool, "thing", f"t{i}", 10, 10, 1, int(right)] for i, right in enumerate(rights)]

    both = [record("glare:s3:c0.5", rows("detect_objects", "1100") + rows("caption_frame", "0110"), dark=True)]
    cases = calibrating.assemble(both)
    spatial = routing_headroom(both, cases, prior_calibration("relative"))[0]
    assert (spatial["type"], spatial["n"], spatial["alone"]) == ("spatial", 4, [0.5, 0.5])
    assert spatial["oracle"] == 0.75 and spatial["table"] == 0.5 and spatial["headroom"] == 0.25
    one = calibrating.assemble([record("clean", rows("detect_objects", "11"))])
    alone = routing_headroom([record("clean", rows("detect_objects", "11"))], one, prior_calibration("relative"))
    assert [(row["type"], row["scope"]) for row in alone] == [("spatial", "all"), ("spatial", "touched")]
    assert alone[0]["oracle"] == alone[0]["table"] == 1.0 and alone[0]["alone"] == [1.0, 0.0]
