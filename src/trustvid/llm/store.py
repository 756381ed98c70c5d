"""Replies on disk: one SQLite file, JSON inside, durable before a reply counts as received.

Tables: ``chats`` (who was asked), ``replies`` (what came back, with the request in full so that a reader needs no other
file), ``failures`` (the last failure of a request without a reply: for the audit and for replay, never an answer).

Rollback journal instead of a write-ahead log: it works on network folders too. A kill at any moment loses at most
replies that had not arrived.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trustvid.errors import DataError
from trustvid.llm.messages import Failure, Reply, canonical_json

_VERSION = 1
_WAIT_FOR_WRITERS_S = 120.0
_SETTINGS = "judge.store=… or policy.store=…"
_TABLES = """
CREATE TABLE IF NOT EXISTS chats (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, chat INTEGER NOT NULL, request TEXT NOT NULL, reply TEXT NOT NULL, rejected TEXT,
    stored_at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failures (
    key TEXT PRIMARY KEY, chat INTEGER NOT NULL, failure TEXT NOT NULL, stored_at TEXT NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Received:
    """One outcome to store.

    Attributes:
        key: the request's key.
        identity: of the chat that was asked.
        request: its JSON form.
        outcome: what came back.
    """

    key: str
    identity: Mapping[str, Any]
    request: Mapping[str, Any]
    outcome: Reply | Failure


class RequestStore:
    """Replies by request key. Safe with several threads and several processes.

    Args:
        path: the file; None = a private temporary one that lasts as long as the store.
        read_only: refuse to write; the file must exist.

    Raises:
        DataError: the file is missing (read-only), is no store, or was written by a newer version.
    """

    def __init__(self, path: Path | str | None, read_only: bool = False):
        self.path = Path(path).absolute() if path is not None else None
        self.read_only = read_only
        self._lock = threading.RLock()
        self._writers = 0
        self._opened: tuple[int, sqlite3.Connection] | None = None
        if read_only and (self.path is None or not self.path.is_file()):
            raise DataError(f"{path}: no stored replies there; expected the store of an earlier run ({_SETTINGS})")
        self._connection()

    def reply(self, key: str) -> Reply | None:
        """The stored reply, None when there is none."""
        row = self._row("SELECT reply FROM replies WHERE key = ?", key)
        return Reply.from_json(json.loads(row[0])) if row else None

    @property
    def busy(self) -> bool:
        """Whether a thread of this process is writing right now; a look into the store would wait for it."""
        return self._writers > 0

    def failure(self, key: str) -> Failure | None:
        """The last failure of a request that has no reply, None when it never failed."""
        row = self._row("SELECT failure FROM failures WHERE key = ?", key)
        return Failure.from_json(json.loads(row[0])) if row else None

    def add(self, received: Sequence[Received]) -> None:
        """Store outcomes in one durable step: replies replace what was there, failures only an earlier failure."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._writing() as connection:
            for one in received:
                chat = self._chat(connection, one.identity)
                outcome = canonical_json(one.outcome.to_json())
                if isinstance(one.outcome, Failure):
                    connection.execute(
                        "INSERT OR REPLACE INTO failures VALUES (?, ?, ?, ?)", (one.key, chat, outcome, now)
                    )
                    continue
                request = json.dumps(one.request, ensure_ascii=False)
                connection.execute(
                    "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, NULL, ?)",
                    (one.key, chat, request, outcome, now),
                )
                connection.execute("DELETE FROM failures WHERE key = ?", (one.key,))

    def reject(self, reasons: Mapping[str, str]) -> None:
        """Mark replies, by key, that their reader could not use, and why."""
        with self._writing() as connection:
            connection.executemany(
                "UPDATE replies SET rejected = ? WHERE key = ?", [(reason, key) for key, reason in reasons.items()]
            )

    def identities(self) -> list[dict[str, Any]]:
        """The chats whose replies are here, in the order in which they came."""
        with self._lock:
            rows = self._connection().execute("SELECT identity FROM chats ORDER BY id").fetchall()
        return [json.loads(row[0]) for row in rows]

    def counts(self) -> dict[str, int]:
        """Numbers of usable replies, rejected replies and failures."""
        with self._lock:
            row = (
                self._connection()
                .execute(
                    "SELECT (SELECT count(*) FROM replies WHERE rejected IS NULL),"
                    " (SELECT count(*) FROM replies WHERE rejected IS NOT NULL), (SELECT count(*) FROM failures)"
                )
                .fetchone()
            )
        return dict(zip(("replies", "rejected", "failures"), row, strict=True))

    def _row(self, query: str, key: str) -> tuple[Any, ...] | None:
        with self._lock:
            return self._connection().execute(query, (key,)).fetchone()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            connection = self._connection()
            self._writers += 1
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise DataError(
                        f"{self.path}: replies cannot be stored ({error}); expected room and leave to write"
                    ) from error
                raise
            finally:
                self._writers -= 1

    @staticmethod
    def _chat(connection: sqlite3.Connection, identity: Mapping[str, Any]) -> int:
        text = canonical_json(identity)
        connection.execute("INSERT OR IGNORE INTO chats (identity) VALUES (?)", (text,))
        return connection.execute("SELECT id FROM chats WHERE identity = ?", (text,)).fetchone()[0]

    def _connection(self) -> sqlite3.Connection:
        """The connection of this process; SQLite connections must not cross a fork."""
        if self._opened is None or self._opened[0] != os.getpid():
            try:
                self._opened = os.getpid(), self._open()
            except (sqlite3.DatabaseError, OSError) as error:
                raise DataError(
                    f"{self.path}: cannot be opened as a store of replies ({error}); expected a file that trustvid "
                    f"wrote, in a folder that may be written to; name another one ({_SETTINGS}) or remove it"
                ) from None
        return self._opened[1]

    def _open(self) -> sqlite3.Connection:
        if self.path is None:
            connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        elif self.read_only:
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode=ro",
                uri=True,
                timeout=_WAIT_FOR_WRITERS_S,
                isolation_level=None,
                check_same_thread=False,
            )
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                self.path, timeout=_WAIT_FOR_WRITERS_S, isolation_level=None, check_same_thread=False
            )
        # EXTRA also syncs the folder when the journal goes: a reply that add() has returned for survives a power cut.
        connection.execute("PRAGMA synchronous = EXTRA")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION or (self.read_only and version == 0):
            raise sqlite3.DatabaseError(f"its version is {version}, this program knows {_VERSION}")
        if version == 0:
            connection.executescript(f"BEGIN IMMEDIATE;{_TABLES}PRAGMA user_version = {_VERSION};COMMIT;")
        return connection


class Claims:
    """Who is asking what: a key is claimed by one asker at a time, across processes, until released or until it dies.

    One byte of a lock file stands for each key; the kernel drops a dead process's locks at once, so nothing is left
    to clean up after a kill. Without a path, or where the system has no such locks (Windows), claims hold within the
    process only, and two processes may then both ask.

    One instance for each file and process: closing any descriptor of the file would drop all its locks.
    """

    _instances: dict[tuple[int, Path], Claims] = {}  # noqa: RUF012 (a registry, guarded by the lock)
    _instances_lock = threading.Lock()

    def __init__(self, path: Path | None):
        self._held: set[str] = set()
        self._lock = threading.Lock()
        self._file = None if path is None else _open_lock_file(path)

    @classmethod
    def of(cls, store: RequestStore) -> Claims:
        """The claims that go with a store: a file beside it, named like it with ".lock" at the end."""
        if store.path is None or store.read_only:
            return cls(None)
        path = store.path.with_name(store.path.name + ".lock")
        with cls._instances_lock:
            found = cls._instances.get((os.getpid(), path))
            if found is None:
                found = cls._instances[os.getpid(), path] = cls(path)
            return found

    def claim(self, key: str) -> bool:
        """Whether the key is now claimed by the caller; False when somebody else has it."""
        with self._lock:
            if key in self._held:
                return False
            if self._file is not None and not _lock_byte(self._file, _place(key)):
                return False
            self._held.add(key)
            return True

    def release(self, key: str) -> None:
        """Give the key back."""
        with self._lock:
            self._held.discard(key)
            if self._file is not None:
                _unlock_byte(self._file, _place(key))


def _place(key: str) -> int:
    # 62 bits: file offsets are signed. Two keys that share a place only wait for each other.
    return int(key[:16], 16) >> 2


def _open_lock_file(path: Path) -> int | None:
    try:
        import fcntl  # noqa: F401
    except ImportError:
        return None
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)


def _lock_byte(file: int, place: int) -> bool:
    import fcntl

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise DataError(
            f"files cannot be locked beside the store ({error}); expected a disk with file locks: put the store on a "
            f"local one ({_SETTINGS})"
        ) from error
    return True


def _unlock_byte(file: int, place: int) -> None:
    import fcntl

    fcntl.lockf(file, fcntl.LOCK_UN, 1, place)
