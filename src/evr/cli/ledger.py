"""``evr ledger``: attempts, verdicts, what false-positive allowance is left."""

import sys
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any

import evr
from evr._basics.numbers import stated
from evr.cli import options
from evr.cli.output import as_json, pair, say, table

if TYPE_CHECKING:
    from evr._release.journal import AttemptRow

_ON_A_TERMINAL = ("id", "release", "attempt", "state", "claim", "what_ran")
_COLUMNS = (*_ON_A_TERMINAL, "certificate", "samples", "allowance", "started")
_WIDTH = 110  # characters of what ran
_LEGEND = (
    "allowance: the probability of accepting a false claim, never an epsilon; left: for later attempts. output: the "
    "one result that a release may let out, counted before its mechanism runs."
)


def ledger(*, ledger: options.LedgerFile = None, out: options.Out) -> None:
    """List every attempt with its verdict, and each release with the false-positive allowance that is left.

    Example: evr ledger
    """
    with evr.Ledger(ledger, create=False) as opened:
        held = opened.check()
        waiting = {attempt.id for attempt in opened.interrupted()}
    attempts, releases = held.attempts.values(), list[dict[str, Any]]()
    names = {one.id: one.name or f"#{one.id}" for one in held.releases.values()}
    listed = [_row(one) | {"release": names[one.release_id]} for one in attempts]
    for row in listed:
        row |= {"state": "interrupted"} if row["id"] in waiting else {}
    counts = Counter(one.release_id for one in attempts)
    for one in held.releases.values():
        total = one.terms.kappa * one.terms.base
        row = {"release": names[one.id], "attempts": counts[one.id], "allowance": total}
        row |= {"left": total * 0.5 ** counts[one.id], "floor": one.terms.base if one.name else None}
        releases.append(row | {"output": one.output or "none yet", "created": one.created})
    if out.json:
        as_json({"releases": releases, "attempts": listed})
        return
    for attempt, row in zip(attempts, listed, strict=True):
        allowance = stated(attempt.allowance, 2) if attempt.allowance else "none"
        row |= {"claim": pair(attempt), "allowance": allowance, "started": attempt.started[:19]}
    rows = [{name: row[name] for name in _COLUMNS} for row in listed]
    out.counted("Attempts", rows, _ON_A_TERMINAL)
    if not out.quiet:
        print()
        table("Releases", [row | {key: stated(row[key], 2) for key in ("allowance", "left")} for row in releases])
        if sys.stdout.isatty():
            say(_LEGEND)


def _row(attempt: "AttemptRow") -> dict[str, Any]:
    from evr._wording.statement import describe_event

    kept = ("id", "epsilon", "delta", "tau", "samples", "started", "finished", "certificate", "message", "state")
    what_ran = textwrap.shorten(describe_event(attempt.event, attempt.description), _WIDTH, placeholder=" ...")
    row = {name: getattr(attempt, name) for name in (*kept, "allowance")}
    return row | {"attempt": attempt.number, "what_ran": what_ran, "event": attempt.event_digest[:12]}
