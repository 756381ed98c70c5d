"""``mode=calibrate`` as a user runs it: fit on dev, use the fit, check it elsewhere."""

from __future__ import annotations

import hashlib
import json

from trustvid.reliability.calibration import load_calibration

COMMON = ["benchmark.n_videos=2", "corruption=[low_light]", "workers=1"]
FIT = [*COMMON, "mode=calibrate", "benchmark.split=dev", "calibrate.severities=[4]", "calibrate.frames=5"]


def test_a_calibration_fitted_here_is_used_there_and_known_in_the_record(user):
    result = user.evaluate(*FIT, "calibrate.output=mine.json")
    (folder,) = (user.folder / "outputs" / "calibrate").iterdir()
    mine = user.folder / "mine.json"
    assert json.loads(mine.read_bytes()) == json.loads((folder / "calibration.json").read_bytes())
    for channels in ("relative", "absolute"):
        fitted = load_calibration(str(mine), channels)
        assert fitted.fitted and fitted.suite == ("low_light",) and fitted.data["split"] == "dev"
        assert fitted.tools["read_text"].yield_model.coefficients["dark2"] < 0
    assert "Is a report right?" in result.stdout and "routing" in (folder / "calibration.md").read_text().lower()

    passes = len((folder / "cases.jsonl").read_text().splitlines())
    user.evaluate(*FIT, "calibrate.output=again.json")  # the cases are there: nothing is looked at twice
    assert len((folder / "cases.jsonl").read_text().splitlines()) == passes
    assert (user.folder / "again.json").read_bytes() == mine.read_bytes()

    uses = ["methods.anchored.reliability.calibration=mine.json", "methods.anchored.confidence.calibration=mine.json"]
    user.evaluate(*COMMON, *uses, "methods=[anchored]", "limit=1")
    record = json.loads((user.only_run / "run.json").read_text())
    assert record["datasets"]["calibration mine.json"] == hashlib.sha256(mine.read_bytes()).hexdigest()
    mine.write_text(mine.read_text().replace("-0.", "-1."), encoding="utf-8")
    changed = user.evaluate(*COMMON, *uses, "methods=[anchored]", "limit=1", check=False)
    assert changed.returncode != 0 and "cannot continue this run" in changed.stderr


def test_nothing_is_fitted_on_a_split_that_is_for_looking_or_claiming(user):
    refused = user.evaluate(
        *COMMON, "mode=calibrate", "benchmark.split=test", "calibrate.output=mine.json", check=False
    )
    assert refused.returncode != 0 and "nothing is fitted on split test" in refused.stderr
    assert not (user.folder / "mine.json").exists()
