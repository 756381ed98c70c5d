"""Tool outputs stored per frame (per pair of frames for motion), shared by every question and method.

One SQLite file per video; the file's name is the video's digest, so a file replaced in place starts afresh. A key holds
everything that can change an output: the frames and what was done to them, the tool, its settings and version, and the
query where the tool reads it. Failures are never stored (the executor sees to that).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

from trustvid.errors import TrustvidError
from trustvid.tools.evidence import Observation, SubQuery, Tool

_SCHEMA = """CREATE TABLE IF NOT EXISTS outputs_v1 (
    key TEXT PRIMARY KEY, note TEXT NOT NULL, value TEXT NOT NULL
) WITHOUT ROWID"""
_DIGEST = re.compile(r"[0-9A-Za-z_-]{1,128}")
_MAX_VARIABLES = 500  # keys per SELECT, far below SQLite's limit on bound variables
_MAX_CONNECTIONS = 8  # a worker meets its videos one after the other


def fingerprint(tool: Tool, query: SubQuery, words: Sequence[str]) -> str:
    """Hex digest of all that determines a tool's output on given pixels: any change is another tool to the cache.

    Query and words are part of it only where the tool reads them (``tool.reads_query``).
    """
    asked = [query.text, query.type, list(words)] if tool.reads_query else None
    return _sha256([tool.name, tool.version, tool.settings(), asked])


def output_key(tool_fingerprint: str, frames: Sequence[int], frame_keys: Sequence[str]) -> str:
    """Key of one output within the file of its video.

    Args:
        tool_fingerprint: of :func:`fingerprint`.
        frames: the source index, or the two of a pair.
        frame_keys: what was done to each of ``frames`` (:meth:`FrameSource.frame_key`).

    Returns:
        64 hex digits.
    """
    return _sha256([tool_fingerprint, list(frames), list(frame_keys)])


class ToolCache:
    """Stored observations by video digest and key. Safe with several processes on one folder.

    Args:
        folder: where the SQLite files lie; made on first use. None keeps everything in this process's memory.
        memory_entries: outputs kept in memory in front of the files, least recently used first out; with
            ``folder=None`` nothing is ever dropped.
        busy_timeout_s: seconds to wait for another process's write.
    """

    def __init__(self, folder: Path | str | None, memory_entries: int = 20_000, busy_timeout_s: float = 30.0):
        self.folder = Path(folder) if folder is not None else None
        self.memory_entries = memory_entries
        self.busy_timeout_s = busy_timeout_s
        self._reset()

    @classmethod
    def memory(cls) -> ToolCache:
        """A cache that lives and dies with this process."""
        return cls(None)

    def get_many(self, digest: str, keys: Sequence[str]) -> dict[str, list[Observation]]:
        """The stored outputs among ``keys``; a key without one is absent.

        Raises:
            ValueError: the digest is no plain name.
            TrustvidError: the file stays locked, or its folder cannot be used.
        """
        with self._lock:
            self._forget_after_fork()
            found = {key: self._recall(digest, key) for key in keys if (digest, key) in self._memory}
            missing = [key for key in keys if key not in found]
            if missing and self.folder is not None:
                stored = self._guarded(digest, lambda link: self._select(link, missing))
                for key, observations in (stored or {}).items():
                    self._remember(digest, key, observations)
                    found[key] = observations
            return found

    def put_many(self, digest: str, entries: Mapping[str, tuple[str, Sequence[Observation]]]) -> None:
        """Store outputs in one transaction.

        Args:
            digest: of the video.
            entries: key → (note for a human reader such as "read_text 12", observations).

        Raises:
            ValueError, TrustvidError: as :meth:`get_many`.
        """
        with self._lock:
            self._forget_after_fork()
            rows = []
            for key, (note, observations) in entries.items():
                self._remember(digest, key, list(observations))
                rows.append((key, note, json.dumps([seen.to_json() for seen in observations], allow_nan=False)))
            if rows and self.folder is not None:
                self._guarded(digest, lambda link: self._insert(link, rows))

    def close(self) -> None:
        """Close the files; a later call opens them again."""
        with self._lock:
            self._forget_after_fork()
            while self._links:
                self._links.popitem()[1].close()

    def __getstate__(self) -> dict:
        # Connections and locks stay behind when a worker process gets its copy.
        return {name: getattr(self, name) for name in ("folder", "memory_entries", "busy_timeout_s")}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._reset()

    # ---- memory ----------------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._memory: OrderedDict[tuple[str, str], tuple[Observation, ...]] = OrderedDict()
        self._links: OrderedDict[str, sqlite3.Connection] = OrderedDict()
        self._pid = os.getpid()

    def _forget_after_fork(self) -> None:
        # SQLite connections must not cross a fork: the child opens its own and leaves the parent's untouched.
        if self._pid != os.getpid():
            self._inherited, self._links, self._pid = self._links, OrderedDict(), os.getpid()

    def _recall(self, digest: str, key: str) -> list[Observation]:
        self._memory.move_to_end((digest, key))
        return list(self._memory[digest, key])

    def _remember(self, digest: str, key: str, observations: Sequence[Observation]) -> None:
        self._memory[digest, key] = tuple(observations)
        self._memory.move_to_end((digest, key))
        while self.folder is not None and len(self._memory) > self.memory_entries:
            self._memory.popitem(last=False)

    # ---- files -----------------------------------------------------------------------------------------------------

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"video digest {digest!r} is no plain name; expected letters, digits, '_' and '-'")
        return self.folder / f"{digest}.sqlite"

    def _guarded(self, digest: str, work):
        """``work(connection)``; a broken file is moved aside and the work done once more on a fresh one."""
        path = self._path(digest)
        for attempt in (1, 2):
            try:
                return work(self._connect(digest, path))
            except sqlite3.OperationalError as error:
                raise TrustvidError(
                    f"tool cache {path}: {error}; expected a writable folder and no other process holding the file for "
                    f"over {self.busy_timeout_s:g} s: choose another cache folder, or end the other process"
                ) from error
            except (sqlite3.DatabaseError, json.JSONDecodeError, KeyError, TypeError) as error:
                # The last three: rows that are no observations, written by something else.
                if attempt == 2:
                    raise TrustvidError(f"tool cache {path}: unusable even when made anew ({error})") from error
                self._set_aside(digest, path, error)
        return None

    def _connect(self, digest: str, path: Path) -> sqlite3.Connection:
        if digest in self._links:
            self._links.move_to_end(digest)
            return self._links[digest]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrustvidError(f"tool cache folder {path.parent} cannot be made: {error}") from error
        link = sqlite3.connect(path, timeout=self.busy_timeout_s, isolation_level=None, check_same_thread=False)
        try:
            link.execute("PRAGMA journal_mode=WAL")
            link.execute("PRAGMA synchronous=NORMAL")  # a lost last write costs a recomputation, nothing else
            link.execute(_SCHEMA)
        except sqlite3.Error:
            link.close()
            raise
        self._links[digest] = link
        while len(self._links) > _MAX_CONNECTIONS:
            self._links.popitem(last=False)[1].close()
        return link

    def _select(self, link: sqlite3.Connection, keys: Sequence[str]) -> dict[str, list[Observation]]:
        found: dict[str, list[Observation]] = {}
        for start in range(0, len(keys), _MAX_VARIABLES):
            part = keys[start : start + _MAX_VARIABLES]
            marks = ",".join("?" * len(part))
            for key, value in link.execute(f"SELECT key, value FROM outputs_v1 WHERE key IN ({marks})", part):  # noqa: S608
                found[key] = [Observation.from_json(record) for record in json.loads(value)]
        return found

    def _insert(self, link: sqlite3.Connection, rows: Sequence[tuple[str, str, str]]) -> None:
        link.execute("BEGIN IMMEDIATE")
        try:
            link.executemany("INSERT OR REPLACE INTO outputs_v1 VALUES (?, ?, ?)", rows)
            link.execute("COMMIT")
        except sqlite3.Error:
            if link.in_transaction:
                link.execute("ROLLBACK")
            raise

    def _set_aside(self, digest: str, path: Path, error: Exception) -> None:
        link = self._links.pop(digest, None)
        if link is not None:
            link.close()
        serial = 1
        while (aside := path.with_name(f"{path.name}.broken-{serial}")).exists():
            serial += 1
        for suffix in ("", "-wal", "-shm"):
            # Another process may have met the same damage and moved the file first.
            try:
                path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
            except FileNotFoundError:
                continue
        warnings.warn(
            f"tool cache {path} is broken ({error}); moved to {aside.name} and started anew",
            RuntimeWarning,
            stacklevel=4,
        )


def _sha256(parts: object) -> str:
    text = json.dumps(parts, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
