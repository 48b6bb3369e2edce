"""Where a ledger lies: in a SQLite file of one machine, or on a PostgreSQL server that several machines share.

Both hold the tables of ``tables.py``, and statements are written once, in SQLite's words. A transaction that writes
excludes every other one from its first statement on: SQLite by its write lock, PostgreSQL by one advisory lock of the
database. There is one lock, so nobody waits in a circle, and it goes with the process that held it.
"""

from __future__ import annotations

import abc
import contextlib
import importlib
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evr import validate
from evr.certification import tables
from evr.certification.tables import DamagedRow
from evr.errors import LedgerError

BUSY_SECONDS = 60.0
_LOCK = 0x45565231  # "EVR1"
_MOUNTS = Path("/proc/self/mounts")
_NETWORK = re.compile(  # file systems of which several hosts may have the same file open
    r"(fuse\.)?(nfs\d?|cifs|smb\w*|sshfs|afs|lustre|gpfs|beegfs\w*|panfs|orangefs|ceph(-fuse)?|gluster\w*"
    r"|s3fs|gcsfuse|rclone|juicefs|blobfuse\d?)"
)


class Database(abc.ABC):
    """The tables of a ledger, and transactions on them. ``name`` is what messages call it, ``address`` opens it again
    from any folder, and ``errors`` are what its driver and the system raise.
    """

    name: Path | str
    address: Path | str
    errors: tuple[type[Exception], ...]
    _connection: Any

    @abc.abstractmethod
    def _begin(self, *, writes: bool) -> Any:
        """A connection, inside a transaction."""

    @abc.abstractmethod
    def _tables(self, connection: Any) -> set[str]:
        """The names of the tables that are there."""

    def _create(self, connection: Any) -> None:
        for name, columns in tables.DECLARED.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.execute("INSERT INTO head VALUES (?, 0, '')", (tables.VERSION,))

    def damage(self) -> str | None:
        """What the driver finds broken."""
        return None

    def _is_found_again(self) -> bool:
        """Whether what is written will be there when it is opened again."""
        return True

    def close(self) -> None:
        self._connection.close()

    def _prepare(self, *, create: bool) -> None:
        """Make the tables of a new database; refuse what cannot be used."""
        with self.transaction() as connection:
            found = self._tables(connection)
            if not found:
                if not create:
                    raise self._missing()
                self._create(connection)
            elif not found >= tables.DECLARED.keys():
                raise self._unusable(
                    "its tables are those of another program, or of an older evr: keep the file for its record, and "
                    "start a new ledger for new releases"
                )
            head = connection.execute("SELECT version FROM head").fetchone()
            if head is not None and head["version"] != tables.VERSION:
                raise self._unusable(
                    f"schema version {head['version']}, and this evr uses {tables.VERSION}: keep the file for its "
                    "record, and start a new ledger for new releases"
                )

    @contextlib.contextmanager
    def transaction(self, *, writes: bool = True) -> Iterator[Any]:
        """All or nothing, and nobody else writes meanwhile. One that only reads sees one moment."""
        with self.guarded():
            connection = self._begin(writes=writes)
            try:
                yield connection
                if not self._is_found_again():
                    moved = "the ledger was moved, deleted or replaced while it was open"
                    raise LedgerError(f"{self.name}: {moved}: put it back, and begin again")
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(*self.errors):
                    connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """The driver's and the file system's errors become one sentence that names the ledger."""
        try:
            yield
        except DamagedRow as error:
            raise self.damaged(str(error)) from None
        except self.errors as error:  # PostgreSQL speaks in several lines
            words = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise LedgerError(f"{self.name}: the ledger cannot be used ({words})") from error

    def damaged(self, what: str) -> LedgerError:
        return LedgerError(f"{self.name}: the ledger is damaged ({what}); put it aside and start another release")

    def _unusable(self, reason: str) -> LedgerError:
        return LedgerError(f"{self.name}: not a ledger that can be used: {reason}")

    def _missing(self) -> LedgerError:
        return LedgerError(f"{self.name}: there is no ledger: the first attempt makes one; --ledger names another")


