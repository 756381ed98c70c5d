"""The last step of a caption evaluation: tables and figures of a run, or of several, in the forms asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trustvid.config.checking import build
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, DataError
from trustvid.evaluation.report_forms import Report
from trustvid.evaluation.store import RunFolder, RunWriter
from trustvid.stages.report import MAIN, RUNS, write_report

if TYPE_CHECKING:
    from trustvid.evaluation.tables import Table

STATISTICS = "statistics"
"""The table that needs neither responses nor a judge."""


def report_captions(config: Mapping[str, Any], typed: EvaluateConfig, folder: Path) -> None:
    """Report on the run in its own folder.

    Raises:
        DataError: an earlier step is missing, or the published numbers belong nowhere.
        ConfigError: ``show`` names no table.
    """
    report = run_report(typed, folder)
    with RunFolder(folder).reporting() as writer:
        write_report(config, report, writer)
        _write_published_figure(config, typed, writer)


def run_report(typed: EvaluateConfig, folder: Path) -> Report:
    """The tables of one run, from its folder.

    Raises:
        DataError, ConfigError: as :func:`report_captions`.
    """
    from trustvid.captioning.report import caption_tables_of
    from trustvid.captioning.statistics_report import statistics_tables
    from trustvid.evaluation.jsonfiles import read_json
    from trustvid.evaluation.origin import origin_notes

    tables: dict[str, Table] = {}
    if (folder / "metrics.json").is_file():
        tables |= caption_tables_of(read_json(folder / "metrics.json"), origin=origin_notes(folder))
    elif typed.show != STATISTICS:
        raise DataError(f"{folder}: no metrics.json; run mode=score (or mode=all) first")
    if (folder / "statistics.json").is_file():
        tables |= statistics_tables(read_json(folder / "statistics.json"), read_json(folder / "about.json"))
    if typed.show not in tables:
        raise ConfigError([f"show={typed.show}: this run has no such table; it has {', '.join(tables)}"])
    # A reference is given to learn what the judge is worth: that table is read first.
    judged = ("agreement",) if "agreement" in tables and typed.show == MAIN else ()
    main = tables.get(MAIN, tables[typed.show])
    return Report(_with(typed, tables), typed.show, [folder], printed=(*judged, typed.show), complete=main)


def of_captions(folders: Sequence[Path]) -> bool:
    """Whether the first of the runs that left numbers is one of captions."""
    from trustvid.evaluation.jsonfiles import read_json

    found = (path / "metrics.json" for path in folders)
    first = next((path for path in found if path.is_file()), None)
    return first is not None and "judges" in read_json(first).get("context", {})


def caption_runs_report(typed: EvaluateConfig, folders: Sequence[Path]) -> Report:
    """One table over several runs of captions.

    Raises:
        DataError: runs are not of captions, none left numbers, or the published numbers belong nowhere.
    """
    from trustvid.captioning.runs import caption_runs_table

    table = caption_runs_table(folders)
    # What stands beside a run's main table stands beside that of several runs, which has the same columns.
    return Report({RUNS: _with(typed, {MAIN: table})[MAIN]}, RUNS, folders, complete=table)


def _write_published_figure(config: Mapping[str, Any], typed: EvaluateConfig, writer: RunWriter) -> None:
    """figures/by-type: ours beside published models, where figures are asked for and the published numbers are by
    group of constraint types. All other figures are drawn by the form itself."""
    from trustvid.captioning.figures import types_plot
    from trustvid.captioning.report import CaptionView
    from trustvid.captioning.taxonomy import FIGURE_GROUPS
    from trustvid.evaluation.jsonfiles import read_json
    from trustvid.evaluation.plots.style import styled, to_pdf, to_png, to_svg
    from trustvid.evaluation.published_tables import load_published

    published = load_published(typed.published) if typed.published else None
    if "figures" not in config["report"] or published is None or not set(FIGURE_GROUPS) <= set(published.columns):
        return
    form = build(config["report"]["figures"])
    makers = {"png": lambda plot: to_png(plot, form.dpi), "pdf": to_pdf, "svg": lambda plot: to_svg(plot).encode()}
    with styled():
        plot = types_plot(CaptionView(read_json(writer.path / "metrics.json")), published)
    for kind in form.formats if plot is not None else ():
        writer.write_bytes(f"figures/by-type.{kind}", makers[kind](plot))


def _with(typed: EvaluateConfig, tables: Mapping[str, Table]) -> dict[str, Table]:
    """The tables with the published numbers that the config asks for."""
    from trustvid.evaluation.published_tables import beside, load_published

    if typed.published is None:
        return dict(tables)
    return beside(tables, load_published(typed.published))
