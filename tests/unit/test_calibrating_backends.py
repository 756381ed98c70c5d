"""mode=calibrate of published tool backends: tiny random checkpoints, clean against corrupted, and what uses the fit.

pytest tests/unit/test_calibrating_backends.py -q
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from tests.unit.test_tools_backends import BUILDERS
from trustvid.agent.assembly import build_pipelines
from trustvid.agent.driving import drive
from trustvid.agent.method import Question, View
from trustvid.agent.pipeline import _as_call
from trustvid.config.checking import build, check
from trustvid.config.compose import compose_config
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import DataError
from trustvid.evaluation.calibrating_cases import label_source
from trustvid.evaluation.calibrating_labels import DUTIES, AgreementLabels
from trustvid.evaluation.store import RunFolder, RunInfo
from trustvid.policy.scripted import ScriptedPolicy
from trustvid.reliability.calibration import load_calibration
from trustvid.stages import calibrate
from trustvid.tools.assess_quality import stored_measurer
from trustvid.tools.evidence import Observation
from trustvid.tools.pretrained.open_vocabulary import OpenVocabulary

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore:.*knows nothing of")  # three tools are calibrated here, not all

# Backend of each tool, with settings under which random weights have much to say.
BACKENDS = {
    "detect_objects": ("owlv2", {"min_score": 0.0}),
    "recognize_action": ("videomae", {"min_score": 0.0}),
    "caption_frame": ("blip", {"max_new_tokens": 6}),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny checkpoint of each backend, and room for generated clips and tool outputs."""
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    root = tmp_path_factory.mktemp("backends")
    for name, _ in BACKENDS.values():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(7)
            network, processor = BUILDERS[name]()
        network.save_pretrained(root / name)
        processor.save_pretrained(root / name)
    return root


def composed(root: Path, *overrides: str) -> dict[str, Any]:
    """Two clips of dev, two corruptions at severity 5, ten frames, and the backends alone."""
    chosen = ["benchmark.split=dev", "benchmark.n_videos=2", "benchmark.workers=0", f"paths.cache={root / 'cache'}"]
    chosen += ["corruption=[low_light,occlusion]", "calibrate.severities=[5]", "calibrate.frames=10"]
    for tool, (backend, settings) in BACKENDS.items():
        chosen += [f"tools/{tool}={backend}", f"tools.{tool}.model={root / backend}"]
        chosen += [f"tools.{tool}.{key}={value}" for key, value in settings.items()]
    config = OmegaConf.to_container(compose_config([*chosen, *overrides]), resolve=True)
    config["tools"] = {tool: config["tools"][tool] for tool in BACKENDS}
    check(config, EvaluateConfig)
    return config


ASKED: set[str] = set()  # the queries that the detector was given in the fit


@pytest.fixture(scope="module")
def config(root: Path) -> dict[str, Any]:
    return composed(root, "calibrate.labels=agreement")


