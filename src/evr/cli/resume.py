"""``evr resume``: continue a verification after a crash."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evr.cli.files import Force, new_certificate
from evr.cli.options import Json, LedgerFile, Quiet, Workers, file_option
from evr.cli.output import table
from evr.cli.reporting import Reporting

if TYPE_CHECKING:
    from evr.certification import Attempt, Ledger

Number = Annotated[
    int | None,
    typer.Argument(metavar="ID", help="Which attempt, where several were interrupted; `evr ledger` shows them too."),
]
Output = Annotated[
    Path | None, file_option("--output", "-o", help="Where to write the certificate, instead of where it was to go.")
]


def command(
    number: Number = None,
    output: Output = None,
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
    from evr.certification import Ledger
    from evr.gate import resume

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
            certificate = resume(opened, attempt=attempt.id, path=output, workers=workers, progress=not told.silent)
    told.tell(certificate)


def _chosen(ledger: Ledger, number: int | None) -> Attempt:
    from evr.cli.ledger import claimed, ran

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
        [[str(one.id), one.started[:19], ran(one), claimed(one), one.options["path"] or "-"] for one in waiting],
    )
    raise ValueError(f"which one? Add its id: {ids}")
