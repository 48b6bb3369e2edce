"""Where a ledger lies: in a SQLite file of one machine, or on a PostgreSQL server that several machines share.

Statements are written once, in SQLite's words. A transaction that writes excludes every other one from its first
statement on: by SQLite's write lock, or by one advisory lock of PostgreSQL. It goes with the process that held it.
"""

import abc
import contextlib
import importlib
import os
import re
import socket
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Self

import psutil

from evr._basics import validate
from evr.errors import LedgerError

VERSION = 10
_CLOCK_SECONDS = 2.0  # by which a clock that was set may move the moment at which a process started
_FORGOTTEN_SECONDS = 600.0  # after which a silent process on another machine is taken for dead
DECLARED = {  # as SQLite declares it; ``content`` is JSON
    "head": "version INTEGER NOT NULL, links INTEGER NOT NULL, seal TEXT NOT NULL",
    "entries": "link INTEGER PRIMARY KEY, kind TEXT NOT NULL, id INTEGER NOT NULL, parent INTEGER, key TEXT, "
    "content TEXT NOT NULL, seal TEXT NOT NULL",
    "signs_of_life": "attempt INTEGER PRIMARY KEY, seen TEXT NOT NULL",
}
_TABLES = [
    *(f"CREATE TABLE {name} ({columns})" for name, columns in DECLARED.items()),
    "CREATE INDEX entries_by_id ON entries (kind, id)",
    "CREATE INDEX entries_by_parent ON entries (kind, parent, id)",
    "CREATE UNIQUE INDEX entries_by_key ON entries (kind, parent, key)",
]
BUSY_SECONDS = 60.0
_LOCK = 0x45565231  # "EVR1"
_NETWORK = re.compile(  # file systems of which several hosts may have the same file open
    r"(fuse\.)?(nfs\d?|cifs|smb\w*|sshfs|afs|lustre|gpfs|beegfs\w*|panfs|orangefs|ceph(-fuse)?|gluster\w*"
    r"|s3fs|gcsfuse|rclone|juicefs|blobfuse\d?)"
)


class DamagedRow(ValueError):
    """A row that is not what was written."""


class Database(abc.ABC):
    """The tables of a ledger, and transactions on them. ``name`` is what messages call it, ``address`` opens it again
    from any folder, and ``errors`` are what its driver and the system raise.
    """

    name: Path | str
    address: Path | str
    errors: tuple[type[Exception], ...]
    _connection: Any = None
    _mark = "?"  # for a value in a statement
    _first: tuple[str, ...] = ()  # statements before the tables are made

    @abc.abstractmethod
    def _connect(self) -> None:
        """Set ``_connection``."""

    @abc.abstractmethod
    def _begin(self, *, writes: bool) -> None:
        """Begin a transaction."""

    @abc.abstractmethod
    def _tables(self) -> set[str]:
        """The names of the tables that are there."""

    def damage(self) -> str:
        """What the driver finds broken; empty if nothing."""
        return ""

    def _is_found_again(self) -> bool:
        """Whether what is written will be there when it is opened again."""
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def execute(self, statement: str, values: Any = ()) -> Any:
        return self._connection.execute(statement.replace("?", self._mark), values)

    def _open(self, *, create: bool) -> None:
        """Connect, and make the tables of a new database; refuse what cannot be used."""
        with self.guarded():
            try:
                self._connect()
                with self.transaction():
                    found = self._tables()
                    if not found and not create:
                        raise self._missing()
                    if not found:
                        for statement in (*self._first, *_TABLES):
                            self.execute(statement)
                        self.execute("INSERT INTO head VALUES (?, 0, '')", (VERSION,))
                    elif not found >= DECLARED.keys():
                        raise self._unusable("its tables are those of another program, or of an older evr")
                    head = self.execute("SELECT version FROM head").fetchone()
                    if head is not None and head["version"] != VERSION:
                        raise self._unusable(f"schema version {head['version']}, and this evr uses {VERSION}")
            except BaseException:
                self.close()
                raise

    def _unusable(self, reason: str) -> LedgerError:
        return self.error(f"not a ledger that can be used: {reason}: keep it for its record, and start a new ledger")

    @contextlib.contextmanager
    def transaction(self, *, writes: bool = True) -> Iterator[Self]:
        """All or nothing, and nobody else writes meanwhile. One that only reads sees one moment."""
        with self.guarded():
            try:
                self._begin(writes=writes)  # an interruption may come just after it
                yield self
                if not self._is_found_again():
                    raise self.error("the ledger was moved, deleted or replaced while it was open: put it back")
                self.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(*self.errors):
                    self.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """The driver's and the file system's errors become one sentence that names the ledger."""
        try:
            yield
        except DamagedRow as error:
            raise self.error(f"the ledger is damaged ({error}); put it aside and start another release") from None
        except self.errors as error:  # PostgreSQL speaks in several lines
            words = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise self.error(f"the ledger cannot be used ({words})") from error

    def error(self, reason: str) -> LedgerError:
        return LedgerError(f"{self.name}: {reason}")

    def _missing(self) -> LedgerError:
        return self.error("there is no ledger: the first attempt makes one; --ledger names another")


