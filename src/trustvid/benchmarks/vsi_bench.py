"""VSI-Bench (arXiv 2412.14171): spatial questions about indoor videos, read from its official files.

Multiple-choice tasks are scored right or wrong, numeric ones by mean relative accuracy (``evaluation.scoring``). The
three difficulties of relative direction pool into "RDir", as in Robust-TO's and Embodied-R's tables; the benchmark's
own average takes the unweighted mean of the three instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trustvid.benchmarks.base import OnBad, QuestionFile, Row, Tasks
from trustvid.benchmarks.files import cell, read_json_lines, read_parquet, require_folder
from trustvid.benchmarks.options import strip_letters
from trustvid.errors import ConfigError, DataError

#: Task name by official question type: multiple choice …
MCQ_TYPES = {
    "object_rel_distance": "RDist",
    "object_rel_direction_easy": "RDir",
    "object_rel_direction_medium": "RDir",
    "object_rel_direction_hard": "RDir",
    "route_planning": "RP",
    "obj_appearance_order": "AO",
}
#: … and numeric.
NUMERIC_TYPES = {
    "object_counting": "Count",
    "object_abs_distance": "ADist",
    "object_size_estimation": "OSize",
    "room_size_estimation": "RSize",
}
#: Questions per task in the full set, as published (5,130 in all).
TASK_COUNTS = {
    "RDist": 710,
    "RDir": 968,
    "RP": 194,
    "AO": 618,
    "Count": 565,
    "ADist": 834,
    "OSize": 953,
    "RSize": 288,
}
FULL_FILES = ("test-00000-of-00001.parquet", "test.jsonl")
_COLUMNS = ("id", "dataset", "scene_name", "question_type", "question", "ground_truth", "options")


class VSIBench(QuestionFile):
    """Loader of ``<data_dir>/<file>`` with ``<data_dir>/<dataset>/<scene_name>.mp4``.

    Args:
        data_dir: folder of the data set.
        file: the question file: ``test-00000-of-00001.parquet``, ``test.jsonl``, or the debiased or pruned variant.
            Published counts are known for the full set only.
        tasks: None for the four multiple-choice tasks (RDist, RDir, RP, AO), "all" for all eight, or a list of short
            names or official question types.
        numeric: add the four numeric tasks (Count, ADist, OSize, RSize) to ``tasks``.
        name, on_bad, strict_counts, expected, split, split_file, split_seed: as in :class:`QuestionFile`.

    Raises:
        ConfigError: no ``data_dir``, or an unknown task.
    """

    source = (
        "the data set nyu-visionx/VSI-Bench of the Hugging Face hub "
        "(`hf download nyu-visionx/VSI-Bench --repo-type dataset --local-dir DIR`, then unzip its archives there) "
        "with DIR/test-00000-of-00001.parquet and DIR/{arkitscenes,scannet,scannetpp}/*.mp4, and data_dir=DIR"
    )

    def __init__(
        self,
        data_dir: str | Path | None,
        *,
        file: str = FULL_FILES[0],
        tasks: Tasks = None,
        numeric: bool = False,
        name: str = "vsi_bench",
        on_bad: OnBad = "skip",
        strict_counts: bool = False,
        expected: Mapping[str, int] | None = None,
        split: str | None = None,
        split_file: str | Path | None = None,
        split_seed: int = 0,
    ):
        super().__init__(
            name=name,
            on_bad=on_bad,
            strict_counts=strict_counts,
            expected=expected,
            split=split,
            split_file=split_file,
            split_seed=split_seed,
        )
        if not data_dir:
            raise ConfigError([f"benchmark={name} needs data_dir: {self.source}"])
        self.data_dir = Path(data_dir).expanduser()
        self._file = file
        self._tasks = _chosen_tasks(tasks, numeric)

    @property
    def file(self) -> Path:
        return self.data_dir / self._file

    def _wants(self, task: str) -> bool:
        return self._tasks is None or task in self._tasks

    def _published(self) -> dict[str, int]:
        return dict(TASK_COUNTS) if self.file.name in FULL_FILES else {}

    def _rows(self) -> list[Row]:
        require_folder(self.data_dir, self.source)
        if self.file.suffix == ".jsonl":
            return [_row(number, record, self.data_dir) for number, record in self._json_records()]
        records = read_parquet(self.file, _COLUMNS, self.source)
        return [_row(number, record, self.data_dir) for number, record in enumerate(records, start=1)]

    def _json_records(self) -> list[tuple[int, dict[str, Any]]]:
        lines = read_json_lines(self.file, self.source)
        if bad := [f"line {number}: {record}" for number, record in lines if isinstance(record, str)]:
            raise DataError(f"{self.file}: {'; '.join(bad[:5])}; expected {self.source}")
        found = {key for _, record in lines for key in record}
        if missing := [column for column in _COLUMNS if column not in found]:
            raise DataError(f"{self.file}: lacks the keys {', '.join(missing)}; expected {self.source}")
        return [(number, {column: record.get(column) for column in _COLUMNS}) for number, record in lines]


def _chosen_tasks(tasks: Tasks, numeric: bool) -> frozenset[str] | None:
    """Task names to keep; None keeps all."""
    if tasks == "all":
        return None
    by_name = MCQ_TYPES | NUMERIC_TYPES | {task: task for task in TASK_COUNTS}
    asked = list(MCQ_TYPES) if tasks is None else [tasks] if isinstance(tasks, str) else list(tasks)
    if unknown := [name for name in asked if name not in by_name]:
        known = ", ".join(by_name)
        raise ConfigError([f"benchmark.tasks: {', '.join(map(repr, unknown))} unknown; known: all, {known}"])
    return frozenset(by_name[name] for name in asked) | frozenset(NUMERIC_TYPES.values() if numeric else ())


def _row(number: int, record: dict[str, Any], data_dir: Path) -> Row:
    question_type = cell(record["question_type"]).strip()
    numeric = question_type in NUMERIC_TYPES
    dataset, scene = cell(record["dataset"]).strip(), cell(record["scene_name"]).strip()
    faults = []
    options: tuple[str, ...] = ()
    if not numeric:
        try:
            options = _options(record["options"])
        except ValueError as error:
            faults.append(str(error))
    # The data set's folder may itself be a link to where the videos are kept; its name alone comes from the file.
    plain = bool(dataset) and "/" not in dataset and "\\" not in dataset and dataset not in (".", "..")
    if not plain:
        faults.append(f"dataset {dataset!r} is not the plain name of a folder in {data_dir}")
    return Row(
        number=number,
        id=cell(record["id"]).strip(),
        task=(MCQ_TYPES | NUMERIC_TYPES).get(question_type, question_type),
        scene=scene or None,
        cluster=f"{dataset}/{scene}",
        root=data_dir / dataset if plain else data_dir,
        video=f"{scene}.mp4" if scene else "",
        question=cell(record["question"]).strip(),
        options=options,
        answer=cell(record["ground_truth"]),
        kind="numeric" if numeric else "mcq",
        faults=tuple(faults),
    )


def _options(value: Any) -> tuple[str, ...]:
    if value is None:
        raise ValueError("no options")
    if not isinstance(value, list) or not all(isinstance(option, str) for option in value):
        raise ValueError(f"options are not a list of texts but {value!r:.60}")
    return strip_letters(value)
