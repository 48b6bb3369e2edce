"""``evr ledger``: attempts, verdicts, what false-positive allowance is left. ``evr resume``: continue after a crash."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evr.cli.options import Force, Json, LedgerFile, Quiet, Workers, file_option
from evr.cli.output import as_json, new_certificate, number, say, table
from evr.cli.reporting import Reporting, pair

if TYPE_CHECKING:
    from evr.certification import Attempt, Ledger

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
    columns = [
        "id",
        "release",
        "attempt",
        "state",
        "claim",
        "what_ran",
        "certificate",
        "samples",
        "allowance",
        "started",
    ]
    for a, shown in zip(attempts, listed, strict=True):
        shown |= {"claim": pair(a), "allowance": stated(a.budget, 2) if a.budget else "none"}
        shown["started"] = a.started[:19]
    rows = [[_shown(one[key]) for key in columns] for one in listed]
    table("Attempts", [key.replace("_", " ") for key in columns], rows, quiet=quiet)
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


def resume(
    number: Annotated[
        int | None,
        typer.Argument(metavar="ID", help="Which attempt, where several were interrupted; see `evr ledger`."),
    ] = None,
    output: Annotated[
        Path | None, file_option("Where to write the certificate, instead of where it was to go.", "--output", "-o")
    ] = None,
    force: Force = False,
    ledger: LedgerFile = None,
    workers: Workers = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Continue a verification that was interrupted, killed or cut off; the verdict is the one it would have had.

    If several were interrupted, evr lists them; choose one by its id.

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


def _chosen(ledger: Ledger, number: int | None) -> Attempt:
    waiting = ledger.interrupted()
    if not waiting:
        raise ValueError(f"{ledger.path}: no verification was interrupted")
    if number is None and len(waiting) == 1:
        return waiting[0]
    for attempt in waiting:
        if attempt.id == number:
            return attempt
    ids = ", ".join(str(attempt.id) for attempt in waiting)
    if number is not None:
        raise ValueError(f"attempt {number} was not interrupted; those that were: {ids}")
    table(
        "Interrupted attempts, the latest first",
        ["id", "started", "what ran", "claim", "certificate"],
        [[str(one.id), one.started[:19], ran(one), pair(one), one.options["path"] or "-"] for one in waiting],
    )
    raise ValueError(f"which one? Add its id: {ids}")


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


def _cell(key: str, value: Any) -> str:
    from evr.numbers import stated

    return stated(value, 2) if key in ("allowance", "left") else _shown(value)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