class SqliteFile(Database):
    """One file. What a transaction has written is on the disk when it ends, in this very file."""

    address: Path
    errors = (sqlite3.Error, OSError, UnicodeDecodeError)  # the last of damage that SQLite quotes

    def __init__(self, path: Path, *, create: bool) -> None:
        self.name, self.address = path, path.absolute()
        if not create and not path.exists():
            raise self._missing()
        self._open(create=True)

    def _connect(self) -> None:
        self.address.parent.mkdir(parents=True, exist_ok=True)
        if (kind := network_file_system(self.address)) is not None:
            lies = f"{self.name} lies on a network file system ({kind}), where SQLite's locks can fail"
            raise LedgerError(f"{lies}: give --ledger a file on a local disk, or postgresql://HOST/DATABASE")
        self._connection = sqlite3.connect(self.address, timeout=BUSY_SECONDS, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self.execute("PRAGMA synchronous = EXTRA")  # of the folder, too
        self._identity = self._at_its_place()

    def damage(self) -> str:
        (answer,) = self.execute("PRAGMA integrity_check").fetchone()
        return "" if answer == "ok" else str(answer)

    def _begin(self, *, writes: bool) -> None:
        self.execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    def _tables(self) -> set[str]:
        return {name for (name,) in self.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def _at_its_place(self) -> tuple[int, int]:
        """Which file lies at the path; refused if it has other names, which SQLite cannot guard."""
        found = os.stat(self.address)
        if found.st_nlink > 1:
            many = f"{found.st_nlink} hard links"
            raise self.error(f"the file has {many}, which is unsafe with SQLite: copy it and use only the copy")
        return found.st_dev, found.st_ino

    def _is_found_again(self) -> bool:
        """What is counted in a file that nobody will open again is not counted."""
        with contextlib.suppress(FileNotFoundError):
            return self._at_its_place() == self._identity
        return False


class PostgresServer(Database):
    """The schema ``evr`` of a database. A connection that a restart of the server broke is made anew for the next
    transaction; one that broke inside a transaction is an error, and the server undoes what it had not committed.
    """

    _mark = "%s"
    _first = ("CREATE SCHEMA IF NOT EXISTS evr",)

    def __init__(self, address: str, *, create: bool) -> None:
        self.name, self.address = without_password(address), address
        try:
            self._driver = importlib.import_module("psycopg")
            self._rows = importlib.import_module("psycopg.rows").dict_row
        except ImportError:
            raise self.error("a ledger on PostgreSQL needs psycopg: pip install 'evr-dp[postgres]'") from None
        self.errors = (self._driver.Error, OSError)
        self._open(create=create)

    def _connect(self) -> None:
        how = {"autocommit": True, "row_factory": self._rows, "connect_timeout": 10}
        self._connection = self._driver.connect(self.address, **how)
        self.execute("SET search_path = evr")
        self.execute("SET synchronous_commit = on")
        for limit in ("lock_timeout", "idle_in_transaction_session_timeout"):  # the latter: of a host that is gone
            self.execute(f"SET {limit} = '{BUSY_SECONDS:.0f}s'")
        if self.execute("SHOW fsync").fetchone()["fsync"] != "on":
            self.close()
            raise self.error("fsync is off on the server, which may forget what was counted: turn it on")

    def _begin(self, *, writes: bool) -> None:
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                if self._connection.closed:
                    self._connect()
                self.execute("BEGIN" if writes else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                if writes:
                    self.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
                return
            except self._driver.OperationalError:  # nothing was begun
                self.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def _tables(self) -> set[str]:
        rows = self.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'evr'").fetchall()
        return {row["tablename"] for row in rows}


def without_password(address: str) -> str:
    """An address as it may be shown.

    >>> without_password("postgresql://ann:secret@host/evr")
    'postgresql://ann:***@host/evr'
    >>> without_password("postgresql://ann:se@cret@host/evr?sslpassword=more@secret&x=1")
    'postgresql://ann:***@host/evr?sslpassword=***&x=1'
    """
    named = re.sub(r"(password=)[^&]*", r"\1***", address)
    return re.sub(r"((?<=//)[^/?@:]*:).*(?=@)", r"\1***", named)


def database_at(place: str | Path, *, create: bool) -> Database:
    if isinstance(place, str) and re.match(r"postgres(ql)?://", place):
        return PostgresServer(place, create=create)
    if isinstance(place, str) and "://" in place:
        raise LedgerError(f"{place}: a ledger is a file, or postgresql://USER@HOST/DATABASE")
    return SqliteFile(validate.path(ledger=place), create=create)


def network_file_system(path: Path) -> str | None:
    """The kind of the network file system that a file lies on; None where it lies on another, or nobody says."""
    where, kinds = path.resolve().parent, {0: ""}
    for mount in psutil.disk_partitions(all=True):
        if where.is_relative_to(mount.mountpoint):
            kinds[len(Path(mount.mountpoint).parts)] = mount.fstype  # the last mount at a place hides those before
    found = kinds[max(kinds)]
    return found if _NETWORK.fullmatch(found) else None


def this_process() -> str:
    """This process: machine, number, and when it started, since numbers are used again."""
    return _named(os.getpid())


@cache
def _named(process: int) -> str:
    return f"{socket.gethostname()} {process} {psutil.Process(process).create_time():.2f}"


def is_alive(owner: str, seen: str) -> bool:
    """Whether the process that wrote a row still runs; on another machine, whether it was seen lately."""
    try:
        host, process, started = owner.split(" ")
        if host == socket.gethostname():
            return abs(psutil.Process(int(process)).create_time() - float(started)) < _CLOCK_SECONDS
        silent = datetime.now(UTC) - datetime.fromisoformat(seen)
        return silent.total_seconds() < _FORGOTTEN_SECONDS
    except psutil.AccessDenied:
        return True
    except (psutil.NoSuchProcess, ValueError, TypeError, OverflowError, AttributeError):
        return False
