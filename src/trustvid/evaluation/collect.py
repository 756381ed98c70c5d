"""The numbers of many runs as one tidy file: a row for each run × method × condition × task × metric.

A run that left no numbers has one row, with its status and the reason, so that nobody averages over what is missing
without seeing it.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trustvid.errors import DataError
from trustvid.evaluation.jsonfiles import read_json, replace_file
from trustvid.evaluation.store import RunFolder
from trustvid.evaluation.tables import Cell, Header, Table, as_number, natural_key

ABOUT = ("job", *(_TEXTS := ("status", "reason", "run")))
NUMBERS = ("method", "judge", "condition", "task", "metric")
VALUES = ("value", "se", "n", "unscored", "bound_low", "bound_high")

DONE = ("finished", "skipped")
_TOLD = {"skipped": "finished already", "running": "broken off"}


@dataclass(frozen=True)
class Job:
    """A job of a sweep, or a run on its own.

    Attributes:
        name: number of the job in its sweep; of a run on its own, the folder's name.
        overrides: the words of the command line that made its config.
        folder: its run folder; None when it failed before it had one.
        status: "finished", "skipped" (it had finished before), "failed", or "running" (now, or until it was killed).
        reason: why it failed, or "".
    """

    name: str
    overrides: tuple[str, ...]
    folder: Path | None
    status: str
    reason: str = ""


def read_job(folder: Path) -> Job:
    """A job as its record in the sweep's folder has it.

    Raises:
        DataError: there is no record, or it is not one.
    """
    record = read_json(folder / "job.json")
    run = Path(record["folder"]) if record["folder"] else None
    return Job(folder.name, tuple(record["overrides"]), run, record["status"], record["reason"] or "")


def jobs_of(sweep: Path) -> list[Job]:
    """The jobs of a sweep that have begun, in order."""
    return [
        read_job(path.parent)
        for path in sorted(sweep.glob("*/job.json"), key=lambda path: natural_key(path.parent.name))
    ]


def job_of_run(folder: Path) -> Job:
    """A run folder on its own, as its ``run.json`` has it."""
    run = RunFolder(folder).run()
    if run is None:
        return Job(folder.name, (), folder, "failed", "no run.json")
    return Job(folder.name, tuple(run["overrides"]), folder, run["status"], run["error"] or "")


# -- tidy --------------------------------------------------------------------------------------------------------------


def tidy(jobs: Sequence[Job | Path | str]) -> list[dict[str, Any]]:
    """Rows of equal keys: about the job, a column for each setting in which the jobs differ, the number.

    ``value``, ``se`` and bounds are as in ``metrics.json`` (accuracies 0–1); of a training run the rows are the last
    metrics of ``training.json``, without method, condition and task. Settings have the values that were typed.

    Args:
        jobs: of a sweep, or run folders.

    Raises:
        DataError: a file is not what a run writes.
    """
    jobs = [job if isinstance(job, Job) else job_of_run(Path(job)) for job in jobs]
    settings = swept(jobs)
    rows = []
    for job, chosen in zip(jobs, settings, strict=True):
        about = {
            "job": job.name,
            "status": job.status,
            "reason": job.reason or None,
            "run": job.folder and str(job.folder),
        }
        for number in list(_numbers(job.folder)) or [{}]:
            rows.append({**about, **chosen, **{key: number.get(key) for key in (*NUMBERS, *VALUES)}})
    return rows


def swept(jobs: Sequence[Job]) -> list[dict[str, str | None]]:
    """For each job the settings in which the jobs differ, by name; None where a job does not name one.

    A setting whose name is a column's own ("run", "method", …) goes by ``set.<name>``.
    """
    chosen = [dict(_setting(word) for word in job.overrides) for job in jobs]
    keys = dict.fromkeys(key for settings in chosen for key in settings)
    differing = [key for key in keys if len({settings.get(key) for settings in chosen}) > 1]
    own = {*ABOUT, *NUMBERS, *VALUES}
    return [{f"set.{key}" if key in own else key: settings.get(key) for key in differing} for settings in chosen]


def _setting(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    return (key.lstrip("+"), value) if equals else (key, "removed")


def _numbers(folder: Path | None) -> Iterator[Mapping[str, Any]]:
    """What ``metrics.json`` or ``training.json`` of a run holds; nothing where there is neither."""
    if folder is None:
        return
    if (folder / "metrics.json").is_file():
        yield from read_json(folder / "metrics.json")["rows"]
    elif (folder / "training.json").is_file():
        training = read_json(folder / "training.json")
        plain = {name: value for name, value in training.items() if name != "metrics"}
        for name, value in sorted({**plain, **training["metrics"]}.items()):
            yield {"metric": name, "value": value}


# -- files -------------------------------------------------------------------------------------------------------------


def write_tidy(rows: Sequence[Mapping[str, Any]], folder: Path) -> tuple[Path, Path]:
    """``runs.csv`` and ``runs.parquet`` with the same rows; columns of settings are numbers where all values are.

    Args:
        rows: at least one, of :func:`tidy`.
        folder: is there.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: _typed(name, [row[name] for row in rows]) for name in rows[0]}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    paths = folder / "runs.csv", folder / "runs.parquet"
    replace_file(paths[0], text.getvalue())
    types = {"value": pa.float64(), "se": pa.float64(), "bound_low": pa.float64(), "bound_high": pa.float64()}
    types |= dict.fromkeys(("n", "unscored"), pa.int64()) | dict.fromkeys((*_TEXTS, *NUMBERS), pa.string())
    table = pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})
    temporary = folder / ".runs.parquet.tmp"
    pq.write_table(table, temporary)
    temporary.replace(paths[1])
    return paths


