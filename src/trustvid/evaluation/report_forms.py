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
    """

    tables: Mapping[str, Table]
    shown: str
    folders: Sequence[Path]


class Form(Protocol):
    """A form of a report."""

    def render(self, report: Report) -> dict[str, str]:
        """Texts of the files to be written, by file name; a form may print instead and write none."""


class Console:
    """Prints the table that is shown first, and with it what else a reader needs to judge it."""

    def render(self, report: Report) -> dict[str, str]:
        """No file."""
        from trustvid.evaluation.render import print_table

        print_table(report.tables[report.shown])
        return {}


class Markdown:
    """Every table in ``table.md``."""

    def render(self, report: Report) -> dict[str, str]:
        """The file."""
        from trustvid.evaluation.render import to_markdown

        return {"table.md": "\n".join(to_markdown(table) for table in report.tables.values())}


class Csv:
    """The first table in ``table.csv``, complete and in full precision."""

    def render(self, report: Report) -> dict[str, str]:
        """The file."""
        from trustvid.evaluation.render import to_csv

        return {"table.csv": to_csv(report.tables[report.shown])}


class Latex:
    """Every table in ``table.tex``."""

    def render(self, report: Report) -> dict[str, str]:
        """The file."""
        from trustvid.evaluation.render import to_latex

        return {"table.tex": "\n".join(to_latex(table, f"tab:{name}") for name, table in report.tables.items())}
