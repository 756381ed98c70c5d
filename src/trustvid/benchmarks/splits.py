"""Scene-disjoint, seeded splits of the real benchmarks, kept in a file.

Neither benchmark publishes a split; the published practice (Embodied-R) is 75/5/20 by scene, drawn without a seed. Here
the draw depends on the seed and on the set of scenes alone, is written once, and enters the run record by its SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trustvid.benchmarks.sample import Sample
from trustvid.errors import DataError

SPLITS = ("train", "dev", "test")
SHARES = {"train": 0.75, "dev": 0.05, "test": 0.20}


@dataclass(frozen=True)
class SplitFile:
    """A split as read from its file.

    Attributes:
        path: the JSON file.
        scenes: split name by scene.
        sha256: SHA-256 of the file's bytes, hex.
    """

    path: Path
    scenes: dict[str, str]
    sha256: str


def split_scenes(scenes: Iterable[str], seed: int) -> dict[str, str]:
    """Assign each scene to train, dev or test (75/5/20 of the scenes, at least one each).

    The result depends on the set of scenes and the seed only, not on order, repeats or machine.

    Raises:
        DataError: there are fewer than three scenes.
    """
    from trustvid.seeding import derive_seed  # NumPy: not at import time, loaders must import fast

    unique = sorted(set(scenes))
    if len(unique) < len(SPLITS):
        raise DataError(f"{len(unique)} scenes cannot be split into {', '.join(SPLITS)}; expected at least three")
    drawn = sorted(unique, key=lambda scene: (derive_seed(seed, "split", scene), scene))
    n_dev = max(1, round(SHARES["dev"] * len(drawn)))
    n_test = max(1, round(SHARES["test"] * len(drawn)))
    n_train = len(drawn) - n_dev - n_test
    names = ["train"] * n_train + ["dev"] * n_dev + ["test"] * n_test
    return dict(sorted(zip(drawn, names, strict=True)))


def load_or_write_split(path: Path, scenes: Iterable[str], *, benchmark: str, seed: int = 0) -> SplitFile:
    """Read the split file, or draw and write it (atomically) if there is none.

    Args:
        path: the JSON file.
        scenes: every scene of the question file.
        benchmark: name of the benchmark; a file of another benchmark is refused.
        seed: seed of a new file; a file with another seed is refused.

    Raises:
        DataError: the file is malformed, belongs to another benchmark or seed, or does not know a scene; or it does not
            exist and cannot be written.
    """
    needed = set(scenes)
    if not path.exists():
        record = {"benchmark": benchmark, "seed": seed, "shares": SHARES, "scenes": split_scenes(needed, seed)}
        _write_once(path, json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    raw = path.read_bytes()
    known = _validated(path, raw, benchmark, seed)
    if unknown := sorted(needed - known.keys()):
        raise DataError(
            f"{path}: does not know {len(unknown)} of {len(needed)} scenes ({', '.join(unknown[:5])}); it was written "
            f"for other data. Name another benchmark.split_file, which will be written for these scenes"
        )
    return SplitFile(path, known, hashlib.sha256(raw).hexdigest())


def _validated(path: Path, raw: bytes, benchmark: str, seed: int) -> dict[str, str]:
    shape = '{"benchmark": name, "seed": number, "scenes": {scene: "train" | "dev" | "test"}}'
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not JSON ({error}); expected {shape}") from error
    scenes = record.get("scenes") if isinstance(record, dict) else None
    if not isinstance(scenes, dict) or not all(isinstance(name, str) and name in SPLITS for name in scenes.values()):
        raise DataError(f"{path}: is not a split file; expected {shape}")
    for key, wanted in (("benchmark", benchmark), ("seed", seed)):
        if record.get(key) != wanted:
            raise DataError(
                f"{path}: was written for {key}={record.get(key)!r}, asked for {wanted!r}; name another "
                f"benchmark.split_file or ask for the {key} it has"
            )
    return scenes


def _write_once(path: Path, text: str) -> None:
    """Write beside the target, then move: no reader ever sees half a file.

    Two processes that get here together draw the same split, so it does not matter whose file stays.
    """
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(draft).replace(path)
        finally:
            Path(draft).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"{path}: the split cannot be written there ({error.strerror or error}); "
            f"set benchmark.split_file to a path that can be written"
        ) from error


def choose(samples: Sequence[Sample], limit: int | None, seed: int) -> list[Sample]:
    """At most ``limit`` questions: videos in a seeded order, each with all its questions until the limit is reached."""
    from trustvid.seeding import derive_seed  # with numpy, which loaders do without

    if limit is None or limit >= len(samples):
        return list(samples)
    clusters = sorted({sample.cluster for sample in samples}, key=lambda name: derive_seed("limit", seed, name))
    rank = {name: place for place, name in enumerate(clusters)}
    return sorted(samples, key=lambda sample: rank[sample.cluster])[:limit]
