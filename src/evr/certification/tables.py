"""The tables of the ledger and their rows.

Releases, attempts and outputs are links of one chain: the seal of each is a digest of what it was written with and of
the seal before it, and the chain's head stands by itself. So a row that was changed or is missing shows. A seal is no
signature: it shows damage, not forgery.

A database holds the version of its tables. A ledger of version 4, which has no budgets yet, gets their tables when it
is opened; other versions are refused. Numbers that must come back exactly are stored as hexadecimal floats.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from dp_accounting import NeighboringRelation

from evr import validate
from evr.verification import Terms
from evr.verification.settings import Settings

T = TypeVar("T")
APPLICATION_ID = 0x45565231  # "EVR1": tells a ledger from another program's database
VERSION = 5
ELSEWHERE = "certificate: "
"""The message of an attempt begins so if its certificate went elsewhere than was planned."""
_FORGOTTEN_SECONDS = 600.0  # after which a silent process on another machine is taken for dead

_ID = "id INTEGER PRIMARY KEY, link INTEGER NOT NULL UNIQUE"
TABLES = {
    "head": "one INTEGER PRIMARY KEY CHECK (one = 1), links INTEGER NOT NULL, seal TEXT NOT NULL",
    "releases": f"""{_ID}, key TEXT NOT NULL UNIQUE, name TEXT, kappa TEXT NOT NULL, base TEXT NOT NULL,
        created TEXT NOT NULL, seal TEXT NOT NULL""",
    "attempts": f"""{_ID}, release_id INTEGER NOT NULL REFERENCES releases (id),
        number INTEGER NOT NULL CHECK (number >= 1), entropy TEXT NOT NULL, entropy_is_fresh INTEGER NOT NULL,
        epsilon TEXT NOT NULL, delta TEXT NOT NULL, tau TEXT NOT NULL, log_budget TEXT NOT NULL,
        settings TEXT NOT NULL, relation TEXT NOT NULL, options TEXT NOT NULL, event TEXT NOT NULL,
        event_digest TEXT NOT NULL, software TEXT NOT NULL, started TEXT NOT NULL, seal TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('running', 'accepted', 'rejected', 'failed', 'interrupted')),
        owner TEXT NOT NULL, seen TEXT NOT NULL, finished TEXT, samples INTEGER, message TEXT,
        UNIQUE (release_id, number), UNIQUE (release_id, entropy)""",
    "outputs": """release_id INTEGER PRIMARY KEY REFERENCES releases (id), link INTEGER NOT NULL UNIQUE,
        attempt_id INTEGER NOT NULL REFERENCES attempts (id), owner TEXT NOT NULL, opened TEXT NOT NULL,
        seal TEXT NOT NULL, ending TEXT CHECK (ending IN ('released', 'raised')), ended TEXT""",
    "budgets": f"""{_ID}, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL CHECK (kind IN ('planned', 'adaptive')),
        epsilon TEXT NOT NULL, delta TEXT NOT NULL, relation TEXT NOT NULL, owner TEXT NOT NULL,
        created TEXT NOT NULL, seal TEXT NOT NULL""",
    "spendings": f"""{_ID}, budget_id INTEGER NOT NULL REFERENCES budgets (id),
        attempt_id INTEGER REFERENCES attempts (id), state TEXT NOT NULL CHECK (state IN ('tried', 'spent')),
        number INTEGER NOT NULL CHECK (number >= 1), event TEXT NOT NULL, method TEXT NOT NULL,
        spender TEXT NOT NULL, owner TEXT NOT NULL, moment TEXT NOT NULL, seal TEXT NOT NULL,
        UNIQUE (budget_id, state, number)""",
}
"""The columns of each table, as SQLite declares them."""
BUDGETS = ("budgets", "spendings")
"""The tables that a ledger of version 4 lacks."""
_LATER = {  # columns that change, or that the chain itself writes
    "releases": {"id", "seal"},
    "attempts": {"id", "seal", "state", "owner", "seen", "finished", "samples", "message"},
    "outputs": {"seal", "ending", "ended"},
    "budgets": {"id", "seal"},
    "spendings": {"id", "seal"},
}


class DamagedRow(ValueError):
    """A row that is not what was written."""


@dataclass(frozen=True)
class ReleaseRow:
    """A release.

    Attributes
    ----------
    key
        What its attempts have in common.
    terms
        ``kappa`` and the base of the budgets.
    output
        None before the one output is counted; then, for good, ``"open"`` (its mechanism is running or has crashed),
        ``"released"`` (it returned) or ``"raised"``.
    """

    id: int
    key: str
    name: str | None
    terms: Terms
    created: str
    output: str | None


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
    finished: str | None
    samples: int | None
    message: str | None

    @property
    def budget(self) -> float:
        """The false-positive probability that it may have: none for an exact proof."""
        return 0.0 if self.settings.method in ("strict", "both") else math.exp(self.log_budget)

    @property
    def certificate(self) -> str | None:
        """Where its certificate was written, or is to be; None if it leaves none."""
        if self.message is not None and self.message.startswith(ELSEWHERE):
            return self.message.removeprefix(ELSEWHERE)
        path: str | None = self.options.get("path")
        return path

    @property
    def is_orphan(self) -> bool:
        """Whether its process is gone."""
        return self.state == "running" and not is_alive(self.owner, self.seen)


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


@dataclass(frozen=True)
class Contents:
    """Everything that a ledger counts."""

    releases: list[ReleaseRow]
    attempts: list[Attempt]
    outputs: dict[int, Any]
    budgets: list[BudgetRow]
    spendings: list[Spending]

    def of(self, release: ReleaseRow) -> list[Attempt]:
        """The attempts at a release."""
        return [one for one in self.attempts if one.release_id == release.id]


def seal(*values: Any) -> str:
    """A digest of values, in order."""
    return hashlib.sha256(json.dumps(values, default=repr).encode()).hexdigest()


def _sealed(table: str, row: Any) -> list[Any]:
    """What of a row must not change."""
    return [table, *(row[name] for name in sorted(set(row.keys()) - _LATER[table]))]


def _stored(value: Any) -> Any:
    """A value as a column holds it: ``row_of`` undoes it."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, dict):
        return json.dumps(value)
    return value.name if isinstance(value, NeighboringRelation) else value