def _typed(name: str, values: Sequence[Any]) -> list[Any]:
    """The values of a column as numbers where every one that is there is one; whole ones as int."""
    if name in (*_TEXTS, *NUMBERS, *VALUES):
        return list(values)
    numbers = [as_number(value) for value in values if value is not None]
    if not numbers or None in numbers:
        return list(values)
    kind = (
        int
        if all("." not in str(value) and "e" not in str(value).lower() for value in values if value is not None)
        else float
    )
    return [None if value is None else kind(value) for value in values]


# -- a sweep's end -----------------------------------------------------------------------------------------------------


def collect(sweep: Path) -> bool:
    """Write ``runs.csv``, ``runs.parquet``, ``jobs.md`` and ``table.*`` of a sweep, and print jobs and table.

    Returns:
        Whether every job has finished.

    Raises:
        DataError: no job has begun, or a file of one is not what a run writes.
    """
    from trustvid.evaluation.render import print_table, to_csv, to_latex, to_markdown

    jobs = jobs_of(sweep)
    if not jobs:
        raise DataError(f"{sweep}: no job of this sweep has begun")
    lines = job_lines(jobs)
    print("\n" + "\n".join(lines))
    written = [path.name for path in write_tidy(tidy(jobs), sweep)]
    table = sweep_table(jobs, sweep)
    if table is not None:
        print_table(table)
        forms = {"table.md": to_markdown(table), "table.csv": to_csv(table), "table.tex": to_latex(table, "tab:sweep")}
        for name, text in forms.items():
            replace_file(sweep / name, text)
        written += forms
    replace_file(sweep / "jobs.md", "\n".join(lines) + "\n")
    print(f"written: {sweep}/{', '.join([*written, 'jobs.md'])}")
    return all(job.status in DONE for job in jobs)


def job_lines(jobs: Sequence[Job]) -> list[str]:
    """One line on the whole and one on each job: what it was, how it went, where it lies or why it failed."""
    counts = Counter(_TOLD.get(job.status, job.status) for job in jobs)
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    lines = [f"{len(jobs)} job{'s' * (len(jobs) != 1)}: {told}", ""]
    for job, label in zip(jobs, labels(jobs), strict=True):
        where = job.reason.partition("\n")[0] if job.status == "failed" else str(job.folder or "no run folder")
        lines.append(f"- {job.name} · {label} · {_TOLD.get(job.status, job.status)} · {where}")
    shared = Counter(job.folder for job in jobs if job.folder is not None)
    lines += [
        f"\n{count} jobs are one run, {folder}: what they differ in changes nothing of its config"
        for folder, count in shared.items()
        if count > 1
    ]
    return lines


def labels(jobs: Sequence[Job]) -> list[str]:
    """What tells each job from the others: "severity=3"; its number where nothing does."""
    return [
        ", ".join(f"{key.removeprefix('set.')}={value}" for key, value in chosen.items() if value is not None)
        or job.name
        for job, chosen in zip(jobs, swept(jobs), strict=True)
    ]


def sweep_table(jobs: Sequence[Job], sweep: Path) -> Table | None:
    """Runs × methods against conditions where all runs ask questions; else metrics × jobs. None without numbers."""
    from trustvid.evaluation.multirun import table_from_runs

    with_numbers = [job for job in jobs if job.folder is not None and any(_numbers(job.folder))]
    if not with_numbers:
        return None
    if all(_asks_questions(job.folder) for job in with_numbers):
        # The job's own folder, where it has no run yet, holds its words.
        has_run = [job.folder is not None and (job.folder / "run.json").is_file() for job in jobs]
        folders = [job.folder if has else sweep / job.name for job, has in zip(jobs, has_run, strict=True)]
        return table_from_runs(list(dict.fromkeys(folders)))
    return _metric_table(with_numbers, len(jobs))


def _asks_questions(folder: Path) -> bool:
    path = folder / "metrics.json"
    return path.is_file() and "n_questions" in read_json(path)["context"]


def _metric_table(jobs: Sequence[Job], n_jobs: int) -> Table:
    """The numbers over everything, a row each, a column for each job."""
    columns = [dict(_overall(job.folder)) for job in jobs]
    keys = dict.fromkeys(key for column in columns for key in column)
    missing = n_jobs - len(jobs)
    return Table(
        caption="Last metrics of each job.",
        headers=tuple(Header(name) for name in ("metric", *labels(jobs))),
        rows=tuple((" · ".join(key), *(_cell(column.get(key)) for column in columns)) for key in keys),
        footnotes=(f"{missing} of {n_jobs} jobs left no numbers.",) if missing else (),
    )


def _cell(value: float | None) -> Cell:
    """Four significant digits: metrics of a training are of any size."""
    if value is None or float(value).is_integer():
        return Cell(value, decimals=0)
    return Cell(value, decimals=max(0, 3 - math.floor(math.log10(abs(value)))))


def _overall(folder: Path) -> Iterator[tuple[tuple[str, ...], float | None]]:
    """Every number of a training; of captions those over all constraints ("isr", not "isr/rule_based")."""
    for row in _numbers(folder):
        if row.get("task") is None or (row["task"] == "all" and "/" not in row["metric"]):
            yield tuple(str(row[key]) for key in NUMBERS if row.get(key) is not None and key != "task"), row["value"]
