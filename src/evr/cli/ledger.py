"""``evr ledger``: attempts, verdicts, what false-positive allowance is left. ``evr resume``: continue after a crash."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evr.cli import REJECTED, options
from evr.cli.output import as_json, new_certificate, say, table
from evr.cli.reporting import Reporting, pair

if TYPE_CHECKING:
    from evr.certification import Attempt, Ledger

_WIDTH = 110


def command(ledger: options.LedgerFile = None, json: options.Json = False, quiet: options.Quiet = False) -> None:
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
    summaries: list[dict[str, Any]] = []
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
    columns = ("release", "attempt", "state", "claim", "what_ran", "certificate", "samples", "allowance", "started")
    rows = []
    for a, one in zip(attempts, listed, strict=True):
        allowance = stated(a.budget, 2) if a.budget else "none"
        one |= {"claim": pair(a), "allowance": allowance, "started": a.started[:19]}
        rows.append({key: one[key] for key in ("id", *columns)})
    table("Attempts", rows, quiet=quiet)
    if not quiet:
        print()
        shown = [one | {key: stated(one[key], 2) for key in ("allowance", "left")} for one in summaries]
        table("Releases", shown)
        if sys.stdout.isatty():
            say(
                "allowance: the probability of accepting a false claim, never an epsilon; left: for later attempts. "
                "output: the one result that a release may let out, counted before its mechanism runs."
            )


def resume(
    number: Annotated[
        int | None,
        typer.Argument(metavar="ID", help="Which attempt, where several were interrupted; see `evr ledger`."),
    ] = None,
    output: Annotated[
        Path | None, options.file("Where to write the certificate, instead of the planned file.", "--output", "-o")
    ] = None,
    force: options.Force = False,
    ledger: options.LedgerFile = None,
    workers: options.Workers = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Continue a verification that was interrupted, killed or cut off; the verdict is the one it would have had.

    The samples that it had drawn are drawn again. If several were interrupted, choose one by its id, which `evr ledger`
    shows.

    Example: evr resume
    """
    from evr import gate
    from evr.certification import Ledger

    with Ledger(ledger, create=False) as opened:
        attempt = _chosen(opened, number)
        planned = attempt.options["path"]
        path = output or (None if planned is None else Path(planned))
        if path is not None:
            # it was allowed when the attempt began
            replaces = output is None and attempt.options.get("replaces", False)
            new_certificate(path, force=force or replaces)
        told = Reporting(path, ledger, json=json, quiet=quiet)
        with told.working(f"Continuing attempt {attempt.id}."):
            certificate = gate.resume(
                opened, attempt=attempt.id, path=output, workers=workers, progress=not told.silent
            )
    told.tell(certificate)
    if not certificate.accepted:
        raise typer.Exit(REJECTED)


def _chosen(ledger: Ledger, number: int | None) -> Attempt:
    waiting = ledger.interrupted()
    if not waiting:
        raise ValueError(f"{ledger.path}: no verification was interrupted")
    chosen = [one for one in waiting if number in (None, one.id)]
    if len(chosen) == 1:
        return chosen[0]
    ids = ", ".join(str(attempt.id) for attempt in waiting)
    if number is not None:
        raise ValueError(f"attempt {number} was not interrupted; those that were: {ids}")
    raise ValueError(f"which one? Add its id: {ids}; `evr ledger` says what they are about")


def _attempt(attempt: Attempt, release: str, state: str) -> dict[str, Any]:
    from evr.certification.words import describe_event

    words = describe_event(attempt.event, attempt.options["description"])
    kept = ("id", "epsilon", "delta", "tau", "samples", "started", "finished", "certificate", "message")
    return {name: getattr(attempt, name) for name in kept} | {
        "release": release,
        "attempt": attempt.number,
        "state": state,
        "allowance": attempt.budget,
        "what_ran": textwrap.shorten(words, _WIDTH, placeholder=" ..."),
        "event": attempt.event_digest[:12],
    }
