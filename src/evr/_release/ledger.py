"""The ledger: every attempt at a release, written down before its first sample (docs/guarantees.md, Section 5).

All attempts at the same ``(epsilon, delta)`` are one release; a named release takes any claims that are at least its
first one. An interrupted attempt counts, because its entry is there already. Whoever writes has looked up what it rests
on under the database's write lock, so no two processes have the same number. The one output of a release is counted in
the same way, before its mechanism starts (Section 5.6).
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dp_accounting import NeighboringRelation

from evr._certificate.event_json import named
from evr._kernel.events.relations import name_of
from evr._kernel.verdict.settings import Claim, Terms
from evr._release.databases import DamagedRow, database_at, is_alive, this_process
from evr._release.journal import AttemptRow, Journal, ReleaseRow
from evr.errors import AlreadyReleasedError, LedgerError

DEFAULT_PATH = Path(".evr") / "ledger.sqlite"
_UNWRITTEN = 0  # the id of a release that is not in the journal yet
_EXACT = 2.0**-20  # kappa of a release that a strict proof begins: others of it are not refused for a hair's breadth


class Wanted(NamedTuple):
    """The release that an attempt is for: that of the ``name``, or of the claim, relation and unit where there is none.
    ``for_output`` refuses a release that has had its one output; ``is_strict`` says that no sample is drawn.
    """

    claim: Claim
    name: str | None
    relation: NeighboringRelation
    unit: str
    for_output: bool
    is_strict: bool = False


def now() -> str:
    """The time, for a row."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


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

    def check(self) -> Journal:
        """Everything that is counted; raises if the ledger is damaged, its file or server included."""
        with self.transaction(writes=False) as database:
            if found := database.damage():
                raise DamagedRow(found)
            return Journal(database).whole()

    def contents(self) -> Journal:
        """Everything that is counted, at one moment; all of it is verified."""
        with self.counting(writes=False) as held:
            return held.whole()

    def releases(self) -> list[ReleaseRow]:
        """Every release, oldest first."""
        return list(self.contents().releases.values())

    def attempts(self) -> list[AttemptRow]:
        """Every attempt, oldest first."""
        return list(self.contents().attempts.values())

    def interrupted(self) -> list[AttemptRow]:
        """Attempts that were interrupted, or whose process is gone, latest first."""
        open_ones = [a for a in reversed(self.attempts()) if a.state in ("interrupted", "running")]
        return [a for a in open_ones if a.state == "interrupted" or not is_alive(a.owner, a.seen)]

    def upcoming(self, wanted: Wanted) -> tuple[Terms, int]:
        """The terms and the number that the next attempt would have."""
        with self.counting(writes=False) as held:
            release, number = _release_of(held, wanted)
            return release.terms, number

    @contextlib.contextmanager
    def counting(self, *, writes: bool = True) -> Iterator[Journal]:
        """The journal, in a transaction. One that may add to it keeps everybody else from writing meanwhile."""
        with self.transaction(writes=writes) as connection:
            yield Journal(connection)

    def begin(self, wanted: Wanted, *, entropy: int, **columns: Any) -> AttemptRow:
        """Write an attempt down and give it its number and allowance; ``columns`` are what it takes to continue it."""
        with self.counting() as held:
            (release, number), claim = _release_of(held, wanted), wanted.claim
            if held.of("attempts", release.id, entropy) is not None:
                raise LedgerError(f"entropy {entropy:#x} was used before in this release: give another seed, or none")
            if release.id == _UNWRITTEN:
                fields = ("key", "name", "terms", "relation", "unit", "created")
                release = held.write("releases", **{name: getattr(release, name) for name in fields})
            log_allowance = replace(claim, terms=release.terms).log_budget(number)
            columns |= {"release_id": release.id, "number": number, "entropy": entropy, "log_allowance": log_allowance}
            columns |= {"epsilon": claim.epsilon, "delta": claim.delta, "tau": claim.tau}
            columns |= {"relation": wanted.relation, "unit": wanted.unit, "started": now(), **_running()}
            attempt: AttemptRow = held.write("attempts", **columns)
            return attempt

    def finish(self, attempt: AttemptRow, state: str, **known: Any) -> None:
        """Write down how an attempt ended (``samples``, ``message``, where the certificate was ``written``)."""
        with self.counting() as held:
            _check_owner(held, attempt)
            held.write("attempts", id=attempt.id, state=state, finished=now(), **known)

    def keep(self, attempt: AttemptRow) -> None:
        """Say that an attempt is still being made: one that is silent for long is taken for interrupted."""
        with self.transaction() as connection:
            _check_owner(Journal(connection), attempt)
            replacing = "ON CONFLICT (attempt) DO UPDATE SET seen = excluded.seen"
            connection.execute(f"INSERT INTO signs_of_life VALUES (?, ?) {replacing}", (attempt.id, now()))

    def take_over(self, attempt: AttemptRow) -> AttemptRow:
        """Make an interrupted attempt this process's own; only one of several gets it."""
        with self.counting() as held:
            _check_owner(held, attempt, attempt.state)
            taken: AttemptRow = held.write("attempts", id=attempt.id, finished=None, message=None, **_running())
            return taken

    def count_output(self, attempt: AttemptRow) -> None:
        """Count the one output of a release, for good, before a mechanism runs; refuse a second, and any damage."""
        with self.counting() as held:
            held.whole()
            release = held.row("releases", attempt.release_id)
            _refuse_second_output(release)
            if held.row("attempts", attempt.id).state != "accepted":
                raise LedgerError(f"attempt {attempt.number} was not accepted: it allows no output")
            if any((one.attempt_id, one.state) == (attempt.id, "refunded") for one in held.spendings.values()):
                raise LedgerError(f"what attempt {attempt.number} spent was taken back: start another attempt")
            mine = {"attempt_id": attempt.id, "owner": this_process(), "opened": now()}
            held.write("releases", id=release.id, output="open", **mine)

    def end_output(self, attempt: AttemptRow, ending: Literal["released", "raised"]) -> None:
        """Write down how the mechanism ended, for the reader: its output is counted already, and stays so."""
        with self.counting() as held:
            release = held.row("releases", attempt.release_id)
            if (release.output, release.attempt_id, release.owner) == ("open", attempt.id, this_process()):
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


