"""Whether a job of a sweep has nothing left to do, told from its run folder before anything heavy is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from trustvid.config.schema import DEFAULT_BASELINE
from trustvid.evaluation.jsonfiles import read_json
from trustvid.evaluation.store import RunFolder, RunInfo

if TYPE_CHECKING:
    from trustvid.config.schema import EvaluateConfig

ANSWERED = ("predictions.jsonl", "questions.json", "metrics.json")


def finished(folder: RunFolder, info: RunInfo, needed: Sequence[str]) -> bool:
    """Whether a finished run of this config and program version lies in ``folder``, with the files ``needed``.

    Raises:
        DataError: ``run.json`` is not what a run writes.
    """
    run = folder.run()
    return (
        run is not None
        and run["status"] == "finished"
        and (run["config_hash"], run["trustvid"]) == (info.config_hash, version("trustvid"))
        and all((folder.path / name).is_file() for name in needed)
    )


def evaluation_finished(
    folder: RunFolder, info: RunInfo, typed: EvaluateConfig, digests: Callable[[], Mapping[str, str]]
) -> bool:
    """Whether every question is answered and scored as this config wants it.

    What costs nothing is asked first: the state of the folder, then what of the config is no part of its hash
    (``fresh``, ``retry_unscored``, ``baseline``, ``contrasts``), and last the data.

    Args:
        folder: the run's.
        info: what the run is; its ``datasets`` are not read.
        typed: the checked config.
        digests: of the data that the run would read now, by name, as far as they are cheap to know.

    Raises:
        DataError: a file in the folder is not what a run writes, or the data cannot be read.
    """
    if typed.fresh or not finished(folder, info, ANSWERED):
        return False
    about = read_json(folder.path / "metrics.json")["context"]
    if typed.retry_unscored and about["unscored"]:
        return False
    methods = list(typed.methods)
    stands_in = typed.baseline == DEFAULT_BASELINE and DEFAULT_BASELINE not in methods
    baseline = methods[0] if stands_in else typed.baseline
    contrasts = [list(pair) for pair in typed.contrasts]
    if (about["baseline"], about.get("contrasts", [])) != (baseline, contrasts):
        return False
    known = folder.existing_run()["datasets"]
    return all(known.get(name) == digest for name, digest in digests().items())
