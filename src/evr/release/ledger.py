"""The ledger: every attempt at a release, written down before its first sample (docs/guarantees.md, Section 5).

A *release* fixes ``kappa`` and the base of its budgets with its first attempt; attempt ``i`` may then be wrong with probability
``kappa base 2^-i``, so all of them together with less than ``kappa base``, whatever ``tau`` they use. By default all attempts at
the same ``(epsilon, claim)`` are one release and the base is the claim. A named release takes any claims that are at least its
floor, and the floor is the base.

A crash, Ctrl-C or kill counts, for the row is there already. Numbers are given out under SQLite's write lock, so that no
two processes have the same one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evr import validate
from evr.errors import AlreadyReleasedError, LedgerError
from evr.release import schema
from evr.verify import Claim, Terms

DEFAULT_PATH = Path(".evr") / "ledger.sqlite"
BUSY_SECONDS = 60.0
_FORGOTTEN_SECONDS = 600.0  # after which a silent process on another machine is taken for dead
_SEALED_RELEASE = ("key", "name", "kappa", "base", "created")
_SEALED_ATTEMPT = (
    "release_id", "number", "entropy", "entropy_is_fresh", "epsilon", "delta", "tau", "claim", "log_budget", "method",
    "proposal", "options", "event", "event_digest", "software", "started",
)  # fmt: skip


@dataclass(frozen=True)
class Release:
    """One row of the table of releases.

    Attributes
    ----------
    key
        What makes attempts belong together.
    terms
        ``kappa`` and the base of the budgets.
    output
        ``"released"`` once an output is out, ``"running"`` while a mechanism runs behind the gate, else None.
    """

    id: int
    key: str
    name: str | None
    terms: Terms
    created: str
    output: str | None
    output_attempt: int | None


@dataclass(frozen=True)
class Attempt:
    """One row of the table of attempts: all that it takes to continue it."""

    id: int
    release_id: int
    number: int
    entropy: int
    entropy_is_fresh: bool
    epsilon: float
    delta: float
    tau: float
    claim: float
    log_budget: float
    method: str
    proposal: str
    options: dict[str, Any]
    event: Any
    event_digest: str
    software: dict[str, str]
    state: str
    owner: str
    started: str
    seen: str
    finished: str | None
    samples: int | None
    message: str | None

    @property
    def budget(self) -> float:
        """The false-positive probability that it may have."""
        return math.exp(self.log_budget)

    @property
    def is_over(self) -> bool:
        """Whether it has a verdict or failed."""
        return self.state in ("accepted", "rejected", "failed")


def now() -> str:
    """The time, for a row."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def release_key(epsilon: float, claim: float, name: str | None) -> str:
    """What attempts of one release have in common."""
    return f"name {name}" if name is not None else f"epsilon {epsilon.hex()} claim {claim.hex()}"


