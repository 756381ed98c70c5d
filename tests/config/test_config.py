"""Every group composes and validates; every wrong config is refused with all its faults at once."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from trustvid.config.checking import build, build_stored, check, components, fits
from trustvid.config.compose import CONF, compose_config, group_options
from trustvid.config.entry import comma_hints, unknown_options
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, DataError
from trustvid.stages.grpo import GrpoConfig
from trustvid.stages.reliability import ReliabilityConfig
from trustvid.stages.sft import SftConfig
from trustvid.tools.evidence import TOOL_NAMES

ROOT = Path(__file__).resolve().parents[2]
SINGLE = ("policy", "prompts", "reader", *(f"tools/{name}" for name in TOOL_NAMES))
PARTS = ("relevance", "reliability", "selection", "confidence", "routing", "synthesis")


STAGES = {"sft": SftConfig, "grpo": GrpoConfig, "reliability": ReliabilityConfig}
# What an option cannot be valid without: a file or folder of the user's, or another group that goes with it.
NEEDS = {
    ("data", "triplets"): ["data.file=pairs.jsonl", "data_dir=videos"],
    ("data", "rollouts"): ["data.file=rollouts.jsonl", "benchmark=boxworld"],
    ("data", "teacher"): ["benchmark=boxworld"],
    ("data", "mcq"): ["benchmark=boxworld"],
}
TRAINED = {
    "sft": ("data", "adapter", "optimizer", "trainer", "logger", "disturbance"),
    "grpo": ("adapter", "optimizer", "trainer", "logger", "disturbance"),
}


def composed(*overrides: str, name: str = "evaluate") -> dict:
    return OmegaConf.to_container(compose_config(overrides, name=name), resolve=True)


def command_of(experiment: str) -> tuple[str, list[str]]:
    """Root and words of the command in an experiment's first lines: ("train", ["stage=sft", "experiment=…"]); what
    stands there in angle brackets is the user's."""
    head = (CONF / "experiment" / f"{experiment}.yaml").read_text(encoding="utf-8").splitlines()[:2]
    root, words = re.match(r"# python (\w+)\.py (.*?)(?: {2,}\(|$)", head[1]).groups()
    return root, [word for word in re.sub(r"<[^>]+>", "run", words).split() if word != "-m"]


def test_the_default_config_is_valid():
    typed = check(composed(), EvaluateConfig)
    assert typed.frames == 8 and list(typed.methods) == ["chance", "no_evidence", "blind", "robust_to", "anchored"]
    assert list(typed.corruption) == ["motion_blur", "gaussian_noise", "glare", "occlusion", "low_light"]
    assert (typed.suites, typed.baseline) == ({}, "blind")


@pytest.mark.parametrize("choice", [f"{group}={option}" for group in SINGLE for option in group_options(group)])
def test_every_option_of_a_group_is_valid(choice):
    sees = ("policy=tiny_qwen2_5_vl",) if choice.endswith("=vlm") else ()  # these tools ask the run's policy
    check(composed(choice, *sees), EvaluateConfig)


@pytest.mark.parametrize("choice", [(group, option) for group in PARTS for option in group_options(group)])
def test_every_part_of_a_method_can_be_swapped_from_the_command_line(choice):
    group, option = choice
    rates = ("policy=tiny_qwen2_5_vl",) if choice == ("relevance", "policy") else ()
    config = composed("methods=[blind]", f"{group}@methods.blind.{group}={option}", *rates)
    check(config, EvaluateConfig)
    expected = OmegaConf.to_container(OmegaConf.load(CONF / group / f"{option}.yaml"), resolve=False)
    if rates:
        expected["policy"] = config["policy"]
    assert config["methods"]["blind"][group] == expected


ONE_BY_ONE = [
    *((method, "glare") for method in group_options("methods")),
    *(("blind", corruption) for corruption in group_options("corruption")),
]


@pytest.mark.parametrize(("method", "corruption"), ONE_BY_ONE)
def test_methods_and_corruptions_are_chosen_one_by_one(method, corruption):
    config = composed(f"methods=[{method}]", f"corruption=[{corruption}]")
    check(config, EvaluateConfig)
    assert list(config["methods"]) == [method.rpartition("/")[2]]  # an option in a subfolder goes by its last name
    assert list(config["corruption"]) == [corruption]


@pytest.mark.parametrize("experiment", group_options("experiment"))
def test_every_experiment_is_valid_and_starts_with_its_command(experiment):
    root, words = command_of(experiment)
    assert f"experiment={experiment}" in words
    config = composed(*words, name=root)
    check(config, EvaluateConfig if root == "evaluate" else STAGES[config["stage"]])


