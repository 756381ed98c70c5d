"""One table over several caption runs, of a sweep say; a run that left no numbers is named, never skipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trustvid.captioning.metrics import ALL
from trustvid.captioning.report import MAIN, MAX_UNSCORED, CaptionView, cell_of, header_of
from trustvid.errors import DataError
from trustvid.evaluation.jsonfiles import read_json
from trustvid.evaluation.store import RunFolder
from trustvid.evaluation.tables import Cell, Header, Table, mark_best, natural_key


@dataclass(frozen=True)
class CaptionRun:
    """A run folder.

    Attributes:
        folder: where it lies.
        overrides: its words of the command line.
        view: its numbers; None when it left none.
        trouble: why it left none, or why they may not be its last; "" when all is well.
    """

    folder: Path
    overrides: tuple[str, ...]
    view: CaptionView | None
    trouble: str


def read_caption_run(folder: Path) -> CaptionRun:
    """The run in a folder.

    Raises:
        DataError: its numbers are not of captions.
    """
    run = RunFolder(folder).run() or {}
    overrides = tuple(run.get("overrides") or ())
    status = run.get("status", "unknown")
    if not (folder / "metrics.json").is_file():
        error = str(run.get("error") or "").partition("\n")[0]
        return CaptionRun(folder, overrides, None, f"status {status}: {error}" if error else f"status {status}")
    metrics = read_json(folder / "metrics.json")
    if "judges" not in metrics.get("context", {}):
        raise DataError(f"{folder}: its numbers are of questions; expected runs of captions, as the config asks for")
    trouble = "" if status == "finished" else f"status {status}, its numbers may be old or partial"
    return CaptionRun(folder, overrides, CaptionView(metrics), trouble)


def caption_runs_table(folders: Sequence[Path]) -> Table:
    """Captioners and runs against metrics, for each judge, under the headline's rules.

    Runs are labelled by the overrides in which they differ and sorted by these, numbers by value. The best under
    a judge is marked where all runs are of the same instructions.

    Args:
        folders: of the runs.

    Raises:
        DataError: no folder holds numbers, or they are not of captions.
    """
    runs = [read_caption_run(folder) for folder in folders]
    labels = _labels(runs)
    order = sorted(range(len(runs)), key=lambda i: [natural_key(w.partition("=")[2] or w) for w in labels[i].split()])
    runs, labels = [runs[i] for i in order], [labels[i] for i in order]
    done = [(label, run.view) for label, run in zip(labels, runs, strict=True) if run.view is not None]
    if not done:
        reasons = "; ".join(f"{run.folder}: {run.trouble}" for run in runs)
        raise DataError(f"none of {len(runs)} caption runs has metrics.json ({reasons or 'no folder given'})")
    places = [(label, view, c, judge) for label, view in done for judge in view.judges for c in view.captioners]
    found = [
        [view.row(captioner, judge, view.conditions[0], ALL, metric) for _, view, captioner, judge in places]
        for metric in MAIN
    ]
    stamps = [view.stamp_parts() for _, view in done]
    shared = [part for part in stamps[0] if all(part in parts for parts in stamps)]
    comparable = len({_asked(view) for _, view in done}) == 1
    columns = zip(*(_marked(rows) if comparable else map(cell_of, rows) for rows in found), strict=True)
    starts = [i for i in range(1, len(places)) if places[i][0] != places[i - 1][0]]
    return Table(
        caption="Instruction following in percent ± standard error (clustered by video), several runs. "
        f"{'; '.join(shared) or 'Runs differ'}.",
        headers=tuple(map(Header, ("captioner", "run", "judge"))) + tuple(map(header_of, MAIN)),
        rows=tuple((c, label, judge, *cells) for (label, _, c, judge), cells in zip(places, columns, strict=True)),
        footnotes=tuple(_notes(runs, labels, shared)),
        rules=frozenset(starts if len(places) > len(done) else ()),
        stamp={key: value for key, value in done[0][1].stamp.items() if all(v.stamp[key] == value for _, v in done)},
    )


def _labels(runs: Sequence[CaptionRun]) -> list[str]:
    """The overrides of each run that not every run has; the folder's name where that leaves nothing."""
    common = set.intersection(*(set(run.overrides) for run in runs)) if runs else set()
    return [" ".join(word for word in run.overrides if word not in common) or run.folder.name for run in runs]


def _asked(view: CaptionView) -> tuple[str, ...]:
    """What is equal in runs whose numbers may be compared."""
    counts = (view.context["n_instructions"], view.context["n_constraints"])
    return view.stamp["benchmark"], view.stamp["split"], view.conditions[0], *map(str, counts)


def _marked(rows: Sequence[Mapping[str, Any]]) -> list[str | Cell]:
    """Cells with the best of each judge marked: judges differ, so what they say is never compared."""
    cells: list[str | Cell] = [cell_of(row) for row in rows]
    for judge in dict.fromkeys(row["judge"] for row in rows if "judge" in row):
        eligible = [
            row.get("judge") == judge and row["unscored"] <= MAX_UNSCORED * (row["n"] + row["unscored"]) for row in rows
        ]
        cells = mark_best(cells, "max", eligible)
    return cells


def _notes(runs: Sequence[CaptionRun], labels: Sequence[str], shared: Sequence[str]) -> Iterator[str]:
    named = list(zip(labels, runs, strict=True))
    lost = [f"{label} ({run.trouble})" for label, run in named if run.view is None]
    if lost:
        yield f"{len(lost)} of {len(runs)} runs missing: {'; '.join(lost)}."
    doubtful = [f"{label}: {run.trouble}" for label, run in named if run.view is not None and run.trouble]
    if doubtful:
        yield f"Not finished: {'; '.join(doubtful)}."
    for label, run in named:
        said = {*shared, *(word.replace("=", " ") for word in label.split())}
        own = [part for part in run.view.stamp_parts() if part not in said] if run.view else []
        if own:
            yield f"{label}: {'; '.join(own)}."
