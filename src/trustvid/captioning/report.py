"""The tables of a caption evaluation, from its ``metrics.json`` alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trustvid.captioning.metrics import ALL, METRICS
from trustvid.captioning.taxonomy import FIGURE_GROUPS
from trustvid.evaluation.marking import with_n
from trustvid.evaluation.published_tables import PublishedTable, beside
from trustvid.evaluation.tables import Cell, Header, Table, mark_best, mark_second

PERCENT = 100.0
_NO_ROW = {"value": None, "se": None, "n": 0, "unscored": 0, "bound_low": None, "bound_high": None}
MAIN = ("isr", "csr_micro", "csr_macro", "isr/rule_based", "csr_micro/rule_based", "isr/open_ended")
MAIN += ("csr_micro/open_ended",)
_FACTS = ("isr/fact_free", "csr_micro/fact_free", "isr/fact_only", "csr_micro/fact_only")
_NAMES = {"isr": "ISR", "csr_micro": "CSR", "csr_macro": "CSR macro"}
_FAMILIES = {"": "", "rule_based": "rule", "open_ended": "open", "fact_free": "fact-free", "fact_only": "fact-only"}
_LISTED_REASONS = 5
MAX_UNSCORED = 0.05  # share of a captioner's constraints (or instructions) that may be unscored for it to be the best


class CaptionView:
    """Look-ups in a ``metrics.json`` of captions."""

    def __init__(self, metrics: Mapping[str, Any]):
        self.context: Mapping[str, Any] = metrics["context"]
        self.comparisons: Sequence[Mapping[str, Any]] = metrics["comparisons"]
        self.agreement: Sequence[Mapping[str, Any]] = metrics["agreement"]
        self._rows = {self._key(row): row for row in metrics["rows"]}
        self._agreed = {self._key(row): row for row in self.agreement}
        self._compared = {
            (frozenset((row["a"], row["b"])), row["judge"], row["condition"], row["metric"]): row
            for row in self.comparisons
        }
        self.captioners: list[str] = self.context["methods"]
        self.judges: list[str] = self.context["judges"]
        headline = f"rules={self.context['headline']}"
        self.conditions = sorted(self.context["conditions"], key=lambda name: name != headline)

    @staticmethod
    def _key(row: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
        return row["method"], row["judge"], row["condition"], row["task"], row["metric"]

    def row(self, captioner: str, judge: str, condition: str, task: str, metric: str) -> Mapping[str, Any]:
        """The row, or one whose value is None."""
        return self._rows.get((captioner, judge, condition, task, metric), _NO_ROW)

    def agreed(self, judge: str, condition: str, task: str, metric: str) -> Mapping[str, Any]:
        """The agreement row, or one whose value is None."""
        return self._agreed.get(("all", judge, condition, task, metric), _NO_ROW)

    def differ(self, a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
        """Whether two rows that differ in the captioner alone were compared, and 0 is outside of the 95 % interval."""
        pair = frozenset((a["method"], b["method"]))
        found = self._compared.get((pair, a["judge"], a["condition"], a["metric"])) if a["task"] == ALL else None
        return found is not None and found["ci_low"] is not None and not found["ci_low"] <= 0 <= found["ci_high"]

    def scopes(self, kind: str) -> list[str]:
        """The tasks of a kind ("type", "field", …), in the order of the rows."""
        return list(dict.fromkeys(key[3] for key in self._rows if key[3].startswith(f"{kind}:")))

    @property
    def stamp(self) -> dict[str, str]:
        """Benchmark, split and who wrote: on every table."""
        return {key: str(self.context[key]) for key in ("benchmark", "split", "policy")}

    def stamp_parts(self) -> list[str]:
        """All that the numbers depend on, one phrase each."""
        decode = self.context.get("decode") or {}
        return [
            f"{self.stamp['benchmark']}, split {self.stamp['split']}",
            f"captions by {self.stamp['policy']}",
            f"{self.context['n_instructions']} instructions with {self.context['n_constraints']} constraints on "
            f"{self.context['n_videos']} videos",
            *(f"{key} {decode[key]}" for key in sorted(decode) if decode[key] is not None),
        ]

    def stamp_text(self) -> str:
        """:meth:`stamp_parts` in one line."""
        where, who, *rest = self.stamp_parts()
        return "; ".join([f"{where}, {who}", *rest])


def cell_of(row: Mapping[str, Any]) -> Cell:
    """A row of ``metrics.json`` in percent."""
    value, se = (None if row[key] is None else row[key] * PERCENT for key in ("value", "se"))
    return Cell(value, se, row["n"])


def _mode(condition: str) -> str:
    return condition.removeprefix("rules=")


def header_of(metric: str) -> Header:
    """Heading of a metric's column: "ISR", "rule CSR"."""
    name, _, family = metric.partition("/")
    return Header(f"{_FAMILIES[family]} {_NAMES[name]}".strip())


