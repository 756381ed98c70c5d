"""A small real benchmark and the commands of a user, in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["benchmark.n_videos=2", "corruption=[motion_blur,glare]", "workers=1", "name=small"]


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory) -> Path:
    """Generated clips and tool outputs, shared by the tests of a session."""
    return tmp_path_factory.mktemp("cache")


class User:
    """Runs ``python evaluate.py`` and ``python -m trustvid`` in a folder of its own."""

    def __init__(self, folder: Path, cache: Path):
        self.folder, self.environment = folder, {**os.environ, "TRUSTVID_CACHE": str(cache)}

    def evaluate(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        return self.run(str(ROOT / "evaluate.py"), *arguments, check=check)

    def trustvid(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        return self.run("-m", "trustvid", *arguments, check=check)

    def run(self, *arguments: str, check: bool) -> subprocess.CompletedProcess:
        result = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert not check or result.returncode == 0, result.stdout[-1500:] + result.stderr[-3000:]
        return result

    def evaluate_and_kill(self, *arguments: str, after_lines: int) -> int:
        """Start an evaluation, kill −9 it and its workers once that many predictions lie on the disk."""
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "evaluate.py"), *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and process.poll() is None and self.count() < after_lines:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return self.count()

    def count(self) -> int:
        return sum(
            len(path.read_bytes().splitlines()) for path in self.folder.glob("outputs/evaluate/*/predictions.jsonl")
        )

    @property
    def only_run(self) -> Path:
        (found,) = sorted((self.folder / "outputs" / "evaluate").iterdir())
        return found

    def metrics(self) -> dict:
        return json.loads((self.only_run / "metrics.json").read_text())


@pytest.fixture
def user(tmp_path, cache_dir) -> User:
    return User(tmp_path, cache_dir)


@pytest.fixture(scope="session")
def finished(tmp_path_factory, cache_dir) -> User:
    """A user whose small evaluation ran to its end."""
    someone = User(tmp_path_factory.mktemp("finished"), cache_dir)
    someone.stdout = someone.evaluate(*SMALL).stdout
    return someone


@pytest.fixture
def copied(finished, tmp_path, cache_dir) -> User:
    """A copy of the finished run that may be spoilt."""
    shutil.copytree(finished.folder / "outputs", tmp_path / "outputs")
    return User(tmp_path, cache_dir)