class Ledger:
    """A file of attempts, shared by any number of processes.

    Parameters
    ----------
    path
        ``.evr/ledger.sqlite`` in the working directory by default; its folder is made where missing.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger(Path(folder.name) / "ledger.sqlite") as ledger:
    ...     len(ledger.attempts())
    0
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path | None = None, *, create: bool = True) -> None:
        self.path = Path(DEFAULT_PATH if path is None else path)
        if not create and not self.path.exists():
            raise LedgerError(f"{self.path}: there is no ledger")
        with self._guarded():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        connection = self._connection
        connection.row_factory = sqlite3.Row
        patience = time.monotonic() + BUSY_SECONDS
        while True:  # two processes that switch a new file to WAL at once do not wait for each other by themselves
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > patience:
                    raise
                time.sleep(0.02)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        with self._transaction():
            reason = schema.migrate(connection)
            if reason is not None:
                raise LedgerError(f"{self.path}: not a ledger that can be used: {reason}")

    @classmethod
    def of(cls, ledger: Ledger | str | Path | None) -> Ledger:
        """The ledger given, or one at that path."""
        return ledger if isinstance(ledger, Ledger) else cls(ledger)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """SQLite's and the file system's errors become one sentence that names the file."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter from damage in what SQLite quotes
            raise LedgerError(f"{self.path}: the ledger cannot be used ({error})") from error
        except OSError as error:
            raise LedgerError(f"{self.path}: the ledger cannot be used ({error.strerror or error})") from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and nobody else writes meanwhile."""
        with self._guarded():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def terms(self, claim: Claim, *, name: str | None = None, floor: float | None = None) -> Terms:
        """The terms that the next attempt would have; nothing is written."""
        with self._guarded():
            return self._terms(claim, name, floor)[1]

    def _terms(self, claim: Claim, name: str | None, floor: float | None) -> tuple[str, Terms, int | None]:
        """Key, terms and, if there is one, the row of the release that a claim belongs to."""
        key = release_key(claim.epsilon, claim.value, _name(name))
        if floor is not None:
            if name is None:
                raise LedgerError(f"floor={floor!r} belongs to a named release: give it a name")
            floor = validate.half_open_probability(floor=floor)
        row = self._connection.execute("SELECT * FROM releases WHERE key = ?", (key,)).fetchone()
        if row is None:
            terms = Terms(claim.kappa, claim.value if floor is None else floor)
        else:
            terms = self._release(row).terms
            if floor is not None and floor != terms.base:
                raise LedgerError(f"floor={floor!r}, but the first attempt at release {name!r} fixed {terms.base!r}")
        if claim.value < terms.base:
            raise LedgerError(
                f"the claim {claim.value!r} is below {terms.base!r}, the floor of release {name!r}: claim more, or start "
                "another release"
            )
        return key, terms, None if row is None else int(row["id"])

    def begin(
        self,
        claim: Claim,
        *,
        entropy: int,
        entropy_is_fresh: bool,
        event: Any,
        event_digest: str,
        method: str,
        proposal: str,
        options: dict[str, Any],
        software: dict[str, str],
        name: str | None = None,
        floor: float | None = None,
        for_output: bool = False,
    ) -> Attempt:
        """Write an attempt down and give it its number and budget; on return it is on the disk."""
        with self._transaction() as connection:
            key, terms, release_id = self._terms(claim, name, floor)
            if release_id is None:
                fixed = {
                    "key": key,
                    "name": _name(name),
                    "kappa": terms.kappa.hex(),
                    "base": terms.base.hex(),
                    "created": now(),
                }
                release_id = self._insert("releases", fixed, _SEALED_RELEASE)
            if for_output:
                self._refuse_second_output(release_id)
            (last,) = connection.execute(
                "SELECT max(number) FROM attempts WHERE release_id = ?", (release_id,)
            ).fetchone()
            number = 1 + int(last or 0)
            log_budget = Claim(claim.epsilon, claim.delta, claim.tau, terms).log_budget(number)
            row = {
                "release_id": release_id,
                "number": number,
                "entropy": f"{entropy:x}",
                "entropy_is_fresh": int(entropy_is_fresh),
                "epsilon": claim.epsilon.hex(),
                "delta": claim.delta.hex(),
                "tau": claim.tau.hex(),
                "claim": claim.value.hex(),
                "log_budget": log_budget.hex(),
                "method": method,
                "proposal": proposal,
                "options": json.dumps(options),
                "event": json.dumps(event),
                "event_digest": event_digest,
                "software": json.dumps(software),
                "state": "running",
                "owner": _owner(),
                "started": now(),
                "seen": now(),
            }
            try:
                attempt_id = self._insert("attempts", row, _SEALED_ATTEMPT)
            except sqlite3.IntegrityError as error:
                if "entropy" not in str(error):
                    raise
                raise LedgerError(
                    f"entropy {entropy:#x} was used before in this release: an attempt wants fresh samples, so give another "
                    "seed, or none"
                ) from None
            found = connection.execute("SELECT * FROM attempts WHERE id = ?", (attempt_id,)).fetchone()
        return self._attempt(found)

    def _insert(self, table: str, row: dict[str, Any], sealed: tuple[str, ...]) -> int:
        row = {**row, "seal": _seal([row[name] for name in sealed])}
        names, places = ", ".join(row), ", ".join(f":{column}" for column in row)
        return int(self._connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", row).lastrowid or 0)

    def finish(self, attempt: Attempt, state: str, *, samples: int | None = None, message: str | None = None) -> None:
        """Write down how an attempt ended. Snapshots stay only where it can be continued."""
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE attempts SET state = ?, samples = ?, message = ?, finished = ?, seen = ? WHERE id = ? AND owner = ?",
                (state, samples, message, now(), now(), attempt.id, attempt.owner),
            )
            if changed.rowcount != 1:
                raise LedgerError(f"attempt {attempt.number} of this release was taken over by another process")
            if state != "interrupted":
                connection.execute("DELETE FROM checkpoints WHERE attempt_id = ?", (attempt.id,))

    def save(self, attempt: Attempt, direction: str, snapshot: dict[str, Any]) -> None:
        """Keep the latest snapshot of one direction."""
        text = json.dumps(snapshot)
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO checkpoints (attempt_id, direction, snapshot, seal) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (attempt_id, direction) DO UPDATE SET snapshot = excluded.snapshot, seal = excluded.seal",
                (attempt.id, direction, text, _seal([attempt.id, direction, text])),
            )
            connection.execute("UPDATE attempts SET seen = ? WHERE id = ?", (now(), attempt.id))

    def snapshots(self, attempt: Attempt) -> dict[str, Any]:
        """The latest snapshots, by direction."""
        with self._guarded():
            rows = self._connection.execute(
                "SELECT direction, snapshot, seal FROM checkpoints WHERE attempt_id = ?", (attempt.id,)
            ).fetchall()
        for row in rows:
            if row["seal"] != _seal([attempt.id, row["direction"], row["snapshot"]]):
                raise self._damaged(f"a snapshot of attempt {attempt.id} is not what was saved")
        return {row["direction"]: self._parsed(row["snapshot"], dict) for row in rows}

    def interrupted(self) -> list[Attempt]:
        """Attempts that were interrupted, or whose process is gone, latest first."""
        return [a for a in reversed(self.attempts()) if a.state == "interrupted" or _is_orphan(a)]

    def take_over(self, attempt: Attempt) -> Attempt:
        """Make an interrupted attempt this process's own; only one of several gets it."""
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE attempts SET state = 'running', owner = ?, seen = ?, finished = NULL, message = NULL "
                "WHERE id = ? AND state = ? AND owner = ?",
                (_owner(), now(), attempt.id, attempt.state, attempt.owner),
            )
            if changed.rowcount != 1:
                raise LedgerError(f"attempt {attempt.number} of this release was taken over by another process")
            found = connection.execute("SELECT * FROM attempts WHERE id = ?", (attempt.id,)).fetchone()
        return self._attempt(found)

    def refuse_second_output(self, claim: Claim, *, name: str | None = None, floor: float | None = None) -> None:
        """Raise if the release that a claim belongs to has let out its one output."""
        with self._guarded():
            release_id = self._terms(claim, name, floor)[2]
            if release_id is not None:
                self._refuse_second_output(release_id)

    def _refuse_second_output(self, release_id: int) -> None:
        row = self._connection.execute("SELECT * FROM releases WHERE id = ?", (release_id,)).fetchone()
        what = f"release {row['name']!r}" if row["name"] is not None else "this release (the same epsilon and claim)"
        if row["output"] == "released":
            raise AlreadyReleasedError(
                f"{what} let out its one output at {row['output_time']}: another output costs privacy again; "
                "if that is meant, give the new release a name of its own"
            )
        if row["output"] == "running" and _is_alive(row["output_owner"], row["output_time"]):
            raise AlreadyReleasedError(
                f"{what}: another process runs its mechanism now, and one output is all there is"
            )

    def open_gate(self, attempt: Attempt) -> None:
        """Reserve the one output of a release for this process, before its mechanism runs."""
        with self._transaction() as connection:
            self._refuse_second_output(attempt.release_id)
            connection.execute(
                "UPDATE releases SET output = 'running', output_owner = ?, output_attempt = ?, output_time = ? WHERE id = ?",
                (_owner(), attempt.number, now(), attempt.release_id),
            )

    def close_gate(self, attempt: Attempt, *, released: bool) -> None:
        """Write down whether the mechanism's output went out."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE releases SET output = ?, output_time = ? WHERE id = ? AND output_owner = ?",
                ("released" if released else None, now(), attempt.release_id, _owner()),
            )

    def releases(self) -> list[Release]:
        """Every release, oldest first."""
        with self._guarded():
            rows = self._connection.execute("SELECT * FROM releases ORDER BY id").fetchall()
        return [self._release(row) for row in rows]

    def attempts(self) -> list[Attempt]:
        """Every attempt, oldest first."""
        with self._guarded():
            rows = self._connection.execute("SELECT * FROM attempts ORDER BY id").fetchall()
        return [self._attempt(row) for row in rows]

    def spent(self, release: Release) -> float:
        """The sum of the budgets of a release's attempts: always below ``kappa`` times the base."""
        return math.fsum(a.budget for a in self.attempts() if a.release_id == release.id)

    def check(self) -> None:
        """Raise if the file is damaged."""
        with self._guarded():
            (answer,) = self._connection.execute("PRAGMA integrity_check").fetchone()
        if answer != "ok":
            raise self._damaged(answer)

    def _damaged(self, what: str) -> LedgerError:
        return LedgerError(f"{self.path}: the ledger is damaged ({what}); put it aside and start another release")

    def _release(self, row: sqlite3.Row) -> Release:
        if row["seal"] != _seal([row[name] for name in _SEALED_RELEASE]):
            raise self._damaged(f"release {row['id']} is not what was written")
        try:
            terms = Terms(float.fromhex(row["kappa"]), float.fromhex(row["base"]))
        except (ValueError, TypeError, OverflowError) as error:
            raise self._damaged(f"release {row['id']}: {error}") from None
        return Release(row["id"], row["key"], row["name"], terms, row["created"], row["output"], row["output_attempt"])

    def _attempt(self, row: sqlite3.Row) -> Attempt:
        values = dict(row)
        if values.pop("seal") != _seal([row[name] for name in _SEALED_ATTEMPT]):
            raise self._damaged(f"attempt {row['id']} is not what was written")
        try:
            for name in ("epsilon", "delta", "tau", "claim", "log_budget"):
                values[name] = float.fromhex(values[name])
            values["entropy"] = int(values["entropy"], 16)
        except (ValueError, TypeError, OverflowError) as error:
            raise self._damaged(f"attempt {row['id']}: {error}") from None
        for name in ("options", "event", "software"):
            values[name] = self._parsed(values[name], dict)
        values["entropy_is_fresh"] = bool(values["entropy_is_fresh"])
        return Attempt(**values)

    def _parsed(self, text: str, kind: type) -> Any:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, kind):
            raise self._damaged(f"{validate.shown(text)} is not what it holds")
        return value


def _name(name: str | None) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
        raise LedgerError(f"release={validate.shown(name)} is not a name: 1 to 200 printable characters are wanted")
    return name


def _seal(values: list[Any]) -> str:
    return hashlib.sha256(json.dumps(values, default=repr).encode()).hexdigest()


def _started(process: int) -> str:
    """When a process started, in the kernel's ticks; empty where the system does not say."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def _owner() -> str:
    """This process: machine, number, and when it started, for numbers are used again."""
    return f"{socket.gethostname()} {os.getpid()} {_started(os.getpid())}"


def _is_alive(owner: str, seen: str) -> bool:
    """Whether the process that wrote a row still runs; on another machine, whether it was heard of lately."""
    try:
        host, process, started = owner.split(" ")
        if host == socket.gethostname() and os.name == "posix":
            os.kill(int(process), 0)
            return _started(int(process)) == started
        return (datetime.now(UTC) - datetime.fromisoformat(seen)).total_seconds() < _FORGOTTEN_SECONDS
    except PermissionError:
        return True
    except (ProcessLookupError, ValueError, TypeError, OverflowError, AttributeError):
        return False


def _is_orphan(attempt: Attempt) -> bool:
    return attempt.state == "running" and not _is_alive(attempt.owner, attempt.seen)
