"""``evr ledger``: attempts, verdicts and what false-positive allowance is left."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

from evr.cli.options import Json, LedgerFile, Quiet
from evr.cli.output import as_json, number, say, table

if TYPE_CHECKING:
    from evr.certification import Attempt

_WIDTH = 110


def command(ledger: LedgerFile = None, json: Json = False, quiet: Quiet = False) -> None:
    """List every attempt with its verdict, and each release with the false-positive allowance that is left.

    Example: evr ledger
    """
    from evr.certification import Ledger
    from evr.numbers import stated

    with Ledger(ledger, create=False) as opened:
        opened.check()
        releases, attempts = opened.releases(), opened.attempts()
        waiting = {attempt.id for attempt in opened.interrupted()}
    names = {r.id: r.name or f"#{r.id}" for r in releases}
    listed = [_attempt(a, names[a.release_id], "interrupted" if a.id in waiting else a.state) for a in attempts]
    summaries = []
    for release in releases:
        total = release.terms.kappa * release.terms.base
        count = sum(a.release_id == release.id for a in attempts)
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
    rows = [
        [
            str(a.id),
            shown["release"],
            str(a.number),
            shown["state"],
            claimed(a),
            ran(a),
            shown["certificate"] or "-",
            _shown(a.samples),
            stated(a.budget, 2) if a.budget else "none",
            a.started[:19],
        ]
        for a, shown in zip(attempts, listed, strict=True)
    ]
    heads = ["id", "release", "attempt", "state", "claim", "what ran", "certificate", "samples", "allowance", "started"]
    table("Attempts", heads, rows, quiet=quiet)
    if not quiet:
        print()
        keys = ["release", "attempts", "allowance", "left", "floor", "output", "created"]
        header = ["left for later attempts" if key == "left" else key for key in keys]
        table("Releases", header, [[_cell(key, s[key]) for key in keys] for s in summaries])
        if sys.stdout.isatty():
            say(
                "allowance: the probability of accepting a false claim, never an epsilon. output: the "
                "one result that a release may let out, counted before its mechanism runs."
            )


def _attempt(attempt: Attempt, release: str, state: str) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "release": release,
        "attempt": attempt.number,
        "epsilon": attempt.epsilon,
        "delta": attempt.delta,
        "tau": attempt.tau,
        "state": state,
        "samples": attempt.samples,
        "allowance": attempt.budget,
        "started": attempt.started,
        "finished": attempt.finished,
        "what_ran": ran(attempt),
        "certificate": attempt.certificate,
        "event": attempt.event_digest[:12],
        "message": attempt.message,
    }


def ran(attempt: Attempt) -> str:
    """What an attempt was about, in the few words that a table holds."""
    from evr.certification.words import describe_event

    words = describe_event(attempt.event, attempt.options["description"])
    return textwrap.shorten(words, _WIDTH, placeholder=" ...")


def claimed(attempt: Attempt) -> str:
    """The pair that an attempt was to prove, as a statement rounds it."""
    from evr.numbers import stated

    return f"({stated(attempt.epsilon)}, {stated(attempt.delta)})"


def _cell(key: str, value: Any) -> str:
    from evr.numbers import stated

    return stated(value, 2) if key in ("allowance", "left") else _shown(value)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
