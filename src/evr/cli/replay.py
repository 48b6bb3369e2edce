"""``evr replay``: do again what a certificate says, and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evr.cli import REJECTED
from evr.cli.options import PATIENCE, Json, MaxSeconds, Quiet, Workers
from evr.cli.output import as_json, say

CertificateFile = Annotated[Path, typer.Argument(metavar="FILE", help="A certificate (JSON).")]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Verify the claim with new entropy instead: an independent check.")
]

_SHOWN = 20


def command(
    file: CertificateFile,
    fresh: Fresh = False,
    workers: Workers = None,
    max_seconds: MaxSeconds = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw the samples of a certificate again and compare every field; name those that differ.

    Exit code 0: all agrees and the claim was accepted; 3: something differs, the claim was rejected, or other software
    drew the samples and they cannot be drawn again here; 2: damaged.

    Example: evr replay examples/dpsgd.certificate.json
    """
    from evr.certification import Certificate, replay

    certificate = Certificate.load(file)
    progress, patience = not (quiet or json), PATIENCE if max_seconds is None else max_seconds
    found = replay(certificate, fresh=fresh, workers=workers, progress=progress, max_seconds=patience)
    verified = found.verification is not None and found.verification.accepted
    if json:
        as_json(
            {
                "agrees": found.agrees,
                "fresh": fresh,
                "verdict": certificate.verdict,
                "replayed": None if found.verification is None else found.verification.verdict.value,
                "mismatches": [
                    {"field": m.field, "recorded": m.recorded, "recomputed": m.recomputed} for m in found.mismatches
                ],
                "notes": list(found.notes),
                "undecided": found.undecided,
            }
        )
    else:
        for mismatch in found.mismatches[:_SHOWN]:
            say(str(mismatch))
        if (more := len(found.mismatches) - _SHOWN) > 0:
            say(f"and {more:,} more; --json lists them all")
        if found.undecided is not None:
            say(f"{file}: could not be replayed here: {found.undecided}.")
        elif not found.agrees:
            say(f"{file}: does NOT agree with its replay: do not rely on it.")
        elif fresh:
            drawn = 0 if found.verification is None else found.verification.samples
            how = f"{drawn:,} new samples" if drawn else "a new verification, which needs no samples,"
            gives = "give" if drawn else "gives"
            say(f"{file}: {how} {gives} the same verdict, {certificate.verdict}.")
        else:
            samples = f"{certificate.verification.samples:,} samples drawn again"
            again = {
                "strict": "its integers came out the same",
                "both": f"its integers came out the same, {samples}",
            }.get(certificate.verification.method, samples)
            say(f"{file}: agrees with its replay ({again}); the verdict is {certificate.verdict}.")
        if not quiet and found.undecided is None:
            for note in found.notes:
                say(f"note: {note}")
    if not (found.agrees and (verified or certificate.guarantee is not None)):
        raise typer.Exit(REJECTED)
