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
import json
import math
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evr import validate
from evr.certification import schema
from evr.certification.owners import is_alive, this_process
from evr.certification.rows import (
    SEALED_ATTEMPT,
    SEALED_RELEASE,
    Attempt,
    DamagedRow,
    Release,
    attempt_of,
    parsed,
    release_of,
    seal,
)
from evr.errors import AlreadyReleasedError, LedgerError
from evr.verification import Claim, Terms

DEFAULT_PATH = Path(".evr") / "ledger.sqlite"
BUSY_SECONDS = 60.0


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
        except DamagedRow as error:
            raise self._damaged(str(error)) from None
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
            terms = release_of(row).terms
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
                release_id = self._insert("releases", fixed, SEALED_RELEASE)
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
                "owner": this_process(),
                "started": now(),
                "seen": now(),
            }
            try:
                attempt_id = self._insert("attempts", row, SEALED_ATTEMPT)
            except sqlite3.IntegrityError as error:
                if "entropy" not in str(error):
                    raise
                raise LedgerError(
                    f"entropy {entropy:#x} was used before in this release: an attempt wants fresh samples, so give another "
                    "seed, or none"
                ) from None
            found = connection.execute("SELECT * FROM attempts WHERE id = ?", (attempt_id,)).fetchone()
            return attempt_of(found)

    def _insert(self, table: str, row: dict[str, Any], sealed: tuple[str, ...]) -> int:
        row = {**row, "seal": seal([row[name] for name in sealed])}
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
                (attempt.id, direction, text, seal([attempt.id, direction, text])),
            )
            connection.execute("UPDATE attempts SET seen = ? WHERE id = ?", (now(), attempt.id))

    def snapshots(self, attempt: Attempt) -> dict[str, Any]:
        """The latest snapshots, by direction."""
        with self._guarded():
            rows = self._connection.execute(
                "SELECT direction, snapshot, seal FROM checkpoints WHERE attempt_id = ?", (attempt.id,)
            ).fetchall()
            for row in rows:
                if row["seal"] != seal([attempt.id, row["direction"], row["snapshot"]]):
                    raise DamagedRow(f"a snapshot of attempt {attempt.id} is not what was saved")
            return {row["direction"]: parsed(row["snapshot"]) for row in rows}

    def interrupted(self) -> list[Attempt]:
        """Attempts that were interrupted, or whose process is gone, latest first."""
        return [a for a in reversed(self.attempts()) if a.state == "interrupted" or a.is_orphan]

    def take_over(self, attempt: Attempt) -> Attempt:
        """Make an interrupted attempt this process's own; only one of several gets it."""
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE attempts SET state = 'running', owner = ?, seen = ?, finished = NULL, message = NULL "
                "WHERE id = ? AND state = ? AND owner = ?",
                (this_process(), now(), attempt.id, attempt.state, attempt.owner),
            )
            if changed.rowcount != 1:
                raise LedgerError(f"attempt {attempt.number} of this release was taken over by another process")
            found = connection.execute("SELECT * FROM attempts WHERE id = ?", (attempt.id,)).fetchone()
            return attempt_of(found)

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
        if row["output"] == "running" and is_alive(row["output_owner"], row["output_time"]):
            raise AlreadyReleasedError(
                f"{what}: another process runs its mechanism now, and one output is all there is"
            )

    def open_gate(self, attempt: Attempt) -> None:
        """Reserve the one output of a release for this process, before its mechanism runs."""
        with self._transaction() as connection:
            self._refuse_second_output(attempt.release_id)
            connection.execute(
                "UPDATE releases SET output = 'running', output_owner = ?, output_attempt = ?, output_time = ? WHERE id = ?",
                (this_process(), attempt.number, now(), attempt.release_id),
            )

    def close_gate(self, attempt: Attempt, *, released: bool) -> None:
        """Write down whether the mechanism's output went out."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE releases SET output = ?, output_time = ? WHERE id = ? AND output_owner = ?",
                ("released" if released else None, now(), attempt.release_id, this_process()),
            )

    def releases(self) -> list[Release]:
        """Every release, oldest first."""
        with self._guarded():
            return [release_of(row) for row in self._connection.execute("SELECT * FROM releases ORDER BY id")]

    def attempts(self) -> list[Attempt]:
        """Every attempt, oldest first."""
        with self._guarded():
            return [attempt_of(row) for row in self._connection.execute("SELECT * FROM attempts ORDER BY id")]

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


def _name(name: str | None) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip() or len(name) > 200 or not name.isprintable():
        raise LedgerError(f"release={validate.shown(name)} is not a name: 1 to 200 printable characters are wanted")
    return name