def _head(connection: Any) -> tuple[int, str]:
    """How many links the chain has, and the last seal."""
    row = connection.execute("SELECT links, seal FROM head").fetchone()
    if row is None:
        raise DamagedRow("the head of its chain is missing")
    return row["links"], row["seal"]


def append(connection: Any, table: str, row: dict[str, Any]) -> Any:
    """Write a row as the next link of the chain; the row as it is stored."""
    links, before = _head(connection)
    row = {**{name: _stored(value) for name, value in row.items()}, "link": links + 1}
    row["seal"] = seal(before, _sealed(table, row))
    places = ", ".join(f":{column}" for column in row)
    (written,) = connection.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places}) RETURNING *", row
    ).fetchall()
    connection.execute("UPDATE head SET links = ?, seal = ?", (row["link"], row["seal"]))
    return written


def contents(connection: Any) -> Contents:
    """Every row, once the whole chain is checked. The caller holds a transaction."""
    rows = {table: connection.execute(f"SELECT * FROM {table} ORDER BY link").fetchall() for table in _LATER}
    links = sorted(((row["link"], table, row) for table in rows for row in rows[table]), key=lambda x: x[0])
    before = ""
    for place, (link, table, row) in enumerate(links, start=1):
        if link != place:
            raise DamagedRow("a row that was written is missing")
        before_this, before = before, row["seal"]
        if before != seal(before_this, _sealed(table, row)):
            raise DamagedRow(f"row {link} is not what was written ({table})")
    if _head(connection) != (len(links), before):
        raise DamagedRow("a row that was written is missing")
    outputs = {row["release_id"]: row for row in rows["outputs"]}
    releases = [_release(row, outputs.get(row["id"])) for row in rows["releases"]]
    return Contents(
        releases,
        [row_of(Attempt, row) for row in rows["attempts"]],
        outputs,
        [row_of(BudgetRow, row) for row in rows["budgets"]],
        [row_of(Spending, row) for row in rows["spendings"]],
    )


def row_of(kind: type[T], row: Any) -> T:
    """A row as its class, the chain's columns left out."""
    names = [name for name in row.keys() if name not in ("link", "seal")]  # noqa: SIM118, a row iterates over values
    return kind(**{name: _READ[name](row[name]) if name in _READ else row[name] for name in names})


def _release(row: Any, output: Any) -> ReleaseRow:
    terms = Terms(float.fromhex(row["kappa"]), float.fromhex(row["base"]))
    state = None if output is None else output["ending"] or "open"
    return ReleaseRow(row["id"], row["key"], row["name"], terms, row["created"], state)


def parsed(text: str) -> dict[str, Any]:
    """An object that was written as JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DamagedRow(f"{validate.shown(text)} is not an object of JSON")
    return value


_READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("epsilon", "delta", "tau", "log_budget"), float.fromhex),
    **dict.fromkeys(("options", "event", "software"), parsed),
    "settings": lambda text: Settings(**parsed(text)),
    "relation": lambda name: NeighboringRelation[name],
    "entropy": lambda digits: int(digits, 16),
    "entropy_is_fresh": bool,
}
"""How columns are read that do not hold what they mean."""


def columns(table: str) -> list[str]:
    """The columns of a table."""
    return re.findall(r"(?:^|,\s+)(\w+) (?:INTEGER|TEXT)", TABLES[table])


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
