"""conf/corruption: one file per operator, several at once, cheap to import."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import OmegaConf

from tests.unit.fakes import ArraySource
from trustvid.corruption import Corruption, apply_image, corrupt

CONF = Path(__file__).parents[2] / "conf"
NAMES = sorted(path.stem for path in (CONF / "corruption").glob("*.yaml"))


def composed(choice: str) -> dict:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(overrides=[f"+corruption={choice}"])


def test_several_can_be_chosen_at_once():
    cfg = composed("[glare,occlusion]")
    assert sorted(cfg.corruption) == ["glare", "occlusion"]
    assert cfg.corruption.glare._target_ == "trustvid.corruption.glare.Glare"


@pytest.mark.parametrize("name", NAMES)
def test_each_file_builds_the_operator_of_its_name_with_its_defaults(name):
    node = composed(name).corruption[name]
    operator = instantiate(node)
    assert isinstance(operator, Corruption) and operator.name == name
    assert operator == type(operator)(), "the file and the constructor's defaults must agree"
    assert set(node) == {"_target_", *operator.settings()}, "every setting is in the file"


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_has_a_comment_above_it(name):
    lines = (CONF / "corruption" / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# @package corruption.{name}" and lines[1].startswith("# ")
    for before, line in pairwise(lines):
        if line and not line.startswith(("#", "_target_")):
            assert before.startswith("# "), line


def test_the_five_published_kinds_are_there():
    assert {"motion_blur", "gaussian_noise", "glare", "occlusion", "low_light"} <= set(NAMES)


def test_components_import_nothing_heavy():
    targets = [OmegaConf.load(CONF / "corruption" / f"{name}.yaml")._target_ for name in NAMES]
    modules = ", ".join(target.rsplit(".", 1)[0] for target in targets)
    program = f"import sys, {modules}; print(sorted({{'cv2', 'torch', 'scipy', 'hydra'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_new_kind_needs_no_edit_elsewhere(tmp_path, monkeypatch):
    """One Python file plus one YAML file."""
    (tmp_path / "invert_kind.py").write_text(
        "from typing import ClassVar\n"
        "from trustvid.corruption import Corruption\n"
        "class Invert(Corruption):\n"
        "    name: ClassVar[str] = 'invert'\n"
        "    version: ClassVar[int] = 1\n"
        "    def plan(self, n_frames, fps, width, height, severity, rng):\n"
        "        return {}\n"
        "    def apply(self, frame, index, state):\n"
        "        return 255 - frame\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "conf" / "corruption").mkdir(parents=True)
    (tmp_path / "conf" / "corruption" / "invert.yaml").write_text(
        "# @package corruption.invert\n_target_: invert_kind.Invert\n"
    )
    with initialize_config_dir(str(tmp_path / "conf"), version_base="1.3"):
        cfg = compose(overrides=["+corruption=[invert]"])
    operator = instantiate(cfg.corruption.invert)
    image = np.full((4, 5, 3), 10, np.uint8)
    assert np.all(apply_image(image, operator, 2) == 245)
    clip = corrupt(ArraySource(image[None]), operator, 2, 1.0)
    assert np.all(clip.frames([0]) == 245) and "invert/1" in clip.frame_key(0)
