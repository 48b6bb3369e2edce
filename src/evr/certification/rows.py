"""Rows of the ledger: releases and attempts, each sealed by a digest of what must not change."""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from dataclasses import dataclass
from typing import Any

from dp_accounting import NeighboringRelation

from evr import validate
from evr.certification.owners import is_alive
from evr.verification import Terms
from evr.verification.settings import Settings

SEALED_RELEASE = ("key", "name", "kappa", "base", "created")
SEALED_ATTEMPT = (
    "release_id",
    "number",
    "entropy",
    "entropy_is_fresh",
    "epsilon",
    "delta",
    "tau",
    "log_budget",
    "method",
    "proposal",
    "options",
    "event",
    "event_digest",
    "software",
    "started",
)
SEALED_OUTPUT = ("release_id", "attempt_id", "owner", "opened")
ELSEWHERE = "certificate: "
"""What the message of an attempt begins with whose certificate went elsewhere than was planned."""


class DamagedRow(ValueError):
    """A row that is not what was written."""


@dataclass(frozen=True)
class ReleaseRow:
    """One row of the table of releases.

    Attributes
    ----------
    key
        What makes attempts belong together.
    terms
        ``kappa`` and the base of the budgets.
    output
        None before the one output is counted; then, for good, ``"open"`` (its mechanism runs, or
        ended without a word), ``"released"`` (it returned) or ``"raised"``.
    """

    id: int
    key: str
    name: str | None
    terms: Terms
    created: str
    output: str | None


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
    def settings(self) -> Settings:
        """How it is verified."""
        return Settings(
            self.method,
            self.proposal,
            self.options["max_samples"],
            self.options["offset"],
            self.options.get("device", "cpu"),
        )

    @property
    def relation(self) -> NeighboringRelation:
        """Which data sets are neighbours; rows of before there was a choice say nothing."""
        return NeighboringRelation[self.options.get("neighboring_relation", "ADD_OR_REMOVE_ONE")]

    @property
    def budget(self) -> float:
        """The false-positive probability that it may have: none where the proof is exact."""
        return 0.0 if self.method in ("strict", "both") else math.exp(self.log_budget)

    @property
    def certificate(self) -> str | None:
        """Where its certificate was written, or is to be; None if it leaves none."""
        if self.message is not None and self.message.startswith(ELSEWHERE):
            return self.message.removeprefix(ELSEWHERE)
        path: str | None = self.options.get("path")
        return path

    @property
    def is_over(self) -> bool:
        """Whether it has a verdict or failed."""
        return self.state in ("accepted", "rejected", "failed")

    @property
    def is_orphan(self) -> bool:
        """Whether its process is gone."""
        return self.state == "running" and not is_alive(self.owner, self.seen)


def seal(values: list[Any]) -> str:
    """A digest of values, in order."""
    return hashlib.sha256(json.dumps(values, default=repr).encode()).hexdigest()


def release_of(row: sqlite3.Row, output: sqlite3.Row | None = None) -> ReleaseRow:
    """A release as it was written, with its output if that is counted."""
    if row["seal"] != seal([row[name] for name in SEALED_RELEASE]):
        raise DamagedRow(f"release {row['id']} is not what was written")
    try:
        terms = Terms(float.fromhex(row["kappa"]), float.fromhex(row["base"]))
    except (ValueError, TypeError, OverflowError) as error:
        raise DamagedRow(f"release {row['id']}: {error}") from None
    state = None if output is None else checked_output(output)["ending"] or "open"
    return ReleaseRow(row["id"], row["key"], row["name"], terms, row["created"], state)


def checked_output(row: sqlite3.Row) -> sqlite3.Row:
    """The row of an output, if it is what was written."""
    if row["seal"] != seal([row[name] for name in SEALED_OUTPUT]):
        raise DamagedRow(f"the output of release {row['release_id']} is not what was written")
    return row


def checked_attempt(row: sqlite3.Row) -> sqlite3.Row:
    """The row of an attempt, if it is what was written."""
    if row["seal"] != seal([row[name] for name in SEALED_ATTEMPT]):
        raise DamagedRow(f"attempt {row['id']} is not what was written")
    return row


def attempt_of(row: sqlite3.Row) -> Attempt:
    """An attempt as it was written."""
    values = dict(checked_attempt(row))
    del values["seal"]
    try:
        for name in ("epsilon", "delta", "tau", "log_budget"):
            values[name] = float.fromhex(values[name])
        values["entropy"] = int(values["entropy"], 16)
    except (ValueError, TypeError, OverflowError) as error:
        raise DamagedRow(f"attempt {row['id']}: {error}") from None
    for name in ("options", "event", "software"):
        values[name] = parsed(values[name])
    values["entropy_is_fresh"] = bool(values["entropy_is_fresh"])
    return Attempt(**values)


def parsed(text: str) -> dict[str, Any]:
    """An object that was written as JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DamagedRow(f"{validate.shown(text)} is not what it holds")
    return value
