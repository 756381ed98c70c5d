"""Every group composes and validates; every wrong config is refused with all its faults at once."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from trustvid.config.compose import CONF, compose_config, group_options
from trustvid.config.entry import comma_hints, unknown_options
from trustvid.config.schema import build, check_evaluate, components, fits
from trustvid.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
SINGLE = ("policy", "prompts", "reader", "tools/read_text", "tools/detect_objects", "tools/recognize_action")
PARTS = ("reliability", "selection", "confidence", "routing", "synthesis")


def composed(*overrides: str) -> dict:
    return OmegaConf.to_container(compose_config(overrides), resolve=True)


def test_the_default_config_is_valid():
    typed = check_evaluate(composed())
    assert typed.frames == 8 and list(typed.methods) == ["chance", "no_evidence", "blind", "robust_to"]
    assert sorted(typed.corruption) == sorted(group_options("corruption"))


@pytest.mark.parametrize("choice", [f"{group}={option}" for group in SINGLE for option in group_options(group)])
def test_every_option_of_a_group_is_valid(choice):
    check_evaluate(composed(choice))


@pytest.mark.parametrize("choice", [(group, option) for group in PARTS for option in group_options(group)])
def test_every_part_of_a_method_can_be_swapped_from_the_command_line(choice):
    group, option = choice
    config = composed("methods=[blind]", f"{group}@methods.blind.{group}={option}")
    check_evaluate(config)
    assert config["methods"]["blind"][group] == OmegaConf.to_container(
        OmegaConf.load(CONF / group / f"{option}.yaml"), resolve=False
    )


@pytest.mark.parametrize("method", group_options("methods"))
@pytest.mark.parametrize("corruption", group_options("corruption"))
def test_methods_and_corruptions_are_chosen_one_by_one(method, corruption):
    config = composed(f"methods=[{method}]", f"corruption=[{corruption}]")
    check_evaluate(config)
    assert list(config["methods"]) == [method] and list(config["corruption"]) == [corruption]


@pytest.mark.parametrize("experiment", group_options("experiment"))
def test_every_experiment_is_valid_and_starts_with_its_command(experiment):
    check_evaluate(composed(f"experiment={experiment}"))
    head = (CONF / "experiment" / f"{experiment}.yaml").read_text(encoding="utf-8").splitlines()[:2]
    assert f"experiment={experiment}" in head[1]


def test_every_field_of_every_config_file_has_a_comment():
    bare = []
    for path in sorted(CONF.rglob("*.yaml")):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert lines and lines[0].startswith("#"), f"{path} does not begin by saying what it is"
        if path.parent.name == "embedded" and path.parent.parent.name == "experiment":
            continue  # deltas of fields that are explained where they are defined
        for before, line in itertools.pairwise(lines):
            field = line.partition(":")[0]
            if line[:1].isalpha() and field not in ("defaults", "_target_", "hydra", "methods", "corruption"):
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
        check_evaluate(config)
    text = str(caught.value)
    assert len(caught.value.faults) == 7
    for part in (
        "severity=9; expected 1 to 5",
        "coverage=1.5; expected a share",
        "mode=everything is unknown; known: all, infer",
        "methods.blind.frames='many' has the wrong type; expected int",
        "methods.blind.selection.theta is unknown; known: no settings",
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
        check_evaluate(composed(override))
    assert message in str(caught.value)


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
