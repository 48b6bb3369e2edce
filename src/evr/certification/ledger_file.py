"""The file of the ledger: a SQLite database, opened, guarded and written in whole transactions."""

from __future__ import annotations

import contextlib
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
    it ends.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        if not create and not path.exists():
            raise LedgerError(f"{path}: there is no ledger")
        with self._guarded():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
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
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        with self._transaction():
            reason = schema.prepare(connection)
            if reason is not None:
                raise LedgerError(f"{self.path}: not a ledger that can be used: {reason}")

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
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

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