def _release_of(held: Journal, wanted: Wanted) -> tuple[ReleaseRow, int]:
    """The release that is wanted, or the one that it would begin, and the number of its next attempt."""
    claim, name, relation, unit, for_output, is_strict = wanted
    pair = f"epsilon {(claim.epsilon + 0.0).hex()} claim {(claim.delta + 0.0).hex()}"  # -0.0 is 0.0
    key = f"{pair} {relation.name} {unit}" if name is None else f"name {named(name=name)}"
    release: ReleaseRow | None = held.of("releases", 0, key)
    if release is None:
        terms = Terms(_EXACT if is_strict else claim.kappa, claim.delta)
        fixed = {"terms": terms, "relation": relation, "unit": unit, "created": now()}
        return ReleaseRow(id=_UNWRITTEN, key=key, name=name, **fixed), 1
    if (release.relation, release.unit) != (relation, unit):  # docs/guarantees_relations.md, Section R1
        begun = f"release {name!r} was begun per {release.unit} under {name_of(release.relation)}"
        raise LedgerError(
            f"{begun}, and this is per {unit} under {name_of(relation)}: give the new release another name"
        )
    if claim.delta < (least := release.terms.base):
        below = f"delta={claim.delta!r} is below {least!r}, which its first attempt fixed as the least of {name!r}"
        raise LedgerError(f"{below}: claim a greater delta, or start another release")
    if for_output:
        _refuse_second_output(release)
    if (latest := held.of("attempts", release.id)) is None:
        raise DamagedRow(f"release {release.id} has no attempt")
    return release, 1 + latest.number


def _refuse_second_output(release: ReleaseRow) -> None:
    if release.output is None:
        return
    what = "this release (the same epsilon and delta)" if release.name is None else f"release {release.name!r}"
    host, process = str(release.owner).split(" ")[:2]
    crashed = f"at {release.opened} in process {process} on {host}, which is still running or has crashed"
    happened = {
        "released": f"let out its one output at {release.ended}",
        "raised": f"ran its mechanism, which raised at {release.ended}: its one output may have gone out",
        "open": f"ran its mechanism {crashed}: its one output may have gone out",
    }[release.output]
    raise AlreadyReleasedError(f"{what} {happened}. Another costs privacy again: give the new release another name")


def _check_owner(held: Journal, attempt: AttemptRow, *state: str) -> None:
    """Raise if an attempt is no longer its owner's, or no longer in that state."""
    current = held.row("attempts", attempt.id)
    if current.owner != attempt.owner or current.state not in (state or (current.state,)):
        raise LedgerError(f"attempt {attempt.number} was taken over by another process")
