"""A :class:`~trustvid.evaluation.tables.Table` as HTML."""

from __future__ import annotations

from markupsafe import Markup, escape

from trustvid.evaluation.tables import Cell, Table


def to_html(table: Table, name: str = "") -> Markup:
    """A ``<figure>`` with the table, its caption and its footnotes; every text is escaped.

    Best numbers are strong, second best ones underlined, rows of others' numbers (``Table.muted``) of the class
    "muted", rows with a line above them of the class "rule". Classes are styled by the page.

    Args:
        table: to be shown.
        name: its id on the page, "table-<name>".
    """
    numeric = {i for i in range(len(table.headers)) if any(isinstance(row[i], Cell) for row in table.rows)}
    head = Markup("").join(
        Markup('<th scope="col"{}>{}{}</th>').format(
            _class(["num"] if i in numeric else []),
            header.name,
            Markup(' <span class="dim">{}</span>').format(header.note) if header.note else "",
        )
        for i, header in enumerate(table.headers)
    )
    rows = Markup("\n").join(_row(table, index, numeric) for index in range(len(table.rows)))
    notes = Markup("").join(Markup("<li>{}</li>").format(note) for note in table.footnotes)
    return Markup(
        '<figure class="table"{id}>\n<figcaption>{caption}</figcaption>\n'
        '<div class="scroll" role="region" tabindex="0" aria-label="{caption}">\n'
        "<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n</div>\n{notes}</figure>\n"
    ).format(
        id=Markup(' id="table-{}"').format(name) if name else "",
        caption=table.caption,
        head=head,
        rows=rows,
        notes=Markup('<ul class="notes">{}</ul>\n').format(notes) if notes else "",
    )


def _row(table: Table, index: int, numeric: set[int]) -> Markup:
    entries = []
    for i, entry in enumerate(table.rows[index]):
        if i == 0 and not isinstance(entry, Cell):
            entries.append(Markup('<th scope="row">{}</th>').format(entry))
        else:
            entries.append(Markup("<td{}>{}</td>").format(_class(["num"] if i in numeric else []), _entry(entry)))
    marks = [name for name, rows in (("rule", table.rules), ("muted", table.muted)) if index in rows]
    return Markup("<tr{}>{}</tr>").format(_class(marks), Markup("").join(entries))


def _class(names: list[str]) -> Markup:
    return Markup(' class="{}"').format(" ".join(names)) if names else Markup("")


def _entry(entry: str | Cell) -> Markup:
    if isinstance(entry, str):
        return escape(entry)
    number = escape(entry.number)
    if entry.best:
        number = Markup("<strong>{}</strong>").format(number)
    elif entry.second:
        number = Markup("<u>{}</u>").format(number)
    beside = [Markup('<span class="dim">{}</span>').format(text) for text in (entry.error, entry.note) if text]
    return Markup(" ").join([number, *beside])
