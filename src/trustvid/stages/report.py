"""The last step of an evaluation: the tables of a run, or of several, in the forms that ``report`` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import Any

from trustvid.config.checking import build
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, DataError
from trustvid.evaluation.jsonfiles import read_json
from trustvid.evaluation.provenance import config_hash
from trustvid.evaluation.report_forms import Report
from trustvid.evaluation.store import RunFolder, RunInfo, RunWriter
from trustvid.evaluation.tables import Table, natural_key
from trustvid.stages.common import overrides, run_path

MAIN, RUNS = "results", "runs"


def tell(config: Mapping[str, Any], typed: EvaluateConfig, folders: Sequence[Path]) -> Path:
    """Report on a run in its own folder, or on several in a folder of their own, and say what was written.

    Args:
        config: plain; its ``report`` holds the forms.
        typed: the same, checked.
        folders: the run's; with ``runs`` those that it names (:func:`matching`).

    Returns:
        The folder that the report was written to.

    Raises:
        DataError: a run has no numbers, or the published ones belong under none of its tables.
        ConfigError: ``show`` names no table of the report.
    """
    if typed.runs is None:
        (path,) = folders
        report = run_report(typed, path)
        with RunFolder(path).reporting() as writer:
            write_report(config, report, writer)
        return path
    from trustvid.stages.caption_report import caption_runs_report, of_captions

    report = caption_runs_report(typed, folders) if of_captions(folders) else runs_report(typed, folders)
    digest = config_hash({"folders": sorted(str(path.resolve()) for path in folders)}, ())
    path = run_path(config, digest, "report")
    with RunFolder(path).writing(RunInfo(typed.name, digest, overrides=overrides()), fresh=True) as writer:
        write_report(config, report, writer)
    return path


def write_report(config: Mapping[str, Any], report: Report, writer: RunWriter) -> None:
    """Let every form of ``config["report"]`` speak, write its files, and name them on the terminal."""
    names = []
    for node in config["report"].values():
        for name, content in build(node).render(report).items():
            if isinstance(content, bytes):
                writer.write_bytes(name, content)
            else:
                writer.write_text(name, content)
            names.append(name)
    if names:
        print(f"written: {writer.path}/{_listed(names)}")


def _listed(names: Sequence[str]) -> str:
    """File names; of a folder with several of them only how many."""
    folders = [name.rpartition("/")[0] for name in names]
    listed = [
        name if not folder else f"{folder}/ ({folders.count(folder)} files)"
        for name, folder in zip(names, folders, strict=True)
    ]
    return ", ".join(dict.fromkeys(listed))


# -- what there is to report -------------------------------------------------------------------------------------------


def run_report(typed: EvaluateConfig, folder: Path) -> Report:
    """The tables of one run, from its folder.

    Raises:
        DataError, ConfigError: as :func:`tell`.
    """
    from trustvid.evaluation.report import results_table

    metrics = _metrics(folder)
    tables = _tables(typed, folder, metrics)
    if typed.show not in tables:
        raise ConfigError([f"show={typed.show}: this run has no such table; it has {', '.join(tables)}"])
    # Suites are read by their differences: a claim stands or falls with these intervals.
    after = ("differences",) if metrics["context"].get("pools") and typed.show == MAIN else ()
    return Report(
        tables,
        typed.show,
        [folder],
        printed=tuple(name for name in (typed.show, *after) if name in tables),
        complete=results_table(metrics, complete=True),
    )


def runs_report(typed: EvaluateConfig, folders: Sequence[Path]) -> Report:
    """One table over all runs, then for each run that has numbers its results, differences and what ``show`` names.

    Raises:
        DataError, ConfigError: as :func:`tell`.
    """
    from trustvid.evaluation.multirun import table_from_runs

    tables: dict[str, Table] = {RUNS: table_from_runs(folders)}
    found: dict[str, Table] = {}
    printed = [RUNS]
    for folder in folders:
        if not (folder / "metrics.json").is_file():
            continue  # named under the first table
        own = _tables(typed, folder, _metrics(folder))
        wanted = dict.fromkeys((MAIN, "differences", typed.show))
        found |= own
        tables |= {f"{folder.name}/{name}": _of_run(own[name], folder) for name in wanted if name in own}
        printed += [f"{folder.name}/{typed.show}"] if typed.show != MAIN and typed.show in own else []
    if typed.show not in (RUNS, *found):
        raise ConfigError([f"show={typed.show}: none of the runs has such a table; they have {', '.join(found)}"])
    return Report(tables, RUNS, folders, printed=tuple(printed), complete=tables[RUNS])


def _of_run(table: Table, folder: Path) -> Table:
    from dataclasses import replace

    return replace(table, caption=f"Run {folder.name}. {table.caption}")


def _tables(typed: EvaluateConfig, folder: Path, metrics: Mapping[str, Any]) -> dict[str, Table]:
    from trustvid.evaluation.origin import origin_notes
    from trustvid.evaluation.published_tables import load_published
    from trustvid.evaluation.report import tables_of

    published = load_published(typed.published) if typed.published else None
    return tables_of(metrics, published, origin_notes(folder))


def _metrics(folder: Path) -> Mapping[str, Any]:
    path = folder / "metrics.json"
    if not path.is_file():
        raise DataError(f"{folder}: no metrics.json; run mode=score (or mode=all) first")
    return read_json(path)


# -- several runs ------------------------------------------------------------------------------------------------------


def matching(runs: str | Sequence[str]) -> list[Path]:
    """The folders that ``runs`` names (patterns or paths), each once, in the order of numbers in their names.

    Raises:
        ConfigError: a pattern matches no folder; all of them together.
    """
    patterns = [runs] if isinstance(runs, str) else list(runs)
    names = {pattern: glob(pattern) for pattern in patterns}  # noqa: PTH207 — Path.glob takes no absolute pattern
    matched = {pattern: [Path(name) for name in found if Path(name).is_dir()] for pattern, found in names.items()}
    faults = list(_unmatched(matched))
    if faults:
        raise ConfigError(faults)
    found = {path.resolve(): path for paths in matched.values() for path in paths}
    return sorted(found.values(), key=lambda path: natural_key(str(path)))


def _unmatched(matched: Mapping[str, Sequence[Path]]) -> Iterator[str]:
    if not matched:
        yield "runs=[]: names no run; expected folders or patterns, e.g. runs='outputs/evaluate/boxworld-*'"
    for pattern, paths in matched.items():
        if not paths:
            yield f"runs={pattern}: no folder matches, seen from {Path.cwd()}; expected folders of runs"