@pytest.mark.parametrize(
    ("stage", "group", "option"),
    [
        (stage, group, option)
        for stage, groups in TRAINED.items()
        for group in groups
        for option in group_options(group)
    ],
)
def test_every_option_of_a_group_of_training_is_valid(stage, group, option):
    check(composed(f"stage={stage}", f"{group}={option}", *NEEDS.get((group, option), ()), name="train"), STAGES[stage])


def test_every_field_of_every_config_file_has_a_comment():
    bare = []
    for path in sorted(CONF.rglob("*.yaml")):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines and lines[0].startswith("#"), f"{path} does not begin by saying what it is"
        if path.parent.name == "embedded" and path.parent.parent.name == "experiment":
            continue  # deltas of fields that are explained where they are defined
        for before, line in itertools.pairwise(lines):
            field = line.partition(":")[0]
            if line[:1].isalpha() and field not in ("defaults", "_target_", "hydra", "methods", "corruption", *PARTS):
                above = before.lstrip().startswith("#") or before[:1].isalpha() or before.startswith("  ")
                if not above:
                    bare.append(f"{path.relative_to(CONF)}: {field}")
    assert not bare, bare


def test_all_faults_come_together_and_name_the_way_out():
    config = composed("severity=9", "coverage=1.5", "mode=score")
    config["mode"] = "everything"
    config["methods"]["blind"]["frames"] = "many"
    config["methods"]["blind"]["selection"]["theta"] = 1
    config["prompts"]["folder"] = "/nowhere"
    config["policy"]["_target_"] = "trustvid.policy.nothing.Here"
    with pytest.raises(ConfigError) as caught:
        check(config, EvaluateConfig)
    text = str(caught.value)
    assert len(caught.value.faults) == 7
    for part in (
        "severity=9; expected 1 to 5",
        "coverage=1.5; expected a share",
        "mode=everything is unknown; known: all, infer",
        "methods.blind.frames='many' has the wrong type; expected int",
        "methods.blind.selection.theta is unknown; known: ",
        "shipped: compact, full",
        "trustvid.policy.nothing.Here cannot be imported",
    ):
        assert part in text, text


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("frames=[8,16]", "frames=[8, 16] has the wrong type; expected int"),
        ("severity=2.5", "severity=2.5 has the wrong type; expected int"),
        ("severity=true", "severity=True has the wrong type"),
        ("limit=0", "limit=0; expected at least 1"),
        ("on_error=ignore", "known: skip, stop"),
        ("methods.robust_to.selection.k_min=20", "expected 1 ≤ k_min ≤ k_max"),
        ("name=a/b", "expected a plain name"),
    ],
)
def test_a_wrong_value_is_refused_by_name(override, message):
    with pytest.raises(ConfigError, match="This config cannot run") as caught:
        check(composed(override), EvaluateConfig)
    assert message in str(caught.value)


FIVE = "+suites.five={corruption: [glare, low_light], severity: [3, 5], coverage: [0.5, 1.0]}"


def test_suites_are_composed_and_changed_from_the_command_line():
    typed = check(
        composed(FIVE, "+suites.other={corruption: [occlusion], severity: [1], coverage: [1]}"), EvaluateConfig
    )
    assert list(typed.suites) == ["five", "other"] and typed.suites["five"]["severity"] == [3, 5]


def test_a_suite_of_an_experiment_is_changed_and_removed_from_the_command_line(tmp_path):
    shutil.copytree(CONF, tmp_path / "conf")
    suite = "{corruption: [glare], severity: [3, 5], coverage: [0.5]}"
    (tmp_path / "conf" / "experiment" / "mine.yaml").write_text(
        f"# @package _global_\nsuites:\n  five: {suite}\n  six: {suite}\n"
    )
    overrides = ["experiment=mine", "suites.five.severity=[5]", "~suites.six"]
    cfg = compose_config(overrides, config_dir=tmp_path / "conf")
    typed = check(OmegaConf.to_container(cfg, resolve=True), EvaluateConfig)
    assert typed.suites == {"five": {"corruption": ["glare"], "severity": [5], "coverage": [0.5]}}


