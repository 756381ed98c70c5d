"""A :class:`~trustvid.evaluation.tables.Table` as Markdown, CSV, LaTeX (booktabs) and for the terminal."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from trustvid.evaluation.tables import Cell, Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text


def to_markdown(table: Table) -> str:
    """A pipe table, columns padded to be readable as text, caption above and footnotes below; ends with a newline."""
    names = [f"{header.name} ({header.note})" if header.note else header.name for header in table.headers]
    body = [[_markdown_entry(entry, index in table.muted) for entry in row] for index, row in enumerate(table.rows)]
    widths = [max(3, *(len(row[i]) for row in [names, *body])) for i in range(len(names))]
    numeric = _numeric_columns(table)
    rules = [("-" * (w - 1) + ":") if i in numeric else "-" * w for i, w in enumerate(widths)]
    lines = ["| " + " | ".join(entry.ljust(w) for entry, w in zip(row, widths, strict=True)) + " |" for row in [names]]
    lines += ["| " + " | ".join(rules) + " |"]
    for row in body:
        padded = [e.rjust(w) if i in numeric else e.ljust(w) for i, (e, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("| " + " | ".join(padded) + " |")
    notes = [f"- {_markdown_escape(note)}" for note in table.footnotes]
    return "\n".join([_markdown_escape(table.caption), "", *lines, *([""] if notes else []), *notes]) + "\n"


def to_csv(table: Table) -> str:
    """Numbers in full: per column the value, its spread and its n, empty where missing; the stamp in every row.

    Where numbers of others stand among ours, a column "published" says yes or no of each row. The stamp, which says
    what our rows are of, stays empty in theirs.
    """
    numeric = _numeric_columns(table)
    names = [*table.stamp, *(["published"] if table.muted else [])]
    for i, header in enumerate(table.headers):
        names += [header.name, f"{header.name} {table.spread}", f"{header.name} n"] if i in numeric else [header.name]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for index, row in enumerate(table.rows):
        theirs = index in table.muted
        values = [""] * len(table.stamp) if theirs else list(table.stamp.values())
        values += ["yes" if theirs else "no"] if table.muted else []
        for i, entry in enumerate(row):
            values += _csv_values(entry) if i in numeric else [entry]
        writer.writerow(values)
    return out.getvalue()


def to_latex(table: Table, label: str) -> str:
    r"""A ``table`` environment: best in bold, second underlined, numbers of others in grey, footnotes under the rule.

    It needs the packages booktabs and graphicx, and xcolor for grey rows. What is too wide or too tall is scaled down.
    """
    numeric = _numeric_columns(table)
    columns = "".join("r" if i in numeric else "l" for i in range(len(table.headers)))
    lines = [
        f"% needs \\usepackage{{booktabs,graphicx{',xcolor' if table.muted else ''}}}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{latex_escape(table.caption)}}}",
        f"\\label{{{label}}}",
        "\\smallskip",
        "\\sbox0{%",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        _latex_row([latex_escape(header.name) for header in table.headers]),
    ]
    if any(header.note for header in table.headers):
        lines.append(_latex_row([latex_escape(header.note) for header in table.headers]))
    lines.append("\\midrule")
    for index, row in enumerate(table.rows):
        if index in table.rules and index > 0:
            lines.append("\\midrule")
        lines.append(_latex_row([_latex_entry(entry, index in table.muted) for entry in row]))
    lines += ["\\bottomrule", "\\end{tabular}}%"]
    lines += _LATEX_FIT
    if table.footnotes:
        notes = " ".join(latex_escape(note) for note in table.footnotes)
        lines += ["", "\\smallskip", f"\\parbox{{\\linewidth}}{{\\footnotesize {notes}}}"]
    return "\n".join([*lines, "\\end{table}"]) + "\n"


# Scale the table in box 0 down to the line, and one that is still too tall to most of a page.
_LATEX_FIT = (
    "\\ifdim\\wd0>\\linewidth \\sbox0{\\resizebox{\\linewidth}{!}{\\usebox0}}\\fi",
    "\\ifdim\\dimexpr\\ht0+\\dp0\\relax>.7\\textheight \\sbox0{\\resizebox*{!}{.7\\textheight}{\\usebox0}}\\fi",
    "\\usebox0",
)


def print_table(table: Table, console: Console | None = None) -> None:
    """Print the table to a terminal (default: standard output).

    Where a row does not fit on one line, errors go below their numbers; where even that does not fit, lines run over
    the edge rather than lose digits.
    """
    from rich.console import Console
    from rich.text import Text

    console = console or Console()
    needed = {stacked: _line_width(table, stacked) for stacked in (False, True)}
    stacked = needed[False] > console.width
    grid = _rich_grid(table, stacked)
    if needed[stacked] > console.width:
        grid.width = needed[stacked]  # rich would cut the words of a grid without a width of its own
    console.print(Text(table.caption, style="italic"))
    console.print()
    console.print(grid, crop=False, no_wrap=True)
    console.print()
    for note in table.footnotes:
        console.print(Text(note, style="dim"))


def latex_escape(text: str) -> str:
    """Plain text as LaTeX text.

    >>> latex_escape("low_light 50 %, K − 1")
    'low\\\\_light 50 \\\\%, K $-$ 1'
    """
    return "".join(_LATEX.get(character, character) for character in text)


_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "−": "$-$",
    **{
        sign: f"$\\{name}$"
        for sign, name in {
            **{"≤": "leq", "≥": "geq", "≈": "approx", "→": "rightarrow", "Σ": "Sigma", "Δ": "Delta", "α": "alpha"},
            **{
                "β": "beta",
                "γ": "gamma",
                "κ": "kappa",
                "λ": "lambda",
                "ρ": "rho",
                "σ": "sigma",
                "τ": "tau",
                "ψ": "psi",
            },
        }.items()
    },
    "—": "---",
    "–": "--",
    "…": r"\ldots{}",
    "×": r"$\times$",
    "[": "{[}",  # at the start of a row "\\ [" would be read as an optional argument
    "]": "{]}",
    "\n": " ",
}


def _numeric_columns(table: Table) -> set[int]:
    return {i for i in range(len(table.headers)) if any(isinstance(row[i], Cell) for row in table.rows)}


def _parts(entry: str | Cell, stacked: bool) -> list[str]:
    """What stands beside each other in the terminal; stacked, on lines of its own (an interval then takes two)."""
    if isinstance(entry, str):
        return [entry]
    notes = entry.note.split() if stacked and entry.note.startswith("[") else [entry.note]
    return [part for part in (entry.number, entry.error, *notes) if part]


_GAP = {False: 2, True: 1}  # blanks between columns; stacked tables are short of room


def _widths(table: Table, stacked: bool) -> list[int]:
    """Characters that each column of the terminal form needs; headers wrap between words, numbers never."""
    widths = []
    for i, header in enumerate(table.headers):
        entries = [_parts(row[i], stacked) for row in table.rows]
        texts = [part for parts in entries for part in parts] if stacked else [" ".join(parts) for parts in entries]
        widths.append(max(map(len, [*header.name.split(), header.note, *texts])))
    return widths


def _line_width(table: Table, stacked: bool) -> int:
    """Characters that a row of the terminal form needs."""
    return sum(_widths(table, stacked)) + _GAP[stacked] * (len(table.headers) - 1)


def _rich_grid(table: Table, stacked: bool) -> RichTable:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    numeric = _numeric_columns(table)
    # The box puts one blank between columns; padding makes up the rest.
    grid = RichTable(box=SIMPLE_HEAD, padding=(0, _GAP[stacked] - 1, 0, 0), pad_edge=False, show_edge=False)
    for i, (header, width) in enumerate(zip(table.headers, _widths(table, stacked), strict=True)):
        title = Text(header.name, style="bold")
        title.append(f"\n{header.note}" if header.note else "", style="not bold dim")
        grid.add_column(title, justify="right" if i in numeric else "left", width=width)
    for index, row in enumerate(table.rows):
        if index in table.rules and index > 0:
            grid.add_section()
        style = "dim" if index in table.muted else None
        grid.add_row(*(_rich_entry(entry, stacked) for entry in row), style=style)
    return grid


def _markdown_escape(text: str) -> str:
    return "".join(f"\\{character}" if character in "\\|*`<" else character for character in text).replace("\n", " ")


def _markdown_entry(entry: str | Cell, muted: bool) -> str:
    if isinstance(entry, str):
        text = _markdown_escape(entry)
    else:
        number = f"**{entry.number}**" if entry.best else f"<u>{entry.number}</u>" if entry.second else entry.number
        text = " ".join(part for part in (number, entry.error, entry.note) if part)
    return f"*{text}*" if muted and text else text


def _csv_values(entry: str | Cell) -> list[str]:
    if isinstance(entry, str):
        return [entry, "", ""]
    numbers = (entry.value, entry.spread if entry.value is not None else None)
    return [*("" if number is None else f"{number:.6g}" for number in numbers), "" if entry.n is None else str(entry.n)]


def _latex_row(entries: list[str]) -> str:
    return " & ".join(entries) + r" \\"


def _latex_entry(entry: str | Cell, muted: bool) -> str:
    if isinstance(entry, str):
        text = latex_escape(entry)
    else:
        mark = "\\textbf" if entry.best else "\\underline" if entry.second else ""
        number = latex_escape(entry.number)
        number = f"{mark}{{{number}}}" if mark else number
        text = " ".join(part for part in (number, latex_escape(entry.error), latex_escape(entry.note)) if part)
    return f"\\textcolor{{gray}}{{{text}}}" if muted and text else text


def _rich_entry(entry: str | Cell, stacked: bool) -> Text:
    from rich.text import Text

    number, *rest = _parts(entry, stacked)
    mark = "" if isinstance(entry, str) else "bold" if entry.best else "underline" if entry.second else ""
    text = Text()
    text.append(number, style=mark)  # of the number alone: the spread after it is neither bold nor underlined
    for part in rest:
        text.append(("\n" if stacked else " ") + part, style="dim")
    return text
