"""Speed of the rule checks: verdicts per second on one core, for the constraint mix of the real benchmark.

    python benchmarks/rules.py                 # 4,000 cases, both modes
    python benchmarks/rules.py --cases 20000

Every JSON case has a schema of its own, as in a checklist that is scored once ("first pass"); the second pass over the
same cases shows what scoring further models costs, when the schemas are known.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from trustvid.captioning.rules import MODES, check
from trustvid.seeding import derive_rng

# How often each format constraint occurs in the published instructions.
REAL_MIX = {
    "length": 685,
    "count": 607,
    "json_object": 306,
    "plain_text": 264,
    "json_array": 255,
    "markdown": 245,
    "prefix_suffix": 239,
    "ordered_list": 214,
    "delimiter": 181,
    "keyword": 167,
    "table": 126,
    "unordered_list": 112,
    "language": 77,
    "case": 61,
}
WORDS = (
    "a man in red coat walks slowly past the old stone bridge while two dogs run over wet grass and camera pans left"
)
MARKUP = {"title": "# {}", "bold": "**{}**", "highlight": "=={}==", "italic": "*{}*", "code": "`{}`"}


def prose(rng: np.random.Generator, sentences: int = 4) -> str:
    """Caption-like prose: about 12 words a sentence."""
    words = WORDS.split()
    parts = [" ".join(rng.choice(words, int(rng.integers(8, 16)))) for _ in range(sentences)]
    return " ".join(part[0].upper() + part[1:] + "." for part in parts)


def _list(rng: np.random.Generator, mark: Callable[[int], str]) -> str:
    return "\n".join(f"{mark(number)} {prose(rng, 1)}" for number in range(1, int(rng.integers(3, 8))))


def _json_case(rng: np.random.Generator, number: int, array: bool) -> dict[str, Any]:
    names = [f"key_{number}_{index}" for index in range(4)]
    record = {name: prose(rng, 1) for name in names}
    properties = {name: {"type": "string", "minLength": 1} for name in names}
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": names}
    value: Any = record
    if array:
        value, schema = [record] * 3, {"type": "array", "items": schema, "minItems": 2, "maxItems": 4}
    return {"content": [f"```json\n{json.dumps(value, indent=2)}\n```"], "schema": schema}


def parameters_for(constraint_id: str, rng: np.random.Generator, number: int) -> dict[str, Any]:
    """Parameters of one case, with content of realistic size (the real mean is 324 characters)."""
    text = prose(rng)
    table = "| Time | Event |\n|---|---|\n" + "\n".join(f"| {i} s | {prose(rng, 1)} |" for i in range(4))
    kind = str(rng.choice(list(MARKUP)))
    return {
        "length": {"content": [text], "unit": str(rng.choice(["word", "word", "sentence"])), "max_len": 60},
        "count": {"content": [",".join(f"({prose(rng, 1)})" for _ in range(3))], "min_count": 3, "max_count": 3},
        "json_object": _json_case(rng, number, array=False),
        "json_array": _json_case(rng, number, array=True),
        "plain_text": {"content": [text]},
        "markdown": {"content": [f"{MARKUP[kind].format('Scene')}\n\n{text}"], "md_type": kind},
        "prefix_suffix": {"content": [f"Scene: {text} END."], "prefix": "Scene: ", "suffix": "END"},
        "ordered_list": {"content": [_list(rng, lambda n: f"{n}.")], "symbol": "1."},
        "unordered_list": {"content": [_list(rng, lambda n: "-")], "symbol": "-"},
        "delimiter": {"content": [text.replace(". ", " | ")], "symbol": "|"},
        "keyword": {"content": [text], "keyword": "bridge", "keyword_type": "include"},
        "table": {"content": [table], "col_name": ["Time", "Event"]},
        "language": {"content": [text], "lang_type": "en"},
        "case": {"content": [text.upper()], "case_type": "upper"},
    }[constraint_id]


def build_cases(number: int) -> list[tuple[str, dict[str, Any]]]:
    """``number`` cases in the real proportions, always the same ones."""
    rng = derive_rng("benchmark", "rules")
    ids = rng.choice(list(REAL_MIX), number, p=np.array(list(REAL_MIX.values())) / sum(REAL_MIX.values()))
    return [(str(id_), parameters_for(str(id_), rng, place)) for place, id_ in enumerate(ids)]


def main() -> None:
    """Prints verdicts per second and mode, then microseconds per constraint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=4_000, help="number of cases")
    cases = build_cases(parser.parse_args().cases)
    spent: dict[str, dict[str, float]] = {}
    print(f"{len(cases)} cases, CPU seconds of all threads")
    print(f"{'mode':10}{'pass':>8}{'verdicts/s':>12}{'true':>7}{'false':>7}{'unscored':>10}")
    for mode in MODES:
        # Imports and the language models load once per process, whatever the number of cases.
        for constraint_id in REAL_MIX:
            check(constraint_id, parameters_for(constraint_id, derive_rng("warm-up"), -1), mode)
        for name in ("first", "second"):
            spent[mode] = dict.fromkeys(REAL_MIX, 0.0)
            values = []
            for constraint_id, parameters in cases:
                start = time.process_time()
                values.append(check(constraint_id, parameters, mode).value)
                spent[mode][constraint_id] += time.process_time() - start
            rate = len(cases) / sum(spent[mode].values())
            print(
                f"{mode:10}{name:>8}{rate:12,.0f}{values.count(True):7}{values.count(False):7}{values.count(None):10}"
            )
    counts = {id_: max(1, sum(case[0] == id_ for case in cases)) for id_ in REAL_MIX}
    print(f"\n{'us/verdict, second pass':24}" + "".join(f"{mode:>12}" for mode in MODES))
    for id_ in REAL_MIX:
        print(f"{id_:24}" + "".join(f"{spent[mode][id_] / counts[id_] * 1e6:12.0f}" for mode in MODES))


if __name__ == "__main__":
    main()
