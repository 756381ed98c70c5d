"""Every table and figure of IF-VidCap as its command makes it, at the smallest scale, on the embedded benchmark.

pytest tests/e2e/test_caption_experiments.py -q -n 0
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest

from trustvid.config.compose import compose_config, group_options
from trustvid.stages import evaluate

EXPERIMENTS = [name for name in group_options("experiment") if name.startswith("if_vidcap/")]
# One tool pass for each size of frames: two frames of each clip are enough to see that a sweep's job runs.
SWEEPS = {"if_vidcap/fig4c": "frames", "if_vidcap/fig4d": "reader.side"}
FORMS = "report=[console,markdown,csv,latex]"


class Runs:
    """Experiments of one user: run folders, and what each command printed."""

    def __init__(self, folder: Path, cache: Path):
        self.folder, self.cache = folder, cache
        self._done: dict[tuple[str, ...], tuple[Path, str]] = {}

    def once(self, experiment: str, *overrides: str) -> tuple[Path, str]:
        """The run as it was when it was first asked for."""
        if (experiment, *overrides) not in self._done:
            self._done[experiment, *overrides] = self.run(experiment, *overrides)
        return self._done[experiment, *overrides]

    def run(self, experiment: str, *overrides: str) -> tuple[Path, str]:
        where = [f"paths.outputs={self.folder}", f"paths.cache={self.cache}", "workers=0", FORMS]
        cfg = compose_config([f"experiment={experiment}", "scale=tiny", *where, *overrides])
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            folder = evaluate.run(cfg)
        return folder, told.getvalue()


@pytest.fixture(scope="module")
def runs(tmp_path_factory, cache_dir) -> Runs:
    return Runs(tmp_path_factory.mktemp("experiments"), cache_dir)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_runs_and_prints_its_table(runs, experiment):
    overrides = ["frames=2"] if experiment in SWEEPS else []
    folder, told = runs.once(experiment, *overrides)
    assert folder.name.startswith(experiment.replace("/", "_"))
    text = (folder / "table.md").read_text(encoding="utf-8")
    assert "boxworld_captions, split val" in text and "boxworld_captions" in told
    heading = {
        "table2": "Gemini-2.5-Pro",
        "table3": "DeepSeek-V3.1",
        "fig4a": "By number of constraints",
        "fig4b": "By words of the instruction",
        "fig4c": "Instruction following",
        "fig4d": "Instruction following",
        "fig5": "CSR by group of constraint types",
        "statistics": "FollowBench",
    }[experiment.partition("/")[2]]
    assert heading in told and heading in text
    assert (folder / "table.tex").stat().st_size > 0 and (folder / "tables").is_dir()


def test_published_numbers_stand_beside_ours_and_in_no_file_of_ours(runs):
    folder, _ = runs.once("if_vidcap/table2")
    assert "Gemini-2.5-Pro" in (folder / "table.md").read_text(encoding="utf-8")
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert {row["method"] for row in metrics["rows"]} == {"scripted"}


def test_sizes_of_frames_are_runs_of_their_own_and_say_so(runs):
    small, _ = runs.run("if_vidcap/fig4d", "frames=8", "reader.side=48")
    large, _ = runs.run("if_vidcap/fig4d", "frames=8", "reader.side=336")
    assert small != large
    tables = [(folder / "table.md").read_text(encoding="utf-8") for folder in (small, large)]
    assert "size 48 × 48" in tables[0] and "size 336 × 336" in tables[1]
    texts = [
        [json.loads(line)["text"] for line in (folder / "responses.jsonl").read_text().splitlines()]
        for folder in (small, large)
    ]
    assert texts[0] != texts[1], "what cannot be read at 48 pixels is not told"
    report, told = runs.run("if_vidcap/fig4d", "mode=table", f"runs=[{large},{small}]")
    table = (report / "table.md").read_text(encoding="utf-8")
    assert report.parent.name == "report" and "several runs" in table and "size 48 × 48" in table
    assert small.name in told and large.name in told


def test_figure_5_shows_the_published_models(runs):
    forms = ["report=[figures]", "report.figures.formats=[png]", "mode=table"]
    folder, _ = runs.once("if_vidcap/fig5")
    assert runs.run("if_vidcap/fig5", *forms)[0] == folder
    figures = {path.name for path in (folder / "figures").glob("*.png")}
    assert {"by-type.png", "by-constraints.png", "constraints.png"} <= figures


def test_counting_asks_nobody_and_leaves_a_folder_that_a_run_may_continue(runs):
    folder, _ = runs.once("if_vidcap/statistics")
    assert not (folder / "responses.jsonl").exists() and not (folder / "judges.json").exists()
    again, told = runs.run("if_vidcap/statistics", "mode=all", "show=results", "published=null")
    assert again == folder and "Instruction following" in told and (folder / "metrics.json").is_file()
    _, told = runs.run("if_vidcap/statistics")
    assert "FollowBench" in told, "and may be counted again"
