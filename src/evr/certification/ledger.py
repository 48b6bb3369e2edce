"""The ledger: every attempt at a release, written down before its first sample (docs/guarantees.md, Section 5).

All attempts at the same ``(epsilon, delta)`` are one release; a named release takes any claims that are at least its
first one. An interrupted attempt counts, because its entry is there already. Whoever writes has read the whole journal
under the database's write lock, so no two processes have the same number. The one output of a release is counted in the
same way, before its mechanism starts (Section 5.6).
"""

import contextlib
import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dp_accounting import NeighboringRelation

from evr.certification.databases import DamagedRow, database_at, is_alive, this_process
from evr.certification.event_json import named
from evr.errors import AlreadyReleasedError, LedgerError
from evr.verification.settings import Claim, Settings, Terms

DEFAULT_PATH = Path(".evr") / "ledger.sqlite"
_UNWRITTEN = 0  # the id of a release that is not in the journal yet


class Wanted(NamedTuple):
    """The release that an attempt is for: that of the ``name``, or of the claim, relation and unit where there is none.
    ``for_output`` refuses a release that has had its one output.
    """

    claim: Claim
    name: str | None
    relation: NeighboringRelation
    unit: str
    for_output: bool


def now() -> str:
    """The time, for a row."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class ReleaseRow:
    """A release, and its one output."""

    id: int
    key: str  # what its attempts have in common
    name: str | None
    terms: Terms  # kappa and the base of the budgets
    created: str
    output: str | None = None  # once it is counted: "open" (running or crashed), "released" (returned) or "raised"
    attempt_id: int | None = None  # the attempt that allows the output
    owner: str = ""  # the process that runs the mechanism
    opened: str | None = None
    ended: str | None = None


@dataclass(frozen=True)
class Attempt:
    """An attempt: everything needed to continue it."""

    id: int
    release_id: int
    number: int
    entropy: int
    entropy_is_fresh: bool
    epsilon: float
    delta: float
    tau: float
    log_budget: float
    settings: Settings
    relation: NeighboringRelation
    unit: str
    options: dict[str, Any]
    event: Any
    event_digest: str
    software: dict[str, Any]
    started: str
    state: str
    owner: str
    seen: str
    finished: str | None = None
    samples: int | None = None
    message: str | None = None
    written: str | None = None  # the certificate, if it went elsewhere than was planned

    @property
    def budget(self) -> float:
        """The false-positive probability that it may have: none for an exact proof."""
        return 0.0 if self.settings.method in ("strict", "both") else math.exp(self.log_budget)

    @property
    def certificate(self) -> str | None:
        """Where its certificate was written, or is to be; None if it leaves none."""
        return self.written or self.options.get("path")


@dataclass(frozen=True)
class BudgetRow:
    """A budget: what all that is spent from it may cost together."""

    id: int
    name: str
    kind: str
    epsilon: float
    delta: float
    relation: NeighboringRelation
    unit: str
    created: str


@dataclass(frozen=True)
class Spending:
    """What was spent (``state="spent"``), or a sampled proof that it may be (``"tried"``): it counts before its first
    sample. ``number`` counts each of the two from 1; ``event`` is JSON; ``method`` proved that the budget is kept.
    """

    id: int
    budget_id: int
    attempt_id: int | None
    state: str
    number: int
    event: Any
    method: str
    spender: str
    moment: str


_ROWS: dict[str, Any] = {"releases": ReleaseRow, "attempts": Attempt, "budgets": BudgetRow, "spendings": Spending}
_READ: dict[str, Callable[[Any], Any]] = {  # columns that JSON does not hold as they are
    "terms": lambda fields: Terms(**fields),
    "settings": lambda fields: Settings(**fields),
    "relation": lambda name: NeighboringRelation[name],
}


class Journal:
    """Everything that a ledger counts, at one moment: rows by their id, oldest first. ``write`` adds to it, inside the
    transaction that it was read in.

    A journal only grows: an entry makes a row of a table, or changes some of its columns. A chain of seals with a head
    of its own shows changed and missing entries, not forgery. When an attempt was last seen alive stands beside it.
    """

    def __init__(self, connection: Any) -> None:
        self._connection, self._links, self._seal = connection, 0, ""
        self.releases: dict[int, ReleaseRow] = {}
        self.attempts: dict[int, Attempt] = {}
        self.budgets: dict[int, BudgetRow] = {}
        self.spendings: dict[int, Spending] = {}
        for row in connection.execute("SELECT link, kind, content, seal FROM entries ORDER BY link").fetchall():
            if row["kind"] not in _ROWS or not isinstance(row["content"], str):
                raise DamagedRow(f"entry {row['link']} is not one of a ledger's")
            self._seal_next(row["kind"], row["content"])
            if (row["link"], row["seal"]) != (self._links, self._seal):
                raise DamagedRow(f"entry {self._links} is missing, or not what was written ({row['kind']})")
            self._enter(row["kind"], json.loads(row["content"]))
        head = connection.execute("SELECT links, seal FROM head").fetchone()
        if head is None or (head["links"], head["seal"]) != (self._links, self._seal):
            raise DamagedRow("an entry that was written is missing, or the head of the chain")
        for row in connection.execute("SELECT attempt, seen FROM signs_of_life").fetchall():
            if (attempt := self.attempts.get(row["attempt"])) is None:
                raise DamagedRow(f"attempt {row['attempt']} was seen alive, and is not in the journal")
            self.attempts[attempt.id] = replace(attempt, seen=max(attempt.seen, row["seen"]))

    def of(self, release: ReleaseRow) -> list[Attempt]:
        """The attempts at a release."""
        return [one for one in self.attempts.values() if one.release_id == release.id]

    def write(self, kind: str, /, **columns: Any) -> Any:
        """Make a row of a table, or change the one with this ``id``; the row."""
        columns = {"id": 1 + len(getattr(self, kind)), **columns}
        content = json.dumps(columns, default=lambda one: one.name if isinstance(one, Enum) else asdict(one))
        self._seal_next(kind, content)
        entry = (self._links, kind, content, self._seal)
        self._connection.execute("INSERT INTO entries (link, kind, content, seal) VALUES (?, ?, ?, ?)", entry)
        self._connection.execute("UPDATE head SET links = ?, seal = ?", (self._links, self._seal))
        return self._enter(kind, json.loads(content))

    def _seal_next(self, kind: str, content: str) -> None:
        """The seal of an entry is a digest of it and of the seal before it."""
        self._links += 1
        self._seal = hashlib.sha256(json.dumps((self._seal, kind, content)).encode()).hexdigest()

    def _enter(self, kind: str, columns: dict[str, Any]) -> Any:
        table: dict[int, Any] = getattr(self, kind)
        try:
            columns |= {name: read(columns[name]) for name, read in _READ.items() if name in columns}
            known = table.get(columns["id"])
            row = table[columns["id"]] = _ROWS[kind](**columns) if known is None else replace(known, **columns)
        except (TypeError, KeyError, ValueError) as error:  # a column, a relation or a method that is not known
            raise DamagedRow(f"entry {self._links} of {kind} is not as this evr writes it: {error}") from None
        return row


class Ledger(contextlib.AbstractContextManager["Ledger"]):
    """Attempts, shared by any number of processes: a SQLite file of one machine, by default ``.evr/ledger.sqlite`` in
    the working directory; or the schema ``evr`` of ``"postgresql://USER@HOST/DATABASE"``, for several machines. What a
    method has written is on the disk when it returns.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Ledger(f"{folder}/ledger.sqlite") as ledger:
    ...     len(ledger.attempts())
    0
    """

    def __init__(self, path: str | Path | None = None, *, create: bool = True) -> None:
        self._database = database_at(DEFAULT_PATH if path is None else path, create=create)
        self.path, self.address = self._database.name, self._database.address
        self.transaction = self._database.transaction

    def close(self) -> None:
        """Let the database go."""
        self._database.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self) -> None:
        """Raise if the ledger is damaged."""
        with self.transaction(writes=False) as database:
            if found := database.damage():
                raise DamagedRow(found)
            Journal(database)

    def contents(self) -> Journal:
        """Everything that is counted, at one moment."""
        with self.transaction(writes=False) as connection:
            return Journal(connection)

    def releases(self) -> list[ReleaseRow]:
        """Every release, oldest first."""
        return list(self.contents().releases.values())

    def attempts(self) -> list[Attempt]:
        """Every attempt, oldest first."""
        return list(self.contents().attempts.values())

    def interrupted(self) -> list[Attempt]:
        """Attempts that were interrupted, or whose process is gone, latest first."""
        open_ones = [a for a in reversed(self.attempts()) if a.state in ("interrupted", "running")]
        return [a for a in open_ones if a.state == "interrupted" or not is_alive(a.owner, a.seen)]

    def upcoming(self, wanted: Wanted) -> tuple[Terms, int]:
        """The terms and the number that the next attempt would have."""
        held = self.contents()
        release = _release_of(held, wanted)
        return release.terms, len(held.of(release)) + 1

    @contextlib.contextmanager
    def counting(self) -> Iterator[Journal]:
        """Everything that is counted, in a transaction that may add to it: nobody else writes meanwhile."""
        with self.transaction() as connection:
            yield Journal(connection)

    def begin(self, wanted: Wanted, *, entropy: int, **columns: Any) -> Attempt:
        """Write an attempt down and give it its number and budget; ``columns`` are what it takes to continue it."""
        with self.counting() as held:
            release, claim = _release_of(held, wanted), wanted.claim
            earlier = held.of(release)
            number, terms = len(earlier) + 1, release.terms
            if any(one.entropy == entropy for one in earlier):
                raise LedgerError(f"entropy {entropy:#x} was used before in this release: give another seed, or none")
            if release.id == _UNWRITTEN:
                fields = {"key": release.key, "name": wanted.name, "terms": terms, "created": release.created}
                release = held.write("releases", **fields)
            log_budget = Claim(claim.epsilon, claim.delta, claim.tau, terms).log_budget(number)
            columns |= {"release_id": release.id, "number": number, "entropy": entropy, "log_budget": log_budget}
            columns |= {"epsilon": claim.epsilon, "delta": claim.delta, "tau": claim.tau}
            columns |= {"relation": wanted.relation, "unit": wanted.unit, "started": now(), **_running()}
            attempt: Attempt = held.write("attempts", **columns)
            return attempt

    def finish(self, attempt: Attempt, state: str, **known: Any) -> None:
        """Write down how an attempt ended (``samples``, ``message``, where the certificate was ``written``)."""
        with self.counting() as held:
            _check_owner(held, attempt)
            held.write("attempts", id=attempt.id, state=state, finished=now(), **known)

    def keep(self, attempt: Attempt) -> None:
        """Say that an attempt is still being made: one that is silent for long is taken for interrupted."""
        with self.transaction() as connection:
            _check_owner(Journal(connection), attempt)
            replacing = "ON CONFLICT (attempt) DO UPDATE SET seen = excluded.seen"
            connection.execute(f"INSERT INTO signs_of_life VALUES (?, ?) {replacing}", (attempt.id, now()))

    def take_over(self, attempt: Attempt) -> Attempt:
        """Make an interrupted attempt this process's own; only one of several gets it."""
        with self.counting() as held:
            _check_owner(held, attempt, attempt.state)
            taken: Attempt = held.write("attempts", id=attempt.id, finished=None, message=None, **_running())
            return taken

    def count_output(self, attempt: Attempt) -> None:
        """Count the one output of a release, for good, before a mechanism runs; a second one is refused."""
        with self.counting() as held:
            release = held.releases[attempt.release_id]
            _refuse_second_output(release)
            if held.attempts[attempt.id].state != "accepted":
                raise LedgerError(f"attempt {attempt.number} was not accepted: it allows no output")
            mine = {"attempt_id": attempt.id, "owner": this_process(), "opened": now()}
            held.write("releases", id=release.id, output="open", **mine)

    def end_output(self, attempt: Attempt, ending: Literal["released", "raised"]) -> None:
        """Write down how the mechanism ended, for the reader: its output is counted already, and stays so."""
        with self.counting() as held:
            release = held.releases.get(attempt.release_id)
            mine = ("open", attempt.id, this_process())
            if release is not None and (release.output, release.attempt_id, release.owner) == mine:
                held.write("releases", id=release.id, output=ending, ended=now())


