"""The page's parts put together: what is known of the run, tables, plots, samples, and the template around them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from trustvid.evaluation.page.frames import Budget, Gallery
from trustvid.evaluation.page.tables import to_html
from trustvid.evaluation.plots.bars import caption_stamp
from trustvid.evaluation.plots.catalogue import Catalogue, plots_of
from trustvid.evaluation.plots.inputs import RunData, readable_runs
from trustvid.evaluation.plots.style import COLOURS, to_svg
from trustvid.evaluation.report_forms import Report

_PARTS = ("page.css", "page.js")


def page_of(report: Report, *, samples: int, thumbnails: int, thumbnail_height: int, max_mb: float) -> str:
    """The page of a report; samples are listed when it is of one run.

    Arguments as of :class:`trustvid.evaluation.page.Html`.
    """
    runs, missing = readable_runs(report.folders)
    shown = report.tables.keys()
    names = [name for name in (report.shown, *shown) if name in shown]
    tables = [(name, report.tables[name].caption, to_html(report.tables[name], name)) for name in dict.fromkeys(names)]
    catalogue = plots_of(runs)
    drawn = _drawn(catalogue)
    fixed = sum(len(table) for _, _, table in tables) + sum(len(plot["svg"]) for plot in drawn)
    budget = Budget(round(max_mb * 1e6) - fixed - _reserve(samples))
    gallery = Gallery(thumbnail_height, thumbnails, budget)
    entries, notes = _entries(runs, samples, gallery)
    data = {"entries": entries, "pictures": gallery.pictures}
    return _template().render(
        title=_title(runs),
        runs=[_about(run) for run in runs],
        tables=tables,
        plots=drawn,
        left_out=[*(f"Not drawn, {line}" for line in catalogue.left_out), *(f"Left out, {line}" for line in missing)],
        notes=notes,
        kind=runs[0].kind,
        n_entries=len(entries),
        choices=_choices(entries),
        data=script_json(data),
        parts={name: files(__package__).joinpath(name).read_text(encoding="utf-8") for name in _PARTS},
    )


def script_json(value: Any) -> str:
    """JSON that may stand inside a ``<script>``: nothing in it can end the element or begin another."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _reserve(samples: int) -> int:
    """Bytes kept for what is always there: the template, and the facts of each sample."""
    return 100_000 + 20_000 * samples


def _drawn(catalogue: Catalogue) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "title": plot.title,
            "caption": plot.caption,
            "alt": plot.alt,
            "svg": to_svg(plot).replace(COLOURS[0], "var(--blue)"),  # too dark on a dark page
            "wide": plot.figure.get_figwidth() > 5,
        }
        for name, plot in catalogue.plots.items()
    ]


def _entries(runs: Sequence[RunData], samples: int, gallery: Gallery) -> tuple[list[dict[str, Any]], list[str]]:
    if len(runs) > 1:
        return [], ["Samples are listed on the page of a single run."]
    if not samples or runs[0].kind == "training":
        return [], []
    if runs[0].kind == "captions":
        from trustvid.evaluation.page.responses import caption_samples

        return caption_samples(runs[0], samples)
    from trustvid.evaluation.page.samples import question_samples

    return question_samples(runs[0], samples, gallery)


def _choices(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """What the filters offer, in order of appearance; a filter with one choice is left out by the template."""
    answers = [answer for entry in entries for answer in entry["answers"]]
    return {
        "method": list(dict.fromkeys(answer["method"] for answer in answers)),
        "condition": list(dict.fromkeys(entry["condition"] for entry in entries)),
        "task": sorted({entry["task"] for entry in entries}),
    }


def _title(runs: Sequence[RunData]) -> str:
    return runs[0].folder.name if len(runs) == 1 else f"{len(runs)} runs"


def _about(run: RunData) -> dict[str, Any]:
    """The head of the page: what the numbers are of, and where they come from."""
    record = run.record
    facts = {
        "run": run.folder.name,
        "command line": " ".join(record["overrides"]),
        "commit": record.get("commit") or "unknown",
        "trustvid": record["trustvid"],
        "started": record["started"],
        "finished": record.get("finished") or "not yet",
        "data": ", ".join(f"{name} {digest[:12]}" for name, digest in sorted(record["datasets"].items())),
        "decoding": ", ".join(f"{name} {value}" for name, value in sorted(record.get("decode", {}).items())),
        "packages": ", ".join(
            f"{name} {number}" for name, number in sorted(record.get("packages", {}).items()) if number
        ),
    }
    stamps = {
        "questions": lambda: run.view.stamp_text(),
        "captions": lambda: caption_stamp(run.metrics["context"]),
        "training": lambda: "",
    }
    return {
        "stamp": stamps[run.kind](),
        "status": record["status"],
        "error": record.get("error") or "",
        "facts": {name: value for name, value in facts.items() if value},
    }


def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("trustvid.evaluation", "page")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template("page.html.j2")
