"""The journal of a ledger: rows, and the entries that make and change them (docs/guarantees.md, Section 5.7)."""

import hashlib
import json
import math
from dataclasses import asdict
from enum import Enum
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from dp_accounting import NeighboringRelation
from pydantic import AfterValidator, BeforeValidator, Field

from evr._certificate.sections import Count, DescriptionSection, Name, Positive, Section, Time, UnitWord, validated
from evr._kernel.verdict.settings import Settings, Terms
from evr._release.databases import DamagedRow

_Relation = Annotated[
    NeighboringRelation, BeforeValidator(lambda one: NeighboringRelation[one] if isinstance(one, str) else one)
]
_Owner = Annotated[str, Field(pattern=r"^\S+( \S+)+$")]  # a machine, a process there, and when it started


class ReleaseRow(Section):
    """A release, and its one output."""

    id: Count
    key: str  # what its attempts have in common
    name: Name | None
    # kappa and the base of the budgets
    terms: Annotated[Terms, BeforeValidator(lambda one: Terms(**one) if isinstance(one, dict) else one)]
    relation: _Relation
    unit: UnitWord
    created: Time
    output: Literal["open", "released", "raised"] | None = None  # once counted: it runs or crashed, returned, or raised
    attempt_id: Positive | None = None  # the attempt that allows the output
    owner: _Owner | None = None  # the process that runs the mechanism
    opened: Time | None = None
    ended: Time | None = None


class _Options(Section):
    """What else it takes to continue an attempt."""

    device: str | None
    path: str | None
    proof: str | None
    record: dict[str, Any] | None
    description: DescriptionSection
    replaces: bool  # whether there was a file at the path
    budget: dict[Literal["name", "by"], Name] | None


class AttemptRow(Section):
    """An attempt: everything needed to continue it."""

    id: Positive
    release_id: Positive
    number: Positive
    entropy: Annotated[int, Field(ge=0)]
    entropy_is_fresh: bool
    epsilon: float
    delta: float
    tau: float
    log_allowance: float
    settings: Annotated[Settings, BeforeValidator(lambda fields: Settings(**fields))]
    relation: _Relation
    unit: UnitWord
    options: Annotated[dict[str, Any], AfterValidator(lambda fields: _Options.model_validate(fields) and fields)]
    event: dict[str, Any]
    event_digest: str
    software: dict[str, Any]
    started: Time
    state: Literal["running", "accepted", "rejected", "interrupted", "failed"]
    owner: _Owner
    seen: Time
    finished: Time | None = None
    samples: int | None = None
    message: str | None = None
    written: str | None = None  # the certificate, if it went elsewhere than was planned

    @property
    def allowance(self) -> float:
        """The false-positive probability that it may have: none for an exact proof."""
        return 0.0 if self.settings.method in ("strict", "both") else math.exp(self.log_allowance)

    @property
    def description(self) -> DescriptionSection:
        """The training as whoever ran it describes it."""
        return DescriptionSection(**self.options["description"])

    @property
    def certificate(self) -> str | None:
        """Where its certificate was written, or is to be; None if it leaves none."""
        return self.written or self.options.get("path")


class BudgetRow(Section):
    """A budget: what all that is spent from it may cost together."""

    id: Positive
    name: Name
    kind: Literal["planned", "adaptive"]
    epsilon: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    relation: _Relation
    unit: UnitWord
    created: Time
    closed: Time | None = None  # when; nothing is spent or taken back afterwards
    closer: Name | None = None


class Spending(Section):
    """What was spent (``state="spent"``), maybe taken back since (``"refunded"``), or a sampled proof that it may be
    (``"tried"``): it counts before its first sample. ``number`` counts spendings and proofs from 1, each for
    themselves; ``event`` is JSON; ``method`` proved that the budget is kept.
    """

    id: Positive
    budget_id: Positive
    attempt_id: Positive | None
    state: Literal["spent", "refunded", "tried"]
    number: Positive
    event: dict[str, Any]
    method: Literal["strict", "sequential", "renyi"]
    spender: Name
    moment: Time
    refunder: Name | None = None
    refunded: Time | None = None  # when
    why: str | None = None


_ROWS: dict[str, type[Section]] = {
    "releases": ReleaseRow,
    "attempts": AttemptRow,
    "budgets": BudgetRow,
    "spendings": Spending,
}
_PARENTS = {"attempts": "release_id", "spendings": "budget_id"}  # the column that says what a row belongs to
_KEYS = {"releases": "key", "attempts": "entropy", "budgets": "name"}  # the column by which a row is found
_SEALED = ("kind", "id", "parent", "key", "content")
_EXTENT = """(SELECT count(*) FROM entries) AS number, (SELECT coalesce(min(link), 1) FROM entries) AS first,
    (SELECT coalesce(max(link), 0) FROM entries) AS last,
    coalesce((SELECT entries.seal FROM entries WHERE link = links), '') AS last_seal"""  # apart, the ends are lookups


