"""One table over the runs of a sweep, from their folders alone; a run that left no numbers is named, never skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from trustvid.errors import DataError
from trustvid.evaluation.grid import DROP, MICRO
from trustvid.evaluation.jsonfiles import read_json
from trustvid.evaluation.marking import mark_accuracy
from trustvid.evaluation.provenance import NOT_HASHED
from trustvid.evaluation.store import RunFolder
from trustvid.evaluation.tables import Cell, Header, Table, natural_key
from trustvid.evaluation.view import MetricsView, average_notes, mark_notes, pool_notes


@dataclass(frozen=True)
class _Run:
    """A folder of the sweep: its words of the command line, its numbers (None: it left none) and why not."""

    folder: Path
    overrides: tuple[str, ...]
    view: MetricsView | None
    trouble: str


def table_from_runs(folders: Sequence[Path | str]) -> Table:
    """Runs × methods against conditions: headline accuracy in percent ± error, the best method of each run marked.

    A run is labelled by the overrides in which the runs differ, and runs are sorted by them (numbers by value). What
    benchmark, split, policy and settings all runs share stands in the caption, what differs in columns and footnotes.

    Args:
        folders: run folders, or folders of jobs that failed before they became one.

    Raises:
        DataError: no folder holds numbers, or a file in one is not what a run writes.
    """
    runs = [_read_run(Path(folder)) for folder in folders]
    names = _labels(runs)
    order = sorted(range(len(runs)), key=lambda i: [natural_key(part.partition("=")[2] or part) for part in names[i]])
    done = [(", ".join(names[i]), run.view) for i in order if (run := runs[i]).view is not None]
    if not done:
        reasons = "; ".join(f"{run.folder}: {run.trouble}" for run in runs)
        raise DataError(f"none of {len(runs)} runs has metrics.json ({reasons or 'no folder given'})")
    views = [view for _, view in done]
    differing = [key for key in views[0].stamp if len({view.stamp[key] for view in views}) > 1]
    columns = _known_columns(views)
    rows: list[tuple[str | Cell, ...]] = []
    rules = set()
    for name, view in done:
        rules.add(len(rows))
        rows += _run_rows(name, view, columns, differing)
    shared = [part for part in views[0].stamp_parts() if all(part in view.stamp_parts() for view in views)]
    texts = ("run", *differing, "method", "average", "questions")
    return Table(
        caption=f"Accuracy in percent ± standard error (clustered by video). {'; '.join(shared) or 'Runs differ'}.",
        headers=tuple(Header(name) for name in (*texts, *columns)),
        rows=tuple(rows),
        footnotes=(
            *_trouble_notes([runs[i] for i in order], [", ".join(names[i]) for i in order]),
            *_own_settings(done, shared),
            *dict.fromkeys(note for view in views for note in average_notes(view)),
            *_suite_notes(done),
            *dict.fromkeys(note for view in views for note in mark_notes(view)),
        ),
        rules=frozenset(rules),
        stamp={key: value for key, value in views[0].stamp.items() if key not in differing},
    )


def _read_run(folder: Path) -> _Run:
    run = RunFolder(folder).run()
    metrics = folder / "metrics.json"
    if metrics.is_file():
        status = run["status"] if run else "unknown"
        trouble = "" if status == "finished" else f"status {status}, its numbers may be old or partial"
        numbers = read_json(metrics)
        if "judges" in numbers.get("context", {}):
            raise DataError(f"{folder}: is a run of captions; this table is of runs that answer questions")
        return _Run(folder, _overrides(folder, run), MetricsView(numbers), trouble)
    trouble = f"status {run['status']}" if run else "no run.json"
    lines = str((run or {}).get("error") or "").splitlines()
    error = " ".join(line.strip(" -") for line in lines[: 2 if lines and lines[0].endswith(":") else 1])
    return _Run(folder, _overrides(folder, run), None, f"{trouble}: {error}" if error else trouble)


def _overrides(folder: Path, run: dict[str, Any] | None) -> tuple[str, ...]:
    """The words that made the run: from ``run.json``, or from what Hydra wrote before the run began."""
    if run and run.get("overrides"):
        return tuple(run["overrides"])
    path = folder / ".hydra" / "overrides.yaml"
    if not path.is_file():
        return ()
    import yaml

    try:
        words = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}; expected the list of overrides that Hydra writes") from error
    return tuple(map(str, words or ()))


def _labels(runs: Sequence[_Run]) -> list[tuple[str, ...]]:
    """The overrides of each run that not every run has and that can change an answer.

    The folder's name where that leaves nothing, and beside it where it leaves several runs the same.
    """
    common = set.intersection(*(set(run.overrides) for run in runs)) if runs else set()
    own = [tuple(w for w in run.overrides if w not in common and _changes_answers(w)) for run in runs]
    return [
        words if words and own.count(words) == 1 else (*words, run.folder.name)
        for words, run in zip(own, runs, strict=True)
    ]


def _changes_answers(override: str) -> bool:
    """Whether a word of the command line is about the answers, not about where files lie or how they are shown."""
    key = override.lstrip("+~").partition("=")[0]
    about_files = any(fnmatchcase(key, name) or key.startswith(f"{name}.") for name in NOT_HASHED)
    return key == "scale" or not about_files


def _known_columns(views: Sequence[MetricsView]) -> list[str]:
    """Column names in the order of the first run that has them, mean and drop last."""
    names = dict.fromkeys(view.column_name(condition) for view in views for condition in view.columns)
    last = [name for name in ("mean", DROP) if name in names]
    return [*(name for name in names if name not in last), *last]


def _run_rows(name: str, view: MetricsView, columns: Sequence[str], differing: Sequence[str]) -> list[tuple]:
    scope, label = next(iter(view.averages.items()))
    conditions = {view.column_name(condition): condition for condition in view.columns}
    marked = []
    for column in columns:
        condition = conditions.get(column)
        cells = [Cell(None) if condition is None else view.cell(m, condition, scope) for m in view.methods]
        marked.append(cells if condition is None else mark_accuracy(view, condition, scope, cells))
    stamp = [view.stamp[key] for key in differing]
    questions = str(view.context["n_questions"])
    return [
        (name, *stamp, method, "average" if scope == MICRO else label, questions, *row)
        for method, row in zip(view.methods, zip(*marked, strict=True), strict=True)
    ]


def _trouble_notes(runs: Sequence[_Run], names: Sequence[str]) -> list[str]:
    missing = [f"{name} ({run.trouble})" for run, name in zip(runs, names, strict=True) if run.view is None]
    notes = [f"{len(missing)} of {len(runs)} runs missing: {'; '.join(missing)}."] if missing else []
    doubtful = [f"{name}: {run.trouble}" for run, name in zip(runs, names, strict=True) if run.view and run.trouble]
    return notes + ([f"Not finished: {'; '.join(doubtful)}."] if doubtful else [])


def _suite_notes(done: Sequence[tuple[str, MetricsView]]) -> list[str]:
    """What the columns of suites are the mean of; run by run where suites of one name differ."""
    notes = {name: note for name, view in done for note in pool_notes(view)}
    if len(set(notes.values())) == 1:
        return [next(iter(notes.values()))]
    return [f"{name}: {note}" for name, note in notes.items()]


def _own_settings(done: Sequence[tuple[str, MetricsView]], shared: Sequence[str]) -> list[str]:
    own = [(name, [part for part in view.stamp_parts() if part not in shared]) for name, view in done]
    return [f"{name}: {'; '.join(parts)}." for name, parts in own if parts]
