"""The ledger: every attempt at a release, written down before its first sample (docs/guarantees.md,
Section 5).

A *release* fixes ``kappa`` and the base of its budgets with its first attempt; attempt ``i`` may
then be wrong with probability ``kappa base 2^-i``, so all of them together with less than ``kappa
base``, whatever ``tau`` they use. By default all attempts at the same ``(epsilon, delta)`` are one
release and the base is that delta. A named release takes any claims that are at
least its floor, and the floor is the base.

A crash, Ctrl-C or kill counts, for the row is there already. Numbers are given out under SQLite's
write lock, so that no two processes have the same one. The one output of a release is counted in
the same way, before its mechanism starts, and stays counted (Section 5.6).
"""

from __future__ import annotations

import json
import math
import sqlite3
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from dp_accounting import NeighboringRelation

from evr import validate
from evr.certification.ledger_file import LedgerFile
from evr.certification.owners import this_process
from evr.certification.rows import (
    SEALED_ATTEMPT,
    SEALED_OUTPUT,
    SEALED_RELEASE,
    Attempt,
    DamagedRow,
    ReleaseRow,
    attempt_of,
    checked_attempt,
    checked_output,
    parsed,
    release_of,
    seal,
)
from evr.certification.text_rules import NAME_IN_WORDS, checked_name
from evr.errors import AlreadyReleasedError, LedgerError, NearbyReleaseWarning
from evr.verification import Claim, Terms
from evr.verification.settings import Settings

DEFAULT_PATH = Path(".evr") / "ledger.sqlite"
_ADD_OR_REMOVE = NeighboringRelation.ADD_OR_REMOVE_ONE
_ALIKE = 1e-5  # relative: numbers that agree so far are one number, rounded twice


