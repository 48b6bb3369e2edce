"""``evr resume``: continue a verification after a crash."""

from __future__ import annotations

from evr.cli.attempts import LedgerFile, Workers, tell, watched
from evr.cli.options import Json, Quiet


def command(
    ledger: LedgerFile = None,
    workers: Workers = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Continue the latest verification that was interrupted, killed or cut off; the verdict is the one it would have had.

    Example: `evr resume`
    """
    from evr.certification import Ledger
    from evr.gate import resume

    with Ledger(ledger, create=False) as opened:
        waiting = opened.interrupted()
        path = waiting[0].options.get("path") if waiting else None
        with watched(quiet=quiet or json) as progress:
            certificate = resume(opened, workers=workers, progress=progress)
    tell(certificate, path=path, ledger=ledger, json=json, quiet=quiet)