class Journal:
    """What a ledger counts, inside one transaction: rows by their id, oldest first. ``write`` adds to it.

    A journal only grows: an entry makes a row of a table, or changes some of its columns. A chain of seals with a head
    of its own shows changed and missing entries, not forgery. A reader knows that no entry is missing, looks up the
    rows that it needs, and checks the seals of their entries; ``whole`` reads and checks everything.
    """

    releases: dict[int, ReleaseRow]  # of a journal that was read whole, as are attempts
    attempts: dict[int, AttemptRow]
    budgets = cached_property[dict[int, BudgetRow]](lambda self: self._rows("kind = 'budgets'")["budgets"])
    spendings = cached_property[dict[int, Spending]](lambda self: self._rows("kind = 'spendings'")["spendings"])

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        head = connection.execute(f"SELECT links, seal, {_EXTENT} FROM head").fetchone()
        if head is None or [head[name] for name in ("number", "first", "last")] != [head["links"], 1, head["links"]]:
            raise DamagedRow("an entry that was written is missing, or the head of the chain")
        if head["seal"] != head["last_seal"]:
            raise DamagedRow("the last entry is not what was written, or the head of the chain")
        self._links, self._seal = head["links"], head["seal"]

    @property
    def head(self) -> tuple[int, str]:
        """How many entries there are, and the seal of the last: who keeps them notices any that goes missing."""
        return self._links, self._seal

    def whole(self) -> Self:
        """The journal, with every row, and when each attempt was last seen alive; every seal is checked."""
        vars(self).update(self._rows("link > 0"))
        releases = {one.release_id for one in self.attempts.values()}
        budgets = {one.budget_id for one in self.spendings.values()}
        if not (releases <= self.releases.keys() and budgets <= self.budgets.keys()):
            raise DamagedRow("an attempt or a spending belongs to nothing that is in the journal")
        for row in self._connection.execute("SELECT attempt, seen FROM signs_of_life").fetchall():
            if (attempt := self.attempts.get(row["attempt"])) is None:
                raise DamagedRow(f"attempt {row['attempt']} was seen alive, and is not in the journal")
            self.attempts[attempt.id] = attempt.model_copy(update={"seen": max(attempt.seen, row["seen"])})
        return self

    def row(self, kind: str, number: int) -> Any:
        """The row with this id."""
        table = self._rows("kind = ? AND id = ?", kind, number)[kind]
        if number not in table:
            raise DamagedRow(f"row {number} of {kind} is missing")
        return table[number]

    def of(self, kind: str, parent: int, *key: object) -> Any:
        """The latest row of a parent, or the one with this key; None if there is none."""
        which = "AND key = ?" if key else "ORDER BY id DESC LIMIT 1"
        statement = f"SELECT id FROM entries WHERE kind = ? AND parent = ? {which}"
        entry = self._connection.execute(statement, (kind, parent, *map(str, key))).fetchone()
        return None if entry is None else self.row(kind, entry["id"])

    def write(self, kind: str, /, **columns: Any) -> Any:
        """Make a row of a table, or change the one with this ``id``; the row."""
        parent, key = None, None
        if "id" not in columns:
            last = self._connection.execute("SELECT max(id) AS id FROM entries WHERE kind = ?", (kind,)).fetchone()
            parent, key = columns.get(_PARENTS.get(kind, ""), 0), columns.get(_KEYS.get(kind, ""))
            columns = {"id": 1 + (last["id"] or 0), **columns}
        content = json.dumps(columns, default=lambda one: one.name if isinstance(one, Enum) else asdict(one))
        sealed = (kind, columns["id"], parent, None if key is None else str(key), content)
        self._links, self._seal = self._links + 1, _seal(self._seal, *sealed)
        insertion = f"INSERT INTO entries (link, {', '.join(_SEALED)}, seal) VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._connection.execute(insertion, (self._links, *sealed, self._seal))
        self._connection.execute("UPDATE head SET links = ?, seal = ?", (self._links, self._seal))
        vars(self).pop(kind, None)
        return self.row(kind, columns["id"])

    def _rows(self, where: str, *values: Any) -> dict[str, dict[int, Any]]:
        """The rows, by table, that these entries make; each entry is what its seal and the one before it say."""
        before = "(SELECT earlier.seal FROM entries AS earlier WHERE earlier.link = entries.link - 1) AS before"
        columns = f"link, {', '.join(_SEALED)}, seal, {before}"
        chosen = self._connection.execute(f"SELECT {columns} FROM entries WHERE {where} ORDER BY link", values)
        tables: dict[str, dict[int, Any]] = {kind: {} for kind in _ROWS}
        for entry in chosen.fetchall():
            kind, number = entry["kind"], entry["id"]
            if entry["seal"] != _seal(entry["before"] or "", *(entry[name] for name in _SEALED)):
                raise DamagedRow(f"entry {entry['link']} is not what was written ({kind})")
            try:
                fields = json.loads(entry["content"])
                if fields["id"] != number:
                    raise ValueError(f"it calls itself {fields['id']!r}")
                tables[kind].setdefault(number, {}).update(fields)
            except (TypeError, KeyError, ValueError, RecursionError) as error:
                raise DamagedRow(f"entry {entry['link']} is not as this evr writes it: {error}") from None
        return {kind: {number: _row(kind, number, rows[number]) for number in rows} for kind, rows in tables.items()}


def _row(kind: str, number: int, fields: dict[str, Any]) -> Any:
    """A row of its columns, or an error that names the first that is wrong."""
    try:
        return validated(_ROWS[kind], fields)
    except (TypeError, KeyError, ValueError) as error:  # a column, a relation or a method that is not known
        raise DamagedRow(f"row {number} of {kind} is not as this evr writes it: {error}") from None


def _seal(before: str, *sealed: Any) -> str:
    """The seal of an entry is a digest of it and of the seal before it."""
    return hashlib.sha256(json.dumps((before, *sealed), default=repr).encode()).hexdigest()