def test_all_faults_of_the_suites_come_together():
    config = composed(FIVE, "corruption=[glare]")
    config["suites"] |= {
        "glare": {"corruption": [], "severity": [0, 6, True], "coverage": [0, 1e-7, 1.5], "frames": [8]},
        "a:b": ["glare"],
        "twice": {"corruption": ["glare", "glare"], "severity": 3},
    }
    with pytest.raises(ConfigError) as caught:
        check(config, EvaluateConfig)
    faults = [
        "suites.five.corruption holds low_light; known: glare (the group corruption)",
        "suites.glare: 'glare' cannot name a suite",
        "suites.glare.frames is unknown; known: corruption, severity, coverage",
        "suites.glare.corruption=[]; expected a list with one value or more",
        "suites.glare.severity holds 0, 6, True; expected whole numbers from 1 to 5",
        "suites.glare.coverage holds 0, 1e-07, 1.5; expected shares of the frames above 0, at most 1",
        "suites.a:b: 'a:b' cannot name a suite",
        "suites.a:b=['glare'] has the wrong type; expected corruption, severity, coverage, a list each",
        "suites.twice.corruption=['glare', 'glare'] names a value twice",
        "suites.twice.severity=3; expected a list with one value or more",
        "suites.twice.coverage is missing; expected a list",
    ]
    assert len(caught.value.faults) == len(faults)
    for fault, expected in zip(caught.value.faults, faults, strict=True):
        assert fault.startswith(expected), fault


def test_the_baseline_is_one_of_the_methods():
    assert check(composed("methods=[blind,robust_to]", "baseline=robust_to"), EvaluateConfig).baseline == "robust_to"
    assert (
        check(composed("methods=[chance]"), EvaluateConfig).baseline == "blind"
    )  # not there: the first method stands in
    with pytest.raises(ConfigError, match="baseline=robust_to is none of the methods; known: chance, blind"):
        check(composed("methods=[chance,blind]", "baseline=robust_to"), EvaluateConfig)


def test_components_are_found_and_built():
    config = composed()
    found = dict(components({"methods": config["methods"]}))
    assert list(found) == [f"methods.{name}" for name in config["methods"]]
    assert build(config["methods"]["robust_to"]).selection.theta_rel == 0.55


def test_fits_knows_the_hints_it_claims_to_know():
    assert fits(["a"], list[str]) and fits({"a": 1}, dict[str, int]) and not fits("ab", list[str])
    assert not fits(True, int) and fits(None, int | None) and not fits(1, str)


def test_unknown_names_in_a_list_are_named_with_the_known_ones():
    assert unknown_options(["methods=[blind,blond]"], CONF) == [
        f"methods=blond does not exist; known: {', '.join(group_options('methods'))}"
    ]
    assert unknown_options(["corruption=[]", "frames=[1,2]", "seed=3"], CONF) == []


def test_a_comma_without_multirun_is_explained():
    assert "add -m" in comma_hints(["frames=8,16"])[0]
    assert comma_hints(["-m", "frames=8,16"]) == [] and comma_hints(["name='a,b'"]) == []


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(ROOT / "evaluate.py"), *arguments], cwd=cwd, capture_output=True, text=True
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--cfg", "job"]])
def test_help_and_config_load_no_heavy_package(arguments, tmp_path):
    code = (
        "import runpy, sys; sys.argv = ['evaluate.py', *{!r}]\n"
        "try:\n    runpy.run_path({!r}, run_name='__main__')\nexcept SystemExit:\n    pass\n"
        "print('LOADED', sorted({{'torch', 'transformers', 'lightning', 'cv2', 'av', 'numpy'}} & set(sys.modules)))"
    ).format(arguments, str(ROOT / "evaluate.py"))
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert "LOADED []" in result.stdout, result.stdout[-300:] + result.stderr[-600:]
    assert "benchmark" in result.stdout and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["policy=gpt9"], "scripted"),
        (["methods=[blind,blond]"], "known: "),
        (["frames=8,16"], "add -m"),
        (["severity=9", "limit=0"], "limit=0; expected at least 1"),
        (["nonsense=1"], "nonsense"),
        (["benchmark=urbanvideo", "data_dir=/nowhere"], "/nowhere"),
    ],
)
def test_a_wrong_command_line_ends_with_one_message(arguments, message, tmp_path):
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode != 0
    assert message in result.stdout + result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "node",
    [
        {"_target_": "os.system", "command": "true"},
        {"_target_": "trustvid.benchmarks.mcq_jsonl.McqJsonl", "file": {"_target_": "pathlib.Path"}},
        {"file": "questions.jsonl"},
    ],
    ids=["foreign", "nested", "nothing"],
)
def test_a_stored_config_builds_trustvids_own_parts_alone(node, tmp_path):
    with pytest.raises(DataError, match=r"expected components of trustvid\.\*") as caught:
        build_stored(node, tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert build_stored(composed()["reader"], tmp_path)