@contextlib.contextmanager
def opened(ledger: Ledger | str | Path | None) -> Iterator[Ledger]:
    """A ledger to work with; closed at the end if it was opened here."""
    one = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    try:
        yield one
    finally:
        if one is not ledger:
            one.close()


def _running() -> dict[str, str]:
    """The columns of an attempt that this process makes."""
    return {"state": "running", "owner": this_process(), "seen": now()}


def _release_of(held: Journal, wanted: Wanted) -> ReleaseRow:
    """The release that is wanted; if there is none yet, the one that it would begin."""
    claim, name, relation, unit, for_output = wanted
    pair = f"epsilon {(claim.epsilon + 0.0).hex()} claim {(claim.delta + 0.0).hex()}"  # -0.0 is 0.0
    key = f"{pair} {relation.name} {unit}" if name is None else f"name {named(release=name)}"
    release = next((one for one in held.releases.values() if one.key == key), None)
    if release is None:
        return ReleaseRow(_UNWRITTEN, key, name, Terms(claim.kappa, claim.delta), now())
    # docs/guarantees_relations.md, Section R1
    if ((first := held.of(release)[0]).relation, first.unit) != (relation, unit):
        begun = f"release {name!r} was begun per {first.unit} under {first.relation.name}"
        raise LedgerError(f"{begun}, and this is per {unit} under {relation.name}: give the new release another name")
    if claim.delta < (least := release.terms.base):
        fixed = f"delta={claim.delta!r} is below {least!r}, which its first attempt fixed as the least of {name!r}"
        raise LedgerError(f"{fixed}: claim a greater delta, or start another release")
    if for_output:
        _refuse_second_output(release)
    return release


def _refuse_second_output(release: ReleaseRow) -> None:
    if release.output is None:
        return
    what = "this release (the same epsilon and delta)" if release.name is None else f"release {release.name!r}"
    host, process = release.owner.split(" ")[:2]
    crashed = f"at {release.opened} in process {process} on {host}, which is still running or has crashed"
    happened = {
        "released": f"let out its one output at {release.ended}",
        "raised": f"ran its mechanism, which raised at {release.ended}: its one output may have gone out",
        "open": f"ran its mechanism {crashed}: its one output may have gone out",
    }[release.output]
    raise AlreadyReleasedError(f"{what} {happened}. Another costs privacy again: give the new release another name")


def _check_owner(held: Journal, attempt: Attempt, *state: str) -> None:
    """Raise if an attempt is no longer its owner's, or no longer in that state."""
    current = held.attempts[attempt.id]
    if current.owner != attempt.owner or current.state not in (state or (current.state,)):
        raise LedgerError(f"attempt {attempt.number} was taken over by another process")
