"""The run folder: records appended so that a kill loses at most one line, and a ``run.json`` that says what they are.

``run.json`` names every file that the run has made; only those may ``fresh=true`` remove. One process writes a folder
at a time; any number may read it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from trustvid.errors import DataError, TrustvidError
from trustvid.evaluation.jsonfiles import (
    append_synced,
    bad_line,
    drop_cut_line,
    dump_json,
    json_lines,
    read_json,
    read_lines,
    replace_file,
    sync_folder,
)
from trustvid.evaluation.provenance import config_hash, environment
from trustvid.evaluation.records import Prediction

__all__ = ["Loaded", "RunBusyError", "RunFolder", "RunInfo", "RunWriter", "config_hash"]

T = TypeVar("T")

RECORD_TYPES: dict[str, type[Prediction]] = {"predictions": Prediction}
"""Record files whose lines have a type and a key; the lines of other files are plain objects without a key."""

RUN_FILE, _LOCK_FILE = "run.json", ".lock"
TEST_CONFIG = ".hydra/test.yaml"
CONFIG_FILES = (TEST_CONFIG, ".hydra/config.yaml")  # the first that is there
_RUN_KEYS = {"status", "name", "config_hash", "datasets", "trustvid", "started", "continued", "files"}


class RunBusyError(TrustvidError):
    """Another process is writing this run folder."""


@dataclass(frozen=True)
class RunInfo:
    """What makes a run this run. A folder is continued only by a run of the same hash, data and program version.

    Attributes:
        name: the run's name as in its folder.
        config_hash: :func:`config_hash` of its config.
        datasets: digest of every data set read, by name.
        seeds: every seed, by what it seeds.
        decode: decode settings of policy and video (temperature, frames, pixels, …): part of the result.
        overrides: the words of the command line that made the config.
    """

    name: str
    config_hash: str
    datasets: Mapping[str, str] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)
    decode: Mapping[str, Any] = field(default_factory=dict)
    overrides: Sequence[str] = ()


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """The records of one file.

    Attributes:
        records: in the order written, the first of each key; of a prediction that was tried again because it was
            unscored, the last try.
        duplicates: records left out because an earlier one has their key.
        truncated: whether the last line was cut by a kill and left out.
    """

    records: tuple[T, ...]
    duplicates: int = 0
    truncated: bool = False


class RunFolder:
    """A run's folder, to read; :meth:`writing` and :meth:`reporting` give the right to write.

    >>> folder = RunFolder("outputs/evaluate/demo-0123456789")          # doctest: +SKIP
    >>> with folder.writing(info) as writer:                            # doctest: +SKIP
    ...     done = folder.done_keys()
    ...     writer.append("predictions", predictions_of_one_question)
    ...     writer.write_json("metrics.json", metrics)
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)

    def run(self) -> dict[str, Any] | None:
        """Contents of ``run.json``; None when there is none.

        Raises:
            DataError: it is not what a run writes.
        """
        path = self.path / RUN_FILE
        if not path.is_file():
            return None
        run = read_json(path)
        missing = sorted(_RUN_KEYS - run.keys())
        if missing:
            raise DataError(f"{path}: lacks {missing}; expected the file as trustvid wrote it")
        return run

    def config(self) -> dict[str, Any] | None:
        """The resolved config that the answers here were made under, None when none is kept (they were imported).

        A training run keeps that of its held-out questions beside its own.

        Raises:
            DataError: the file is not a config.
        """
        found = [path for name in CONFIG_FILES if (path := self.path / name).is_file()]
        if not found:
            return None
        import yaml

        try:
            config = yaml.safe_load(found[0].read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise DataError(f"{found[0]}: {error}; expected the config that the run wrote") from error
        if not isinstance(config, dict):
            raise DataError(f"{found[0]}: holds no mapping; expected the config that the run wrote")
        return config

    def existing_run(self) -> dict[str, Any]:
        """Like :meth:`run`, but no run is an error.

        Raises:
            DataError: there is no run here, or ``run.json`` is not what a run writes.
        """
        run = self.run()
        if run is None:
            raise DataError(f"{self.path}: no {RUN_FILE} here; expected the folder of a run")
        return run

    def load(self, name: str) -> Loaded[Any]:
        """The records of ``<name>.jsonl`` ("predictions": as :class:`Prediction`); none when there is no such file.

        Raises:
            DataError: a line that was written to its end is not a record.
        """
        return _load(self.path / f"{name}.jsonl", RECORD_TYPES.get(name))

    def done_keys(self, retry_unscored: bool = False) -> set[tuple[str, str, str]]:
        """Keys (sample_id, method, condition) of the predictions that need not be made again.

        Args:
            retry_unscored: unscored ones are to be tried again (the server may be up now).
        """
        found = self.load("predictions").records
        return {one.key for one in found if not (retry_unscored and one.status == "unscored")}

    @contextlib.contextmanager
    def writing(self, info: RunInfo, fresh: bool = False) -> Iterator[RunWriter]:
        """Start the run, or continue the one that lies here. The folder is created where it is missing.

        While the block runs the status is "running" (and stays so after a kill); then it is "finished", or "failed"
        with the error that left the block.

        Args:
            info: what the run is.
            fresh: first remove what an earlier run made here (the files its ``run.json`` names, nothing else).

        Raises:
            RunBusyError: another process is writing this folder.
            DataError: what lies here belongs to another config, other data or another version of trustvid.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with self._locked():
            if fresh:
                _remove_made_files(self)
            with contextlib.closing(RunWriter(self.path, _begin(self, info))) as writer:
                try:
                    yield writer
                except BaseException as error:
                    # The error on its way out matters more than a status that cannot be written (a full disk is both).
                    with contextlib.suppress(OSError):
                        writer.set_status("failed", f"{type(error).__name__}: {error}")
                    raise
                writer.set_status("finished")

    @contextlib.contextmanager
    def reporting(self) -> Iterator[RunWriter]:
        """Write reports beside the records of the run that lies here, whose status stays as it is.

        Raises:
            RunBusyError: another process is writing this folder.
            DataError: there is no run here.
        """
        self.existing_run()  # before the lock: its file must not appear in a folder that holds no run
        with self._locked(), contextlib.closing(RunWriter(self.path, self.existing_run())) as writer:
            yield writer

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock, Timeout

        lock = FileLock(self.path / _LOCK_FILE)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise RunBusyError(
                f"{self.path}: another process is writing this run; wait for it, stop it, or give this run another name"
            ) from error
        try:
            yield
        finally:
            lock.release()


class RunWriter:
    """The one writer of a run folder, as :meth:`RunFolder.writing` yields it."""

    def __init__(self, path: Path, run: dict[str, Any]):
        self.path = path
        self._run = run
        self._descriptors: dict[str, int] = {}  # open record files by name
        self._write_run()

    def append(self, name: str, records: Iterable[Prediction | Mapping[str, Any]]) -> None:
        """Append ``records`` to ``<name>.jsonl``; they are on the disk when this returns.

        The records of one call (all that one question gave, say) share one fsync. A kill inside the call leaves a
        prefix of its lines, of which the last may be cut; reading leaves the cut line out and the next append removes
        it.

        Raises:
            DataError: a mapping given as a prediction is not one, or the file is there but not made by this run.
        """
        kind = RECORD_TYPES.get(name)
        plain = [_plain(record, kind) for record in records]
        if plain:
            append_synced(self._descriptor(name), json_lines(plain))

    def write_json(self, name: str, value: Mapping[str, Any]) -> Path:
        """Replace the file ``name`` atomically by :func:`dump_json` of ``value``."""
        return self.write_text(name, dump_json(value))

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the resolved config and the words of the command line that made it, where Hydra's tools look."""
        self.write_yaml(".hydra/config.yaml", dict(config))
        self.write_yaml(".hydra/overrides.yaml", list(self._run["overrides"]))

    def write_yaml(self, name: str, value: Any) -> Path:
        """Replace the file ``name`` atomically by plain containers as YAML."""
        from omegaconf import OmegaConf

        return self.write_text(name, OmegaConf.to_yaml(OmegaConf.create(value)))

    def write_text(self, name: str, text: str) -> Path:
        """Replace the file ``name`` atomically by ``text`` (UTF-8)."""
        path = self.claim(name)
        replace_file(path, text)
        return path

    def write_bytes(self, name: str, content: bytes) -> Path:
        """Replace the file ``name`` atomically by ``content``."""
        path = self.claim(name)
        replace_file(path, content)
        return path

    def claim(self, name: str) -> Path:
        """Path of the file ``name`` (relative, "/" between folders) that this run is about to write.

        It is listed in ``run.json`` first, so that ``fresh`` knows it may go.

        Raises:
            ValueError: the name leads out of the folder or is one of the store's own.
            DataError: a file of that name is there that the run did not make.
        """
        path = _inside(self.path, name)
        if path is None or name in (RUN_FILE, _LOCK_FILE):
            raise ValueError(f"{name!r} is no name of a file inside the run folder {self.path}")
        if name not in self._run["files"]:
            if path.exists():
                raise DataError(f"{path}: is there but was not made by this run; move it away")
            self._run["files"] = sorted([*self._run["files"], name])
            self._write_run()
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def set_status(self, status: str, error: str | None = None) -> None:
        """Write "finished" or "failed" (with the error's text) and the time into ``run.json``."""
        self._run.update(status=status, error=error, finished=_now())
        self._write_run()

    def close(self) -> None:
        """Close the record files."""
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def _write_run(self) -> None:
        replace_file(self.path / RUN_FILE, dump_json(self._run))

    def _descriptor(self, name: str) -> int:
        if name not in self._descriptors:
            path = self.claim(f"{name}.jsonl")
            self._descriptors[name] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            drop_cut_line(self._descriptors[name])
            sync_folder(path.parent)
        return self._descriptors[name]


def _begin(folder: RunFolder, info: RunInfo) -> dict[str, Any]:
    """What ``run.json`` says from now on: a new run, or the earlier one with a line more on its continuations.

    An earlier run that failed before its first record (a config that could not run) binds nobody.
    """
    now, surroundings, previous = _now(), environment(), folder.run()
    files = previous["files"] if previous else []
    if previous is not None and any(name.endswith(".jsonl") for name in files):
        _check_same(folder.path, previous, info, surroundings)
        changes = {key: value for key, value in surroundings.items() if previous.get(key) != value}
        continued = [*previous["continued"], {"time": now, **changes}]
        return {**previous, "status": "running", "error": None, "finished": None, "continued": continued}
    orphans = [name for name in sorted(RECORD_TYPES) if (folder.path / f"{name}.jsonl").exists()]
    if orphans:
        raise DataError(f"{folder.path}: holds records of {orphans} but no {RUN_FILE} that says whose; move them away")
    return {
        "status": "running",
        "error": None,
        "name": info.name,
        "config_hash": info.config_hash,
        "datasets": dict(info.datasets),
        "seeds": dict(info.seeds),
        "decode": dict(info.decode),
        "overrides": list(info.overrides),
        **surroundings,
        "started": now,
        "continued": [],
        "finished": None,
        "files": files,
    }


def _check_same(path: Path, previous: Mapping[str, Any], info: RunInfo, surroundings: Mapping[str, Any]) -> None:
    now = {
        "config_hash": info.config_hash,
        "datasets": dict(info.datasets),
        "trustvid": surroundings["trustvid"],
    }
    changed = [f"{key} was {previous.get(key)!r}, is {now[key]!r}" for key in now if previous.get(key) != now[key]]
    if changed:
        raise DataError(
            f"{path}: cannot continue this run, its answers would be mixed with others: {'; '.join(changed)}. "
            "Use fresh=true to start anew, or another run name"
        )


def _remove_made_files(folder: RunFolder) -> None:
    run = folder.run()
    names = run["files"] if run else []
    paths = [_inside(folder.path, name) for name in names]
    if None in paths:
        raise DataError(f"{folder.path / RUN_FILE}: 'files' names one outside the run folder; correct it by hand")
    for path in paths:
        path.unlink(missing_ok=True)
    # Last, so that a kill in between leaves a list of what is still to go.
    (folder.path / RUN_FILE).unlink(missing_ok=True)


def _inside(folder: Path, name: str) -> Path | None:
    """The path of ``name`` in ``folder``, or None when it would lie outside."""
    root = folder.resolve()
    path = root / name
    inside = ".." not in path.parts and path != root and path.parent.resolve().is_relative_to(root)
    return path if inside else None


def _plain(record: Prediction | Mapping[str, Any], kind: type[Prediction] | None) -> Mapping[str, Any]:
    if isinstance(record, Prediction):
        return record.to_json()
    return record if kind is None else kind.from_json(record).to_json()


def _load(path: Path, kind: type[Prediction] | None) -> Loaded[Any]:
    if not path.is_file():
        return Loaded(())
    lines, truncated = read_lines(path)
    if kind is None:
        return Loaded(tuple(record for _, record in lines), 0, truncated)
    kept: dict[tuple[str, str, str], Prediction] = {}
    retries = 0
    for number, record in lines:
        try:
            prediction = kind.from_json(record)
        except DataError as error:
            raise bad_line(path, number, error) from error
        earlier = kept.setdefault(prediction.key, prediction)
        if earlier is not prediction and earlier.status == "unscored":
            kept[prediction.key] = prediction
            retries += 1
    return Loaded(tuple(kept.values()), len(lines) - len(kept) - retries, truncated)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
