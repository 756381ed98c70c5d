"""The statistics of a set of instructions as tables: what was downloaded, beside what the paper says it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trustvid.captioning.taxonomy import CONTENT_IDS, FORMAT_IDS, types_of
from trustvid.evaluation.tables import Cell, Header, Table

PERCENT = 100.0


def statistics_tables(statistics: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Table]:
    """Tables by name: "statistics" (the whole set), "statistics-ids", "statistics-constraints", "statistics-fields".

    Args:
        statistics: contents of ``statistics.json``.
        about: contents of ``about.json``: benchmark and split.
    """
    stamp = {key: str(about[key]) for key in ("benchmark", "split")}
    return {
        "statistics": _overview(statistics, stamp),
        "statistics-ids": _ids(statistics, stamp),
        "statistics-constraints": _sizes(statistics, stamp),
        "statistics-fields": _fields(statistics, stamp),
    }


def _caption(what: str, statistics: Mapping[str, Any], stamp: Mapping[str, str]) -> str:
    prompts = statistics["prompts"]
    return (
        f"{what}. {stamp['benchmark']}, split {stamp['split']}: {prompts['instructions']} instructions on "
        f"{prompts['videos']} videos."
    )


def _mean(found: Mapping[str, Any] | None, decimals: int = 2) -> Cell:
    """A mean; empty where nothing was counted."""
    return Cell(found["mean"], n=found["n"], decimals=decimals) if found and found["n"] else Cell(None)


def _count(value: int | None) -> Cell:
    return Cell(value, decimals=0)


def _overview(statistics: Mapping[str, Any], stamp: Mapping[str, str]) -> Table:
    """One row in the form of the paper's Table 1."""
    prompts, checklists, videos = (statistics.get(name) or {} for name in ("prompts", "checklists", "videos"))
    sizes = checklists.get("constraints") or {"n": 0}
    seconds = videos.get("seconds")
    row = (
        stamp["benchmark"],
        _count(prompts["videos"]),
        _count(prompts["instructions"]),
        _count(_known_types(prompts["ids"]["uses"])),
        _mean(sizes if sizes["n"] else prompts["constraints"]),
        _mean(checklists.get("questions")),
        _mean(seconds, 1),
        _mean(prompts["words"], 1),
    )
    names = ("benchmark", "videos", "instructions", "types", "constraints", "questions", "seconds", "words")
    return Table(
        caption=_caption("Size, and means for each instruction (seconds: for each video)", statistics, stamp),
        headers=tuple(map(Header, names)),
        rows=(row,),
        footnotes=tuple(_overview_notes(statistics)),
        stamp=stamp,
    )


def _overview_notes(statistics: Mapping[str, Any]) -> Iterator[str]:
    prompts, checklists, videos = (statistics.get(name) or {} for name in ("prompts", "checklists", "videos"))
    own = prompts["constraints"]
    if checklists.get("checklists"):
        sizes = checklists["constraints"]
        yield (
            f"constraints: of the checklists, {sizes['total']} in all ({checklists['rule_items']} rules, "
            f"{checklists['groups']} groups of questions), median {sizes['median']}, at most {sizes['max']}; the ids "
            f"that instructions were drafted from are {own['mean']:.2f} on average."
        )
        yield "questions: asked by the checklist of one instruction, rules aside."
    elif own["n"]:
        yield (
            f"constraints: the ids that instructions were drafted from, {own['total']} in all (distinct: "
            f"{own['distinct_mean']:.2f} each), median {own['median']}, at most {own['max']}; there are no checklists, "
            "which people edited later."
        )
    yield "types: of the taxonomy's 27; several share an id, and those count together where the id occurs."
    if seconds := videos.get("seconds"):
        yield (
            f"seconds: of {videos['wanted']} videos, whole seconds, {seconds['min']} to {seconds['max']}, median "
            f"{seconds['median']}; {videos['portrait']} are upright, {videos['small']} have a side below 480 pixels."
        )
    words, characters = prompts["words"], prompts["characters"]
    yield (
        f"words: {words['min']} to {words['max']}, median {words['median']}; characters {characters['min']} to "
        f"{characters['max']}, median {characters['median']}."
    )
    if faults := statistics.get("checklist_faults"):
        yield f"{len(faults)} faults in checklists; statistics.json lists them."


def _known_types(uses: Mapping[str, int]) -> int:
    return sum(len(types_of(name)) for name in uses)


def _ids(statistics: Mapping[str, Any], stamp: Mapping[str, str]) -> Table:
    """Constraint ids: how often they were drafted and in how many instructions; rules of the checklists."""
    found, checklists = statistics["prompts"]["ids"], statistics.get("checklists") or {}
    ids = [*(name for name in (*FORMAT_IDS, *CONTENT_IDS) if name in found["uses"]), *found["stray"]]
    checked = {**checklists.get("ids", {}), **checklists.get("group_ids", {})}
    rows = [
        (
            name,
            "format" if name in FORMAT_IDS else "content" if name in CONTENT_IDS else "unknown",
            _count(found["uses"][name]),
            _count(found["instructions"][name]),
            _count(checked.get(name, 0)) if name in FORMAT_IDS and checklists.get("checklists") else Cell(None),
        )
        for name in ids
    ]
    kinds = [row[1] for row in rows]
    return Table(
        caption=_caption(
            "Constraint ids that instructions were drafted from, and rules of the checklists", statistics, stamp
        ),
        headers=tuple(map(Header, ("id", "kind", "uses", "instructions", "rules"))),
        rows=tuple(rows),
        footnotes=(
            f"{found['more_format_than_content']} instructions have more format than content ids, "
            f"{found['without_format']} no format id, {found['format_only']} nothing else.",
        ),
        rules=frozenset(place for place in range(1, len(rows)) if kinds[place] != kinds[place - 1]),
        stamp=stamp,
    )


def _sizes(statistics: Mapping[str, Any], stamp: Mapping[str, str]) -> Table:
    """How many instructions have how many constraints: drafted (and in their checklists)."""
    drafted = statistics["prompts"]["constraints"]["histogram"]
    checked = ((statistics.get("checklists") or {}).get("constraints") or {}).get("histogram") or {}
    sizes = sorted({*map(int, drafted), *map(int, checked)})
    rows = [
        (str(size), _count(drafted.get(str(size), 0)), _count(checked.get(str(size), 0)) if checked else Cell(None))
        for size in sizes
    ]
    return Table(
        caption=_caption("Instructions by number of constraints", statistics, stamp),
        headers=tuple(map(Header, ("constraints", "drafted", "checklist"))),
        rows=tuple(rows),
        footnotes=("drafted: ids that the instruction was written from; checklist: rules and groups of questions.",),
        stamp=stamp,
    )


def _fields(statistics: Mapping[str, Any], stamp: Mapping[str, str]) -> Table:
    """Application fields: instructions, and what they are like."""
    prompts = statistics["prompts"]
    rows = [
        (
            name or "none",
            _count(n),
            Cell(PERCENT * n / prompts["instructions"]),
            Cell(prompts["by_field"][name]["words"]),
            Cell(prompts["by_field"][name]["constraints"], decimals=2),
        )
        for name, n in prompts["fields"].items()
    ]
    return Table(
        caption=_caption("Instructions by application field", statistics, stamp),
        headers=tuple(map(Header, ("field", "instructions", "percent", "words", "drafted constraints"))),
        rows=tuple(rows),
        stamp=stamp,
    )
