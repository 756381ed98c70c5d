"""The last step of an evaluation, on a run that is made here: which forms are written where, and what it refuses.

pytest tests/unit/test_stage_report.py -q -n 0
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from trustvid.errors import ConfigError, DataError
from trustvid.evaluation.origin import origin_notes
from trustvid.evaluation.store import RunFolder
from trustvid.stages.evaluate import run
from trustvid.stages.report import matching

CONF = Path(__file__).parents[2] / "conf"


def evaluate(root: Path, *words: str) -> Path:
    """``python evaluate.py experiment=embedded/demo scale=tiny …`` in this process, few methods and corruptions."""
    with initialize_config_dir(str(CONF), version_base=None):
        few = ["methods=[blind,anchored]", "corruption=[glare]", "workers=0"]
        return run(
            compose("evaluate", ["experiment=embedded/demo", "scale=tiny", *few, f"paths.outputs={root}", *words])
        )


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def folder(root) -> Path:
    return evaluate(root)


def files_of(folder: Path) -> set[str]:
    return {name for name in RunFolder(folder).existing_run()["files"] if not name.startswith("tables/")}


def test_every_form_is_written_and_named_in_the_run(folder):
    assert {"table.md", "table.csv", "table.tex", "metrics.json"} <= files_of(folder)
    notes = (folder / "table.md").read_text()
    assert (
        "Policy: ScriptedPolicy." in notes and "Decoding: reader auto, frames per clip 8, window 2 s, seed 0." in notes
    )
    assert f"Run {folder.name}: trustvid " in notes
    with (folder / "tables" / "power.csv").open() as file:
        assert next(csv.DictReader(file))["pair"] == "anchored − blind"


def test_tables_are_made_again_from_the_numbers_alone(root, folder, capsys):
    (folder / "predictions.jsonl").rename(folder / "away")
    before = (folder / "table.md").read_bytes()
    (folder / "table.md").unlink()
    try:
        assert evaluate(root, "mode=table", "report=[markdown,console]", "show=power") == folder
    finally:
        (folder / "away").rename(folder / "predictions.jsonl")
    assert (folder / "table.md").read_bytes() == before
    out = capsys.readouterr().out
    assert "Questions that a difference needs" in out and "Accuracy in percent" not in out
    assert f"written: {folder}/table.md\n" in out


def test_numbers_of_others_stand_beside_ours(root, folder):
    evaluate(root, "mode=table", "published=robust_to/table2", "report=[csv,latex]")
    rows = list(csv.DictReader(io.StringIO((folder / "tables" / "results.csv").read_text())))
    assert {row["method"] for row in rows if row["published"] == "no"} == {"blind", "anchored"}
    assert any(row["published"] == "yes" and row["method"].startswith("GPT-4o") for row in rows)
    assert "published" not in (folder / "table.csv").read_text()
    assert "\\textcolor{gray}{GPT-4o" in (folder / "table.tex").read_text()


def test_several_runs_make_a_report_of_their_own(root, folder, capsys):
    other = evaluate(root, "severity=5", "report=[]")
    capsys.readouterr()
    made = evaluate(root, "mode=table", f"runs={root}/evaluate/demo-*", "show=tasks")
    assert made.parent == root / "report" and made.name.startswith("demo-") and made not in (folder, other)
    text = (made / "table.md").read_text()
    for name in (folder.name, other.name):
        assert f"Run {name}. Accuracy in percent" in text and f"Run {name}. Accuracy per task" in text
    with (made / "table.csv").open() as file:
        assert {row["run"] for row in csv.DictReader(file)} == {other.name, folder.name}  # no command line here
    out = capsys.readouterr().out
    assert out.index("Accuracy in percent") < out.index("Accuracy per task")
    assert evaluate(root, "mode=table", f"runs=[{other},{folder}]", "report=[csv]") == made  # same runs, same folder
    assert files_of(made) == {"table.csv"}


def test_what_cannot_be_reported_says_why(root, folder, tmp_path):
    with pytest.raises(ConfigError, match=r"nothing-\*: no folder matches"):
        evaluate(root, "mode=table", f"runs=[{folder},{root}/nothing-*]")
    with pytest.raises(ConfigError, match="by mode=table"):
        evaluate(root, f"runs={folder}")
    with pytest.raises(ConfigError, match="show=taks: this run has no such table; it has results, "):
        evaluate(root, "mode=table", "show=taks")
    with pytest.raises(ConfigError, match="show=taks: none of the runs"):
        evaluate(root, "mode=table", f"runs={folder}", "show=taks")
    with pytest.raises(DataError, match=r"no metrics\.json; run mode=score"):
        evaluate(tmp_path, "mode=table")
    with pytest.raises(ConfigError, match="names no run"):
        matching([])


def test_runs_are_found_once_and_in_the_order_of_numbers(tmp_path):
    for name in ("step_10", "step_9", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "step_1.txt").touch()
    found = matching([f"{tmp_path}/step_*", f"{tmp_path}/step_9"])
    assert [path.name for path in found] == ["step_9", "step_10"]


def test_origin_tells_model_revision_and_decoding(folder, tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "config.yaml").write_text(
        "policy: {_target_: x.VisionLanguagePolicy, model: Qwen/Q, revision: abc123, do_sample: false, temperature: 0.1,"
        " top_p: null, device: cuda, init_from: /somewhere/outputs/grpo/run-1}\nframes: 16\nreader: {kind: pyav}\n"
    )
    (tmp_path / "run.json").write_text(
        (folder / "run.json").read_text().replace('"finished"', '"failed"').replace('"commit"', '"commit0"')
    )
    policy, decoding, run_note = origin_notes(tmp_path)
    assert policy == (
        "Policy: VisionLanguagePolicy, model Qwen/Q (revision abc123), weights run-1, do_sample false, temperature 0.1."
    )
    assert decoding == "Decoding: reader pyav, frames per clip 16."
    assert run_note.endswith("status failed: numbers may be partial.") and "commit" not in run_note
    text = (tmp_path / "run.json").read_text().replace('"continued": []', '"continued": [{"commit": "abcdef012345"}]')
    (tmp_path / "run.json").write_text(text)
    assert ", commit abcdef0123, status failed" in origin_notes(tmp_path)[2]
    assert origin_notes(tmp_path / "nowhere") == ()
    (tmp_path / ".hydra" / "config.yaml").write_text("[")
    with pytest.raises(DataError, match=r"config\.yaml"):
        origin_notes(tmp_path)
