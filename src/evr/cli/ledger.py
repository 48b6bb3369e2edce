"""Commands on the ledger. ``evr ledger``: attempts, verdicts, what false-positive allowance is left. ``evr budget``: an
epsilon that several teams share.
"""

from __future__ import annotations

import os
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from evr._basics.numbers import stated
from evr.cli import options
from evr.cli.output import as_json, pair, say, table

if TYPE_CHECKING:
    pass

_COLUMNS = ("id", "release", "attempt", "state", "claim", "what_ran", "certificate", "samples", "allowance", "started")
_ON_A_TERMINAL = ("id", "release", "attempt", "state", "claim", "what_ran")
_WIDTH = 110  # characters of what ran
_LEGEND = (
    "allowance: the probability of accepting a false claim, never an epsilon; left: for later attempts. output: the "
    "one result that a release may let out, counted before its mechanism runs."
)


def ledger(ledger: options.LedgerFile = None, json: options.Json = False, quiet: options.Quiet = False) -> None:
    """List every attempt with its verdict, and each release with the false-positive allowance that is left.

    Example: evr ledger
    """
    from evr._release.ledger import Ledger
    from evr._wording.statement import describe_event

    with Ledger(ledger, create=False) as opened:
        held = opened.check()
        waiting = {attempt.id for attempt in opened.interrupted()}
    releases, attempts = list(held.releases.values()), list(held.attempts.values())
    names = {one.id: one.name or f"#{one.id}" for one in releases}
    kept = ("id", "epsilon", "delta", "tau", "samples", "started", "finished", "certificate", "message")
    listed = [
        {name: getattr(one, name) for name in kept}
        | {
            "release": names[one.release_id],
            "attempt": one.number,
            "state": "interrupted" if one.id in waiting else one.state,
            "allowance": one.allowance,
            "what_ran": textwrap.shorten(describe_event(one.event, one.description), _WIDTH, placeholder=" ..."),
            "event": one.event_digest[:12],
        }
        for one in attempts
    ]
    summaries: list[dict[str, Any]] = []
    for release in releases:
        total = release.terms.kappa * release.terms.base
        count = sum(one.release_id == release.id for one in attempts)
        summaries.append(
            {
                "release": names[release.id],
                "attempts": count,
                "allowance": total,
                "left": total * 0.5**count,
                "floor": release.terms.base if release.name else None,
                "output": release.output or "none yet",
                "created": release.created,
            }
        )
    if json:
        as_json({"releases": summaries, "attempts": listed})
        return
    for attempt, row in zip(attempts, listed, strict=True):
        allowance = stated(attempt.allowance, 2) if attempt.allowance else "none"
        row |= {"claim": pair(attempt), "allowance": allowance, "started": attempt.started[:19]}
    drawn = sys.stdout.isatty() and not quiet
    columns = _ON_A_TERMINAL if drawn else _COLUMNS
    table("Attempts", [{name: row[name] for name in columns} for row in listed], quiet=quiet)
    if drawn:
        written = [(row["id"], os.path.relpath(row["certificate"])) for row in listed if row["certificate"]]
        table("Certificates", [{"id": number, "certificate": path} for number, path in written])
    if not quiet:
        print()
        table("Releases", [row | {key: stated(row[key], 2) for key in ("allowance", "left")} for row in summaries])
        if sys.stdout.isatty():
            say(_LEGEND)