class SqliteFile(Database):
    """One file. What a transaction has written is on the disk when it ends, in this very file."""

    errors = (sqlite3.Error, OSError, UnicodeDecodeError)  # the last of damage that SQLite quotes

    def __init__(self, path: Path, *, create: bool) -> None:
        self.name, self.address = path, path.absolute()
        if not create and not path.exists():
            raise self._missing()
        with self.guarded():
            path.parent.mkdir(parents=True, exist_ok=True)
            if (kind := network_file_system(self.address)) is not None:
                raise LedgerError(
                    f"{path} lies on a network file system ({kind}), where SQLite's locks can fail: give --ledger a "
                    "file on a local disk, or, where several hosts share it, postgresql://HOST/DATABASE"
                )
            self._connection = sqlite3.connect(self.address, timeout=BUSY_SECONDS, isolation_level=None)
            try:
                self._connection.row_factory = sqlite3.Row
                self._connection.execute("PRAGMA synchronous = EXTRA")  # of the folder, too
                self._identity = self._at_its_place()
                self._prepare(create=True)
            except BaseException:
                self.close()
                raise

    def damage(self) -> str | None:
        with self.guarded():
            (answer,) = self._connection.execute("PRAGMA integrity_check").fetchone()
        return None if answer == "ok" else str(answer)

    def _begin(self, *, writes: bool) -> Any:
        self._connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        return self._connection

    def _tables(self, connection: sqlite3.Connection) -> set[str]:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _at_its_place(self) -> tuple[int, int]:
        """Which file lies at the path; refused if it has other names, which SQLite cannot guard."""
        found = os.stat(self.address)
        if found.st_nlink > 1:
            unsafe = f"the file has {found.st_nlink} hard links, which is unsafe with SQLite"
            raise LedgerError(f"{self.name}: {unsafe}: copy it and use only the copy")
        return found.st_dev, found.st_ino

    def _is_found_again(self) -> bool:
        """What is counted in a file that nobody will open again is not counted."""
        try:
            return self._at_its_place() == self._identity
        except FileNotFoundError:
            return False


class _Session:
    """A connection of psycopg that takes SQLite's marks for values."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Any = ()) -> Any:
        return self._connection.execute(statement.replace("?", "%s"), values)


class PostgresServer(Database):
    """The schema ``evr`` of a database. A connection that a restart of the server broke is made anew for the next
    transaction; one that broke inside a transaction is an error, and the server undoes what it had not committed.
    """

    def __init__(self, address: str, *, create: bool) -> None:
        self.name, self.address = without_password(address), address
        try:
            self._driver = importlib.import_module("psycopg")
            self._rows = importlib.import_module("psycopg.rows").dict_row
        except ImportError:
            raise LedgerError(
                f"{self.name}: a ledger on PostgreSQL needs psycopg: pip install 'evr-dp[postgres]'"
            ) from None
        self.errors = (self._driver.Error, OSError)
        with self.guarded():
            self._connection = self._connected()
            try:
                self._prepare(create=create)
            except BaseException:
                self.close()
                raise

    def _connected(self) -> Any:
        connection = self._driver.connect(self.address, autocommit=True, row_factory=self._rows, connect_timeout=10)
        connection.execute("SET search_path = evr")
        connection.execute("SET synchronous_commit = on")
        for limit in ("lock_timeout", "idle_in_transaction_session_timeout"):  # the latter: of a host that is gone
            connection.execute(f"SET {limit} = '{BUSY_SECONDS:.0f}s'")
        if connection.execute("SHOW fsync").fetchone()["fsync"] != "on":
            connection.close()
            raise self._unusable("fsync is off on the server, which may forget what was counted: turn it on")
        return connection

    def _begin(self, *, writes: bool) -> _Session:
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                if self._connection.closed:
                    self._connection = self._connected()
                session = _Session(self._connection)
                session.execute("BEGIN" if writes else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                if writes:
                    session.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
                return session
            except self._driver.OperationalError:  # nothing was begun
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _tables(self, connection: Any) -> set[str]:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'evr'").fetchall()
        return {row["tablename"] for row in rows}

    def _create(self, connection: Any) -> None:
        connection.execute("CREATE SCHEMA IF NOT EXISTS evr")
        super()._create(connection)


def without_password(address: str) -> str:
    """An address as it may be shown.

    >>> without_password("postgresql://ann:secret@host/evr")
    'postgresql://ann:***@host/evr'
    """
    return re.sub(r"((?<=//)[^/?@]*:|\bpassword=)[^@&]*", r"\1***", address)


def database_at(place: str | Path, *, create: bool) -> Database:
    if isinstance(place, str) and re.match(r"postgres(ql)?://", place):
        return PostgresServer(place, create=create)
    if isinstance(place, str) and "://" in place:
        raise LedgerError(f"{place}: a ledger is a file, or postgresql://USER@HOST/DATABASE")
    return SqliteFile(validate.path(ledger=place), create=create)


def network_file_system(path: Path) -> str | None:
    """The kind of the network file system that a file lies on; None where it lies on another, or nobody says."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    where, kinds = path.resolve().parent, {}
    for _, place, kind, *_ in (line.split(" ") for line in lines):
        mount = Path(re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), place))
        if where.is_relative_to(mount):
            kinds[len(mount.parts)] = kind  # the last mount at a place hides those before
    found = kinds[max(kinds)] if kinds else ""
    return found if _NETWORK.fullmatch(found) else None