def mark_column(view: CaptionView, rows: Sequence[Mapping[str, Any]]) -> list[str | Cell]:
    """Captioners side by side: the best marked, and their own n where it differs.

    The runner-up is marked where the paired difference to the best has an interval without 0. A captioner of whom much
    is unscored is not marked: what is missing may be what it is worst at.

    Args:
        view: whose comparisons are asked.
        rows: one for each captioner of the view, in its order.
    """
    most = max(row["n"] for row in rows)
    cells = [with_n(cell_of(row), most) for row in rows]
    eligible = [row["unscored"] <= MAX_UNSCORED * (row["n"] + row["unscored"]) for row in rows]
    marked = mark_best(cells, "max", eligible)
    ranked = sorted(
        (place for place, row in enumerate(rows) if eligible[place] and row["value"] is not None),
        key=lambda place: -rows[place]["value"],
    )
    apart = len(ranked) > 1 and view.differ(rows[ranked[0]], rows[ranked[1]])
    return mark_second(marked, ranked[1] if apart else None)


def results_table(view: CaptionView, metrics: Sequence[str] = MAIN, title: str = "") -> Table:
    """Captioners (and judges, where there are several) against metrics, one block for each rule mode."""
    rows: list[tuple[str | Cell, ...]] = []
    rules = set()
    for condition in view.conditions:
        for judge in view.judges:
            rules.add(len(rows))
            found = [[view.row(c, judge, condition, ALL, m) for c in view.captioners] for m in metrics]
            marked = zip(*(mark_column(view, column) for column in found), strict=True)
            rows += [(c, judge, condition, *cells) for c, cells in zip(view.captioners, marked, strict=True)]
    headers = [Header("captioner"), Header("judge"), Header("rules"), *map(header_of, metrics)]
    return Table(
        caption=f"{title or 'Instruction following'} in percent ± standard error (clustered by video). "
        f"{view.stamp_text()}.",
        headers=tuple(headers),
        rows=tuple((a, b, _mode(c), *cells) for a, b, c, *cells in rows),
        footnotes=tuple(_notes(view)),
        rules=frozenset(rules),
        stamp=view.stamp,
    )


def _notes(view: CaptionView) -> Iterator[str]:
    if len(view.captioners) > 1:
        yield (
            "Bold: best of the captioners. Underlined: second best, only where the best is ahead of it by more than "
            "chance (paired, 95 % bootstrap interval over videos excludes 0)."
        )
    yield (
        "ISR: instructions with every constraint satisfied; CSR: satisfied constraints, pooled over instructions "
        "(micro, as in published tables); CSR macro: mean over instructions of the share each satisfies."
    )
    yield "rule: format constraints, open: content. Rules: strict is a careful reader's, upstream the published."
    condition = view.conditions[0]
    for captioner in view.captioners:
        for judge in view.judges:
            row = view.row(captioner, judge, condition, ALL, "csr_micro")
            whole = view.row(captioner, judge, condition, ALL, "csr_macro")
            if row["unscored"]:
                low, high = row["bound_low"] * PERCENT, row["bound_high"] * PERCENT
                total = view.context["n_instructions"]
                yield (
                    f"{captioner}, judge {judge}: {whole['n']} of {total} instructions scored; "
                    f"{row['unscored']} of {row['n'] + row['unscored']} constraints unscored, so CSR lies between "
                    f"{low:.1f} and {high:.1f}."
                )
    reasons = [f"{e['reason']} ({e['captioner']}, {e['n']})" for e in view.context["unjudged"]]
    if reasons:
        more = f"; and {len(reasons) - _LISTED_REASONS} more" if len(reasons) > _LISTED_REASONS else ""
        yield f"Not judged at all: {'; '.join(reasons[:_LISTED_REASONS])}{more}."
    if view.context["unknown_constraints"]:
        yield f"{view.context['unknown_constraints']} rule items name an unknown constraint and are unscored."


