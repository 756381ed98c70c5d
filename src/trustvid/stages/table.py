"""``python -m trustvid table RUN…``: several run folders, of a sweep say, as one table."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("runs", type=Path, nargs="+", help="run folders, e.g. outputs/evaluate/boxworld-*")
    parser.add_argument("--out", type=Path, help="also write the table there: .md, .csv or .tex")


def run(args: argparse.Namespace) -> int:
    """Print the table; runs without numbers are named under it.

    Raises:
        DataError: no folder holds numbers.
        ConfigError: ``--out`` ends in something else.
    """
    from trustvid.errors import ConfigError
    from trustvid.evaluation.multirun import table_from_runs
    from trustvid.evaluation.render import print_table, to_csv, to_latex, to_markdown

    forms = {".md": to_markdown, ".csv": to_csv, ".tex": lambda table: to_latex(table, "tab:runs")}
    if args.out and args.out.suffix not in forms:
        raise ConfigError([f"--out {args.out}: unknown form; expected a name ending in {', '.join(forms)}"])
    table = table_from_runs(args.runs)
    print_table(table)
    if args.out:
        args.out.write_text(forms[args.out.suffix](table), encoding="utf-8")
    return 0
