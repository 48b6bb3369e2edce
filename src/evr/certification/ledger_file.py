"""The file of the ledger: a SQLite database, opened, guarded and written in whole transactions."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from evr.certification import schema
from evr.certification.places import is_shared
from evr.certification.rows import DamagedRow, seal
from evr.errors import LedgerError

BUSY_SECONDS = 60.0


class LedgerFile:
    """A database that any number of processes share; what a transaction wrote is on the disk when
    it ends, in this very file (docs/guarantees.md, Section 5.6).
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path, self._absolute = path, path.absolute()
        if str(path) == ":memory:" or str(path).startswith("file:"):
            raise LedgerError(
                f"{path}: SQLite may take this for a database that is gone when it is closed, and "
                "a ledger must not forget: name a file"
            )
        if not create and not path.exists():
            raise LedgerError(
                f"{path}: there is no ledger: the first attempt makes one; --ledger names another"
            )
        with self._guarded():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self._absolute, timeout=BUSY_SECONDS, isolation_level=None
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        connection = self._connection
        connection.row_factory = sqlite3.Row
        patience = time.monotonic() + BUSY_SECONDS
        # WAL rests on memory, which other machines do not share
        journal = "DELETE" if is_shared(self.path) else "WAL"
        # two processes that switch a new file to WAL at once do not wait for each other by
        # themselves
        while True:
            try:
                connection.execute(f"PRAGMA journal_mode = {journal}")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > patience:
                    raise
                time.sleep(0.02)
        self._identity = self._at_its_place()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        with self._transaction():
            reason = schema.prepare(connection)
            if reason is not None:
                raise LedgerError(f"{self.path}: not a ledger that can be used: {reason}")

    def _at_its_place(self) -> tuple[int, int]:
        """Which file lies at the path; refused if it has other names, each of which would have a
        write-ahead log of its own.
        """
        found = os.stat(self._absolute)
        if found.st_nlink > 1:
            raise LedgerError(
                f"{self.path}: the file has {found.st_nlink} names (hard links), and who uses "
                "another would not see what is counted here: copy it to a file of its own, and "
                "use that one only"
            )
        return found.st_dev, found.st_ino

    def _refuse_another_file(self) -> None:
        """What is counted in a file that nobody will open again is not counted."""
        try:
            same = self._at_its_place() == self._identity
        except FileNotFoundError:
            same = False
        if not same:
            raise LedgerError(
                f"{self.path}: the ledger was moved, deleted or replaced while it was open: put "
                "it back, and begin again"
            )

    def close(self) -> None:
        """Let the file go."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self) -> None:
        """Raise if the file is damaged."""
        with self._guarded():
            (answer,) = self._connection.execute("PRAGMA integrity_check").fetchone()
        if answer != "ok":
            raise self._damaged(answer)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """SQLite's and the file system's errors become one sentence that names the file."""
        try:
            yield
        except DamagedRow as error:
            raise self._damaged(str(error)) from None
        except (
            sqlite3.Error,
            UnicodeDecodeError,
        ) as error:  # the latter from damage in what SQLite quotes
            raise LedgerError(f"{self.path}: the ledger cannot be used ({error})") from error
        except OSError as error:
            raise LedgerError(
                f"{self.path}: the ledger cannot be used ({error.strerror or error})"
            ) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and nobody else writes meanwhile."""
        with self._guarded():
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._refuse_another_file()
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _counting(self) -> Iterator[sqlite3.Connection]:
        """A transaction after which the file itself holds what was written, not SQLite's log beside
        it alone: a copy of the file, made after a crash, does not forget.
        """
        with self._transaction() as connection:
            yield connection
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _insert(self, table: str, row: dict[str, Any], sealed: tuple[str, ...]) -> int:
        row = {**row, "seal": seal([row[name] for name in sealed])}
        names, places = ", ".join(row), ", ".join(f":{column}" for column in row)
        return int(
            self._connection.execute(
                f"INSERT INTO {table} ({names}) VALUES ({places})", row
            ).lastrowid
            or 0
        )

    def _damaged(self, what: str) -> LedgerError:
        return LedgerError(
            f"{self.path}: the ledger is damaged ({what}); put it aside and start another release"
        )