def now() -> str:
    """The time, for a row."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def release_key(
    epsilon: float,
    claim: float,
    name: str | None,
    relation: NeighboringRelation = _ADD_OR_REMOVE,
) -> str:
    """What attempts of one release have in common."""
    if name is not None:
        return f"name {name}"
    key = f"epsilon {(epsilon + 0.0).hex()} claim {(claim + 0.0).hex()}"  # -0.0 is 0.0
    return key if relation is _ADD_OR_REMOVE else f"{key} {relation.name}"


def _numbers(key: str) -> tuple[float, float]:
    """Epsilon and claim of the key of a release without a name."""
    _, epsilon, _, claim = key.split(" ")[:4]
    return float.fromhex(epsilon), float.fromhex(claim)


class Ledger(LedgerFile):
    """A file of attempts, shared by any number of processes.

    Parameters
    ----------
    path
        ``.evr/ledger.sqlite`` in the working directory by default; its folder is made where
        missing.

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
        super().__init__(
            Path(DEFAULT_PATH) if path is None else validate.path(ledger=path), create=create
        )

    @classmethod
    def of(cls, ledger: Ledger | str | Path | None) -> Ledger:
        """The ledger given, or one at that path."""
        return ledger if isinstance(ledger, Ledger) else cls(ledger)

    def terms(
        self,
        claim: Claim,
        *,
        name: str | None = None,
        floor: float | None = None,
        relation: NeighboringRelation = _ADD_OR_REMOVE,
    ) -> Terms:
        """The terms that the next attempt would have; nothing is written."""
        with self._guarded():
            return self._terms(claim, name, floor, relation)[1]

    def upcoming(
        self,
        claim: Claim,
        *,
        name: str | None = None,
        floor: float | None = None,
        relation: NeighboringRelation = _ADD_OR_REMOVE,
    ) -> tuple[Terms, int]:
        """The terms and the number that the next attempt would have; nothing is written."""
        with self._guarded():
            _, terms, release_id = self._terms(claim, name, floor, relation)
            return terms, 1 if release_id is None else self._next_number(release_id)

    def _next_number(self, release_id: int) -> int:
        """One more than all attempts before it; refused where one of them is missing."""
        rows = self._connection.execute(
            "SELECT * FROM attempts WHERE release_id = ? ORDER BY number", (release_id,)
        ).fetchall()
        held, ever = self._connection.execute(
            "SELECT (SELECT count(*) FROM attempts), "
            "(SELECT max(seq) FROM sqlite_sequence WHERE name = 'attempts')"
        ).fetchone()
        numbers = [checked_attempt(row)["number"] for row in rows]
        if numbers != list(range(1, len(rows) + 1)) or held != (ever or 0):
            raise DamagedRow("an attempt that was written is not there")
        return len(rows) + 1

    def _terms(
        self, claim: Claim, name: str | None, floor: float | None, relation: NeighboringRelation
    ) -> tuple[str, Terms, int | None]:
        """Key, terms and, if there is one, the row of the release that a claim belongs to."""
        key = release_key(claim.epsilon, claim.delta, _name(name), relation)
        if floor is not None:
            if name is None:
                raise LedgerError(f"floor={floor!r} belongs to a named release: give it a name")
            floor = validate.half_open_probability(floor=floor)
        row = self._connection.execute("SELECT * FROM releases WHERE key = ?", (key,)).fetchone()
        if row is None:
            terms = Terms(claim.kappa, claim.delta if floor is None else floor)
        else:
            terms = release_of(row).terms
            self._refuse_other_relation(int(row["id"]), name, relation)
            if floor is not None and floor != terms.base:
                raise LedgerError(
                    f"floor={floor!r}, but the first attempt at release {name!r} fixed "
                    f"{terms.base!r}"
                )
        if claim.delta < terms.base:
            raise LedgerError(
                f"the claim {claim.delta!r} is below {terms.base!r}, the floor of release "
                f"{name!r}: claim a greater delta, or start another release"
            )
        return key, terms, None if row is None else int(row["id"])

    def _refuse_other_relation(
        self, release_id: int, name: str | None, relation: NeighboringRelation
    ) -> None:
        """All attempts of a release speak of the same neighbours (docs/guarantees_relations.md,
        Section R1).
        """
        row = self._connection.execute(
            "SELECT * FROM attempts WHERE release_id = ? ORDER BY number", (release_id,)
        ).fetchone()
        if row is not None and (first := attempt_of(row).relation) is not relation:
            raise LedgerError(
                f"release {name!r} was begun under {first.name}, and this is under "
                f"{relation.name}: a release has one relation of neighbours; give the new one a "
                "name of its own"
            )

    def begin(
        self,
        claim: Claim,
        settings: Settings,
        *,
        relation: NeighboringRelation = _ADD_OR_REMOVE,
        entropy: int,
        entropy_is_fresh: bool,
        event: Any,
        event_digest: str,
        options: dict[str, Any],
        software: dict[str, str],
        name: str | None = None,
        floor: float | None = None,
        for_output: bool = False,
    ) -> Attempt:
        """Write an attempt down and give it its number and budget; on return it is on the disk."""
        with self._counting() as connection:
            key, terms, release_id = self._terms(claim, name, floor, relation)
            if release_id is None:
                if name is None:
                    self._warn_of_twins(claim, relation)
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
            number = self._next_number(release_id)
            log_budget = Claim(claim.epsilon, claim.delta, claim.tau, terms).log_budget(number)
            row = {
                "release_id": release_id,
                "number": number,
                "entropy": f"{entropy:x}",
                "entropy_is_fresh": int(entropy_is_fresh),
                "epsilon": claim.epsilon.hex(),
                "delta": claim.delta.hex(),
                "tau": claim.tau.hex(),
                "log_budget": log_budget.hex(),
                "method": settings.method,
                "proposal": settings.proposal,
                "options": json.dumps(
                    {
                        "max_samples": settings.max_samples,
                        "offset": settings.offset,
                        "device": settings.device,
                        "neighboring_relation": relation.name,
                        **options,
                    }
                ),
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
                    f"entropy {entropy:#x} was used before in this release: an attempt wants fresh "
                    "samples, so give another seed, or none"
                ) from None
            found = connection.execute(
                "SELECT * FROM attempts WHERE id = ?", (attempt_id,)
            ).fetchone()
            return attempt_of(found)

    def _warn_of_twins(self, claim: Claim, relation: NeighboringRelation) -> None:
        """Warn where a release that is about to be made differs from an older
        one by rounding only.
        """
        for row in self._connection.execute("SELECT * FROM releases WHERE name IS NULL").fetchall():
            release = release_of(row, self._output(row["id"]))
            epsilon, value = _numbers(release.key)
            if release.key != release_key(epsilon, value, None, relation):
                continue  # other neighbours: another release in any case
            if math.isclose(epsilon, claim.epsilon, rel_tol=_ALIKE) and math.isclose(
                value, claim.delta, rel_tol=_ALIKE
            ):
                out = "let out its output" if release.output else "let nothing out yet"
                warnings.warn(
                    f"a new release: ({claim.epsilon!r}, {claim.delta!r}) differs from "
                    f"({epsilon!r}, {value!r}) of {release.created} by rounding only, which {out}. "
                    "Their attempts and outputs are counted apart. If they are meant to be one "
                    "release, claim exactly the older numbers",
                    NearbyReleaseWarning,
                    stacklevel=2,
                )

    def finish(
        self,
        attempt: Attempt,
        state: str,
        *,
        samples: int | None = None,
        message: str | None = None,
    ) -> None:
        """Write down how an attempt ended. Snapshots stay only where it can be continued."""
        with self._transaction() as connection:
            changed = connection.execute(
                "UPDATE attempts SET state = ?, samples = ?, message = ?, finished = ?, seen = ? "
                "WHERE id = ? AND owner = ?",
                (state, samples, message, now(), now(), attempt.id, attempt.owner),
            )
            self._still_ours(attempt, changed)
            if state != "interrupted":
                connection.execute("DELETE FROM checkpoints WHERE attempt_id = ?", (attempt.id,))

    @staticmethod
    def _still_ours(attempt: Attempt, changed: sqlite3.Cursor) -> None:
        if changed.rowcount != 1:
            raise LedgerError(
                f"attempt {attempt.number} of this release was taken over by another process"
            )

    def save(self, attempt: Attempt, direction: str, snapshot: dict[str, Any]) -> None:
        """Keep the latest snapshot of one direction."""
        text = json.dumps(snapshot)
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO checkpoints (attempt_id, direction, snapshot, seal) VALUES (?, ?, ?, "
                "?) ON CONFLICT (attempt_id, direction) DO UPDATE SET snapshot = "
                "excluded.snapshot, seal = excluded.seal",
                (attempt.id, direction, text, seal([attempt.id, direction, text])),
            )
            self._still_ours(
                attempt,
                connection.execute(
                    "UPDATE attempts SET seen = ? WHERE id = ? AND owner = ?",
                    (now(), attempt.id, attempt.owner),
                ),
            )

    def snapshots(self, attempt: Attempt) -> dict[str, Any]:
        """The latest snapshots, by direction."""
        with self._guarded():
            rows = self._connection.execute(
                "SELECT direction, snapshot, seal FROM checkpoints WHERE attempt_id = ?",
                (attempt.id,),
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
                "UPDATE attempts SET state = 'running', owner = ?, seen = ?, finished = NULL, "
                "message = NULL WHERE id = ? AND state = ? AND owner = ?",
                (this_process(), now(), attempt.id, attempt.state, attempt.owner),
            )
            self._still_ours(attempt, changed)
            found = connection.execute(
                "SELECT * FROM attempts WHERE id = ?", (attempt.id,)
            ).fetchone()
            return attempt_of(found)

    def refuse_second_output(
        self,
        claim: Claim,
        *,
        name: str | None = None,
        floor: float | None = None,
        relation: NeighboringRelation = _ADD_OR_REMOVE,
    ) -> None:
        """Raise if the release that a claim belongs to has let out its one output."""
        with self._guarded():
            release_id = self._terms(claim, name, floor, relation)[2]
            if release_id is not None:
                self._refuse_second_output(release_id)

    def _output(self, release_id: int) -> sqlite3.Row | None:
        """The row of a release's output, if that is counted."""
        row = self._connection.execute(
            "SELECT * FROM outputs WHERE release_id = ?", (release_id,)
        ).fetchone()
        return None if row is None else checked_output(row)

    def _refuse_second_output(self, release_id: int) -> None:
        output = self._output(release_id)
        if output is None:
            return
        (name,) = self._connection.execute(
            "SELECT name FROM releases WHERE id = ?", (release_id,)
        ).fetchone()
        what = (
            f"release {name!r}" if name is not None else "this release (the same epsilon and claim)"
        )
        if output["ending"] == "released":
            raise AlreadyReleasedError(
                f"{what} let out its one output at {output['ended']}: another output costs privacy "
                "again; if that is meant, give the new release a name of its own"
            )
        ran = (
            f"ran its mechanism, which raised at {output['ended']}"
            if output["ending"] == "raised"
            else f"let its mechanism run at {output['opened']} in process "
            f"{output['owner'].split(' ')[1]} on {output['owner'].split(' ')[0]}, which runs "
            "still or ended without a word"
        )
        raise AlreadyReleasedError(
            f"{what} {ran}: what may have gone out is its one output; give a new release a name of "
            "its own (if nothing went out, it costs what this one would have)"
        )

    def count_output(self, attempt: Attempt) -> None:
        """Count the one output of a release, for good, before a mechanism runs; on return it is on
        the disk.

        Raises ``AlreadyReleasedError`` if it is counted already, by whomever and however that
        ended.
        """
        with self._counting() as connection:
            self._refuse_second_output(attempt.release_id)
            row = connection.execute(
                "SELECT * FROM attempts WHERE id = ?", (attempt.id,)
            ).fetchone()
            if (
                row is None
                or attempt_of(row).state != "accepted"
                or row["release_id"] != attempt.release_id
            ):
                raise LedgerError(
                    f"attempt {attempt.number} was not accepted: nothing may be let out on its "
                    "account"
                )
            self._insert(
                "outputs",
                {
                    "release_id": attempt.release_id,
                    "attempt_id": attempt.id,
                    "owner": this_process(),
                    "opened": now(),
                },
                SEALED_OUTPUT,
            )

    def end_output(self, attempt: Attempt, ending: Literal["released", "raised"]) -> None:
        """Write down how the mechanism ended, for the reader: its output is counted already, and
        stays so.
        """
        with self._transaction() as connection:
            connection.execute(
                "UPDATE outputs SET ending = ?, ended = ? WHERE release_id = ? AND attempt_id = ? "
                "AND owner = ? AND ending IS NULL",
                (ending, now(), attempt.release_id, attempt.id, this_process()),
            )

    def releases(self) -> list[ReleaseRow]:
        """Every release, oldest first."""
        with self._guarded():
            rows = self._connection.execute("SELECT * FROM releases ORDER BY id").fetchall()
            return [release_of(row, self._output(row["id"])) for row in rows]

    def attempts(self) -> list[Attempt]:
        """Every attempt, oldest first."""
        with self._guarded():
            return [
                attempt_of(row)
                for row in self._connection.execute("SELECT * FROM attempts ORDER BY id")
            ]

    def spent(self, release: ReleaseRow) -> float:
        """The sum of the budgets of a release's attempts: always below ``kappa`` times the base."""
        return math.fsum(a.budget for a in self.attempts() if a.release_id == release.id)


def _name(name: str | None) -> str | None:
    try:
        return checked_name(name)
    except ValueError:
        raise LedgerError(
            f"release={validate.shown(name)} is not a name: {NAME_IN_WORDS}"
        ) from None