def breakdown_table(view: CaptionView, kind: str, title: str, metrics: Sequence[str]) -> Table | None:
    """One row for each scope of a kind, for the first judge and the headline's rules; None when there are none."""
    scopes = view.scopes(kind)
    if not scopes:
        return None
    judge, condition = view.judges[0], view.conditions[0]
    rows = []
    for scope in scopes:
        cells = [cell_of(view.row(c, judge, condition, scope, m)) for c in view.captioners for m in metrics]
        most = max((cell.n or 0 for cell in cells), default=0)
        rows.append((scope.partition(":")[2], str(most), *cells))
    alone = len(metrics) == 1
    headers = [Header(kind), Header("n")]
    headers += [Header(c, "" if alone else header_of(m).name) for c in view.captioners for m in metrics]
    return Table(
        caption=f"{title} in percent ± standard error (judge {judge}, {condition.replace('=', ' ')}). "
        f"{view.stamp_text()}.",
        headers=tuple(headers),
        rows=tuple(rows),
        footnotes=("n: scored constraints (CSR), else instructions, of the captioner with most of them.",),
        stamp=view.stamp,
    )


def captioner_bars(view: CaptionView) -> Table | None:
    """Captioners against the groups of constraint types of Fig. 5, the form that published numbers go below; None
    where no type is known."""
    scopes = {bar: f"bar:{bar}" for bar in FIGURE_GROUPS if f"bar:{bar}" in view.scopes("bar")}
    if not scopes:
        return None
    judge, condition = view.judges[0], view.conditions[0]
    columns = [[view.row(c, judge, condition, s, "csr_micro") for c in view.captioners] for s in scopes.values()]
    marked = zip(*(mark_column(view, column) for column in columns), strict=True)
    headers = [Header(bar, f"n={max(r['n'] for r in rows)}") for bar, rows in zip(scopes, columns, strict=True)]
    return Table(
        caption=f"CSR by group of constraint types in percent ± standard error (judge {judge}, "
        f"{condition.replace('=', ' ')}). {view.stamp_text()}.",
        headers=(Header("captioner"), *headers),
        rows=tuple((c, *cells) for c, cells in zip(view.captioners, marked, strict=True)),
        footnotes=("n: scored constraints of the captioner with most of them.",),
        stamp=view.stamp,
    )


def difference_table(view: CaptionView) -> Table | None:
    """Every captioner minus the first, paired; None when there is one."""
    baseline, *others = view.captioners
    if not others:
        return None
    to_baseline = [c for c in view.comparisons if c["b"] == baseline]
    found = {(c["a"], c["judge"], c["condition"], c["metric"]): c for c in to_baseline}
    rows = [
        (
            other,
            judge,
            _mode(condition),
            *(_difference(found[other, judge, condition, m]) for m in MAIN),
        )
        for condition in view.conditions
        for judge in view.judges
        for other in others
    ]
    return Table(
        caption=f"Difference to {baseline} in points, over what both have scored, with 95 % interval "
        f"(bootstrap over videos). {view.stamp_text()}.",
        headers=(Header("captioner"), Header("judge"), Header("rules"), *map(header_of, MAIN)),
        rows=tuple(rows),
        stamp=view.stamp,
    )


def _difference(row: Mapping[str, Any]) -> Cell:
    low, high = row["ci_low"], row["ci_high"]
    interval = "" if low is None else f"[{low * PERCENT:.1f}, {high * PERCENT:.1f}]".replace("-", "−")
    value = None if row["diff"] is None else row["diff"] * PERCENT
    return Cell(value, None, row["n"], interval if value is not None else "", signed=True)


# -- agreement ---------------------------------------------------------------------------------------------------------