@pytest.fixture(scope="module")
def fitted(config: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a fit by agreement."""
    original = OpenVocabulary.observe

    def watched(self, batch, query, words):
        ASKED.add(query.text)
        return original(self, batch, query, words)

    folder = tmp_path_factory.mktemp("fit") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenVocabulary, "observe", watched)
        typed = EvaluateConfig(name="test", workers=0, on_error="stop")
        calibrate.run(config, typed, RunFolder(folder), RunInfo("test", "0"))
    return folder


def test_the_artefact_names_its_backends_and_has_both_models_of_each(fitted: Path):
    for channels in ("relative", "absolute"):
        held = load_calibration(str(fitted / "calibration.json"), channels)
        assert held.fitted and held.suite == ("low_light", "occlusion") and held.data["labels"] == "agreement"
        assert held.backends == {tool: backend for tool, (backend, _) in BACKENDS.items()}
        for tool in BACKENDS:
            assert min(held.data["cases"][tool].values()) >= 50, "targets and reports"
            assert held.tools[tool].precision_model is not None
    tools = json.loads((fitted / "calibration.json").read_text())["channels"]["relative"]
    assert set(tools) == set(BACKENDS), "no tool of it is left to the prior"


def test_what_a_backend_says_of_the_clean_video_it_is_expected_to_say_again(fitted: Path):
    metrics = json.loads((fitted / "calibration_metrics.json").read_text())
    rows = {(row["tool"], row["task"], row["corruption"]): row for row in metrics["right"]}
    tasks = {("detect_objects", "thing"), ("recognize_action", "action"), ("caption_frame", "caption")}
    assert {key[:2] for key in rows} == tasks and metrics["routing"] == []
    for tool, task in tasks:
        assert rows[tool, task, "clean"]["yield"] == rows[tool, task, "clean"]["precision"] == 1.0
        lost = [rows[tool, task, name]["yield"] for name in ("low_light", "occlusion")]
        assert min(lost) < 0.6, f"severity 5 changes what {tool} says"


def test_detectors_are_asked_for_what_the_questions_name(config: dict[str, Any], fitted: Path):
    samples, _ = build(config["benchmark"]).samples()
    texts: dict[Path, list[str]] = {}
    for sample in samples:
        texts.setdefault(sample.video, []).append(sample.question)
    assert {" ".join(questions) for questions in texts.values()} == ASKED and len(texts) == 2


def test_a_window_is_judged_as_a_whole_and_of_the_width_of_a_run(config: dict[str, Any], fitted: Path):
    lines = [json.loads(line) for line in (fitted / "cases.jsonl").read_text().splitlines()]
    rows = [row for line in lines for row in line["yields"] if row[0] == "recognize_action"]
    assert len(rows) == 2 * 10 * 3, "an action of each window, clean and corrupted"
    assert config["window_s"] == 2.0 and {last - first for *_, first, last, _, _ in rows} >= {10, 20}, "2 s at 10 fps"


def test_confidence_calibrated_uses_it_for_these_backends_and_no_others(root: Path, fitted: Path):
    mine = str(fitted / "calibration.json")
    uses = [f"methods.anchored.confidence.calibration={mine}", f"methods.anchored.reliability.calibration={mine}"]
    config = composed(root, "methods=[anchored]", *uses)
    pipeline = build_pipelines(config, None)["anchored"]
    samples, _ = build(config["benchmark"]).samples()
    view = View(build(config["reader"]).open(samples[0].video), stored_measurer(pipeline.executor))
    asked = Question("Which way does the camera turn at the red box?", ("left", "right"))
    (found,) = drive(pipeline.run(asked, view), ScriptedPolicy()).evidence[:1]
    held = load_calibration(mine, "relative")
    model = held.tools[found.tool].precision_model
    assert found.tool in BACKENDS and model is not None and found.observations
    profile = view.profile(pipeline.method.reliability)
    backend = BACKENDS[found.tool][0]
    call = _as_call(found, backend, profile, found.disturbance)
    judged = pipeline.method.confidence.judge(call)
    assert [seen.confidence for seen in found.observations] == pytest.approx(judged.observations, abs=1e-4)
    assert judged.observations is not None and not np.allclose(judged.observations, call.scores, atol=0.02)
    other = pipeline.method.confidence.judge(_as_call(found, "embedded", profile, found.disturbance))
    assert other == (found.intrinsic, None), "fitted for another backend: the tool's own word"


def test_truth_judges_only_tools_that_use_its_names(config: dict[str, Any]):
    def by(labels: str) -> str:
        return label_source(config | {"calibrate": config["calibrate"] | {"labels": labels}})

    assert by("auto") == by("agreement") == "agreement", "captions and named actions are not in the truth"
    with pytest.raises(DataError, match=r"tools/detect_objects=owlv2, .*=videomae, .*=blip: .* labels=agreement"):
        by("truth")
    plain = OmegaConf.to_container(compose_config([]), resolve=True)
    assert label_source(plain) == "truth", "embedded tools and the reader are judged by the truth"


def test_agreement_expects_every_kind_of_report():
    kinds = ("object", "text", "motion", "action", "caption")
    labels = AgreementLabels({"any": {(0,): [Observation(0, 0.0, kind, "seen", 0.9) for kind in kinds]}})
    tasks = {target.task for target in labels.targets("any", (0,), 0.0)}
    assert tasks == set(labels.duties("any")) == {"thing", "colour", "word", "motion", "action", "caption"}
    assert "action" not in DUTIES["recognize_action"], "of the truth: what the embedded tool is for"
