"""What a run's tables are written as: the options of conf/report, one class each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trustvid.evaluation.tables import Table


@dataclass(frozen=True)
class Report:
    """What there is to report.

    Attributes:
        tables: by name, in order.
        shown: name of the table that is printed first.
        folders: the run folders that the numbers are from.
        printed: names of the tables that the terminal shows; empty for ``shown`` alone.
        complete: the main table with all that there is in it, for a file that programs read; None for ``shown``.
    """

    tables: Mapping[str, Table]
    shown: str
    folders: Sequence[Path]
    printed: Sequence[str] = ()
    complete: Table | None = None


class Form(Protocol):
    """A form of a report."""

    def render(self, report: Report) -> Mapping[str, str | bytes]:
        """Contents of the files to be written, by file name; a form may print instead and write none."""


class Console:
    """Prints the table that is shown first, and with it what else a reader needs to judge it."""

    def render(self, report: Report) -> dict[str, str]:
        """No file."""
        from trustvid.evaluation.render import print_table

        for name in report.printed or (report.shown,):
            print_table(report.tables[name])
            print()
        return {}


class Markdown:
    """Every table in ``table.md``, under the name that ``show`` takes."""

    def render(self, report: Report) -> dict[str, str]:
        """The file."""
        from trustvid.evaluation.render import to_markdown

        return {"table.md": "\n".join(f"## {name}\n\n{to_markdown(table)}" for name, table in report.tables.items())}


class Csv:
    """The main table in ``table.csv``, complete and in full precision, and every table in a file of ``tables/``."""

    def render(self, report: Report) -> dict[str, str]:
        """The files."""
        from trustvid.evaluation.render import to_csv

        files = {f"tables/{name.replace('/', '.')}.csv": to_csv(table) for name, table in report.tables.items()}
        return {"table.csv": to_csv(report.complete or report.tables[report.shown]), **files}


class Latex:
    """Every table in ``table.tex``."""

    def render(self, report: Report) -> dict[str, str]:
        """The file."""
        from trustvid.evaluation.render import to_latex

        return {"table.tex": "\n".join(to_latex(table, f"tab:{name}") for name, table in report.tables.items())}
