"""The tables of a ledger, and the journal that they are written in.

A journal only grows: an entry makes a row of a table, or changes some of its columns. The seal of an entry is a digest
of it and of the seal before it, and the last seal is also in the head. So a changed or missing entry shows; this shows
damage, not forgery. The time at which an attempt was last seen alive stands beside the journal, and is replaced.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from dp_accounting import NeighboringRelation

from evr.verification import Terms
from evr.verification.settings import Settings

VERSION = 6
_FORGOTTEN_SECONDS = 600.0  # after which a silent process on another machine is taken for dead

DECLARED = {
    "head": "version INTEGER NOT NULL, links INTEGER NOT NULL, seal TEXT NOT NULL",
    "entries": "link INTEGER PRIMARY KEY, kind TEXT NOT NULL, content TEXT NOT NULL, seal TEXT NOT NULL",
    "signs_of_life": "attempt INTEGER PRIMARY KEY, seen TEXT NOT NULL",
}
"""What the database holds, as SQLite declares it; ``content`` is JSON."""


class DamagedRow(ValueError):
    """A row that is not what was written."""


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
    owner: str
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
    owner: str
    moment: str


_ROWS: dict[str, Any] = {"releases": ReleaseRow, "attempts": Attempt, "budgets": BudgetRow, "spendings": Spending}
_READ: dict[str, Callable[[Any], Any]] = {
    "terms": lambda fields: Terms(**fields),
    "settings": lambda fields: Settings(**fields),
    "relation": lambda name: NeighboringRelation[name],
}
"""How columns are read that JSON does not hold as they are."""


class Journal:
    """Everything that a ledger counts, at one moment: rows by their id, oldest first. The whole chain is checked.
    ``write`` adds to it, inside of the transaction that it was read in.
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
            self._links += 1
            self._seal = seal(self._seal, row["kind"], row["content"])
            if row["link"] != self._links:
                raise DamagedRow("an entry that was written is missing")
            if row["seal"] != self._seal:
                raise DamagedRow(f"entry {row['link']} is not what was written ({row['kind']})")
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
        self._links += 1
        self._seal = seal(self._seal, kind, content)
        entry = (self._links, kind, content, self._seal)
        self._connection.execute("INSERT INTO entries (link, kind, content, seal) VALUES (?, ?, ?, ?)", entry)
        self._connection.execute("UPDATE head SET links = ?, seal = ?", (self._links, self._seal))
        return self._enter(kind, json.loads(content))

    def _enter(self, kind: str, columns: dict[str, Any]) -> Any:
        table: dict[int, Any] = getattr(self, kind)
        columns |= {name: read(columns[name]) for name, read in _READ.items() if name in columns}
        known = table.get(columns["id"])
        row = table[columns["id"]] = _ROWS[kind](**columns) if known is None else replace(known, **columns)
        return row


def seal(*texts: Any) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _started(process: int) -> str:
    """When a process started, in the kernel's ticks; empty if the system does not say."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
        return text.rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def this_process() -> str:
    """This process: machine, number, and when it started, since numbers are used again."""
    return f"{socket.gethostname()} {os.getpid()} {_started(os.getpid())}"


def is_alive(owner: str, seen: str) -> bool:
    """Whether the process that wrote a row still runs; on another machine, whether it was seen lately."""
    try:
        host, process, started = owner.split(" ")
        if host == socket.gethostname() and os.name == "posix":
            os.kill(int(process), 0)
            return _started(int(process)) == started
        silent = datetime.now(UTC) - datetime.fromisoformat(seen)
        return silent.total_seconds() < _FORGOTTEN_SECONDS
    except PermissionError:
        return True
    except (ProcessLookupError, ValueError, TypeError, OverflowError, AttributeError):
        return False
