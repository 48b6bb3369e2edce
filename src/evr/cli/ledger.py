"""``evr ledger``: attempts, verdicts and what budget is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evr.cli.attempts import LedgerFile
from evr.cli.options import Json, Quiet
from evr.cli.output import as_json, number, table

if TYPE_CHECKING:
    from evr.certification import Attempt


def command(ledger: LedgerFile = None, json: Json = False, quiet: Quiet = False) -> None:
    """List every attempt with its verdict, and each release with the false-positive budget that is left.

    Example: `evr ledger`
    """
    from evr.certification import Ledger

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
                "budget": total,
                "left": total * 0.5**count,
                "floor": release.terms.base if release.name else None,
                "output": release.output or "none",
                "created": release.created,
            }
        )
    if json:
        as_json({"releases": summaries, "attempts": listed})
        return
    header = ["release", "attempt", "epsilon", "claim", "tau", "state", "samples", "budget", "started", "event"]
    table("Attempts", header, [[_shown(a[key]) for key in header] for a in listed], quiet=quiet)
    if not quiet:
        print()
        header = ["release", "attempts", "budget", "left", "floor", "output", "created"]
        table("Releases", header, [[_shown(s[key]) for key in header] for s in summaries])


def _attempt(attempt: Attempt, release: str, state: str) -> dict[str, Any]:
    return {
        "release": release,
        "attempt": attempt.number,
        "epsilon": attempt.epsilon,
        "claim": attempt.claim,
        "tau": attempt.tau,
        "state": state,
        "samples": attempt.samples,
        "budget": attempt.budget,
        "started": attempt.started,
        "finished": attempt.finished,
        "event": attempt.event_digest[:12],
        "message": attempt.message,
    }


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
