"""``python evaluate.py benchmark=if_vidcap``: captions written or imported, judged, scored in both rule modes, tabled.

Every step reads what the one before left in the run folder, so each can be run alone, resumed, or repeated offline.
Several judges may judge one set of responses: they share the run folder, and every table has a row for each.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from trustvid.captioning.files import RESULTS_END
from trustvid.config.schema import EvaluateConfig
from trustvid.errors import ConfigError, DataError, TrustvidError
from trustvid.evaluation.store import RunFolder, RunInfo
from trustvid.stages.caption_judging import judge_responses, judges_of
from trustvid.stages.caption_report import STATISTICS, report_captions
from trustvid.stages.caption_responses import collect_responses, count_benchmark, estimate, tell

MODES = ("all", "infer", "judge", "score", "table", "estimate")
EVIDENCE = ("tools", "none")
# What changes no response: the judge (its verdicts are kept apart by its own id), the headline's rules, the reference,
# and everything about corrupted questions.
NOT_IN_HASH = ("judge", "rules", "reference", "methods", "corruption", "severity", "coverage", "save_trajectories")


def wanted(config: Mapping[str, Any]) -> bool:
    """Whether the config's benchmark asks for captions."""
    module, _, name = str((config.get("benchmark") or {}).get("_target_", "")).rpartition(".")
    try:
        return bool(getattr(getattr(importlib.import_module(module), name), "captions", False))
    except (ImportError, AttributeError, ValueError):
        return False  # the check of the whole config says what is wrong


def faults(typed: EvaluateConfig) -> Iterator[str]:
    """What is wrong with the settings that only captions have."""
    from trustvid.captioning.rules import MODES as RULES

    if typed.mode not in MODES:
        yield f"mode={typed.mode} does nothing for captions; known: {', '.join(MODES)}"
    if typed.rules not in RULES:
        yield f"rules={typed.rules} is unknown; known: {', '.join(RULES)}"
    if typed.evidence not in EVIDENCE:
        yield f"evidence={typed.evidence} is unknown; known: {', '.join(EVIDENCE)}"
    if not typed.judge and typed.mode in ("all", "judge"):
        yield "judge is not set; choose one of conf/judge, e.g. judge=rules_only, or mode=infer to write captions only"


def run(config: dict[str, Any], typed: EvaluateConfig, folder: RunFolder, info: RunInfo) -> None:
    """The modes that ``typed.mode`` asks for.

    Raises:
        ConfigError: the settings do not go together; all faults in one message.
        DataError: files cannot be read, or an earlier step is missing.
        TrustvidError: nothing could be scored.
    """
    found = list(faults(typed))
    if found:
        raise ConfigError(found)
    if typed.mode == "estimate":
        estimate(config, typed, folder)
    if typed.mode in ("all", "infer"):
        collect_responses(config, typed, folder, info)
    if typed.mode in ("all", "judge"):
        judge_responses(config, folder, info)
    if typed.mode in ("all", "score"):
        _score(typed, folder)
    if typed.mode == "table" and typed.show == STATISTICS:
        count_benchmark(config, typed, folder, info)
    if typed.mode in ("all", "score", "table"):
        report_captions(config, typed, folder.path)


# -- scores ------------------------------------------------------------------------------------------------------------


def _score(typed: EvaluateConfig, folder: RunFolder) -> None:
    """Verdicts, metrics, errors and official result files of every captioner and judge in the folder."""
    from trustvid.captioning.error_analysis import error_lines
    from trustvid.captioning.records import SCORES, judgement_lines, require, response_lines, task_lines
    from trustvid.captioning.rules import MODES as RULES
    from trustvid.evaluation.jsonfiles import json_lines, read_json
    from trustvid.stages.caption_scoring import CaptionerScores, Records, metrics_of, score_captioner

    tasks = require(task_lines(folder.path), "instructions", "infer")
    responses = require(response_lines(folder.path), "responses", "infer")
    described = judges_of(folder)
    if not described:
        raise DataError(f"{folder.path}: no judge has judged these responses; run mode=judge (or mode=all) first")
    records = Records(tasks, responses, judgement_lines(folder.path))
    captioners = list(dict.fromkeys(captioner for captioner, _ in responses))
    names = _short_names(described)
    about = read_json(folder.path / "about.json")
    scored: dict[tuple[str, str], CaptionerScores] = {}
    with folder.reporting() as writer, _replacing(writer.claim(f"{SCORES}.jsonl")) as out:
        for captioner in captioners:
            reference = _reference(captioner, typed.reference or about["truth"])
            for judge, name in names.items():
                results = {
                    mode: writer.claim(f"results/{_plain(name)}/{mode}/{_plain(captioner)}{RESULTS_END}")
                    for mode in RULES
                }
                for found in score_captioner(records, captioner, judge, typed.rules, results, reference):
                    if isinstance(found, CaptionerScores):
                        scored[captioner, name] = found
                    else:
                        out.write(json_lines([found]))
        context = {key: value for key, value in about.items() if key != "truth"}  # a path: equal runs, equal files
        metrics = metrics_of(scored, context, typed.seed, typed.rules)
        writer.write_json("metrics.json", metrics)
        errors = {
            f"{captioner} judged by {judge}": kept.errors.to_json() for (captioner, judge), kept in scored.items()
        }
        writer.write_json("errors.json", errors)
        text = "\n\n".join("\n".join(error_lines(name, found)) for name, found in errors.items())
        writer.write_text("errors.md", f"{text}\n")
    _require_some(folder, metrics)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of ``path`` when it is complete."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as out:
        yield out
    temporary.replace(path)


def _plain(name: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^\w.+-]", "_", name)


def _short_names(described: Mapping[str, Any]) -> dict[str, str]:
    """What tables call each judge, by its id: its name; its id where several settings of it judged here.

    The judge that worked last comes first: breakdowns by type and field are by it.
    """
    ranked = sorted(described.items(), key=lambda item: -item[1]["turn"])
    bare = {judge: str(about["name"]) for judge, about in ranked}
    return {judge: name if list(bare.values()).count(name) == 1 else judge for judge, name in bare.items()}


def _reference(captioner: str, where: str | None) -> Any:
    """The results to compare with: a file, or the captioner's file in a folder; None when there are none."""
    from trustvid.captioning.files import read_results

    if where is None:
        return None
    path = Path(where)
    path = path / f"{captioner}{RESULTS_END}" if path.is_dir() else path
    if not path.is_file():
        print(f"{captioner}: no reference {path}", file=sys.stderr)
        return None
    results, problems = read_results(path)
    tell(f"left out of {path.name}", problems)
    return results


def _require_some(folder: RunFolder, metrics: Mapping[str, Any]) -> None:
    """Refuse to call a run without a single verdict a result.

    Raises:
        TrustvidError: nothing was scored.
    """
    rows = [row for row in metrics["rows"] if row["task"] == "all" and row["metric"] == "csr_macro"]
    headline = [row for row in rows if row["condition"] == f"rules={metrics['context']['headline']}"]
    total = metrics["context"]["n_instructions"]
    for row in headline:
        print(f"{row['method']}, judged by {row['judge']}: {row['n']} of {total} instructions scored")
    if not any(row["n"] for row in headline):
        reasons = "; ".join(f"{entry['n']} × {entry['reason']}" for entry in metrics["context"]["unjudged"][:5])
        raise TrustvidError(f"{folder.path}: 0 of {total} instructions could be scored: {reasons or 'see errors.md'}")