_AGREEMENT = (
    *(("agreement", "overall"), ("agreement/rule_based", "rule"), ("agreement/open_ended", "open")),
    *(("detection/rule_based", "rule violations found"), ("detection/open_ended", "open violations found")),
    *(("false_alarms/rule_based", "rule false alarms"), ("false_alarms/open_ended", "open false alarms")),
)


def agreement_table(view: CaptionView) -> Table | None:
    """Judges against the reference, by item; None without a reference."""
    if not view.agreement:
        return None
    rows, notes = [], []
    for condition in view.conditions:
        for judge in view.judges:
            found = [view.agreed(judge, condition, ALL, metric) for metric, _ in _AGREEMENT]
            rows.append((judge, _mode(condition), *map(cell_of, found)))
            if found[0]["unscored"]:
                low, high = found[0]["bound_low"] * PERCENT, found[0]["bound_high"] * PERCENT
                notes.append(
                    f"{judge}, {condition.replace('=', ' ')}: {found[0]['unscored']} items unscored; overall agreement "
                    f"lies between {low:.1f} and {high:.1f}."
                )
    first = [view.agreed(view.judges[0], view.conditions[0], ALL, metric) for metric, _ in _AGREEMENT]
    headers = [Header("judge"), Header("rules")]
    headers += [
        Header(name, f"n={row['n'] + row['unscored']}") for (_, name), row in zip(_AGREEMENT, first, strict=True)
    ]
    return Table(
        caption="Agreement of judges with the reference in percent of check items ± standard error (clustered by "
        f"video). {view.stamp_text()}.",
        headers=tuple(headers),
        rows=tuple(rows),
        footnotes=(
            "Violations found: of the items that are violated, how many the judge calls so. False alarms: of the "
            "items that hold, how many it calls violated (lower is better).",
            *notes,
        ),
        stamp=view.stamp,
    )


def agreement_by_type(view: CaptionView) -> Table | None:
    """Agreement by constraint type, for the headline's rules; None without a reference."""
    types = list(dict.fromkeys(row["task"] for row in view.agreement if row["task"] != ALL))
    if not types:
        return None
    condition = view.conditions[0]
    rows = []
    for scope in types:
        cells = [
            cell_of(view.agreed(judge, condition, scope, metric))
            for judge in view.judges
            for metric in ("agreement", "detection")
        ]
        rows.append((scope.partition(":")[2], str(cells[0].n or 0), *cells))
    headers = [Header("type"), Header("n")]
    headers += [Header(judge, metric) for judge in view.judges for metric in ("agreement", "violations found")]
    return Table(
        caption=f"Agreement by constraint type in percent of check items ± standard error "
        f"({condition.replace('=', ' ')}). {view.stamp_text()}.",
        headers=tuple(headers),
        rows=tuple(rows),
        stamp=view.stamp,
    )


# -- all of a run -----------------------------------------------------------------------------------------------------


def caption_tables_of(
    metrics: Mapping[str, Any], published: PublishedTable | None = None, origin: Sequence[str] = ()
) -> dict[str, Table]:
    """All tables of a run, by the name that ``show`` and LaTeX labels know it under, the main one first.

    Args:
        metrics: contents of ``metrics.json``.
        published: numbers of others, put in grey under ours where they belong.
        origin: footnotes that say how the responses were made (:func:`~trustvid.evaluation.origin.origin_notes`), put
            under the main table.
    """
    view = CaptionView(metrics)
    main = results_table(view)
    tables = {
        "results": replace(main, footnotes=(*main.footnotes, *origin)),
        "agreement": agreement_table(view),
        "agreement-types": agreement_by_type(view),
        "facts": results_table(view, _FACTS, "Without and with facts of the video"),
        "differences": difference_table(view),
        "types": breakdown_table(view, "type", "CSR by constraint type", ("csr_micro",)),
        "bars": breakdown_table(view, "bar", "CSR by group of constraint types", ("csr_micro",)),
        "captioner-bars": captioner_bars(view),
        "fields": breakdown_table(view, "field", "By application field", METRICS[:2]),
        "constraints": breakdown_table(view, "constraints", "By number of constraints", METRICS[:2]),
        "words": breakdown_table(view, "words", "By words of the instruction", METRICS[:2]),
    }
    present = {name: table for name, table in tables.items() if table is not None}
    return beside(present, published) if published else present
